// Package nn holds the operators that networks are made of, on Gorgonia's expression graph, and the
// compiler from that graph to a program of package exec.
//
// Start at [Graph]: its methods are the operators. A graph is pure description: it has shapes but
// no memory. [Params] holds the parameters of a model on a device, shared by any number of
// programs, and [Compile] turns a graph into a [Program] that runs without allocating. Gorgonia
// differentiates through our operators (each states its gradient as further operators, see operator
// in operator.go); its own machines never run here.
//
// The package knows no particular network, no optimiser and no file.
package nn

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	G "gorgonia.org/gorgonia"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Mode says what a graph is for.
type Mode uint8

// In training dropout drops and batch norm uses the batch's statistics; otherwise dropout passes
// everything and batch norm uses the running statistics.
const (
	Train Mode = iota
	Eval
)

// Graph is a network under construction. Its methods add operators and return their results.
//
// A graph keeps the first mistake: after it every method does nothing, [Graph.Err] and [Compile]
// report it. So a network is written without an error check a line. A graph is compiled once with
// gradients (Gorgonia differentiates a graph only once); build it again for another program.
type Graph struct {
	mode   Mode
	typ    device.Type // of activations
	expr   *G.ExprGraph
	err    error
	leaves map[*G.Node]*leaf
	byName map[string]*leaf
	order  []*leaf // as declared
	used   bool    // differentiated already
}

// A Node is a tensor of a graph: an input, a parameter or the result of an operator.
type Node struct {
	g     *Graph
	n     *G.Node
	shape device.Shape
	typ   device.Type
}

// Shape is the logical shape, most significant axis first; nil after a mistake.
func (n *Node) Shape() device.Shape { return n.shape }

// Type is that of the elements: results have the type of what they are computed from.
func (n *Node) Type() device.Type { return n.typ }

func (n *Node) tensor() device.Tensor { return device.Tensor{Shape: n.shape, Type: n.typ} }

type leafKind uint8

const (
	input leafKind = iota
	parameter
	state
	mask     // of a dropout: an input that the program fills
	constant // a tensor whose elements all have one value, which nothing changes
)

// leaf is a node that no operator computes.
type leaf struct {
	kind  leafKind
	name  string
	shape device.Shape
	typ   device.Type
	node  *Node
	init  Init
	wants bool    // an input whose gradient is wanted
	rate  float64 // of a dropout
	value float32 // of a constant
}

// NewGraph returns an empty graph, whose inputs of rank 5 are of the given type: usually
// [device.Device].Activations of the device that it is made for.
func NewGraph(mode Mode, activations device.Type) *Graph {
	return &Graph{mode: mode, typ: activations, expr: G.NewGraph(), leaves: map[*G.Node]*leaf{},
		byName: map[string]*leaf{}}
}

// Mode is what the graph was made for.
func (g *Graph) Mode() Mode { return g.mode }

// Err is the first mistake, nil if there was none.
func (g *Graph) Err() error { return g.err }

// Fail records a mistake that a caller found, unless there was one before. It returns the node that
// the failed construction may return.
func (g *Graph) Fail(format string, args ...any) *Node {
	if g.err == nil {
		g.err = fmt.Errorf(format, args...)
	}
	return &Node{g: g}
}

// Input declares a tensor that is set before every run. The rank decides how it lies on the device:
// rank 5 is an activation (N, C, D, H, W).
func (g *Graph) Input(name string, shape ...int) *Node {
	return g.leaf(&leaf{kind: input, name: name, shape: shape})
}

// GradInput declares an input whose gradient [Program.Backward] leaves as output "grad:<name>".
func (g *Graph) GradInput(name string, shape ...int) *Node {
	return g.leaf(&leaf{kind: input, name: name, shape: shape, wants: true})
}

// Param declares a trained parameter, or returns the one of that name. Parameters lie in the layout
// that the device has for weights.
func (g *Graph) Param(name string, init Init, shape ...int) *Node {
	return g.leaf(&leaf{kind: parameter, name: name, shape: shape, init: init})
}

// State declares values that are saved with the parameters but not trained, such as running
// statistics. All elements start at value.
func (g *Graph) State(name string, value float32, shape ...int) *Node {
	return g.leaf(&leaf{kind: state, name: name, shape: shape, init: Constant(value)})
}

