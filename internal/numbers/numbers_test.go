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
