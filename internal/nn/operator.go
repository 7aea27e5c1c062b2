package nn

import (
	"fmt"
	"hash"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"

	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/exec"
)

// An operator is one kind of node. It is a small value whose fields are all its hyperparameters:
// their printed form tells nodes apart.
type operator interface {
	operands() []device.Shape // what it takes
	// what it gives; the first is the node's value, see Graph.pick for the others
	results() []result
	// out <- in, in the order of results and operands
	kernel(dev device.Device) (device.Kernel, error)
}

// A differentiable operator can say how a gradient passes through it.
type differentiable interface {
	operator
	// wrt says for each operand whether it has a gradient.
	wrt() []bool
	// gradient returns the gradient of each operand given that of the first result: further nodes,
	// built with r; nil where wrt is false.
	gradient(r *rule, in []*G.Node, out, dout *G.Node) []*G.Node
}

// An overwriter may write results over operands, where nobody needs these any more.
type overwriter interface{ overwrites() []exec.Over }

// A counter knows its arithmetic, for profiles.
type counter interface{ flops() float64 }

// result is one thing that an operator gives.
type result struct {
	shape   device.Shape
	typ     device.Type
	weights bool // it lies in the device's layout of weights, not of activations
}

// plain is a float32 tensor.
func plain(s device.Shape) result { return result{shape: s} }

// activation is a tensor of the given type where it has rank 5, otherwise of float32.
func activation(s device.Shape, t device.Type) result {
	if len(s) != 5 {
		t = device.Float32
	}
	return result{shape: s, typ: t}
}

func weights(s device.Shape) result { return result{shape: s, weights: true} }

func (r result) tensor() device.Tensor { return device.Tensor{Shape: r.shape, Type: r.typ} }

// describe is the operator as a person reads it: "conv 16->32 ...".
func describe(o operator) string {
	if s, ok := o.(fmt.Stringer); ok {
		return s.String()
	}
	return reflect.TypeOf(o).Name() + " " + shapeString(o.results()[0].shape)
}

// gorgoniaOp shows an operator to Gorgonia, which builds, merges and differentiates graphs of them
// but never runs one.
type gorgoniaOp struct {
	operator
	salt int // see apply
}

var (
	_ G.SDOp = gorgoniaOp{}
	_ G.Op   = gorgoniaOp{}
)

// Gorgonia treats scalars apart and cannot mix them with tensors; here a scalar is a vector of one
// element.
func gorgoniaShape(s device.Shape) tensor.Shape {
	if len(s) == 0 {
		return tensor.Shape{1}
	}
	return tensor.Shape(s).Clone()
}

func gorgoniaRank(s device.Shape) int { return max(1, len(s)) }

func (o gorgoniaOp) Arity() int { return len(o.operands()) }

// Type holds the ranks, so that Gorgonia's type checker checks them.
func (o gorgoniaOp) Type() hm.Type {
	var ts []hm.Type
	for _, s := range o.operands() {
		ts = append(ts, G.TensorType{Dims: gorgoniaRank(s), Of: G.Float32})
	}
	ts = append(ts, G.TensorType{Dims: gorgoniaRank(o.results()[0].shape), Of: G.Float32})
	return hm.NewFnType(ts...)
}

func (o gorgoniaOp) InferShape(in ...G.DimSizer) (tensor.Shape, error) {
	for i, want := range o.operands() {
		if got, ok := in[i].(tensor.Shape); !ok || !got.Eq(gorgoniaShape(want)) {
			return nil, fmt.Errorf("%s: operand %d has shape %v, want %v", describe(o.operator), i, in[i], want)
		}
	}
	return gorgoniaShape(o.results()[0].shape), nil
}

func (o gorgoniaOp) Do(...G.Value) (G.Value, error) {
	return nil, fmt.Errorf("%s: runs only in a compiled program", o)
}

func (o gorgoniaOp) ReturnsPtr() bool     { return true }
func (o gorgoniaOp) CallsExtern() bool    { return false }
func (o gorgoniaOp) OverwritesInput() int { return -1 }

// String holds every hyperparameter: "conv{ConvSpec:device.ConvSpec{N:1, In:16, ...}}".
func (o gorgoniaOp) String() string {
	return strings.TrimPrefix(fmt.Sprintf("%#v", o.operator), "nn.")
}

