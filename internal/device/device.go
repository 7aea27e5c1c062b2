// Package device says what a machine must be able to compute so that a network can be trained on
// it.
//
// Start at [Device]: it owns memory and makes kernels. A kernel is an operator made ready for fixed
// shapes (the algorithm chosen, the scratch memory sized), so that it can run a million times
// without allocating. Package device/cpu is the implementation that is always there;
// device/devicetest holds the naive loops that every implementation is checked against.
//
// What only some machines can do better than the program's own way is an optional interface: see
// optional.go.
//
// The package knows no graph, no gradient rule and no network: that a backward kernel is the
// gradient of a forward one is the business of package nn, and of the tests.
package device

import (
	"fmt"
	"slices"
)

// A Buffer is memory on a device.
type Buffer interface {
	Bytes() int64
}

// A Device owns memory and makes kernels. Its methods are called from one goroutine at a time.
//
// A device may work on its own: a kernel's Run, and a method that copies to the device, may return
// before the work is done. The work is done in the order of the calls. [Device.Sync] and every
// method that copies to the host wait for what was started before. An error that the device finds
// after a call has returned comes out there, and at every later Sync: it is not lost.
//
// Tensors have a logical shape, most significant axis first: (N, C, D, H, W) for activations, (out,
// in, kernel) for the weights of convolutions, (rows, columns) for features, (n) or () for the
// rest. How tensors of rank 5 lie in memory is the device's own affair, and depends on nothing but
// their shape and type. Tensors of other ranks lie in row-major order, and their elements are
// float32. A gradient of weights (the operand dw below) and the state of an optimiser lie as the
// weights do. What a layout adds to the elements of the shape is zero in weights and in the state
// of an optimiser, and zero in every dw, so that kernels for a number of elements (SGD, AdamW,
// SumSquares, Average, AddWeights) need not know it.
type Device interface {
	// Name is a word: "cpu".
	Name() string
	// Describe is a line for a person: processor, features in use, threads.
	Describe() string
	// Activations is the type of the activations (rank 5) that the device was opened for.
	Activations() Type
	// Close gives back what the device holds, buffers among it. Nothing of it can be used
	// afterwards.
	Close() error

	// Alloc takes memory, zeroed, whose start is a multiple of Alignment.
	Alloc(bytes int64) (Buffer, error)
	// Free gives a buffer of Alloc back. Views of it must not be used afterwards.
	Free(b Buffer)
	// View is a part of b. The offset, in bytes, is a multiple of Alignment.
	View(b Buffer, offset, bytes int64) Buffer
	// Alignment of buffers and views in bytes: a power of two, 64 at least.
	Alignment() int64
	// Sync waits for what was started, and says what has failed.
	Sync() error

	// Size is how many bytes a tensor takes.
	Size(t Tensor) int64
	// Upload and Download copy a tensor between the host, where it is row-major, and the device.
	Upload(dst Buffer, t Tensor, src []float32) error
	Download(dst []float32, src Buffer, t Tensor) error
	// UploadPlain and DownloadPlain copy float32 elements as they lie, from the given element on.
	UploadPlain(dst Buffer, first int, src []float32) error
	DownloadPlain(dst []float32, src Buffer, first int) error

	// WeightsSize is how many bytes weights of a shape take. Weights, their gradients and the state
	// of an optimiser are float32, of any rank.
	WeightsSize(s Shape) int64
	// UploadWeights and DownloadWeights copy weights between the host, where they are row-major,
	// and the device. They may be moved in pieces: rows (indices of the first axis) from the given
	// one on, as many as the slice has, in multiples of RowBlock except for the last ones. See
	// [Shape.CheckRows].
	UploadWeights(dst Buffer, s Shape, first int, src []float32) error
	DownloadWeights(dst []float32, src Buffer, s Shape, first int) error

	Convolutions
	Elementwise
	Matrices
	Optimisers
	PuzzleKernels
	TokenKernels
	ImageKernels
}

// Operands are listed as out <- in. An operand in [brackets] is there only where its condition
// holds. Tensors of rank 5 are of the type that the spec says, all others float32.

