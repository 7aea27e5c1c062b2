package nn

import (
	G "gorgonia.org/gorgonia"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Operators of networks on photographs. A photograph is a volume of depth 1.
//
//	lrn        y <- x                                 dx = lrnGrad(x, dy)
//	roiPool    y <- x, regions                        dx = roiPoolGrad(x, regions, dy)
//	labelLoss  loss (), count () <- logits, target    dlogits = labelLossGrad(logits, target, count, dloss)
//	smoothL1   loss () <- x, target, weight           dx = smoothL1Grad(x, target, weight, dloss)
type (
	lrn           struct{ device.LRNSpec }
	lrnGrad       struct{ device.LRNSpec }
	roiPool       struct{ device.RoISpec }
	roiPoolGrad   struct{ device.RoISpec }
	labelLoss     struct{ rows, labels int }
	labelLossGrad struct{ rows, labels int }
	smoothL1      struct{ device.SmoothL1Spec }
	smoothL1Grad  struct{ device.SmoothL1Spec }
)

// Plane is a window that is the same along the height and the width, and 1 along the depth.
func Plane(kernel, stride, pad int) Window {
	return Window{[3]int{1, kernel, kernel}, [3]int{1, stride, stride}, [3]int{0, pad, pad}}
}

// LRN is local response normalisation across channels of x (N, C, D, H, W): see [device.LRNSpec].
func (g *Graph) LRN(x *Node, size int, alpha, beta, k float32) *Node {
	if !g.rank("local response normalisation", x, 5) {
		return &Node{g: g}
	}
	return g.apply(lrn{device.LRNSpec{Shape: x.shape, Size: size, Alpha: alpha, Beta: beta, K: k, Type: x.typ}}, x)
}

// RoIPool takes the maxima in the bins of regions (n, 5) of maps x (N, C, 1, H, W): the result is
// (n, C, 1, size[0], size[1]). See [device.RoISpec].
func (g *Graph) RoIPool(x, regions *Node, size [2]int, scale float32) *Node {
	if !g.rank("region pooling", x, 5) || !g.rank("region pooling", regions, 2) {
		return &Node{g: g}
	}
	return g.apply(roiPool{device.RoISpec{Shape: x.shape, Regions: regions.shape[0], OutSize: size, Scale: scale,
		Type: x.typ}}, x, regions)
}

// LabelLoss is the mean binary cross-entropy of logits (rows, labels) with targets of the same
// shape: 1 where a label fits, 0 where it does not, negative where that does not count.
func (g *Graph) LabelLoss(logits, target *Node) *Node {
	if !g.rank("label loss", logits, 2) {
		return &Node{g: g}
	}
	return g.apply(labelLoss{logits.shape[0], logits.shape[1]}, logits, target)
}

// SmoothL1 is the sum of weight times the smooth L1 distance of x from target, all (rows, columns),
// divided by the rows: the loss of boxes in Fast R-CNN, where weight is 1 for the four columns of a
// region's class and 0 for all else. See [device.SmoothL1Spec].
func (g *Graph) SmoothL1(x, target, weight *Node, beta float32) *Node {
	if !g.rank("smooth L1 loss", x, 2) {
		return &Node{g: g}
	}
	return g.apply(smoothL1{device.SmoothL1Spec{Rows: x.shape[0], Columns: x.shape[1], Beta: beta}}, x, target, weight)
}

func (o lrn) operands() []device.Shape                        { return []device.Shape{o.Shape} }
func (o lrn) results() []result                               { return []result{activation(o.Shape, o.Type)} }
func (o lrn) kernel(dev device.Device) (device.Kernel, error) { return dev.LRN(o.LRNSpec) }
func (o lrn) wrt() []bool                                     { return all(1) }
func (o lrn) gradient(r *rule, in []*G.Node, _, dy *G.Node) []*G.Node {
	return []*G.Node{r.apply(lrnGrad(o), in[0], dy)}
}

func (o lrnGrad) operands() []device.Shape                        { return []device.Shape{o.Shape, o.Shape} }
func (o lrnGrad) results() []result                               { return []result{activation(o.Shape, o.Type)} }
func (o lrnGrad) kernel(dev device.Device) (device.Kernel, error) { return dev.LRNGrad(o.LRNSpec) }

func (o roiPool) regions() device.Shape                           { return device.Shape{o.Regions, 5} }
func (o roiPool) operands() []device.Shape                        { return []device.Shape{o.Shape, o.regions()} }
func (o roiPool) results() []result                               { return []result{activation(o.OutShape(), o.Type)} }
func (o roiPool) kernel(dev device.Device) (device.Kernel, error) { return dev.RoIPool(o.RoISpec) }
func (o roiPool) wrt() []bool                                     { return firstOnly(2) }
func (o roiPool) gradient(r *rule, in []*G.Node, _, dy *G.Node) []*G.Node {
	return []*G.Node{r.apply(roiPoolGrad(o), in[0], in[1], dy), nil}
}

func (o roiPoolGrad) operands() []device.Shape {
	return []device.Shape{o.Shape, roiPool(o).regions(), o.OutShape()}
}
func (o roiPoolGrad) results() []result { return []result{activation(o.Shape, o.Type)} }
func (o roiPoolGrad) kernel(dev device.Device) (device.Kernel, error) {
	return dev.RoIPoolGrad(o.RoISpec)
}

func (o labelLoss) shape() device.Shape      { return device.Shape{o.rows, o.labels} }
func (o labelLoss) operands() []device.Shape { return []device.Shape{o.shape(), o.shape()} }
func (o labelLoss) results() []result {
	return []result{plain(device.Shape{}), plain(device.Shape{})}
}
func (o labelLoss) kernel(dev device.Device) (device.Kernel, error) {
	return dev.LabelLoss(o.shape())
}
func (o labelLoss) String() string { return "labelLoss " + shapeString(o.shape()) }
func (o labelLoss) wrt() []bool    { return firstOnly(2) }
func (o labelLoss) gradient(r *rule, in []*G.Node, out, dloss *G.Node) []*G.Node {
	return []*G.Node{r.apply(labelLossGrad(o), in[0], in[1], r.pick(out, 1), dloss), nil}
}
func (labelLoss) meanOfRank() {}

func (o labelLossGrad) operands() []device.Shape {
	s := labelLoss(o).shape()
	return []device.Shape{s, s, {}, {}}
}
func (o labelLossGrad) results() []result { return []result{plain(labelLoss(o).shape())} }
func (o labelLossGrad) kernel(dev device.Device) (device.Kernel, error) {
	return dev.LabelLossGrad(labelLoss(o).shape())
}

func (o smoothL1) shape() device.Shape { return device.Shape{o.Rows, o.Columns} }
func (o smoothL1) operands() []device.Shape {
	return []device.Shape{o.shape(), o.shape(), o.shape()}
}
func (o smoothL1) results() []result { return []result{plain(device.Shape{})} }
func (o smoothL1) kernel(dev device.Device) (device.Kernel, error) {
	return dev.SmoothL1(o.SmoothL1Spec)
}
func (o smoothL1) String() string { return "smoothL1 " + shapeString(o.shape()) }
func (o smoothL1) wrt() []bool    { return firstOnly(3) }
func (o smoothL1) gradient(r *rule, in []*G.Node, _, dloss *G.Node) []*G.Node {
	return []*G.Node{r.apply(smoothL1Grad(o), in[0], in[1], in[2], dloss), nil, nil}
}
func (smoothL1) meanOfRank() {}

func (o smoothL1Grad) operands() []device.Shape {
	return append(smoothL1(o).operands(), device.Shape{})
}
func (o smoothL1Grad) results() []result { return []result{plain(smoothL1(o).shape())} }
func (o smoothL1Grad) kernel(dev device.Device) (device.Kernel, error) {
	return dev.SmoothL1Grad(o.SmoothL1Spec)
}

// A meanOfRank is a loss whose sums cannot be added up over ranks: see [Program.Reduce].
type meanOfRank interface{ meanOfRank() }
