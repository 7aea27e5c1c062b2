package jigsaw

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
)

// Mixed grids. Each step draws one grid for all its puzzles; each grid has programs of its own, in
// the same memory. All parameters are shared: the head has a row of weights for each position of
// each grid, and a program takes the rows of its grid. So every step has a gradient of every
// parameter, zero where a row is another grid's.

// games are the game on each of its grids alone.
func (c Config) games() []Config {
	if c.Grids == nil {
		return []Config{c}
	}
	list := make([]Config, len(c.Grids))
	for k, grid := range c.Grids {
		list[k] = c
		list[k].Grid = grid
	}
	return list
}

// on says which of several grids the game is on.
func (c Config) on() string {
	if c.Grids == nil {
		return ""
	}
	return fmt.Sprintf(" on a grid of %v", c.Grid)
}

// On is the game on the grid of the given number.
func (c Config) On(grid int) Config { return c.games()[grid] }

// finestFirst are the numbers of the grids, those of most cells first: what is compiled first has
// memory for all.
func (c Config) finestFirst() []int {
	games := c.games()
	order := make([]int, len(games))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return games[b].cells() - games[a].cells() })
	return order
}

func (c Config) checkGrids() error {
	if c.Grids == nil {
		return nil
	}
	if c.Head != Symmetric && c.Head != Attention {
		return fmt.Errorf("head %s is for one grid: choose %s or %s for several, or one grid", c.Head, Symmetric,
			Attention)
	}
	if c.Orders != nil {
		return fmt.Errorf("orders are those of one grid: leave grids empty")
	}
	for k, grid := range c.Grids {
		if err := grid.Check(); err != nil {
			return err
		}
		if slices.ContainsFunc(c.Grids[:k], func(other puzzle.Grid) bool { return slices.Equal(other, grid) }) {
			return fmt.Errorf("grid %v is listed twice in grids", grid)
		}
	}
	return nil
}

// positions are those of all grids; the ones of this grid start at first.
func (c Config) positions() (all, first int) {
	if c.Grids == nil {
		return c.cells(), 0
	}
	for _, grid := range c.Grids {
		if slices.Equal(grid, c.Grid) {
			first = all
		}
		all += grid.Cells()
	}
	return all, first
}

// position maps rows x (rows, Hidden) to a score of each position of the grid (rows, cells).
func (c Config) position(g *nn.Graph, x *nn.Node) *nn.Node {
	const name = "puzzle.position"
	n := c.cells()
	if c.Grids == nil {
		return g.Linear(name, x, n, true)
	}
	all, _ := c.positions()
	of := g.Input("positions", n)
	w := g.GatherRows(g.Param(name+".weight", nn.KaimingUniform(), all, c.Hidden), of)
	b := g.GatherRows(g.Reshape(g.Param(name+".bias", nn.Constant(0), all), all, 1), of)
	return g.LinearWith(x, w, g.Reshape(b, n))
}

// ReadGrids reads the grids of a list, such as 3x3x3; none where there are none. A list has two or
// more, all of as many axes as the first, which are one of the given numbers.
func ReadGrids(list []string, axes ...int) ([]puzzle.Grid, error) {
	if len(list) == 1 {
		return nil, fmt.Errorf("grids has one grid, %s: use grid for that, and leave grids empty", list[0])
	}
	var grids []puzzle.Grid
	for _, text := range list {
		parts := strings.Split(text, "x")
		if len(grids) > 0 && len(parts) != len(grids[0]) && slices.Contains(axes, len(parts)) {
			return nil, fmt.Errorf("grids: %s has %d axes and %s has %d: all grids of a list have the same", list[0],
				len(grids[0]), text, len(parts))
		}
		grid := make(puzzle.Grid, len(parts))
		for axis, part := range parts {
			var err error
			if grid[axis], err = strconv.Atoi(part); err != nil || !slices.Contains(axes, len(parts)) {
				return nil, fmt.Errorf("grids: %q is no grid: write cells along %s axes, such as %s", text,
					strings.Trim(strings.ReplaceAll(fmt.Sprint(axes), " ", " or "), "[]"),
					strings.Repeat("x3", axes[0])[1:])
			}
		}
		if err := grid.Check(); err != nil {
			return nil, err
		}
		grids = append(grids, grid)
	}
	return grids, nil
}

// Resolve completes the settings of a game: the numbers of the attention head, and the grid, which
// is the one of the most cells of a list, if there is one. Another one that the user has chosen, so
// that it is not the default, is a mistake. Axes are those of [ReadGrids].
func Resolve(c *voxsaw.Puzzle, grid, byDefault puzzle.Grid, list []string, axes ...int) (puzzle.Grid, error) {
	if c.Head == Attention {
		c.Layers, c.AttentionHeads = cmp.Or(c.Layers, 2), cmp.Or(c.AttentionHeads, 4)
	}
	grids, err := ReadGrids(list, axes...)
	if err != nil || len(grids) == 0 {
		return grid, err
	}
	most := slices.MaxFunc(grids, func(a, b puzzle.Grid) int { return a.Cells() - b.Cells() })
	if !slices.Equal(grid, byDefault) && !slices.Equal(grid, most) {
		return grid, fmt.Errorf("grid is %v, but grids lists %s: leave one of them out", grid, strings.Join(list, ", "))
	}
	return most, nil
}
