package puzzle3d

import (
	"slices"

	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/patches"
	"github.com/voxsaw/voxsaw/internal/puzzle"
)

// axesOf is a grid of as many axes as there are numbers.
func axesOf(numbers [4]int) puzzle.Grid {
	if numbers[3] == 0 {
		return numbers[:3]
	}
	return numbers[:]
}

// numbersOf is the other way round.
func numbersOf(grid puzzle.Grid) (numbers [4]int) {
	copy(numbers[:], grid)
	return numbers
}

// inTime is a grid with the axis of time that earlier runs wrote apart.
func (c Config) inTime(grid puzzle.Grid) puzzle.Grid {
	if c.Times > 0 && len(grid) == 3 {
		return append(slices.Clone(grid), c.Times)
	}
	return grid
}

// grids are those that a step draws one of; Grid alone where there is no list.
func (c Config) grids() ([]puzzle.Grid, error) {
	list, err := jigsaw.ReadGrids(c.Grids, 3, 4)
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
	c.Grid, c.Grids, c.Times = numbersOf(grid), nil, 0
	return c
}
