package eval

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// drawnRuns are three folds with seeds 1, 2 and 4, of which 1 and 4 share a draw: two test cases a
// fold, and gains over scratch that are given by fold and seed, in points.
func drawnRuns(draws bool, gains map[int]map[uint64]float64) (runs []Trial) {
	base := map[uint64]float64{1: 0.70, 2: 0.60, 4: 0.72}
	for _, fold := range []int{1, 2, 3} {
		for _, seed := range []uint64{1, 2, 4} {
			of, there := gains[fold][seed]
			for _, name := range []string{"scratch", "puzzle"} {
				if !there && name != "scratch" {
					continue
				}
				gain, dsc := of, base[seed]+0.01*float64(fold)*float64(seed)
				if name == "puzzle" {
					dsc += gain / 100
				} else {
					gain = 0
				}
				apart := 0.1 + 0.01*math.Sin(float64(fold)+5*float64(seed)+gain) // dsc is the mean
				r := Trial{Initialisation: name, Fraction: 0.1, Fold: fold, Seed: seed, Scores: []Score{
					{Case: fmt.Sprint(fold, "a"), Label: 1, DSC: dsc - apart},
					{Case: fmt.Sprint(fold, "b"), Label: 1, DSC: dsc + apart}}}
				if draws {
					r.Draw = (seed-1)%3 + 1
				}
				runs = append(runs, r)
			}
		}
	}
	return runs
}

var drawnGains = map[int]map[uint64]float64{1: {1: 1, 2: 3, 4: 2}, 2: {1: 0, 2: 2, 4: 4}, 3: {1: -1, 2: 1, 4: 0}}

