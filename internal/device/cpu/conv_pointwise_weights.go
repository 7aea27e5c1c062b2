package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// pointwiseWeights is the gradient of the weights of a 1x1 convolution of photographs: an outer
// product of inputs and output gradients, summed over the pixels of all images.
//
// An item is a tile of the gradients, some blocks of input channels and some of output channels,
// and a slab of the chunks of pixels. It copies the inputs of a chunk into scratch memory, and the
// output gradients, too, where images are small; then it adds the products of all pairs of blocks
// while both stay in a second-level cache. Slabs are summed from zero each and added up in their
// order.
type pointwiseWeights struct {
	slabSums
	pixelChunks
	from   []int  // where the pixels lie in a block of an input
	ins    int    // blocks of input channels in a tile
	outs   int    // blocks of output channels
	stride int    // from one pixel of the copy of inputs to the next
	stages bool   // output gradients are copied
	terms  []term // of each image of a chunk
}

const (
	tileIns, tileOuts = 8, 16   // blocks
	pointwiseItems    = 16      // at least, where slabs can make as many
	pointwiseSlabs    = 1 << 20 // elements of all slabs
)

func newPointwiseWeights(c *CPU, s device.ConvSpec) *pointwiseWeights {
	k := &pointwiseWeights{slabSums: newSlabSums(c, s)}
	k.sums = k
	k.pixelChunks = chunksOfPixels(s.N, k.y.size, pointwiseRows)
	k.from = pixelsOf(k.x, k.pixelChunks, s.Stride)
	k.ins, k.outs = min(tileIns, k.x.blocks), min(tileOuts, k.y.blocks)
	k.stride = k.ins*block + block
	k.stages = k.images > 1 && k.pixels() < 2*block
	k.items = k.tilesIn() * k.tilesOut()
	k.slabs = max(1, min(pointwiseItems/k.items, pointwiseSlabs/k.w.elements(), k.count()))
	k.work = k.rows() * k.stride
	if k.stages {
		k.terms = oneTerm
		k.work += k.rows() * k.outs * block
	} else {
		for i := range k.images {
			k.terms = append(k.terms, term{i * k.pixels() * k.stride, k.y.plane(i, 0)})
		}
	}
	k.work = aligned(k.work)
	return k
}

func (k *pointwiseWeights) tilesIn() int  { return (k.x.blocks + k.ins - 1) / k.ins }
func (k *pointwiseWeights) tilesOut() int { return (k.y.blocks + k.outs - 1) / k.outs }

// do sums one tile over one slab.
func (k *pointwiseWeights) do(worker, item int) {
	ib, item := item%k.tilesIn()*k.ins, item/k.tilesIn()
	ob, slab := item%k.tilesOut()*k.outs, item/k.tilesOut()
	ins, outs := min(k.ins, k.x.blocks-ib), min(k.outs, k.y.blocks-ob)
	work := k.ofWorker(worker)
	rows, stage := work[:k.rows()*k.stride], work[k.rows()*k.stride:]
	sum := k.sum(slab)
	begin, end := k.part(slab, k.count())
	for chunk := begin; chunk < end; chunk++ {
		k.copyInputs(rows, chunk, ib, ins)
		if k.stages {
			k.copyGradients(stage, chunk, ob, outs)
		}
		k.addTile(sum, rows, stage, chunk, ib, ins, ob, outs, chunk > begin)
	}
}

// copyInputs copies the inputs of a chunk, a row a pixel.
func (k *pointwiseWeights) copyInputs(rows []float32, chunk, ib, ins int) {
	n, endN, first, end := k.chunk(chunk)
	for i := n; i < endN; i++ {
		for b := range ins {
			copyPixels(rows[b*block:], k.stride, k.xs[k.x.plane(i, ib+b):], k.from[first:end])
		}
		rows = rows[(end-first)*k.stride:]
	}
}

// copyGradients copies the output gradients of a chunk, block by block.
func (k *pointwiseWeights) copyGradients(stage []float32, chunk, ob, outs int) {
	n, endN, first, end := k.chunk(chunk)
	for b := range outs {
		to := stage[b*k.rows()*block:]
		for i := n; i < endN; i++ {
			to = to[copy(to, k.dy[k.y.plane(i, ob+b)+first*block:][:(end-first)*block]):]
		}
	}
}

// addTile adds the products of a chunk to the sums of a tile.
func (k *pointwiseWeights) addTile(sum, rows, stage []float32, chunk, ib, ins, ob, outs int, add bool) {
	n, endN, first, end := k.chunk(chunk)
	channels := min(ins*block, k.x.channels-ib*block)
	by := product{rows: channels, k: end - first, as: k.stride, bs: block, cs: block, cv: k.w.group(), add: add}
	terms := k.terms[:min(len(k.terms), endN-n)]
	if k.stages {
		by.k *= endN - n
	}
	for b := ob; b < ob+outs; b += 2 {
		by.vectors = min(2, ob+outs-b)
		dy := stage[min(len(stage), (b-ob)*k.rows()*block):]
		by.bv = k.rows() * block
		if !k.stages {
			dy, by.bv = k.dy[k.y.plane(n, b)+first*block:], k.y.voxels*block
		}
		k.cpu.kernels.rowsOuter(&by, rows, dy, sum[k.w.at(b, ib):], terms)
	}
}
