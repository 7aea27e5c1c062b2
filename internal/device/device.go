// Package device says what a machine must be able to compute so that a network can be trained on
// it.
//
// Start at [Device]: it owns memory and makes kernels. A kernel is an operator made ready for fixed
// shapes (the algorithm chosen, the scratch memory sized), so that it can run a million times
// without allocating. Package device/cpu is the implementation that is always there;
// device/devicetest holds the naive loops that every implementation is checked against.
//
// The package knows no graph, no gradient rule and no network: that a backward kernel is the
// gradient of a forward one is the business of package nn, and of the tests.
package device

import "fmt"

// A Buffer is memory on a device, counted in float32 elements.
type Buffer interface {
	Len() int
}

// A Device owns memory and makes kernels. Its methods are called from one goroutine at a time.
//
// Tensors have a logical shape, most significant axis first: (N, C, D, H, W) for activations, (out,
// in, kernel) for the weights of convolutions, (rows, columns) for features, (n) or () for the
// rest. How activations and weights of rank 5 lie in memory is the device's own affair, and depends
// on nothing but the shape; all other ranks lie in plain row-major order. A gradient of weights
// (the operand dw below) and an optimiser's velocity lie as the weights do. What a layout adds to
// the elements of the shape is zero in weights and velocity, and zero in every dw, so that kernels
// for a number of elements (SGD, SumSquares, Add) need not know it.
type Device interface {
	Name() string     // "cpu"
	Describe() string // one line for a person: processor, features in use, threads

	// n float32, zeroed, aligned for vectors
	Alloc(n int) (Buffer, error)
	// part of b; offset is a multiple of Alignment
	View(b Buffer, offset, n int) Buffer
	// float32 elements that an activation of this shape takes
	Size(s Shape) int
	Upload(dst Buffer, s Shape, src []float32) error           // row-major src -> device layout
	Download(dst []float32, src Buffer, s Shape) error         // device layout -> row-major dst
	UploadPlain(dst Buffer, offset int, src []float32) error   // elements as they are
	DownloadPlain(dst []float32, src Buffer, offset int) error // elements as they are
	Sync() error                                               // waits for what was started

	// Parameters, their gradients and velocity, of any rank. They may be moved in pieces: rows
	// (indices of the first axis) from the given one on, as many as the slice has, in multiples of
	// Alignment except for the last ones. See [Shape.CheckRows].
	//
	// float32 elements that weights of this shape take
	WeightsSize(s Shape) int
	// row-major src -> device layout
	UploadWeights(dst Buffer, s Shape, first int, src []float32) error
	// device layout -> row-major dst
	DownloadWeights(dst []float32, src Buffer, s Shape, first int) error

	// Operands are listed as out <- in. An operand in [brackets] is there only where its condition
	// holds.

	Conv(ConvSpec) (Kernel, error) // y <- x, w, [b if Bias]             y = w * x + b
	// x <- y, w, [b if Bias, (In)]       the adjoint of Conv in x: its data gradient, and the up-convolution
	ConvTransposed(ConvSpec) (Kernel, error)
	// dw <- x, dy                        the adjoint of Conv in w
	ConvGradWeights(ConvSpec) (Kernel, error)

	Activate(ActivateSpec) (Kernel, error)     // see ActivateSpec
	ActivateGrad(ActivateSpec) (Kernel, error) // see ActivateSpec

	Add(Shape) (Kernel, error)                     // y <- a, b                     y may be a
	Scale(s Shape, factor float32) (Kernel, error) // y <- x                        y = factor x
	// y <- x, m (N, C)              y[n,c,...] = x[n,c,...] m[n,c]: dropout3d and its gradient
	ScaleChannels(Shape) (Kernel, error)
	// b (C) <- x (N, C, ...)        the gradient of a bias; rank 2 or 5
	SumChannels(Shape) (Kernel, error)
	Concat(ConcatSpec) (Kernel, error) // y <- x0, x1, ...
	// x0, x1, ... <- y              the gradient of Concat
	Split(ConcatSpec) (Kernel, error)
	Flatten(Shape) (Kernel, error)     // y (N, C*D*H*W) <- x (N, C, D, H, W)
	Unflatten(Shape) (Kernel, error)   // x (N, C, D, H, W) <- y (N, C*D*H*W)
	Pool(PoolSpec) (Kernel, error)     // y <- x
	PoolGrad(PoolSpec) (Kernel, error) // dx <- x, y, dy

	MatMul(MatMulSpec) (Kernel, error) // c (M, N) <- a, b, [bias (N) if Bias]
	// y <- x                            over axis 1; rank 2 or 5
	Softmax(Shape) (Kernel, error)
	SoftmaxGrad(Shape) (Kernel, error) // dx <- y, dy
	// loss (), stats (LossSpec.Stats()) <- logits, target
	Loss(LossSpec) (Kernel, error)
	// dlogits, sum (C) <- logits, target, stats, dloss ()      sum: of dlogits over all but the channels
	LossGrad(LossSpec) (Kernel, error)
	// y (Out, Columns) <- x (In, Columns), index (Out)     y[i] = x[index[i]]
	GatherRows(RowsSpec) (Kernel, error)
	// dx (In, Columns) <- dy (Out, Columns), index (Out)   dx[index[i]] += dy[i], from zero
	ScatterRows(RowsSpec) (Kernel, error)
	// y <- x (Groups*Rows, Columns)     y[a] = mean of x[b], b != a in a's group; its own gradient
	MeanOfOthers(GroupSpec) (Kernel, error)
	// y (Groups*Rows*Rows, Columns) <- a, b                y[g,i,j] = a[g,i] + b[g,j]
	PairSum(GroupSpec) (Kernel, error)
	PairSumGrad(GroupSpec) (Kernel, error) // da, db <- dy
	// loss () <- u (Groups*Rows, Columns), w (Groups)      mean over groups, weighted by w >= 0, of sum_c |sum_a softmax(u[a])[c] - 1| (Wei et al. 2019, section 4.1); 0 if all w are 0
	ColumnSumLoss(GroupSpec) (Kernel, error)
	ColumnSumLossGrad(GroupSpec) (Kernel, error) // du <- u, w, dloss ()

	// s () <- x (n)                             for gradient clipping; summed in float64
	SumSquares(n int) (Kernel, error)
	// parameters, velocity (both updated in place) <- gradient, hyper (4) = learning rate,
	// momentum, weight decay, gradient factor; 0, 1, 0, 0 change nothing, whatever the gradient
	SGD(n int) (Kernel, error)

	// The gradient of weights, its sum of squares, and the step of SGD that it is for, in one: the
	// gradient need not be written. w and velocity are to the bit what ConvGradWeights and SGD make
	// of them.
	//
	// w, velocity (both updated in place), s () <- x, dy, hyper (4)
	ConvGradWeightsSGD(ConvSpec) (Kernel, error)
}

