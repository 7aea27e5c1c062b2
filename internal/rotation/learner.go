package rotation

import (
	"context"
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A batch is the crops of one step.
type batch struct {
	images []float32 // (crops, 1, D, H, W), turned
	truth  []float32 // (crops): which rotation it was
	cases  []string
}

// learner is the task as the training loop sees it.
type learner struct {
	config   *Config
	bench    pretext.Workbench
	first, n int // the crops of a batch that are made here: this rank's
	turns    []turn
	program  *nn.Program
	guesser  *guesser // nil where nothing is held out
}

func newLearner(c *Config, w pretext.Workbench) (*learner, error) {
	l := &learner{config: c, bench: w, turns: turns(c.Rotations)}
	var err error
	if l.first, l.n, err = w.Group.Share(c.Batch); err != nil {
		return nil, err
	}
	g := nn.NewGraph(nn.Train, w.Device.Activations())
	logits := c.logits(g, l.n)
	loss, _ := g.Loss(logits, g.Input("truth", l.n), nn.LossOptions{CE: 1})
	l.program, err = nn.Compile(w.Device, g, w.Params, nn.Options{
		Loss: loss, Outputs: map[string]*nn.Node{"logits": logits}, Update: w.Optimizer.Updater(), MemoryLimit: w.Memory,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing to train on %d crops of %v: %w", l.n, c.Crop, err)
	}
	if len(w.Held) > 0 {
		if l.guesser, err = newGuesser(w.Device, c, w.Params, l.program, w.Memory); err != nil {
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

// Close implements [train.Learner].
func (l *learner) Close() {
	if l.guesser != nil {
		l.guesser.program.Close()
	}
	l.program.Close()
}

// Params implements [train.Task].
func (l *learner) Params() train.Params { return l.bench.Params }

// Batch implements [train.Task].
func (l *learner) Batch(ctx context.Context, step int) (*batch, error) {
	n := l.config.Crop[0]
	voxels := n * n * n
	b := &batch{images: make([]float32, l.n*voxels)}
	crop := make([]float32, voxels)
	for item := range l.n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := seed.Rand(l.config.Train.Seed, "rotation", uint64(step), uint64(l.first+item))
		c := l.bench.Train[r.IntN(len(l.bench.Train))]
		origin, err := c.RandomOrigin(r, l.config.Crop, l.config.MaxAir)
		if err != nil {
			return nil, err
		}
		if err := c.Image(crop, origin, l.config.Crop); err != nil {
			return nil, err
		}
		class := r.IntN(len(l.turns))
		l.turns[class].apply(b.images[item*voxels:(item+1)*voxels], crop, n)
		b.truth, b.cases = append(b.truth, float32(class)), append(b.cases, c.ID)
	}
	return b, nil
}

// Step implements [train.Task].
func (l *learner) Step(step int, b *batch) (train.Result, error) {
	result := train.Result{Cases: b.cases, Items: l.config.Batch}
	err := l.bench.Forward(l.program, l.config.Train.Seed, step, pretext.Input{Name: "image", Values: b.images}, pretext.Input{Name: "truth", Values: b.truth})
	if err != nil {
		return result, err
	}
	logits := make([]float32, l.n*len(l.turns))
	if err := l.program.Read("logits", logits); err != nil {
		return result, err
	}
	right := 0
	for item, class := range b.truth {
		if best(logits[item*len(l.turns):][:len(l.turns)]) == int(class) {
			right++
		}
	}
	if result.Loss, err = l.bench.Loss(l.program); err != nil {
		return result, err
	}
	correct, err := l.bench.Share(right, l.n)
	if err != nil {
		return result, err
	}
	result.Metrics = []voxsaw.Metric{{Name: "correct", Value: correct}}
	if !numbers.Finite(result.Loss) {
		return result, nil // for the loop to report; the parameters stay as they are
	}
	return result, l.program.Backward()
}

// Validate implements [train.Task]: the share of rotations of the held-out cases that are told.
func (l *learner) Validate(ctx context.Context, _ int) (voxsaw.Validation, error) {
	if l.guesser == nil {
		return voxsaw.Validation{}, nil
	}
	right, n, err := l.guesser.evaluate(ctx, l.bench.Held)
	if err != nil {
		return voxsaw.Validation{}, err
	}
	share := float64(right) / float64(n)
	return voxsaw.Validation{Score: share, Metrics: []voxsaw.Metric{{Name: "correct", Value: share}}}, nil
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

// centre reads the crop in the middle of a case.
func (c *Config) centre(dst []float32, of *prepared.Case) error {
	middle := [3]int{of.Shape[0] / 2, of.Shape[1] / 2, of.Shape[2] / 2}
	return of.Image(dst, of.OriginAround(middle, c.Crop), c.Crop)
}
