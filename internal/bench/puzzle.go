package bench

import (
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
)

// Puzzle is the work of pretraining on random patches: encoder, head, solving, both gradients and
// SGD, without reading scans.
type Puzzle struct {
	Game    jigsaw.Config
	Encoder jigsaw.Backbone
	Memory  int64 // limit in bytes; 0: none
}

// Run measures.
func (p Puzzle) Run(dev device.Device, warmup, timed int, o Options) (Timing, error) {
	if err := p.Game.Check(); err != nil {
		return Timing{}, err
	}
	params := nn.NewParams(dev, 0)
	defer params.Close()
	if err := p.Game.Declare(p.Encoder, params); err != nil {
		return Timing{}, err
	}
	optimizer, err := train.NewOptimizer(params, sgd(0), nil, false)
	if err != nil {
		return Timing{}, err
	}
	defer optimizer.Close()
	t, err := jigsaw.NewTrainer(dev, p.Game, p.Encoder, params, optimizer.Updater(), train.Group{}, p.Memory)
	if err != nil {
		return Timing{}, err
	}
	defer t.Close()
	batch := p.batch()
	timing, err := Steps{
		Warmup: warmup, Timed: timed, Programs: t.Programs(),
		Compute: func(step int) error {
			if err := optimizer.Begin(step); err != nil {
				return err
			}
			_, err := t.Step(step, batch)
			return err
		},
		Update: func(step int) error { return update(dev, optimizer, step) },
	}.Measure(o)
	timing.Bytes = params.Total()
	return timing, err
}

// batch is puzzles of random numbers.
func (p Puzzle) batch() *jigsaw.Batch {
	r := seed.Rand(0, "benchmark")
	shape, cells := p.Encoder.Patch(), p.Game.Grid.Cells()
	b := &jigsaw.Batch{Patches: make([]float32, p.Game.Batch*cells*shape[0]*shape[1]*shape[2]*shape[3])}
	for i := range b.Patches {
		b.Patches[i] = float32(r.NormFloat64())
	}
	for range p.Game.Batch {
		b.Shuffles = append(b.Shuffles, puzzle.Random(r, cells))
		b.Cases = append(b.Cases, "random numbers")
	}
	return b
}
