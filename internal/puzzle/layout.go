package puzzle

import (
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// A Layout says where the patches of a puzzle are cut out of a crop, in voxels or pixels along each
// axis of the grid.
//
// The crop is divided into equal cells; what does not divide evenly is left over on both sides. A
// patch is at most as large as its cell. The gap between them is what keeps a network from solving
// puzzles by continuing edges (Wei et al. 2019, section 4.1).
type Layout struct {
	Grid        Grid
	Crop, Patch []int
}

// Check says what is wrong with the layout, nil if nothing is.
func (l Layout) Check() error {
	if err := l.Grid.Check(); err != nil {
		return err
	}
	if len(l.Crop) != len(l.Grid) || len(l.Patch) != len(l.Grid) {
		return fmt.Errorf("grid %v has %d axes, the crop %d and the patch %d", l.Grid, len(l.Grid), len(l.Crop),
			len(l.Patch))
	}
	for axis := range l.Grid {
		if l.Patch[axis] < 1 {
			return fmt.Errorf("patch %s is empty", numbers.Extents(l.Patch))
		}
		if cell := l.Cell(axis); l.Patch[axis] > cell {
			return fmt.Errorf("patch %s is larger than a cell: crop %s divided by grid %v leaves %d along axis %d; "+
				"make the crop larger or the patch smaller",
				numbers.Extents(l.Patch), numbers.Extents(l.Crop), l.Grid, cell, axis)
		}
	}
	return nil
}

// Notes warn of patches that touch their neighbours.
func (l Layout) Notes() []string {
	for axis, cells := range l.Grid {
		if cells > 1 && l.Patch[axis] >= l.Cell(axis) {
			return []string{fmt.Sprintf("WARNING: patches of %s fill their cells, of a crop of %s divided by grid %v: "+
				"without a gap between them, the task can be done by edges that go on; take a smaller patch, or leave "+
				"it out", numbers.Extents(l.Patch), numbers.Extents(l.Crop), l.Grid)}
		}
	}
	return nil
}

// Cell is the extent of a cell along an axis.
func (l Layout) Cell(axis int) int { return l.Crop[axis] / l.Grid[axis] }

// Corner writes the first voxel of the patch at a position, counted from the crop's first voxel,
// into dst. With a generator the patch lies anywhere in its cell with equal probability; with nil
// it lies in the middle.
func (l Layout) Corner(dst []int, position int, r *rand.Rand) {
	l.Grid.Coordinates(dst, position)
	for axis := range dst {
		cell := l.Cell(axis)
		margin := (l.Crop[axis] - cell*l.Grid[axis]) / 2
		room := cell - l.Patch[axis]
		within := room / 2
		if r != nil {
			within = r.IntN(room + 1)
		}
		dst[axis] = margin + dst[axis]*cell + within
	}
}