// Convolutions and what follows them.
type Convolutions interface {
	// Conv is y <- x, w, [b (Out) if Bias]: y = w * x + b.
	Conv(ConvSpec) (Kernel, error)
	// ConvTransposed is x <- y, w, [b (In) if Bias], the adjoint of Conv in x: the gradient of its
	// input, and the up-convolution.
	ConvTransposed(ConvSpec) (Kernel, error)
	// ConvGradWeights is dw <- x, dy, the adjoint of Conv in w.
	ConvGradWeights(ConvSpec) (Kernel, error)
	// Activate and ActivateGrad normalise, add and activate: see ActivateSpec.
	Activate(ActivateSpec) (Kernel, error)
	ActivateGrad(ActivateSpec) (Kernel, error)
	// Pool is y <- x.
	Pool(PoolSpec) (Kernel, error)
	// PoolGrad is dx <- x, y, dy.
	PoolGrad(PoolSpec) (Kernel, error)
}

// Elementwise kernels add, scale and move.
type Elementwise interface {
	// Add is y <- a, b. y may be a.
	Add(Tensor) (Kernel, error)
	// Scale is y <- x: y = factor x.
	Scale(t Tensor, factor float32) (Kernel, error)
	// ScaleChannels is y <- x, m (N, C): y[n,c,...] = x[n,c,...] m[n,c]. It is dropout, and its own
	// gradient.
	ScaleChannels(Tensor) (Kernel, error)
	// SumChannels is b (C) <- x (N, C, ...), rank 2 or 5: the gradient of a bias.
	SumChannels(Tensor) (Kernel, error)
	// Concat is y <- x0, x1, ...
	Concat(ConcatSpec) (Kernel, error)
	// Split is x0, x1, ... <- y, the gradient of Concat.
	Split(ConcatSpec) (Kernel, error)
	// Flatten is y (N, C*D*H*W) <- x (N, C, D, H, W).
	Flatten(Tensor) (Kernel, error)
	// Unflatten is x (N, C, D, H, W) <- y (N, C*D*H*W).
	Unflatten(Tensor) (Kernel, error)
	// GatherRows is y (Out, Columns) <- x (In, Columns), index (Out): y[i] = x[index[i]].
	GatherRows(RowsSpec) (Kernel, error)
	// ScatterRows is dx (In, Columns) <- dy (Out, Columns), index (Out): dx[index[i]] += dy[i],
	// from 0.
	ScatterRows(RowsSpec) (Kernel, error)
}

// Matrices are products of matrices, and what is done with rows of scores.
type Matrices interface {
	// MatMul is c (M, N) <- a, b, [bias (N) if Bias].
	MatMul(MatMulSpec) (Kernel, error)
	// Softmax is y <- x over axis 1, rank 2 or 5.
	Softmax(Tensor) (Kernel, error)
	// SoftmaxGrad is dx <- y, dy.
	SoftmaxGrad(Tensor) (Kernel, error)
	// Loss is loss (), stats (LossSpec.Stats()) <- logits, target.
	Loss(LossSpec) (Kernel, error)
	// LossGrad is dlogits, sum (C) <- logits, target, stats, dloss (). The sum is that of dlogits
	// over all axes but the channels.
	LossGrad(LossSpec) (Kernel, error)
}

// Optimisers change flat buffers of n float32 elements: all parameters of a model, or one of them.
type Optimisers interface {
	// SumSquares is s () <- x (n), summed in float64 where the device has it: for gradient
	// clipping.
	SumSquares(n int) (Kernel, error)
	// SGD is parameters, velocity (both updated in place) <- gradient, hyper (4): learning rate,
	// momentum, weight decay, factor of the gradient. The step 0, 1, 0, 0 changes nothing, whatever
	// the gradient.
	//
	//	g = factor gradient + decay p        v = momentum v + g        p = p - rate v
	SGD(n int) (Kernel, error)
	// AdamW is parameters, mean, square (all updated in place) <- gradient, hyper (8): learning
	// rate, 1 - beta1, 1 - beta2, epsilon, weight decay, factor of the gradient, 1 - beta1^t, 1 -
	// beta2^t, of Loshchilov and Hutter 2019 as PyTorch has it. (The betas are given by what is
	// left to 1, of which float32 has more digits.) A learning rate of 0 changes nothing, whatever
	// the gradient.
	//
	//	g = factor gradient                  p = p - rate decay p
	//	m = m + (1 - beta1) (g - m)          v = v + (1 - beta2) (g^2 - v)
	//	p = p - rate m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
	AdamW(n int) (Kernel, error)
	// Average is a (updated in place) <- x, weight (1): a = a + weight (x - a). It is the
	// exponential moving average of weights.
	Average(n int) (Kernel, error)
	// AddWeights is y <- a, b, of n elements. y may be a.
	AddWeights(n int) (Kernel, error)
}

