package puzzle2d

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/photonet"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/voc"
	"github.com/voxsaw/voxsaw/sample"
)

// Detection is fine-tuning to find objects: Fast R-CNN (Girshick, ICCV 2015) on proposals that come
// from a file. The network looks at a photograph once; each proposal's part of its maps is pooled
// to one size, and from there on told what class it is of, and how its box should move. The losses
// are the softmax cross-entropy of the classes and the background, and the smooth L1 distance of
// the moves, which are normalised by their mean and deviation over the data set.
//
// Photographs are seen at the size that they were prepared to, the whole of them. What a move is
// does not depend on that size; boxes are compared with objects on the original photograph.
type Detection struct {
	FinetuneSettings `yaml:",inline"`

	// detect: file of proposals, CSV (perhaps in gzip) with the columns photo,xmin,ymin,xmax,ymax
	Proposals string `yaml:"proposals"`
	// digest of the proposals, from the data
	//
	// ProposalsDigest is the SHA-256 of that file, from the data.
	ProposalsDigest string `yaml:"proposals_digest" flag:"-"`
	// detect: proposals of a photograph that are used, its first ones; 0: all
	MostProposals int `yaml:"most_proposals"`

	// detect: photographs in a step; auto: as many as fit into memory
	Images int `yaml:"images" words:"auto=0"`
	// detect: regions of each photograph in a step
	Regions int `yaml:"regions" range:"[1,)"`
	// detect: share of these that show an object, at most
	Foreground float64 `yaml:"foreground" range:"[0,1]"`
	// detect: overlap with an object from which on a proposal shows it
	ForegroundOverlap float64 `yaml:"foreground_overlap" range:"[0,1]"`
	// detect: overlaps with an object from which on, and below which, a proposal is background
	BackgroundOverlap [2]float64 `yaml:"background_overlap,flow" range:"[0,1]"`

	// detect: overlap above which the less confident of two boxes of a class is dropped
	Suppress float64 `yaml:"suppress" range:"[0,1]"`
	// detect: boxes of less confidence are dropped
	MinConfidence float64 `yaml:"min_confidence" range:"[0,1]"`
	// detect: boxes of a photograph that are kept, over all classes
	MostDetections int `yaml:"most_detections" range:"[1,)"`

	// mean of the moves of each class, from the data
	//
	// BoxMean and BoxDeviation are those of the four moves of each class, over the proposals that
	// are trained on: from the data.
	BoxMean []float64 `yaml:"box_mean,flow" flag:"-"`
	// standard deviation of these moves, from the data
	BoxDeviation []float64 `yaml:"box_deviation,flow" flag:"-"`

	proposals *Proposals // that Resolve has read
}

// DefaultDetection has Fast R-CNN's values: 2 photographs of 64 regions a step, 40,000 steps of
// which the last 10,000 at a tenth of the rate. What is kept of the boxes is what its successor's
// code has: confidences from 0.05, and 100 a photograph.
func DefaultDetection() Detection {
	c := DefaultConfig()
	t := c.Train
	t.LR, t.Steps, t.Schedule, t.StepSize, t.Gamma, t.ValidateEvery, t.CheckpointEvery = 1e-3, 40000, "step", 30000,
		0.1, 5000, 1000
	return Detection{
		FinetuneSettings: FinetuneSettings{TrainOn: OnTrainval, Network: c.Network, Train: t, Input: c.Input,
			Mirror: true, ValidatePhotos: 500},
		MostProposals: 2000, Images: 2, Regions: 64, Foreground: 0.25, ForegroundOverlap: 0.5,
		BackgroundOverlap: [2]float64{0.1, 0.5},
		Suppress:          0.3, MinConfidence: 0.05, MostDetections: 100,
	}
}

// Items implements [Finetuning].
func (c *Detection) Items() *int { return &c.Images }

// Resolve implements [Finetuning]. It reads the proposals.
func (c *Detection) Resolve(of sample.Store) (Finetuning, error) {
	r := *c
	return &r, r.resolve(of, r.complete)
}

