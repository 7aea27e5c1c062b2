package classify

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
)

// A Batch is the items of one step that are made on this rank.
type Batch struct {
	images []float32   // (items x Patches, Channels, D, H, W)
	truth  [][]float32 // of each target (items) or (items x Patches)
	names  []string
}

// A Work is a task as a [Learner] learns it, from whatever its samples are.
type Work struct {
	Targets []Target
	Patches int               // that the network looks at for an answer
	Values  int               // of all patches of an item
	Batch   int               // items in a step, those of all ranks
	Seed    uint64            // of the training
	About   string            // what a step learns from, in an error: "photographs"
	Metrics []pretext.Measure // the share of right answers, of each target
	// Logits adds the network to a graph of n items, whose input "image" is (n x Patches, C, D, H,
	// W): the scores of each target, (n, Classes) or (n x Patches, Classes).
	Logits func(g *nn.Graph, n int) []*nn.Node
	// Items makes n items of a step, of which first is the number of the first in the whole batch.
	// Each is put, with its name and the truth about it, and its patches are written to where put
	// says.
	Items func(ctx context.Context, step, first, n int, put func(name string, truth []int) []float32) error
	// Ask calls f for each item that a held-out sample, the place-th of a list, is judged by: with
	// the truth about it, and with what writes its patches.
	Ask func(of sample.Sample, place int, f func(truth []int, cut func(dst []float32) error) error) error
	// Batched: held-out samples go through the network together, as many as in a step, and their
	// loss is told, too; else item by item.
	Batched bool
	// Each: a sample is shown once in each class of the only target, so that items that look the
	// same cannot all be told.
	Each     bool
	Channels int // of a patch
}

// A Learner is a task as the training loop sees it: [train.Learner].
type Learner struct {
	pretext.Programs
	work  Work
	judge *guesser // nil where nothing is held out
}

// NewLearner compiles the programs of a training on prepared cases and of its validation.
func NewLearner(t Task, s *Settings, w pretext.Workbench) (*Learner, error) {
	work := t.work(s)
	work.Items = func(ctx context.Context, step, first, n int, put func(string, []int) []float32) error {
		return s.Items(ctx, t.Name, step, first, n, func(_ int, r *rand.Rand) error {
			c, origin, err := s.RandomCrop(r, w.Train)
			if err != nil {
				return err
			}
			truth := t.draw(r)
			return t.Cut(put(c.Name(), truth), c, origin, truth, r)
		})
	}
	return work.Learner(w)
}