// PuzzleKernels are what only puzzles need.
type PuzzleKernels interface {
	// MeanOfOthers is y <- x (Groups*Rows, Columns): y[a] is the mean of x[b] over all b != a in
	// a's group, 0 in a group of one row. It is its own gradient.
	MeanOfOthers(GroupSpec) (Kernel, error)
	// PairSum is y (Groups*Rows*Rows, Columns) <- a, b: y[g,i,j] = a[g,i] + b[g,j].
	PairSum(GroupSpec) (Kernel, error)
	// PairSumGrad is da, db <- dy.
	PairSumGrad(GroupSpec) (Kernel, error)
	// ColumnSumLoss is loss () <- u (Groups*Rows, Columns), w (Groups): the mean over groups,
	// weighted by w >= 0, of sum_c |sum_a softmax(u[a])[c] - 1| (Wei et al. 2019, section 4.1); 0
	// if all w are 0.
	ColumnSumLoss(GroupSpec) (Kernel, error)
	// ColumnSumLossGrad is du <- u, w, dloss ().
	ColumnSumLossGrad(GroupSpec) (Kernel, error)
}

// RowBlock is how many rows of weights are moved at once: see [Device].
const RowBlock = 16

// Type is how the elements of a tensor are stored.
type Type uint8

// The types. Float32 is the zero value. BFloat16 is the upper half of a float32, rounded to the
// nearest, ties to even.
const (
	Float32 Type = iota
	BFloat16
)

// Bytes is the size of an element.
func (t Type) Bytes() int64 {
	if t == BFloat16 {
		return 2
	}
	return 4
}

// String is the name by which people call the type.
func (t Type) String() string {
	if t == BFloat16 {
		return "bf16"
	}
	return "fp32"
}

// A Tensor is a logical shape and the type of its elements. Only tensors of rank 5 may be of
// another type than Float32.
type Tensor struct {
	Shape Shape
	Type  Type
}

// A Kernel is an operator made ready for fixed shapes.
type Kernel interface {
	// Scratch is how many bytes of scratch memory a run needs. Their content is undefined before
	// and after.
	Scratch() int64
	// Run computes, or starts to. It does not allocate and keeps no operand. Outputs are
	// overwritten, not added to. What fails comes out at [Device.Sync].
	Run(out, in []Buffer, scratch Buffer)
}

// A Joiner is a kernel of Concat or Split. Adjacent says that the parts, one after the other in
// memory, are the whole: then there is nothing to run where they lie so.
type Joiner interface {
	Kernel
	Adjacent() bool
}

// ConvSpec is the geometry of a 3D convolution from x (N, In, Size) to y (N, Out, OutSize()),
// weights w (Out, In, Kernel). A 2D one has a depth of 1. All three convolution kernels take the
// spec of the forward convolution. With groups, the first Out/Groups outputs see the first
// In/Groups inputs alone, and so on, and w is (Out, In/Groups, Kernel). As an up-convolution
// (PyTorch's ConvTranspose3d with weights (in, out, kernel)) the same spec reads: Out is the number
// of channels that come in, In of those that go out, Size the size that goes out.
type ConvSpec struct {
	N, In, Out int
	Size       [3]int // D, H, W of x
	Kernel     [3]int
	Stride     [3]int
	Pad        [3]int // on both sides
	Groups     int    // that the channels are divided into; 0 and 1: none
	Bias       bool
	Type       Type // of x and y
}

// Grouped says whether the channels are divided into groups.
func (s ConvSpec) Grouped() bool { return s.Groups > 1 }

// OfGroup is the convolution of one group alone.
func (s ConvSpec) OfGroup() ConvSpec {
	if s.Grouped() {
		s.In, s.Out = s.In/s.Groups, s.Out/s.Groups
	}
	s.Groups = 0
	return s
}

// OutSize is the spatial size of y: floor((Size + 2 Pad - Kernel) / Stride) + 1 along each axis.
func (s ConvSpec) OutSize() [3]int {
	var o [3]int
	for i := range o {
		o[i] = (s.Size[i]+2*s.Pad[i]-s.Kernel[i])/s.Stride[i] + 1
	}
	return o
}

