package puzzle2d

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/photonet"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
)

// The tasks of a [Classification]: what is told apart.
const (
	// Labels are the classes of the photographs: what a network can learn with labels, which
	// pretraining is measured against.
	Labels = "labels"
	// Rotation is by which of 0, 90, 180 and 270 degrees a photograph was turned (Gidaris, Singh
	// and Komodakis, Unsupervised Representation Learning by Predicting Image Rotations, ICLR
	// 2018).
	Rotation = "rotation"
	// Position is where one patch lies, seen from another in the middle: one of eight places
	// (Doersch, Gupta and Efros, Unsupervised Visual Representation Learning by Context Prediction,
	// ICCV 2015).
	Position = "position"
)

// Classification is training to tell a few things apart, of whole photographs or of two patches:
// the rivals of puzzles, and what labels would teach. The things follow from the photographs, but
// for labels.
type Classification struct {
	Task    string          `yaml:"-"` // Labels, Rotation or Position
	Network Network         `yaml:"network"`
	Train   voxsaw.Training `yaml:"train"`
	Input   Input           `yaml:",inline"`

	Checkpoint string `yaml:"checkpoint,omitempty" help:"weights to start from: a checkpoint of 2d pretrain or PyTorch's safetensors of this backbone; empty: random ones"`
	// InitPartial is that of segment.Config.
	InitPartial bool `yaml:"init_partial,omitempty" help:"start from weights that fit less than nine tenths of the backbone's tensors, too; the rest begins with random values"`

	Crop   int  `yaml:"crop" help:"labels, rotation: width and height of what is looked at" range:"[1,)"`
	Cell   int  `yaml:"cell" help:"position: width and height of a cell; the grid is 3x3" range:"[1,)"`
	Patch  int  `yaml:"patch" help:"position: width and height of a patch" range:"[1,)"`
	Mirror bool `yaml:"mirror" help:"labels, rotation: half of the photographs are mirrored; position: each patch"`
	Batch  int  `yaml:"batch" help:"photographs in a step; auto: as many as fit into memory" words:"auto=0"`
	// Classes are the names of the classes that are told apart, from the data.
	Classes []string `yaml:"names" flag:"-" help:"names of the classes, from the data"`

	ValidatePhotos int `yaml:"validate_photos" help:"held-out photographs to validate on during training; 0: all"`
}

// DefaultClassification has the sizes of [DefaultConfig].
func DefaultClassification(task string) Classification {
	c := DefaultConfig()
	return Classification{
		Task: task, Network: c.Network, Train: c.Train, Input: c.Input, Crop: 224, Cell: c.Cell, Patch: c.Patch,
		Mirror: task != Position, Batch: 32, ValidatePhotos: 500,
	}
}

// Resolve completes the configuration with what follows from the photographs, and says what is
// wrong with it.
func (c Classification) Resolve(data Data) (Classification, error) {
	var err error
	if c.Input, err = c.Input.Of(data); err != nil {
		return c, err
	}
	switch c.Task {
	case Labels:
		if c.Classes = data.Photos.Classes(); len(c.Classes) < 2 {
			return c,
				fmt.Errorf("the photographs have %d classes: labels are learnt of two or more, each in a folder of its own", len(c.Classes))
		}
		if _, _, err := data.labelled(); err != nil {
			return c, err
		}
	case Rotation:
		c.Classes = []string{"0", "90", "180", "270"}
	case Position:
		c.Classes = []string{"upper left", "above", "upper right", "left", "right", "lower left", "below",
			"lower right"}
	}
	if width, height := data.Photos.Size(); min(width, height) < c.extent() {
		return c,
			fmt.Errorf("%d pixels are looked at, the photographs have %dx%d: prepare them larger, or look at less",
				c.extent(), width, height)
	}
	return c, c.Check()
}

// Check says what is wrong with the configuration, nil if nothing is.
func (c Classification) Check() error {
	if c.Task != Labels && c.Task != Rotation && c.Task != Position {
		return fmt.Errorf("task %q: want %s, %s or %s", c.Task, Labels, Rotation, Position)
	}
	if err := c.Train.Check(); err != nil {
		return err
	}
	if err := c.Input.check(); err != nil {
		return err
	}
	if c.Batch < 1 || c.Batch > 1<<14 {
		return fmt.Errorf("batch is %d, must be from 1 to %d", c.Batch, 1<<14)
	}
	if c.Task == Position && (c.Patch < 1 || c.Patch > c.Cell || c.Cell > 1<<12) {
		return fmt.Errorf("a patch of %d in a cell of %d: must lie in it, and a cell must have at most 4096 pixels",
			c.Patch, c.Cell)
	}
	if c.Task != Position && (c.Crop < 1 || c.Crop > 1<<13) {
		return fmt.Errorf("crop is %d, must be from 1 to %d", c.Crop, 1<<13)
	}
	if c.ValidatePhotos < 0 {
		return fmt.Errorf("validate_photos is %d, must be 0 or more", c.ValidatePhotos)
	}
	_, err := c.net()
	return err
}

// extent is the width and height of what is cut out of a photograph.
func (c Classification) extent() int {
	if c.Task == Position {
		return 3 * c.Cell
	}
	return c.Crop
}

