package bench

import (
	"context"
	"slices"
	"time"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/solver"
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
func (p Puzzle) Run(ctx context.Context, dev device.Device, warmup, timed int, o Options) (Timing, error) {
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
			if _, err := t.Step(step, batch); err != nil {
				return err
			}
			return t.Ahead(batch) // the next step's, as in a training
		},
		Update: func(step int) error { return update(dev, optimizer, step) },
	}.Measure(ctx, o)
	timing.Bytes = params.Total()
	return timing, err
}

// Solving is how long it takes to solve the puzzles of a batch, one after the other, with unary and
// binary terms of random answers, whatever the game has: the median of several runs.
func (p Puzzle) Solving() (time.Duration, error) {
	n, relation := p.Game.Grid.Cells(), p.Game.Grid.RelationTable()
	classes := p.Game.Grid.Relations()
	r := seed.Rand(0, "benchmark", 1)
	costs := func(rows, classes int) []float64 {
		logits, costs := make([]float32, rows*classes), make([]float64, rows*classes)
		for i := range logits {
			logits[i] = float32(r.NormFloat64())
		}
		solver.Costs(costs, logits, classes)
		return costs
	}
	var puzzles []solver.Terms
	for range p.Game.Batch {
		puzzles = append(puzzles, solver.Terms{Unary: costs(n, n), Binary: costs(n*n, classes), Relation: relation,
			Classes: classes})
	}
	var s solver.Solver
	var times []time.Duration
	answer := make([]int, n)
	for range 7 {
		start := time.Now()
		for _, terms := range puzzles {
			if _, err := s.Solve(answer, terms, p.Game.Distance); err != nil {
				return 0, err
			}
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
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
