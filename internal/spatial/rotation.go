// Package spatial is two pretext tasks on scans whose answer is a class: by which right angles a
// crop was turned, and where one patch lies, seen from another.
//
// Start at [Rotation], which is the smallest task of all. Both register themselves as pretext
// tasks; there is nothing to call. Training and evaluation are package classify's.
package spatial

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

func init() {
	classify.Register(pretext.Task{
		Name: "rotation", Short: "say by which right angles a crop was turned", Items: "crops",
		Title: "Rotations of unseen cases", Score: "rotations of held-out cases told",
	}, func() (classify.Config, *int) { return newRotation(), nil })
}

// Rotation is all there is to say about a run but its data: a crop, which is a cube, is turned by
// right angles, and the network says which rotation it was (in two dimensions Gidaris et al. 2018;
// in three Taleb et al., 3D Self-Supervised Methods for Medical Imaging, NeurIPS 2020, section 3.4,
// whose ten rotations are the default).
type Rotation struct {
	classify.Settings `yaml:",inline"`

	Rotations int `yaml:"rotations" help:"10: by 90, 180 and 270 degrees about each axis, or not at all; 24: all rotations of a cube"`
}

func newRotation() *Rotation {
	c := &Rotation{
		Settings:  classify.DefaultSettings(64, 4),
		Rotations: 10,
	}
	c.Train.LR = 0.001 // with 0.01 the ReLUs of a small network's head die
	return c
}

// Resolve implements [pretext.Config].
func (c *Rotation) Resolve(of sample.Store) error {
	if _, err := c.Prepare(of); err != nil {
		return err
	}
	return c.Check()
}

// Check implements [pretext.Model].
func (c *Rotation) Check() error {
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
func (c *Rotation) Pretrain(ctx context.Context, dev voxsaw.Device, data sample.Data,
	o voxsaw.RunOptions) (voxsaw.Summary, error) {
	return classify.Pretrain(ctx, dev, c, data, o, train.Group{})
}

// Task implements [classify.Config]: the whole crop is the patch.
func (c *Rotation) Task(context.Context) (classify.Task, error) {
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
		Name: "rotation", Patches: 1, Patch: c.Crop,
		Targets: []classify.Target{{Name: "class", Classes: len(list), Weight: 1}}, Cut: cut, Picture: c.picture,
	}, nil
}

// picture shows the middle slice of the crop, turned in every way. What the network takes for
// another rotation has a red frame.
func (c *Rotation) picture(e *classify.Evaluator, of sample.Sample) (pretext.Picture, error) {
	shown, right, err := e.Classes(of, c.Crop)
	return pretext.Picture{
		Image: shown,
		Caption: fmt.Sprintf("The crop in the middle of case %s, turned in all %d ways, the first not at all: %d are "+
			"told right. A red frame marks the others.", of.Name(), c.Rotations, right),
	}, err
}
