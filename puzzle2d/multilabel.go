package puzzle2d

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/photonet"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/voc"
	"github.com/voxsaw/voxsaw/sample"
)

// Multilabel is fine-tuning to tell which classes are on a photograph: Pascal VOC's classification.
// The network has a logit for each class; the loss is the binary cross-entropy of their sigmoids. A
// class of which all objects on a photograph are difficult counts neither there nor in the score,
// as VOC says.
type Multilabel struct {
	FinetuneSettings `yaml:",inline"`

	// classify: width and height of what is looked at, anywhere on the photograph in training
	Crop int `yaml:"crop" range:"[1,)" most:"4096"`
	// classify: photographs in a step; auto: as many as fit into memory
	Batch int `yaml:"batch" words:"auto=0" most:"4096"`
	// classify: views of a photograph whose logits are averaged in the test: 1, the middle, or 10,
	// the corners and the middle, and these mirrored
	Views int `yaml:"views" range:"[1,10]"`
}

// DefaultMultilabel is 224 of 255 pixels and ten views, as for ImageNet. The schedule is ours: the
// paper does not state one.
func DefaultMultilabel() Multilabel {
	c := DefaultConfig()
	t := c.Train
	t.LR, t.Steps, t.Schedule, t.ValidateEvery, t.CheckpointEvery = 1e-3, 20000, "cosine", 1000, 500
	return Multilabel{
		FinetuneSettings: FinetuneSettings{TrainOn: OnTrainval, Network: c.Network, Train: t, Input: c.Input,
			Mirror: true, ValidatePhotos: 1000}, Crop: 224, Batch: 16, Views: 10,
	}
}

// Items implements [Finetuning].
func (c *Multilabel) Items() *int { return &c.Batch }

// Resolve implements [Finetuning].
func (c *Multilabel) Resolve(of sample.Store) (Finetuning, error) {
	r := *c
	return &r, r.resolve(of, r.complete)
}

func (c *Multilabel) complete(data marked) error {
	if err := c.FinetuneSettings.complete(data); err != nil {
		return err
	}
	if width, height := data.Size(); min(width, height) < c.Crop {
		return fmt.Errorf("%d pixels are looked at, the photographs have %dx%d: prepare "+
			"them larger, or look at less with --crop", c.Crop, width, height)
	}
	return c.Check()
}

// Check says what is wrong with the settings, nil if nothing is.
func (c *Multilabel) Check() error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Crop < 1 || c.Crop > 1<<13 || c.Batch < 1 || c.Batch > 1<<14 {
		return fmt.Errorf("a batch of %d crops of %d pixels: must be from 1 to %d of 1 to %d", c.Batch, c.Crop, 1<<14,
			1<<13)
	}
	if c.Views != 1 && c.Views != 10 {
		return fmt.Errorf("views is %d, must be 1 or 10", c.Views)
	}
	_, err := c.net()
	return err
}

func (c *Multilabel) net() (*photonet.Network, error) { return c.Network.net(c.Crop, c.Crop) }

// network builds the classifier of a batch.
func (c *Multilabel) network(g *nn.Graph) (outputs, error) {
	net, err := c.net()
	if err != nil {
		return nil, err
	}
	logits := net.Classify(g, net.Encode(g, g.Input("images", c.Batch, 3, 1, c.Crop, c.Crop)), len(c.Classes))
	if g.Err() != nil {
		return nil, g.Err()
	}
	return outputs{"logits": logits, "loss": g.LabelLoss(logits, g.Input("truth", c.Batch, len(c.Classes)))}, g.Err()
}

