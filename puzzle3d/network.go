package puzzle3d

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// The network is two programs over shared parameters. The encoder turns every patch into a feature,
// once a step; the head turns the features of the patches of a puzzle, in the order in which they
// lie, into the costs of positions, once a round. Rows of the features are patches in their natural
// order, puzzle after puzzle; the head's input `index` says which row lies in which slot.
//
// A head program sees `boards`: the puzzles of a batch, or the puzzles of several rounds one after
// the other.

// encoderGraph maps patches (patches, 1, D, H, W) to features (patches, Features).
func (c Config) encoderGraph(mode nn.Mode, t device.Type, patches int) (*nn.Graph, *nn.Node) {
	g := nn.NewGraph(mode, t)
	return g, c.encoder(g, g.Input("patches", patches, 1, c.Patch[2], c.Patch[1], c.Patch[0]))
}

// encoder adds the backbone and the linear map behind it.
func (c Config) encoder(g *nn.Graph, x *nn.Node) *nn.Node {
	stages := c.Network.Encoder(g, x)
	if g.Err() != nil {
		return nil
	}
	deepest := g.Flatten(stages[len(stages)-1])
	return g.ReLU(g.Linear("puzzle.feature", deepest, c.Features, true))
}

// headNodes are what a head program computes.
type headNodes struct {
	// (boards x cells, cells): a score of each position for the patch in each slot; softmax over a
	// row is its probability
	unary *nn.Node
	// (boards x cells x cells, relations): the same of the relation of each slot to each other; nil
	// without binary terms
	pairs *nn.Node
	loss  *nn.Node // (): all terms, weighted
	terms *nn.Node // statistics whose first is the cross-entropy of the unary terms
}

// headGraph maps the features of a batch, and the order in which they lie on boards, to scores.
func (c Config) headGraph(mode nn.Mode, puzzles, boards int) (*nn.Graph, headNodes) {
	g := nn.NewGraph(mode, device.Float32)
	f := g.GatherRows(g.GradInput("features", puzzles*c.cells(), c.Features), g.Input("index", boards*c.cells()))
	return g, c.head(g, f, boards)
}

// head adds the head to a graph: f (boards x cells, Features) are the features of what lies in each
// slot. The scores are compared with the truth.
func (c Config) head(g *nn.Graph, f *nn.Node, boards int) headNodes {
	n := c.cells()
	var h headNodes
	if c.Head != Symmetric {
		all := g.Reshape(f, boards, n*c.Features)
		h.unary = g.Reshape(g.Linear("puzzle.unary", all, n*n, true), boards*n, n)
	}
	if c.Head != Paper {
		// One linear map of [feature, mean of the others'] is the sum of a map of each.
		own := g.Linear("puzzle.own", f, c.Hidden, true)
		others := g.Linear("puzzle.others", g.MeanOfOthers(f, boards), c.Hidden, false)
		u := g.Linear("puzzle.position", g.ReLU(g.Add(own, others)), n, true)
		if h.unary != nil {
			u = g.Add(h.unary, u)
		}
		h.unary = u
	}
	h.loss, h.terms = g.Loss(h.unary, g.Input("truth", boards*n), nn.LossOptions{CE: 1})
	if c.Binary {
		// One linear map of two concatenated features is the sum of a map of each.
		relations := c.grid().Relations()
		first := g.Linear("puzzle.first", f, relations, true)
		second := g.Linear("puzzle.second", f, relations, false)
		h.pairs = g.PairSum(first, second, boards)
		l, _ := g.Loss(h.pairs, g.Input("relations", boards*n*n), nn.LossOptions{CE: 1})
		h.loss = g.Add(h.loss, l)
	}
	if c.ColSum > 0 {
		h.loss = g.Add(h.loss, g.Scale(g.ColumnSumLoss(h.unary, g.Input("counts", boards)), float32(c.ColSum)))
	}
	return h
}

// declare gathers the parameters of the whole model, which must be known before the first program
// takes memory.
func (c Config) declare(params *nn.Params) error {
	encoder, _ := c.encoderGraph(nn.Train, params.Device().Activations(), c.cells())
	head, _ := c.headGraph(nn.Train, 1, 1)
	if err := params.Declare(encoder, head); err != nil {
		return fmt.Errorf("building the network: %w", err)
	}
	return nil
}

// newEncoder compiles the encoder for a number of patches. In training the gradient of its features
// comes from the head, as input "gradient". It updates its parameters itself where update is given.
func (c Config) newEncoder(dev device.Device, params *nn.Params, mode nn.Mode, patches int, o nn.Options) (*nn.Program, error) {
	g, features := c.encoderGraph(mode, dev.Activations(), patches)
	o.Outputs = map[string]*nn.Node{"features": features}
	if mode == nn.Train {
		g.Input("gradient", patches, c.Features)
		o.OutputGrad = map[string]string{"features": "gradient"}
	}
	p, err := nn.Compile(dev, g, params, o)
	if err != nil {
		return nil, fmt.Errorf("preparing the encoder for %d patches of %s: %w", patches, extents(c.Patch), err)
	}
	return p, nil
}
