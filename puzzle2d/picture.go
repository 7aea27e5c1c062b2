package puzzle2d

import (
	"fmt"
	"image"

	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/tiles"
)

// The picture of a puzzle, as the paper's Figure 3: the arrangements side by side, from the
// shuffled one to the truth; patches that lie where they do not belong have a red frame. The slots
// of missing patches are empty, with a thin frame.

// Sizes in pixels.
const (
	tileSize  = 64
	tileGap   = 3
	columnGap = 30
	margin    = 24
	titleRoom = 50
	frame     = 3
	// maxColumns bounds the picture's width: of a longer iteration the first rounds and the last
	// are drawn.
	maxColumns = 7
)

// A column is one arrangement with its titles.
type column struct {
	title, count string
	patches      puzzle.Configuration
	solved       bool
}

// columns lists what is drawn.
func (p Play) columns() []column {
	n := p.Grid[0] * p.Grid[1]
	there := n
	for patch := range n {
		if p.missing(patch) {
			there--
		}
	}
	last := len(p.Arrangements) - 1
	var list []column
	for r, patches := range p.Arrangements {
		if r >= maxColumns-2 && r < last {
			continue
		}
		title := fmt.Sprintf("after round %d", r)
		if r == 0 {
			title = "shuffled"
		}
		list = append(list, column{title, fmt.Sprintf("%d of %d in place", there-p.Misplaced(r), there), patches,
			p.Misplaced(r) == 0})
	}
	if p.Misplaced(last) > 0 {
		list = append(list, column{"truth", fmt.Sprintf("%d of %d in place", there, there), puzzle.Identity(n), false})
	}
	return list
}

// Picture draws the play, rounds side by side.
func (p Play) Picture() image.Image {
	grid := puzzle.Grid(p.Grid[:])
	columns := p.columns()
	const step = tileSize + tileGap
	width := max(p.Grid[1]*step-tileGap, 130) // room for the title
	page := tiles.NewPage(2*margin+len(columns)*(width+columnGap)-columnGap, 2*margin+titleRoom+p.Grid[0]*step-tileGap)
	titles, counts := tiles.NewFace(17), tiles.NewFace(14)
	var at [2]int
	for x, c := range columns {
		corner := image.Pt(margin+x*(width+columnGap), margin)
		page.Write(titles, tiles.Ink, corner.Add(image.Pt(0, 16)), c.title)
		tint := tiles.Faint
		if c.solved {
			tint = tiles.Right
		}
		page.Write(counts, tint, corner.Add(image.Pt(0, 36)), c.count)
		corner.Y += titleRoom
		for slot, patch := range c.patches {
			grid.Coordinates(at[:], slot)
			place := image.Rect(0, 0, tileSize, tileSize).Add(corner).Add(image.Pt(at[1]*step, at[0]*step))
			if p.missing(patch) {
				page.Frame(place, 1, tiles.Pale)
				continue
			}
			page.Tile(place, p.image(patch))
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
