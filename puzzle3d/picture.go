package puzzle3d

import (
	"image"
	"slices"

	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/tiles"
)

// The picture of a puzzle, as the paper's Figure 3: a column for each arrangement, from the
// shuffled one to the truth; in a column the grid in slabs ([tiles.Slabs]), whose tiles show the
// middle slice of the patch that lies there and its number, which is that of its place. Patches
// that lie where they do not belong have a red frame; a thin one if the patch that belongs there is
// the same voxel for voxel, such as air. The slots of missing patches are empty, with a thin frame.

// Sizes in pixels.
const (
	tileSize   = 64 // the longer side of a tile
	frame      = 3
	numberSize = 14
)

// columns lists what is drawn.
func (p Play) columns() []jigsaw.Column {
	return p.play().Columns(p.All.ofGrid(puzzle.Grid(p.Grid[:])))
}

// play is what package jigsaw knows of the play.
func (p Play) play() jigsaw.Play {
	return jigsaw.Play{Missing: p.Missing, Arrangements: p.Arrangements}
}

// Picture draws the play, rounds side by side.
func (p Play) Picture() image.Image {
	grid := puzzle.Grid(p.Grid[:])
	columns := p.columns()
	slabs := tiles.NewSlabs(p.Grid, p.Patch, tileSize)
	page, corners := jigsaw.Strip(slabs.Size(), columns)
	numbers := tiles.NewFace(numberSize)
	var at [3]int
	for x, c := range columns {
		for slot, patch := range c.Patches {
			grid.Coordinates(at[:], slot)
			place := slabs.Place(at).Add(corners[x])
			if p.play().Missed(patch) {
				page.Frame(place, 1, tiles.Pale)
				continue
			}
			page.Tile(place, tiles.Slice(p.voxels(patch), p.Patch, p.Shown))
			page.Number(numbers, place, patch)
			switch {
			case patch == slot:
			case p.same(patch, slot):
				page.Frame(place, 1, tiles.Pale)
			default:
				page.Frame(place, frame, tiles.Wrong)
			}
		}
	}
	return page.RGBA
}

// voxels are those of a patch.
func (p Play) voxels(patch int) []float32 {
	n := p.Patch[0] * p.Patch[1] * p.Patch[2]
	return p.Patches[patch*n : (patch+1)*n]
}

// same says whether two patches have the same voxels.
func (p Play) same(a, b int) bool { return slices.Equal(p.voxels(a), p.voxels(b)) }
