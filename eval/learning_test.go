package eval

import (
	"math"
	"slices"
	"testing"
)

// By hand: scratch and an encoder, two seeds, three points. Scratch ends at 60 and 80, of which
// 95 % are 57 and 76.
func TestCompareCurves(t *testing.T) {
	steps := []float64{100, 200, 300}
	curve := func(init string, seed uint64, values ...float64) LearningCurve {
		return LearningCurve{Initialisation: init, Fraction: 0.1, Fold: 1, Seed: seed, Steps: steps, Values: values}
	}
	curves := []LearningCurve{
		curve("puzzle", 1, 50, 64, 66), curve("scratch", 1, 20, 40, 60), curve("puzzle", 2, 40, 60, 70),
		curve("scratch", 2, 40, 60, 80), curve("alone", 3, 1, 1, 1),
	}
	rows := CompareCurves(curves, "scratch")
	if len(rows) != 3 || rows[0].Initialisation != "scratch" || rows[1].Initialisation != "puzzle" ||
		rows[2].Gain.N != 0 {
		t.Fatalf("%+v", rows)
	}
	scratch, puzzle := rows[0], rows[1]
	// mean heights: (20+40)/4 + (40+60)/4 = 40 and 60; 61 and 57.5
	if scratch.Area.Mean != 50 || puzzle.Area.Mean != 59.25 || scratch.Last.Mean != 70 || puzzle.Last.Mean != 68 {
		t.Errorf("heights %v and %v, last values %v and %v", scratch.Area, puzzle.Area, scratch.Last, puzzle.Last)
	}
	// scratch: 57 lies at 285, 76 at 280. The encoder's run reaches 57 at 150, and never 76.
	if math.Abs(scratch.Steps.Mean-282.5) > 1e-9 || puzzle.Steps.Infinite != 1 ||
		math.Abs(puzzle.Steps.Mean-150) > 1e-9 {
		t.Errorf("steps %v and %v", scratch.Steps, puzzle.Steps)
	}
	// gains of 21 and -2.5: mean 9.25, t = 9.25 / (23.5 / 2)
	if math.Abs(puzzle.Gain.Mean-9.25) > 1e-9 || math.Abs(puzzle.Test.Statistic-9.25/11.75) > 1e-9 ||
		puzzle.Test.Pairs != 2 || puzzle.Holm != puzzle.Test.P {
		t.Errorf("gain %v, test %+v, Holm %v", puzzle.Gain, puzzle.Test, puzzle.Holm)
	}
	if !math.IsNaN(scratch.Test.P) {
		t.Errorf("scratch was tested against itself: %v", scratch.Test)
	}
	// By hand: a longer run, whose points lie elsewhere, is compared over 100 to 300, where it has
	// 45 at 150, 55 at 250 and, between two points, 40 at 100 and 58.75 at 300: its mean height
	// there is (42.5*50 + 50*100 + 56.875*50) / 200 = 49.84375, and scratch's 40. A run that ends
	// where the other begins has no step in common with it.
	unscored := CompareCurves([]LearningCurve{curve("scratch", 1, 1, 2, math.NaN())}, "scratch")[0]
	if unscored.Shared {
		t.Errorf("a curve without a last value is taken for one of a shared draw: %+v", unscored)
	}
	longer := curve("longer", 1, 35, 45, 55, 70)
	longer.Steps = []float64{50, 150, 250, 450}
	short := curve("short", 1, 30, 35)
	short.Steps = []float64{50, 100}
	rows = CompareCurves([]LearningCurve{curves[1], longer, short}, "scratch")
	if got := rows[1].Gain; got.N != 1 || math.Abs(got.Mean-9.84375) > 1e-9 {
		t.Errorf("a longer run's gain is %v", got)
	}
	if got := rows[2].Gain; got.N != 0 {
		t.Errorf("curves with nothing in common have a gain of %v", got)
	}
	at, mean := MeanCurve(curves[:4])
	if !slices.Equal(at, steps) || !slices.Equal(mean, []float64{37.5, 56, 69}) {
		t.Errorf("the mean curve is %v at %v", mean, at)
	}
}
