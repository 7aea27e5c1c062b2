package puzzle2d

import (
	"image"

	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/tiles"
)

// The picture of a puzzle, as the paper's Figure 3: the arrangements side by side, from the
// shuffled one to the truth, with the number of each patch, which is that of its place; patches
// that lie where they do not belong have a red frame. The slots of missing patches are empty, with
// a thin frame.

// Sizes in pixels.
const (
	tileSize   = 64
	tileGap    = 3
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
	const step = tileSize + tileGap
	page, corners := jigsaw.Strip(image.Pt(p.Grid[1]*step-tileGap, p.Grid[0]*step-tileGap), columns)
	numbers := tiles.NewFace(numberSize)
	var at [2]int
	for x, c := range columns {
		for slot, patch := range c.Patches {
			grid.Coordinates(at[:], slot)
			place := image.Rect(0, 0, tileSize, tileSize).Add(corners[x]).Add(image.Pt(at[1]*step, at[0]*step))
			if p.play().Missed(patch) {
				page.Frame(place, 1, tiles.Pale)
				continue
			}
			page.Tile(place, p.image(patch))
			page.Number(numbers, place, patch)
			if patch != slot {
				page.Frame(place, frame, tiles.Wrong)
			}
		}
	}
	return page.RGBA
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
