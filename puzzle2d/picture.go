package puzzle2d

import (
	"image"

	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
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
// [jigsaw.Play.Picture].
func (p Play) Picture() image.Image {
	const side, step = 64, 67 // of a tile, and to the next, in pixels
	return p.play().Picture(p.all(), jigsaw.Drawing{
		Grid: puzzle.Grid(p.Grid[:]), Size: image.Pt(p.Grid[1]*step-step+side, p.Grid[0]*step-step+side),
		Place: func(at []int) image.Rectangle {
			return image.Rect(0, 0, side, side).Add(image.Pt(at[1]*step, at[0]*step))
		},
		Tile: p.image,
	})
}

// image is a patch as a picture.
func (p Play) image(patch int) image.Image {
	pixels := p.Patches[patch*p.Patch*p.Patch*3:][:p.Patch*p.Patch*3]
	m := image.NewRGBA(image.Rect(0, 0, p.Patch, p.Patch))
	for i := range p.Patch * p.Patch {
		copy(m.Pix[4*i:], pixels[3*i:3*i+3])
		m.Pix[4*i+3] = 255
	}
	return m
}