func (c *Detection) complete(data marked) error {
	if err := c.FinetuneSettings.complete(data); err != nil {
		return err
	}
	if data.Fit() != "warp" {
		return fmt.Errorf("the photographs were prepared with --fit %s, which cuts objects off: detection sees "+
			"whole photographs, prepared with --fit warp", data.Fit())
	}
	for _, photo := range [][]int{data.train, data.validate, data.test} {
		if err := data.boxesLie(photo); err != nil {
			return err
		}
	}
	if c.Proposals == "" {
		return errors.New("no proposals: name their file with --proposals; " +
			"docs/photographs.md says how OpenCV makes one")
	}
	var err error
	if c.proposals, err = ReadProposals(c.Proposals, data.Store, c.MostProposals); err != nil {
		return err
	}
	for _, photo := range [][]int{data.train, data.validate, data.test} {
		if err := c.proposals.complete(data.Store, photo); err != nil {
			return err
		}
	}
	c.ProposalsDigest = c.proposals.digest
	c.BoxMean, c.BoxDeviation = c.normals(data)
	return c.Check()
}

// boxesLie says whether objects lie on their photographs.
func (m marked) boxesLie(photos []int) error {
	for _, n := range photos {
		r := m.Record(n)
		for _, o := range r.Objects {
			if err := onPhotograph(voc.Box(o.Box), m.Store, n); err != nil {
				return fmt.Errorf("%s: %w; mend it, and prepare again",
					path.Join(path.Dir(path.Dir(r.Path)), "Annotations", stem(r.Path)+".xml"), err)
			}
		}
	}
	return nil
}

// Check says what is wrong with the settings, nil if nothing is.
func (c *Detection) Check() error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Images < 1 || c.Images > 1<<10 || c.Regions < 1 || c.Regions > 1<<14 || c.MostProposals < 0 ||
		c.MostDetections < 1 {
		return fmt.Errorf("%d photographs a step, %d regions and %d proposals each, %d "+
			"detections: must be 1 or more (0 proposals: all)", c.Images, c.Regions, c.MostProposals, c.MostDetections)
	}
	for _, v := range []struct {
		name  string
		value float64
	}{{"foreground", c.Foreground}, {"foreground_overlap", c.ForegroundOverlap},
		{"background_overlap", c.BackgroundOverlap[0]}, {"background_overlap", c.BackgroundOverlap[1]},
		{"suppress", c.Suppress}, {"min_confidence", c.MinConfidence}} {
		if !(v.value >= 0 && v.value <= 1) {
			return fmt.Errorf("%s is %v, must be from 0 to 1", v.name, v.value)
		}
	}
	if c.BackgroundOverlap[0] >= c.BackgroundOverlap[1] || c.BackgroundOverlap[1] > c.ForegroundOverlap {
		return fmt.Errorf("background overlaps from %v to %v, foreground from %v: the three must rise",
			c.BackgroundOverlap[0], c.BackgroundOverlap[1], c.ForegroundOverlap)
	}
	_, err := c.net()
	return err
}

// net is the network. Its input is as large as the region that AlexNet's fc6 sees; photographs may
// be larger.
func (c *Detection) net() (*photonet.Network, error) {
	if c.Network.Backbone == photonet.AlexNet {
		return c.Network.net(227, 227)
	}
	return c.Network.net(224, 224)
}

// objects are those of a photograph to learn from: not the difficult ones.
func (m marked) objects(photo int) []object {
	var list []object
	for _, o := range m.Record(photo).Objects {
		if !o.Difficult {
			list = append(list, object{voc.Box(o.Box), o.Class})
		}
	}
	return list
}

// candidates are the boxes that regions of a training photograph are drawn from: the proposals, and
// the objects' own boxes, as in Fast R-CNN's code.
func (c *Detection) candidates(photo int, objects []object) []voc.Box {
	boxes := c.proposals.of(photo)
	for _, o := range objects {
		boxes = append(boxes, o.box)
	}
	return boxes
}

// normals are the mean and the deviation of the moves of each class.
func (c *Detection) normals(data marked) (mean, deviation []float64) {
	spreads := make([]spread, 4*len(c.Classes))
	for _, photo := range data.train {
		objects := data.objects(photo)
		for _, box := range c.candidates(photo, objects) {
			which, overlap := nearest(box, objects)
			if overlap < c.ForegroundOverlap || which < 0 {
				continue
			}
			for i, v := range offsets(box, objects[which].box) {
				spreads[4*objects[which].class+i].add(v)
			}
		}
	}
	for i := range spreads {
		m, d := spreads[i].normal()
		mean, deviation = append(mean, m), append(deviation, d)
	}
	return mean, deviation
}