// Alignment of buffers and views, in float32 elements: one cache line, one AVX-512 register.
const Alignment = 16

// A Kernel is an operator made ready for fixed shapes.
type Kernel interface {
	// Scratch is how many float32 elements of scratch memory a run needs. Their content is
	// undefined before and after.
	Scratch() int
	// Run computes. It does not allocate and keeps no operand. Outputs are overwritten, not added
	// to.
	Run(out, in []Buffer, scratch Buffer)
}

// A Joiner is a kernel of Concat or Split. Adjacent says that the parts, one after the other in
// memory, are the whole: then there is nothing to run where they lie so.
type Joiner interface {
	Kernel
	Adjacent() bool
}

// ConvSpec is the geometry of a 3D convolution from x (N, In, Size) to y (N, Out, OutSize()),
// weights w (Out, In, Kernel). All three convolution kernels take the spec of the forward
// convolution. As an up-convolution (PyTorch's ConvTranspose3d with weights (in, out, kernel)) the
// same spec reads: Out is the number of channels that come in, In of those that go out, Size the
// size that goes out.
type ConvSpec struct {
	N, In, Out int
	Size       [3]int // D, H, W of x
	Kernel     [3]int
	Stride     [3]int
	Pad        [3]int // on both sides
	Bias       bool
}

