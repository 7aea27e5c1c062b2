package nn

import (
	G "gorgonia.org/gorgonia"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Classes that were not drawn in an image become one with its background:
//
//	mergeClasses  y <- x, merged    dx = mergeClassesGrad(x, merged, dy)
type (
	mergeClasses     struct{ device.Tensor }
	mergeClassesGrad struct{ device.Tensor }
)

// MergeClasses makes classes of logits (N, C, D, H, W) one with class 0, where merged (N, C) is not
// 0: see [device.MergeClasses]. Losses of the result are marginal ones.
func (g *Graph) MergeClasses(logits, merged *Node) *Node {
	if !g.rank("merge classes", logits, 5) || !g.rank("merge classes", merged, 2) {
		return &Node{g: g}
	}
	return g.apply(mergeClasses{logits.tensor()}, logits, merged)
}

// mergeKernel makes a kernel that not every device has.
func mergeKernel(dev device.Device, make func(device.MergeKernels) (device.Kernel, error)) (device.Kernel, error) {
	k, err := device.MergeKernelsOf(dev)
	if err != nil {
		return nil, err
	}
	return make(k)
}

func (o mergeClasses) operands() []device.Shape {
	return []device.Shape{o.Shape, {o.Shape[0], o.Shape[1]}}
}
func (o mergeClasses) results() []result { return []result{activation(o.Shape, o.Type)} }
func (o mergeClasses) kernel(dev device.Device) (device.Kernel, error) {
	return mergeKernel(dev, func(k device.MergeKernels) (device.Kernel, error) { return k.MergeClasses(o.Tensor) })
}
func (o mergeClasses) wrt() []bool { return firstOnly(2) }
func (o mergeClasses) gradient(r *rule, in []*G.Node, _, dy *G.Node) []*G.Node {
	return []*G.Node{r.apply(mergeClassesGrad(o), in[0], in[1], dy), nil}
}

func (o mergeClassesGrad) operands() []device.Shape {
	return append(mergeClasses(o).operands(), o.Shape)
}
func (o mergeClassesGrad) results() []result { return []result{activation(o.Shape, o.Type)} }
func (o mergeClassesGrad) kernel(dev device.Device) (device.Kernel, error) {
	return mergeKernel(dev, func(k device.MergeKernels) (device.Kernel, error) { return k.MergeClassesGrad(o.Tensor) })
}
