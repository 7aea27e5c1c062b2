package segment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume"
)

// learner is fine-tuning as the training loop sees it: first its cases are opened, then its
// parameters declared, then its programs compiled.
type learner struct {
	sampler
	pass     int // crops that go through the network at once
	bench    train.Workbench
	network  backbone.Backbone
	graph    *nn.Graph
	losses   *backbone.Supervision
	program  *nn.Program
	windows  *sliding.Inferer  // nil where nothing is held out
	teacher  *teacher          // nil where no unlabelled scans are learnt from
	decided  []checkpoint.Kept // labels whose largest component the last validation kept
	observer CaseObserver      // nil: nobody looks
	note     func(string)      // tells a person of what takes time; nil: nobody listens
	// cases of training and validation in which each class was drawn, and in one component; nil:
	// not counted so far
	drawn, one []int
}

// open opens the cases.
func (l *learner) open(c Config, data labelled, group train.Group) error {
	first, n, err := group.Share(c.Batch)
	if err != nil {
		return err
	}
	if l.network, err = backbone.Of(c.Network); err != nil {
		return err
	}
	l.pass = group.PerPass(n)
	if c.Unlabelled && !group.Alone() {
		return errors.New("unlabelled: learning from unlabelled scans in several processes cannot be done yet")
	}
	l.sampler, err = newSampler(c, data, first, n)
	return err
}

// declare builds the network of a step.
func (l *learner) declare(params *nn.Params) error {
	c := l.config
	options, err := c.loss()
	if err != nil {
		return err
	}
	l.graph = nn.NewGraph(nn.Train, params.Device().Activations())
	stages := l.network.Encoder(l.graph, backbone.Input(l.graph, "image", l.network, l.pass, c.Crop))
	if l.graph.Err() != nil {
		return fmt.Errorf("building the network: %w", l.graph.Err())
	}
	logits := l.network.Decoder(l.graph, stages)
	if l.partial {
		merged := l.graph.Input("merged", l.pass, c.Network.Classes)
		for level := range logits {
			logits[level] = l.graph.MergeClasses(logits[level], merged)
		}
	}
	l.losses = backbone.Supervise(l.graph, logits, l.pass, c.Crop, options)
	if len(l.more) > 0 {
		l.teacher = &teacher{}
		l.teacher.declare(l, options)
	}
	if err := params.Declare(l.graph); err != nil {
		return fmt.Errorf("building the network: %w", err)
	}
	return nil
}

// compile makes the programs.
func (l *learner) compile(w train.Workbench) (err error) {
	c := l.config
	l.bench = w
	o := nn.Options{
		Loss: l.losses.Loss, Outputs: map[string]*nn.Node{"statistics": l.losses.Statistics},
		Update: w.Optimizer.Updater(), MemoryLimit: w.Memory, Reserved: l.validationBytes(),
		Ahead: []string{"image", l.losses.Input()},
	}
	if l.teacher != nil {
		o.Outputs[unlabelledLoss], o.OutputGrad = l.teacher.loss, map[string]string{unlabelledLoss: unlabelledWeight}
	}
	l.program, err = nn.Compile(w.Device, l.graph, w.Params, o)
	if err != nil {
		var short *nn.MemoryError
		if errors.As(err, &short) && c.Train.Clip > 0 && !w.Optimizer.Decides() {
			err = fmt.Errorf("%w; without clipping (--clip 0) no gradients need be kept", err)
		}
		return fmt.Errorf("preparing to train on %s of %s: %w", numbers.Count(l.pass, "crop"),
			numbers.Extents(c.Crop[:]), err)
	}
	if l.teacher != nil {
		if err := l.teacher.compile(l); err != nil {
			l.Close()
			return err
		}
	}
	if len(l.held) == 0 {
		return nil
	}
	if l.windows, err = sliding.New(w.Device, w.Params, l.network, c.windows(),
		nn.Options{MemoryLimit: w.Memory, Share: l.program}); err != nil {
		l.Close()
	}
	return err
}

// Notes say what a training step takes, for a person.
func (l *learner) Notes() []string {
	return []string{fmt.Sprintf("a training step: %v", l.program.Summary())}
}

// FLOPs implements [train.Learner].
func (l *learner) FLOPs() (forward, both float64) {
	forward, both = l.program.FLOPs()
	if l.teacher != nil {
		own, _ := l.teacher.program.FLOPs()
		both += own
	}
	return forward, both
}

// Close gives the memory back.
func (l *learner) Close() {
	if l.windows != nil {
		l.windows.Close()
	}
	if l.teacher != nil && l.teacher.program != nil {
		l.teacher.program.Close()
	}
	if l.program != nil {
		l.program.Close()
	}
}

// validationBytes is the memory that validation takes beside the network: that of the case that
// takes most.
func (l *learner) validationBytes() (bytes int64) {
	bytes = l.drawnBytes()
	for _, c := range l.held {
		bytes = max(bytes, l.config.windows().BytesOf(l.bench.Device, l.network, c.Shape))
	}
	return bytes
}

