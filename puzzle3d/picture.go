package puzzle3d

import (
	"fmt"
	"image"
	"slices"

	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/tiles"
)

// The picture of a puzzle: a column for each arrangement, from the shuffled one to the truth; in a
// column the grid in slabs ([tiles.Slabs]), whose tiles show the middle slice of the patch that
// lies there. Patches that lie where they do not belong have a red frame; a thin one if the patch
// that belongs there is the same voxel for voxel, such as air. The slots of missing patches are
// empty, with a thin frame.

// Sizes in pixels.
const (
	tileSize  = 64 // the longer side of a tile
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
	n := p.Grid[0] * p.Grid[1] * p.Grid[2]
	last, there := len(p.Arrangements)-1, p.present()
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
		list = append(list, column{"truth", fmt.Sprintf("%d of %d in place", there, there), puzzle.Identity(n), true})
	}
	return list
}

// Picture draws the play, rounds side by side.
func (p Play) Picture() image.Image {
	grid := puzzle.Grid(p.Grid[:])
	columns := p.columns()
	slabs := tiles.NewSlabs(p.Grid, p.Patch, tileSize)
	width := max(slabs.Size().X, 130) // room for the title
	size := image.Pt(2*margin+len(columns)*(width+columnGap)-columnGap, 2*margin+titleRoom+slabs.Size().Y)
	page := tiles.NewPage(size.X, size.Y)
	titles, counts := tiles.NewFace(17), tiles.NewFace(14)
	var at [3]int
	for x, c := range columns {
		corner := image.Pt(margin+x*(width+columnGap), margin)
		page.Write(titles, tiles.Ink, corner.Add(image.Pt(0, 16)), c.title)
		tint := tiles.Faint
		if c.solved && c.title != "truth" {
			tint = tiles.Right
		}
		page.Write(counts, tint, corner.Add(image.Pt(0, 36)), c.count)
		corner.Y += titleRoom
		for slot, patch := range c.patches {
			grid.Coordinates(at[:], slot)
			place := slabs.Place(at).Add(corner)
			if p.missing(patch) {
				page.Frame(place, 1, tiles.Pale)
				continue
			}
			page.Tile(place, tiles.Slice(p.voxels(patch), p.Patch, p.Shown))
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