// Run implements [Finetuning]. The settings are resolved ones.
func (c *Multilabel) Run(ctx context.Context, dev voxsaw.Device, data sample.Data, o voxsaw.RunOptions) (voxsaw.Summary,
	error) {
	m, err := markedOf(data)
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		return voxsaw.Summary{}, err
	}
	l := &multilabelLearner{config: c, data: m}
	l.build = c.network
	return pretext.Train(ctx, dev, pretext.Job[*marks]{
		Task: photoTask(Classify), Settings: c, Training: c.Train, Undivided: smallerBatch, Groups: c.groups(),
		Idle:  idlePartial(c.InitPartial, c.Checkpoint),
		Start: start(c.Checkpoint, c.InitPartial, c.Network), Declare: l.declare,
		Compile: func(w pretext.Workbench) (train.Learner[*marks], error) {
			return l, l.compile(w, numbers.Count(c.Batch, "photograph"), "images", len(data.Validate) > 0)
		},
	}, data, o, train.Group{})
}

// marks is the photographs of a step.
type marks struct {
	images []float32 // (Batch, 3, Crop, Crop)
	truth  []float32 // (Batch, classes): 1, 0, or -1 where only difficult objects are of the class
	names  []string
}

func (c *Multilabel) empty() *marks {
	return &marks{images: make([]float32, c.Batch*3*c.Crop*c.Crop), truth: make([]float32, c.Batch*len(c.Classes)),
		names: make([]string, c.Batch)}
}

// truths are VOC's of a photograph, of each class.
func (m marked) truths(photo int) []voc.Truth {
	truths := make([]voc.Truth, len(m.Classes()))
	for class := range truths {
		truths[class] = voc.Absent
	}
	for _, o := range m.Record(photo).Objects {
		switch {
		case !o.Difficult:
			truths[o.Class] = voc.Present
		case truths[o.Class] == voc.Absent:
			truths[o.Class] = voc.Ignored
		}
	}
	return truths
}

// place is where a view lies on a photograph.
type place struct {
	top, left int
	mirrored  bool
}

// place draws one.
func (c *Multilabel) place(r *rand.Rand, width, height int) place {
	p := place{top: r.IntN(height - c.Crop + 1), left: r.IntN(width - c.Crop + 1)}
	p.mirrored = c.Mirror && r.IntN(2) == 1
	return p
}

// places are those of a number of views: the middle; or the four corners, the middle, and these
// mirrored (Krizhevsky et al. 2012, section 4.1).
func (c *Multilabel) places(views, width, height int) []place {
	bottom, right := height-c.Crop, width-c.Crop
	middle := place{top: bottom / 2, left: right / 2}
	if views == 1 {
		return []place{middle}
	}
	all := []place{{}, {left: right}, {top: bottom}, {top: bottom, left: right}, middle}
	for _, p := range all[:5] {
		p.mirrored = true
		all = append(all, p)
	}
	return all
}

// cut writes a view of a photograph as item of a batch.
func (c *Multilabel) cut(b *marks, item int, data marked, photo int, at place, gray bool) error {
	size := 3 * c.Crop * c.Crop
	if err := c.Input.write(b.images[item*size:(item+1)*size], view{of: data.Photo(photo), top: at.top,
		left: at.left, height: c.Crop, width: c.Crop, mirrored: at.mirrored, gray: gray}); err != nil {
		return err
	}
	b.names[item] = data.Name(photo)
	for class, truth := range data.truths(photo) {
		b.truth[item*len(c.Classes)+class] = map[voc.Truth]float32{voc.Present: 1, voc.Absent: 0,
			voc.Ignored: -1}[truth]
	}
	return nil
}

// multilabelLearner is a [Multilabel] as the training loop sees it.
type multilabelLearner struct {
	programs
	config *Multilabel
	data   marked
}

