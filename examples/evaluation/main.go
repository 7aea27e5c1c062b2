// Command evaluation adds a metric to those of a score, the Jaccard index, and scores a made-up
// label map by it.
package main

import (
	"fmt"
	"log"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/volume/phantom"
)

// The Jaccard index follows from the Dice coefficient: J = D / (2 - D).
func init() {
	eval.Register("jaccard", true, 1, func(s eval.Score) float64 { return s.DSC / (2 - s.DSC) })
}

func main() {
	_, reference, err := phantom.New(1, phantom.Options{Shape: [3]int{28, 24, 20}})
	if err != nil {
		log.Fatal(err)
	}
	_, prediction, err := phantom.New(1, phantom.Options{Shape: [3]int{28, 24, 20}})
	if err != nil {
		log.Fatal(err)
	}
	for n, label := range prediction.Labels { // half of the liver is not found
		if label == 2 && n%2 == 0 {
			prediction.Labels[n] = 0
		}
	}
	scores, err := eval.Compare("patient", prediction, reference, eval.Options{Labels: []string{"2"}, Overlap: true})
	if err != nil {
		log.Fatal(err)
	}
	jaccard, err := eval.MetricNamed("jaccard")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %.1f\n", scores[0].Name, jaccard.Of(scores[0]))
}
