package experiment

import (
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/eval"
)

// A label that no test case of a run was given, though references show it, is said; one that is in
// no reference is not.
func TestLabelsPredictedNowhere(t *testing.T) {
	score := func(name string, label uint16, predicted, reference float64) eval.Score {
		return eval.Score{Case: "c", Label: label, Name: name, Predicted: predicted, Reference: reference}
	}
	r := Scored{Runs: []eval.Trial{
		{Initialisation: "scratch", Fraction: 0.1, Fold: 1, Seed: 1, Scores: []eval.Score{score("liver", 1, 3, 4), score("cord", 2, 0, 1), score("cord", 2, 0, 0), score("", 3, 0, 0), score("", 4, 0, 1)}},
		{Initialisation: "scratch", Fraction: 0.1, Fold: 2, Seed: 1, Scores: []eval.Score{score("liver", 1, 3, 4), score("cord", 2, 0, 1), score("cord", 2, 1, 1), score("", 4, 1, 1)}},
	}}
	got := r.Warnings()
	if len(got) != 2 || !strings.HasPrefix(got[0], "cord was predicted in no voxel of any test case in 1 of 2 runs, though references show it (scratch, 10 % of the cases, fold 1, seed 1)") || !strings.HasPrefix(got[1], "label 4 was") {
		t.Errorf("%q", got)
	}
}
