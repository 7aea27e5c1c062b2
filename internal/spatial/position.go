package spatial

import (
	"context"
	"fmt"
	"image"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/classify"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/tiles"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
)

func init() {
	classify.Register(pretext.Task{
		Name: "position", Short: "say where one patch lies, seen from another", Items: "pairs",
		Title: "Relative positions in unseen cases", Score: "positions in held-out cases told",
	}, func() (classify.Config, *int) { return newPosition(), nil })
}

// Position is all there is to say about a run but its data: of a 3x3x3 grid of cells the network
// sees the patch in the middle and one of its 26 neighbours, and says which neighbour it is (in two
// dimensions Doersch, Gupta and Efros, Unsupervised Visual Representation Learning by Context
// Prediction, ICCV 2015; in three Taleb et al. 2020, section 3.2).
type Position struct {
	classify.PatchSettings `yaml:",inline"`
}

// grid is the middle cell and those around it.
var grid = [3]int{3, 3, 3}

// newPosition has the puzzle's crop and patches, 32^3 in cells of 40^3: a patch lies anywhere in
// its cell, so that the gap is 8 values on average, where HealthML/self-supervised-3d-tasks has a
// jitter of 10 in cells of 42.
func newPosition() *Position {
	return &Position{classify.PatchSettings{
		Settings: classify.DefaultSettings(120, 16),
		Hidden:   1024,
	}}
}

// Resolve implements [pretext.Config].
func (c *Position) Resolve(of sample.Store) error {
	if err := c.Prepare(of, grid); err != nil {
		return err
	}
	return c.Check()
}

// Overridden implements [pretext.Overridden]: another crop has patches of its own.
func (c *Position) Overridden(before pretext.Config, by config.Section) {
	if was := before.(*Position); c.Crop != was.Crop && !by.Has("patch") {
		c.Patch = [3]int{}
	}
}

// Check implements [pretext.Model].
func (c *Position) Check() error { return c.PatchSettings.Check(grid) }

// Pretrain implements [pretext.Config].
func (c *Position) Pretrain(ctx context.Context, dev voxsaw.Device, data sample.Data,
	o voxsaw.RunOptions) (voxsaw.Summary, error) {
	return classify.Pretrain(ctx, dev, c, data, o, train.Group{})
}

// middle is the number of the cell in the middle, in row-major order.
const middle = 13

// Task implements [classify.Config]: the patch in the middle, then its neighbour.
func (c *Position) Task(context.Context) (classify.Task, error) {
	values := c.Layout(grid).Values()
	cut := func(dst []float32, of sample.Sample, origin [3]int, truth []int, r *rand.Rand) error {
		err := c.Cut(dst[:values], of, origin, grid, middle, r)
		if err == nil {
			err = c.Cut(dst[values:], of, origin, grid, classify.Neighbour(truth[0], 27), r)
		}
		return err
	}
	return classify.Task{
		Name: "position", Patches: 2, Patch: c.Patch,
		Targets: []classify.Target{{Name: "class", Classes: 26, Hidden: c.Hidden, Weight: 1}}, Cut: cut,
		Picture: c.picture, Notes: c.Layout(grid).Notes(),
	}, nil
}

// Sizes of the picture, in pixels.
const (
	tileSize = 96
	margin   = 24
)

// picture shows the patches of the crop in the middle where they lie. That in the middle has a
// green frame, a neighbour that is taken for another a red one.
func (c *Position) picture(e *classify.Evaluator, of sample.Sample) (pretext.Picture, error) {
	slabs := tiles.NewSlabs(grid, c.Patch, tileSize)
	size := slabs.Size().Add(image.Pt(2*margin, 2*margin))
	page := tiles.NewPage(size.X, size.Y)
	place := func(cell int) image.Rectangle {
		var at [3]int
		puzzle.Grid(grid[:]).Coordinates(at[:], cell)
		return slabs.Place(at).Add(image.Pt(margin, margin))
	}
	values, right := c.Layout(grid).Values(), 0
	err := e.Look(of, func(i classify.Item) {
		page.Tile(place(middle), tiles.Slice(i.Patches[:values], c.Patch, of.Range(0)))
		where := place(classify.Neighbour(i.Truth[0], 27))
		page.Tile(where, tiles.Slice(i.Patches[values:], c.Patch, of.Range(0)))
		if i.Truth[0] == i.Answer[0] {
			right++
		} else {
			page.Frame(where, 3, tiles.Wrong)
		}
	})
	page.Frame(place(middle), 3, tiles.Right)
	return pretext.Picture{
		Image: page.RGBA,
		Caption: fmt.Sprintf("The 26 neighbours of the patch in the middle (green frame) of case %s, the topmost "+
			"slab first: of %d the network says where they lie. A red frame marks the others.",
			of.Name(), right),
	}, err
}
