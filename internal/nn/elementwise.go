package nn

import (
	"fmt"

	G "gorgonia.org/gorgonia"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/exec"
)

// Operators that move, add or scale:
//
//	add            y <- a, b             da = db = dy
//	scale          y <- x                dx = scale(dy)
//	scaleChannels  y <- x, m (N, C)      dx = scaleChannels(dy, m); m has no gradient
//	sumChannels    b (C) <- x (N, C, ...)
//	concat         y <- x0, x1, ...      dx0, dx1, ... = split(dy)
//	flatten        y (N, C*D*H*W) <- x   dx = unflatten(dy)
//	unflatten      x (N, C, D, H, W) <- y, dy = flatten(dx)
//	reshape        the same memory       dx = reshape(dy)
//	pool           y <- x                dx = poolGrad(x, y, dy)
type (
	add   struct{ t device.Tensor }
	scale struct {
		t      device.Tensor
		factor float32
	}
	scaleChannels struct{ device.Tensor }
	sumChannels   struct{ device.Tensor }
	concat        struct{ device.ConcatSpec }
	split         struct{ device.ConcatSpec }
	flatten       struct{ device.Tensor }
	unflatten     struct{ device.Tensor }
	reshape       struct{ from, to device.Shape }
	pool          struct{ device.PoolSpec }
	poolGrad      struct{ device.PoolSpec }
)

// elementwise is a tensor as a device takes it for work element by element: a matrix of one row
// where it is neither an activation nor a matrix.
func elementwise(t device.Tensor) device.Tensor {
	if len(t.Shape) == 5 {
		return t
	}
	return device.Tensor{Shape: device.Shape{1, t.Shape.Elements()}}
}

func (o add) operands() []device.Shape { return []device.Shape{o.t.Shape, o.t.Shape} }
func (o add) results() []result        { return []result{activation(o.t.Shape, o.t.Type)} }
func (o add) kernel(dev device.Device) (device.Kernel, error) {
	return dev.Add(elementwise(o.t))
}
func (o add) overwrites() []exec.Over                                { return []exec.Over{{Out: 0, In: 0}} }
func (o add) wrt() []bool                                            { return all(2) }
func (o add) gradient(_ *rule, _ []*G.Node, _, dy *G.Node) []*G.Node { return []*G.Node{dy, dy} }

func (o scale) operands() []device.Shape { return []device.Shape{o.t.Shape} }
func (o scale) results() []result        { return []result{activation(o.t.Shape, o.t.Type)} }
func (o scale) kernel(dev device.Device) (device.Kernel, error) {
	return dev.Scale(elementwise(o.t), o.factor)
}
func (o scale) wrt() []bool { return all(1) }
func (o scale) gradient(r *rule, _ []*G.Node, _, dy *G.Node) []*G.Node {
	return []*G.Node{r.apply(o, dy)}
}

func (o scaleChannels) operands() []device.Shape { return []device.Shape{o.Shape, o.Shape[:2]} }
func (o scaleChannels) results() []result        { return []result{activation(o.Shape, o.Type)} }
func (o scaleChannels) kernel(dev device.Device) (device.Kernel, error) {
	return dev.ScaleChannels(o.Tensor)
}
func (o scaleChannels) wrt() []bool { return firstOnly(2) }
func (o scaleChannels) gradient(r *rule, in []*G.Node, _, dy *G.Node) []*G.Node {
	return []*G.Node{r.apply(o, dy, in[1]), nil}
}

func (o sumChannels) operands() []device.Shape { return []device.Shape{o.Shape} }
func (o sumChannels) results() []result        { return []result{plain(device.Shape{o.Shape[1]})} }
func (o sumChannels) kernel(dev device.Device) (device.Kernel, error) {
	return dev.SumChannels(o.Tensor)
}
func (o sumChannels) String() string { return "sumChannels " + shapeString(o.Shape) }

// A channelSummer is an operator whose last result is the sum of its first one over all but the
// channels: a bias gradient that needs no pass of its own.
type channelSummer interface {
	operator
	sumsChannels()
}

// sumChannels is the sum of n over all but the channels: a further result of what computes n, or a
// node of its own.
func (r *rule) sumChannels(t device.Tensor, n *G.Node) *G.Node {
	if o, ok := n.Op().(gorgoniaOp); ok {
		if summer, ok := o.operator.(channelSummer); ok {
			return r.pick(n, len(summer.results())-1)
		}
	}
	return r.apply(sumChannels{t}, n)
}

