package segment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Kind is what checkpoints of fine-tuning call themselves.
const Kind = "finetune"

// Data is prepared cases by their role.
type Data struct {
	Cache    *prepared.Store
	Train    []string // case IDs
	Validate []string // held-out case IDs; may be empty
}

// Run says where a fine-tuning run starts from and what it leaves behind. All fields may be empty.
type Run struct {
	Init     string         // a checkpoint whose weights are loaded first, as far as they fit
	Folder   *train.Folder  // nil: nothing is kept
	Observer train.Observer // nil: nobody looks
	Memory   int64          // limit in bytes for the programs and their parameters; 0: none
	Loaders  int            // goroutines that prepare crops; 0: 2
}

// Finetune trains a network to segment. The configuration is a resolved one ([Config.Resolve]). The
// report says what became of the weights of Init; it is empty where there is none, and where a run
// is resumed.
func Finetune(ctx context.Context, dev device.Device, c Config, data Data, run Run) (train.Summary, train.Report, error) {
	var report train.Report
	task, err := NewTask(dev, c, data, run.Memory)
	if err != nil {
		return train.Summary{}, report, err
	}
	observer := run.Observer
	for _, note := range task.notes {
		if observer != nil {
			observer.Note(note)
		}
	}
	if run.Init != "" && (run.Folder == nil || !run.Folder.Started()) {
		if report, err = train.LoadWeights(run.Init, task.params, nil); err != nil {
			return train.Summary{}, report, fmt.Errorf("initial weights: %w", err)
		}
		if !slices.ContainsFunc(report.Loaded, func(name string) bool { return strings.HasPrefix(name, "encoder.") }) {
			return train.Summary{}, report, fmt.Errorf("initial weights: none of the encoder's fit this network: is it of another preset, or number of channels or levels?\n%v", report)
		}
		if observer != nil {
			observer.Note(report.String())
		}
	}
	summary, err := train.Run(ctx, task, train.Setup{Options: c.Train, SGD: task.sgd, Folder: run.Folder, Observer: observer, Loaders: run.Loaders})
	return summary, report, err
}

// groups are the learning rates that differ from the schedule's.
func (c Config) groups() []train.Group {
	if c.EncoderLR == 1 && c.FreezeEncoder == 0 {
		return nil
	}
	return []train.Group{{Prefix: "encoder.", Factor: func(step int) float64 {
		if step < c.FreezeEncoder {
			return 0
		}
		return c.EncoderLR
	}}}
}

// Task is fine-tuning as [train.Run] sees it.
type Task struct {
	config   Config
	params   *nn.Params
	sgd      *train.SGD
	program  *nn.Program
	slider   *slider // nil where nothing is held out
	classes  [][]uint16
	table    []uint16 // class of each label
	train    []*prepared.Case
	validate []*prepared.Case
	notes    []string
}

// A Batch is the crops of a step: images (Batch, 1, D, H, W) and the class of each voxel (Batch, D,
// H, W).
type Batch struct {
	Images, Targets []float32
	Cases           []string
}

// NewTask compiles the network and opens the cases. The configuration is a resolved one. memory
// limits the bytes of its programs; 0: no limit.
func NewTask(dev device.Device, c Config, data Data, memory int64) (*Task, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	t := &Task{config: c, params: nn.NewParams(dev, c.Train.Seed)}
	var err error
	if t.classes, err = parseClasses(c.Labels); err != nil {
		return nil, err
	}
	if want := 1 + len(t.classes); c.Network.Classes != want {
		return nil, fmt.Errorf("the network has %d classes, the labels make %d with the background", c.Network.Classes, want)
	}
	t.table = classTable(t.classes)
	if err := t.open(data); err != nil {
		return nil, err
	}
	g := nn.NewGraph(nn.Train, dev.Activations())
	x := g.Input("image", c.Batch, 1, c.Crop[2], c.Crop[1], c.Crop[0])
	target := g.Input("target", c.Batch, c.Crop[2], c.Crop[1], c.Crop[0])
	options, err := c.loss()
	if err != nil {
		return nil, err
	}
	loss, statistics := g.Loss(c.Network.Decoder(g, c.Network.Encoder(g, x)), target, options)
	if err := t.params.Declare(g); err != nil {
		return nil, fmt.Errorf("building the network: %w", err)
	}
	if t.sgd, err = train.NewSGD(t.params, c.Train, c.groups()); err != nil {
		return nil, err
	}
	t.program, err = nn.Compile(dev, g, t.params, nn.Options{
		Loss: loss, Outputs: map[string]*nn.Node{"statistics": statistics}, Update: t.sgd.Updater(), MemoryLimit: memory, Reserved: t.validationBytes(),
	})
	if err != nil {
		var short *nn.MemoryError
		if errors.As(err, &short) && c.Train.Clip > 0 {
			err = fmt.Errorf("%w; without clipping (--clip 0) no gradients need be kept", err)
		}
		return nil, fmt.Errorf("preparing to train on %d crops of %v: %w", c.Batch, c.Crop, err)
	}
	t.notes = append(t.notes, fmt.Sprintf("a training step: %v", t.program.Summary()))
	if len(t.validate) > 0 {
		t.slider, err = newSlider(dev, t.params, c.Network, c.Crop, 1, c.ValidateOverlap, nn.Options{MemoryLimit: memory, Share: t.program})
	}
	return t, err
}

