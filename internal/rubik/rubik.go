// Package rubik is a pretext task: the cells of a crop are shuffled and some of them turned by 180
// degrees, as in a Rubik's cube; the network says in which of K orders they are, and how each was
// turned (Zhuang et al., Self-supervised Feature Learning for 3D Medical Images by Playing a
// Rubik's Cube, MICCAI 2019).
//
// Start at [Config]. The package registers itself as a pretext task; there is nothing to call.
// Training and evaluation are package classify's, the orders those of a K-way jigsaw. The masking
// of Rubik's cube+ (Zhu et al., Medical Image Analysis 2020) is left out.
package rubik

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/classify"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/rot90"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
)

// name is what the task is called, and its checkpoints.
const name = "rubik"

func init() {
	classify.Register(pretext.Task{
		Name: name, Short: "say in which order the patches of a crop are, and how each was turned", Items: "cubes",
		Title: "Rubik's cubes of unseen cases",
		Score: "orders and rotations in held-out cases told",
	}, func() (classify.Config, *int) {
		c := defaults()
		return c, &c.ValidateShuffles
	})
}

// Config is all there is to say about a run but its data.
type Config struct {
	classify.PatchSettings `yaml:",inline"`

	Grid             [3]int `yaml:"grid,flow" help:"cells along each axis"`
	Classes          int    `yaml:"classes" help:"orders to choose among"`
	Criterion        string `yaml:"criterion" help:"orders are far from each other by their smallest (min) or mean distance" oneof:"min mean"`
	Axes             int    `yaml:"axes" help:"2: a patch is turned by 180 degrees about the left-right or the head-feet axis, or not at all; 3: about the front-back axis, too"`
	ValidateShuffles int    `yaml:"validate_shuffles" help:"cubes made of each held-out case"`
}

// defaults are the paper's grid of 2x2x2, 100 orders and two axes, and the hidden width of
// relative position, for the paper gives none. The paper leaves a gap of some 10 voxels between
// patches; a patch of 48 anywhere in a cell of 60 has 12 on average.
func defaults() *Config {
	c := &Config{
		PatchSettings: classify.PatchSettings{
			Settings: classify.DefaultSettings(120, 2),
			Hidden:   1024,
		},
		Grid: [3]int{2, 2, 2}, Classes: 100, Criterion: puzzle.MinDistance, Axes: 2, ValidateShuffles: 4,
	}
	c.Train.LR = 0.001 // with 0.01 the ReLUs of a small network's head die
	return c
}

// Resolve implements [pretext.Config].
func (c *Config) Resolve(of sample.Store) error {
	if err := c.Prepare(of, c.Grid); err != nil {
		return err
	}
	return c.Check()
}

// Overridden implements [pretext.Overridden]: another crop or grid has patches of its own.
func (c *Config) Overridden(before pretext.Config, by config.Section) {
	if was := before.(*Config); (c.Crop != was.Crop || c.Grid != was.Grid) && !by.Has("patch") {
		c.Patch = [3]int{}
	}
}

// Check implements [pretext.Model].
func (c *Config) Check() error {
	if err := c.PatchSettings.Check(c.Grid); err != nil {
		return err
	}
	if err := pretext.CheckRange("validate_shuffles", c.ValidateShuffles, 1, 1<<12); err != nil {
		return err
	}
	if err := pretext.CheckRange("axes", c.Axes, 2, 3); err != nil {
		return err
	}
	if err := jigsaw.CheckOrders(c.Layout(c.Grid).Cells(), c.Classes, c.Criterion, nil); err != nil {
		return fmt.Errorf("classes: %w", err)
	}
	return nil
}

// orders are those that a cube may be in.
func (c *Config) orders(ctx context.Context) (puzzle.Selection, error) {
	return jigsaw.ChooseOrders(ctx, c.Train.Seed, c.Layout(c.Grid).Cells(), c.Classes, c.Criterion, nil)
}

// halves are the ways in which a patch may be turned. Each undoes itself.
func (c *Config) halves() []rot90.Turn {
	const leftRight, frontBack, headFeet = 0, 1, 2
	return []rot90.Turn{rot90.Identity, rot90.Half(leftRight), rot90.Half(headFeet), rot90.Half(frontBack)}[:1+c.Axes]
}

// Pretrain implements [pretext.Config].
func (c *Config) Pretrain(ctx context.Context, dev voxsaw.Device, data sample.Data,
	o voxsaw.RunOptions) (voxsaw.Summary, error) {
	return classify.Pretrain(ctx, dev, c, data, o, train.Group{})
}

// Task implements [classify.Config]: first the order, then how the patch in each slot was turned.
// The loss is the mean of the two cross-entropies: the paper gives both the same weight.
func (c *Config) Task(ctx context.Context) (classify.Task, error) {
	orders, err := c.orders(ctx)
	if err != nil {
		return classify.Task{}, err
	}
	return classify.Task{
		Name: name, Patches: c.Layout(c.Grid).Cells(), Patch: c.Patch, Draws: c.ValidateShuffles,
		Notes: c.Layout(c.Grid).Notes(),
		Targets: []classify.Target{
			{Name: "order", Classes: c.Classes, Hidden: c.Hidden, Weight: 0.5},
			{Name: "rotation", Classes: 1 + c.Axes, Each: true, Hidden: c.Hidden, Weight: 0.5},
		},
		Cut: func(dst []float32, of sample.Sample, origin [3]int, truth []int, r *rand.Rand) error {
			return c.cut(dst, of, origin, orders[truth[0]], truth[1:], r)
		},
		Picture: func(e *classify.Evaluator, of sample.Sample) (pretext.Picture, error) {
			return c.picture(e, of, orders)
		},
	}, nil
}

// cut makes a cube: of each slot the patch that the order puts there, turned.
func (c *Config) cut(dst []float32, of sample.Sample, origin [3]int, order puzzle.Configuration, turned []int,
	r *rand.Rand) error {
	values, halves := c.Layout(c.Grid).Values(), c.halves()
	patch := make([]float32, values)
	for slot, cell := range order {
		if err := c.Cut(patch, of, origin, c.Grid, cell, r); err != nil {
			return err
		}
		halves[turned[slot]].Apply(dst[slot*values:(slot+1)*values], patch, c.Patch)
	}
	return nil
}
