package puzzle3d

import (
	"image"
	"slices"

	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/tiles"
)

// all is what became of all puzzles; nil where nobody says it.
func (p Play) all() *jigsaw.Evaluation {
	if p.All == nil {
		return nil
	}
	return &p.All.PuzzleEvaluation
}

// play is what package jigsaw knows of the play.
func (p Play) play() jigsaw.Play {
	return jigsaw.Play{Missing: p.Missing, Arrangements: p.Arrangements}
}

// Picture draws the play, rounds side by side, as the paper's Figure 3 does: see
// [jigsaw.Play.Picture]. A column is the grid in slabs ([tiles.Slabs]), whose tiles show the middle
// slice of a patch; of several times, the slabs of each stand below those of the one before.
func (p Play) Picture() image.Image {
	const (
		side    = 64 // the longer one of a tile, in pixels
		timeGap = 28
	)
	slabs := tiles.NewSlabs([3]int(p.Grid[:3]), p.Patch, side)
	size, grid := slabs.Size(), axesOf(p.Grid)
	below := size.Y + timeGap // from one time to the next
	if times := p.Grid[3]; times > 0 {
		size.Y += (times - 1) * below
	}
	return p.play().Picture(p.all(), jigsaw.Drawing{
		Grid: grid, Size: size,
		Place: func(at []int) image.Rectangle {
			place := slabs.Place([3]int(at))
			if len(at) > 3 {
				place = place.Add(image.Pt(0, at[3]*below))
			}
			return place
		},
		// of several channels, the first
		Tile: func(patch int) image.Image { return tiles.Slice(p.voxels(patch), p.Patch, p.Shown) },
		Same: func(a, b int) bool { return slices.Equal(p.voxels(a), p.voxels(b)) },
	})
}

// voxels are those of a patch, of all its channels.
func (p Play) voxels(patch int) []float32 {
	n := len(p.Patches) / axesOf(p.Grid).Cells()
	return p.Patches[patch*n : (patch+1)*n]
}
