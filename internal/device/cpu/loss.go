package cpu

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

// loss is Loss: one pass over the logits, softmax, cross-entropy and the sums of soft Dice
// together; of activations 16 voxels at a time, of a matrix row by row.
type loss struct {
	c       *CPU
	lanes   *laneKernels
	s       device.LossSpec
	l       layout
	cut     chunks    // voxelChunks
	sums    []float64 // (intersection, sum p, sum t) of each class of each image
	workers []lossWorker

	x, target, partial Slice
}

// lossWorker is memory of one worker.
type lossWorker struct {
	rows     Slice // the classes of 16 voxels, or of a row
	sums     Slice // what the kernel adds up, 16 partial sums each
	products Slice // 16 partial products
}

func lossWorkers(threads, classes, sums int) []lossWorker {
	w := make([]lossWorker, threads)
	for i := range w {
		w[i] = lossWorker{rows: alignedSlice(2 * classRows(classes)), sums: alignedSlice(sums * block),
			products: alignedSlice(block)}
	}
	return w
}

// sum adds up the 16 partial sums of number i.
func (w *lossWorker) sum(i int) float32 {
	total := 0.0
	for _, x := range w.sums[i*block:][:block] {
		total += float64(x)
	}
	return float32(total)
}

// partialLen is the number of float32 that a piece leaves: cross-entropy, count, then
// (intersection, sum p, sum t) of each class.
func (k *loss) partialLen() int { return 2 + 3*k.l.channels }

// Loss implements [device.Device]. A target that is no class makes the loss NaN.
func (c *CPU) Loss(s device.LossSpec) (device.Kernel, error) {
	if err := accept(s, s.Type); err != nil {
		return nil, err
	}
	k := &loss{c: c, lanes: lanesOf(c.kernels.name), s: s, l: forRank(s.Shape),
		sums: make([]float64, 3*s.Shape[0]*s.Shape[1])}
	k.cut = voxelChunks(k.l)
	k.workers = lossWorkers(c.Threads(), k.l.channels, k.partialLen())
	return k, nil
}

func (k *loss) Scratch() int64 { return bytesOf(k.cut.pieces() * k.partialLen()) }

func (k *loss) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.x, k.target, k.partial = in[0].(Slice), in[1].(Slice), scratch.(Slice)
	k.c.pool.run(k.cut.items(), k)
	var entropy, count float64
	clear(k.sums)
	for i := range k.cut.pieces() {
		part := k.partial[i*k.partialLen():][:k.partialLen()]
		entropy += float64(part[0])
		count += float64(part[1])
		image := k.sums[3*k.l.channels*(i/k.cut.perPlane):]
		for j, x := range part[2:] {
			image[j] += float64(x)
		}
	}
	if count > 0 {
		entropy /= count
	}
	dice := diceLoss(k.s, k.sums, nil, nil)
	stats := out[1].(Slice)
	stats[0], stats[1], stats[2] = float32(entropy), float32(dice), float32(count)
	for j, x := range k.sums {
		stats[3+j] = float32(x)
	}
	total := 0.0 // a term without weight must not make NaN of the other
	if k.s.CE != 0 {
		total += float64(k.s.CE) * entropy
	}
	if k.s.Dice != 0 {
		total += float64(k.s.Dice) * dice
	}
	out[0].(Slice)[0] = float32(total)
}

func (k *loss) do(worker, item int) {
	for i, end := k.cut.item(item); i < end; i++ {
		n, lo, hi := k.cut.voxels(i)
		target := k.target[n*k.l.voxels+lo : n*k.l.voxels+hi]
		part := k.partial[i*k.partialLen():][:k.partialLen()]
		clear(part)
		w := &k.workers[worker]
		if k.l.lanes == block {
			k.blockLoss(part, target, k.x[k.l.plane(n, 0)+lo*block:], w)
		} else {
			k.gatheredLoss(part, target, n, lo, w.rows[:k.l.channels])
		}
	}
}

