package cpu

import (
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"
)

// Where there are few tiles and many channels, the transformed weights are far larger than the
// transformed activations: at 256 to 256 channels 128 MiB. Then it is the activations that are
// transformed first, for all tiles and points; the work is cut by output channels, and weights (or
// their gradients) live only as long as they stay in a core's cache.

// allPoints is an activation transformed for all tiles: [channel block][point][tile][16].
type allPoints struct {
	t     tiling
	o     *operand
	at    int // in the scratch memory
	plane int // from one point to the next
}

func newAllPoints(tile toomcook.Tile, flat bool, images int, size [3]int, threads int,
	make func(*tiling) *operand) *allPoints {
	a := &allPoints{t: newTiling(tile, flat, images, size, 12, threads)}
	a.o = make(&a.t)
	a.plane = oddLines(a.t.all().tiles * block)
	a.o.plane = a.plane
	return a
}

func (a *allPoints) points() int { return a.t.pz * a.t.points * a.t.points }
func (a *allPoints) size() int   { return a.o.l.blocks * a.points() * a.plane }
func (a *allPoints) items() int  { return a.o.l.blocks * a.t.blocks }

// offset is where the tiles of a channel block's point lie.
func (a *allPoints) offset(channels, point int) int {
	return a.at + (channels*a.points()+point)*a.plane
}

// transform transforms one block of tiles of one block of channels.
func (a *allPoints) transform(scratch, src, work []float32, item int) {
	channels, b := item/a.t.blocks, a.t.block(item%a.t.blocks)
	a.o.transformZ(work, src, b, channels, 0)
	for z := range a.t.pz {
		a.o.transformYX(scratch[a.offset(channels, z*a.t.points*a.t.points)+a.t.first(b)*block:], work, z, b)
	}
}

// winogradFew is [winograd] for few tiles. What a worker does with the weights of a group of output
// channels:
//
//	transform all of them along z
//	for each point in z, for each chunk of input channels:
//		transform along y
//		for each point in y:
//			transform along x, multiply
//
// Where there are so few tiles that the products of all points stay in L2, each chunk of input
// channels goes through all points in z instead, and its weights stay there too.
type winogradFew struct {
	cpu     *CPU
	t       tiling // one block
	in      *allPoints
	out     *result
	weights *pointWeights
	bias    bool
	width   int  // output channel blocks of an item
	keep    bool // the products of all points
	// input channel blocks whose weights are transformed before they are multiplied
	chunk int
	terms [][]term // of each chunk of whole input blocks
	plane int      // of the weights of a chunk, from one point to the next

	// in a worker's scratch: weights transformed along z, of a chunk along y, and along x; products
	zsAt, ysAt, pointsAt, productsAt int
	biasAt, workAt, work, total      int

	y, x, w, scratch Slice
}

const keepElements = 1 << 17 // of products that are kept

func newWinogradFew(c *CPU, s device.ConvSpec, transposed bool, tile toomcook.Tile) *winogradFew {
	k := &winogradFew{cpu: c, bias: s.Bias, width: 2, chunk: 4}
	f, g := c.kernels.winograd[tile], newWinogradGeometry(s, transposed)
	k.t = newTiling(tile, isFlat(s), s.N, g.out.size, 1<<30, 1)
	t := &k.t
	k.in = newAllPoints(tile, isFlat(s), s.N, g.out.size, c.opt.Threads,
		func(t *tiling) *operand { return newOperand(t, g.in, f.data, 1, t.tile.Inputs(), t.tile.Step(), g.pad) })
	if g.out.blocks < 4*c.opt.Threads {
		k.width = 1
	}
	if products := k.in.points() * t.all().tiles * block; products <= keepElements {
		k.keep, k.chunk = true, 1
		if products*k.width > keepElements {
			k.width = 1
		}
	}
	k.out = newResult(t, g.out, f.output, k.width)
	k.weights = newPointWeights(t, c.kernels, g.weights, transposed)
	k.plane = oddLines(k.chunk * block * k.width * block)
	for b := range k.chunk {
		k.terms = append(k.terms, nil)
		for i := range b + 1 {
			k.terms[b] = append(k.terms[b], term{i * k.in.points() * k.in.plane, i * block * k.width * block})
		}
	}

	k.zsAt = aligned(k.out.size)
	zs, products := g.in.blocks, t.points*t.points
	if k.keep {
		zs, products = k.chunk, k.in.points()
	}
	k.ysAt = k.zsAt + zs*k.width*k.weights.tile()
	k.pointsAt = k.ysAt + max(k.chunk*k.width*k.weights.ys, k.weights.stage)
	k.productsAt = k.pointsAt + k.weights.points*k.plane
	k.work = aligned(max(k.productsAt+products*k.out.plane, k.in.o.size))
	k.in.at = 0
	k.biasAt = k.in.size()
	k.workAt = k.biasAt + g.out.blocks*block
	k.total = k.workAt + k.work*c.opt.Threads
	return k
}

