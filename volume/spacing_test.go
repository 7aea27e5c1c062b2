package volume

import (
	"math"
	"testing"
)

func TestRange(t *testing.T) {
	r := Range{Min: [3]float64{0.8, 0.8, 4}, Max: [3]float64{1, 1, 4}}
	for _, c := range []struct {
		spacing [3]float64
		axes    int
	}{
		{[3]float64{0.9, 0.9, 4}, 0}, {[3]float64{0.64, 1.25, 5}, 0}, {[3]float64{0.63, 1, 4}, 1},
		{[3]float64{0.9, 1.26, 2}, 2},
		{[3]float64{0.9, 0.9, 3.1}, 1}, {[3]float64{math.NaN(), 0.9, 4}, 1},
	} {
		if axes := r.Outside(c.spacing); len(axes) != c.axes {
			t.Errorf("%v: outside along %v", c.spacing, axes)
		}
	}
	if got := r.String(); got != "0.8 to 1 x 0.8 to 1 x 4 mm" {
		t.Error(got)
	}
	if axes := r.Beyond(Range{Min: [3]float64{0.5, 1, 4}, Max: [3]float64{0.9, 1, 6}}); len(axes) != 2 {
		t.Errorf("beyond along %v", axes)
	}
	if all, known := (Range{}).With([3]float64{1, 1, 0}); known {
		t.Errorf("nothing is known along an axis: %v", all)
	}
	if all, known := r.With([3]float64{0, 2, 0}); !known || all.Min != [3]float64{0.8, 2, 4} ||
		all.Max != [3]float64{1, 2, 4} {
		t.Errorf("%v, %v", all, known)
	}
}

// The values are numpy's: numpy.percentile(spacings, 50, 0), as nnU-Net takes it.
func TestMedianSpacing(t *testing.T) {
	for _, c := range []struct {
		spacings [][3]float64
		want     [3]float64
	}{
		{[][3]float64{{1, 2, 3}}, [3]float64{1, 2, 3}},
		{[][3]float64{{0.7, 0.7, 5}, {0.9, 0.8, 1}}, [3]float64{0.8, 0.75, 3}},
		{[][3]float64{{0.7, 0.7, 5}, {0.9, 0.8, 1}, {0.8, 0.5, 2.5}}, [3]float64{0.8, 0.7, 2.5}},
		{[][3]float64{{float64(float32(0.7)), 0.9765625, 1}}, [3]float64{0.7, 0.9765625, 1}},
	} {
		if got := MedianSpacing(c.spacings); got != c.want {
			t.Errorf("%v: %v, want %v", c.spacings, got, c.want)
		}
	}
}