// network builds the network of a step.
func (c *Detection) network(g *nn.Graph, height, width int) (outputs, error) {
	net, err := c.net()
	if err != nil {
		return nil, err
	}
	rows, columns := c.Images*c.Regions, 4*(len(c.Classes)+1)
	maps, scale := net.Maps(g, g.Input("photographs", c.Images, 3, 1, height, width))
	scores, boxes := net.Detect(g, net.Regions(g, maps, g.Input("regions", rows, 5), scale), len(c.Classes))
	if g.Err() != nil {
		return nil, g.Err()
	}
	class, _ := g.Loss(scores, g.Input("truth", rows), nn.LossOptions{CE: 1})
	box := g.SmoothL1(boxes, g.Input("moves", rows, columns), g.Input("weights", rows, columns), 1)
	return outputs{"class": class, "box": box, "loss": g.Add(class, box)}, g.Err()
}

// Run implements [Finetuning]. The settings are resolved ones.
func (c *Detection) Run(ctx context.Context, dev voxsaw.Device, data sample.Data, o voxsaw.RunOptions) (voxsaw.Summary,
	error) {
	m, err := markedOf(data)
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		return voxsaw.Summary{}, err
	}
	l := newDetectionLearner(c, m)
	width, height := m.Size()
	l.build = func(g *nn.Graph) (outputs, error) { return c.network(g, height, width) }
	return pretext.Train(ctx, dev, pretext.Job[*regionsOfStep]{
		Task: photoTask(Detect), Settings: c, Training: c.Train, Undivided: smallerBatch, Groups: c.groups(),
		Idle:  idlePartial(c.InitPartial, c.Checkpoint),
		Start: start(c.Checkpoint, c.InitPartial, c.Network), Declare: l.declare,
		Compile: func(w pretext.Workbench) (train.Learner[*regionsOfStep], error) { return l, l.compile(w) },
	}, data, o, train.Group{})
}

// detectionLearner is a [Detection] as the training loop sees it.
type detectionLearner struct {
	programs
	config *Detection
	data   marked
	train  []int     // photographs with an object to learn from
	finder *detector // nil where nothing is held out
}

func newDetectionLearner(c *Detection, data marked) *detectionLearner {
	l := &detectionLearner{config: c, data: data}
	for _, photo := range data.train {
		if len(data.objects(photo)) > 0 {
			l.train = append(l.train, photo)
		}
	}
	return l
}

// Notes implements [train.Learner].
func (l *detectionLearner) Notes() []string {
	notes := l.programs.Notes()
	if without := len(l.data.train) - len(l.train); without > 0 {
		notes = append(notes, fmt.Sprintf("passed over in training: %s without an object that is not difficult",
			numbers.Count(without, "photograph")))
	}
	return notes
}

func (l *detectionLearner) compile(w pretext.Workbench) (err error) {
	if err = l.programs.compile(w, fmt.Sprintf("%s with %s each", numbers.Count(l.config.Images, "photograph"),
		numbers.Count(l.config.Regions, "region")), "photographs", false); err != nil {
		return err
	}
	if len(l.data.validate) == 0 {
		return nil
	}
	if l.finder, err = newDetector(w.Device, l.config, l.data, w.Params, l.Training, w.Memory); err != nil {
		l.Close()
	}
	return err
}

// Close implements [train.Learner].
func (l *detectionLearner) Close() {
	if l.finder != nil {
		l.finder.close()
	}
	l.programs.Close()
}

// regionsOfStep is the photographs and regions of a step.
type regionsOfStep struct {
	photographs []float32 // (Images, 3, height, width)
	regions     []float32 // (Images x Regions, 5): see device.RoISpec
	// (Images x Regions): 0 the background, then the classes; -1 counts not
	truth          []float32
	moves, weights []float32 // (Images x Regions, 4 (classes + 1))
	names          []string
}