// Scratch implements [device.Kernel].
func (k *winogradFew) Scratch() int64 { return bytesOf(k.total) }

// Run implements [device.Kernel].
func (k *winogradFew) Run(out, in []device.Buffer, scratch device.Buffer) {
	runConvolver(k, out, in, scratch)
}

func (k *winogradFew) convolve(y, x, w, bias, scratch Slice) {
	k.y, k.x, k.w, k.scratch = y, x, w, scratch
	padded := k.scratch[k.biasAt:k.workAt]
	clear(padded)
	if k.bias {
		pad(padded, bias[:k.out.l.channels])
	}
	k.cpu.pool.run(k.in.items(), (*winogradFewInputs)(k))
	k.cpu.pool.run((k.out.l.blocks+k.width-1)/k.width, k)
	k.y, k.x, k.w, k.scratch = nil, nil, nil, nil
}

// winogradFewInputs transforms the inputs.
type winogradFewInputs winogradFew

func (k *winogradFewInputs) do(worker, item int) {
	k.in.transform(k.scratch, k.x, k.scratch[k.workAt+worker*k.work:][:k.work], item)
}

// do computes the outputs of some blocks of output channels.
func (k *winogradFew) do(worker, item int) {
	t, all := &k.t, k.t.all()
	first := item * k.width
	vectors := min(k.width, k.out.l.blocks-first)
	work := k.scratch[k.workAt+worker*k.work:][:k.work]
	zs, ys, products := work[k.zsAt:k.ysAt], work[k.ysAt:k.pointsAt], work[k.productsAt:]
	blocks, tile, points := k.in.o.l.blocks, k.weights.tile(), t.points*t.points
	transformZ := func(at, ib int) {
		for v := range vectors {
			k.weights.transformZ(zs[(at*k.width+v)*tile:], k.w, ys, ib, first+v)
		}
	}
	if k.keep {
		for ib := range blocks {
			transformZ(0, ib)
			for z := range t.pz {
				k.multiply(work, zs, products[z*points*k.out.plane:], z, ib, 1, vectors)
			}
		}
		for z := 0; z < t.pz && !t.flat; z++ {
			k.out.transformXY(work, products[z*points*k.out.plane:], z, vectors, all)
		}
	} else {
		for ib := range blocks {
			transformZ(ib, ib)
		}
		for z := range t.pz {
			for ib := 0; ib < blocks; ib += k.chunk {
				k.multiply(work, zs[ib*k.width*tile:], products, z, ib, min(k.chunk, blocks-ib), vectors)
			}
			if !t.flat {
				k.out.transformXY(work, products, z, vectors, all)
			}
		}
	}
	if t.flat {
		k.out.transformFlat(k.y, work, products, k.scratch[k.biasAt:], first, vectors, all)
		return
	}
	k.out.transformZ(k.y, work, k.scratch[k.biasAt:], first, vectors, all)
}

// multiply transforms the weights of one point in z and a chunk of input channels along y and x,
// and adds their products.
func (k *winogradFew) multiply(work, zs, products []float32, z, ib, chunk, vectors int) {
	t, step, tiles := &k.t, k.width*block, k.t.all().tiles
	ys, points := work[k.ysAt:k.pointsAt], work[k.pointsAt:k.productsAt]
	for i := range chunk {
		for v := range vectors {
			k.weights.transformY(ys[(i*k.width+v)*k.weights.ys:], zs[(i*k.width+v)*k.weights.tile():],
				ofPoint(z, k.weights.pz), ib+i)
		}
	}
	whole := chunk
	if (ib+chunk)*block > k.weights.in {
		whole--
	}
	by := product{rows: tiles, vectors: vectors, as: block, bs: step, bv: block, cs: k.out.depth, cv: block}
	for y := range t.points {
		for i := 0; i < chunk && y < k.weights.points; i++ { // those after them have the last one's
			for v := range vectors {
				k.weights.transformX(points[i*block*step+v*block:], ys[(i*k.width+v)*k.weights.ys:], k.plane, step, y,
					ib+i)
			}
		}
		x, c := k.scratch[k.in.offset(ib, (z*t.points+y)*t.points):], products[y*t.points*k.out.plane:]
		if whole > 0 {
			by.k, by.add = block, ib > 0
			k.weights.multiply(&by, x, points, c, k.in.plane, k.plane, k.out.plane, k.terms[whole-1])
		}
		if whole < chunk {
			x = x[whole*k.in.points()*k.in.plane:]
			by.k, by.add = k.weights.in%block, ib+whole > 0
			k.weights.multiply(&by, x, points[whole*block*step:], c, k.in.plane, k.plane, k.out.plane, oneTerm)
		}
	}
}

