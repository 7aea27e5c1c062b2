package cpu

// pointWeights is how weights lie in the points of a Winograd tile: [point][group of output channels][input channel][vector][16]. In the same form lie their gradients.
type pointWeights struct {
	tiling     *tiling
	kernels    *kernels
	f          *transforms
	in, out    int // channels
	wIn, wOut  int // from one channel to the next in the plain weights
	flip       bool
	taps       int // along an axis
	plane      int // from one point to the next
	size, work int // elements of all points; of a worker's scratch
}

func newPointWeights(t *tiling, ks *kernels, in, out, wIn, wOut int, flip bool) *pointWeights {
	w := &pointWeights{tiling: t, kernels: ks, f: ks.winograd[t.tile], in: in, out: out, wIn: wIn, wOut: wOut, flip: flip, taps: t.tile.Taps}
	w.plane = oddLines(in * w.outBlocks() * block)
	w.size = w.plane * t.points * t.points * t.points
	// The three stages: taps; points in z; points in y of one point in z.
	w.work = block * block * (w.taps*w.taps*w.taps + t.points*w.taps*w.taps + t.points*w.taps)
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

// transform makes the points of one pair of channel blocks from the plain weights.
func (w *pointWeights) transform(dst, plain, work []float32, item int) {
	ib, ob := item/w.outBlocks(), item%w.outBlocks()
	in, out := min(block, w.in-ib*block), min(block, w.out-ob*block)
	r, points := w.taps, w.tiling.points
	tap := in * block // from one tap to the next
	taps, zs, ys := w.stages(work, tap)
	first, step := 0, tap
	if w.flip {
		first, step = (r*r*r-1)*tap, -tap
	}
	for i := range in {
		w.kernels.gatherTaps(taps, first+i*block, step, plain[(ib*block+i)*w.wIn+ob*block*w.wOut:], w.wOut, r*r*r, out)
	}
	to := dst[w.at(ib, ob):]
	w.f.weights(&zs[0], &taps[0], r*r*tap, r*r*tap, block, block, r*r*in)
	for z := range points {
		w.f.weights(&ys[0], &zs[z*r*r*tap], r*tap, r*tap, block, block, r*in)
		for y := range points {
			w.f.weights(&to[(z*points+y)*points*w.plane], &ys[y*r*tap], w.plane, tap, w.vectors(ob)*block, block, in)
		}
	}
}

// gradient makes the plain gradients of one pair of channel blocks from those of the points.
func (w *pointWeights) gradient(plain, src, work []float32, item int) {
	ib, ob := item/w.outBlocks(), item%w.outBlocks()
	in, out := min(block, w.in-ib*block), min(block, w.out-ob*block)
	r, points := w.taps, w.tiling.points
	tap := in * block
	taps, zs, ys := w.stages(work, tap)
	from := src[w.at(ib, ob):]
	for z := range points {
		for y := range points {
			w.f.weightGrad(&ys[y*r*tap], &from[(z*points+y)*points*w.plane], tap, w.plane, block, w.vectors(ob)*block, in)
		}
		w.f.weightGrad(&zs[z*r*r*tap], &ys[0], r*tap, r*tap, block, block, r*in)
	}
	w.f.weightGrad(&taps[0], &zs[0], r*r*tap, r*r*tap, block, block, r*r*in)
	for i := range in {
		w.kernels.scatterTaps(plain[(ib*block+i)*w.wIn+ob*block*w.wOut:], taps[i*block:], w.wOut, tap, r*r*r, out)
	}
}

func (w *pointWeights) stages(work []float32, tap int) (taps, zs, ys []float32) {
	taps, work = work[:w.taps*w.taps*w.taps*tap], work[w.taps*w.taps*w.taps*tap:]
	n := w.tiling.points * w.taps * w.taps * tap
	return taps, work[:n], work[n:]
}