// The gains of seeds 1 and 4, of one draw, are averaged: 1.5, 3; 2, 2; -0.5, 1. By Python's
// statistics: mean 1.5, SD 1.1832159566, so t = 1.5 / (SD / sqrt 6) = 3.1052950171 of six, where
// nine pairs would have been tested.
func TestSeedsOfOneDrawCountOnce(t *testing.T) {
	f, err := Folds(drawnRuns(true, drawnGains), FoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := f.Cells[0][1]
	if d := cmp.Diff([]float64{1.5, 3, 2, 2, -0.5, 1}, c.Gains, cmpopts.EquateApprox(0, 1e-9)); d != "" {
		t.Fatal(d)
	}
	if c.Test.Pairs != 6 || math.Abs(c.Test.Statistic-3.1052950171) > 1e-8 || c.Comparison.Runs != 9 ||
		c.Ranks.Pairs > 6 || math.Abs(c.Gain.SD-1.1832159566) > 1e-8 {
		t.Errorf("%+v", c)
	}
	// scratch: 70 + f and 72 + 4f of seeds 1 and 4, 60 + 2f of seed 2
	if d := cmp.Diff(Summarise([]float64{73.5, 62, 76, 64, 78.5, 66}), f.Cells[0][0].Spread,
		cmpopts.EquateApprox(0, 1e-9)); d != "" || f.Cells[0][0].Runs != 9 {
		t.Errorf("%d runs: %s", f.Cells[0][0].Runs, d)
	}
	// a test case is described by its mean over the replicates, as before
	if cases := c.Cases; cases.Higher != 6 {
		t.Errorf("cases: %+v", cases)
	}
	pilots, _, err := Pilots(drawnRuns(true, drawnGains), 1, FoldOptions{}, PowerOptions{})
	if err != nil || pilots[0].Gain.N != 6 || math.Abs(pilots[0].Gain.SD-1.1832159566) > 1e-8 {
		t.Errorf("%+v, %v", pilots, err)
	}
}

// A seed whose other run is missing makes no pair, and its partner in the draw stands alone.
func TestDrawsOfSomeRuns(t *testing.T) {
	pairs, err := Pairs(drawnRuns(true, map[int]map[uint64]float64{1: {1: 1, 2: 3, 4: 2}, 2: {4: 4}, 3: {2: 1}}),
		"puzzle", FoldOptions{})
	var got [][]float64
	for _, p := range pairs {
		got = append(got, []float64{float64(p.Fold), float64(p.Seed), float64(p.Runs), math.Round(1e6*p.Mean()) / 1e6})
	}
	// seed 4 of fold 2 stands for the draw of seed 1, which scratch alone has
	want := [][]float64{{1, 1, 2, 1.5}, {1, 2, 1, 3}, {2, 1, 1, 4}, {3, 2, 1, 1}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
}

// What is compared is the same with and without draws where no two seeds share one, and where the
// runs of a draw are averaged by hand.
func TestDrawsChangeNothingElse(t *testing.T) {
	two := map[int]map[uint64]float64{}
	byHand := map[int]map[uint64]float64{}
	for fold, gains := range drawnGains {
		two[fold] = map[uint64]float64{1: gains[1], 2: gains[2]}
		byHand[fold] = map[uint64]float64{1: (gains[1] + gains[4]) / 2, 2: gains[2]}
	}
	compared := func(draws bool, gains map[int]map[uint64]float64, seeds ...uint64) (all []any) {
		runs := slices.DeleteFunc(drawnRuns(draws, gains),
			func(r Trial) bool { return !slices.Contains(seeds, r.Seed) })
		f, err := Folds(runs, FoldOptions{})
		if err != nil {
			t.Fatal(err)
		}
		fit, err := Mixed(runs, FoldOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c := f.Cells[0][1]
		return []any{c.Gains, c.Test, c.Bootstrap, c.Ranks, fit.Effects[1]}
	}
	if d := cmp.Diff(compared(false, two, 1, 2), compared(true, two, 1, 2), cmpopts.EquateNaNs()); d != "" {
		t.Error(d)
	}
	with, hand := compared(true, drawnGains, 1, 2, 4), compared(false, byHand, 1, 2)
	with[2], hand[2] = nil, nil // the bootstrap draws cases, which are others
	if d := cmp.Diff(hand[:4], with[:4], cmpopts.EquateApprox(0, 1e-9), cmpopts.EquateNaNs()); d != "" {
		t.Error(d)
	}
	if effect := with[4].(Effect); math.Abs(effect.Estimate-1.5) > 1e-6 {
		t.Errorf("the model's effect is %v", effect)
	}
}

// By Python's statistics: scratch has 70 + f and 72 + 4f of seeds 1 and 4, whose differences 5, 8,
// 11 have an SD of 3; the draws of seeds 1 and 2 have 71 and 62, 72 and 64, 73 and 66, whose
// variances 40.5, 32 and 24.5 have the mean 32 1/3.
func TestNoise(t *testing.T) {
	noise, err := NoiseOf(drawnRuns(true, drawnGains), FoldOptions{})
	if err != nil || len(noise) != 2 {
		t.Fatalf("%+v, %v", noise, err)
	}
	want := Noise{Initialisation: "scratch", Fraction: 0.1, Training: 3 / math.Sqrt2, Differences: 3,
		Draws: math.Sqrt(97. / 3), Runs: 6}
	if d := cmp.Diff(want, noise[0], cmpopts.EquateApprox(0, 1e-9)); d != "" {
		t.Error(d)
	}
	if noise, err := NoiseOf(drawnRuns(false, drawnGains), FoldOptions{}); len(noise) > 0 || err != nil {
		t.Errorf("without draws: %+v, %v", noise, err)
	}
}

// Curves of seeds 1 and 4 of a draw: gains in height of 1 and 3, of seed 2 of 5.
func TestCurvesOfOneDraw(t *testing.T) {
	var curves []LearningCurve
	for seed, gain := range map[uint64]float64{1: 1, 2: 5, 4: 3} {
		for name, add := range map[string]float64{"scratch": 0, "puzzle": gain} {
			curves = append(curves, LearningCurve{Initialisation: name, Fraction: 1, Fold: 1, Seed: seed,
				Draw: (seed-1)%3 + 1, Steps: []float64{1, 2}, Values: []float64{50 + add, 60 + add}})
		}
	}
	puzzle := CompareCurves(curves, "scratch")[1]
	if puzzle.Gain.N != 2 || math.Abs(puzzle.Gain.Mean-3.5) > 1e-9 || puzzle.Runs != 3 || puzzle.Last.N != 2 ||
		!puzzle.Shared {
		t.Errorf("%+v", puzzle)
	}
}
