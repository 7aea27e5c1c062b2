package device

import "fmt"

// What a device may offer beyond [Device]. A caller asks for it by a type assertion, or by the
// functions of this file, and does the work another way where a device lacks it.

// A Recorder can record the kernels that a function starts, and run them again as one piece of
// work, which saves the time of starting each: a CUDA graph.
type Recorder interface {
	Device
	// Record calls start, which must do nothing on the device but run kernels. Nothing is computed.
	Record(start func()) (Recording, error)
}

// A Recording runs what was recorded, with the same operands.
type Recording interface {
	Run() error
	Close()
}

// A Timer can tell how long the device itself takes: for devices that work on their own.
type Timer interface {
	Device
	// Time calls start, waits for the work that it started, and gives the seconds that this took.
	Time(start func()) (seconds float64, err error)
}

// An Accountant has memory of its own. The memory of other devices is the host's.
type Accountant interface {
	Device
	// Memory is how many bytes are free, and how many there are.
	Memory() (free, total int64, err error)
	// Staging is how many bytes uploads of a tensor go through. The device takes them with the
	// first upload and keeps them for all others.
	Staging(t Tensor) int64
}

// A Feeder can copy inputs to the device while the device computes something else.
type Feeder interface {
	Device
	// NewFeed takes memory for tensors on their way.
	NewFeed(t Tensor) (Feed, error)
	// FeedBytes is how many bytes of the device's memory a feed takes.
	FeedBytes(t Tensor) int64
}

// A Feed is the way of one input to the device, a tensor at a time. It has memory of its own for
// two, so that one can be on its way while the one before is still needed. Its methods are called
// from one goroutine at a time.
type Feed interface {
	// Send begins to copy a tensor, row-major as in [Device].Upload, to memory of the feed. It does
	// not wait for the work of the device; when it has returned, the values may be changed. What
	// was sent before and not delivered is dropped.
	Send(values []float32) error
	// Deliver writes what was sent into dst, in the order of the device's work. Each tensor is
	// delivered once.
	Deliver(dst Buffer) error
	// Close waits for what is on its way, and gives the memory back.
	Close()
}

// Peers are devices of several processes that sum between themselves: GPUs through NCCL, without a
// way through the hosts' memory. Each rank asks whether it can ([Peers.MeetPeers]); one makes an
// id, which all others are handed; and all join with it.
type Peers interface {
	Device
	// MeetPeers says who this one is, or why it cannot sum with others.
	MeetPeers() (Peer, error)
	// PeerID makes what a group joins by.
	PeerID() ([]byte, error)
	// JoinPeers makes this one a rank of so many, and leaves the group that it was in. It returns
	// when all have joined.
	JoinPeers(rank, size int, id []byte) error
	// SumPeers replaces the float32 values of buffers by their sums over all, the same bits on
	// every one, in the order of the device's work. All call it with buffers of the same sizes.
	// What fails later comes out at Sync.
	SumPeers(buffers []Buffer) error
}

// A Peer is a device among others.
type Peer struct {
	Library string // that sums, with its version
	GPU     string // tells it from all others
}

// A Balancer is a device that states its arithmetic intensity: the FLOPs that it does while it
// moves one byte. The planner weighs memory against arithmetic that is done again by it.
type Balancer interface {
	Device
	FLOPsPerByte() float64
}

// FLOPsPerByte is the arithmetic intensity of a device. The number for a device that states none
// was measured on a CPU.
func FLOPsPerByte(d Device) float64 {
	if b, ok := d.(Balancer); ok {
		return b.FLOPsPerByte()
	}
	return 75
}

// A HostMemory is a device whose buffers the host can read and write where they lie.
type HostMemory interface {
	Device
	// Host is the elements of a buffer of float32. It is valid until the buffer is freed.
	Host(b Buffer) []float32
}

// A WeightStepper can compute the gradient of weights, its sum of squares, and the step of SGD that
// it is for, in one: the gradient need not be written.
type WeightStepper interface {
	Device
	// ConvGradWeightsSGD is w, velocity (both updated in place), s () <- x, dy, hyper (4). w and
	// velocity are to the bit what ConvGradWeights and SGD make of them.
	ConvGradWeightsSGD(ConvSpec) (Kernel, error)
}

// A Normaliser can take the statistics of a norm from what the convolution before it leaves, so
// that its result is read once less.
type Normaliser interface {
	Device
	// NormConv is the three kernels that do what Conv and Activate do; nil where nothing is gained:
	// where the convolution cannot leave what this norm needs.
	NormConv(ConvSpec, ActivateSpec) (*NormConv, error)
}

// NormConv is a convolution, the statistics of its result, and the activation of that:
//
//	Conv:       y, moments (Moments bytes) <- x, w, [b (Out) if Bias]
//	Statistics: statistics R <- moments, [running mean (C), running variance (C), both updated in place, if BatchNorm]
//	Apply:      z <- y, statistics R, gamma (C), beta (C), [r if Residual], [slope (C) if PReLU]
//
// z may be y, or a full residual r.
type NormConv struct {
	Conv, Statistics, Apply Kernel
	Moments                 int64
}

