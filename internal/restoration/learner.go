package restoration

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A batch is the examples of one step, one after another.
type batch struct {
	images, targets, counts []float32 // (crops, 1, D, H, W)
	cases                   []string
}

func (t task) newBatch(n int) *batch {
	voxels := n * t.voxels()
	b := &batch{images: make([]float32, voxels), targets: make([]float32, voxels), counts: make([]float32, voxels)}
	for i := range b.counts {
		b.counts[i] = 1
	}
	return b
}

// example is that of an item.
func (b *batch) example(item int, size [3]int) example {
	voxels := size[0] * size[1] * size[2]
	from, to := item*voxels, (item+1)*voxels
	return example{size, b.images[from:to], b.targets[from:to], b.counts[from:to]}
}

// make makes the example of an item. The crops are read from what place gives.
func (t task) make(r *rand.Rand, b *batch, item int, place func(crop int) (*prepared.Case, [3]int, error)) error {
	crops := make([][]float32, t.crops())
	for n := range crops {
		c, origin, err := place(n)
		if err != nil {
			return err
		}
		crops[n] = make([]float32, t.voxels())
		if err := c.Image(crops[n], origin, t.Crop); err != nil {
			return err
		}
		b.cases = append(b.cases, c.ID)
	}
	t.corrupt(r, crops, b.example(item, t.Crop))
	return nil
}

// learner is a task as the training loop sees it.
type learner struct {
	task
	bench    pretext.Workbench
	first, n int // the crops of a batch that are made here: this rank's
	program  *nn.Program
	loss     loss
	restorer *restorer // nil where nothing is held out
}

func newLearner(t task, w pretext.Workbench) (*learner, error) {
	l := &learner{task: t, bench: w}
	var err error
	if l.first, l.n, err = w.Group.Share(t.Batch); err != nil {
		return nil, err
	}
	g := nn.NewGraph(nn.Train, w.Device.Activations())
	outputs := t.network(g, l.n)
	if g.Err() != nil {
		return nil, fmt.Errorf("building the network: %w", g.Err())
	}
	if of, ok := t.corruption.(teller); ok {
		l.loss, l.program, err = newClassLoss(t, of, w, g, outputs, l.n)
	} else {
		l.loss, l.program, err = newSquaredError(t, w, g, outputs, l.n)
	}
	if err != nil {
		return nil, fmt.Errorf("preparing to train on %d crops of %s: %w", l.n, numbers.Extents(t.Crop[:]), err)
	}
	if len(w.Held) > 0 {
		if l.restorer, err = newRestorer(w.Device, t, w.Params, l.program, w.Memory); err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

// Notes implements [train.Learner].
func (l *learner) Notes() []string {
	return []string{fmt.Sprintf("a training step: %v", l.program.Summary())}
}

// FLOPs implements [train.Learner].
func (l *learner) FLOPs() float64 { return l.program.Summary().FLOPs }

// Close implements [train.Learner].
func (l *learner) Close() {
	if l.restorer != nil {
		l.restorer.program.Close()
	}
	l.program.Close()
}

// Params implements [train.Task].
func (l *learner) Params() train.Params { return l.bench.Params }

// Batch implements [train.Task].
func (l *learner) Batch(ctx context.Context, step int) (*batch, error) {
	b := l.newBatch(l.n)
	for item := range l.n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := seed.Rand(l.Train.Seed, l.name, uint64(step), uint64(l.first+item))
		err := l.make(r, b, item, func(int) (*prepared.Case, [3]int, error) {
			c := l.bench.Train[r.IntN(len(l.bench.Train))]
			origin, err := c.RandomOrigin(r, l.Crop, l.MaxAir)
			return c, origin, err
		})
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Step implements [train.Task].
func (l *learner) Step(step int, b *batch) (train.Result, error) {
	result := train.Result{Cases: b.cases, Items: l.Settings.Batch}
	loss, parts, err := l.loss.forward(l.bench, l.Train.Seed, step, b)
	if err != nil {
		return result, err
	}
	result.Loss = loss
	for n, name := range l.loss.names() {
		result.Metrics = append(result.Metrics, voxsaw.Metric{Name: name, Value: parts[n]})
	}
	if !numbers.Finite(result.Loss) {
		return result, nil // for the loop to report; the parameters stay as they are
	}
	return result, l.loss.backward()
}

// Validate implements [train.Task]: how well the held-out cases are restored.
func (l *learner) Validate(ctx context.Context, _ int) (voxsaw.Validation, error) {
	if l.restorer == nil {
		return voxsaw.Validation{}, nil
	}
	e, err := l.restorer.evaluate(ctx, l.bench.Held)
	if err != nil {
		return voxsaw.Validation{}, err
	}
	v := voxsaw.Validation{Score: e.Final()[e.Score]}
	for n, m := range e.Measures {
		v.Metrics = append(v.Metrics, voxsaw.Metric{Name: m.Key, Value: e.Final()[n]})
	}
	return v, nil
}
