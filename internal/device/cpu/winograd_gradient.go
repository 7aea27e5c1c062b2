package cpu

import (
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"
)

// winogradGradient is the weight gradient of a convolution of stride 1 or 2, in blocks as
// [winograd]: inputs by BT and output gradients by A, for each point channels x tiles times tiles x
// channels, and the sum over all tiles back by GT, once.
//
// The blocks are dealt to slabs, each with sums of its own, which are added up in their order; how
// many there are depends on the number of threads, and with it the rounding. Each block is summed
// from zero before it is added: one running sum over thousands of tiles would cost ten times the
// error.
type winogradGradient struct {
	gradientSink
	cpu     *CPU
	t       tiling
	in, out *operand
	weights *pointWeights
	slabs   int

	// in a worker's scratch, in's own being at 0, then out's: both transformed along z and y, and
	// along x too
	inYAt, outYAt, inAt, outAt int
	workAt, work, total        int

	x, dy, scratch Slice
}

const (
	maxSlabs = 8
	// of all slabs together, where that leaves one a thread: as much as stays in a third-level
	// cache
	slabElements = 4 << 20
	sumTiles     = 36 // of a block: the sums of all points are read and written once a block
)

func newWinogradGradient(c *CPU, s device.ConvSpec, tile toomcook.Tile) *winogradGradient {
	f := c.kernels.winograd[tile]
	k := &winogradGradient{gradientSink: gradientSink{w: weightsOfGroup(s)}, cpu: c}
	in, out := inputsOf(s), outputsOf(s)
	want := max(sumTiles, blockTiles(tile, in.blocks, out.blocks))
	k.t = newTiling(tile, isFlat(s), s.N, out.size, want, 2*c.opt.Threads)
	t := &k.t
	k.in = newOperand(t, in, f.data, in.blocks, t.tile.Inputs(), t.tile.Step(), s.Pad)
	k.out = newOperand(t, out, f.grad, out.blocks, t.m, t.m, [3]int{})
	k.weights = newPointWeights(t, c.kernels, k.w, false)
	k.weights.share(k.in.plane, k.out.plane)
	k.slabs = min(max(min(maxSlabs, slabElements/k.weights.size), c.opt.Threads), t.blocks)
	if k.slabs > c.opt.Threads {
		k.slabs -= k.slabs % c.opt.Threads
	}
	k.inYAt = aligned(k.in.size + k.out.size)
	k.outYAt = k.inYAt + t.points*k.in.ysPlane
	k.inAt = k.outYAt + t.points*k.out.ysPlane
	k.outAt = k.inAt + t.points*k.in.plane
	k.work = aligned(max(k.outAt+t.points*k.out.plane, k.weights.work))
	k.workAt = k.slabs * k.weights.size
	k.total = k.workAt + k.work*c.opt.Threads
	return k
}

// Scratch implements [device.Kernel].
func (k *winogradGradient) Scratch() int64 { return bytesOf(k.total) }

// Run implements [device.Kernel].
func (k *winogradGradient) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.run(k, out, in, scratch)
}

func (k *winogradGradient) convolve(dw, x, dy, _, scratch Slice) {
	k.dw, k.x, k.dy, k.scratch = dw, x, dy, scratch
	k.cpu.pool.run(k.slabs, k)
	k.cpu.pool.run(k.weights.pz*k.weights.points, (*winogradSlabs)(k))
	k.cpu.pool.run(k.weights.pairs(), (*winogradTaps)(k))
	k.dw, k.x, k.dy, k.scratch = nil, nil, nil, nil
}

// do sums the blocks of one slab. Of what a block has in common with the one before along y, the
// transform along z is kept.
func (k *winogradGradient) do(worker, slab int) {
	work := k.scratch[k.workAt+worker*k.work:][:k.work]
	sums := k.scratch[slab*k.weights.size:][:k.weights.size]
	first := slab * k.t.blocks / k.slabs
	for i := first; i < (slab+1)*k.t.blocks/k.slabs; i++ {
		before := 0
		if i > first && i%k.t.perLayer > 0 {
			before = k.in.slide(work)
		}
		k.block(work, sums, k.t.block(i), before, i > first)
	}
}

// block adds one block to the sums, or begins with it, one point in y after the other: its points
// along x stay in a near cache.
func (k *winogradGradient) block(work, sums []float32, b tileBlock, before int, add bool) {
	t, in, out, w := &k.t, k.in, k.out, k.weights
	inWork, outWork, inPoints, outPoints := work[:in.size], work[in.size:k.inYAt], work[k.inAt:k.outAt], work[k.outAt:]
	inY, outY := work[k.inYAt:k.outYAt], work[k.outYAt:k.inAt]
	in.transformZ(inWork, k.x, b, 0, before)
	out.transformZ(outWork, k.dy, b, 0, 0)
	for z := range t.pz {
		in.transformY(inY, inWork, z, b)
		out.transformY(outY, outWork, z, b)
		for y := range t.points {
			in.transformX(inPoints, inY, y, b)
			out.transformX(outPoints, outY, y, b)
			add := add || z >= w.pz || y >= w.points
			for p := range w.points {
				x, dy := inPoints[p*in.plane:], outPoints[p*out.plane:]
				to := sums[((ofPoint(z, w.pz)*w.points+ofPoint(y, w.points))*w.points+p)*w.plane:]
				for g := 0; 2*g < out.blocks; g++ {
					vectors := w.vectors(2 * g)
					by := product{rows: w.in, vectors: vectors, k: b.tiles, as: in.depth, bs: out.depth,
						bv: block, cs: vectors * block, cv: block, add: add}
					k.cpu.kernels.rowsOuter(&by, x, dy[2*g*block:], to[w.columns(g):], w.terms(p))
				}
			}
		}
	}
}

// winogradSlabs adds up the slabs, for the points of one z and y.
type winogradSlabs winogradGradient

func (k *winogradSlabs) do(_, item int) {
	n := k.weights.points * k.weights.plane
	sum := k.scratch[item*n:][:n]
	for slab := 1; slab < k.slabs; slab++ {
		k.cpu.kernels.addVectors(sum, k.scratch[slab*k.weights.size+item*n:])
	}
}

// winogradTaps transforms the sums back to weights.
type winogradTaps winogradGradient

func (k *winogradTaps) do(worker, item int) {
	k.weights.gradient(&k.gradientSink, k.scratch, k.scratch[k.workAt+worker*k.work:], item)
}
