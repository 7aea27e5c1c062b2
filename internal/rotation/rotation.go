// Package rotation is a pretext task: a crop is turned by right angles, and the network says which
// rotation it was (in two dimensions Gidaris et al. 2018; in three Taleb et al., 3D Self-Supervised
// Methods for Medical Imaging, NeurIPS 2020, section 3.4, whose ten rotations are the default).
//
// Start at [Config]. The package registers itself as a pretext task; there is nothing to call.
// Training and evaluation are package classify's.
package rotation

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/classify"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/rot90"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
)

// name is what the task is called, and its checkpoints.
const name = "rotation"

func init() {
	classify.Register(pretext.Task{
		Name: name, Short: "say by which right angles a crop was turned", Items: "crops",
		Title: "Rotations of unseen cases", Score: "rotations of held-out cases told",
	}, func() (classify.Config, *int) { return defaults(), nil })
}

// Config is all there is to say about a run but its data. The crop is a cube.
type Config struct {
	classify.Settings `yaml:",inline"`

	Rotations int `yaml:"rotations" help:"10: by 90, 180 and 270 degrees about each axis, or not at all; 24: all rotations of a cube"`
}

func defaults() *Config {
	c := &Config{
		Settings:  classify.DefaultSettings(64, 4),
		Rotations: 10,
	}
	c.Train.LR = 0.001 // with 0.01 the ReLUs of a small network's head die
	return c
}

// Resolve implements [pretext.Config].
func (c *Config) Resolve(of sample.Store) error {
	if _, err := c.Prepare(of); err != nil {
		return err
	}
	return c.Check()
}

// Check implements [pretext.Model].
func (c *Config) Check() error {
	b, err := c.Settings.Check()
	if err != nil {
		return err
	}
	if err := backbone.Fits(b, c.Crop); err != nil {
		return fmt.Errorf("crop: %w", err)
	}
	if c.Crop[0] != c.Crop[1] || c.Crop[1] != c.Crop[2] {
		return fmt.Errorf("crop is %dx%dx%d: only a cube can be turned by right angles", c.Crop[0], c.Crop[1],
			c.Crop[2])
	}
	if c.Rotations != 10 && c.Rotations != 24 {
		return fmt.Errorf("rotations is %d, must be 10 or 24", c.Rotations)
	}
	return nil
}

// Pretrain implements [pretext.Config].
func (c *Config) Pretrain(ctx context.Context, dev voxsaw.Device, data sample.Data,
	o voxsaw.RunOptions) (voxsaw.Summary, error) {
	return classify.Pretrain(ctx, dev, c, data, o, train.Group{})
}

// Task implements [classify.Config]: the whole crop is the patch.
func (c *Config) Task(context.Context) (classify.Task, error) {
	list := rot90.Single()
	if c.Rotations == 24 {
		list = rot90.All()
	}
	cut := func(dst []float32, of sample.Sample, origin [3]int, truth []int, _ *rand.Rand) error {
		crop := make([]float32, len(dst))
		err := of.Crop(crop, origin, c.Crop)
		if err == nil {
			list[truth[0]].Apply(dst, crop, c.Crop) // each channel
		}
		return err
	}
	return classify.Task{
		Name: name, Patches: 1, Patch: c.Crop,
		Targets: []classify.Target{{Name: "class", Classes: len(list), Weight: 1}}, Cut: cut, Picture: c.picture,
	}, nil
}
