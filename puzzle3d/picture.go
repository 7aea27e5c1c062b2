package puzzle3d

import (
	"image"
	"slices"

	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
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
// slice of a patch.
func (p Play) Picture() image.Image {
	const side = 64 // the longer one of a tile, in pixels
	slabs := tiles.NewSlabs(p.Grid, p.Patch, side)
	return p.play().Picture(p.all(), jigsaw.Drawing{
		Grid: puzzle.Grid(p.Grid[:]), Size: slabs.Size(),
		Place: func(at []int) image.Rectangle { return slabs.Place([3]int(at)) },
		Tile:  func(patch int) image.Image { return tiles.Slice(p.voxels(patch), p.Patch, p.Shown) },
		Same:  func(a, b int) bool { return slices.Equal(p.voxels(a), p.voxels(b)) },
	})
}

// voxels are those of a patch.
func (p Play) voxels(patch int) []float32 {
	n := p.Patch[0] * p.Patch[1] * p.Patch[2]
	return p.Patches[patch*n : (patch+1)*n]
}
