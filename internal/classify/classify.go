// Package classify is what pretext tasks have in common whose answer is a class: the network looks
// at one or several patches of a crop, and tells by which of some rotations the crop was turned,
// where a patch lies, in which order the patches are.
//
// Start at [Task], which says what is different about a task on scans: how its patches are made,
// and what there is to tell about them. The settings that all have are [Settings]; [Pretrain] and
// [Open] do the rest. A [Work] is what a [Learner] needs of any task, on scans or photographs.
// Puzzles are not solved here: package jigsaw does.
package classify

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	_ "github.com/voxsaw/voxsaw/internal/backbone/all" // the networks to choose from
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
)

// Settings are those that every task of this kind has.
type Settings struct {
	pretext.Settings `yaml:",inline"`

	Features int `yaml:"features" help:"width of a patch's feature" range:"[1,)"`

	Preparation volume.Preparation `yaml:"preparation" flag:"-" help:"how the cases were prepared, from the data"`
}

// DefaultSettings are a start for a task, with crops of a side.
func DefaultSettings(side, batch int) Settings {
	return Settings{Settings: pretext.DefaultSettings(side, batch), Features: 256}
}

// Base implements [Config].
func (s *Settings) Base() *Settings { return s }

// Prepare completes the settings with the network's own values and with how the cases were
// prepared, and gives the network.
func (s *Settings) Prepare(of sample.Store) (b backbone.Backbone, err error) {
	s.Preparation = pretext.PreparationOf(of, s.Preparation)
	s.Network.Inputs = s.Preparation.Inputs()
	if s.Network, err = backbone.Resolve(s.Network); err != nil {
		return nil, err
	}
	return backbone.Of(s.Network)
}

// Check says what is wrong with the settings, nil if nothing is, and gives the network.
func (s *Settings) Check() (backbone.Backbone, error) {
	if err := pretext.CheckRange("features", s.Features, 1, 1<<16); err != nil {
		return nil, err
	}
	return s.Settings.Check()
}

// Config is all settings of a task: a pointer to a struct that holds Settings.
type Config interface {
	pretext.Config
	pretext.Model
	// Base is the settings that all tasks have.
	Base() *Settings
	// Task is the task with these settings, which have been checked. What takes long to make ready
	// ends with the context.
	Task(ctx context.Context) (Task, error)
}

// A Task is what is different about a task.
type Task struct {
	Name    string // with which the names of the head's parameters begin, too
	Patches int    // that the network looks at for an answer
	Patch   [3]int // size of one, along (i, j, k)
	Targets []Target
	// Cut makes the patches (Patches, Channels, D, H, W) of the crop at an origin of a case, such
	// that the truth is right about them. A nil generator stands for no jitter. It is called on
	// several goroutines at once.
	Cut func(dst []float32, c sample.Sample, origin [3]int, truth []int, r *rand.Rand) error
	// Notes are what a person should know of the settings before a run.
	Notes []string
	// Draws is how often the crop in the middle of a held-out case is drawn a truth for. 0: the
	// only target is asked for in each of its classes, once.
	Draws int
	// Picture shows how the task is done on a case.
	Picture func(e *Evaluator, c sample.Sample) (pretext.Picture, error)
}

// A Target is something to tell about the patches. Its classes are drawn with equal probabilities.
type Target struct {
	Name    string // "class"
	Classes int
	Each    bool    // it is told about each of the patches
	Hidden  int     // width of a hidden layer over the features of all patches; 0: none
	Weight  float32 // of its cross-entropy in the loss
}

// count is how many classes are told of a target.
func (t Task) count(target Target) int {
	if target.Each {
		return t.Patches
	}
	return 1
}

// values is the number of values of all patches of an item.
func (t Task) values(s *Settings) int {
	return t.Patches * s.Network.InputChannels() * t.Patch[0] * t.Patch[1] * t.Patch[2]
}

