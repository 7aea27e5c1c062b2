package position

import (
	"fmt"
	"image"

	"github.com/voxsaw/voxsaw/internal/classify"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/tiles"
	"github.com/voxsaw/voxsaw/sample"
)

// Sizes of the picture, in pixels.
const (
	tileSize = 96
	margin   = 24
)

// picture shows the patches of the crop in the middle where they lie. That in the middle has a
// green frame, a neighbour that is taken for another a red one.
func (c *Config) picture(e *classify.Evaluator, of sample.Sample) (pretext.Picture, error) {
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