// OutSize is the spatial size of y: floor((Size + 2 Pad - Kernel) / Stride) + 1 along each axis.
func (s ConvSpec) OutSize() [3]int {
	var o [3]int
	for i := range o {
		o[i] = (s.Size[i]+2*s.Pad[i]-s.Kernel[i])/s.Stride[i] + 1
	}
	return o
}

// XShape is the shape of x.
func (s ConvSpec) XShape() Shape { return Shape{s.N, s.In, s.Size[0], s.Size[1], s.Size[2]} }

// YShape is the shape of y.
func (s ConvSpec) YShape() Shape {
	o := s.OutSize()
	return Shape{s.N, s.Out, o[0], o[1], o[2]}
}

// WShape is the shape of w.
func (s ConvSpec) WShape() Shape { return Shape{s.Out, s.In, s.Kernel[0], s.Kernel[1], s.Kernel[2]} }

// FLOPs is the arithmetic of one direct convolution, a multiplication and an addition counted as
// two.
func (s ConvSpec) FLOPs() float64 {
	return 2 * float64(s.YShape().Elements()) * float64(s.In*s.Kernel[0]*s.Kernel[1]*s.Kernel[2])
}

// Check says what is wrong with the geometry, nil if nothing is.
func (s ConvSpec) Check() error {
	if s.N < 1 || s.In < 1 || s.Out < 1 {
		return fmt.Errorf("convolution of %d images, %d to %d channels: all must be at least 1", s.N, s.In, s.Out)
	}
	for i, o := range s.OutSize() {
		if s.Kernel[i] < 1 || s.Stride[i] < 1 || s.Pad[i] < 0 || s.Pad[i] >= s.Kernel[i] {
			return fmt.Errorf("convolution with kernel %v, stride %v, padding %v: kernel and stride must be at least 1, padding from 0 to kernel-1", s.Kernel, s.Stride, s.Pad)
		}
		if s.Size[i] < 1 || o < 1 || s.Size[i]+2*s.Pad[i] < s.Kernel[i] {
			return fmt.Errorf("convolution with kernel %v does not fit size %v with padding %v", s.Kernel, s.Size, s.Pad)
		}
	}
	return nil
}

// Norm is a kind of normalisation.
type Norm uint8

// The normalisations. Statistics are taken over one channel of one image (instance), of the whole
// batch (batch), or over a group of channels of one image (group).
const (
	NoNorm Norm = iota
	InstanceNorm
	BatchNorm
	GroupNorm
)

// Activation is a kind of activation function.
type Activation uint8

// The activations. PReLU has one slope a channel; ELU has alpha 1. NaN stays NaN, and ReLU makes
// NaN of -Inf, too: what has overflowed must not look well again.
const (
	Identity Activation = iota
	ReLU
	PReLU
	ELU
)

// Residual says what is added before the activation.
type Residual uint8

// A full residual has the shape of x; a tiled one has one channel, which is added to every channel
// of x.
const (
	NoResidual Residual = iota
	FullResidual
	TiledResidual
)

// ActivateSpec is what follows a convolution in one or two passes over memory: normalise, add,
// activate.
//
//	z = gamma (x - mean) / sqrt(variance + Epsilon) + beta + r        y = act(z)
//
// Operands (out <- in; R = (2, N*C) for instance norm, (2, C) for batch norm, (2, N*Groups) for
// group norm: the means, then 1/sqrt(variance+Epsilon)):
//
//	Activate:     y, [statistics R if Norm]  <-  x, [gamma (C), beta (C) if Norm], [running mean (C), running variance (C) if BatchNorm],
//	                                             [r if Residual], [slope (C) if PReLU]
//	ActivateGrad: dx, [dgamma, dbeta if Norm], [dr if Residual, unless ResidualGradIsDX], [dslope (C) if PReLU], sum (C)
//	                                         <-  dy, x, [gamma, beta, statistics R if Norm], [r if Residual], [slope if PReLU]
//
// With BatchNorm, the forward kernel in training normalises by the batch's statistics and updates
// the two running operands in place: running = (1 - Momentum) running + Momentum batch, the
// variance unbiased, as PyTorch does. Outside training it normalises by the running ones and writes
// them as statistics, and the gradient then treats them as constants. Variances are biased where
// they normalise. Shape has rank 5, or rank 2 (rows, channels) with NoNorm. y may be x, or a full
// residual r. dx may be dy, and, where Norm is NoNorm, x. With a norm and a full residual, dx may
// be x or dy and dr may be r or dy, but not both dy.
type ActivateSpec struct {
	Shape    Shape
	Norm     Norm
	Groups   int // GroupNorm only; divides the number of channels
	Epsilon  float32
	Momentum float32 // BatchNorm only
	Training bool    // BatchNorm only
	Act      Activation
	Residual Residual
}

