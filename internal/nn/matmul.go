package nn

import (
	"fmt"

	G "gorgonia.org/gorgonia"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Matrix products and softmax:
//
//	matMul       c (M, N) <- a, b, [bias]   c = op(a) op(b) + bias
//	             d op(a) = dc op(b)^T,  d op(b) = op(a)^T dc,  transposed where op is;  dbias = sumChannels(dc)
//	softmax      y <- x                     dx = softmaxGrad(y, dy)
type (
	matMul      struct{ device.MatMulSpec }
	softmax     struct{ device.Tensor }
	softmaxGrad struct{ device.Tensor }
)

func dims(rows, columns int, transposed bool) device.Shape {
	if transposed {
		return device.Shape{columns, rows}
	}
	return device.Shape{rows, columns}
}

func (o matMul) operands() []device.Shape {
	s := []device.Shape{dims(o.M, o.K, o.TransA), dims(o.K, o.N, o.TransB)}
	if o.Bias {
		s = append(s, device.Shape{o.N})
	}
	return s
}
func (o matMul) results() []result                               { return []result{plain(device.Shape{o.M, o.N})} }
func (o matMul) kernel(dev device.Device) (device.Kernel, error) { return dev.MatMul(o.MatMulSpec) }

func (o matMul) flops() float64 { return 2 * float64(o.M) * float64(o.N) * float64(o.K) }

func (o matMul) String() string { return fmt.Sprintf("matMul %dx%dx%d", o.M, o.N, o.K) }
func (o matMul) wrt() []bool    { return all(len(o.operands())) }
func (o matMul) gradient(r *rule, in []*G.Node, _, dc *G.Node) []*G.Node {
	a, b := in[0], in[1]
	var da, db *G.Node
	if o.TransA {
		da = r.apply(matMul{device.MatMulSpec{M: o.K, N: o.M, K: o.N, TransA: o.TransB, TransB: true}}, b, dc)
	} else {
		da = r.apply(matMul{device.MatMulSpec{M: o.M, N: o.K, K: o.N, TransB: !o.TransB}}, dc, b)
	}
	if o.TransB {
		db = r.apply(matMul{device.MatMulSpec{M: o.N, N: o.K, K: o.M, TransA: true, TransB: o.TransA}}, dc, a)
	} else {
		db = r.apply(matMul{device.MatMulSpec{M: o.K, N: o.N, K: o.M, TransA: !o.TransA}}, a, dc)
	}
	d := []*G.Node{da, db}
	if o.Bias {
		d = append(d, r.sumChannels(device.Tensor{Shape: device.Shape{o.M, o.N}}, dc))
	}
	return d
}

func (o softmax) operands() []device.Shape                        { return []device.Shape{o.Shape} }
func (o softmax) results() []result                               { return []result{activation(o.Shape, o.Type)} }
func (o softmax) kernel(dev device.Device) (device.Kernel, error) { return dev.Softmax(o.Tensor) }
func (o softmax) wrt() []bool                                     { return all(1) }
func (o softmax) gradient(r *rule, _ []*G.Node, out, dy *G.Node) []*G.Node {
	return []*G.Node{r.apply(softmaxGrad(o), out, dy)}
}

func (o softmaxGrad) operands() []device.Shape { return []device.Shape{o.Shape, o.Shape} }
func (o softmaxGrad) results() []result        { return []result{activation(o.Shape, o.Type)} }
func (o softmaxGrad) kernel(dev device.Device) (device.Kernel, error) {
	return dev.SoftmaxGrad(o.Tensor)
}