// Batch implements [train.Task].
func (l *detectionLearner) Batch(ctx context.Context, step int) (*regionsOfStep, error) {
	c := l.config
	width, height := l.data.Size()
	rows, columns := c.Images*c.Regions, 4*(len(c.Classes)+1)
	b := &regionsOfStep{
		photographs: make([]float32, c.Images*3*height*width), regions: make([]float32, 5*rows),
		truth: make([]float32, rows),
		moves: make([]float32, rows*columns), weights: make([]float32, rows*columns),
	}
	for row := range b.truth {
		b.truth[row] = -1
	}
	count := 0
	for image := range c.Images {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := seed.Rand(c.Train.Seed, "photo", uint64(step), uint64(image))
		photo := l.train[r.IntN(len(l.train))]
		flipped := c.Mirror && r.IntN(2) == 1
		gray := c.Input.grayed(r)
		if err := l.data.show(b.photographs, image, photo, c.Input, flipped, gray); err != nil {
			return nil, err
		}
		b.names = append(b.names, l.data.Name(photo))
		objects := l.data.objects(photo)
		for k, region := range c.sample(r, c.candidates(photo, objects), objects) {
			c.place(b, image*c.Regions+k, image, l.data, photo, region, objects, flipped)
			count++
		}
	}
	for i := range b.weights { // the loss is divided by all rows, and some may not count
		b.weights[i] *= float32(rows) / float32(max(count, 1))
	}
	return b, nil
}

// show writes a whole photograph as one of several.
func (m marked) show(dst []float32, image, photo int, in Input, flipped, gray bool) error {
	width, height := m.Size()
	size := 3 * height * width
	return in.write(dst[image*size:(image+1)*size], view{of: m.Photo(photo), height: height, width: width,
		mirrored: flipped, gray: gray})
}

// place writes a region as a row of a step.
func (c *Detection) place(b *regionsOfStep, row, image int, data marked, photo int, r region, objects []object,
	flipped bool) {
	original, _ := data.Original(photo)
	box, target := r.box, voc.Box{}
	if r.object >= 0 {
		target = objects[r.object].box
	}
	if flipped {
		box, target = mirrored(box, original), mirrored(target, original)
	}
	data.region(b.regions[5*row:5*row+5], image, photo, box)
	if b.truth[row] = 0; r.object < 0 {
		return
	}
	class := objects[r.object].class
	b.truth[row] = float32(class + 1)
	at := row*4*(len(c.Classes)+1) + 4*(class+1)
	for i, v := range offsets(box, target) {
		b.moves[at+i] = float32((v - c.BoxMean[4*class+i]) / c.BoxDeviation[4*class+i])
		b.weights[at+i] = 1
	}
}

// region writes a box of a photograph as the network sees it, in pixels of the prepared one.
func (m marked) region(dst []float32, image, photo int, b voc.Box) {
	width, height := m.Size()
	w, h := m.Original(photo)
	x, y := float64(width)/float64(w), float64(height)/float64(h)
	dst[0] = float32(image)
	dst[1], dst[2] = float32((b[0]-1)*x), float32((b[1]-1)*y)
	dst[3], dst[4] = float32((b[2]-1)*x), float32((b[3]-1)*y)
}

// Ahead implements [train.Sender].
func (l *detectionLearner) Ahead(b *regionsOfStep) error {
	return l.Training.Ahead("photographs", b.photographs)
}

// Step implements [train.Task].
func (l *detectionLearner) Step(step int, b *regionsOfStep) (train.Result, error) {
	r := train.Result{Cases: b.names, Items: l.config.Images}
	err := l.Training.SetStep(l.config.Train.Seed, uint64(step))
	if err == nil {
		r.Loss, err = forward(l.Training, map[string][]float32{"photographs": b.photographs, "regions": b.regions,
			"truth": b.truth, "moves": b.moves, "weights": b.weights})
	}
	if err != nil || !numbers.Finite(r.Loss) {
		return r, err
	}
	for _, part := range []string{"class", "box"} {
		var value [1]float32
		if err := l.Training.Read(part, value[:]); err != nil {
			return r, err
		}
		r.Metrics = append(r.Metrics, voxsaw.Metric{Name: "loss_" + part, Value: float64(value[0])})
	}
	return r, l.Training.Backward()
}

// Validate implements [train.Task]: the objects on held-out photographs.
func (l *detectionLearner) Validate(ctx context.Context, _ int) (voxsaw.Validation, error) {
	if l.finder == nil {
		return voxsaw.Validation{}, nil
	}
	p, err := l.finder.precision(ctx, Spread(l.data.validate, l.config.ValidatePhotos), nil)
	if err != nil {
		return voxsaw.Validation{}, err
	}
	return p.validation(), nil
}
