package puzzle2d

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/classify"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/photonet"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/rot90"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
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
	Task   string `yaml:"-"` // Labels, Rotation or Position
	Common `yaml:",inline"`

	// labels, rotation: width and height of what is looked at
	Crop int `yaml:"crop" range:"[1,)" most:"4096"`
	// position: width and height of a cell; the grid is 3x3
	Cell int `yaml:"cell" range:"[1,)" most:"4096"`
	// position: width and height of a patch
	Patch int `yaml:"patch" range:"[1,)" most:"4096"`
	// labels, rotation: half of the photographs are mirrored; position: each patch
	Mirror bool `yaml:"mirror"`
	// photographs in a step; auto: as many as fit into memory
	Batch int `yaml:"batch" words:"auto=0" most:"4096"`
	// names of the classes, from the data
	//
	// Classes are the names of the classes that are told apart, from the data.
	Classes []string `yaml:"names" flag:"-"`

	// held-out photographs to validate on during training; 0: all
	ValidatePhotos int `yaml:"validate_photos"`
}

// DefaultClassification has the sizes of [DefaultConfig].
func DefaultClassification(task string) Classification {
	c := DefaultConfig()
	return Classification{
		Task: task, Common: c.Common, Crop: 224, Cell: c.Cell, Patch: c.Patch, Mirror: task != Position, Batch: 32,
		ValidatePhotos: 500,
	}
}