func (o gorgoniaOp) WriteHash(h hash.Hash) { fmt.Fprintf(h, "%s#%d", o.String(), o.salt) }

func (o gorgoniaOp) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

// DiffWRT is never nil or empty: Gorgonia takes that as a hole in the graph.
func (o gorgoniaOp) DiffWRT(n int) []bool {
	if d, ok := o.operator.(differentiable); ok {
		return d.wrt()
	}
	return make([]bool, n)
}

func (o gorgoniaOp) SymDiff(in G.Nodes, out, dout *G.Node) (G.Nodes, error) {
	d, ok := o.operator.(differentiable)
	if !ok {
		return nil, fmt.Errorf("%s has no gradient", o)
	}
	r := &rule{}
	grads := d.gradient(r, in, out, dout)
	return grads, r.err
}

// rule builds the nodes of one gradient rule; like Graph it keeps the first mistake.
type rule struct{ err error }

func (r *rule) apply(o operator, in ...*G.Node) *G.Node {
	if r.err != nil {
		return nil
	}
	n, err := apply(o, in...)
	r.err = err
	return n
}

// pick is the i-th result of n.
func (r *rule) pick(n *G.Node, i int) *G.Node {
	if r.err != nil {
		return nil
	}
	p, err := pickOf(n, i)
	if err != nil {
		r.err = err
		return nil
	}
	return r.apply(p, n)
}

// apply adds an operator to the graph of its operands. Gorgonia merges nodes whose 32-bit hashes
// agree, which is right for equal nodes and a disaster for others: a node that is not the one asked
// for is asked for again with another hash.
func apply(o operator, in ...*G.Node) (*G.Node, error) {
	for salt := range 8 {
		g := gorgoniaOp{o, salt}
		n, err := G.ApplyOp(g, in...)
		if err != nil {
			return nil, rootCause(err)
		}
		if same(n, g, in) {
			return n, nil
		}
	}
	return nil, fmt.Errorf("%s: its hash collides with that of other nodes", describe(o))
}

func same(n *G.Node, o gorgoniaOp, in []*G.Node) bool {
	p, ok := n.Op().(gorgoniaOp)
	return ok && p.String() == o.String() && slices.Equal(childrenOf(n), in)
}

// childrenOf returns the operands of a node in order, with duplicates.
func childrenOf(n *G.Node) []*G.Node {
	var list []*G.Node
	for it := n.Graph().From(n.ID()); it.Next(); {
		list = append(list, it.Node().(*G.Node))
	}
	return list
}

// rootCause drops the wrappings that Gorgonia puts around our own errors.
func rootCause(err error) error {
	for {
		c, ok := err.(interface{ Cause() error })
		if !ok {
			return err
		}
		err = c.Cause()
	}
}

// pick is result i of an operator that has several: a node that no kernel computes.
type pick struct {
	of device.Shape // the first result
	i  int
	result
}

func (o pick) operands() []device.Shape { return []device.Shape{o.of} }
func (o pick) results() []result        { return []result{o.result} }
func (o pick) kernel(device.Device) (device.Kernel, error) {
	return nil, fmt.Errorf("pick has no kernel")
}

func pickOf(n *G.Node, i int) (pick, error) {
	o, ok := n.Op().(gorgoniaOp)
	if !ok || i < 1 || i >= len(o.results()) {
		return pick{}, fmt.Errorf("%v has no result %d", n.Op(), i)
	}
	r := o.results()
	return pick{r[0].shape, i, r[i]}, nil
}

// pick is the i-th result of n.
func (g *Graph) pick(n *Node, i int) *Node {
	if g.err != nil {
		return &Node{g: g}
	}
	p, err := pickOf(n.n, i)
	if err != nil {
		return g.Fail("%w", err)
	}
	return g.apply(p, n)
}

// firstOnly is the answer to wrt of an operator with n operands where only the first has a
// gradient.
func firstOnly(n int) []bool {
	w := make([]bool, n)
	w[0] = true
	return w
}

func all(n int) []bool {
	w := make([]bool, n)
	for i := range w {
		w[i] = true
	}
	return w
}
