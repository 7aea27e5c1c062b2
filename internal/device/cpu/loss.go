package cpu

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

// loss is Loss: one pass over the logits, softmax, cross-entropy and the sums of soft Dice together. Up to 16 classes are one block and one assembly kernel; more are gathered voxel by voxel.
type loss struct {
	c        *CPU
	lanes    *laneKernels
	s        device.LossSpec
	l        layout
	cut      chunks // voxelChunks
	live     [block]float32
	sums     []float64   // (intersection, sum p, sum t) of each class of each image
	gathered [][]float32 // a worker each: the classes of a voxel
	totals   [][]float32 // a worker each: the sums of exponentials of a chunk
	block    []lossSums  // a worker each

	x, target, partial Slice
}

// partialLen is the number of float32 that a piece leaves: cross-entropy, count, then (intersection, sum p, sum t) of each class.
func (k *loss) partialLen() int { return 2 + 3*k.l.channels }

// Loss implements [device.Device]. A target that is no class makes the loss NaN.
func (c *CPU) Loss(s device.LossSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k := &loss{c: c, lanes: lanesOf(c.kernels.name), s: s, l: forRank(s.Shape), sums: make([]float64, 3*s.Shape[0]*s.Shape[1])}
	k.cut = voxelChunks(k.l)
	k.live = k.l.live()
	k.gathered, k.totals, k.block = make([][]float32, c.Threads()), make([][]float32, c.Threads()), make([]lossSums, c.Threads())
	for w := range k.totals {
		k.gathered[w], k.totals[w] = make([]float32, k.l.channels), make([]float32, chunkVoxels)
	}
	return k, nil
}

func (k *loss) Scratch() int { return k.cut.pieces() * k.partialLen() }

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
		if k.l.oneBlock() {
			k.blockLoss(part, target, k.x[k.l.plane(n, 0)+lo*block:], k.totals[worker], &k.block[worker])
		} else {
			k.gatheredLoss(part, target, n, lo, k.gathered[worker])
		}
	}
}

// blockLoss: the logarithm of a product of 16 sums of at most 16 exponentials is the sum of their logarithms, and does not overflow: one logarithm for 16 voxels.
func (k *loss) blockLoss(part, target, x, totals []float32, s *lossSums) {
	*s = lossSums{}
	totals = totals[:len(target)]
	k.lanes.loss(x[:len(target)*block], target, totals, &k.live, s)
	entropy, product, count := 0.0, 1.0, 0
	for v, t := range target {
		product *= float64(totals[v])
		if v%16 == 15 {
			entropy += math.Log(product)
			product = 1
		}
		if t >= 0 {
			count++
		}
		if !(t < float32(k.l.channels)) {
			entropy = math.NaN()
		}
	}
	entropy += math.Log(product)
	for c := range k.l.channels {
		entropy += float64(s.margin[c])
		part[2+3*c], part[2+3*c+1], part[2+3*c+2] = s.hit[c], s.p[c], s.truth[c]
	}
	part[0], part[1] = float32(entropy), float32(count)
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

// diceLoss is the soft Dice loss of the sums of each class of each image, and, where asked for, its derivatives by each sum of p and by each intersection.
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

// lossGrad is LossGrad: with p the softmax again, dx = p (ce + g - sum p g) - ce [target], g the derivative by p.
type lossGrad struct {
	c          *CPU
	lanes      *laneKernels
	s          device.LossSpec
	l          layout
	cut        chunks
	byP, byHit []float32    // a class of an image each
	params     []lossParams // an image each
	ce         float32
	gathered   [][2][]float32 // a worker each

	dx, x, target Slice
}

// LossGrad implements [device.Device].
func (c *CPU) LossGrad(s device.LossSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k := &lossGrad{c: c, lanes: lanesOf(c.kernels.name), s: s, l: forRank(s.Shape), params: make([]lossParams, s.Shape[0])}
	k.cut = voxelChunks(k.l)
	n := s.Shape[0] * s.Shape[1]
	k.byP, k.byHit = make([]float32, n), make([]float32, n)
	k.gathered = make([][2][]float32, c.Threads())
	for w := range k.gathered {
		k.gathered[w] = [2][]float32{make([]float32, s.Shape[1]), make([]float32, s.Shape[1])}
	}
	for i := range k.params {
		k.params[i].live = k.l.live()
	}
	return k, nil
}

func (k *lossGrad) Scratch() int { return 0 }

func (k *lossGrad) Run(out, in []device.Buffer, _ device.Buffer) {
	k.dx, k.x, k.target = out[0].(Slice), in[0].(Slice), in[1].(Slice)
	stats, dloss := in[2].(Slice), in[3].(Slice)[0]
	clear(k.byP)
	clear(k.byHit)
	if k.s.Dice != 0 {
		diceLoss(k.s, stats[3:], k.byP, k.byHit)
		for i := range k.byP {
			k.byP[i] *= k.s.Dice * dloss
			k.byHit[i] *= k.s.Dice * dloss
		}
	}
	k.ce = dloss * k.s.CE / max(1, stats[2])
	if k.l.oneBlock() {
		for n := range k.params {
			k.l.spread(&k.params[n].byP, 0, k.byP[n*k.l.channels:])
			k.l.spread(&k.params[n].byHit, 0, k.byHit[n*k.l.channels:])
			for lane := range k.params[n].ce {
				k.params[n].ce[lane] = k.ce
			}
		}
	}
	k.c.pool.run(k.cut.items(), k)
}

func (k *lossGrad) do(worker, item int) {
	for i, end := k.cut.item(item); i < end; i++ {
		n, lo, hi := k.cut.voxels(i)
		target := k.target[n*k.l.voxels+lo : n*k.l.voxels+hi]
		if k.l.oneBlock() {
			first, last := k.l.plane(n, 0)+lo*block, k.l.plane(n, 0)+hi*block
			k.lanes.lossGrad(k.dx[first:last], k.x[first:last], target, &k.params[n])
			continue
		}
		p, g := k.gathered[worker][0], k.gathered[worker][1]
		byP, byHit := k.byP[n*k.l.channels:], k.byHit[n*k.l.channels:]
		for v, t := range target {
			clear(g)
			if t >= 0 && t < float32(len(p)) {
				k.l.gather(p, k.x, n, lo+v)
				softmaxRow(p, p)
				dot := float32(0)
				for c := range p {
					g[c] = byP[c]
					if c == int(t) {
						g[c] += byHit[c]
					}
					dot += p[c] * g[c]
				}
				for c := range p {
					g[c] = p[c] * (k.ce + g[c] - dot)
				}
				g[int(t)] -= k.ce
			}
			k.l.scatter(k.dx, g, n, lo+v)
		}
	}
}
