package dataset_test

import (
	"fmt"
	"log"

	"github.com/voxsaw/voxsaw/volume/dataset"
)

// Divide seven cases into three folds. Cases of one patient stay together.
func ExampleFolds() {
	cases := []string{"case_1", "case_2", "case_3", "case_4", "case_5", "case_6", "case_7"}
	patients := dataset.Patients{"case_2": "B", "case_5": "B"}
	folds, err := dataset.Folds(dataset.FoldsConsecutive, cases, patients, 3, 0)
	if err != nil {
		log.Fatal(err)
	}
	for n, fold := range folds {
		fmt.Printf("fold %d trains on %d cases and tests on %v\n", n+1, len(fold.Train), fold.Val)
	}
	// Output:
	// fold 1 trains on 4 cases and tests on [case_1 case_2 case_5]
	// fold 2 trains on 5 cases and tests on [case_3 case_4]
	// fold 3 trains on 5 cases and tests on [case_6 case_7]
}

// Draw nested subsets: the smaller one lies within the larger.
func ExampleNested() {
	cases := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	subsets, err := dataset.Nested(cases, []float64{0.2, 0.5}, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(subsets[0]), "and", len(subsets[1]), "of", len(cases))
	// Output: 2 and 5 of 10
}
