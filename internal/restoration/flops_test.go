package restoration

import (
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
)

// A step's arithmetic, of encoder and decoder, is what PyTorch counts, and is recorded. Two ranks
// record that of both.
func TestFLOPs(t *testing.T) {
	store, dev := traintest.Phantoms(t, 3, [3]int{32, 32, 32}), traintest.CPU(t)
	c := tiny(t, "mae")
	c.Common().Network.Levels, *c.Common().Crop, c.Common().Train.Steps = 4, [3]int{32, 32, 32}, 2
	m := resolved(t, c).(modelOf)
	_, step := traintest.FLOPs(t, "../..", "mae")
	traintest.Counts(t, step, func(o voxsaw.RunOptions) (voxsaw.Summary, error) {
		return c.Pretrain(t.Context(), dev, roles(store, 0), o)
	})
	devices := []voxsaw.Device{traintest.Direct(t), traintest.Direct(t)}
	traintest.Both(t, func(rank int, group train.Group) error {
		s, err := m.pretrain(t.Context(), devices[rank], roles(store, 0), voxsaw.RunOptions{}, group)
		if err == nil && s.FLOPs != 2*step {
			t.Errorf("rank %d: %.0f FLOP in two steps, want %.0f", rank, s.FLOPs, 2*step)
		}
		return err
	})
}
