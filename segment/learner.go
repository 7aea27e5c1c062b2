package segment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/internal/train"
)

// learner is fine-tuning as the training loop sees it.
type learner struct {
	sampler
	dev       device.Device
	group     train.Group
	network   backbone.Backbone
	params    *nn.Params
	optimizer train.Optimizer
	program   *nn.Program
	windows   *sliding.Inferer // nil where nothing is held out
	losses    *backbone.Supervision
}

// newLearner opens the cases. Nothing is compiled yet.
func newLearner(dev device.Device, c Config, data Data, group train.Group) (*learner, error) {
	network, err := backbone.Of(c.Network)
	if err != nil {
		return nil, err
	}
	first, n, err := group.Share(c.Batch)
	if err != nil {
		return nil, err
	}
	s, err := newSampler(c, data, first, n)
	return &learner{sampler: s, dev: dev, group: group, network: network, params: nn.NewParams(dev, c.Train.Seed)}, err
}

// compile makes the optimiser and the programs. Where it fails, Close is still to be called.
func (l *learner) compile(memory int64) error {
	c := l.config
	g := nn.NewGraph(nn.Train, l.dev.Activations())
	options, err := c.loss()
	if err != nil {
		return err
	}
	stages := l.network.Encoder(g, g.Input("image", l.n, 1, c.Crop[2], c.Crop[1], c.Crop[0]))
	if g.Err() != nil {
		return fmt.Errorf("building the network: %w", g.Err())
	}
	l.losses = backbone.Supervise(g, l.network.Decoder(g, stages), l.n, c.Crop, options)
	if err := l.params.Declare(g); err != nil {
		return fmt.Errorf("building the network: %w", err)
	}
	if l.optimizer, err = train.NewOptimizer(l.params, c.Train, c.groups(), !l.group.Alone()); err != nil {
		return err
	}
	l.program, err = nn.Compile(l.dev, g, l.params, nn.Options{
		Loss: l.losses.Loss, Outputs: map[string]*nn.Node{"statistics": l.losses.Statistics}, Update: l.optimizer.Updater(), MemoryLimit: memory, Reserved: l.validationBytes(),
	})
	if err != nil {
		var short *nn.MemoryError
		if errors.As(err, &short) && c.Train.Clip > 0 {
			err = fmt.Errorf("%w; without clipping (--clip 0) no gradients need be kept", err)
		}
		return fmt.Errorf("preparing to train on %d crops of %v: %w", l.n, c.Crop, err)
	}
	if len(l.held) > 0 {
		l.windows, err = sliding.New(l.dev, l.params, l.network, c.windows(), nn.Options{MemoryLimit: memory, Share: l.program})
	}
	return err
}

// Notes say what a training step takes, for a person.
func (l *learner) Notes() []string {
	return []string{fmt.Sprintf("a training step: %v", l.program.Summary())}
}

// Close gives the memory back.
func (l *learner) Close() {
	if l.windows != nil {
		l.windows.Close()
	}
	if l.program != nil {
		l.program.Close()
	}
	if l.optimizer != nil {
		l.optimizer.Close()
	}
	l.params.Close()
}

// validationBytes is the memory that validation takes beside the network: that of the case that
// takes most.
func (l *learner) validationBytes() (bytes int64) {
	for _, c := range l.held {
		bytes = max(bytes, l.config.windows().Bytes(c.Shape, l.config.Network.Classes))
	}
	return bytes
}

// Params implements [train.Task].
func (l *learner) Params() train.Params { return l.params }

// Step implements [train.Task].
func (l *learner) Step(step int, b *batch) (train.Result, error) {
	r := train.Result{Cases: b.cases, Items: l.config.Batch}
	if err := l.forward(step, b); err != nil {
		return r, err
	}
	loss := make([]float32, 1)
	if err := l.program.Read("loss", loss); err != nil {
		return r, err
	}
	r.Loss = float64(loss[0])
	if !l.group.Alone() {
		losses, err := l.program.Reduce(l.group.AllReduce)
		if err != nil {
			return r, err
		}
		r.Loss = l.losses.Sum(losses)
	}
	statistics := make([]float32, l.program.Shape("statistics").Elements())
	if err := l.program.Read("statistics", statistics); err != nil {
		return r, err
	}
	r.Metrics = []voxsaw.Metric{{Name: "ce", Value: float64(statistics[0])}, {Name: "dice_loss", Value: float64(statistics[1])}}
	if !numbers.Finite(r.Loss) {
		return r, nil // for the loop to report; the parameters stay as they are
	}
	return r, l.program.Backward()
}

// forward runs the network on a batch.
func (l *learner) forward(step int, b *batch) error {
	if err := l.program.SetStep(l.group.Seed(l.config.Train.Seed), uint64(step)); err != nil {
		return err
	}
	if err := l.program.Set("image", b.images); err != nil {
		return err
	}
	if err := l.losses.Set(l.program, b.targets); err != nil {
		return err
	}
	return l.program.Forward()
}

// Validate implements [train.Task]: the mean Dice coefficient of each class over the held-out
// cases, and the mean of these. A case in which neither the reference nor the prediction shows a
// class does not count for it.
func (l *learner) Validate(ctx context.Context, _ int) (voxsaw.Validation, error) {
	if len(l.held) == 0 {
		return voxsaw.Validation{}, nil
	}
	n := len(l.classes)
	sum, count := make([]float64, n+1), make([]float64, n+1)
	for _, c := range l.held {
		predicted, err := l.windows.Classify(ctx, sliding.Case{Case: c}, sliding.Ensemble{}, nil)
		if err != nil {
			return voxsaw.Validation{}, fmt.Errorf("case %s: %w", c.ID, err)
		}
		reference, err := c.LabelMap()
		if err != nil {
			return voxsaw.Validation{}, err
		}
		for class, dsc := range eval.Dice(predicted, reference.Labels, l.table, n) {
			if !math.IsNaN(dsc) {
				sum[class] += dsc
				count[class]++
			}
		}
	}
	v := voxsaw.Validation{Metrics: []voxsaw.Metric{{Name: "dsc"}}}
	classes := 0.0
	for class := 1; class <= n; class++ {
		mean := sum[class] / max(count[class], 1)
		if count[class] > 0 {
			v.Score += mean
			classes++
		}
		v.Metrics = append(v.Metrics, voxsaw.Metric{Name: "dsc_" + strings.ReplaceAll(l.config.Labels[class-1], ",", ""), Value: mean})
	}
	v.Score /= max(classes, 1)
	v.Metrics[0].Value = v.Score
	return v, nil
}
