package jigsaw

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
)

// Mixed grids. Each step draws one grid for all its puzzles; each grid has programs of its own, in
// the same memory. All parameters are shared: the head has a row of weights for each position of
// each grid, of which a program takes those of its grid. So every step has a gradient of every
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
		return fmt.Errorf("head %s is for one grid: choose %s or %s for several, or one grid", c.Head, Symmetric, Attention)
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
