package puzzle2d

import (
	"math"
	"testing"
)

// A fine-tuning shows photographs in gray that are asked for so, with both tasks: then colours
// differ by their means alone.
func TestFinetuningShowsGray(t *testing.T) {
	store, root := vocOf(t, nil)
	_, data := roles(t, store, OnTrain)
	for _, gray := range []float64{0, 1} {
		m, d := smallClassify(), smallDetect(root)
		m.Input.Gray, d.Input.Gray = gray, gray
		m, d = resolvedFor(t, m, store, OnTrain), resolvedFor(t, d, store, OnTrain)
		marks, err := (&multilabelLearner{config: m, data: data}).Batch(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		regions, err := newDetectionLearner(d, data).Batch(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		width, height := store.Size()
		for name, of := range map[string]struct {
			images []float32
			pixels int
		}{"classification": {marks.images, m.Crop * m.Crop}, "detection": {regions.photographs, width * height}} {
			apart := 0.0
			for first := 0; first < len(of.images); first += 3 * of.pixels {
				red, green := of.images[first:first+of.pixels], of.images[first+of.pixels:first+2*of.pixels]
				for i := range red {
					apart = max(apart, math.Abs(float64(red[i]-green[i]-red[0]+green[0])))
				}
			}
			if (apart < 1e-5) != (gray == 1) {
				t.Errorf("%s with gray %v: colours differ by %v", name, gray, apart)
			}
		}
	}
}