// ResidualGradIsDX says that the residual's gradient equals dx, so that it is not written a second
// time: without norm, x and a full residual are summands of the same sum.
func (s ActivateSpec) ResidualGradIsDX() bool {
	return s.Norm == NoNorm && (s.Residual == FullResidual || s.Residual == TiledResidual && s.Shape[1] == 1)
}

// StatisticsShape is the shape of the statistics operand, nil without norm.
func (s ActivateSpec) StatisticsShape() Shape {
	switch s.Norm {
	case InstanceNorm:
		return Shape{2, s.Shape[0] * s.Shape[1]}
	case BatchNorm:
		return Shape{2, s.Shape[1]}
	case GroupNorm:
		return Shape{2, s.Shape[0] * s.Groups}
	}
	return nil
}

// ConcatSpec joins activations (N, Channels[i], Size) along the channels.
type ConcatSpec struct {
	N        int
	Channels []int
	Size     [3]int
}

// PoolSpec is maximum or average pooling of x (N, C, D, H, W) = Shape. An average counts padding as
// zeros within the divisor, as PyTorch's default does; where maxima tie, the first in row-major
// order gets the gradient.
type PoolSpec struct {
	Shape               Shape
	Kernel, Stride, Pad [3]int
	Average             bool
}

// OutShape is the shape of y.
func (s PoolSpec) OutShape() Shape {
	o := Shape{s.Shape[0], s.Shape[1], 0, 0, 0}
	for i := range 3 {
		o[2+i] = (s.Shape[2+i]+2*s.Pad[i]-s.Kernel[i])/s.Stride[i] + 1
	}
	return o
}

// MatMulSpec is c (M, N) = op(a) op(b) + bias with a (M, K), or (K, M) if TransA; b (K, N), or (N,
// K) if TransB.
type MatMulSpec struct {
	M, N, K        int
	TransA, TransB bool
	Bias           bool
}

// LossSpec is CE x cross-entropy + Dice x soft Dice loss over logits (N, C, D, H, W) or (N, C) with
// target (N, D, H, W) or (N): class numbers as float32, negative where a voxel does not count.
//
// Cross-entropy is the mean over voxels that count. Soft Dice is 1 - mean over classes of (2 sum p
// t + Smooth) / (sum p + sum t + Smooth), p the softmax, t the one-hot target, sums over the voxels
// that count of the whole batch, or of each image (then averaged) if PerImage; class 0 only takes
// part if Background.
type LossSpec struct {
	Shape      Shape
	CE, Dice   float32
	Smooth     float32
	Background bool
	PerImage   bool
}

// Stats is the number of float32 that the forward kernel leaves for the backward one: the
// cross-entropy, the soft Dice loss, the count of voxels, then (intersection, sum p, sum t) for
// each class of each image. The first two are unweighted, so that they can be logged.
func (s LossSpec) Stats() int { return 3 + 3*s.Shape[0]*s.Shape[1] }

// RowsSpec moves rows of a matrix; the index operand holds row numbers as float32.
type RowsSpec struct{ In, Out, Columns int }

// GroupSpec is a matrix of Groups x Rows rows: the patches of the puzzles of a batch.
type GroupSpec struct{ Groups, Rows, Columns int }

// A Shape is a logical shape, most significant axis first.
type Shape []int

// Elements is the product of the axes; 1 for a scalar.
func (s Shape) Elements() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// Equal says whether two shapes are the same.
func (s Shape) Equal(t Shape) bool {
	if len(s) != len(t) {
		return false
	}
	for i := range s {
		if s[i] != t[i] {
			return false
		}
	}
	return true
}