// Params implements [train.Task].
func (l *learner) Params() train.Params { return l.bench.Params }

// MicroBatch implements [train.Divider].
func (l *learner) MicroBatch(b *batch, i, n int) *batch {
	return &batch{train.MicroBatch(b.images, i, n), train.MicroBatch(b.targets, i, n), train.MicroBatch(b.merged, i, n),
		train.MicroBatch(b.cases, i, n), b.unlabelled}
}

// Ahead implements [train.Sender].
func (l *learner) Ahead(b *batch) error {
	return errors.Join(l.program.Ahead("image", b.images), l.program.Ahead(l.losses.Input(), b.targets))
}

// Step implements [train.Task].
func (l *learner) Step(step int, b *batch) (train.Result, error) {
	r := train.Result{Cases: b.cases, Items: l.config.Batch}
	if err := l.forward(step, b); err != nil {
		return r, err
	}
	if l.bench.Optimizer.Decides() && l.bench.Group.Alone() {
		err := l.report(&r)
		return r, errors.Join(err, l.program.Backward())
	}
	loss := make([]float32, 1)
	if err := l.program.Read("loss", loss); err != nil {
		return r, err
	}
	r.Loss = float64(loss[0])
	if !l.bench.Group.Alone() {
		losses, err := l.program.Reduce(l.bench.Group.AllReduce)
		if err != nil {
			return r, err
		}
		r.Loss = l.losses.Sum(losses)
	}
	statistics := make([]float32, l.program.Shape("statistics").Elements())
	if err := l.program.Read("statistics", statistics); err != nil {
		return r, err
	}
	r.Metrics = l.lossMetrics(statistics)
	if !numbers.Finite(r.Loss) {
		return r, nil // for the loop to report; the parameters stay as they are
	}
	return r, l.bench.Group.Backward(l.program)
}

// report leaves loss and metrics on the device.
func (l *learner) report(r *train.Result) error {
	loss, _, err := l.program.Output("loss")
	statistics, _, errStatistics := l.program.Output("statistics")
	r.Report = &train.Report{Loss: loss, Values: statistics, N: 2, Metrics: l.lossMetrics}
	return errors.Join(err, errStatistics)
}

// lossMetrics are the parts of the loss, from its statistics, and how many of the unlabelled voxels
// count, if there are any.
func (l *learner) lossMetrics(statistics []float32) []voxsaw.Metric {
	m := []voxsaw.Metric{{Name: "ce", Value: float64(statistics[0])},
		{Name: "dice_loss", Value: float64(statistics[1])}}
	if l.teacher != nil {
		m = append(m, voxsaw.Metric{Name: "unlabelled_share", Value: l.teacher.share})
	}
	return m
}

// forward runs the network on a batch.
func (l *learner) forward(step int, b *batch) error {
	if err := l.program.SetMicroBatch(l.config.Train.Seed, uint64(step), l.bench.Group.MicroBatch()); err != nil {
		return err
	}
	if err := l.program.Set("image", b.images); err != nil {
		return err
	}
	if err := l.losses.Set(l.program, b.targets); err != nil {
		return err
	}
	if l.teacher != nil {
		if err := l.teacher.teach(l, step, b.unlabelled); err != nil {
			return err
		}
	}
	if l.partial {
		if err := l.program.Set("merged", b.merged); err != nil {
			return err
		}
	}
	return l.program.Forward()
}

