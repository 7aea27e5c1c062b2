package puzzle3d

import (
	"github.com/voxsaw/voxsaw/internal/bench"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
)

// Benchmark is the timing of pretraining steps on random patches: encoder, head, solving, both
// gradients and SGD, without reading scans.
type Benchmark struct {
	Config        Config // a resolved one
	Steps, Warmup int    // steps that are timed, and those before
	Memory        int64  // limit in bytes; 0: none
	Measure       bench.Options
}

// Run measures.
func (b Benchmark) Run(dev device.Device) (bench.Timing, error) {
	c := b.Config
	if err := c.Check(); err != nil {
		return bench.Timing{}, err
	}
	params := nn.NewParams(dev, 0)
	if err := c.declare(params); err != nil {
		return bench.Timing{}, err
	}
	optimiser, err := train.NewSGD(params, train.Options{Schedule: "constant", LR: 1e-3, Momentum: 0.9, WeightDecay: 5e-4}, nil)
	if err != nil {
		return bench.Timing{}, err
	}
	t, err := newTrainer(dev, c, params, optimiser.Updater(), b.Memory)
	if err != nil {
		return bench.Timing{}, err
	}
	r := seed.Rand(0, "benchmark")
	batch := &Batch{Patches: make([]float32, c.Batch*c.cells()*c.voxels()), Blank: make([]bool, c.Batch*c.cells())}
	for i := range batch.Patches {
		batch.Patches[i] = float32(r.NormFloat64())
	}
	for range c.Batch {
		batch.Shuffles = append(batch.Shuffles, puzzle.Random(r, c.cells()))
		batch.Cases = append(batch.Cases, "random numbers")
	}
	timing, err := bench.Steps{
		Warmup: b.Warmup, Timed: b.Steps, Programs: []*nn.Program{t.encoder, t.heads[0].program},
		Compute: func(step int) error {
			if err := optimiser.Begin(step); err != nil {
				return err
			}
			_, err := t.step(step, batch)
			return err
		},
		Update: func(step int) error {
			if err := optimiser.Update(step, 0); err != nil {
				return err
			}
			return dev.Sync()
		},
	}.Measure(b.Measure)
	timing.Bytes = params.Total()
	return timing, err
}
