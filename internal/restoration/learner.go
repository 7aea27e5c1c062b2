package restoration

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
)

// A batch is the examples of one step, one after another.
type batch struct {
	images          []float32 // (crops, Channels, D, H, W)
	targets, counts []float32 // the same, or classes (crops, D, H, W)
	cases           []string
}

func (t task) newBatch(n int) *batch {
	b := &batch{images: make([]float32, n*t.values()), targets: make([]float32, n*t.targets()),
		counts: make([]float32, n*t.targets())}
	for i := range b.counts {
		b.counts[i] = 1
	}
	return b
}

// example is that of an item.
func (t task) example(b *batch, item int) example {
	from, to := item*t.targets(), (item+1)*t.targets()
	return example{t.Crop, b.images[item*t.values() : (item+1)*t.values()], b.targets[from:to], b.counts[from:to]}
}

// make makes the example of an item. The crops are read from what place gives. Their usual
// intensities are -1 to 1 for the corruption, whatever they are for the network.
func (t task) make(r *rand.Rand, b *batch, item int, place func(crop int) (sample.Sample, [3]int, error)) error {
	crops := make([][]float32, t.crops())
	var usual [][2]float32 // of each channel; all cases are prepared by one scheme
	for n := range crops {
		c, origin, err := place(n)
		if err != nil {
			return err
		}
		crops[n] = make([]float32, t.values())
		if err := c.Crop(crops[n], origin, t.Crop); err != nil {
			return err
		}
		b.cases = append(b.cases, c.Name())
		usual = usual[:0]
		for channel := range t.Network.InputChannels() {
			usual = append(usual, c.Range(channel))
		}
	}
	e := t.example(b, item)
	// scale maps each channel of values, unless they go from -1 to 1 already
	scale := func(values []float32, to func(x, low, half float32) float32) {
		for n, channel := range e.channels(values) {
			if low, half := usual[n][0], (usual[n][1]-usual[n][0])/2; usual[n] != [2]float32{-1, 1} {
				for i, x := range channel {
					channel[i] = to(x, low, half)
				}
			}
		}
	}
	for _, crop := range crops {
		scale(crop, func(x, low, half float32) float32 { return (x-low)/half - 1 })
	}
	t.corrupt(r, crops, e)
	back := func(x, low, half float32) float32 { return (x+1)*half + low }
	scale(e.input, back)
	if t.outputs() == 1 { // no classes
		scale(e.target, back)
	}
	return nil
}

// learner is a task as the training loop sees it.
type learner struct {
	task
	pretext.Programs
	loss     loss
	restorer *restorer // nil where nothing is held out
}

func newLearner(t task, w pretext.Workbench) (*learner, error) {
	l := &learner{task: t}
	var err error
	if l.Programs, err = pretext.NewPrograms(w, t.Batch); err != nil {
		return nil, err
	}
	if err := l.compile(); err != nil {
		return nil, fmt.Errorf("preparing to train on %d crops of %s: %w", l.Pass, numbers.Extents(t.Crop[:]), err)
	}
	if len(w.Held) > 0 {
		if l.restorer, err = newRestorer(w.Device, t, w.Params, l.Training, w.Memory); err != nil {
			l.Close()
			return nil, err
		}
		l.Validation = l.restorer.program
	}
	return l, nil
}

// compile makes the program of a step.
func (l *learner) compile() (err error) {
	g := nn.NewGraph(nn.Train, l.Bench.Device.Activations())
	outputs := l.network(g, "image", l.Pass)
	if g.Err() != nil {
		return fmt.Errorf("building the network: %w", g.Err())
	}
	o := nn.Options{Update: l.Bench.Optimizer.Updater(), MemoryLimit: l.Bench.Memory, Ahead: []string{"image"}}
	if of, ok := l.corruption.(teller); ok {
		l.loss = newClassLoss(l.task, of, g, outputs, l.Pass, l.Bench.Group.MicroBatches(), &o)
	} else {
		l.loss = newSquaredError(l.task, g, outputs, l.Pass, 1, &o)
	}
	l.Training, err = nn.Compile(l.Bench.Device, g, l.Bench.Params, o)
	return err
}

// Batch implements [train.Task].
func (l *learner) Batch(ctx context.Context, step int) (*batch, error) {
	return l.draw(ctx, l.Bench.Train, step, l.First, l.N)
}

// draw makes the examples of a step that this rank has, of random crops of the cases.
func (t task) draw(ctx context.Context, cases []sample.Sample, step, first, n int) (*batch, error) {
	b := t.newBatch(n)
	err := t.Items(ctx, t.name, step, first, n, func(item int, r *rand.Rand) error {
		return t.make(r, b, item, func(int) (sample.Sample, [3]int, error) { return t.RandomCrop(r, cases) })
	})
	return b, err
}

// Ahead implements [train.Sender].
func (l *learner) Ahead(b *batch) error { return l.Training.Ahead("image", b.images) }

// MicroBatch implements [train.Divider].
func (l *learner) MicroBatch(b *batch, i, n int) *batch { return b.part(i, n) }

// part is micro-batch i of n.
func (b *batch) part(i, n int) *batch {
	return &batch{train.MicroBatch(b.images, i, n), train.MicroBatch(b.targets, i, n), train.MicroBatch(b.counts, i, n),
		train.MicroBatch(b.cases, i, n)}
}

// Step implements [train.Task].
func (l *learner) Step(step int, b *batch) (train.Result, error) {
	result := train.Result{Cases: b.cases, Items: l.Settings.Batch}
	loss, parts, err := l.forward(step, b)
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
	return result, l.Bench.Group.Backward(l.Training)
}

// forward runs the network on a batch, and gives the loss over the items of all ranks and its
// parts.
func (l *learner) forward(step int, b *batch) (loss float64, parts []float64, err error) {
	if err = l.loss.set(l.Training, b); err == nil {
		err = l.Bench.Forward(l.Training, l.Train.Seed, step, pretext.Input{Name: "image", Values: b.images})
	}
	if err != nil {
		return 0, nil, err
	}
	return l.loss.compare(l.Training, l.Bench.Group, b)
}

// Validate implements [train.Task]: how well the held-out cases are restored.
func (l *learner) Validate(ctx context.Context, _ int) (voxsaw.Validation, error) {
	if l.restorer == nil {
		return voxsaw.Validation{}, nil
	}
	e, err := l.restorer.evaluate(ctx, l.Bench.Group, l.Bench.Held)
	if err != nil {
		return voxsaw.Validation{}, err
	}
	v := voxsaw.Validation{Score: e.Final()[e.Score]}
	for n, m := range e.Measures {
		v.Metrics = append(v.Metrics, voxsaw.Metric{Name: m.Key, Value: e.Final()[n]})
	}
	return v, nil
}