// Resolve completes the configuration with what follows from the photographs, and says what is
// wrong with it.
func (c Classification) Resolve(of sample.Store) (Classification, error) {
	store, err := folder(of)
	if err != nil {
		return c, err
	}
	if c.Input, err = c.Input.Of(store); err != nil {
		return c, err
	}
	switch c.Task {
	case Labels:
		if c.Classes = store.Classes(); len(c.Classes) < 2 {
			return c,
				fmt.Errorf("the photographs have %d classes: labels are learnt of "+
					"two or more, each in a folder of its own", len(c.Classes))
		}
		if _, _, err := labelled(Split(store)); err != nil {
			return c, err
		}
	case Rotation:
		c.Classes = []string{"0", "90", "180", "270"}
	case Position:
		c.Classes = []string{"upper left", "above", "upper right", "left", "right", "lower left", "below",
			"lower right"}
	}
	if width, height := store.Size(); min(width, height) < c.extent() {
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

// sizes are those that one task looks at and another does not.
func (c Classification) sizes() []size {
	usual := DefaultClassification(c.Task)
	return []size{{"crop", c.Crop, usual.Crop, []string{Labels, Rotation}},
		{"cell", c.Cell, usual.Cell, []string{Position}}, {"patch", c.Patch, usual.Patch, []string{Position}}}
}

// A size is one of a setting, which has a value by default, and the tasks that look at it.
type size struct {
	key          string
	value, usual int
	tasks        []string
}

// Idle says which settings do nothing beside the others, or for this task, so that a new run is
// refused with them; nil: none. They are no matter of Check: a run that has begun may go on with
// them.
func (c Classification) Idle() error {
	idle := c.Common.Idle()
	for _, s := range c.sizes() {
		if c.lacks(s.key) && s.value != s.usual {
			idle = errors.Join(idle, &config.IdleError{Keys: []string{s.key}, Advice: fmt.Sprintf(
				"%s is a setting of task %s, and the task is %s: leave it out", s.key, strings.Join(s.tasks, " and "),
				c.Task)})
		}
	}
	return idle
}

// lacks tells whether a setting is another task's.
func (c Classification) lacks(key string) bool {
	return slices.ContainsFunc(c.sizes(), func(s size) bool {
		return s.key == key && !slices.Contains(s.tasks, c.Task)
	})
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

// TrainClassifier trains the network to tell the classes apart, with the configuration that
// [Classification.Resolve] makes of this one. The score of a validation is the share of right
// answers on held-out photographs. What [Pretrain] says of runs holds here, too.
func TrainClassifier(ctx context.Context, dev voxsaw.Device, c Classification, data sample.Data,
	o voxsaw.RunOptions) (voxsaw.Summary, error) {
	c, err := c.Resolve(data.Store)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	var notes []string
	if c.Task == Labels {
		if data, notes, err = labelled(data); err != nil {
			return voxsaw.Summary{}, err
		}
	}
	return pretext.Train(ctx, dev, pretext.Job[*classify.Batch]{
		Task: photoTask(c.Task), Settings: &c, Training: c.Train, Undivided: smallerBatch,
		Idle: c.Idle(), Start: start(c.Checkpoint, c.InitPartial, c.Network),
		Declare: func(params *nn.Params) error {
			g := nn.NewGraph(nn.Train, params.Device().Activations())
			if c.logits(g, c.Batch); g.Err() != nil { // a batch of one has no variance
				return g.Err()
			}
			return params.Declare(g)
		},
		Compile: func(bench pretext.Workbench) (train.Learner[*classify.Batch], error) {
			bench.Held = Spread(bench.Held, c.ValidatePhotos)
			work := c.work()
			work.Items = func(ctx context.Context, step, first, n int, put func(string, []int) []float32) error {
				return c.items(ctx, bench.Train, step, first, n, put)
			}
			l, err := work.Learner(bench)
			return noted{l, notes}, err
		},
	}, data, o, train.Group{})
}

// EstimateClassifierMemory is the memory that [TrainClassifier] would need, and trains nothing.
func EstimateClassifierMemory(ctx context.Context, dev voxsaw.Device, c Classification, data sample.Data,
	o voxsaw.RunOptions) (need voxsaw.MemoryNeed, err error) {
	o.Need = &need
	_, err = TrainClassifier(ctx, dev, c, data, o)
	return need, err
}

// noted is a learner with something to say about its data.
type noted struct {
	*classify.Learner
	notes []string
}

// Notes implements [train.Learner].
func (l noted) Notes() []string { return append(l.notes, l.Learner.Notes()...) }

// logits adds the network to a graph of n photographs.
func (c Classification) logits(g *nn.Graph, n int) []*nn.Node {
	e, err := c.net()
	if err != nil {
		g.Fail("%w", err)
		return nil
	}
	images, side := c.images()
	x := e.Encode(g, g.Input("image", n*images, 3, 1, side, side))
	if g.Err() != nil {
		return nil
	}
	if images > 1 { // both features side by side, through one hidden layer
		x = g.Reshape(x, n, x.Shape().Elements()/n)
		x = g.ReLU(g.Linear("class.both", x, 1024, true))
	}
	return []*nn.Node{g.Linear("class.answer", x, len(c.Classes), true)}
}

// work is what package classify wants to know, but for the items of a step. Of every held-out
// photograph it is asked about the middle; what happened to it goes round by its place.
func (c Classification) work() classify.Work {
	images, side := c.images()
	return classify.Work{
		Targets: []classify.Target{{Name: "answer", Classes: len(c.Classes), Weight: 1}},
		Patches: images, Values: images * 3 * side * side, Channels: 3, Batch: c.Batch, Seed: c.Train.Seed,
		About: "photographs", Metrics: []pretext.Measure{{Key: "right", Title: "told right"}}, Logits: c.logits,
		Batched: true,
		Ask: func(photo sample.Sample, place int, f func([]int, func([]float32) error) error) error {
			class, err := c.truth(photo, place%len(c.Classes))
			if err != nil {
				return err
			}
			return f([]int{class}, func(dst []float32) error { return c.cut(dst, photo, class, nil) })
		},
	}
}

// items makes those of a step, as [classify.Work] has it.
func (c Classification) items(ctx context.Context, photographs []sample.Sample, step, first, n int,
	put func(string, []int) []float32) error {
	for item := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := seed.Rand(c.Train.Seed, "photo", uint64(step), uint64(first+item))
		photo := photographs[r.IntN(len(photographs))]
		class, err := c.truth(photo, r.IntN(len(c.Classes)))
		if err == nil {
			err = c.cut(put(photo.Name(), []int{class}), photo, class, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// truth is what there is to tell of a photograph: what happened to it, or its class.
func (c Classification) truth(photo sample.Sample, happened int) (int, error) {
	if c.Task != Labels {
		return happened, nil
	}
	class := labelOf(photo)
	if class < 0 {
		return 0, fmt.Errorf("%s has no label: labels are learnt of photographs in folders that are called after "+
			"their class", photo.Name())
	}
	return class, nil
}

// cut writes what the network looks at of a photograph that something happened to. Without a
// generator it is cut out of the middle.
func (c Classification) cut(dst []float32, photo sample.Sample, class int, r *rand.Rand) error {
	pixels, err := sample.Load(photo)
	if err != nil {
		return err
	}
	_, side := c.images()
	size := 3 * side * side
	v := view{of: pixels, height: side, width: side, gray: c.Input.grayed(r)}
	v.top, v.left = corner(photo, c.extent(), c.extent(), r)
	if c.Task == Position { // the patch in the middle, and one of those around it
		layout := puzzle.Layout{Grid: around, Crop: []int{3 * c.Cell, 3 * c.Cell}, Patch: []int{side, side}}
		for k, cell := range []int{middle, classify.Neighbour(class, around.Cells())} {
			if err := c.Input.patch(dst[k*size:(k+1)*size], v, layout, cell, c.Mirror, r); err != nil {
				return err
			}
		}
		return nil
	}
	v.mirrored = r != nil && c.Mirror && r.IntN(2) == 1
	if c.Task != Rotation {
		return c.Input.write(dst, v)
	}
	upright := make([]float32, size)
	err = c.Input.write(upright, v)
	turns[class].Apply(dst, upright, [3]int{side, side, 1})
	return err
}

// around is the grid of positions, and middle the cell that the others are seen from.
var around = puzzle.Grid{3, 3}

const middle = 4

// turns are the rotations of a photograph, against the clock.
var turns = []rot90.Turn{rot90.Identity, rot90.Quarter(2).Then(rot90.Half(2)), rot90.Half(2), rot90.Quarter(2)}
