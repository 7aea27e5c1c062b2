package tiles

import "image"

// Slabs say where the cells of a grid are drawn: the slabs of the grid along k, the highest on top;
// in a slab a tile for each cell. Cells lie as [Slice] turns their content: the patient's right is
// on the left, the front on top.
type Slabs struct {
	Grid [3]int // cells along (i, j, k)
	Tile image.Point
}

const (
	tileGap = 3
	slabGap = 14
)

// NewSlabs has tiles for patches of a size along (i, j, k), whose longer side has so many pixels.
func NewSlabs(grid, patch [3]int, side int) Slabs {
	scale := float64(side) / float64(max(patch[0], patch[1]))
	return Slabs{grid, image.Pt(int(float64(patch[0])*scale), int(float64(patch[1])*scale))}
}

// slab is the size of one slab.
func (s Slabs) slab() image.Point {
	return image.Pt(s.Grid[0]*(s.Tile.X+tileGap)-tileGap, s.Grid[1]*(s.Tile.Y+tileGap)-tileGap)
}

// Size is the width and height of the drawing.
func (s Slabs) Size() image.Point {
	return image.Pt(s.slab().X, s.Grid[2]*(s.slab().Y+slabGap)-slabGap)
}

// Place is where the tile of a cell lies, counted from the drawing's upper left corner.
func (s Slabs) Place(cell [3]int) image.Rectangle {
	return image.Rectangle{Max: s.Tile}.Add(image.Pt(
		(s.Grid[0]-1-cell[0])*(s.Tile.X+tileGap),
		(s.Grid[2]-1-cell[2])*(s.slab().Y+slabGap)+(s.Grid[1]-1-cell[1])*(s.Tile.Y+tileGap)))
}
