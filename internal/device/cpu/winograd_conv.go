package cpu

import (
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"
)

// winograd is a convolution of stride 1 or 2, or the data gradient of one: a convolution with
// flipped weights, input and output channels exchanged. The weights are
// transformed first, then blocks of tiles are worked on one by one. See winograd.go.
type winograd struct {
	cpu     *CPU
	t       tiling
	in      *operand
	out     *result
	weights *pointWeights
	passing passing
	bias    bool

	// in a worker's scratch, in's own being at 0: out's own, inputs transformed along z and y, and
	// along x too, products, and those transformed back along x
	ownAt, inYAt, inAt, outAt, outYAt int
	biasAt, workAt, work, total       int
	y, x, w, scratch                  Slice
}

// isFlat says whether a convolution has one tap along z, and no padding there: then each plane is
// an image of its own, and transforms along y and x are all.
func isFlat(s device.ConvSpec) bool { return s.Kernel[0] == 1 && s.Pad[0] == 0 }

// winogradGeometry is what a convolution and the adjoint of one have in common.
type winogradGeometry struct {
	in, out layout
	pad     [3]int       // taps before the first input
	weights weightLayout // from in to out
}

func newWinogradGeometry(s device.ConvSpec, transposed bool) winogradGeometry {
	g := winogradGeometry{in: inputsOf(s), out: outputsOf(s), pad: s.Pad, weights: weightsOfGroup(s)}
	if transposed {
		g.in, g.out, g.weights = g.out, g.in, g.weights.swapped()
		for i := range g.pad {
			g.pad[i] = (s.Kernel[i] - 1 - g.pad[i]) / s.Stride[i]
		}
	}
	return g
}

func newWinograd(c *CPU, s device.ConvSpec, transposed bool, tile toomcook.Tile) *winograd {
	k := &winograd{cpu: c, bias: s.Bias}
	f, g := c.kernels.winograd[tile], newWinogradGeometry(s, transposed)
	want := blockTiles(tile, g.in.blocks, g.out.blocks)
	k.t = newTiling(tile, isFlat(s), s.N, g.out.size, want, 2*c.opt.Threads)
	t := &k.t
	t.cutRows(want)
	if !t.flat {
		t.makeStrips(c.opt.Threads)
	}
	k.in = newOperand(t, g.in, f.data, g.in.blocks, t.tile.Inputs(), t.tile.Step(), g.pad)
	k.out = newResult(t, g.out, f.output, g.out.blocks)
	k.passing = passing{lanes: lanesOf(c.kernels.name)}
	k.weights = newPointWeights(t, c.kernels, g.weights, transposed)
	if !t.flat && k.out.zPlane <= k.in.zPlane && (t.strip == 1 || k.out.blocks <= k.in.blocks) {
		// a point in z of the inputs has been used up when that of the outputs takes its place, but
		// for the rows that the next block of a strip needs, which lie behind
		k.out.setPlane(k.in.zPlane)
	} else {
		k.ownAt = k.in.size
	}
	k.inYAt = aligned(max(k.in.size, k.ownAt+k.out.size))
	k.inAt = k.inYAt + t.points*k.in.ysPlane
	k.outAt = k.inAt + t.points*k.in.plane
	k.outYAt = k.outAt + t.points*k.out.plane
	k.work = aligned(max(k.outYAt+t.points*k.out.ysPlane, k.weights.work))
	k.biasAt = k.weights.size
	k.workAt = k.biasAt + g.out.blocks*block
	k.total = k.workAt + k.work*c.opt.Threads
	return k
}

// blockTiles is how many tiles a block should have. With few channels the points of 24 tiles stay
// in a second-level cache; with more it counts that the weights, which each block reads from a more
// distant cache, are read for as many tiles as possible. With a stride of 2 a tile has eight times
// as many inputs, or outputs.
func blockTiles(tile toomcook.Tile, inBlocks, outBlocks int) int {
	if n := inBlocks + outBlocks; n > 5 && tile.Stride() == 1 {
		return min(108, 12*n)
	}
	return 24
}

// Scratch implements [device.Kernel].
func (k *winograd) Scratch() int64 { return bytesOf(k.total) }

// Run implements [device.Kernel].
func (k *winograd) Run(out, in []device.Buffer, scratch device.Buffer) {
	runConvolver(k, out, in, scratch)
}

func (k *winograd) convolve(y, x, w, bias, scratch Slice) {
	k.y, k.x, k.w, k.scratch = y, x, w, scratch
	k.passCaches(y)
	padded := k.scratch[k.biasAt:k.workAt]
	clear(padded)
	if k.bias {
		pad(padded, bias[:k.out.l.channels])
	}
	k.cpu.pool.run(k.weights.pairs(), (*winogradWeights)(k))
	k.cpu.pool.run(k.t.strips(), k)
	k.y, k.x, k.w, k.scratch = nil, nil, nil, nil
}

// winogradWeights transforms the weights.
type winogradWeights winograd

func (k *winogradWeights) do(worker, item int) {
	k.weights.transform(k.scratch, k.w, k.scratch[k.workAt+worker*k.work:], item)
}

var oneTerm = []term{{0, 0}}

// do computes the outputs of one strip of blocks.
func (k *winograd) do(worker, item int) {
	work := k.scratch[k.workAt+worker*k.work:][:k.work]
	first, n, step := k.t.blocksOf(item)
	for i, before := 0, 0; i < n; i++ {
		if i > 0 {
			before = k.in.slide(work)
		}
		k.block(work, k.t.block(first+i*step), before)
	}
}

// block computes the outputs of one block of tiles. It takes one point in y after the other through
// all that is done with it: its points along x, of inputs and of products, stay in a first-level
// cache.
func (k *winograd) block(work []float32, b tileBlock, before int) {
	t, in, out := &k.t, k.in, k.out
	inY, inPoints := work[k.inYAt:k.inAt], work[k.inAt:k.outAt]
	outPoints, outY := work[k.outAt:k.outYAt], work[k.outYAt:]
	own, bias := work[k.ownAt:k.inYAt], k.scratch[k.biasAt:]
	in.transformZ(work, k.x, b, 0, before)
	for z := range t.pz {
		in.transformY(inY, work, z, b)
		for y := range t.points {
			in.transformX(inPoints, inY, y, b)
			k.multiply(outPoints, inPoints, z, y, b)
			out.transformX(outY, outPoints, y, b)
		}
		if !t.flat {
			out.transformY(own, outY, z, b)
		}
	}
	if t.flat {
		out.transformPlanes(k.y, own, outY, bias, b)
		return
	}
	out.transformZ(k.y, own, bias, 0, out.blocks, b)
}

// multiply multiplies the points along x of one point in z and y.
func (k *winograd) multiply(outPoints, inPoints []float32, z, y int, b tileBlock) {
	in, out, w := k.in, k.out, k.weights
	weights := k.scratch[(ofPoint(z, w.pz)*w.points+ofPoint(y, w.points))*w.points*w.plane:]
	for g := 0; 2*g < out.blocks; g++ {
		vectors := w.vectors(2 * g)
		by := product{rows: b.tiles, vectors: vectors, k: w.in, as: in.depth, bs: vectors * block, bv: block,
			cs: out.depth, cv: block}
		w.multiply(&by, inPoints, weights[w.columns(g):], outPoints[2*g*block:], in.plane, w.plane, out.plane, oneTerm)
	}
}
