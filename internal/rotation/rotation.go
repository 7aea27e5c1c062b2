// Package rotation is a pretext task: a crop is turned by right angles, and the network says which
// rotation it was (in two dimensions Gidaris et al. 2018; in three Taleb et al., 3D Self-Supervised
// Methods for Medical Imaging, NeurIPS 2020, section 3.4, whose ten rotations are the default).
//
// Start at [Config]. The package registers itself as a pretext task; there is nothing to call.
package rotation

import (
	"context"
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	_ "github.com/voxsaw/voxsaw/internal/backbone/all" // the networks to choose from
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume"
)

// name is what the task is called, and its checkpoints.
const name = "rotation"

func init() {
	pretext.Register(pretext.Task{
		Name: name, Short: "say by which right angles a crop was turned", Items: "crops", Title: "Rotations of unseen cases", Score: "rotations of held-out cases told",
		New: func() pretext.Config { return defaults() },
		Open: func(dev voxsaw.Device, path string, o pretext.OpenOptions) (pretext.Evaluator, error) {
			return open(dev, path, o)
		},
	})
}

// Config is all there is to say about a run but its data. Sizes are along the axes (i, j, k) of the
// prepared cases.
type Config struct {
	Network voxsaw.Network  `yaml:"network"`
	Train   voxsaw.Training `yaml:"train"`

	Crop      [3]int `yaml:"crop,flow" help:"size of the crop that is turned, in voxels: a cube"`
	Batch     int    `yaml:"batch" help:"crops in a step; auto: as many as fit into memory" auto:"0"`
	Rotations int    `yaml:"rotations" help:"10: by 90, 180 and 270 degrees about each axis, or not at all; 24: all rotations of a cube"`
	Features  int    `yaml:"features" help:"width of a crop's feature"`

	MaxAir        float64 `yaml:"max_air" help:"crops with at most this share of air are preferred; 1: any crop"`
	ValidateCases int     `yaml:"validate_cases" help:"held-out cases to validate on during training; 0: all"`

	Preparation volume.Preparation `yaml:"preparation" flag:"-" help:"how the cases were prepared, from the data"`
}

func defaults() *Config {
	return &Config{
		Network: voxsaw.DefaultNetwork(), Train: voxsaw.DefaultTraining(), Crop: [3]int{64, 64, 64}, Batch: 4, Rotations: 10, Features: 256, MaxAir: 0.3,
	}
}

// Common implements [pretext.Config].
func (c *Config) Common() pretext.Common {
	return pretext.Common{Network: &c.Network, Train: &c.Train, Crop: &c.Crop, Batch: &c.Batch, MaxAir: &c.MaxAir, ValidateCases: &c.ValidateCases}
}

// Resolve implements [pretext.Config].
func (c *Config) Resolve(how volume.Preparation) (err error) {
	c.Preparation = how
	if c.Network, err = backbone.Resolve(c.Network); err != nil {
		return err
	}
	return c.Check()
}

// Check implements [pretext.Model].
func (c *Config) Check() error {
	if err := c.Train.Check(); err != nil {
		return err
	}
	b, err := backbone.Of(c.Network)
	if err != nil {
		return err
	}
	if err := backbone.Fits(b, c.Crop); err != nil {
		return fmt.Errorf("crop: %w", err)
	}
	if c.Crop[0] != c.Crop[1] || c.Crop[1] != c.Crop[2] {
		return fmt.Errorf("crop is %dx%dx%d: only a cube can be turned by right angles", c.Crop[0], c.Crop[1], c.Crop[2])
	}
	if c.Rotations != 10 && c.Rotations != 24 {
		return fmt.Errorf("rotations is %d, must be 10 or 24", c.Rotations)
	}
	for _, v := range []struct {
		name             string
		value, low, high int
	}{{"batch", c.Batch, 1, 1 << 12}, {"features", c.Features, 1, 1 << 16}, {"validate_cases", c.ValidateCases, 0, 1 << 30}} {
		if v.value < v.low || v.value > v.high {
			return fmt.Errorf("%s is %d, must be from %d to %d", v.name, v.value, v.low, v.high)
		}
	}
	if !(c.MaxAir >= 0 && c.MaxAir <= 1) {
		return fmt.Errorf("max_air is %v, must be a share from 0 to 1", c.MaxAir)
	}
	return nil
}

// Pretrain implements [pretext.Config].
func (c *Config) Pretrain(ctx context.Context, dev voxsaw.Device, data pretext.Data, o voxsaw.RunOptions) (voxsaw.Summary, error) {
	return c.pretrain(ctx, dev, data, o, train.Group{})
}

// pretrain is Pretrain as one of several ranks.
func (c *Config) pretrain(ctx context.Context, dev voxsaw.Device, data pretext.Data, o voxsaw.RunOptions, group train.Group) (voxsaw.Summary, error) {
	if err := c.Check(); err != nil {
		return voxsaw.Summary{}, err
	}
	return pretext.Train(ctx, dev, pretext.Job[*batch]{
		Task: name, Settings: c, Training: c.Train, Crop: c.Crop, ValidateCases: c.ValidateCases,
		Declare: c.Declare,
		Compile: func(w pretext.Workbench) (train.Learner[*batch], error) { return newLearner(c, w) },
	}, data, o, group)
}

// Declare implements [pretext.Model].
func (c *Config) Declare(params *nn.Params) error {
	g := nn.NewGraph(nn.Train, params.Device().Activations())
	c.logits(g, 1)
	if err := params.Declare(g); err != nil {
		return fmt.Errorf("building the network: %w", err)
	}
	return nil
}

// logits adds the network to a graph of n crops: the input "image" (n, 1, D, H, W) becomes a score
// of each rotation (n, Rotations).
func (c *Config) logits(g *nn.Graph, n int) *nn.Node {
	b, err := backbone.Of(c.Network)
	if err != nil {
		return g.Fail("%w", err)
	}
	x := backbone.Patches{Backbone: b, Size: c.Crop}.Encode(g, g.Input("image", n, 1, c.Crop[2], c.Crop[1], c.Crop[0]))
	if g.Err() != nil {
		return nil
	}
	x = g.ReLU(g.Linear("rotation.feature", x, c.Features, true))
	return g.Linear("rotation.class", x, c.Rotations, true)
}
