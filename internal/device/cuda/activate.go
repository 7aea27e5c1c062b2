//go:build gpu

package cuda

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// activation is activate.cu's Activate.
type activation struct {
	channels
	Norm, Groups, Act, Residual int32
	Leak                        float32
	Trained                     int32
}

// checkActivate says what is wrong with a spec.
func checkActivate(s device.ActivateSpec) error {
	if err := s.Check(); err != nil {
		return err
	}
	if s.Shape[0]*s.Shape.Voxels() > mostVoxels {
		return fmt.Errorf("normalisation or activation of shape %v: more than 2^31 voxels", []int(s.Shape))
	}
	return nil
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
	if err := checkActivate(s); err != nil {
		return nil, err
	}
	k, c, o := d.newKernel(), d.cutOf(s.Shape, s.Type, true), listOperands(s, 1, false)
	if whole, ok := d.wholeImages(s, c); ok {
		k.launch("imageActivate"+whole.suffix, whole.grid, ownerThreads, whole.sums(2),
			finish{activationOf(s, whole.channels), 1, s.Epsilon, s.Momentum}, out(0), out(1), in(0), o.residual,
			o.gamma, o.beta, o.slope)
		return k.done()
	}
	if a := activationOf(s, c.channels); s.Norm != device.NoNorm {
		o.statistics = out(1)
		var parts operand
		if a.Trained != 0 {
			parts = k.scratch(momentsBytes * int64(c.chunks) * int64(c.Images) * int64(c.Channels))
			k.launch("moments"+c.suffix, c.grid, ownerThreads, c.sums(2), c.channels, parts, in(0))
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
	k.launch("activate"+anyOf(s)+c.suffix, c.grid, ownerThreads, 0, activationOf(s, c.channels), out(0), in(0),
		o.residual, o.statistics, o.gamma, o.beta, o.slope)
}

// anyOf is the part of a kernel's name that says whether it knows ELU and group norm.
func anyOf(s device.ActivateSpec) string {
	if s.Act == device.ELU || s.Norm == device.GroupNorm {
		return "Any"
	}
	return ""
}

// gradSums is activate.cu's GradSums, and gradSumsOf how many sums it means.
type gradSums struct {
	activation
	Tiles, Last, Centred int32
}

const gradSumsOf = 4

// ActivateGrad implements [device.Device].
func (d *Device) ActivateGrad(s device.ActivateSpec) (device.Kernel, error) {
	if err := checkActivate(s); err != nil {
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
	parameters := []operand{dbeta, dgamma, dslope, next()}

	const width, threads = 8, 256 // channels of a block that adds up sums
	images, n := int(c.Images), int(c.Channels)
	blocks, shared := blocksOf(n, width), 4*gradSumsOf*threads
	perImage := func() operand { return k.scratch(4 * gradSumsOf * int64(images*n)) }
	sumImages := func(each operand) {
		k.launch("sumImages", grid{blocks, 1, 1}, threads, shared, c.channels, append(parameters, each)...)
	}
	common := []operand{o.residual, o.statistics, o.gamma, o.beta, o.slope}
	if whole, ok := d.wholeImages(s, c); ok && s.Residual != device.TiledResidual {
		a.channels = whole.channels
		each := perImage()
		k.launch("imageGrad"+whole.suffix, whole.grid, ownerThreads, whole.sums(3), a,
			append([]operand{dx, dr, each, in(0), in(1)}, common...)...)
		sumImages(each)
		return k.done()
	}

	sums := 3
	if anyOf(s) != "" {
		sums = gradSumsOf
	}
	parts := k.scratch(4 * gradSumsOf * int64(c.chunks*images*n))
	k.launch("activateSums"+anyOf(s)+c.suffix, c.grid, ownerThreads, c.sums(sums), a,
		append([]operand{parts, in(0), in(1)}, common...)...)
	// what is summed at once: an image where its norm is its own, or everything
	f, outer := gradSums{a, int32(c.chunks * images), 1, flag(s.Type == device.Float32)}, 1
	if s.Norm == device.InstanceNorm || s.Norm == device.GroupNorm {
		f.Tiles, outer = int32(c.chunks), images
		f.Last = flag(images == 1 && s.Norm == device.InstanceNorm)
	}
	var each, coefficients operand
	if s.Norm != device.NoNorm {
		coefficients = k.scratch(4 * 2 * int64(outer*n))
	}
	if f.Last == 0 {
		each = perImage()
	}
	k.launch("normGrad", grid{blocks, outer, 1}, threads, shared, f, append(append([]operand{coefficients, each},
		parameters...), parts, o.statistics, o.gamma)...)
	if s.Norm == device.GroupNorm {
		k.launch("groupGrad", grid{blocksOf(images*n, 128), 1, 1}, 128, 0, f, coefficients, each, o.statistics, o.gamma)
	}
	if f.Last == 0 {
		sumImages(each)
	}
	name := "activateGrad" + anyOf(s)
	if s.Residual == device.TiledResidual && dr.kind != nothing {
		if owners := int(c.Group); anyOf(s) == "" && c.grid[2] == 1 && owners <= 32 && owners&(owners-1) == 0 {
			name = "activateGradTiled"
		} else {
			k.launch("tiledGrad"+c.suffix, grid{blocksOf(images*int(c.Voxels), 256), 1, 1}, 256, 0, a,
				append([]operand{dr, in(0), in(1)}, common...)...)
			dr = operand{}
		}
	}
	k.launch(name+c.suffix, c.grid, ownerThreads, 0, a,
		append([]operand{dx, dr, in(0), in(1), o.residual, coefficients}, common[1:]...)...)
	return k.done()
}

// wholeImages is how a kernel is launched whose blocks have whole images, or some channels of them;
// it says whether these are small enough, and enough of them: each is read twice, and comes from a
// cache then.
func (d *Device) wholeImages(s device.ActivateSpec, c cut) (cut, bool) {
	const most = 1024 // owners' voxels of a block, above which it has fewer channels
	const apart = 4   // owners of 64 bytes
	group := int(c.Group)
	for group%(2*apart) == 0 && group*int(c.Voxels) > most {
		group /= 2
	}
	owners := int(c.Channels) / c.vector
	c.Chunk, c.Group, c.chunks = c.Voxels, int32(group), 1
	c.grid = grid{1, int(c.Images), blocksOf(owners, group)}
	small := group*int(c.Voxels) <= 4*most && c.grid[1]*c.grid[2] >= 2*d.processors
	return c, small && s.Norm == device.InstanceNorm && anyOf(s) == ""
}
