package nn

import (
	G "gorgonia.org/gorgonia"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Operators on features, one row a patch:
//
//	gatherRows    y <- x, index     dx = scatterRows(dy, index)
//	scatterRows   y <- x, index     dx = gatherRows(dy, index)
//	meanOfOthers  y <- x            dx = meanOfOthers(dy): its matrix is symmetric
//	pairSum       y <- a, b         da, db = pairSumGrad(dy)
type (
	gatherRows   struct{ device.RowsSpec }
	scatterRows  struct{ device.RowsSpec }
	meanOfOthers struct{ device.GroupSpec }
	pairSum      struct{ device.GroupSpec }
	pairSumGrad  struct{ device.GroupSpec }
)

func (o gatherRows) operands() []device.Shape { return []device.Shape{{o.In, o.Columns}, {o.Out}} }
func (o gatherRows) results() []result        { return []result{plain(device.Shape{o.Out, o.Columns})} }
func (o gatherRows) kernel(dev device.Device) (device.Kernel, error) {
	return dev.GatherRows(o.RowsSpec)
}
func (o gatherRows) wrt() []bool { return firstOnly(2) }
func (o gatherRows) gradient(r *rule, in []*G.Node, _, dy *G.Node) []*G.Node {
	return []*G.Node{r.apply(scatterRows(o), dy, in[1]), nil}
}

func (o scatterRows) operands() []device.Shape {
	return []device.Shape{{o.Out, o.Columns}, {o.Out}}
}
func (o scatterRows) results() []result { return []result{plain(device.Shape{o.In, o.Columns})} }
func (o scatterRows) kernel(dev device.Device) (device.Kernel, error) {
	return dev.ScatterRows(o.RowsSpec)
}
func (o scatterRows) wrt() []bool { return firstOnly(2) }
func (o scatterRows) gradient(r *rule, in []*G.Node, _, dy *G.Node) []*G.Node {
	return []*G.Node{r.apply(gatherRows(o), dy, in[1]), nil}
}

func (o meanOfOthers) operands() []device.Shape { return []device.Shape{rowsOf(o.GroupSpec)} }
func (o meanOfOthers) results() []result        { return []result{plain(rowsOf(o.GroupSpec))} }
func (o meanOfOthers) kernel(dev device.Device) (device.Kernel, error) {
	return dev.MeanOfOthers(o.GroupSpec)
}
func (o meanOfOthers) wrt() []bool { return all(1) }
func (o meanOfOthers) gradient(r *rule, _ []*G.Node, _, dy *G.Node) []*G.Node {
	return []*G.Node{r.apply(o, dy)}
}

func pairsOf(s device.GroupSpec) device.Shape {
	return device.Shape{s.Groups * s.Rows * s.Rows, s.Columns}
}

func (o pairSum) operands() []device.Shape {
	return []device.Shape{rowsOf(o.GroupSpec), rowsOf(o.GroupSpec)}
}
func (o pairSum) results() []result { return []result{plain(pairsOf(o.GroupSpec))} }
func (o pairSum) kernel(dev device.Device) (device.Kernel, error) {
	return dev.PairSum(o.GroupSpec)
}
func (o pairSum) wrt() []bool { return all(2) }
func (o pairSum) gradient(r *rule, _ []*G.Node, _, dy *G.Node) []*G.Node {
	da := r.apply(pairSumGrad(o), dy)
	return []*G.Node{da, r.pick(da, 1)}
}

func (o pairSumGrad) operands() []device.Shape { return []device.Shape{pairsOf(o.GroupSpec)} }
func (o pairSumGrad) results() []result {
	return []result{plain(rowsOf(o.GroupSpec)), plain(rowsOf(o.GroupSpec))}
}
func (o pairSumGrad) kernel(dev device.Device) (device.Kernel, error) {
	return dev.PairSumGrad(o.GroupSpec)
}