// images is how many the network looks at for one answer, and side the width and height of each.
func (c Classification) images() (images, side int) {
	if c.Task == Position {
		return 2, c.Patch
	}
	return 1, c.Crop
}

func (c Classification) net() (*photonet.Network, error) {
	_, side := c.images()
	return c.Network.net(side, side)
}

// TrainClassifier trains the network to tell the classes apart. The configuration is a resolved
// one. The score of a validation is the share of right answers on held-out photographs. What
// [Pretrain] says of runs holds here, too.
func TrainClassifier(ctx context.Context, dev voxsaw.Device, c Classification, data Data,
	o voxsaw.RunOptions) (voxsaw.Summary, error) {
	if err := c.Check(); err != nil {
		return voxsaw.Summary{}, err
	}
	var notes []string
	if c.Task == Labels {
		var err error
		if data, notes, err = data.labelled(); err != nil {
			return voxsaw.Summary{}, err
		}
	}
	l := &classifier{config: c, data: data, notes: notes, held: Spread(data.Validate, c.ValidatePhotos)}
	l.Pass = c.Batch // until it is known
	l.build = func(g *nn.Graph) (outputs, error) { return c.network(g, l.Pass) }
	return pretext.Train(ctx, dev, pretext.Job[*labelled]{
		Task: "photo-" + c.Task, Settings: &c, Training: c.Train, Undivided: smallerBatch,
		Start:   start(c.Checkpoint, c.InitPartial, c.Network),
		Declare: l.declare,
		Compile: func(w pretext.Workbench) (_ train.Learner[*labelled], err error) {
			if l.Programs, err = pretext.NewPrograms(w, c.Batch); err != nil {
				return nil, err
			}
			l.graph = nn.NewGraph(nn.Train, w.Device.Activations())
			if l.out, err = l.build(l.graph); err != nil {
				return nil, err
			}
			return l, l.compile(w, numbers.Count(c.Batch, "photograph"), "images", len(l.held) > 0)
		},
	}, data.named(), o, train.Group{})
}

// Notes implements [train.Learner].
func (l *classifier) Notes() []string { return append(l.notes, l.programs.Notes()...) }

// labelled is the photographs of a step.
type labelled struct {
	images []float32 // (photographs x images, 3, side, side)
	truth  []float32 // (photographs)
	names  []string
}

// classifier is a classification as the training loop sees it.
type classifier struct {
	programs
	config Classification
	data   Data
	held   []int
	notes  []string
}

// network builds the classifier of so many photographs.
func (c Classification) network(g *nn.Graph, n int) (outputs, error) {
	e, err := c.net()
	if err != nil {
		return nil, err
	}
	images, side := c.images()
	x := e.Encode(g, g.Input("images", n*images, 3, 1, side, side))
	if g.Err() != nil {
		return nil, g.Err()
	}
	if images > 1 { // both features side by side, through one hidden layer
		x = g.Reshape(x, n, x.Shape().Elements()/n)
		x = g.ReLU(g.Linear("class.both", x, 1024, true))
	}
	logits := g.Linear("class.answer", x, len(c.Classes), true)
	loss, _ := g.Loss(logits, g.Input("truth", n), nn.LossOptions{CE: 1})
	return outputs{"logits": logits, "loss": loss}, g.Err()
}

