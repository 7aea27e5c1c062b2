package nn

import (
	"fmt"

	G "gorgonia.org/gorgonia"

	"github.com/voxsaw/voxsaw/internal/device"
)

// The convolutions. All three take the spec of the forward one, x (N, In, Size) to y (N, Out,
// OutSize):
//
//	conv              y <- x, w, [b]     dx = convTransposed(dy, w)    dw = convGradWeights(x, dy)    db = sumChannels(dy)
//	convTransposed    x <- y, w, [b]     dy = conv(dx, w)              dw = convGradWeights(dx, y)    db = sumChannels(dx)
//	convGradWeights  dw <- x, dy
type (
	conv            struct{ device.ConvSpec }
	convTransposed  struct{ device.ConvSpec }
	convGradWeights struct{ device.ConvSpec }
)

func withoutBias(s device.ConvSpec) device.ConvSpec {
	s.Bias = false
	return s
}

func convString(what string, s device.ConvSpec, from, to int, size [3]int) string {
	return fmt.Sprintf("%s %dx%d->%d %dx%dx%d/%d of %s", what, s.N, from, to, s.Kernel[0], s.Kernel[1], s.Kernel[2],
		s.Stride[0], shapeString(size[:]))
}

func (o conv) operands() []device.Shape {
	if o.Bias {
		return []device.Shape{o.XShape(), o.WShape(), {o.Out}}
	}
	return []device.Shape{o.XShape(), o.WShape()}
}
func (o conv) results() []result                               { return []result{activation(o.YShape(), o.Type)} }
func (o conv) kernel(dev device.Device) (device.Kernel, error) { return dev.Conv(o.ConvSpec) }
func (o conv) flops() float64                                  { return o.FLOPs() }

func (o conv) String() string { return convString("conv", o.ConvSpec, o.In, o.Out, o.Size) }
func (o conv) wrt() []bool    { return all(len(o.operands())) }
func (o conv) gradient(r *rule, in []*G.Node, _, dy *G.Node) []*G.Node {
	s := withoutBias(o.ConvSpec)
	d := []*G.Node{
		r.apply(convTransposed{s}, dy, in[1]),
		r.apply(convGradWeights{s}, in[0], dy),
	}
	if o.Bias {
		d = append(d, r.sumChannels(device.Tensor{Shape: o.YShape(), Type: o.Type}, dy))
	}
	return d
}

func (o convTransposed) operands() []device.Shape {
	if o.Bias {
		return []device.Shape{o.YShape(), o.WShape(), {o.In}}
	}
	return []device.Shape{o.YShape(), o.WShape()}
}
func (o convTransposed) results() []result { return []result{activation(o.XShape(), o.Type)} }
func (o convTransposed) kernel(dev device.Device) (device.Kernel, error) {
	return dev.ConvTransposed(o.ConvSpec)
}
func (o convTransposed) flops() float64 { return o.FLOPs() }
func (o convTransposed) String() string {
	return convString("convTransposed", o.ConvSpec, o.Out, o.In, o.OutSize())
}
func (o convTransposed) wrt() []bool { return all(len(o.operands())) }
func (o convTransposed) gradient(r *rule, in []*G.Node, _, dx *G.Node) []*G.Node {
	s := withoutBias(o.ConvSpec)
	d := []*G.Node{
		r.apply(conv{s}, dx, in[1]),
		r.apply(convGradWeights{s}, dx, in[0]),
	}
	if o.Bias {
		d = append(d, r.sumChannels(device.Tensor{Shape: o.XShape(), Type: o.Type}, dx))
	}
	return d
}

func (o convGradWeights) operands() []device.Shape { return []device.Shape{o.XShape(), o.YShape()} }
func (o convGradWeights) results() []result        { return []result{weights(o.WShape())} }
func (o convGradWeights) kernel(dev device.Device) (device.Kernel, error) {
	return dev.ConvGradWeights(o.ConvSpec)
}
func (o convGradWeights) flops() float64 { return o.FLOPs() }
func (o convGradWeights) String() string {
	return convString("convGradWeights", o.ConvSpec, o.In, o.Out, o.Size)
}
