package puzzle3d

import (
	"errors"
	"slices"
	"time"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
)

// Benchmark is the timing of pretraining steps on random patches: encoder, head, solving, both gradients and SGD, without reading scans.
type Benchmark struct {
	Config        Config // a resolved one
	Steps, Warmup int    // steps that are timed, and those before
	Memory        int64  // limit in bytes; 0: none
}

// Timing is what a benchmark measured.
type Timing struct {
	Median, Min time.Duration // of a step
	FLOPs       float64       // of a step: direct convolutions' and linear maps' multiplications and additions, three times those of the forward pass
	Bytes       int64         // memory of the programs and the parameters
}

// Run measures.
func (b Benchmark) Run(dev device.Device) (Timing, error) {
	c := b.Config
	if b.Steps < 1 || b.Warmup < 0 {
		return Timing{}, errors.New("steps must be at least 1, warmup at least 0")
	}
	if err := c.Check(); err != nil {
		return Timing{}, err
	}
	params := nn.NewParams(dev, 0)
	if err := c.declare(params); err != nil {
		return Timing{}, err
	}
	t, err := newTrainer(dev, c, params, b.Memory)
	if err != nil {
		return Timing{}, err
	}
	optimiser, err := train.NewSGD(params, train.Options{Schedule: "constant", LR: 1e-3, Momentum: 0.9, WeightDecay: 5e-4}, nil)
	if err != nil {
		return Timing{}, err
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
	var times []time.Duration
	for step := range b.Warmup + b.Steps {
		start := time.Now()
		if _, err := t.step(step, batch); err != nil {
			return Timing{}, err
		}
		if err := optimiser.Update(step, 0); err != nil {
			return Timing{}, err
		}
		if err := dev.Sync(); err != nil {
			return Timing{}, err
		}
		if step >= b.Warmup {
			times = append(times, time.Since(start))
		}
	}
	slices.Sort(times)
	n := len(times)
	timing := Timing{Min: times[0], Median: (times[(n-1)/2] + times[n/2]) / 2, Bytes: params.Bytes()}
	for _, p := range []*nn.Program{t.encoder, t.heads[0].program} {
		timing.Bytes += p.Bytes()
		for _, s := range p.Times()[:p.Summary().ForwardSteps] {
			timing.FLOPs += 3 * s.FLOPs
		}
	}
	return timing, nil
}
