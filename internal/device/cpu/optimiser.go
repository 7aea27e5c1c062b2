package cpu

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

// sumSquares and sgd work on flat buffers: all parameters of a model at once.
type sumSquares struct {
	c       *CPU
	lanes   *laneKernels
	cut     chunks
	partial []float64
	x       Slice
}

// SumSquares implements [device.Device].
func (c *CPU) SumSquares(n int) (device.Kernel, error) {
	cut := flatChunks(c, device.Shape{n})
	return &sumSquares{c: c, lanes: lanesOf(c.kernels.name), cut: cut, partial: make([]float64, cut.pieces())}, nil
}

func (k *sumSquares) Scratch() int64 { return 0 }

func (k *sumSquares) Run(out, in []device.Buffer, _ device.Buffer) {
	k.x = in[0].(Slice)
	k.c.pool.run(k.cut.items(), k)
	sum := 0.0
	for _, s := range k.partial {
		sum += s
	}
	out[0].(Slice)[0] = float32(sum)
}

func (k *sumSquares) do(_, item int) {
	for i, end := k.cut.item(item); i < end; i++ {
		_, lo, hi := k.cut.piece(i)
		k.partial[i] = k.lanes.runEnergy(k.x[lo:hi])
	}
}

type sgd struct {
	c       *CPU
	lanes   *laneKernels
	cut     chunks
	hyper   [4]float32
	p, v, g Slice
}

// SGD implements [device.Device].
func (c *CPU) SGD(n int) (device.Kernel, error) {
	return &sgd{c: c, lanes: lanesOf(c.kernels.name), cut: flatChunks(c, device.Shape{n})}, nil
}

func (k *sgd) Scratch() int64 { return 0 }

// noStep are the hyperparameters of a step that changes nothing.
var noStep = [4]float32{0, 1, 0, 0}

func (k *sgd) Run(out, in []device.Buffer, _ device.Buffer) {
	k.p, k.v, k.g = out[0].(Slice), out[1].(Slice), in[0].(Slice)
	if copy(k.hyper[:], in[1].(Slice)); k.hyper != noStep {
		k.c.pool.run(k.cut.items(), k)
	}
}

func (k *sgd) do(_, item int) {
	for i, end := k.cut.item(item); i < end; i++ {
		_, lo, hi := k.cut.piece(i)
		k.lanes.runSGD(k.p[lo:hi], k.v[lo:hi], k.g[lo:hi], &k.hyper)
	}
}

// flatWork is a kernel on flat buffers of float32, whose pieces are all computed alike.
type flatWork struct {
	c   *CPU
	cut chunks
	// piece computes elements lo to hi-1 of the operands.
	piece   func(k *flatWork, lo, hi int)
	out, in [3]Slice
	hyper   [8]float32
}

func (c *CPU) newFlatWork(n int, piece func(k *flatWork, lo, hi int)) *flatWork {
	return &flatWork{c: c, cut: flatChunks(c, device.Shape{n}), piece: piece}
}

func (k *flatWork) Scratch() int64 { return 0 }

func (k *flatWork) Run(out, in []device.Buffer, _ device.Buffer) {
	for i, b := range out {
		k.out[i] = b.(Slice)
	}
	for i, b := range in {
		k.in[i] = b.(Slice)
	}
	k.c.pool.run(k.cut.items(), k)
}

func (k *flatWork) do(_, item int) {
	for i, end := k.cut.item(item); i < end; i++ {
		_, lo, hi := k.cut.piece(i)
		k.piece(k, lo, hi)
	}
}

type adamW struct{ *flatWork }

// AdamW implements [device.Device].
func (c *CPU) AdamW(n int) (device.Kernel, error) {
	return adamW{c.newFlatWork(n, adamWPiece)}, nil
}

func (k adamW) Run(out, in []device.Buffer, scratch device.Buffer) {
	if copy(k.hyper[:], in[1].(Slice)); k.hyper[0] != 0 {
		k.flatWork.Run(out, in, scratch)
	}
}

// adamWPiece is the loop of [device.Optimisers].AdamW.
func adamWPiece(k *flatWork, lo, hi int) {
	p, mean, square, gradient := k.out[0][lo:hi], k.out[1][lo:hi], k.out[2][lo:hi], k.in[0][lo:hi]
	rate, new1, new2, epsilon, decay, factor := k.hyper[0], k.hyper[1], k.hyper[2], k.hyper[3], k.hyper[4], k.hyper[5]
	step := rate / k.hyper[6]
	root := float32(math.Sqrt(float64(k.hyper[7])))
	keep := 1 - rate*decay
	for i, g := range gradient {
		g *= factor
		m := mean[i] + new1*(g-mean[i])
		v := square[i] + new2*(g*g-square[i])
		mean[i], square[i] = m, v
		p[i] = keep*p[i] - step*m/(float32(math.Sqrt(float64(v)))/root+epsilon)
	}
}

// Average implements [device.Device].
func (c *CPU) Average(n int) (device.Kernel, error) {
	return c.newFlatWork(n, func(k *flatWork, lo, hi int) {
		a, x, weight := k.out[0][lo:hi], k.in[0][lo:hi], k.in[1][0]
		for i, v := range x {
			a[i] += weight * (v - a[i])
		}
	}), nil
}

// AddWeights implements [device.Device].
func (c *CPU) AddWeights(n int) (device.Kernel, error) {
	return c.Add(device.Tensor{Shape: device.Shape{n}})
}