// Live is the same convolution without the taps that fall on padding for every voxel of y: of 5^3
// taps at 2^3 voxels 27 are left of 125. Sizes of x and y stay; first is where the kernel that is
// left begins in the whole one. Axes where the padding on both sides would differ keep their taps.
func (s ConvSpec) Live() (live ConvSpec, first [3]int) {
	live = s
	for i, o := range s.OutSize() {
		low := max(0, s.Pad[i]-(o-1)*s.Stride[i])
		taps, pad := min(s.Kernel[i], s.Size[i]+s.Pad[i])-low, s.Pad[i]-low
		if (s.Size[i]+2*pad-taps)/s.Stride[i]+1 == o {
			live.Kernel[i], live.Pad[i], first[i] = taps, pad, low
		}
	}
	return live, first
}

// XShape is the shape of x.
func (s ConvSpec) XShape() Shape { return Shape{s.N, s.In, s.Size[0], s.Size[1], s.Size[2]} }

// YShape is the shape of y.
func (s ConvSpec) YShape() Shape {
	o := s.OutSize()
	return Shape{s.N, s.Out, o[0], o[1], o[2]}
}

// WShape is the shape of w.
func (s ConvSpec) WShape() Shape {
	return Shape{s.Out, s.OfGroup().In, s.Kernel[0], s.Kernel[1], s.Kernel[2]}
}

// FLOPs is the arithmetic of one direct convolution, a multiplication and an addition counted as
// two.
func (s ConvSpec) FLOPs() float64 {
	return 2 * float64(s.YShape().Elements()) * float64(s.WShape().Row())
}

// Check says what is wrong with the geometry, nil if nothing is.
func (s ConvSpec) Check() error {
	if s.N < 1 || s.In < 1 || s.Out < 1 {
		return fmt.Errorf("convolution of %d images, %d to %d channels: all must be at least 1", s.N, s.In, s.Out)
	}
	if s.Groups < 0 || s.Grouped() && (s.In%s.Groups != 0 || s.Out%s.Groups != 0) {
		return fmt.Errorf("convolution of %d to %d channels in %d groups: groups must divide both", s.In, s.Out,
			s.Groups)
	}
	for i, o := range s.OutSize() {
		if s.Kernel[i] < 1 || s.Stride[i] < 1 || s.Pad[i] < 0 || s.Pad[i] >= s.Kernel[i] {
			return fmt.Errorf("convolution with kernel %v, stride %v, padding %v: kernel and stride must "+
				"be at least 1, padding from 0 to kernel-1", s.Kernel, s.Stride, s.Pad)
		}
		if s.Size[i] < 1 || o < 1 || s.Size[i]+2*s.Pad[i] < s.Kernel[i] {
			return fmt.Errorf("convolution with kernel %v does not fit size %v with padding %v", s.Kernel, s.Size,
				s.Pad)
		}
	}
	return s.Type.check(5)
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
	Type     Type // of x, y, r and their gradients
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
	Type     Type
}

// PoolSpec is maximum or average pooling of x (N, C, D, H, W) = Shape. An average counts padding as
// zeros within the divisor, as PyTorch's default does; where maxima tie, the first in row-major
// order gets the gradient. With Ceil, windows may reach past the far padding, if they start before
// it: what lies past it counts for nothing, in the divisor too (PyTorch's ceil_mode, and what Caffe
// always does).
type PoolSpec struct {
	Shape               Shape
	Kernel, Stride, Pad [3]int
	Average             bool
	Ceil                bool
	Type                Type
}

// OutShape is the shape of y.
func (s PoolSpec) OutShape() Shape {
	o := Shape{s.Shape[0], s.Shape[1], 0, 0, 0}
	for i := range 3 {
		rest := s.Shape[2+i] + 2*s.Pad[i] - s.Kernel[i]
		o[2+i] = rest/s.Stride[i] + 1
		if s.Ceil && rest%s.Stride[i] != 0 && o[2+i]*s.Stride[i] < s.Shape[2+i]+s.Pad[i] {
			o[2+i]++
		}
	}
	return o
}

// Window is the range of the input that output o sees along an axis (0 to 2, of D, H, W), and how
// many elements it has with the padding: what an average divides by, axis by axis.
func (s PoolSpec) Window(axis, o int) (first, end, size int) {
	n, pad := s.Shape[2+axis], s.Pad[axis]
	first = o*s.Stride[axis] - pad
	end = min(first+s.Kernel[axis], n+pad)
	return max(0, first), min(end, n), end - first
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
// Another target that is no class, such as NaN, makes the loss NaN.
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
	Type       Type // of the logits
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
func (s Shape) Equal(t Shape) bool { return slices.Equal(s, t) }
