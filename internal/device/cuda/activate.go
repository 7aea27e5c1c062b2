//go:build gpu

package cuda

import "github.com/voxsaw/voxsaw/internal/device"

// activation is activate.cu's Activate.
type activation struct {
	channels
	Norm, Groups, Act, Residual int32
	Leak                        float32
	Trained                     int32
}

func activationOf(s device.ActivateSpec, c channels) activation {
	return activation{c, int32(s.Norm), int32(max(1, s.Groups)), int32(s.Act), int32(s.Residual), 0,
		flag(s.Norm != device.BatchNorm || s.Training)}
}

// finish is activate.cu's Finish.
type finish struct {
	activation
	Tiles             int32
	Epsilon, Momentum float32
}

// momentsBytes is the size of gpu.h's Moments.
const momentsBytes = 12

// activateOperands are where the operands of a spec are among a kernel's inputs.
type activateOperands struct{ statistics, gamma, beta, mean, variance, residual, slope operand }

// list numbers the operands of Activate that follow x, or, with statistics, those of ActivateGrad
// that follow dy and x.
func listOperands(s device.ActivateSpec, first int, statistics bool) (o activateOperands) {
	next := func() operand {
		first++
		return in(first - 1)
	}
	if s.Norm != device.NoNorm {
		o.gamma, o.beta = next(), next()
		if statistics {
			o.statistics = next()
		} else if s.Norm == device.BatchNorm {
			o.mean, o.variance = next(), next()
		}
	}
	if s.Residual != device.NoResidual {
		o.residual = next()
	}
	if s.Act == device.PReLU {
		o.slope = next()
	}
	return o
}

// Activate implements [device.Device].
func (d *Device) Activate(s device.ActivateSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k, c, o := d.newKernel(), d.cutOf(s.Shape, s.Type, true), listOperands(s, 1, false)
	if a := activationOf(s, c.channels); s.Norm != device.NoNorm {
		o.statistics = out(1)
		var parts operand
		if a.Trained != 0 {
			parts = k.scratch(momentsBytes * int64(c.chunks) * int64(c.Images) * int64(c.Channels))
			k.launch("moments"+c.suffix, c.grid, ownerThreads, c.shared, c.channels, parts, in(0))
		}
		k.normFinish(s, a, c.chunks, o.statistics, o.mean, o.variance, parts)
	}
	k.activate(s, o)
	return k.done()
}

// normFinish appends the merger of moments of so many tiles of each image into statistics.
func (k *kernel) normFinish(s device.ActivateSpec, a activation, tiles int, statistics, mean, variance,
	moments operand) {
	const most = 16 // moments that a thread merges one after the other
	f, n, each := finish{a, int32(tiles), s.Epsilon, s.Momentum}, s.StatisticsShape()[1], tiles
	if s.Norm == device.GroupNorm {
		each *= int(a.Channels / a.Groups)
	}
	if s.Norm != device.BatchNorm && each <= most {
		k.launch("normFinishFew", grid{blocksOf(n, 128), 1, 1}, 128, 0, f, statistics, moments)
		return
	}
	k.launch("normFinish", grid{n, 1, 1}, 128, 4*3*128, f, statistics, mean, variance, moments)
}

// activate appends y <- x, once the statistics are there.
func (k *kernel) activate(s device.ActivateSpec, o activateOperands) {
	c := k.d.cutOf(s.Shape, s.Type, true)
	k.launch("activate"+c.suffix, c.grid, ownerThreads, 0, activationOf(s, c.channels), out(0), in(0), o.residual,
		o.statistics, o.gamma, o.beta, o.slope)
}

// ActivateGrad implements [device.Device].
func (d *Device) ActivateGrad(s device.ActivateSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k, c := d.newKernel(), d.cutOf(s.Shape, s.Type, true)
	a, o := activationOf(s, c.channels), listOperands(s, 2, true)
	dx, results := out(0), 0
	next := func() operand {
		results++
		return out(results)
	}
	var dgamma, dbeta, dr, dslope operand
	if s.Norm != device.NoNorm {
		dgamma, dbeta = next(), next()
	}
	if s.Residual != device.NoResidual && !s.ResidualGradIsDX() {
		dr = next()
	}
	if s.Act == device.PReLU {
		dslope = next()
	}
	sum := next()

	images, n := int(c.Images), int(c.Channels)
	parts, sums, coefficients := k.scratch(16*int64(c.chunks*images*n)), k.scratch(16*int64(images*n)),
		k.scratch(12*int64(images*n))
	common := []operand{o.residual, o.statistics, o.gamma, o.beta, o.slope}
	k.launch("activateSums"+c.suffix, c.grid, ownerThreads, c.shared, a,
		append([]operand{parts, in(0), in(1)}, common...)...)
	k.sumTiles(images, c.chunks, 4*n, 1, 0, sums, parts)
	for i, to := range []operand{dbeta, dgamma, dslope} {
		if to.kind != nothing {
			k.sumTiles(1, images, n, 4, i, to, sums)
		}
	}
	k.launch("normGrad", grid{blocksOf(images*n, 128), 1, 1}, 128, 0, a, coefficients, sums, dgamma, dbeta,
		o.statistics, o.gamma)
	k.sumTiles(1, images, n, 3, 2, sum, coefficients)
	full := dr
	if s.Residual == device.TiledResidual && dr.kind != nothing {
		full = operand{}
		k.launch("tiledGrad"+c.suffix, grid{blocksOf(images*int(c.Voxels), 256), 1, 1}, 256, 0, a,
			append([]operand{dr, in(0), in(1)}, common...)...)
	}
	k.launch("activateGrad"+c.suffix, c.grid, ownerThreads, 0, a,
		append([]operand{dx, full, in(0), in(1), o.residual, coefficients}, common[1:]...)...)
	return k.done()
}
