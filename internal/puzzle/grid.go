// Package puzzle holds the combinatorics of jigsaw puzzles in any number of dimensions: the grid,
// where patches are cut, configurations, the relations between positions, and how an answer is
// scored.
//
// Start at [Grid] and [Configuration]. A puzzle has as many patches as its grid has cells. Before
// it is solved, the patches lie in slots 0..n-1, which are the cells of the grid in row-major
// order; each belongs at one of the positions 0..n-1, the same cells.
//
// The package knows no pixels and no networks, and does not solve anything: package solver does.
package puzzle

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Grid is the number of cells along each axis. Positions are numbered in row-major order: the
// last axis changes fastest.
type Grid []int

// MaxCells bounds a grid, so that tables over pairs of positions stay small.
const MaxCells = 4096

// Check says what is wrong with the grid, nil if nothing is.
func (g Grid) Check() error {
	if len(g) == 0 {
		return fmt.Errorf("grid without axes")
	}
	cells := 1
	for _, extent := range g {
		if extent < 1 {
			return fmt.Errorf("grid %v: every axis needs at least one cell", g)
		}
		if extent > MaxCells/cells {
			return fmt.Errorf("grid %v has more than %d cells", g, MaxCells)
		}
		cells *= extent
	}
	if cells < 2 {
		return fmt.Errorf("grid %v: a puzzle needs at least two patches", g)
	}
	return nil
}

// Cells is the number of cells, positions, slots and patches: the n of n! configurations.
func (g Grid) Cells() int {
	n := 1
	for _, extent := range g {
		n *= extent
	}
	return n
}

// String writes the grid as 3x3x3.
func (g Grid) String() string {
	parts := make([]string, len(g))
	for i, extent := range g {
		parts[i] = strconv.Itoa(extent)
	}
	return strings.Join(parts, "x")
}

// Coordinates writes where in the grid a position lies into dst, one number an axis.
func (g Grid) Coordinates(dst []int, position int) {
	for axis := len(g) - 1; axis >= 0; axis-- {
		dst[axis] = position % g[axis]
		position /= g[axis]
	}
}

// Relations is the number of classes that [Grid.Relation] tells apart: 3^d, that is the 3^d - 1
// neighbours and "none of them".
func (g Grid) Relations() int {
	n := 1
	for range g {
		n *= 3
	}
	return n
}

// Relation is the class of the step from position p to position q. Neighbours differ by -1, 0 or 1
// along each axis; their class is the row-major number of the step in the 3 x ... x 3 cube around
// p. The middle of the cube, the step that goes nowhere, cannot occur between two patches, so its
// class stands for "no neighbours". The class of the way back is always Relations() - 1 - class.
func (g Grid) Relation(p, q int) int {
	class, weight := 0, 1
	for axis := len(g) - 1; axis >= 0; axis-- {
		step := q%g[axis] - p%g[axis]
		if step < -1 || step > 1 {
			return (g.Relations() - 1) / 2
		}
		class += (step + 1) * weight
		weight *= 3
		p /= g[axis]
		q /= g[axis]
	}
	return class
}

// RelationTable is Relation for all pairs: the class of (p, q) is element p*Cells() + q.
func (g Grid) RelationTable() []int {
	n := g.Cells()
	table := make([]int, n*n)
	for i := range table {
		table[i] = g.Relation(i/n, i%n)
	}
	return table
}

// Chance is what blind guessing scores over all n! configurations: the expected shares of correct
// puzzles, of puzzles within Hamming distance 2, and of patches in their place.
func (g Grid) Chance() (correct, near, patches float64) { return g.Ceiling(g.Cells()) }

// Ceiling is the expected score of a solver that knows everything but which of some identical
// patches is which: groups are the numbers of patches that look the same, such as those that show
// nothing but air. All other patches can be told apart.
func (g Grid) Ceiling(groups ...int) (correct, near, patches float64) {
	all := make([]Group, len(groups))
	for i, m := range groups {
		all[i] = Group{m, m}
	}
	return Expected(g.Cells(), all...)
}

// A Group is positions among which a solver cannot tell where each of some patches belongs: those
// of patches that look the same, or all of a puzzle where it guesses.
type Group struct {
	Positions int
	// Present are the patches of these positions that are there: fewer, where some are left out
	Present int
}

// Expected is the expected score of a solver that puts the patches of each group into its positions
// by chance, all ways equally likely, and every other patch into its place. present is the number
// of patches of the puzzle.
func Expected(present int, groups ...Group) (correct, near, patches float64) {
	logWays, nearly, singles, placed := 0.0, 0.0, 0.0, float64(present)
	for _, g := range groups {
		if g.Positions < 2 || g.Present < 1 {
			continue
		}
		// Of the m!/e! ways, e positions staying empty, one is right, m' e have one patch in an
		// empty position, and in m'(m'-1)/2 (e^2 + e + 1) two patches are misplaced, m' patches
		// being there. Each patch is in its place in one way of m.
		m, there := float64(g.Positions), float64(g.Present)
		empty := m - there
		logAll, _ := math.Lgamma(m + 1)
		logEmpty, _ := math.Lgamma(empty + 1)
		logWays += logAll - logEmpty
		one := there * empty
		nearly += there*(there-1)/2*(empty*empty+empty+1) + one + singles*one
		singles += one
		placed -= there - there/m
	}
	correct = math.Exp(-logWays)
	return correct, correct * (1 + nearly), placed / float64(present)
}
