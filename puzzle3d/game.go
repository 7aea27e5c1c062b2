package puzzle3d

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/solver"
)

// A head is a compiled head program with the memory of its inputs and outputs.
type head struct {
	config  Config
	program *nn.Program
	boards  int
	index   []float32 // (boards, cells): the row of features that lies in each slot
	// (boards, cells): the position where it belongs, -1 where the slot does not count
	truth []float32
	// (boards): 1, or 0 where the board does not count; nil without column-sum loss
	counts []float32
	// (boards, cells, cells): the class of each two slots, -1 where they do not count; nil without
	// binary terms
	relation []float32
	unary    []float32 // what the program computes
	pairs    []float32
}

// newHead compiles the head. In training it has gradients.
func (c Config) newHead(dev device.Device, params *nn.Params, mode nn.Mode, puzzles, boards int, o nn.Options) (*head, error) {
	g, nodes := c.headGraph(mode, puzzles, boards)
	n := c.cells()
	h := &head{config: c, boards: boards, index: make([]float32, boards*n), truth: make([]float32, boards*n), unary: make([]float32, boards*n*n)}
	o.Outputs = map[string]*nn.Node{"unary": nodes.unary, "terms": nodes.terms, "total": nodes.loss}
	if c.Binary {
		o.Outputs["pairs"] = nodes.pairs
		h.relation = make([]float32, boards*n*n)
		h.pairs = make([]float32, boards*n*n*c.grid().Relations())
	}
	if c.ColSum > 0 {
		h.counts = make([]float32, boards)
	}
	if mode == nn.Train {
		o.Loss = nodes.loss
	}
	var err error
	if h.program, err = nn.Compile(dev, g, params, o); err != nil {
		return nil, fmt.Errorf("preparing the head for %d puzzles: %w", boards, err)
	}
	return h, nil
}

// place sets what lies on a board: patches[s] of puzzle p of the batch in slot s. A board that does
// not count adds nothing to the losses, nor do patches that are blank to the cross-entropies.
func (h *head) place(board, p int, patches puzzle.Configuration, counts bool, blank []bool, table []int) {
	n := len(patches)
	index, truth := h.index[board*n:][:n], h.truth[board*n:][:n]
	for s, patch := range patches {
		index[s], truth[s] = float32(p*n+patch), -1
		if counts && !blank[p*n+patch] {
			truth[s] = float32(patch)
		}
	}
	if h.counts != nil {
		h.counts[board] = 0
		if counts {
			h.counts[board] = 1
		}
	}
	if h.relation == nil {
		return
	}
	relation := h.relation[board*n*n:][:n*n]
	for a, first := range patches {
		for b, second := range patches {
			relation[a*n+b] = -1
			if truth[a] >= 0 && truth[b] >= 0 && a != b {
				relation[a*n+b] = float32(table[first*n+second])
			}
		}
	}
}

// look computes the scores of what lies on the boards, and the loss.
func (h *head) look() (loss float64, err error) {
	if err := h.program.Set("index", h.index); err != nil {
		return 0, err
	}
	if err := h.program.Set("truth", h.truth); err != nil {
		return 0, err
	}
	if h.counts != nil {
		if err := h.program.Set("counts", h.counts); err != nil {
			return 0, err
		}
	}
	if h.relation != nil {
		if err := h.program.Set("relations", h.relation); err != nil {
			return 0, err
		}
	}
	if err := h.program.Forward(); err != nil {
		return 0, err
	}
	var total [1]float32
	if err := h.program.Read("total", total[:]); err != nil {
		return 0, err
	}
	return float64(total[0]), nil
}

// scores reads what look has computed.
func (h *head) scores() error {
	if err := h.program.Read("unary", h.unary); err != nil {
		return err
	}
	if h.pairs == nil {
		return nil
	}
	return h.program.Read("pairs", h.pairs)
}

// A game is the puzzles of a batch on their way to being solved.
type game struct {
	config   Config
	shuffles []puzzle.Configuration
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
	answer puzzle.Configuration
}

func newReferee(c Config) *referee {
	n := c.cells()
	r := &referee{config: c, table: c.grid().RelationTable(), unary: make([]float64, n*n), answer: make(puzzle.Configuration, n)}
	if c.Binary {
		r.pairs = make([]float64, n*n*c.grid().Relations())
	}
	return r
}

func (r *referee) newGame(shuffles []puzzle.Configuration, rounds int) *game {
	g := &game{config: r.config, shuffles: shuffles, referee: r}
	for range shuffles {
		g.puzzles = append(g.puzzles, solver.NewIteration(r.config.cells(), rounds))
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
	r, n := g.referee, g.config.cells()
	solver.Costs(r.unary, h.unary[board*n*n:][:n*n], n)
	terms := solver.Terms{Unary: r.unary}
	if classes := g.config.grid().Relations(); h.pairs != nil {
		solver.Costs(r.pairs, h.pairs[board*n*n*classes:][:n*n*classes], classes)
		terms.Binary, terms.Relation, terms.Classes = r.pairs, r.table, classes
	}
	if _, err := r.solver.Solve(r.answer, terms, g.config.Distance); err != nil {
		return fmt.Errorf("solving a puzzle: %w: the network's scores are not usable", err)
	}
	g.puzzles[p].Move(r.answer)
	return nil
}