// Constant declares a tensor of rank 0 to 2 whose elements all have one value. It is neither
// trained nor saved.
func (g *Graph) Constant(name string, value float32, shape ...int) *Node {
	return g.leaf(&leaf{kind: constant, name: name, shape: shape, value: value})
}

// maxElements bounds a tensor: 4 TiB, beyond any machine, far below an overflow of byte counts.
const maxElements = 1 << 40

func checkShape(s device.Shape) error {
	n := 1
	for _, d := range s {
		if d < 1 {
			return fmt.Errorf("shape %v has an empty axis", s)
		}
		if n > maxElements/d {
			return fmt.Errorf("shape %v is too large", s)
		}
		n *= d
	}
	return nil
}

func (g *Graph) leaf(l *leaf) *Node {
	if g.err != nil {
		return &Node{g: g}
	}
	if err := checkShape(l.shape); err != nil {
		return g.Fail("declaring %q: %w", l.name, err)
	}
	l.shape = append(device.Shape{}, l.shape...)
	if len(l.shape) == 5 && (l.kind == input || l.kind == mask) {
		l.typ = g.typ
	}
	if old, ok := g.byName[l.name]; ok {
		if old.kind != l.kind || l.kind == input || !old.shape.Equal(l.shape) {
			return g.Fail("declaring %q with shape %v: the name is taken by one of shape %v", l.name, l.shape,
				old.shape)
		}
		return old.node
	}
	n := G.NewTensor(g.expr, G.Float32, gorgoniaRank(l.shape), G.WithShape(gorgoniaShape(l.shape)...),
		G.WithName(l.name))
	if _, taken := g.leaves[n]; taken {
		return g.Fail("declaring %q: its hash is that of %q; choose another name", l.name, g.leaves[n].name)
	}
	l.node = &Node{g: g, n: n, shape: l.shape, typ: l.typ}
	g.leaves[n], g.byName[l.name] = l, l
	g.order = append(g.order, l)
	return l.node
}

// apply adds an operator to the graph.
func (g *Graph) apply(o operator, in ...*Node) *Node {
	if g.err != nil {
		return &Node{g: g}
	}
	if c, ok := o.(interface{ Check() error }); ok {
		if err := c.Check(); err != nil {
			return g.Fail("%w", err)
		}
	}
	want, nodes := o.operands(), make([]*G.Node, len(in))
	if len(in) != len(want) {
		return g.Fail("%s: %d operands, want %d", describe(o), len(in), len(want))
	}
	for i, n := range in {
		if n == nil || n.g != g || n.n == nil {
			return g.Fail("%s: operand %d belongs to another graph", describe(o), i)
		}
		if !n.shape.Equal(want[i]) {
			return g.Fail("%s: operand %d has shape %v, want %v", describe(o), i, []int(n.shape), []int(want[i]))
		}
		nodes[i] = n.n
	}
	if err := sameType(in); err != nil {
		return g.Fail("%s: %w", describe(o), err)
	}
	result := o.results()[0]
	if err := checkShape(result.shape); err != nil {
		return g.Fail("%s: %w", describe(o), err)
	}
	n, err := apply(o, nodes...)
	if err != nil {
		return g.Fail("%w", err)
	}
	return &Node{g: g, n: n, shape: result.shape, typ: result.typ}
}

// sameType refuses operands of rank 5 that are of different types. Weights have a type of their
// own.
func sameType(in []*Node) error {
	first := -1
	for i, n := range in {
		if len(n.shape) != 5 || n.isWeights() {
			continue
		}
		if first < 0 {
			first = i
		}
		if n.typ != in[first].typ {
			return fmt.Errorf("operand %d is of type %v, operand %d of type %v", first, in[first].typ, i, n.typ)
		}
	}
	return nil
}

// isWeights says whether the node is a parameter.
func (n *Node) isWeights() bool {
	l, ok := n.g.leaves[n.n]
	return ok && (l.kind == parameter || l.kind == state)
}

// An Init draws the first values of a parameter of the given shape, piece by piece: dst is the next
// piece. A weight's shape is (out, in, kernel...).
type Init func(r *rand.Rand, shape device.Shape, dst []float32)

// shapeString writes a shape as 2x16x32x32x32, the way it is printed in errors and profiles.
func shapeString(s device.Shape) string {
	parts := make([]string, len(s))
	for i, d := range s {
		parts[i] = strconv.Itoa(d)
	}
	return strings.Join(parts, "x")
}
