// Package restoration holds the pretext tasks in which the whole network learns, decoder and
// encoder: something is done to a crop, and the network says of each voxel what it was before.
//
//   - mae: a crop of which most blocks are masked is restored (He et al., Masked Autoencoders,
//     CVPR 2022; in 3D as nnssl has it, Wald et al. 2025);
//   - fusion: two crops were mixed, and the network tells each voxel's share of the first (Wang et
//     al., MIS-FM: Volume Fusion, 2023).
//
// Start at [Config] and at the interface corruption, which is all that a task has of its own: one
// file each. The network is the backbone that is fine-tuned later, its parameters under the same
// names, with one output a voxel, or one for each class. The package registers the tasks; there is
// nothing to call.
package restoration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	_ "github.com/voxsaw/voxsaw/internal/backbone/all" // the networks to choose from
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
)

// A corruption is the part in which these tasks differ: how examples are made, and what is
// predicted. Its fields are settings.
type corruption interface {
	// check says what is wrong with the settings, for crops of a size.
	check(crop [3]int) error
	// outputs is 1 where the intensities of each voxel are restored, else the number of classes,
	// one of which each voxel has.
	outputs() int
	// crops is how many crops an example is made of.
	crops() int
	// corrupt makes an example of the crops (Channels, D, H, W), which it may spoil.
	corrupt(r *rand.Rand, crops [][]float32, e example)
}

// A teller is a [corruption] where the network tells the class of each voxel.
type teller interface {
	corruption
	loss() nn.LossOptions
}

// An example is what the network is shown and what it shall tell.
type example struct {
	size   [3]int    // along (i, j, k)
	input  []float32 // (Channels, D, H, W): normalised intensities, -1 to 1
	target []float32 // the same, or numbers of classes, (D, H, W)
	counts []float32 // of target, 1 where a value counts for the loss, else 0; all count at first
}

// channels are the channels of some values, each (D, H, W).
func (e example) channels(values []float32) [][]float32 {
	return slices.Collect(slices.Chunk(values, e.size[0]*e.size[1]*e.size[2]))
}

// Config is all there is to say about a run of a task but its data.
type Config[T corruption] struct {
	pretext.Settings `yaml:",inline"`
	Task             T `yaml:",inline"`

	Preparation volume.Preparation `yaml:"preparation" flag:"-" help:"how the cases were prepared, from the data"`

	name string // of the task
}

// register puts a task on the list of pretext tasks. New makes its default settings.
func register[T corruption](t pretext.Task, settings func() (pretext.Settings, T)) {
	defaults := func() *Config[T] {
		c := &Config[T]{name: t.Name}
		c.Settings, c.Task = settings()
		return c
	}
	t.Items = "crops"
	t.New = func() pretext.Config { return defaults() }
	t.Open = func(_ context.Context, dev voxsaw.Device, path string, o pretext.OpenOptions) (pretext.Evaluator, error) {
		c := defaults()
		return open(dev, path, c, c.task, o)
	}
	pretext.Scans.Register(t)
}

// A task is a corruption with the settings around it.
type task struct {
	corruption
	*pretext.Settings
	name string
}

func (c *Config[T]) task() task { return task{c.Task, &c.Settings, c.name} }

// Resolve implements [pretext.Config].
func (c *Config[T]) Resolve(of sample.Store) (err error) {
	c.Preparation = pretext.PreparationOf(of, c.Preparation)
	c.Network.Inputs = c.Preparation.Inputs()
	c.Network.Classes = toldOf(c.Task, c.Network)
	if c.Network, err = backbone.Resolve(c.Network); err != nil {
		return err
	}
	return c.Check()
}

// Check implements [pretext.Model].
func (c *Config[T]) Check() error {
	if err := checkSettings(&c.Settings); err != nil {
		return err
	}
	if err := c.Task.check(c.Crop); err != nil {
		return err
	}
	if want := toldOf(c.Task, c.Network); c.Network.Classes != want {
		return fmt.Errorf("network.classes is %d, must be %d: task %s predicts that many values a voxel",
			c.Network.Classes, want, c.name)
	}
	return nil
}

// checkSettings says what is wrong with settings that the network's crop must fit.
func checkSettings(s *pretext.Settings) error {
	b, err := s.Check()
	if err != nil {
		return err
	}
	if err := backbone.Fits(b, s.Crop); err != nil {
		return fmt.Errorf("crop: %w", err)
	}
	return nil
}

// Idle implements [pretext.Config]: the decoder is trained, too.
func (c *Config[T]) Idle() error { return backbone.Idle(c.Network) }

// Pretrain implements [pretext.Config].
func (c *Config[T]) Pretrain(ctx context.Context, dev voxsaw.Device, data sample.Data,
	o voxsaw.RunOptions) (voxsaw.Summary, error) {
	return c.pretrain(ctx, dev, data, o, train.Group{})
}

// pretrain is Pretrain as one of several ranks.
func (c *Config[T]) pretrain(ctx context.Context, dev voxsaw.Device, data sample.Data, o voxsaw.RunOptions,
	group train.Group) (voxsaw.Summary, error) {
	if err := c.Check(); err != nil {
		return voxsaw.Summary{}, err
	}
	return pretext.Train(ctx, dev, pretext.Job[*batch]{
		Idle: c.Idle(),
		Task: c.name, Settings: c, Training: c.Train, Crop: c.Crop, ValidateCases: c.ValidateCases,
		Declare: c.Declare,
		Compile: func(w pretext.Workbench) (train.Learner[*batch], error) { return newLearner(c.task(), w) },
	}, data, o, group)
}

// Declare declares the parameters of the whole model.
func (c *Config[T]) Declare(params *nn.Params) error {
	g := nn.NewGraph(nn.Train, params.Device().Activations())
	c.task().network(g, "image", 1)
	if err := params.Declare(g); err != nil {
		return fmt.Errorf("building the network: %w", err)
	}
	return nil
}

// network adds the whole network to a graph of n crops: the named input (n, C, D, H, W) becomes
// outputs (n, classes, D, H, W) and, of a network with deep supervision in training, further ones
// at half the size and so on.
func (t task) network(g *nn.Graph, input string, n int) []*nn.Node {
	b, err := backbone.Of(t.Network)
	if err != nil {
		return []*nn.Node{g.Fail("%w", err)}
	}
	stages := b.Encoder(g, backbone.Input(g, input, b, n, t.Crop))
	if g.Err() != nil {
		return nil
	}
	return b.Decoder(g, stages)
}

// toldOf is how many values a network tells of each voxel: the intensities of all channels, or a
// number for each class.
func toldOf(c corruption, n voxsaw.Network) int {
	if c.outputs() > 1 {
		return c.outputs()
	}
	return n.InputChannels()
}

// voxels of a crop.
func (t task) voxels() int { return t.Crop[0] * t.Crop[1] * t.Crop[2] }

// values of a crop in all channels.
func (t task) values() int { return t.Network.InputChannels() * t.voxels() }

// targets of a crop: its values, or the classes of its voxels.
func (t task) targets() int {
	if t.outputs() > 1 {
		return t.voxels()
	}
	return t.values()
}