// validationBytes is the memory that validation takes beside the network: that of the case that
// takes most.
func (t *Task) validationBytes() (bytes int64) {
	for _, c := range t.validate {
		bytes = max(bytes, slidingBytes(c.Shape, t.config.Crop, t.config.Network.Classes, 1))
	}
	return bytes
}

// open opens the cases and looks at what they have.
func (t *Task) open(data Data) error {
	if len(data.Train) == 0 {
		return errors.New("there are no cases to train on")
	}
	if shared := slices.DeleteFunc(slices.Clone(data.Validate), func(id string) bool { return !slices.Contains(data.Train, id) }); len(shared) > 0 {
		return fmt.Errorf("cases both to train and to validate on: %s", strings.Join(shared, ", "))
	}
	validate := data.Validate
	if n := t.config.ValidateCases; n > 0 && n < len(validate) {
		validate = validate[:n]
	}
	var bare, padded []string
	for _, part := range []struct {
		ids []string
		to  *[]*prepared.Case
	}{{data.Train, &t.train}, {validate, &t.validate}} {
		for _, id := range part.ids {
			c, err := data.Cache.Open(id)
			if err != nil {
				return err
			}
			if !c.HasLabels {
				return fmt.Errorf("case %s has no labels: it cannot be learnt from", id)
			}
			if c.Padded(t.config.Crop) {
				padded = append(padded, id)
			}
			if part.to == &t.train && !t.shows(c) {
				bare = append(bare, id)
			}
			*part.to = append(*part.to, c)
		}
	}
	if err := t.checkNames(); err != nil {
		return err
	}
	if len(bare) == len(t.train) {
		return fmt.Errorf("none of the %d training cases has a voxel of labels %s", len(bare), strings.Join(t.config.Labels, ", "))
	}
	if len(bare) > 0 {
		t.notes = append(t.notes, "cases without a voxel of the labels, learnt from as background: "+strings.Join(bare, ", "))
	}
	if len(padded) > 0 {
		t.notes = append(t.notes, fmt.Sprintf("%d cases are smaller than the crop of %dx%dx%d, and are padded with air: %s", len(padded), t.config.Crop[0], t.config.Crop[1], t.config.Crop[2], strings.Join(padded, ", ")))
	}
	return nil
}

// checkNames refuses cases whose files call a label by different names: they would be learnt as one
// organ.
func (t *Task) checkNames() error {
	first := map[uint16]*prepared.Case{}
	for _, c := range slices.Concat(t.train, t.validate) {
		for _, label := range slices.Concat(t.classes...) {
			name := c.LabelNames[label]
			if name == "" || c.LabelCounts[label] == 0 {
				continue
			}
			if other, known := first[label]; !known {
				first[label] = c
			} else if !strings.EqualFold(name, other.LabelNames[label]) {
				return fmt.Errorf("label %d is %q in case %s and %q in case %s: they cannot be learnt as one; prepare the cases without those that mean another", label, other.LabelNames[label], other.ID, name, c.ID)
			}
		}
	}
	return nil
}

// shows says whether a case has a voxel of any class.
func (t *Task) shows(c *prepared.Case) bool {
	return slices.ContainsFunc(slices.Concat(t.classes...), func(label uint16) bool { return c.LabelCounts[label] > 0 })
}

// Params implements [train.Task].
func (t *Task) Params() train.Params { return t.params }