// work is the task with settings, but for the items of a step.
func (t Task) work(s *Settings) Work {
	w := Work{
		Targets: t.Targets, Patches: t.Patches, Values: t.values(s), Batch: s.Batch, Seed: s.Train.Seed,
		About: "crops of " + numbers.Extents(s.Crop[:]), Each: t.Draws == 0, Channels: s.Network.InputChannels(),
		Logits: func(g *nn.Graph, n int) []*nn.Node { return t.logits(g, s, n) },
		Ask: func(of sample.Sample, place int, f func([]int, func([]float32) error) error) error {
			origin, n := sample.Middle(of, s.Crop), t.Draws
			n = cmp.Or(n, t.Targets[0].Classes)
			for k := range n {
				truth := []int{k}
				if t.Draws > 0 {
					truth = t.draw(seed.Rand(s.Train.Seed, "validation", uint64(place), uint64(k)))
				}
				err := f(truth, func(dst []float32) error { return t.Cut(dst, of, origin, truth, nil) })
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	for _, target := range t.Targets {
		w.Metrics = append(w.Metrics, pretext.Measure{Key: target.Name, Title: target.Name})
	}
	if len(t.Targets) == 1 {
		w.Metrics = []pretext.Measure{{Key: "correct", Title: "correct"}}
	}
	return w
}

// Learner compiles the programs of a training and of its validation.
func (w Work) Learner(bench pretext.Workbench) (*Learner, error) {
	l := &Learner{work: w}
	var err error
	if l.Programs, err = pretext.NewPrograms(bench, w.Batch); err != nil {
		return nil, err
	}
	g := nn.NewGraph(nn.Train, bench.Device.Activations())
	outputs, loss := w.Network(g, l.Pass)
	if l.Training, err = nn.Compile(bench.Device, g, bench.Params, nn.Options{
		Loss: loss, Outputs: outputs, Update: bench.Optimizer.Updater(), MemoryLimit: bench.Memory,
		Ahead: []string{"image"},
	}); err != nil {
		return nil, fmt.Errorf("preparing to train on %d %s: %w", l.Pass, w.About, err)
	}
	if len(bench.Held) > 0 {
		pass := 1
		if w.Batched {
			pass = l.Pass
		}
		if l.judge, err = newGuesser(bench.Device, w, bench.Params, l.Training, bench.Memory, pass); err != nil {
			l.Close()
			return nil, err
		}
		l.Validation = l.judge.program
	}
	return l, nil
}

// Network adds the scores of each target to a graph of n items, under the targets' names, and the
// loss: the weighted sum of the targets' cross-entropies.
func (w Work) Network(g *nn.Graph, n int) (outputs map[string]*nn.Node, loss *nn.Node) {
	outputs = map[string]*nn.Node{}
	for k, logits := range w.Logits(g, n) {
		target := w.Targets[k]
		one, _ := g.Loss(logits, g.Input("truth."+target.Name, n*w.count(target)), nn.LossOptions{CE: target.Weight})
		if outputs[target.Name] = logits; loss == nil {
			loss = one
		} else {
			loss = g.Add(loss, one)
		}
	}
	return outputs, loss
}

// count is how many classes are told of a target.
func (w Work) count(target Target) int {
	if target.Each {
		return w.Patches
	}
	return 1
}

// Ahead implements [train.Sender].
func (l *Learner) Ahead(b *Batch) error { return l.Training.Ahead("image", b.images) }

// Batch implements [train.Task].
func (l *Learner) Batch(ctx context.Context, step int) (*Batch, error) {
	n := l.work.Values
	b := &Batch{images: make([]float32, l.N*n), truth: make([][]float32, len(l.work.Targets))}
	rest := b.images
	err := l.work.Items(ctx, step, l.First, l.N, func(name string, truth []int) (dst []float32) {
		b.add(l.work, name, truth)
		dst, rest = rest[:n], rest[n:]
		return dst
	})
	return b, err
}

// add notes the truth about an item, target after target.
func (b *Batch) add(w Work, name string, truth []int) {
	for k, target := range w.Targets {
		n := w.count(target)
		for _, class := range truth[:n] {
			b.truth[k] = append(b.truth[k], float32(class))
		}
		truth = truth[n:]
	}
	b.names = append(b.names, name)
}

// MicroBatch implements [train.Divider].
func (l *Learner) MicroBatch(b *Batch, i, n int) *Batch {
	part := &Batch{images: train.MicroBatch(b.images, i, n), names: train.MicroBatch(b.names, i, n)}
	for _, truth := range b.truth {
		part.truth = append(part.truth, train.MicroBatch(truth, i, n))
	}
	return part
}

// Step implements [train.Task].
func (l *Learner) Step(step int, b *Batch) (train.Result, error) {
	result := train.Result{Cases: b.names, Items: l.work.Batch}
	inputs := []pretext.Input{{Name: "image", Values: b.images}}
	for k, target := range l.work.Targets {
		inputs = append(inputs, pretext.Input{Name: "truth." + target.Name, Values: b.truth[k]})
	}
	if err := l.Bench.Forward(l.Training, l.work.Seed, step, inputs...); err != nil {
		return result, err
	}
	var right []int
	for k, target := range l.work.Targets {
		n, err := l.right(target, b.truth[k])
		if err != nil {
			return result, err
		}
		right = append(right, n)
	}
	var err error
	if result.Loss, err = l.Bench.Loss(l.Training); err != nil {
		return result, err
	}
	for k, m := range l.work.Metrics {
		share, err := l.Bench.Share(right[k], len(b.truth[k]))
		if err != nil {
			return result, err
		}
		result.Metrics = append(result.Metrics, voxsaw.Metric{Name: m.Key, Value: share})
	}
	if !numbers.Finite(result.Loss) {
		return result, nil // for the loop to report; the parameters stay as they are
	}
	return result, l.Bench.Group.Backward(l.Training)
}

// right counts the right answers to a target in the last forward run.
func (l *Learner) right(target Target, truth []float32) (n int, err error) {
	scores := make([]float32, len(truth)*target.Classes)
	if err := l.Training.Read(target.Name, scores); err != nil {
		return 0, err
	}
	for i, class := range truth {
		if Best(scores[i*target.Classes:][:target.Classes]) == int(class) {
			n++
		}
	}
	return n, nil
}

// Validate implements [train.Task].
func (l *Learner) Validate(ctx context.Context, _ int) (voxsaw.Validation, error) {
	if l.judge == nil {
		return voxsaw.Validation{}, nil
	}
	return l.judge.validate(ctx, l.Bench)
}

// Best is the class with the highest score, the first of equals.
func Best(scores []float32) int {
	b := 0
	for i, s := range scores {
		if s > scores[b] {
			b = i
		}
	}
	return b
}
