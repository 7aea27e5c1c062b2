package nn

import (
	G "gorgonia.org/gorgonia"

	"github.com/voxsaw/voxsaw/internal/device"
)

// The losses; a loss is a scalar:
//
//	lossOf         loss (), statistics <- logits, target   dlogits, its sum over all but the channels = lossGrad(logits, target, statistics, dloss)
//	columnSumLoss  loss () <- u, weights                   du = columnSumLossGrad(u, weights, dloss)
type (
	lossOf struct {
		device.LossSpec
		parts int // see [LossOptions]
	}
	lossGrad          struct{ device.LossSpec }
	columnSumLoss     struct{ device.GroupSpec }
	columnSumLossGrad struct{ device.GroupSpec }
)

// target is the shape of the class numbers: the logits' without the channels.
func (o lossOf) target() device.Shape {
	return append(device.Shape{o.Shape[0]}, o.Shape[2:]...)
}
func (o lossOf) statistics() device.Shape { return device.Shape{o.Stats()} }

func (o lossOf) operands() []device.Shape { return []device.Shape{o.Shape, o.target()} }
func (o lossOf) results() []result {
	return []result{plain(device.Shape{}), plain(o.statistics())}
}
func (o lossOf) kernel(dev device.Device) (device.Kernel, error) { return dev.Loss(o.LossSpec) }
func (o lossOf) String() string                                  { return "loss " + shapeString(o.Shape) }
func (o lossOf) wrt() []bool                                     { return firstOnly(2) }
func (o lossOf) gradient(r *rule, in []*G.Node, out, dloss *G.Node) []*G.Node {
	return []*G.Node{r.apply(lossGrad{o.LossSpec}, in[0], in[1], r.pick(out, 1), dloss), nil}
}

func (o lossGrad) operands() []device.Shape {
	l := lossOf{LossSpec: o.LossSpec}
	return []device.Shape{o.Shape, l.target(), l.statistics(), {}}
}
func (o lossGrad) results() []result {
	return []result{activation(o.Shape, o.Type), plain(device.Shape{o.Shape[1]})}
}
func (o lossGrad) sumsChannels()                                   {}
func (o lossGrad) kernel(dev device.Device) (device.Kernel, error) { return dev.LossGrad(o.LossSpec) }

func rowsOf(s device.GroupSpec) device.Shape { return device.Shape{s.Groups * s.Rows, s.Columns} }

func (o columnSumLoss) operands() []device.Shape {
	return []device.Shape{rowsOf(o.GroupSpec), {o.Groups}}
}
func (o columnSumLoss) results() []result { return []result{plain(device.Shape{})} }
func (o columnSumLoss) kernel(dev device.Device) (device.Kernel, error) {
	return dev.ColumnSumLoss(o.GroupSpec)
}
func (o columnSumLoss) wrt() []bool { return firstOnly(2) }
func (o columnSumLoss) gradient(r *rule, in []*G.Node, _, dloss *G.Node) []*G.Node {
	return []*G.Node{r.apply(columnSumLossGrad(o), in[0], in[1], dloss), nil}
}

func (o columnSumLossGrad) operands() []device.Shape {
	return []device.Shape{rowsOf(o.GroupSpec), {o.Groups}, {}}
}
func (o columnSumLossGrad) results() []result { return []result{plain(rowsOf(o.GroupSpec))} }
func (o columnSumLossGrad) kernel(dev device.Device) (device.Kernel, error) {
	return dev.ColumnSumLossGrad(o.GroupSpec)
}
