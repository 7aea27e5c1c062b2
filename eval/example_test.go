package eval_test

import (
	"fmt"
	"log"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/volume"
)

// Two label maps on a grid of 4 x 4 x 1 voxels of 1 x 1 x 5 mm: the prediction finds three of the
// four voxels of the spleen, and one that is none.
func ExampleCompare() {
	grid := volume.Grid{Shape: [3]int{4, 4, 1}, Affine: volume.Scaling([3]float64{1, 1, 5})}
	reference := &volume.LabelMap{Grid: grid, Names: map[uint16]string{2: "spleen"}, Labels: []uint16{
		0, 0, 0, 0,
		0, 2, 2, 0,
		0, 2, 2, 0,
		0, 0, 0, 0,
	}}
	prediction := &volume.LabelMap{Grid: grid, Labels: []uint16{
		0, 0, 0, 0,
		0, 2, 2, 2,
		0, 2, 0, 0,
		0, 0, 0, 0,
	}}
	scores, err := eval.Compare("case_01", prediction, reference, eval.DefaultOptions())
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range scores {
		fmt.Printf("%s, label %d (%s): DSC %.2f, HD95 %.2f mm, NSD at %g mm %.2f, %+.3f ml\n",
			s.Case, s.Label, s.Name, s.DSC, s.HD95, s.Tolerance, s.NSD, s.VolumeDifference())
	}
	// Output: case_01, label 2 (spleen): DSC 0.75, HD95 0.85 mm, NSD at 2 mm 1.00, +0.000 ml
}
