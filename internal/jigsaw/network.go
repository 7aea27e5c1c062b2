package jigsaw

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
)

// The network is two programs over shared parameters. The encoder turns every patch into a feature,
// once a step; the head turns the features of the patches of a puzzle, in the order in which they
// lie, into the costs of positions, once a round. Rows of the features are patches in their natural
// order, puzzle after puzzle; the head's input `index` says which row lies in which slot. Where
// patches are missing it has a row for each slot that is not empty, and the input `where` says
// which slots these are.
//
// The features lie in memory of the device that both programs use, and so does their gradient: only
// scores visit the host.
//
// A head program sees boards: the puzzles of a batch, or the puzzles of several rounds one after
// the other.

// encoderGraph maps patches to features (patches, Features).
func (c Config) encoderGraph(b Backbone, mode nn.Mode, t device.Type, n int) (*nn.Graph, *nn.Node) {
	g := nn.NewGraph(mode, t)
	x := b.Encode(g, g.Input("patches", patches(b, n)...))
	if g.Err() != nil {
		return g, nil
	}
	f := g.Linear("puzzle.feature", x, c.Features, true)
	if !c.LinearFeatures {
		f = g.ReLU(f)
	}
	return g, f
}

// headNodes are what a head program computes.
type headNodes struct {
	// (boards, orders): a score of each order; nil but with the K-way head, which has nothing else
	orders *nn.Node
	// (boards x cells, cells): a score of each position for the patch in each slot; softmax over a
	// row is its probability
	unary *nn.Node
	// (boards x cells x cells, relations): likewise for the relation between each two slots; nil
	// without binary terms
	pairs *nn.Node
	loss  *nn.Node // (): all terms, weighted
}

// headGraph maps the features of so many patches, and the order in which they lie on boards, to
// scores.
func (c Config) headGraph(mode nn.Mode, patches, boards int) (*nn.Graph, headNodes) {
	g := nn.NewGraph(mode, device.Float32)
	f := g.GatherRows(g.GradInput("features", patches, c.Features), g.Input("index", boards*c.present()))
	return g, c.head(g, f, boards)
}

// head adds the head to a graph: f (boards x patches that are there, Features) are the features of
// what lies in each slot that is not empty. The scores are compared with the truth.
func (c Config) head(g *nn.Graph, f *nn.Node, boards int) headNodes {
	n := c.cells()
	var h headNodes
	if c.Head == KWay {
		all := g.ReLU(g.Linear("puzzle.all", g.Reshape(f, boards, n*c.Features), c.Hidden, true))
		h.orders = g.Linear("puzzle.order", all, len(c.Orders), true)
		h.loss, _ = g.Loss(h.orders, g.Input("truth", boards), nn.LossOptions{CE: 1})
		return h
	}
	slots := func(x *nn.Node) *nn.Node { return x } // a row of zeros for each empty slot
	if c.missing() > 0 {
		where := g.Input("where", boards*c.present())
		slots = func(x *nn.Node) *nn.Node { return g.ScatterRows(x, where, boards*n) }
	}
	if c.Head == Paper || c.Head == Both {
		all := g.Reshape(slots(f), boards, n*c.Features)
		h.unary = g.Reshape(g.Linear("puzzle.unary", all, n*n, true), boards*n, n)
	}
	switch c.Head {
	case Symmetric, Both:
		u := slots(c.symmetric(g, f, boards))
		if h.unary != nil {
			u = g.Add(h.unary, u)
		}
		h.unary = u
	case Attention:
		h.unary = slots(c.attention(g, f, boards))
	}
	if c.Identical {
		h.loss = g.ChoiceLoss(h.unary, g.Input("right", boards*n, n))
	} else {
		h.loss, _ = g.Loss(h.unary, g.Input("truth", boards*n), nn.LossOptions{CE: 1})
	}
	if c.Binary {
		// One linear map of two concatenated features is the sum of a map of each.
		relations := c.Grid.Relations()
		first := g.Linear("puzzle.first", slots(f), relations, true)
		second := g.Linear("puzzle.second", slots(f), relations, false)
		h.pairs = g.PairSum(first, second, boards)
		weight := float32(1)
		if c.BinaryWeight > 0 { // each patch has a pair with each of the others
			weight = float32(c.BinaryWeight) * float32(c.present()-1)
		}
		l, _ := g.Loss(h.pairs, g.Input("relations", boards*n*n), nn.LossOptions{CE: weight})
		h.loss = g.Add(h.loss, l)
	}
	if c.SumLoss {
		h.loss = g.Scale(h.loss, float32(c.present()))
	}
	if c.ColSum > 0 {
		h.loss = g.Add(h.loss, g.Scale(g.ColumnSumLoss(h.unary, g.Input("counts", boards)), float32(c.ColSum)))
	}
	return h
}

// symmetric adds the symmetric head: each patch's feature beside the mean of the others'.
func (c Config) symmetric(g *nn.Graph, f *nn.Node, boards int) *nn.Node {
	// One linear map of [feature, mean of the others'] is the sum of a map of each.
	own := g.Linear("puzzle.own", f, c.Hidden, true)
	others := g.Linear("puzzle.others", g.MeanOfOthers(f, boards), c.Hidden, false)
	return c.position(g, g.ReLU(g.Add(own, others)))
}

// Declare gathers the parameters of the whole model, which must be known before the first program
// takes memory. They are the same for every grid.
func (c Config) Declare(b Backbone, params *nn.Params) error {
	c = c.On(0)
	encoder, _ := c.encoderGraph(b, nn.Train, params.Device().Activations(), c.cells())
	beside(b, encoder, &nn.Options{}, 1)
	head, _ := c.headGraph(nn.Train, c.present(), 1)
	if err := params.Declare(encoder, head); err != nil {
		return fmt.Errorf("building the network: %w", err)
	}
	return nil
}

// links are the features and their gradient.
type links struct{ features, gradient *nn.Link }

// newLinks takes the memory for the features of so many patches, and in training for their
// gradient.
func (c Config) newLinks(params *nn.Params, mode nn.Mode, patches int) (l links, err error) {
	if l.features, err = params.Link(patches, c.Features); err == nil && mode == nn.Train {
		l.gradient, err = params.Link(patches, c.Features)
	}
	if err != nil {
		l.close()
	}
	return l, err
}

func (l links) close() {
	for _, link := range []*nn.Link{l.features, l.gradient} {
		if link != nil {
			link.Close()
		}
	}
}

// newEncoder compiles the encoder for a number of patches. In training the gradient of its features
// comes from the head. It updates its parameters itself where the options say so.
func (c Config) newEncoder(b Backbone, dev device.Device, params *nn.Params, mode nn.Mode, n int, l links,
	o nn.Options) (*nn.Program, error) {
	g, features := c.encoderGraph(b, mode, dev.Activations(), n)
	o.Outputs = map[string]*nn.Node{"features": features}
	o.Links = map[string]*nn.Link{"features": l.features}
	if mode == nn.Train {
		g.Input("gradient", n, c.Features)
		o.OutputGrad = map[string]string{"features": "gradient"}
		o.Links["gradient"] = l.gradient
		o.Ahead = []string{"patches"}
		beside(b, g, &o, n/c.present())
	}
	p, err := nn.Compile(dev, g, params, o)
	if err != nil {
		patch := b.Patch()
		return nil, fmt.Errorf("preparing the encoder for %s of %dx%dx%d: %w", numbers.Count(n, "patch", "patches"),
			patch[3], patch[2], patch[1], err)
	}
	return p, nil
}
