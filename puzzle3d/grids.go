package puzzle3d

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/patches"
	"github.com/voxsaw/voxsaw/internal/puzzle"
)

// grids are those that a step draws one of; Grid alone where there is no list.
func (c Config) grids() ([]puzzle.Grid, error) {
	if len(c.Grids) == 0 {
		return []puzzle.Grid{c.grid()}, nil
	}
	if len(c.Grids) == 1 {
		return nil, fmt.Errorf("grids has one grid, %s: use grid for that, and leave grids empty", c.Grids[0])
	}
	list := make([]puzzle.Grid, len(c.Grids))
	for k, text := range c.Grids {
		var err error
		if list[k], err = parseGrid(text); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// parseGrid reads a grid such as 3x3x3.
func parseGrid(text string) (puzzle.Grid, error) {
	parts := strings.Split(text, "x")
	grid := make(puzzle.Grid, len(parts))
	for axis, part := range parts {
		var err error
		if grid[axis], err = strconv.Atoi(part); err != nil || len(parts) != 3 {
			return nil, fmt.Errorf("grids: %q is no grid: write cells along three axes, such as 3x3x3", text)
		}
	}
	return grid, grid.Check()
}

// finest makes Grid the one of the most cells, where there are several. Another one that the user
// has chosen is a mistake.
func (c *Config) finest() error {
	list, err := c.grids()
	if err != nil {
		return err
	}
	most := list[0]
	for _, grid := range list {
		if grid.Cells() > most.Cells() {
			most = grid
		}
	}
	if len(c.Grids) > 0 && c.Grid != DefaultConfig().Grid && !slices.Equal(c.grid(), most) {
		return fmt.Errorf("grid is %v, but grids lists %s: leave one of them out", c.grid(), strings.Join(c.Grids, ", "))
	}
	copy(c.Grid[:], most)
	return nil
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
		for axis, n := range grid {
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