func (o concat) operands() []device.Shape {
	var s []device.Shape
	for i := range o.Channels {
		s = append(s, o.Operand(i))
	}
	return s
}
func (o concat) results() []result                               { return []result{activation(o.Whole(), o.Type)} }
func (o concat) kernel(dev device.Device) (device.Kernel, error) { return dev.Concat(o.ConcatSpec) }
func (o concat) wrt() []bool                                     { return all(len(o.Channels)) }
func (o concat) gradient(r *rule, _ []*G.Node, _, dy *G.Node) []*G.Node {
	d := []*G.Node{r.apply(split(o), dy)}
	for i := 1; i < len(o.Channels); i++ {
		d = append(d, r.pick(d[0], i))
	}
	return d
}

func (o split) operands() []device.Shape { return []device.Shape{o.Whole()} }
func (o split) results() []result {
	var r []result
	for i := range o.Channels {
		r = append(r, activation(o.Operand(i), o.Type))
	}
	return r
}
func (o split) kernel(dev device.Device) (device.Kernel, error) { return dev.Split(o.ConcatSpec) }

func (o flatten) rows() device.Shape {
	return device.Shape{o.Shape[0], o.Shape[1:].Elements()}
}
func (o flatten) operands() []device.Shape                        { return []device.Shape{o.Shape} }
func (o flatten) results() []result                               { return []result{plain(o.rows())} }
func (o flatten) kernel(dev device.Device) (device.Kernel, error) { return dev.Flatten(o.Tensor) }
func (o flatten) String() string                                  { return "flatten " + shapeString(o.Shape) }
func (o flatten) wrt() []bool                                     { return all(1) }
func (o flatten) gradient(r *rule, _ []*G.Node, _, dy *G.Node) []*G.Node {
	return []*G.Node{r.apply(unflatten(o), dy)}
}

func (o unflatten) operands() []device.Shape                        { return []device.Shape{flatten(o).rows()} }
func (o unflatten) results() []result                               { return []result{activation(o.Shape, o.Type)} }
func (o unflatten) kernel(dev device.Device) (device.Kernel, error) { return dev.Unflatten(o.Tensor) }
func (o unflatten) wrt() []bool                                     { return all(1) }
func (o unflatten) gradient(r *rule, _ []*G.Node, _, dy *G.Node) []*G.Node {
	return []*G.Node{r.apply(flatten(o), dy)}
}

func (o reshape) operands() []device.Shape { return []device.Shape{o.from} }
func (o reshape) results() []result        { return []result{plain(o.to)} }
func (o reshape) kernel(device.Device) (device.Kernel, error) {
	return nil, fmt.Errorf("reshape has no kernel")
}

// Check says whether no element is lost and none has to move.
func (o reshape) Check() error {
	if len(o.from) == 5 || len(o.to) == 5 {
		return fmt.Errorf("reshape of %v to %v: activations have an order of their own; flatten them first",
			[]int(o.from), []int(o.to))
	}
	if err := checkShape(o.to); err != nil {
		return fmt.Errorf("reshape: %w", err)
	}
	if o.from.Elements() != o.to.Elements() {
		return fmt.Errorf("reshape of %v to %v: %d elements do not make %d", []int(o.from), []int(o.to),
			o.from.Elements(), o.to.Elements())
	}
	return nil
}
func (o reshape) wrt() []bool { return all(1) }
func (o reshape) gradient(r *rule, _ []*G.Node, _, dy *G.Node) []*G.Node {
	return []*G.Node{r.apply(reshape{o.to, o.from}, dy)}
}

func (o pool) operands() []device.Shape                        { return []device.Shape{o.Shape} }
func (o pool) results() []result                               { return []result{activation(o.OutShape(), o.Type)} }
func (o pool) kernel(dev device.Device) (device.Kernel, error) { return dev.Pool(o.PoolSpec) }
func (o pool) wrt() []bool                                     { return all(1) }
func (o pool) gradient(r *rule, in []*G.Node, out, dy *G.Node) []*G.Node {
	return []*G.Node{r.apply(poolGrad(o), in[0], out, dy)}
}

func (o poolGrad) operands() []device.Shape {
	return []device.Shape{o.Shape, o.OutShape(), o.OutShape()}
}
func (o poolGrad) results() []result                               { return []result{activation(o.Shape, o.Type)} }
func (o poolGrad) kernel(dev device.Device) (device.Kernel, error) { return dev.PoolGrad(o.PoolSpec) }