// draw draws the truth about an item.
func (t Task) draw(r *rand.Rand) []int {
	var truth []int
	for _, target := range t.Targets {
		for range t.count(target) {
			truth = append(truth, r.IntN(target.Classes))
		}
	}
	return truth
}

// logits adds the network to a graph of n items: the input "image" (n x Patches, C, D, H, W)
// becomes scores of the classes of each target: (n, Classes), or (n x Patches, Classes) where each
// patch has a target of its own.
//
// The encoder looks at each patch alone. The features of all patches, side by side, go through a
// hidden layer to the scores, for each target another one: so do Siamese networks for jigsaws and
// Rubik's cubes (Zhuang et al., MICCAI 2019).
func (t Task) logits(g *nn.Graph, s *Settings, n int) []*nn.Node {
	b, err := backbone.Of(s.Network)
	if err != nil {
		g.Fail("%w", err)
		return nil
	}
	x := backbone.Patches{Backbone: b, Size: t.Patch}.Encode(g, backbone.Input(g, "image", b, n*t.Patches, t.Patch))
	if g.Err() != nil {
		return nil
	}
	x = g.ReLU(g.Linear(t.Name+".feature", x, s.Features, true))
	if t.Patches > 1 {
		x = g.Reshape(x, n, t.Patches*s.Features)
	}
	var all []*nn.Node
	for _, target := range t.Targets {
		h, name := x, t.Name+"."+target.Name
		if target.Hidden > 0 {
			h = g.ReLU(g.Linear(name+".hidden", x, target.Hidden, true))
		}
		h = g.Linear(name, h, t.count(target)*target.Classes, true)
		if target.Each {
			h = g.Reshape(h, n*t.Patches, target.Classes)
		}
		all = append(all, h)
	}
	return all
}

// Declare declares the parameters of a task's whole model.
func Declare(ctx context.Context, c Config, params *nn.Params) error {
	t, err := c.Task(ctx)
	if err != nil {
		return err
	}
	g := nn.NewGraph(nn.Train, params.Device().Activations())
	t.logits(g, c.Base(), 1)
	if err := params.Declare(g); err != nil {
		return fmt.Errorf("building the network: %w", err)
	}
	return nil
}

// Neighbour is the cell of a class, of a grid of so many cells: all but that in the middle, in
// row-major order.
func Neighbour(class, cells int) int {
	if class >= cells/2 {
		return class + 1
	}
	return class
}

// Register puts a task on the list of pretext tasks. defaults makes its settings; with them, where
// the task draws truths, comes the setting that says how many are drawn of each held-out case.
func Register(t pretext.Task, defaults func() (c Config, draws *int)) {
	t.New = func() pretext.Config {
		c, _ := defaults()
		return c
	}
	t.Open = func(ctx context.Context, dev voxsaw.Device, path string, o pretext.OpenOptions) (pretext.Evaluator,
		error) {
		c, draws := defaults()
		return Open(ctx, dev, path, t.Name, c, draws, o)
	}
	pretext.Scans.Register(t)
}

// Pretrain trains with settings that are resolved, as one of several ranks or, with an empty group,
// alone.
func Pretrain(ctx context.Context, dev voxsaw.Device, c Config, data sample.Data, o voxsaw.RunOptions,
	group train.Group) (voxsaw.Summary, error) {
	if err := c.Check(); err != nil {
		return voxsaw.Summary{}, err
	}
	t, err := c.Task(ctx)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	s := c.Base()
	return pretext.Train(ctx, dev, pretext.Job[*Batch]{
		Idle: c.Idle(), Notes: t.Notes,
		Task: t.Name, Settings: c, Training: s.Train, Crop: s.Crop, ValidateCases: s.ValidateCases,
		Declare: func(params *nn.Params) error { return Declare(ctx, c, params) },
		Compile: func(w pretext.Workbench) (train.Learner[*Batch], error) { return NewLearner(t, s, w) },
	}, data, o, group)
}
