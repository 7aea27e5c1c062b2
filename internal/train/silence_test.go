package train

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/devicetest"
)

// muted is a task whose gradient is 0 but for the named tensors at some steps.
type muted struct {
	*pull
	spared      string
	first, last int
}

func (m muted) Step(step int, batch targets) (Result, error) {
	r, err := m.pull.Step(step, batch)
	if err != nil || step < m.first || step > m.last {
		return r, err
	}
	for name, target := range batch {
		if name != m.spared {
			if err := m.dev.UploadPlain(m.gradients, m.offsets[name], make([]float32, len(target))); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// TestSilenceEndsTheRun: where most parameters have had no gradient for a hundred steps, the run
// ends, whether the host looks at the gradients or the device; a shorter silence is no reason, nor
// is that of a smaller part.
func TestSilenceEndsTheRun(t *testing.T) {
	reference := devicetest.NewReference()
	if _, ok := reference.(device.StepDecider); !ok {
		t.Fatal("the reference device does not decide")
	}
	for _, c := range []struct {
		name        string
		dev         device.Device
		head        int
		first, last int
		end, since  int // the error's; 0: none
	}{
		{"for good", single{reference}, 3, 33, 400, 140, 40},
		{"the device decides", reference, 3, 33, 400, 140, 40},
		{"from the first step", single{reference}, 3, 0, 400, 100, 0},
		{"for too short", single{reference}, 3, 33, 139, 0, 0},
		{"of a smaller part", single{reference}, 12, 33, 400, 0, 0}, // 11 of 23 parameters
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options
			o.Steps, o.Warmup, o.CheckpointEvery = 200, 0, 50
			m := newModel(t, c.head)
			m.dev = c.dev
			path := t.TempDir()
			setup := Setup{Options: o, Folder: open(t, path, identity, voxsaw.ModeNew)}
			var err error
			if setup.Optimizer, err = NewOptimizer(m, o, nil, false); err != nil {
				t.Fatal(err)
			}
			defer setup.Optimizer.Close()
			if got := setup.Optimizer.Decides(); got != (c.dev == reference) {
				t.Fatalf("the device decides: %v", got)
			}
			_, err = Train(context.Background(), muted{&pull{model: m}, "head", c.first, c.last}, setup)
			if c.end == 0 {
				if err != nil {
					t.Errorf("the run ended: %v", err)
				}
				return
			}
			var vanished *voxsaw.VanishedError
			if !errors.As(err, &vanished) {
				t.Fatalf("error %v", err)
			}
			want := voxsaw.VanishedError{Step: c.end, Since: c.since, Share: 11.0 / 14, Loss: vanished.Loss,
				GradNorm: vanished.GradNorm, Rate: o.LR, Path: filepath.Join(path, lastFile)}
			if *vanished != want || vanished.GradNorm == 0 {
				t.Errorf("got %+v, want %+v", *vanished, want)
			}
		})
	}
}
