package nn

import (
	"cmp"
	"fmt"
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

// The operators, as a network's author sees them. What each computes, how it is differentiated and
// on which kernel it runs stands in the file of its rule: conv.go, activate.go, elementwise.go,
// matmul.go, loss.go, rows.go, images.go.

// Window is the geometry of a convolution or a pooling: (D, H, W).
type Window struct{ Kernel, Stride, Pad [3]int }

// Cube is a window that is the same along every axis.
func Cube(kernel, stride, pad int) Window {
	return Window{[3]int{kernel, kernel, kernel}, [3]int{stride, stride, stride}, [3]int{pad, pad, pad}}
}

// Conv is a 3D convolution of x (N, C, D, H, W) to out channels, with parameters name.weight (out,
// C, kernel) and, if bias, name.bias (out).
func (g *Graph) Conv(name string, x *Node, out int, w Window, bias bool) *Node {
	return g.Convolve(name, x, out, Convolution{Window: w, Bias: bias})
}

// Convolution is what [Graph.Convolve] does.
type Convolution struct {
	Window
	Groups int // that the channels are divided into; 0 and 1: none
	Bias   bool
	// the first values of the parameters; nil: PyTorch's default
	Init, BiasInit Init
}

// Convolve is Conv with more to choose: the weights are (out, C/groups, kernel).
func (g *Graph) Convolve(name string, x *Node, out int, c Convolution) *Node {
	if !g.rank(name, x, 5) {
		return &Node{g: g}
	}
	s := device.ConvSpec{N: x.shape[0], In: x.shape[1], Out: out, Size: [3]int(x.shape[2:]), Kernel: c.Kernel,
		Stride: c.Stride, Pad: c.Pad, Groups: c.Groups, Bias: c.Bias, Type: x.typ}
	if !s.Grouped() {
		s.Groups = 0
	}
	if err := s.Check(); err != nil {
		return g.Fail("%s: %w", name, err)
	}
	return g.apply(conv{s}, g.affine(name, x, s.WShape(), c.Bias, c.Init, c.BiasInit)...)
}

// affine declares the weights of a layer, and its biases, one for each of the weights' first axis.
func (g *Graph) affine(name string, x *Node, shape device.Shape, bias bool, init, biasInit Init) []*Node {
	if init == nil {
		init = KaimingUniform()
	}
	if biasInit == nil {
		biasInit = Uniform(1 / math.Sqrt(fanIn(shape)))
	}
	in := []*Node{x, g.Param(name+".weight", init, shape...)}
	if bias {
		in = append(in, g.Param(name+".bias", biasInit, shape[0]))
	}
	return in
}

// ConvTranspose is PyTorch's ConvTranspose3d of x (N, C, D, H, W) to out channels, size (size-1)
// stride - 2 pad + kernel, with parameters name.weight (C, out, kernel) and, if bias, name.bias
// (out).
func (g *Graph) ConvTranspose(name string, x *Node, out int, w Window, bias bool) *Node {
	if !g.rank(name, x, 5) {
		return &Node{g: g}
	}
	s := device.ConvSpec{N: x.shape[0], In: out, Out: x.shape[1], Kernel: w.Kernel, Stride: w.Stride, Pad: w.Pad,
		Bias: bias, Type: x.typ}
	for i := range 3 {
		s.Size[i] = (x.shape[2+i]-1)*w.Stride[i] - 2*w.Pad[i] + w.Kernel[i]
	}
	if err := s.Check(); err != nil {
		return g.Fail("%s: %w", name, err)
	}
	in := []*Node{x, g.Param(name+".weight", KaimingUniform(), s.WShape()...)}
	if bias {
		in = append(in, g.Param(name+".bias", Uniform(1/math.Sqrt(fanIn(s.WShape()))), out))
	}
	return g.apply(convTransposed{s}, in...)
}

// Linear maps x (rows, K) to (rows, out): y = x W^T + b, with parameters name.weight (out, K) and,
// if bias, name.bias (out).
func (g *Graph) Linear(name string, x *Node, out int, bias bool) *Node {
	return g.LinearFrom(name, x, out, bias, nil, nil)
}

// LinearFrom is Linear with first values of the weights and the biases; nil: PyTorch's default.
func (g *Graph) LinearFrom(name string, x *Node, out int, bias bool, init, biasInit Init) *Node {
	if !g.rank(name, x, 2) {
		return &Node{g: g}
	}
	k := x.shape[1]
	return g.apply(matMul{device.MatMulSpec{M: x.shape[0], N: out, K: k, TransB: true, Bias: bias}},
		g.affine(name, x, device.Shape{out, k}, bias, init, biasInit)...)
}

// Activation is what [Graph.Activate] does: act(norm(x) + residual).
type Activation struct {
	Norm     device.Norm
	Groups   int     // GroupNorm only
	Epsilon  float32 // 0: 1e-5
	Momentum float32 // BatchNorm only; 0: 0.1
	Act      device.Activation
	// PReLU only: one that is not trained, which makes it a leaky ReLU; 0: trained ones
	Slope    float32
	Residual *Node // nil, of x's shape, or (N, 1, D, H, W) which is added to every channel
	// NormName begins the names of the norm's parameters and states; "": name.norm
	NormName string
}

// Activate normalises, adds and activates in one operator. With a norm it has parameters
// name.norm.weight and name.norm.bias (C), with batch norm states name.norm.running_mean and
// name.norm.running_var (C), with PReLU of trained slopes name.act.weight (C).
func (g *Graph) Activate(name string, x *Node, a Activation) *Node {
	if g.err != nil {
		return &Node{g: g}
	}
	if len(x.shape) < 2 {
		return g.Fail("%s: activating a tensor of shape %v: want (N, C, D, H, W) or (rows, channels)", name, x.shape)
	}
	a.Epsilon = cmp.Or(a.Epsilon, 1e-5)
	a.Momentum = cmp.Or(a.Momentum, 0.1)
	norm := a.NormName
	norm = cmp.Or(norm, name+".norm")
	s := device.ActivateSpec{Shape: x.shape, Norm: a.Norm, Act: a.Act, Type: x.typ}
	c, in := x.shape[1], []*Node{x}
	if a.Norm != device.NoNorm {
		s.Epsilon = a.Epsilon
		in = append(in, g.Param(norm+".weight", Constant(1), c), g.Param(norm+".bias", Constant(0), c))
	}
	switch a.Norm {
	case device.GroupNorm:
		s.Groups = a.Groups
	case device.BatchNorm:
		s.Momentum, s.Training = a.Momentum, g.mode == Train
		in = append(in, g.State(norm+".running_mean", 0, c), g.State(norm+".running_var", 1, c))
	}
	if a.Residual != nil {
		s.Residual = device.FullResidual
		if r := a.Residual.shape; len(r) == 5 && r[1] == 1 && c > 1 {
			s.Residual = device.TiledResidual
		}
		in = append(in, a.Residual)
	}
	switch {
	case a.Act == device.PReLU && a.Slope != 0:
		in = append(in, g.Constant(fmt.Sprintf("slope %v of %d channels", a.Slope, c), a.Slope, c))
	case a.Act == device.PReLU:
		in = append(in, g.Param(name+".act.weight", Constant(0.25), c))
	}
	return g.apply(activate{s}, in...)
}

// ReLU is max(x, 0).
func (g *Graph) ReLU(x *Node) *Node { return g.Activate("", x, Activation{Act: device.ReLU}) }

// Add is a + b, of one shape.
func (g *Graph) Add(a, b *Node) *Node {
	if g.err != nil {
		return &Node{g: g}
	}
	return g.apply(add{a.tensor()}, a, b)
}

// Scale is factor x.
func (g *Graph) Scale(x *Node, factor float32) *Node {
	if g.err != nil {
		return &Node{g: g}
	}
	return g.apply(scale{x.tensor(), factor}, x)
}

// Concat joins activations (N, C_i, D, H, W) along the channels.
func (g *Graph) Concat(xs ...*Node) *Node {
	for _, x := range xs {
		if !g.rank("concat", x, 5) {
			return &Node{g: g}
		}
	}
	if len(xs) == 0 {
		return g.Fail("concat of nothing")
	}
	s := device.ConcatSpec{N: xs[0].shape[0], Size: [3]int(xs[0].shape[2:]), Type: xs[0].typ}
	for _, x := range xs {
		s.Channels = append(s.Channels, x.shape[1])
	}
	return g.apply(concat{s}, xs...)
}

// Dropout3d drops whole channels of x (N, C, D, H, W), or of (rows, channels) single elements, with
// probability rate in training and scales the others by 1/(1-rate). [Program.SetStep] draws the
// mask from the stream "dropout/"+name; until then nothing is dropped.
func (g *Graph) Dropout3d(name string, x *Node, rate float64) *Node {
	if g.err != nil || rate == 0 || g.mode != Train {
		return x
	}
	if rate < 0 || rate >= 1 {
		return g.Fail("%s: dropout rate %v: want 0 or more and less than 1", name, rate)
	}
	if len(x.shape) != 5 && len(x.shape) != 2 {
		return g.Fail("%s: dropout of a tensor of shape %v: want (N, C, D, H, W) or (rows, channels)", name, x.shape)
	}
	m := g.leaf(&leaf{kind: mask, name: name + ".mask", shape: x.shape[:2], rate: rate})
	return g.apply(scaleChannels{x.tensor()}, x, m)
}

// MaxPool takes the maximum in each window of x (N, C, D, H, W).
func (g *Graph) MaxPool(x *Node, w Window) *Node { return g.pool(x, w, false, false) }

// MaxPoolCeil is MaxPool that rounds sizes up: windows may reach past the far edge.
func (g *Graph) MaxPoolCeil(x *Node, w Window) *Node { return g.pool(x, w, false, true) }

// AvgPool takes the mean over each window of x (N, C, D, H, W); padding counts as zeros.
func (g *Graph) AvgPool(x *Node, w Window) *Node { return g.pool(x, w, true, false) }

// GlobalAvgPool takes the mean over each channel of x (N, C, D, H, W): (N, C).
func (g *Graph) GlobalAvgPool(x *Node) *Node {
	if !g.rank("pool", x, 5) {
		return &Node{g: g}
	}
	return g.Flatten(g.AvgPool(x, Window{Kernel: [3]int(x.shape[2:]), Stride: [3]int{1, 1, 1}}))
}

func (g *Graph) pool(x *Node, w Window, average, ceil bool) *Node {
	if !g.rank("pool", x, 5) {
		return &Node{g: g}
	}
	return g.apply(pool{device.PoolSpec{Shape: x.shape, Kernel: w.Kernel, Stride: w.Stride, Pad: w.Pad,
		Average: average, Ceil: ceil, Type: x.typ}}, x)
}

// Flatten is x (N, C, D, H, W) as (N, C*D*H*W).
func (g *Graph) Flatten(x *Node) *Node {
	if !g.rank("flatten", x, 5) {
		return &Node{g: g}
	}
	return g.apply(flatten{x.tensor()}, x)
}

// Reshape gives x another shape with as many elements; neither may have rank 5 (use Flatten). It
// costs nothing.
func (g *Graph) Reshape(x *Node, shape ...int) *Node {
	if g.err != nil {
		return &Node{g: g}
	}
	return g.apply(reshape{x.shape, shape}, x)
}

// Softmax is over axis 1 of (N, C, D, H, W) or (rows, columns).
func (g *Graph) Softmax(x *Node) *Node {
	if g.err != nil {
		return &Node{g: g}
	}
	return g.apply(softmax{x.tensor()}, x)
}

// LossOptions weigh cross-entropy and soft Dice; see [device.LossSpec] for the formulas.
type LossOptions struct {
	CE, Dice   float32
	Smooth     float32 // 0: 1e-5
	Background bool    // class 0 takes part in the Dice
	PerImage   bool    // Dice of each image, then the mean, instead of one over the batch
	// Parts, with PerImage, is how many parts of as many images a batch is divided into: what this
	// graph adds to the mean is its images' share. 0: the batch is whole. See [Program.Reduce].
	Parts int
}

// Loss compares logits (N, C, D, H, W) or (rows, C) with target (N, D, H, W) or (rows): class
// numbers as float32, negative where a voxel does not count. The second result is a vector of
// statistics: cross-entropy, soft Dice loss, voxels that counted, then intersection, sum p, sum t
// for each class of each image.
func (g *Graph) Loss(logits, target *Node, o LossOptions) (loss, statistics *Node) {
	if g.err != nil {
		return &Node{g: g}, &Node{g: g}
	}
	o.Smooth = cmp.Or(o.Smooth, 1e-5)
	if o.PerImage && o.Parts > 1 {
		o.Dice /= float32(o.Parts)
	}
	s := device.LossSpec{Shape: logits.shape, CE: o.CE, Dice: o.Dice, Smooth: o.Smooth, Background: o.Background,
		PerImage: o.PerImage, Type: logits.typ}
	loss = g.apply(lossOf{s, o.Parts}, logits, target)
	return loss, g.pick(loss, 1)
}

// GatherRows is y[i] = x[index[i]] for x (In, Columns) and index (Out), row numbers as float32.
func (g *Graph) GatherRows(x, index *Node) *Node {
	if !g.rank("gather rows", x, 2) || !g.rank("gather rows", index, 1) {
		return &Node{g: g}
	}
	return g.apply(gatherRows{device.RowsSpec{In: x.shape[0], Out: index.shape[0], Columns: x.shape[1]}}, x, index)
}

// MeanOfOthers gives each row of x (groups*rows, columns) the mean of the other rows of its group.
func (g *Graph) MeanOfOthers(x *Node, groups int) *Node {
	s, ok := g.groups("mean of others", x, groups)
	if !ok {
		return &Node{g: g}
	}
	return g.apply(meanOfOthers{s}, x)
}

// PairSum is y[g, i, j] = a[g, i] + b[g, j] for a, b (groups*rows, columns); y is
// (groups*rows*rows, columns).
func (g *Graph) PairSum(a, b *Node, groups int) *Node {
	s, ok := g.groups("pair sum", a, groups)
	if !ok {
		return &Node{g: g}
	}
	return g.apply(pairSum{s}, a, b)
}

// ColumnSumLoss is the mean over groups, weighted by weights (groups), of sum_c |sum_a
// softmax(u[a])[c] - 1| for u (groups*rows, columns): Wei et al. 2019, section 4.1. Groups of
// weight 0 do not count; where none counts, the loss is 0.
func (g *Graph) ColumnSumLoss(u, weights *Node) *Node {
	if !g.rank("column-sum loss", weights, 1) {
		return &Node{g: g}
	}
	s, ok := g.groups("column-sum loss", u, weights.shape[0])
	if !ok {
		return &Node{g: g}
	}
	return g.apply(columnSumLoss{s}, u, weights)
}

func (g *Graph) groups(what string, x *Node, groups int) (device.GroupSpec, bool) {
	if !g.rank(what, x, 2) {
		return device.GroupSpec{}, false
	}
	if groups < 1 || x.shape[0]%groups != 0 {
		g.Fail("%s: %d rows do not make %d equal groups", what, x.shape[0], groups)
		return device.GroupSpec{}, false
	}
	return device.GroupSpec{Groups: groups, Rows: x.shape[0] / groups, Columns: x.shape[1]}, true
}

// rank says whether x is fit for an operator on tensors of that rank, and records the mistake if
// not.
func (g *Graph) rank(what string, x *Node, rank int) bool {
	if g.err == nil && (x == nil || x.g != g) {
		g.Fail("%s: the operand belongs to another graph", what)
	}
	if g.err == nil && len(x.shape) != rank {
		g.Fail("%s: operand of shape %v: want rank %d", what, x.shape, rank)
	}
	return g.err == nil
}
