package cpu

// pointWeights is how weights lie in the points of a Winograd tile: [point][group of output
// channels][input channel][vector][16]. In the same form lie their gradients.
type pointWeights struct {
	weightLayout // of the weights that are transformed, or of the gradients that come out
	tiling       *tiling
	kernels      *kernels
	f            *transforms
	exchanged    bool // the operand is the weights from out to in: they are turned round
	side         int  // taps along y and x
	points       int  // along y and x, which have weights of their own
	pz           int  // along z
	plane        int  // from one point to the next
	size         int  // elements of all points
	ys           int  // elements of the points in y of one point in z, for a pair of blocks
	stage        int  // elements of those, or of the taps of a pair that is turned round
	work         int  // elements of a tile and a stage
	// of a gradient: the points that have the last weights, see share
	sharing []term
}

func newPointWeights(t *tiling, ks *kernels, l weightLayout, exchanged bool) *pointWeights {
	w := &pointWeights{weightLayout: l, tiling: t, kernels: ks, f: ks.winograd[t.tile], exchanged: exchanged,
		side: t.tile.Taps, points: t.tile.Weights(), pz: min(t.pz, t.tile.Weights())}
	w.plane = oddLines(w.in * w.outBlocks() * block)
	w.size = w.plane * w.pz * w.points * w.points
	w.ys = block * block * w.points * w.side
	w.stage = w.ys
	if exchanged {
		w.stage = max(w.ys, w.taps*block*block)
	}
	w.work = w.tile() + w.stage
	return w
}

// vectors is the number of output blocks in the group of a block.
func (w *pointWeights) vectors(outBlock int) int { return min(2, w.outBlocks()-outBlock&^1) }

// point is the offset of the first weight of a pair of blocks in a point.
func (w *pointWeights) point(inBlock, outBlock int) int {
	return (outBlock&^1)*block*w.in + inBlock*block*w.vectors(outBlock)*block + outBlock&1*block
}

// ofPoint is the point whose weights a point has, along an axis with so many of them.
func ofPoint(point, own int) int { return min(point, own-1) }

// multiply multiplies the points along x of one point in z and y. The weights lie at their points
// along x, so far apart.
func (w *pointWeights) multiply(by *product, a, b, c []float32, aPlane, bPlane, cPlane int, terms []term) {
	each := repeats{w.points, aPlane, bPlane, cPlane}
	w.kernels.pointsProduct(by, each, a, b, c, terms)
	if more := w.tiling.points - w.points; more > 0 {
		w.kernels.pointsProduct(by, repeats{more, aPlane, 0, cPlane}, a[w.points*aPlane:], b[(w.points-1)*bPlane:],
			c[w.points*cPlane:], terms)
	}
}

// share says how far apart the points of the inputs and of the gradient of the outputs lie.
func (w *pointWeights) share(aPlane, bPlane int) {
	for i := range w.tiling.points - w.points + 1 {
		w.sharing = append(w.sharing, term{i * aPlane, i * bPlane})
	}
}

// terms are the products that make up the gradient of the weights of a point along x.
func (w *pointWeights) terms(point int) []term {
	if point < w.points-1 {
		return oneTerm
	}
	return w.sharing
}

// sum multiplies all points of one point in z, and sums up those that have weights in common.
func (w *pointWeights) sum(by product, a, b, c []float32, aPlane, bPlane, cPlane int) {
	n := w.tiling.points
	if w.points == n {
		w.kernels.pointsOuter(&by, repeats{n * n, aPlane, bPlane, cPlane}, a, b, c, oneTerm)
		return
	}
	last := w.points - 1
	for y := range n {
		to := c[ofPoint(y, w.points)*w.points*cPlane:]
		by.add = by.add || y >= w.points
		w.kernels.pointsOuter(&by, repeats{last, aPlane, bPlane, cPlane}, a[y*n*aPlane:], b[y*n*bPlane:], to, oneTerm)
		w.kernels.pointsOuter(&by, repeats{1, 0, 0, 0}, a[(y*n+last)*aPlane:], b[(y*n+last)*bPlane:], to[last*cPlane:],
			w.sharing)
	}
}

// columns is the offset of a group's weights in a point.
func (w *pointWeights) columns(g int) int { return 2 * g * block * w.in }

