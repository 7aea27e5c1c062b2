package classify

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
)

// A Batch is the items of one step that are made on this rank.
type Batch struct {
	images []float32   // (items x Patches, Channels, D, H, W)
	truth  [][]float32 // of each target (items) or (items x Patches)
	cases  []string
}

// A Learner is a task as the training loop sees it: [train.Learner].
type Learner struct {
	pretext.Programs
	task     Task
	settings *Settings
	guesser  *guesser // nil where nothing is held out
}

// NewLearner compiles the programs of a training and of its validation.
func NewLearner(t Task, s *Settings, w pretext.Workbench) (*Learner, error) {
	l := &Learner{task: t, settings: s}
	var err error
	if l.Programs, err = pretext.NewPrograms(w, s.Batch); err != nil {
		return nil, err
	}
	if l.Training, err = l.compile(); err != nil {
		return nil, fmt.Errorf("preparing to train on %d crops of %s: %w", l.Pass, numbers.Extents(s.Crop[:]), err)
	}
	if len(w.Held) > 0 {
		if l.guesser, err = newGuesser(w.Device, t, s, w.Params, l.Training, w.Memory); err != nil {
			l.Close()
			return nil, err
		}
		l.Validation = l.guesser.program
	}
	return l, nil
}

// compile makes the program of a step: the loss is the weighted sum of the targets'
// cross-entropies.
func (l *Learner) compile() (*nn.Program, error) {
	g := nn.NewGraph(nn.Train, l.Bench.Device.Activations())
	outputs := map[string]*nn.Node{}
	var total *nn.Node
	for k, logits := range l.task.logits(g, l.settings, l.Pass) {
		target := l.task.Targets[k]
		loss, _ := g.Loss(logits, g.Input("truth."+target.Name, l.Pass*l.task.count(target)),
			nn.LossOptions{CE: target.Weight})
		if outputs[target.Name] = logits; total == nil {
			total = loss
		} else {
			total = g.Add(total, loss)
		}
	}
	return nn.Compile(l.Bench.Device, g, l.Bench.Params, nn.Options{
		Loss: total, Outputs: outputs, Update: l.Bench.Optimizer.Updater(), MemoryLimit: l.Bench.Memory,
		Ahead: []string{"image"},
	})
}

// Ahead implements [train.Sender].
func (l *Learner) Ahead(b *Batch) error { return l.Training.Ahead("image", b.images) }

// Batch implements [train.Task].
func (l *Learner) Batch(ctx context.Context, step int) (*Batch, error) {
	n := l.task.values(l.settings)
	b := &Batch{images: make([]float32, l.N*n), truth: make([][]float32, len(l.task.Targets))}
	err := l.settings.Items(ctx, l.task.Name, step, l.First, l.N, func(item int, r *rand.Rand) error {
		c, origin, err := l.settings.RandomCrop(r, l.Bench.Train)
		if err != nil {
			return err
		}
		truth := l.task.draw(r)
		b.add(l.task, c.Name(), truth)
		return l.task.Cut(b.images[item*n:(item+1)*n], c, origin, truth, r)
	})
	return b, err
}

// add notes the truth about an item, target after target.
func (b *Batch) add(t Task, id string, truth []int) {
	for k, target := range t.Targets {
		n := t.count(target)
		for _, class := range truth[:n] {
			b.truth[k] = append(b.truth[k], float32(class))
		}
		truth = truth[n:]
	}
	b.cases = append(b.cases, id)
}

// Part implements [train.Divider].
func (l *Learner) Part(b *Batch, i, n int) *Batch {
	part := &Batch{images: train.Part(b.images, i, n), cases: train.Part(b.cases, i, n)}
	for _, truth := range b.truth {
		part.truth = append(part.truth, train.Part(truth, i, n))
	}
	return part
}

// Step implements [train.Task].
func (l *Learner) Step(step int, b *Batch) (train.Result, error) {
	result := train.Result{Cases: b.cases, Items: l.settings.Batch}
	inputs := []pretext.Input{{Name: "image", Values: b.images}}
	for k, target := range l.task.Targets {
		inputs = append(inputs, pretext.Input{Name: "truth." + target.Name, Values: b.truth[k]})
	}
	if err := l.Bench.Forward(l.Training, l.settings.Train.Seed, step, inputs...); err != nil {
		return result, err
	}
	var right []int
	for k, target := range l.task.Targets {
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
	for k, m := range l.task.measures()[:len(right)] {
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
		if best(scores[i*target.Classes:][:target.Classes]) == int(class) {
			n++
		}
	}
	return n, nil
}

// Validate implements [train.Task].
func (l *Learner) Validate(ctx context.Context, _ int) (voxsaw.Validation, error) {
	if l.guesser == nil {
		return voxsaw.Validation{}, nil
	}
	scores, err := l.guesser.evaluate(ctx, l.Bench.Group, l.Bench.Held)
	if err != nil {
		return voxsaw.Validation{}, err
	}
	shares := scores.shares()
	v := voxsaw.Validation{Score: shares[len(shares)-1]}
	for k, m := range l.task.measures() {
		v.Metrics = append(v.Metrics, voxsaw.Metric{Name: m.Key, Value: shares[k]})
	}
	return v, nil
}

// best is the class with the highest score, the first of equals.
func best(scores []float32) int {
	b := 0
	for i, s := range scores {
		if s > scores[b] {
			b = i
		}
	}
	return b
}
