package puzzle3d

import (
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/patches"
	"github.com/voxsaw/voxsaw/internal/puzzle"
)

// grids are those that a step draws one of; Grid alone where there is no list.
func (c Config) grids() ([]puzzle.Grid, error) {
	list, err := jigsaw.ReadGrids(c.Grids, len(c.Grid))
	if err == nil && len(list) == 0 {
		return []puzzle.Grid{c.grid()}, nil
	}
	for n, grid := range list {
		list[n] = c.inTime(grid)
	}
	return list, err
}

// smallestCells is a layout that has, along each axis, as many cells as any of the grids: what fits
// into its cells fits into all.
func (c Config) smallestCells() patches.Layout {
	layout := c.layout()
	list, err := c.grids()
	if err != nil { // Check says so
		return layout
	}
	for _, grid := range list {
		for axis, n := range grid[:len(layout.Grid)] {
			layout.Grid[axis] = max(layout.Grid[axis], n)
		}
	}
	return layout
}

// on is the configuration of puzzles on one grid alone.
func (c Config) on(grid puzzle.Grid) Config {
	c.Grid, c.Grids = [3]int(grid), nil
	return c
}
