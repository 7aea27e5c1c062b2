package cpu

import "github.com/voxsaw/voxsaw/internal/device"

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

func (k *sumSquares) Scratch() int { return 0 }

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

func (k *sgd) Scratch() int { return 0 }

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
