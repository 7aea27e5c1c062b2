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
	index   []float32 // (boards, patches): the row of features that lies in each slot not empty
	where   []float32 // (boards, patches): these slots, counted over all boards; nil: all are
	// of the attention head, (boards, patches, positions): 1 at the slot; nil with the others
	slots []float32
	// (cells): the positions of the grid among those of all; nil where there is one grid
	positions []float32
	// (boards, cells): the position where it belongs, -1 where the slot does not count; of the
	// K-way head (boards): the order
	truth []float32
	// (boards, cells, cells): 1 where a position is right, in place of truth; nil unless identical
	// patches are one class
	right []float32
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

// newHead compiles the head for the features of so many patches. In training it has gradients.
func (c Config) newHead(dev device.Device, params *nn.Params, mode nn.Mode, patches, boards int, l links,
	o nn.Options) (*head, error) {
	g, nodes := c.headGraph(mode, patches, boards)
	h := c.newBoards(boards)
	o.Outputs = map[string]*nn.Node{"total": nodes.loss}
	if c.Head == KWay {
		o.Outputs["orders"] = nodes.orders
	} else {
		o.Outputs["unary"] = nodes.unary
	}
	o.Links = map[string]*nn.Link{"features": l.features}
	if c.Binary {
		o.Outputs["pairs"] = nodes.pairs
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

// newBoards makes the memory of a head's inputs and outputs.
func (c Config) newBoards(boards int) *head {
	n, patches := c.cells(), c.present()
	h := &head{config: c, boards: boards, index: make([]float32, boards*patches)}
	if c.Head == KWay {
		h.truth, h.orders, h.find = make([]float32, boards), make([]float32, boards*len(c.Orders)), c.Orders.Finder()
		return h
	}
	h.truth, h.unary = make([]float32, boards*n), make([]float32, boards*n*n)
	all, first := c.positions()
	if c.missing() > 0 {
		h.where = make([]float32, boards*patches)
	}
	if c.Head == Attention {
		h.slots = make([]float32, boards*patches*all)
	}
	if c.Grids != nil {
		for p := range n {
			h.positions = append(h.positions, float32(first+p))
		}
	}
	if c.Identical {
		h.right = make([]float32, boards*n*n)
	}
	if c.Binary {
		h.relation = make([]float32, boards*n*n)
		h.pairs = make([]float32, boards*n*n*c.Grid.Relations())
	}
	if c.ColSum > 0 {
		h.counts = make([]float32, boards)
	}
	return h
}

// place sets what lies on a board: patch arranged[s] of a puzzle in slot s. A board that does not
// count adds nothing to the losses, nor do patches that are blank to the cross-entropies.
func (h *head) place(board int, p pieces, arranged puzzle.Configuration, counts bool, table []int) {
	h.placeFeatures(board, p, arranged)
	if h.orders != nil {
		h.truth[board] = -1
		if counts {
			h.truth[board] = float32(h.find(arranged))
		}
		return
	}
	n := len(arranged)
	truth := h.truth[board*n:][:n]
	for s, patch := range arranged {
		truth[s] = -1
		if counts && p.there(patch) && !p.blank[patch] {
			truth[s] = float32(patch)
		}
	}
	if h.right != nil {
		h.placeRight(board, p, truth)
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
			// Of a patch that has its like nobody knows where it stands to others.
			if truth[a] >= 0 && truth[b] >= 0 && a != b && p.alone(first) && p.alone(second) {
				relation[a*n+b] = float32(table[first*n+second])
			}
		}
	}
}

// placeFeatures says which feature lies in which slot.
func (h *head) placeFeatures(board int, p pieces, arranged puzzle.Configuration) {
	patches, n := h.config.present(), len(arranged)
	all, first := h.config.positions()
	k := board * patches
	for s, patch := range arranged {
		if !p.there(patch) {
			continue
		}
		h.index[k] = float32(p.row[patch])
		if h.where != nil {
			h.where[k] = float32(board*n + s)
		}
		if h.slots != nil {
			slot := h.slots[k*all:][:all]
			clear(slot)
			slot[first+s] = 1
		}
		k++
	}
}

// placeRight marks the positions that are right for what lies in each slot, given those where it
// belongs.
func (h *head) placeRight(board int, p pieces, truth []float32) {
	n := len(truth)
	for s, t := range truth {
		right := h.right[(board*n+s)*n:][:n]
		for position := range right {
			right[position] = 0
			if t >= 0 && p.same(int(t), position) {
				right[position] = 1
			}
		}
	}
}

// look computes the scores of what lies on the boards, and the loss.
func (h *head) look() (loss float64, err error) {
	truth := h.truth
	if h.right != nil {
		truth = nil
	}
	for _, input := range []struct {
		name   string
		values []float32
	}{
		{"index", h.index}, {"where", h.where}, {"slots", h.slots}, {"positions", h.positions}, {"truth", truth},
		{"right", h.right},
		{"counts", h.counts}, {"relations", h.relation},
	} {
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
