package nn

import (
	"fmt"

	G "gorgonia.org/gorgonia"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Operators of a head over tokens:
//
//	attention   y, p <- q, k, v                    dq, dk, dv = attentionGrad(q, k, v, p, dy)
//	choiceLoss  loss (), statistics <- u, right    du = choiceLossGrad(u, right, statistics, dloss)
type (
	attention      struct{ device.AttentionSpec }
	attentionGrad  struct{ device.AttentionSpec }
	choiceLoss     struct{ device.ChoiceSpec }
	choiceLossGrad struct{ device.ChoiceSpec }
)

// Attention is scaled dot-product attention of queries, keys and values (groups*rows, columns)
// within each group, with so many heads: see [device.AttentionSpec].
func (g *Graph) Attention(q, k, v *Node, groups, heads int) *Node {
	s, ok := g.groups("attention", q, groups)
	if !ok {
		return &Node{g: g}
	}
	return g.apply(attention{device.AttentionSpec{Groups: s.Groups, Rows: s.Rows, Columns: s.Columns, Heads: heads}}, q,
		k, v)
}

// ChoiceLoss is the cross-entropy of logits (rows, columns) of which several may be right: see
// [device.ChoiceSpec].
func (g *Graph) ChoiceLoss(logits, right *Node) *Node {
	if !g.rank("choice loss", logits, 2) {
		return &Node{g: g}
	}
	return g.apply(choiceLoss{device.ChoiceSpec{Rows: logits.shape[0], Columns: logits.shape[1]}}, logits, right)
}

// LayerNorm normalises each row of x (rows, channels) to mean 0 and variance 1, and scales and
// shifts its channels by parameters name.weight and name.bias (channels) (Ba et al. 2016, as
// torch.nn.LayerNorm has it). It is a group norm of one group over one voxel.
func (g *Graph) LayerNorm(name string, x *Node) *Node {
	if !g.rank(name, x, 2) {
		return &Node{g: g}
	}
	rows := g.apply(unflatten{device.Tensor{Shape: device.Shape{x.shape[0], x.shape[1], 1, 1, 1}}}, x)
	return g.Flatten(g.Activate(name, rows, Activation{Norm: device.GroupNorm, Groups: 1, NormName: name}))
}

// ScatterRows is the sum of the rows of x (In, Columns) that go to each of n rows: y[index[i]] +=
// x[i], for index (In), row numbers as float32. A row that none goes to is zero.
func (g *Graph) ScatterRows(x, index *Node, n int) *Node {
	if !g.rank("scatter rows", x, 2) || !g.rank("scatter rows", index, 1) {
		return &Node{g: g}
	}
	return g.apply(scatterRows{device.RowsSpec{In: n, Out: x.shape[0], Columns: x.shape[1]}}, x, index)
}

// LinearWith is y = x W^T + b of x (rows, K) with weights W (n, K) and biases b (n) that are values
// of the graph.
func (g *Graph) LinearWith(x, w, b *Node) *Node {
	if !g.rank("linear map", x, 2) || !g.rank("linear map", w, 2) {
		return &Node{g: g}
	}
	return g.apply(matMul{device.MatMulSpec{M: x.shape[0], N: w.shape[0], K: x.shape[1], TransB: true, Bias: true}}, x,
		w, b)
}

func (o attention) tokens() device.Shape { return device.Shape{o.Groups * o.Rows, o.Columns} }
func (o attention) weights() device.Shape {
	return device.Shape{o.Groups * o.Heads * o.Rows, o.Rows}
}
func (o attention) operands() []device.Shape {
	return []device.Shape{o.tokens(), o.tokens(), o.tokens()}
}
func (o attention) results() []result { return []result{plain(o.tokens()), plain(o.weights())} }
func (o attention) kernel(dev device.Device) (device.Kernel, error) {
	return dev.Attention(o.AttentionSpec)
}
func (o attention) flops() float64 {
	return 4 * float64(o.Groups) * float64(o.Rows) * float64(o.Rows) * float64(o.Columns)
}
func (o attention) String() string {
	return fmt.Sprintf("attention %dx%dx%d, %d heads", o.Groups, o.Rows, o.Columns, o.Heads)
}
func (o attention) wrt() []bool { return all(3) }
func (o attention) gradient(r *rule, in []*G.Node, out, dy *G.Node) []*G.Node {
	d := r.apply(attentionGrad(o), in[0], in[1], in[2], r.pick(out, 1), dy)
	return []*G.Node{d, r.pick(d, 1), r.pick(d, 2)}
}

func (o attentionGrad) operands() []device.Shape {
	a := attention(o)
	return append(a.operands(), a.weights(), a.tokens())
}
func (o attentionGrad) results() []result {
	d := plain(attention(o).tokens())
	return []result{d, d, d}
}
func (o attentionGrad) kernel(dev device.Device) (device.Kernel, error) {
	return dev.AttentionGrad(o.AttentionSpec)
}
func (o attentionGrad) flops() float64 { return 2 * attention(o).flops() }
func (o attentionGrad) String() string {
	return fmt.Sprintf("attentionGrad %dx%dx%d, %d heads", o.Groups, o.Rows, o.Columns, o.Heads)
}

func (o choiceLoss) shape() device.Shape      { return device.Shape{o.Rows, o.Columns} }
func (o choiceLoss) operands() []device.Shape { return []device.Shape{o.shape(), o.shape()} }
func (o choiceLoss) results() []result {
	return []result{plain(device.Shape{}), plain(device.Shape{o.Stats()})}
}
func (o choiceLoss) kernel(dev device.Device) (device.Kernel, error) {
	return dev.ChoiceLoss(o.ChoiceSpec)
}
func (o choiceLoss) String() string { return "choiceLoss " + shapeString(o.shape()) }
func (o choiceLoss) wrt() []bool    { return firstOnly(2) }
func (o choiceLoss) gradient(r *rule, in []*G.Node, out, dloss *G.Node) []*G.Node {
	return []*G.Node{r.apply(choiceLossGrad(o), in[0], in[1], r.pick(out, 1), dloss), nil}
}

func (o choiceLossGrad) operands() []device.Shape {
	shape := choiceLoss(o).shape()
	return []device.Shape{shape, shape, {o.Stats()}, {}}
}
func (o choiceLossGrad) results() []result { return []result{plain(choiceLoss(o).shape())} }
func (o choiceLossGrad) kernel(dev device.Device) (device.Kernel, error) {
	return dev.ChoiceLossGrad(o.ChoiceSpec)
}
func (o choiceLossGrad) String() string {
	return "choiceLossGrad " + shapeString(choiceLoss(o).shape())
}
