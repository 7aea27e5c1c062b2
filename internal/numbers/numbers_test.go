package numbers

import (
	"math"
	"testing"
)

func TestFinite(t *testing.T) {
	for _, x := range []float64{0, -1, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		if !Finite(x) || !Finite(float32(1)) {
			t.Errorf("%g is finite", x)
		}
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if Finite(x) || Finite(float32(x)) {
			t.Errorf("%g is not finite", x)
		}
	}
}

func TestExtents(t *testing.T) {
	if got := Extents([]int{64, 48, 32}) + " " + Extents([]float64{1, 1, 2.5}); got != "64x48x32 1x1x2.5" {
		t.Error(got)
	}
}

func TestCount(t *testing.T) {
	if got := Count(1, "fold") + ", " + Count(2, "fold") + ", " + Count(0, "fold") + ", " +
		Count(3, "series", "series"); got != "1 fold, 2 folds, 0 folds, 3 series" {
		t.Error(got)
	}
}

func TestList(t *testing.T) {
	if got := List([]int{1, 3, 4}) + " " + List([]string{"a"}) + List([]float64{}); got != "1, 3, 4 a" {
		t.Error(got)
	}
}
