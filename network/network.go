// Package network adds networks of other modules to those that the program has.
//
// Start at [Register]: it puts a kind of network on the list that network.kind chooses from.
// Pretraining, fine-tuning and prediction then work with it as with any other. A [Network] is
// written with the operators of a [Graph], which differentiates it and runs it on every device.
//
// It leaves out what only the networks of this module need; those are written with the graph
// itself.
package network

import (
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// A Network is an encoder, which learns features, and a decoder, which makes a segmentation of
// them. All sizes are along (i, j, k), the last axis of a tensor first.
type Network interface {
	// Settings are the network's, with every value written out. Networks of equal settings have the
	// same weights.
	Settings() voxsaw.Network
	// Multiple is what sizes must be multiples of, along each axis.
	Multiple() [3]int
	// Encoder adds the down-sampling half to the graph of x (N, Settings().InputChannels(), D, H,
	// W), and returns the output of each stage, finest first. Names of its parameters begin with
	// "encoder.": by that, pretraining hands its weights on.
	Encoder(g Graph, x Node) []Node
	// Decoder adds the up-sampling half to the graph of an encoder's stages, and returns the logits
	// (N, Classes, D, H, W). In training (see [Graph.Training]) there may be further ones at half
	// the size, a quarter and so on, each of which has a loss of its own.
	Decoder(g Graph, stages []Node) []Node
}

// Register adds a kind of network to the list, in an init function. The name is what network.kind
// says. New makes the network of settings in which an empty string, 0 or a negative dropout stands
// for its own value, or says what is wrong with them, with the setting's name. A name that is taken
// is a panic.
func Register(name string, New func(voxsaw.Network) (Network, error)) {
	backbone.Register(backbone.Kind{Name: name, New: func(n voxsaw.Network) (backbone.Backbone, error) {
		made, err := New(n)
		if err != nil {
			return nil, err
		}
		return registered{made}, nil
	}})
}

// registered is a network of another module.
type registered struct{ Network }

// Describe implements [backbone.Backbone].
func (r registered) Describe() string {
	if s, ok := r.Network.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%s, %d channels", r.Settings().Kind, r.Settings().Channels)
}

// Encoder implements [backbone.Backbone].
func (r registered) Encoder(g *nn.Graph, x *nn.Node) []*nn.Node {
	if err := backbone.CheckInput(r, x); err != nil {
		g.Fail("%w", err)
		return nil
	}
	return unwrap(g, r.Network.Encoder(Graph{g}, Node{x}))
}

// Decoder implements [backbone.Backbone].
func (r registered) Decoder(g *nn.Graph, stages []*nn.Node) []*nn.Node {
	nodes := make([]Node, len(stages))
	for i, s := range stages {
		nodes[i] = Node{s}
	}
	return unwrap(g, r.Network.Decoder(Graph{g}, nodes))
}

// unwrap is the graph's own nodes of a network's. A network that returns none has failed.
func unwrap(g *nn.Graph, nodes []Node) []*nn.Node {
	out := make([]*nn.Node, len(nodes))
	for i, n := range nodes {
		out[i] = Graph{g}.of(n)
	}
	if len(out) == 0 {
		return []*nn.Node{g.Fail("the network returns no output")}
	}
	return out
}

// A Node is an array in a graph: (N, channels, D, H, W).
type Node struct{ n *nn.Node }

// Shape is (N, channels, D, H, W).
func (n Node) Shape() []int { return n.n.Shape() }

// A Graph is a network as far as it has been written. Mistakes, such as shapes that do not fit, are
// kept by it: after one, all further operators do nothing, and whoever asked for the network is
// told. An operator that has parameters takes a name, with which theirs begin; names and shapes are
// PyTorch's.
type Graph struct{ g *nn.Graph }

// of is the graph's own node. One that no operator made is a mistake.
func (g Graph) of(x Node) *nn.Node {
	if x.n == nil {
		return g.g.Fail("an operand, or a result of the network, is no node of its graph")
	}
	return x.n
}

// Training says whether the graph is one to train with.
func (g Graph) Training() bool { return g.g.Mode() == nn.Train }

// Fail keeps a mistake, whose text is formatted as by [fmt.Errorf].
func (g Graph) Fail(format string, args ...any) Node { return Node{g.g.Fail(format, args...)} }

// A Window is the geometry of a convolution or a pooling: (D, H, W).
type Window struct{ Kernel, Stride, Pad [3]int }

// Cube is a window that is the same along every axis.
func Cube(kernel, stride, pad int) Window { return Window(nn.Cube(kernel, stride, pad)) }

// Conv is a convolution of x to out channels, with parameters name.weight (out, channels, kernel)
// and, if bias, name.bias (out).
func (g Graph) Conv(name string, x Node, out int, w Window, bias bool) Node {
	return Node{g.g.Conv(name, g.of(x), out, nn.Window(w), bias)}
}

// ConvTranspose is PyTorch's ConvTranspose3d of x to out channels, with parameters name.weight
// (channels, out, kernel) and, if bias, name.bias (out).
func (g Graph) ConvTranspose(name string, x Node, out int, w Window, bias bool) Node {
	return Node{g.g.ConvTranspose(name, g.of(x), out, nn.Window(w), bias)}
}

// An Activation is what [Graph.Activate] does: act(norm(x) + residual).
type Activation struct {
	Norm     string // none (or empty), instance, batch or group
	Groups   int    // of norm group
	Act      string // none (or empty), relu, leaky (of slope 0.01), prelu or elu
	Residual Node   // of x's shape; zero: none
}

var (
	norms = map[string]device.Norm{"": device.NoNorm, "none": device.NoNorm, "instance": device.InstanceNorm,
		"batch": device.BatchNorm, "group": device.GroupNorm}
	activations = map[string]nn.Activation{"": {}, "none": {}, "relu": {Act: device.ReLU},
		"leaky": {Act: device.PReLU, Slope: 0.01}, "prelu": {Act: device.PReLU}, "elu": {Act: device.ELU}}
)

// Activate normalises, adds and activates. With a norm it has parameters name.norm.weight and
// name.norm.bias (channels), with batch norm states name.norm.running_mean and
// name.norm.running_var, with prelu name.act.weight (channels).
func (g Graph) Activate(name string, x Node, a Activation) Node {
	norm, known := norms[a.Norm]
	if !known {
		return g.Fail("%s: norm %q: want none, instance, batch or group", name, a.Norm)
	}
	act, known := activations[a.Act]
	if !known {
		return g.Fail("%s: activation %q: want none, relu, leaky, prelu or elu", name, a.Act)
	}
	act.Norm, act.Groups, act.Residual = norm, a.Groups, a.Residual.n
	return Node{g.g.Activate(name, g.of(x), act)}
}

// Add is a + b, of one shape.
func (g Graph) Add(a, b Node) Node { return Node{g.g.Add(g.of(a), g.of(b))} }

// Concat joins arrays along the channels.
func (g Graph) Concat(xs ...Node) Node {
	all := make([]*nn.Node, len(xs))
	for i, x := range xs {
		all[i] = g.of(x)
	}
	return Node{g.g.Concat(all...)}
}

// MaxPool takes the maximum in each window.
func (g Graph) MaxPool(x Node, w Window) Node { return Node{g.g.MaxPool(g.of(x), nn.Window(w))} }

// AvgPool takes the mean over each window; padding counts as zeros.
func (g Graph) AvgPool(x Node, w Window) Node { return Node{g.g.AvgPool(g.of(x), nn.Window(w))} }

// Dropout drops whole channels with probability rate in training, and scales the others by
// 1/(1-rate).
func (g Graph) Dropout(name string, x Node, rate float64) Node {
	return Node{g.g.Dropout3d(name, g.of(x), rate)}
}
