package volume

import "testing"

// What lies 1024 above Hounsfield units is told by the window, or by the foreground.
func TestAboveHU(t *testing.T) {
	for _, c := range []struct {
		p    Preparation
		want bool
	}{
		{DefaultPreparation(), false},
		{Preparation{Window: [2]float64{899, 1299}}, true},
		{Preparation{Intensity: CTPercentiles, Foreground: [4]float64{-50, 300, 80, 60}}, false},
		{Preparation{Intensity: CTPercentiles, Foreground: [4]float64{974, 1324, 1104, 60}}, true},
		{Preparation{Intensity: CTPercentiles}, false},
		{Preparation{Modality: ModalityMR, Intensity: CTWindow, Window: [2]float64{500, 3000}}, false},
		{Preparation{Modality: "OT", Intensity: ZScore}, false},
	} {
		if got := c.p.AboveHU(); got != c.want {
			t.Errorf("%+v: %v", c.p, got)
		}
	}
}