// Batch implements [train.Task].
func (t *Task) Batch(_ context.Context, step int) (Batch, error) {
	size, n := t.config.Crop, t.config.Crop[0]*t.config.Crop[1]*t.config.Crop[2]
	b := Batch{Images: make([]float32, t.config.Batch*n), Targets: make([]float32, t.config.Batch*n)}
	for item := range t.config.Batch {
		r := seed.Rand(t.config.Train.Seed, "crop", uint64(step), uint64(item))
		c := t.train[r.IntN(len(t.train))]
		image, target := b.Images[item*n:(item+1)*n], b.Targets[item*n:(item+1)*n]
		origin, err := t.origin(c, size, r)
		if err != nil {
			return b, err
		}
		if err := t.config.Augment.sample(image, target, c, origin, size, seed.Rand(t.config.Train.Seed, "augment", uint64(step), uint64(item))); err != nil {
			return b, err
		}
		for i, label := range target {
			target[i] = float32(t.table[int(label)])
		}
		b.Cases = append(b.Cases, c.ID)
	}
	return b, nil
}

// origin chooses where to take a crop: for the share Foreground of them, around a voxel of a class,
// which then may lie anywhere in the crop. Classes are chosen with equal probability, whatever
// their size.
func (t *Task) origin(c *prepared.Case, size [3]int, r *rand.Rand) ([3]int, error) {
	if r.Float64() < t.config.Foreground {
		var there []uint16 // a label of each class that the case shows
		for _, class := range t.classes {
			if present := slices.DeleteFunc(slices.Clone(class), func(label uint16) bool { return c.LabelCounts[label] == 0 }); len(present) > 0 {
				there = append(there, present[r.IntN(len(present))])
			}
		}
		if len(there) > 0 {
			voxel, found, err := c.Foreground(int(there[r.IntN(len(there))]), r)
			if err != nil {
				return voxel, err
			}
			if found {
				// a voxel that has the chosen one at a random place around it becomes the centre
				for axis, n := range size {
					voxel[axis] += n/2 - r.IntN(n)
				}
				return c.OriginAround(voxel, size), nil
			}
		}
	}
	return c.RandomOrigin(r, size, 1)
}

// Step implements [train.Task].
func (t *Task) Step(step int, b Batch) (train.Result, error) {
	r := train.Result{Cases: b.Cases, Items: t.config.Batch}
	if err := t.program.SetStep(t.config.Train.Seed, uint64(step)); err != nil {
		return r, err
	}
	if err := t.program.Set("image", b.Images); err != nil {
		return r, err
	}
	if err := t.program.Set("target", b.Targets); err != nil {
		return r, err
	}
	if err := t.program.Forward(); err != nil {
		return r, err
	}
	var loss [1]float32
	if err := t.program.Read("loss", loss[:]); err != nil {
		return r, err
	}
	statistics := make([]float32, t.program.Shape("statistics").Elements())
	if err := t.program.Read("statistics", statistics); err != nil {
		return r, err
	}
	r.Loss = float64(loss[0])
	r.Metrics = []train.Metric{{Name: "ce", Value: float64(statistics[0])}, {Name: "dice_loss", Value: float64(statistics[1])}}
	if !numbers.Finite(r.Loss) {
		return r, nil // for the loop to report; the parameters stay as they are
	}
	return r, t.program.Backward()
}

// Validate implements [train.Task]: the mean Dice coefficient of each class over the held-out
// cases, and the mean of these. A case in which neither the reference nor the prediction shows a
// class does not count for it.
func (t *Task) Validate(ctx context.Context, _ int) (train.Validation, error) {
	if len(t.validate) == 0 {
		return train.Validation{}, nil
	}
	n := len(t.classes)
	sum, count := make([]float64, n+1), make([]float64, n+1)
	for _, c := range t.validate {
		predicted, err := t.slider.classify(ctx, c, c.Shape, ensemble{}, nil)
		if err != nil {
			return train.Validation{}, fmt.Errorf("case %s: %w", c.ID, err)
		}
		reference, err := c.LabelMap()
		if err != nil {
			return train.Validation{}, err
		}
		for class, dsc := range eval.Dice(predicted, reference.Labels, t.table, n) {
			if !math.IsNaN(dsc) {
				sum[class] += dsc
				count[class]++
			}
		}
	}
	v := train.Validation{Metrics: []train.Metric{{Name: "dsc"}}}
	classes := 0.0
	for class := 1; class <= n; class++ {
		mean := sum[class] / max(count[class], 1)
		if count[class] > 0 {
			v.Score += mean
			classes++
		}
		v.Metrics = append(v.Metrics, train.Metric{Name: "dsc_" + strings.ReplaceAll(t.config.Labels[class-1], ",", ""), Value: mean})
	}
	v.Score /= max(classes, 1)
	v.Metrics[0].Value = v.Score
	return v, nil
}
