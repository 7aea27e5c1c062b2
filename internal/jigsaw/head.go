package jigsaw

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/puzzle"
)

// A head is a compiled head program with the memory of its inputs and outputs.
type head struct {
	config  Config
	program *nn.Program
	boards  int
	index   []float32 // (boards, cells): the row of features that lies in each slot
	// (boards, cells): the position where it belongs, -1 where the slot does not count; of the
	// K-way head (boards): the order
	truth []float32
	// (boards): 1, or 0 where the board does not count; nil without column-sum loss
	counts []float32
	// (boards, cells, cells): the class of each two slots, -1 where they do not count; nil without
	// binary terms
	relation []float32
	unary    []float32 // what the program computes
	pairs    []float32
	orders   []float32
	find     func(puzzle.Configuration) int // the number of an order
}

// newHead compiles the head. In training it has gradients.
func (c Config) newHead(dev device.Device, params *nn.Params, mode nn.Mode, puzzles, boards int, l links, o nn.Options) (*head, error) {
	g, nodes := c.headGraph(mode, puzzles, boards)
	n := c.cells()
	h := &head{config: c, boards: boards, index: make([]float32, boards*n)}
	o.Outputs = map[string]*nn.Node{"total": nodes.loss}
	if c.Head == KWay {
		h.truth, h.orders, h.find = make([]float32, boards), make([]float32, boards*len(c.Orders)), c.Orders.Finder()
		o.Outputs["orders"] = nodes.orders
	} else {
		h.truth, h.unary = make([]float32, boards*n), make([]float32, boards*n*n)
		o.Outputs["unary"] = nodes.unary
	}
	o.Links = map[string]*nn.Link{"features": l.features}
	if c.Binary {
		o.Outputs["pairs"] = nodes.pairs
		h.relation = make([]float32, boards*n*n)
		h.pairs = make([]float32, boards*n*n*c.Grid.Relations())
	}
	if c.ColumnSum > 0 {
		h.counts = make([]float32, boards)
	}
	if mode == nn.Train {
		o.Loss = nodes.loss
		o.Links["grad:features"] = l.gradient
	}
	var err error
	if h.program, err = nn.Compile(dev, g, params, o); err != nil {
		return nil, fmt.Errorf("preparing the head for %s: %w", numbers.Count(boards, "puzzle"), err)
	}
	return h, nil
}

// place sets what lies on a board: arranged[s] of puzzle p of the batch in slot s. A board that
// does not count adds nothing to the losses, nor do patches that are blank to the cross-entropies.
func (h *head) place(board, p int, arranged puzzle.Configuration, counts bool, blank []bool, table []int) {
	n := len(arranged)
	index := h.index[board*n:][:n]
	for s, patch := range arranged {
		index[s] = float32(p*n + patch)
	}
	if h.orders != nil {
		h.truth[board] = -1
		if counts {
			h.truth[board] = float32(h.find(arranged))
		}
		return
	}
	truth := h.truth[board*n:][:n]
	for s, patch := range arranged {
		truth[s] = -1
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
	for a, first := range arranged {
		for b, second := range arranged {
			relation[a*n+b] = -1
			if truth[a] >= 0 && truth[b] >= 0 && a != b {
				relation[a*n+b] = float32(table[first*n+second])
			}
		}
	}
}

// look computes the scores of what lies on the boards, and the loss.
func (h *head) look() (loss float64, err error) {
	for _, input := range []struct {
		name   string
		values []float32
	}{{"index", h.index}, {"truth", h.truth}, {"counts", h.counts}, {"relations", h.relation}} {
		if input.values == nil {
			continue
		}
		if err := h.program.Set(input.name, input.values); err != nil {
			return 0, err
		}
	}
	if err := h.program.Forward(); err != nil {
		return 0, err
	}
	var total [1]float32
	err = h.program.Read("total", total[:])
	return float64(total[0]), err
}

// scores reads what look has computed.
func (h *head) scores() error {
	if h.orders != nil {
		return h.program.Read("orders", h.orders)
	}
	if err := h.program.Read("unary", h.unary); err != nil {
		return err
	}
	if h.pairs == nil {
		return nil
	}
	return h.program.Read("pairs", h.pairs)
}