// Batch implements [train.Task].
func (l *classifier) Batch(ctx context.Context, step int) (*labelled, error) {
	b := l.config.empty(l.N)
	for item := range l.N {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := seed.Rand(l.config.Train.Seed, "photo", uint64(step), uint64(l.First+item))
		photo := l.data.Train[r.IntN(len(l.data.Train))]
		if err := l.config.cut(b, item, l.data, photo, r.IntN(len(l.config.Classes)), r); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// empty has room for some photographs.
func (c Classification) empty(n int) *labelled {
	images, side := c.images()
	return &labelled{images: make([]float32, n*images*3*side*side), truth: make([]float32, n), names: make([]string, n)}
}

// cut makes one item of a batch: which of the things happened to the photograph is given, but for
// labels, which it has. Without a generator it is cut out of the middle.
func (c Classification) cut(b *labelled, item int, data Data, photo, class int, r *rand.Rand) error {
	pixels, err := data.Photos.At(photo)
	if err != nil {
		return err
	}
	width, height := data.Photos.Size()
	images, side := c.images()
	size := 3 * side * side
	dst := b.images[item*images*size:]
	b.names[item], b.truth[item] = data.Photos.Name(photo), float32(class)
	v := view{photo: pixels, stride: 3 * width, height: side, width: side, gray: c.Input.grayed(r)}
	origin := [2]int{(height - c.extent()) / 2, (width - c.extent()) / 2}
	if r != nil {
		origin = [2]int{r.IntN(height - c.extent() + 1), r.IntN(width - c.extent() + 1)}
	}
	if c.Task == Position {
		return c.cutPair(dst, v, origin, class, r)
	}
	v.top, v.left = origin[0], origin[1]
	v.mirrored = r != nil && c.Mirror && r.IntN(2) == 1
	c.Input.write(dst[:size], v)
	if c.Task == Labels {
		if b.truth[item] = float32(data.Photos.Label(photo)); b.truth[item] < 0 {
			return fmt.Errorf("%s has no label: labels are learnt of photographs in folders that are called after their class", b.names[item])
		}
		return nil
	}
	for channel := range 3 {
		turn(dst[channel*side*side:(channel+1)*side*side], side, class)
	}
	return nil
}

// cutPair writes the patch in the middle of a 3x3 grid, and that of one of the cells around it.
func (c Classification) cutPair(dst []float32, v view, origin [2]int, class int, r *rand.Rand) error {
	cells := [2]int{4, class}
	if class >= 4 {
		cells[1]++ // the middle is no place to be told
	}
	size := 3 * c.Patch * c.Patch
	for k, cell := range cells {
		jitter := [2]int{(c.Cell - c.Patch) / 2, (c.Cell - c.Patch) / 2}
		v.mirrored = false
		if r != nil {
			jitter = [2]int{r.IntN(c.Cell - c.Patch + 1), r.IntN(c.Cell - c.Patch + 1)}
			v.mirrored = c.Mirror && r.IntN(2) == 1
		}
		v.top, v.left = origin[0]+cell/3*c.Cell+jitter[0], origin[1]+cell%3*c.Cell+jitter[1]
		c.Input.write(dst[k*size:(k+1)*size], v)
	}
	return nil
}

// turn turns a square by so many quarters, against the clock.
func turn(square []float32, side, quarters int) {
	for range quarters {
		from := append([]float32(nil), square...)
		for y := range side {
			for x := range side {
				square[y*side+x] = from[x*side+side-1-y]
			}
		}
	}
}

// Ahead implements [train.Sender].
func (l *classifier) Ahead(b *labelled) error { return l.Training.Ahead("images", b.images) }

// Step implements [train.Task].
func (l *classifier) Step(step int, b *labelled) (train.Result, error) {
	r := train.Result{Cases: b.names, Items: l.config.Batch}
	if err := l.Training.SetPart(l.config.Train.Seed, uint64(step), l.Bench.Group.Part()); err != nil {
		return r, err
	}
	right, _, err := l.look(l.Training, b, len(b.truth))
	if err != nil {
		return r, err
	}
	if r.Loss, err = l.Bench.Loss(l.Training); err != nil {
		return r, err
	}
	share := float64(right) / float64(len(b.truth))
	if !l.Bench.Group.Alone() {
		share, err = l.Bench.Share(right, len(b.truth))
	}
	if err != nil || !numbers.Finite(r.Loss) {
		return r, err
	}
	r.Metrics = []voxsaw.Metric{{Name: "right", Value: share}}
	return r, l.Bench.Group.Backward(l.Training)
}

// Part implements [train.Divider].
func (l *classifier) Part(b *labelled, i, n int) *labelled {
	return &labelled{train.Part(b.images, i, n), train.Part(b.truth, i, n), train.Part(b.names, i, n)}
}

// look counts the right answers among the first n of a batch.
func (l *classifier) look(p *nn.Program, b *labelled, n int) (right int, loss float64, err error) {
	loss, err = forward(p, map[string][]float32{"images": b.images, "truth": b.truth})
	classes := len(l.config.Classes)
	logits := make([]float32, l.Pass*classes)
	if err == nil {
		err = p.Read("logits", logits)
	}
	for i := range n {
		if largest(logits[i*classes:(i+1)*classes]) == int(b.truth[i]) {
			right++
		}
	}
	return right, loss, err
}

// largest is the place of the largest value, the first of equal ones.
func largest(values []float32) int {
	best := 0
	for i, v := range values {
		if v > values[best] {
			best = i
		}
	}
	return best
}

// Validate implements [train.Task]: of every held-out photograph the middle, what happened to it
// going round by its number.
func (l *classifier) Validate(ctx context.Context, _ int) (voxsaw.Validation, error) {
	if l.Validation == nil {
		return voxsaw.Validation{}, nil
	}
	right, sum := 0, 0.0
	for from := 0; from < len(l.held); from += l.Pass {
		if err := ctx.Err(); err != nil {
			return voxsaw.Validation{}, err
		}
		b := l.config.empty(l.Pass)
		part := l.held[from:min(from+l.Pass, len(l.held))]
		// the last batch is filled up with photographs that do not count
		for item := range l.Pass {
			photo := part[min(item, len(part)-1)]
			if err := l.config.cut(b, item, l.data, photo, (from+item)%len(l.config.Classes), nil); err != nil {
				return voxsaw.Validation{}, err
			}
			if item >= len(part) {
				b.truth[item] = -1
			}
		}
		n, loss, err := l.look(l.Validation, b, len(part))
		if err != nil {
			return voxsaw.Validation{}, err
		}
		right, sum = right+n, sum+loss*float64(len(part))
	}
	score := float64(right) / float64(len(l.held))
	return voxsaw.Validation{Score: score, Metrics: []voxsaw.Metric{{Name: "loss", Value: sum / float64(len(l.held))},
		{Name: "right", Value: score}}}, nil
}