// A MemoryMeter has memory of its own, and tells how many bytes of it were taken at most.
type MemoryMeter interface {
	MostTaken() int64
}

// A StepDecider decides on the device whether the step of an optimiser is taken, and how its
// gradient is clipped, so that a step of training waits for the device once.
type StepDecider interface {
	Device
	// DecideStep is verdict (3 + Values), hyper <- squares, planned, [loss () if Loss], [values
	// (Values) if not 0]. The norm of the gradient is the root of the sum of squares. The step is
	// taken if the norm and the loss are finite: then hyper is planned, its factors of the gradient
	// times min(1, Clip / (norm + 1e-6)), as PyTorch's clip_grad_norm_ has it; else all of hyper is
	// a step that changes nothing. The verdict is the norm, 1 or 0 for taken or not, the loss, and
	// a copy of the values.
	//
	// squares are Squares elements, each Pitch elements after the one before, and hyper and planned
	// Rates rows of Width elements, each row Pitch elements after the one before.
	DecideStep(DecideSpec) (Kernel, error)
}

// A StepGrouper does for many parameters at once what an optimiser does for each: most are small,
// and starting a kernel for each would take longer than the work.
type StepGrouper interface {
	Device
	// SumSquaresOfAll is s1 (), s2 ()... <- x1 (n1), x2 (n2)...: to the bit what SumSquares makes
	// of each.
	SumSquaresOfAll(n []int) (Kernel, error)
	// SGDOfAll is p1, v1, p2, v2... <- gradient1, hyper1 (4), gradient2, hyper2...: to the bit what
	// SGD makes of each.
	SGDOfAll(n []int) (Kernel, error)
}

// DecideSpec is what [StepDecider].DecideStep has to decide.
type DecideSpec struct {
	Squares, Rates, Width, Pitch int
	// Factor is where in a row the factor of the gradient stands. A step of zeros changes nothing,
	// but that element One, if it is not negative, must be 1.
	Factor, One int
	Clip        float32 // the largest norm; 0: none
	Loss        bool
	Values      int
}

// Check says what is wrong with the sizes, nil if nothing is.
func (s DecideSpec) Check() error {
	if s.Squares < 1 || s.Rates < 1 || s.Width < 1 || s.Pitch < s.Width || s.Factor < 0 || s.Factor >= s.Width ||
		s.One >= s.Width || s.Values < 0 {
		return fmt.Errorf("a step of %d sums of squares, %d rows of %d "+
			"hyperparameters, %d elements apart: a count is too small", s.Squares, s.Rates, s.Width, s.Pitch)
	}
	return nil
}

// A Blender adds the weighted class probabilities of windows to sums that stay on the device, and
// says there what they mean for the voxels of a grid, so that probabilities of windows need not
// visit the host.
type Blender interface {
	Device
	// Blend is sums (Classes, planes, rows, columns) (updated in place) <- probabilities (1,
	// Classes, D, H, W), weights (D+H+W), place (6): the sums take probability times the weights
	// along the three axes. place holds, as float32, where the window starts in the sums along
	// planes, rows and columns (it may be negative), then where the sums end along the same axes.
	Blend(BlendSpec) (Kernel, error)
	// Restore is classes (n), [maps (Classes, n) if Maps] <- sums (Classes, Sums), taps (Lines[0] +
	// Lines[1] + Lines[2], 5), place (2), with n = Planes x Lines[1] x Lines[2]. A tap is where a
	// line of the grid lies along its axis of the sums: two voxels, how much each of them counts,
	// and a factor of the maps. The value of a class is interpolated between eight sums. A map is
	// that value times the three factors; the class is the one with the highest value as float32,
	// the lowest of equals, and -1 where none is above 0 or one is no number. place is the first of
	// the grid's planes that are made and how many are, up to Planes.
	Restore(RestoreSpec) (Kernel, error)
}

// BlendSpec is windows of (Classes, Window) over sums of (Classes, Sums), both (D, H, W).
type BlendSpec struct {
	Classes      int
	Window, Sums [3]int
	Type         Type // of the probabilities
}

// RestoreSpec is a grid of Lines over sums of (Classes, Sums), both (D, H, W), of which some Planes
// are made at a time.
type RestoreSpec struct {
	Classes     int
	Sums, Lines [3]int
	Planes      int
	Maps        bool
}

// Check says what is wrong with the sizes, nil if nothing is.
func (s RestoreSpec) Check() error {
	if s.Classes < 1 || min(s.Sums[0], s.Sums[1], s.Sums[2], s.Lines[0], s.Lines[1], s.Lines[2], s.Planes) < 1 ||
		s.Planes > s.Lines[0] {
		return fmt.Errorf("sums of %v, %d classes, on a grid of %v, %d planes at a time: all must be at least 1",
			s.Sums, s.Classes, s.Lines, s.Planes)
	}
	return nil
}
