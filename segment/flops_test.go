package segment

import (
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
)

// A step's arithmetic is what PyTorch counts, and is recorded. Micro-batches run forward once more.
func TestFLOPs(t *testing.T) {
	store, dev := phantoms(t, 2, [3]int{36, 34, 32}), testDevice(t)
	c := tiny()
	c.Network.Levels, c.Crop, c.Batch, c.Train.Steps = 4, [3]int{32, 32, 32}, 2, 2
	c = resolved(t, c, store)
	forward, step := traintest.FLOPs(t, "..", "finetune")
	training := func(o voxsaw.RunOptions) (voxsaw.Summary, error) {
		s, _, err := Finetune(t.Context(), dev, c, sample.Data{Store: store, Train: []string{"case00", "case01"}}, "",
			o)
		return s, err
	}
	traintest.Counts(t, step, training)
	c.Train.Accumulate = 2
	traintest.Counts(t, forward+step, training)
}