// blockLoss takes one logarithm for many voxels: the logarithm of a product of sums of exponentials
// is the sum of their logarithms. Each sum is from 1 to the number of classes, so the product of 8,
// in float32, and of four of these, in float64, does not overflow.
func (k *loss) blockLoss(part, target, x []float32, w *lossWorker) {
	clear(w.sums)
	entropy := 0.0
	for lo := 0; lo < len(target); lo += 8 * block {
		for i := range w.products {
			w.products[i] = 1
		}
		k.lanes.runLoss(x[lo*block:], target[lo:min(lo+8*block, len(target))], k.l.channels, k.l.voxels*block, w.rows,
			w.sums, w.products)
		for p := w.products; len(p) > 0; p = p[4:] {
			entropy += math.Log(float64(p[0]) * float64(p[1]) * float64(p[2]) * float64(p[3]))
		}
	}
	found := float32(0)
	for i := range part {
		part[i] = w.sum(i)
		if i >= 2 && (i-2)%3 == 2 {
			found += part[i]
		}
	}
	part[0] += float32(entropy)
	if found != part[1] {
		part[0] = float32(math.NaN()) // a target was no class
	}
}

func (k *loss) gatheredLoss(part, target []float32, n, lo int, p []float32) {
	for v, t := range target {
		if t < 0 {
			continue
		}
		if !(t < float32(len(p))) {
			part[0] = float32(math.NaN())
			continue
		}
		k.l.gather(p, k.x, n, lo+v)
		logit := p[int(t)]
		top, total := exponentials(p)
		part[0] += float32(math.Log(float64(total))) + top - logit
		part[1]++
		for c, e := range p {
			part[2+3*c+1] += e / total
		}
		part[2+3*int(t)] += p[int(t)] / total
		part[2+3*int(t)+2]++
	}
}

// exponentials: x = exp(x - top), top the greatest, total their sum
func exponentials(x []float32) (top, total float32) {
	top = x[0]
	for _, v := range x {
		top = max(top, v)
	}
	for i, v := range x {
		x[i] = exp(v - top)
		total += x[i]
	}
	return top, total
}

// diceLoss is the soft Dice loss of the sums of each class of each image, and, where asked for, its
// derivatives by each sum of p and by each intersection.
func diceLoss[T float32 | float64](s device.LossSpec, sums []T, byP, byHit []float32) (loss float64) {
	images, classes := s.Shape[0], s.Shape[1]
	perUnit := images // what one Dice is taken over
	if s.PerImage {
		perUnit = 1
	}
	weight := 1 / float64(s.DiceClasses()*images/perUnit)
	for first := 0; first < images; first += perUnit {
		for c := classes - s.DiceClasses(); c < classes; c++ {
			var hit, p, t float64
			for n := first; n < first+perUnit; n++ {
				at := sums[3*(n*classes+c):][:3]
				hit, p, t = hit+float64(at[0]), p+float64(at[1]), t+float64(at[2])
			}
			numerator, denominator := 2*hit+float64(s.Smooth), p+t+float64(s.Smooth)
			if denominator == 0 {
				continue // neither predicted nor there: nothing lost
			}
			loss += weight * (1 - numerator/denominator)
			if byP != nil {
				for n := first; n < first+perUnit; n++ {
					byP[n*classes+c] = float32(weight * numerator / (denominator * denominator))
					byHit[n*classes+c] = float32(-weight * 2 / denominator)
				}
			}
		}
	}
	return loss
}

// lossGrad is LossGrad: with p the softmax again, dx = p (ce + g - sum p g) - ce [target], g the
// derivative by p.
type lossGrad struct {
	c          *CPU
	lanes      *laneKernels
	s          device.LossSpec
	l          layout
	cut        chunks
	byP, byHit []float32 // a class of an image each
	// an image each: the weight of the cross-entropy, then both of each class
	by      [][]float32
	total   []float64
	workers []lossWorker

	dx, x, target, partial Slice
	stream                 bool // dx goes past the caches
}