// Batch implements [train.Task].
func (l *multilabelLearner) Batch(ctx context.Context, step int) (*marks, error) {
	b := l.config.empty()
	width, height := l.data.Size()
	for item := range l.config.Batch {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := seed.Rand(l.config.Train.Seed, "photo", uint64(step), uint64(item))
		photo, at := l.data.train[r.IntN(len(l.data.train))], l.config.place(r, width, height)
		if err := l.config.cut(b, item, l.data, photo, at, l.config.Input.grayed(r)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Ahead implements [train.Sender].
func (l *multilabelLearner) Ahead(b *marks) error { return l.Training.Ahead("images", b.images) }

// Step implements [train.Task].
func (l *multilabelLearner) Step(step int, b *marks) (train.Result, error) {
	r := train.Result{Cases: b.names, Items: l.config.Batch}
	err := l.Training.SetStep(l.config.Train.Seed, uint64(step))
	if err == nil {
		r.Loss, err = forward(l.Training, map[string][]float32{"images": b.images, "truth": b.truth})
	}
	if err != nil || !numbers.Finite(r.Loss) {
		return r, err
	}
	return r, l.Training.Backward()
}

// Validate implements [train.Task]: the middle of held-out photographs.
func (l *multilabelLearner) Validate(ctx context.Context, _ int) (voxsaw.Validation, error) {
	held := Spread(l.data.validate, l.config.ValidatePhotos)
	if len(held) == 0 {
		return voxsaw.Validation{}, nil
	}
	p, err := l.config.precision(ctx, l.Validation, l.data, held, 1, nil)
	return p.validation(), err
}

// precision scores a program of [Multilabel.network] on photographs, by the mean logits of so many
// views.
func (c *Multilabel) precision(ctx context.Context, program *nn.Program, data marked, photos []int, views int,
	progress func(done, total int)) (Precision, error) {
	classes := len(c.Classes)
	confidences, truths := make([][]float64, classes), make([][]voc.Truth, classes)
	positives := make([]int, classes)
	for class := range classes {
		confidences[class] = make([]float64, len(photos))
	}
	for _, photo := range photos {
		for class, truth := range data.truths(photo) {
			truths[class] = append(truths[class], truth)
			if truth == voc.Present {
				positives[class]++
			}
		}
	}
	width, height := data.Size()
	places := c.places(views, width, height)
	batch, logits := c.empty(), make([]float32, c.Batch*classes)
	total := len(photos) * len(places)
	for from := 0; from < total; from += c.Batch {
		if err := ctx.Err(); err != nil {
			return Precision{}, err
		}
		count := min(c.Batch, total-from)
		for item := range c.Batch { // the last batch is filled up with views that do not count
			at := from + min(item, count-1)
			if err := c.cut(batch, item, data, photos[at/len(places)], places[at%len(places)], false); err != nil {
				return Precision{}, err
			}
		}
		if _, err := forward(program, map[string][]float32{"images": batch.images, "truth": batch.truth}); err != nil {
			return Precision{}, err
		}
		if err := program.Read("logits", logits); err != nil {
			return Precision{}, err
		}
		for item := range count {
			for class := range classes {
				confidences[class][(from+item)/len(places)] += float64(logits[item*classes+
					class]) / float64(len(places))
			}
		}
		if progress != nil {
			progress((from+count)/len(places), len(photos))
		}
	}
	return data.precision(Classify, photos, positives, func(class int, rule voc.Rule) (float64, error) {
		return voc.AveragePrecision(confidences[class], truths[class], rule)
	})
}

// Score implements [Finetuning].
func (c *Multilabel) Score(ctx context.Context, dev voxsaw.Device, path string, data sample.Data, memory int64,
	progress func(done, total int)) (Precision, error) {
	m, err := markedOf(data)
	if err != nil {
		return Precision{}, err
	}
	d, err := device.From(dev)
	if err != nil {
		return Precision{}, err
	}
	g := nn.NewGraph(nn.Eval, d.Activations())
	out, err := c.network(g)
	if err != nil {
		return Precision{}, err
	}
	params, err := restore(d, g, path)
	if err != nil {
		return Precision{}, err
	}
	defer params.Close()
	program, err := nn.Compile(d, g, params, nn.Options{Outputs: out, MemoryLimit: memory})
	if err != nil {
		return Precision{}, err
	}
	defer program.Close()
	return c.precision(ctx, program, m, m.test, c.Views, progress)
}
