// Package position is a pretext task: of a 3x3x3 grid of cells the network sees the patch in the
// middle and one of its 26 neighbours, and says which neighbour it is (in two dimensions Doersch,
// Gupta and Efros, Unsupervised Visual Representation Learning by Context Prediction, ICCV 2015; in
// three Taleb et al., 3D Self-Supervised Methods for Medical Imaging, NeurIPS 2020, section 3.2).
//
// Start at [Config]. The package registers itself as a pretext task; there is nothing to call.
// Training and evaluation are package classify's.
package position

import (
	"context"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/classify"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
)

// name is what the task is called, and its checkpoints.
const name = "position"

func init() {
	classify.Register(pretext.Task{
		Name: name, Short: "say where one patch lies, seen from another", Items: "pairs",
		Title: "Relative positions in unseen cases", Score: "positions in held-out cases told",
	}, func() (classify.Config, *int) { return defaults(), nil })
}

// Config is all there is to say about a run but its data.
type Config struct {
	classify.PatchSettings `yaml:",inline"`
}

// grid is the middle cell and those around it.
var grid = [3]int{3, 3, 3}

// defaults have the puzzle's crop and patches, 32^3 in cells of 40^3: a patch lies anywhere in its
// cell, so that the gap is 8 values on average, where HealthML/self-supervised-3d-tasks has a
// jitter of 10 in cells of 42.
func defaults() *Config {
	return &Config{classify.PatchSettings{
		Settings: classify.DefaultSettings(120, 16),
		Hidden:   1024,
	}}
}

// Resolve implements [pretext.Config].
func (c *Config) Resolve(of sample.Store) error {
	if err := c.Prepare(of, grid); err != nil {
		return err
	}
	return c.Check()
}

// Overridden implements [pretext.Overridden]: another crop has patches of its own.
func (c *Config) Overridden(before pretext.Config, by config.Section) {
	if was := before.(*Config); c.Crop != was.Crop && !by.Has("patch") {
		c.Patch = [3]int{}
	}
}

// Check implements [pretext.Model].
func (c *Config) Check() error { return c.PatchSettings.Check(grid) }

// Pretrain implements [pretext.Config].
func (c *Config) Pretrain(ctx context.Context, dev voxsaw.Device, data sample.Data,
	o voxsaw.RunOptions) (voxsaw.Summary, error) {
	return classify.Pretrain(ctx, dev, c, data, o, train.Group{})
}

// middle is the number of the cell in the middle, in row-major order.
const middle = 13

// Task implements [classify.Config]: the patch in the middle, then its neighbour.
func (c *Config) Task(context.Context) (classify.Task, error) {
	values := c.Layout(grid).Values()
	cut := func(dst []float32, of sample.Sample, origin [3]int, truth []int, r *rand.Rand) error {
		err := c.Cut(dst[:values], of, origin, grid, middle, r)
		if err == nil {
			err = c.Cut(dst[values:], of, origin, grid, classify.Neighbour(truth[0], 27), r)
		}
		return err
	}
	return classify.Task{
		Name: name, Patches: 2, Patch: c.Patch,
		Targets: []classify.Target{{Name: "class", Classes: 26, Hidden: c.Hidden, Weight: 1}}, Cut: cut,
		Picture: c.picture, Notes: c.Layout(grid).Notes(),
	}, nil
}