// winogradFewGradient is [winogradGradient] for few tiles.
type winogradFewGradient struct {
	gradientSink
	cpu     *CPU
	t       tiling
	in, out *allPoints
	weights *pointWeights
	plane   int // of the sums of a pair of blocks, from one point to the next

	pointsAt, stageAt   int // in a worker's scratch
	workAt, work, total int

	x, dy, scratch Slice
}

func newWinogradFewGradient(c *CPU, s device.ConvSpec, tile toomcook.Tile) *winogradFewGradient {
	k := &winogradFewGradient{gradientSink: gradientSink{w: weightsOfGroup(s)}, cpu: c}
	f, g := c.kernels.winograd[tile], newWinogradGeometry(s, false)
	k.t = newTiling(tile, isFlat(s), s.N, g.out.size, 1<<30, 1)
	t := &k.t
	k.in = newAllPoints(tile, isFlat(s), s.N, g.out.size, c.opt.Threads,
		func(t *tiling) *operand { return newOperand(t, g.in, f.data, 1, t.tile.Inputs(), t.tile.Step(), g.pad) })
	k.out = newAllPoints(tile, isFlat(s), s.N, g.out.size, c.opt.Threads,
		func(t *tiling) *operand { return newOperand(t, g.out, f.grad, 1, t.m, t.m, [3]int{}) })
	k.weights = newPointWeights(t, c.kernels, k.w, false)
	k.weights.share(k.in.plane, k.out.plane)
	k.plane = oddLines(block * 2 * block)
	k.pointsAt = 2 * k.weights.tile()
	k.stageAt = k.pointsAt + k.weights.points*k.weights.points*k.plane
	k.work = aligned(max(k.stageAt+k.weights.stage, k.in.o.size, k.out.o.size))
	k.out.at = k.in.size()
	k.workAt = k.out.at + k.out.size()
	k.total = k.workAt + k.work*c.opt.Threads
	return k
}

// Scratch implements [device.Kernel].
func (k *winogradFewGradient) Scratch() int64 { return bytesOf(k.total) }

// Run implements [device.Kernel].
func (k *winogradFewGradient) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.run(k, out, in, scratch)
}

func (k *winogradFewGradient) convolve(dw, x, dy, _, scratch Slice) {
	k.dw, k.x, k.dy, k.scratch = dw, x, dy, scratch
	k.cpu.pool.run(k.in.items()+k.out.items(), (*winogradFewOperands)(k))
	k.cpu.pool.run(k.in.o.l.blocks*((k.out.o.l.blocks+1)/2), k)
	k.dw, k.x, k.dy, k.scratch = nil, nil, nil, nil
}

// winogradFewOperands transforms the inputs and the gradients of the outputs.
type winogradFewOperands winogradFewGradient

func (k *winogradFewOperands) do(worker, item int) {
	work := k.scratch[k.workAt+worker*k.work:][:k.work]
	if n := k.in.items(); item < n {
		k.in.transform(k.scratch, k.x, work, item)
	} else {
		k.out.transform(k.scratch, k.dy, work, item-n)
	}
}

// do computes the gradients of the weights of one block of input channels and two of output
// channels.
func (k *winogradFewGradient) do(worker, item int) {
	t, tiles := &k.t, k.t.all().tiles
	groups := (k.out.o.l.blocks + 1) / 2
	ib, ob := item/groups, item%groups*2
	vectors := k.weights.vectors(ob)
	work := k.scratch[k.workAt+worker*k.work:][:k.work]
	points, stage := work[k.pointsAt:k.stageAt], work[k.stageAt:]
	by := product{rows: k.weights.inputs(ib), vectors: vectors, k: tiles, as: block, bs: block,
		bv: k.out.points() * k.out.plane, cs: 2 * block, cv: block}
	for z := range t.pz {
		x, dy := k.scratch[k.in.offset(ib, z*t.points*t.points):], k.scratch[k.out.offset(ob, z*t.points*t.points):]
		by.add = z >= k.weights.pz
		k.weights.sum(by, x, dy, points, k.in.plane, k.out.plane, k.plane)
		if z < k.weights.pz-1 || z == t.pz-1 { // the last of those with these weights
			for v := range vectors {
				k.weights.gradientXY(work[v*k.weights.tile():], points[v*block:], stage, k.plane, 2*block,
					ofPoint(z, k.weights.pz), ib)
			}
		}
	}
	for v := range vectors {
		k.weights.gradientZ(&k.gradientSink, work[v*k.weights.tile():], ib, ob+v)
	}
}