// LossGrad implements [device.Device].
func (c *CPU) LossGrad(s device.LossSpec) (device.Kernel, error) {
	if err := accept(s, s.Type); err != nil {
		return nil, err
	}
	k := &lossGrad{c: c, lanes: lanesOf(c.kernels.name), s: s, l: forRank(s.Shape), by: make([][]float32, s.Shape[0]),
		total: make([]float64, s.Shape[1])}
	k.cut = voxelChunks(k.l)
	n := s.Shape[0] * s.Shape[1]
	k.byP, k.byHit = make([]float32, n), make([]float32, n)
	k.workers = lossWorkers(c.Threads(), k.l.channels, k.l.channels)
	for i := range k.by {
		k.by[i] = make([]float32, 1+2*s.Shape[1])
	}
	return k, nil
}

// Scratch holds the sum of dx of each class of each piece.
func (k *lossGrad) Scratch() int64 { return bytesOf(k.cut.pieces() * k.l.channels) }

func (k *lossGrad) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.dx, k.x, k.target, k.partial = out[0].(Slice), in[0].(Slice), in[1].(Slice), scratch.(Slice)
	k.stream = pastCaches(k.dx, k.x)
	stats, dloss := in[2].(Slice), in[3].(Slice)[0]
	clear(k.byP)
	clear(k.byHit)
	if k.s.Dice != 0 {
		diceLoss(k.s, stats[3:], k.byP, k.byHit)
	}
	for n, by := range k.by {
		by[0] = dloss * k.s.CE / max(1, stats[2])
		for c := range k.l.channels {
			by[1+2*c] = k.s.Dice * dloss * k.byP[n*k.l.channels+c]
			by[2+2*c] = k.s.Dice * dloss * k.byHit[n*k.l.channels+c]
		}
	}
	k.c.pool.run(k.cut.items(), k)
	clear(k.total)
	for i := range k.cut.pieces() {
		for c, x := range k.partial[i*k.l.channels:][:k.l.channels] {
			k.total[c] += float64(x)
		}
	}
	for c, sum := range k.total {
		out[1].(Slice)[c] = float32(sum)
	}
}

func (k *lossGrad) do(worker, item int) {
	for i, end := k.cut.item(item); i < end; i++ {
		n, lo, hi := k.cut.voxels(i)
		target := k.target[n*k.l.voxels+lo : n*k.l.voxels+hi]
		w := &k.workers[worker]
		clear(w.sums)
		if k.l.lanes == block {
			first := k.l.plane(n, 0) + lo*block
			k.lanes.runLossGrad(k.dx[first:], k.x[first:], target, k.l.channels, k.l.voxels*block, w.rows, k.by[n],
				w.sums, k.stream)
		} else {
			k.rows(target, n, lo, w)
		}
		for c := range k.l.channels {
			k.partial[i*k.l.channels+c] = w.sum(c)
		}
	}
}

func (k *lossGrad) rows(target []float32, n, lo int, w *lossWorker) {
	p, g := w.rows[:k.l.channels], w.rows[k.l.channels:2*k.l.channels]
	ce, by := k.by[n][0], k.by[n][1:]
	for v, t := range target {
		clear(g)
		if t >= 0 && t < float32(len(p)) {
			k.l.gather(p, k.x, n, lo+v)
			softmaxRow(p, p)
			dot := float32(0)
			for c := range p {
				g[c] = by[2*c]
				if c == int(t) {
					g[c] += by[2*c+1]
				}
				dot += p[c] * g[c]
			}
			for c := range p {
				g[c] = p[c] * (ce + g[c] - dot)
			}
			g[int(t)] -= ce
		}
		for c, d := range g {
			w.sums[c*block] += d
		}
		k.l.scatter(k.dx, g, n, lo+v)
	}
}
