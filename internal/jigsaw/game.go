package jigsaw

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/solver"
)

// A game is the puzzles of a batch on their way to being solved.
type game struct {
	config   Config
	shuffles []puzzle.Configuration
	pieces   []pieces
	puzzles  []*solver.Iteration
	referee  *referee
}

// A referee turns scores into answers. It keeps its memory from game to game.
type referee struct {
	config Config
	solver solver.Solver
	table  []int // relations between positions
	unary  []float64
	pairs  []float64
	// the slots that are empty; nil where no patch is missing
	empty  []bool
	answer puzzle.Configuration
}

func newReferee(c Config) *referee {
	n := c.cells()
	r := &referee{config: c, table: c.Grid.RelationTable(), unary: make([]float64, n*n),
		answer: make(puzzle.Configuration, n)}
	r.solver.Once = c.SearchOnce
	if c.missing() > 0 {
		r.empty = make([]bool, n)
	}
	if c.Binary {
		r.pairs = make([]float64, n*n*c.Grid.Relations())
	}
	return r
}

func (r *referee) newGame(shuffles []puzzle.Configuration, p []pieces, rounds int) *game {
	g := &game{config: r.config, shuffles: shuffles, pieces: p, referee: r}
	for range shuffles {
		it := solver.NewIteration(r.config.cells(), rounds)
		it.Circles = r.config.PaperRounds
		g.puzzles = append(g.puzzles, it)
	}
	return g
}

// arranged is which patch lies in each slot of a puzzle now.
func (g *game) arranged(p int) puzzle.Configuration {
	patches := make(puzzle.Configuration, g.config.cells())
	for s, first := range g.puzzles[p].Arrangement() {
		patches[s] = g.shuffles[p][first]
	}
	return patches
}

// move re-arranges a puzzle by the scores of one board.
func (g *game) move(p int, h *head, board int) error {
	if g.referee.empty != nil {
		for s, patch := range g.arranged(p) {
			g.referee.empty[s] = !g.pieces[p].there(patch)
		}
	}
	if err := g.referee.answerTo(h, board); err != nil {
		return fmt.Errorf("solving a puzzle: %w: the network's scores are not usable", err)
	}
	g.puzzles[p].Move(g.referee.answer)
	return nil
}

// answerTo finds the answer to what lies on a board.
func (r *referee) answerTo(h *head, board int) error {
	if k := len(r.config.Orders); h.orders != nil {
		best, err := highest(h.orders[board*k:][:k])
		copy(r.answer, r.config.Orders[best])
		return err
	}
	n := r.config.cells()
	solver.Costs(r.unary, h.unary[board*n*n:][:n*n], n)
	terms := solver.Terms{Unary: r.unary, Missing: r.empty}
	if classes := r.config.Grid.Relations(); h.pairs != nil {
		solver.Costs(r.pairs, h.pairs[board*n*n*classes:][:n*n*classes], classes)
		if w := r.config.BinaryWeight; w > 0 {
			for i := range r.pairs {
				r.pairs[i] *= w
			}
		}
		terms.Binary, terms.Relation, terms.Classes = r.pairs, r.table, classes
	}
	if r.config.Orders != nil {
		return r.solver.Choose(r.answer, terms, r.config.Orders)
	}
	_, err := r.solver.Solve(r.answer, terms, r.config.Distance)
	return err
}

// highest is the place of the highest score.
func highest(scores []float32) (int, error) {
	best := 0
	for k, x := range scores {
		if !numbers.Finite(float64(x)) {
			return 0, fmt.Errorf("score %d is %v", k, x)
		}
		if x > scores[best] {
			best = k
		}
	}
	return best, nil
}
