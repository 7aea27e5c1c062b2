package cpu

// pointWeights is how weights lie in the points of a Winograd tile: [point][group of output channels][input channel][vector][16]. In the same form lie their gradients.
type pointWeights struct {
	tiling    *tiling
	kernels   *kernels
	f         *transforms
	in, out   int // channels
	wIn, wOut int // from one channel to the next in the plain weights
	flip      bool
	taps      int // along an axis
	plane     int // from one point to the next
	size      int // elements of all points
	ys        int // elements of the points in y of one point in z, for a pair of blocks
	stage     int // elements of the taps of a pair of blocks, or of its points in y of one point in z
	work      int // elements of a tile and a stage
}

func newPointWeights(t *tiling, ks *kernels, in, out, wIn, wOut int, flip bool) *pointWeights {
	w := &pointWeights{tiling: t, kernels: ks, f: ks.winograd[t.tile], in: in, out: out, wIn: wIn, wOut: wOut, flip: flip, taps: t.tile.Taps}
	w.plane = oddLines(in * w.outBlocks() * block)
	w.size = w.plane * t.points * t.points * t.points
	w.ys = block * block * t.points * w.taps
	w.stage = max(w.ys, block*block*w.taps*w.taps*w.taps)
	w.work = w.tile() + w.stage
	return w
}

func (w *pointWeights) inBlocks() int  { return (w.in + block - 1) / block }
func (w *pointWeights) outBlocks() int { return (w.out + block - 1) / block }
func (w *pointWeights) items() int     { return w.inBlocks() * w.outBlocks() }

// vectors is the number of output blocks in the group of a block.
func (w *pointWeights) vectors(outBlock int) int { return min(2, w.outBlocks()-outBlock&^1) }

// at is the offset of the first weight of a pair of blocks in a point.
func (w *pointWeights) at(inBlock, outBlock int) int {
	return (outBlock&^1)*block*w.in + inBlock*block*w.vectors(outBlock)*block + outBlock&1*block
}

// group is the offset of a group's weights in a point.
func (w *pointWeights) group(g int) int { return 2 * g * block * w.in }

// tile is the number of elements of a pair of channel blocks with its taps transformed along z: [z point][y tap][x tap][input channel][16].
func (w *pointWeights) tile() int { return w.tiling.points * w.taps * w.taps * block * block }

// inputs is the number of channels of an input block.
func (w *pointWeights) inputs(inBlock int) int { return min(block, w.in-inBlock*block) }

// outputs is the number of channels of an output block.
func (w *pointWeights) outputs(outBlock int) int { return min(block, w.out-outBlock*block) }

// transform makes the points of one pair of channel blocks from the plain weights.
func (w *pointWeights) transform(dst, plain, work []float32, item int) {
	ib, ob := item/w.outBlocks(), item%w.outBlocks()
	points := w.tiling.points
	zs, work := work[:w.tile()], work[w.tile():]
	w.transformZ(zs, plain, work, ib, ob)
	for z := range points {
		w.transformYX(dst[z*points*points*w.plane+w.at(ib, ob):], zs, work, w.plane, w.vectors(ob)*block, z, ib)
	}
}

// transformZ reads the plain weights of a pair of channel blocks and transforms them along z, into a tile.
func (w *pointWeights) transformZ(zs, plain, work []float32, ib, ob int) {
	in, r := w.inputs(ib), w.taps
	tap := in * block // from one tap to the next
	first, step := 0, tap
	if w.flip {
		first, step = (r*r*r-1)*tap, -tap
	}
	for i := range in {
		w.kernels.gatherTaps(work, first+i*block, step, plain[(ib*block+i)*w.wIn+ob*block*w.wOut:], w.wOut, r*r*r, w.outputs(ob))
	}
	w.f.weights(&zs[0], &work[0], r*r*tap, r*r*tap, block, block, r*r*in)
}

// transformYX transforms one point in z of a tile along y and x, into points with the given distances from point to point and from input channel to input channel.
func (w *pointWeights) transformYX(dst, zs, work []float32, plane, step, z, ib int) {
	w.transformY(work, zs, z, ib)
	for y := range w.tiling.points {
		w.transformX(dst[y*w.tiling.points*plane:], work, plane, step, y, ib)
	}
}

// transformY transforms one point in z of a tile along y: [y point][x tap][input channel][16].
func (w *pointWeights) transformY(ys, zs []float32, z, ib int) {
	r, tap := w.taps, w.inputs(ib)*block
	w.f.weights(&ys[0], &zs[z*r*r*tap], r*tap, r*tap, block, block, r*w.inputs(ib))
}

// transformX transforms one point in y of those along x.
func (w *pointWeights) transformX(dst, ys []float32, plane, step, y, ib int) {
	r, tap := w.taps, w.inputs(ib)*block
	w.f.weights(&dst[0], &ys[y*r*tap], plane, tap, step, block, w.inputs(ib))
}

// gradient makes the plain gradients of one pair of channel blocks from those of the points.
func (w *pointWeights) gradient(plain, src, work []float32, item int) {
	ib, ob := item/w.outBlocks(), item%w.outBlocks()
	points := w.tiling.points
	zs, work := work[:w.tile()], work[w.tile():]
	for z := range points {
		w.gradientXY(zs, src[z*points*points*w.plane+w.at(ib, ob):], work, w.plane, w.vectors(ob)*block, z, ib)
	}
	w.gradientZ(plain, zs, work, ib, ob)
}

// gradientXY transforms the points of one point in z back along x and y, into a tile.
func (w *pointWeights) gradientXY(zs, src, work []float32, plane, step, z, ib int) {
	in, r, points := w.inputs(ib), w.taps, w.tiling.points
	tap := in * block
	for y := range points {
		w.f.weightGrad(&work[y*r*tap], &src[y*points*plane], tap, plane, block, step, in)
	}
	w.f.weightGrad(&zs[z*r*r*tap], &work[0], r*tap, r*tap, block, block, r*in)
}

// gradientZ transforms a tile back along z and writes plain gradients.
func (w *pointWeights) gradientZ(plain, zs, work []float32, ib, ob int) {
	in, r := w.inputs(ib), w.taps
	tap := in * block
	w.f.weightGrad(&work[0], &zs[0], r*r*tap, r*r*tap, block, block, r*r*in)
	for i := range in {
		w.kernels.scatterTaps(plain[(ib*block+i)*w.wIn+ob*block*w.wOut:], work[i*block:], w.wOut, tap, r*r*r, w.outputs(ob))
	}
}