// Validate implements [train.Task]: the mean Dice coefficient of each class over the held-out
// cases, and the mean of these. A case in which neither the reference nor the prediction shows a
// class, or nobody drew it, or other structures have all its voxels, does not count for it. The
// mean of a class that no case counts for, or no training case shows, is NaN, and in no mean of
// classes. Where no held-out case shows a class that can be scored, nothing is: predictions there
// can only be wrong. Classes that are there and were predicted nowhere are noted. Unless it is to
// measure only, it decides on the way of which classes predictions keep the largest component
// (largest.go); what it says of these is of that component. Several ranks share the cases out.
func (l *learner) Validate(ctx context.Context, _ int) (voxsaw.Validation, error) {
	if len(l.held) == 0 {
		return voxsaw.Validation{}, nil
	}
	n := len(l.classes)
	cases, err := train.Divide(ctx, l.bench.Group, len(l.held), l.validateCase)
	if err != nil {
		return voxsaw.Validation{}, err
	}
	whole, largest := newDiceMeans(n), newDiceMeans(n)
	found, there := make([]bool, n+1), make([]int, n+1)
	for i, c := range l.held {
		for class := range found {
			found[class] = found[class] || cases[i].Found[class]
		}
		nothing := incomparable(l.classes, c.Record)
		for class, labels := range l.classes {
			if !slices.Contains(nothing, class+1) &&
				slices.ContainsFunc(labels, func(label uint16) bool { return c.LabelCounts[label] > 0 }) {
				there[class+1]++
			}
		}
		whole.add(cases[i].Whole)
		largest.add(cases[i].Largest)
	}
	v := voxsaw.Validation{Metrics: []voxsaw.Metric{{Name: "dsc", Value: math.NaN()}}}
	classes := 0.0
	v.Unscored = true
	refused, err := l.decide(ctx, whole, largest, there)
	if err != nil {
		return voxsaw.Validation{}, err
	}
	if refused != "" {
		v.Decisions = []string{refused}
	}
	for class := 1; class <= n; class++ {
		mean := whole.mean(class)
		if l.keeps(class - 1) {
			mean = largest.mean(class) // as predictions have it
		}
		if l.unlearnt[class] {
			mean = math.NaN()
		}
		if !math.IsNaN(mean) {
			v.Score += mean
			classes++
			v.Unscored = v.Unscored && there[class] == 0
		}
		v.Metrics = append(v.Metrics, voxsaw.Metric{Name: "dsc_" + l.config.metricName(class-1), Value: mean})
		if there[class] > 0 && l.unlearnt[class] {
			v.Notes = append(v.Notes, fmt.Sprintf("%s is in no training case: its DSC is in no mean",
				l.config.DescribeLabels(l.config.Labels[class-1])))
		} else if there[class] > 0 && !found[class] {
			v.Notes = append(v.Notes,
				fmt.Sprintf("%s was predicted in no voxel, though it is in %s: the network has not learnt it. Train "+
					"longer (--steps or --hours), with a larger --crop, or with more cases that show it",
					l.config.DescribeLabels(l.config.Labels[class-1]), numbers.Count(there[class], "held-out case")))
		}
	}
	if v.Unscored {
		v.Notes = append(v.Notes,
			"no held-out case shows a structure that can be scored: nothing says which weights are the best, and "+
				"the last are taken")
	}
	if classes == 0 {
		return v, nil
	}
	v.Score /= classes
	v.Metrics[0].Value = v.Score
	return v, nil
}

// validated is what a validation finds out about a case: by class, whether it was predicted, and
// its Dice coefficient as it was and with the largest component alone.
type validated struct {
	Found          []bool
	Whole, Largest []float64
}

// validateCase predicts a held-out case.
func (l *learner) validateCase(ctx context.Context, i int) (validated, error) {
	c, n := l.held[i], len(l.classes)
	predicted, err := l.windows.Classify(ctx, sliding.Case{Case: c}, sliding.Ensemble{}, nil)
	if err != nil {
		return validated{}, fmt.Errorf("case %s: %w", c.ID, err)
	}
	reference, err := c.LabelMap()
	if err != nil {
		return validated{}, err
	}
	v := validated{Found: make([]bool, n+1)}
	for _, class := range predicted {
		v.Found[class] = true
	}
	v.Whole = eval.Dice(predicted, reference.Labels, l.table, n)
	nothing := incomparable(l.classes, c.Record)
	l.show(c.ID, v.Whole, nothing, predicted, reference)
	if v.Largest = v.Whole; !l.config.MeasureOnly {
		quality.KeepLargest(predicted, c.Shape, nil)
		v.Largest = eval.Dice(predicted, reference.Labels, l.table, n)
	}
	for _, class := range nothing {
		v.Whole[class], v.Largest[class] = math.NaN(), math.NaN()
	}
	return v, nil
}

// show tells whoever wants to see it what was predicted of a held-out case. Of some classes there
// is nothing to compare with.
func (l *learner) show(id string, dice []float64, nothing []int, predicted []uint16, reference *volume.LabelMap) {
	if l.observer == nil {
		return
	}
	sum, n := 0.0, 0.0
	for class, dsc := range dice {
		if class > 0 && !math.IsNaN(dsc) && !slices.Contains(nothing, class) && !l.unlearnt[class] {
			sum, n = sum+dsc, n+1
		}
	}
	labels := &volume.LabelMap{Grid: reference.Grid, Labels: make([]uint16, len(predicted))}
	for at, class := range predicted {
		if class > 0 {
			labels.Labels[at] = l.classes[class-1][0]
		}
	}
	l.observer.CaseValidated(id, sum/n, labels, l.config.Reference(reference)) // 0/0 is NaN
}

// diceMeans are the means of Dice coefficients over cases, for each class.
type diceMeans struct{ sum, count []float64 }

func newDiceMeans(classes int) diceMeans {
	return diceMeans{make([]float64, classes+1), make([]float64, classes+1)}
}

// add adds a case. Classes that it does not show are NaN.
func (d diceMeans) add(dice []float64) {
	for class, dsc := range dice {
		if !math.IsNaN(dsc) {
			d.sum[class] += dsc
			d.count[class]++
		}
	}
}

// mean is NaN where no case shows the class.
func (d diceMeans) mean(class int) float64 { return d.sum[class] / d.count[class] }