// tile is the number of elements of a pair of channel blocks with its taps transformed along z: [z
// point][y tap][x tap][input channel][16].
func (w *pointWeights) tile() int { return w.pz * w.side * w.side * block * block }

// transform makes the points of one pair of channel blocks from the weights.
func (w *pointWeights) transform(dst, weights, work []float32, item int) {
	ib, ob := item/w.outBlocks(), item%w.outBlocks()
	zs, work := work[:w.tile()], work[w.tile():]
	w.transformZ(zs, weights, work, ib, ob)
	for z := range w.pz {
		w.transformYX(dst[z*w.points*w.points*w.plane+w.point(ib, ob):], zs, work, w.plane, w.vectors(ob)*block, z, ib)
	}
}

// transformZ transforms the weights of a pair of channel blocks along z, into a tile.
func (w *pointWeights) transformZ(zs, weights, work []float32, ib, ob int) {
	plane := w.side * w.side * w.tap(ib)
	to := work
	if w.tiling.flat {
		to = zs // nothing to transform
	}
	if w.exchanged {
		l := w.swapped()
		w.kernels.exchange(to, l.pair(weights, ib, ob), w.taps, l.inputs(ob), l.outputs(ib))
		weights = to
	} else {
		weights = w.pair(weights, ob, ib)
	}
	if w.tiling.flat {
		if !w.exchanged {
			copy(zs, weights)
		}
		return
	}
	w.f.weights(&zs[0], &weights[0], plane, plane, block, block, plane/block)
}

// transformYX transforms one point in z of a tile along y and x, into points with the given
// distances from point to point and from input channel to input channel.
func (w *pointWeights) transformYX(dst, zs, work []float32, plane, step, z, ib int) {
	w.transformY(work, zs, z, ib)
	for y := range w.points {
		w.transformX(dst[y*w.points*plane:], work, plane, step, y, ib)
	}
}

// transformY transforms one point in z of a tile along y: [y point][x tap][input channel][16].
func (w *pointWeights) transformY(ys, zs []float32, z, ib int) {
	r, tap := w.side, w.tap(ib)
	w.f.weights(&ys[0], &zs[z*r*r*tap], r*tap, r*tap, block, block, r*w.inputs(ib))
}

// transformX transforms one point in y of those along x.
func (w *pointWeights) transformX(dst, ys []float32, plane, step, y, ib int) {
	r, tap := w.side, w.tap(ib)
	w.f.weights(&dst[0], &ys[y*r*tap], plane, tap, step, block, w.inputs(ib))
}

// gradient makes the gradients of one pair of channel blocks from those of the points.
func (w *pointWeights) gradient(to *gradientSink, src, work []float32, item int) {
	ib, ob := item/w.outBlocks(), item%w.outBlocks()
	zs, work := work[:w.tile()], work[w.tile():]
	for z := range w.pz {
		w.gradientXY(zs, src[z*w.points*w.points*w.plane+w.point(ib, ob):], work, w.plane, w.vectors(ob)*block, z, ib)
	}
	w.gradientZ(to, zs, ib, ob)
}

// gradientXY transforms the points of one point in z back along x and y, into a tile.
func (w *pointWeights) gradientXY(zs, src, work []float32, plane, step, z, ib int) {
	in, r := w.inputs(ib), w.side
	tap := in * block
	for y := range w.points {
		w.f.weightGrad(&work[y*r*tap], &src[y*w.points*plane], tap, plane, block, step, in)
	}
	w.f.weightGrad(&zs[z*r*r*tap], &work[0], r*tap, r*tap, block, block, r*in)
}

// gradientZ transforms a tile back along z, into gradients. Those that are used up take the place
// of the tile.
func (w *pointWeights) gradientZ(to *gradientSink, zs []float32, ib, ob int) {
	plane, dw := w.side*w.side*w.tap(ib), zs
	if to.keeps() {
		dw = w.pair(to.dw, ob, ib)
	}
	if w.tiling.flat {
		if to.keeps() {
			copy(dw, zs)
		} else {
			to.take(zs, ob, ib)
		}
		return
	}
	w.f.weightGrad(&dw[0], &zs[0], plane, plane, block, block, plane/block)
	if !to.keeps() {
		to.take(dw, ob, ib)
	}
}
