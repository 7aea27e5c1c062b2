package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// slabSums has the sums that the direct kernels of weight gradients make. The voxels are divided
// into slabs, for parallelism and for accuracy: each slab sums from zero, and the slabs' sums are
// added up in a fixed order.
type slabSums struct {
	gradientSink
	cpu   *CPU
	x, y  layout
	slabs int
	items int  // of a slab, that run at the same time
	work  int  // elements of scratch memory of each worker
	sums  task // sums an item: items of a slab follow one another

	xs, dy, scratch Slice
}

func newSlabSums(c *CPU, s device.ConvSpec) slabSums {
	return slabSums{gradientSink: gradientSink{w: weightsOfGroup(s)}, cpu: c, x: inputsOf(s), y: outputsOf(s), items: 1}
}

// Scratch implements [device.Kernel].
func (k *slabSums) Scratch() int64 {
	return bytesOf(k.whole() + (k.slabs-1)*k.w.elements() + k.cpu.opt.Threads*k.work)
}

// Run implements [device.Kernel].
func (k *slabSums) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.run(k, out, in, scratch)
}

func (k *slabSums) convolve(dw, x, dy, _, scratch Slice) {
	k.dw, k.xs, k.dy, k.scratch = dw, x, dy, scratch
	if !k.keeps() {
		k.dw, k.scratch = k.scratch[:k.whole()], k.scratch[k.whole():]
	}
	k.cpu.pool.run(k.slabs*k.items, k.sums)
	if k.slabs > 1 || !k.keeps() {
		k.cpu.pool.run(k.w.pairs(), (*slabTotals)(k))
	}
	k.dw, k.xs, k.dy, k.scratch = nil, nil, nil, nil
}

// sum is where a slab is summed: the first one in the result, those after it in scratch memory.
func (k *slabSums) sum(slab int) []float32 {
	if slab == 0 {
		return k.dw[:k.w.elements()]
	}
	return k.scratch[(slab-1)*k.w.elements():][:k.w.elements()]
}

// ofWorker is a worker's own scratch memory.
func (k *slabSums) ofWorker(worker int) []float32 {
	return k.scratch[(k.slabs-1)*k.w.elements()+worker*k.work:][:k.work]
}

// part is the share of a slab in a number of things: from begin to end.
func (k *slabSums) part(slab, things int) (begin, end int) {
	return slab * things / k.slabs, (slab + 1) * things / k.slabs
}

// slabTotals adds up the slabs of one pair of channel blocks, and uses it up where it is not to be
// kept.
type slabTotals slabSums

func (k *slabTotals) do(_, item int) {
	ob, ib := item/k.w.inBlocks(), item%k.w.inBlocks()
	sum := k.w.pair(k.dw, ob, ib)
	for slab := 1; slab < k.slabs; slab++ {
		k.cpu.kernels.addVectors(sum, k.w.pair((*slabSums)(k).sum(slab), ob, ib))
	}
	if !k.keeps() {
		k.take(sum, ob, ib)
	}
}
