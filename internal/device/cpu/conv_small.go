package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// Where an image has a few voxels only, many taps of a large kernel fall on padding: at 2^3, 8 of 125 are alive for each output, at 4^3 43. And there are so few outputs that to read the weights
// takes as long as to multiply by them. So only taps that are alive are multiplied, and the weights of a group of output channels and a block of input channels
// are used for all outputs while they lie in L2:
//
//	for each group of output channels:          an item
//		for each block of input channels:
//			for each output voxel or row: add the product over its taps that are alive
//
// The rows of a product are the images, or where those are fewer, the voxels along x of an image whose rows have been copied with their padding.
type small struct {
	cpu    *CPU
	g      geometry
	along  bool // rows along x
	rows   int  // of a product
	parts  int  // of the products of a group, so that there is work for every thread
	first  int  // tap that is alive
	taps   int  // from there to the last one that is: those that are exchanged
	sums   []smallSum
	width  int // of a padded row
	padded int // elements of a padded block of an image

	workAt, paddedAt, work, total int // the bias lies at 0; in a worker's scratch exchanged weights do

	out, in, w, scratch Slice
}

// smallSum is one product: an output voxel, or a row of them.
type smallSum struct {
	at          int    // elements before its first voxel in a block
	whole, last []term // for a whole block of input channels, and for the last one if it has fewer
}

func newSmall(c *CPU, g geometry) *small {
	k := &small{cpu: c, g: g, rows: g.out.n, parts: (c.opt.Threads + g.groups() - 1) / g.groups()}
	k.along = g.stride == [3]int{1, 1, 1} && g.step == g.stride && g.out.size[2] > g.out.n
	if k.along {
		k.rows = g.out.size[2]
		k.width = g.out.size[2] + g.hi[2] - g.lo[2]
		k.padded = g.in.size[0] * g.in.size[1] * k.width * block
	}
	k.first, k.taps = g.weights.taps, 0
	for _, p := range g.phases {
		for _, t := range p.taps {
			if k.alive(t, 0) && k.alive(t, 1) && k.alive(t, 2) {
				k.first, k.taps = min(k.first, t.w), max(k.taps, t.w+1)
			}
		}
	}
	k.taps = max(0, k.taps-k.first)
	for _, p := range g.phases {
		count := p.count
		if k.along {
			count[2] = 1
		}
		for z := range count[0] {
			for y := range count[1] {
				for x := range count[2] {
					k.sums = append(k.sums, k.sum(&p, z, y, x))
				}
			}
		}
	}
	k.workAt = aligned(g.out.blocks * block)
	if g.exchanged {
		k.paddedAt = 2 * g.weights.taps * block * block
	}
	k.work = k.paddedAt + g.in.n*k.padded
	k.total = k.workAt + k.work*c.opt.Threads
	return k
}

// alive says whether a tap reaches any input along an axis.
func (k *small) alive(t tap, axis int) bool {
	return t.d[axis] < k.g.in.size[axis] && t.d[axis]+k.g.stride[axis]*(k.g.out.size[axis]-1) >= 0
}

// sum lists the taps that are alive for an output voxel, or for any of a row.
func (k *small) sum(p *phase, z, y, x int) smallSum {
	g := &k.g
	s := smallSum{at: (((p.origin[0]+g.step[0]*z)*g.out.size[1]+p.origin[1]+g.step[1]*y)*g.out.size[2] + p.origin[2] + g.step[2]*x) * block}
	for _, t := range p.taps {
		iz, iy, ix := g.stride[0]*z+t.d[0], g.stride[1]*y+t.d[1], g.stride[2]*x+t.d[2]
		if iz < 0 || iz >= g.in.size[0] || iy < 0 || iy >= g.in.size[1] {
			continue
		}
		at := ((iz*g.in.size[1]+iy)*g.in.size[2] + ix) * block
		if k.along {
			if !k.alive(t, 2) {
				continue
			}
			at = ((iz*g.in.size[1]+iy)*k.width + t.d[2] - g.lo[2]) * block
		} else if ix < 0 || ix >= g.in.size[2] {
			continue
		}
		s.whole = append(s.whole, term{at, t.w * block * block})
		s.last = append(s.last, term{at, t.w * g.weights.tap(g.in.blocks-1)})
	}
	return s
}

// smallCost is in multiplications of vectors, a weight that is read counted as 60.
func smallCost(g *geometry, k *small) float64 {
	terms, rows := 0, g.out.n
	for _, s := range k.sums {
		terms += len(s.whole)
	}
	if k.along {
		rows *= g.out.size[2]
	}
	return float64(g.in.channels*g.out.blocks) * float64(terms*rows+60*k.taps)
}

// Scratch implements [device.Kernel].
func (k *small) Scratch() int { return k.total }

// Run implements [device.Kernel].
func (k *small) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.out, k.in, k.w, k.scratch = out[0].(Slice), in[0].(Slice), in[1].(Slice), scratch.(Slice)
	bias := k.scratch[:k.workAt]
	clear(bias)
	if k.g.bias {
		pad(bias, in[2].(Slice)[:k.g.out.channels])
	}
	k.cpu.pool.run(k.g.groups()*k.parts, k)
	k.out, k.in, k.w, k.scratch = nil, nil, nil, nil
}

// do computes one part of the outputs of one group of output channels.
func (k *small) do(worker, item int) {
	g := &k.g
	group, part := item/k.parts, item%k.parts
	vectors := g.vectors(group)
	sums := k.sums[part*len(k.sums)/k.parts : (part+1)*len(k.sums)/k.parts]
	work := k.scratch[k.workAt+worker*k.work:][:k.work]
	image, as, cs := g.in.plane(1, 0), g.in.plane(1, 0), g.out.plane(1, 0)
	images := 1 // that are products of their own
	if k.along {
		image, as, cs, images = k.padded, block, block, g.out.n
	}
	out := k.out[g.out.plane(0, 2*group):]
	for v := range vectors {
		bias := (*[block]float32)(k.scratch[(2*group+v)*block:])
		for _, s := range sums {
			for n := range images {
				for r := range k.rows {
					*(*[block]float32)(out[n*g.out.plane(1, 0)+v*g.out.voxels*block+s.at+r*cs:]) = *bias
				}
			}
		}
	}
	for ib := range g.in.blocks {
		weights, bv := work, g.weights.taps*block*block
		if g.exchanged {
			k.exchange(work, ib, group)
		} else {
			weights, bv = k.w[g.weights.at(2*group, ib):], g.weights.group()
		}
		in, channels := k.in[g.in.plane(0, ib):], g.weights.inputs(ib)
		if k.along {
			in = work[k.paddedAt:]
			k.copyPadded(in, ib)
		}
		for n := range images {
			for i := range sums {
				terms := sums[i].whole
				if channels < block {
					terms = sums[i].last
				}
				if len(terms) > 0 {
					k.cpu.kernels.rowsProduct(k.rows, vectors, in[n*image:], weights, out[n*g.out.plane(1, 0)+sums[i].at:], terms, channels, as, block, bv, cs, g.out.voxels*block, true)
				}
			}
		}
	}
}

// exchange turns the weights of a block of input channels and a group of output channels round, those of taps that are alive.
func (k *small) exchange(to []float32, ib, group int) {
	l := k.g.weights
	out, in := l.inputs(ib), l.swapped()
	for v := range k.g.vectors(group) {
		ob := 2*group + v
		k.cpu.kernels.exchange(to, v*l.taps*block*block+k.first*l.tap(ib), l.tap(ib), in.pair(k.w, ib, ob)[k.first*in.tap(ob):], k.taps, in.inputs(ob), out)
	}
}

// copyPadded copies a block of input channels of all images with zeros before and after each row.
func (k *small) copyPadded(to []float32, ib int) {
	g := &k.g
	size, lead := g.in.size[2]*block, -g.lo[2]*block
	skip := max(0, -lead) // where the first tap is right of the first voxel
	lead = max(0, lead)
	for n := range g.in.n {
		from := k.in[g.in.plane(n, ib):][:g.in.voxels*block]
		for range g.in.size[0] * g.in.size[1] {
			row := to[:k.width*block]
			clear(row[:min(lead, len(row))])
			copied := 0
			if lead < len(row) && skip < size {
				copied = copy(row[lead:], from[skip:size])
			}
			clear(row[min(lead+copied, len(row)):])
			from, to = from[size:], to[len(row):]
		}
	}
}

// smallWeights is the weight gradient of small images: for each tap that is alive, outer products of the voxels it connects, summed over voxels and images.
type smallWeights struct {
	gradientSink
	cpu  *CPU
	x, y layout
	taps int
	live []smallTap
	xs   int // from one voxel of a term to the next in x
	ys   int // and in dy

	in, dy, scratch Slice
}

// smallTap is a tap that is alive.
type smallTap struct {
	tap   int
	k     int    // voxels of a term: the images, or neighbours along x
	terms []term // in x and dy
}

func newSmallWeights(c *CPU, s device.ConvSpec) *smallWeights {
	g := forwardGeometry(s)
	k := &smallWeights{gradientSink: gradientSink{w: g.weights}, cpu: c, x: g.in, y: g.out, taps: g.weights.taps, xs: g.in.plane(1, 0), ys: g.out.plane(1, 0)}
	along := g.out.size[2] > g.out.n
	images, columns := 1, g.out.size[2]
	if along {
		k.xs, k.ys = g.stride[2]*block, block
		images, columns = g.out.n, 1
	}
	for _, t := range g.phases[0].taps {
		tap := smallTap{tap: t.w, k: g.out.n}
		first := 0
		if along {
			var end int
			first, end = liveOutputs(g.out.size[2], g.in.size[2], g.stride[2], t.d[2])
			tap.k = end - first
		}
		for n := range images {
			for z := range g.out.size[0] {
				for y := range g.out.size[1] {
					for x := first; x < first+columns; x++ {
						iz, iy, ix := g.stride[0]*z+t.d[0], g.stride[1]*y+t.d[1], g.stride[2]*x+t.d[2]
						if iz >= 0 && iz < g.in.size[0] && iy >= 0 && iy < g.in.size[1] && ix >= 0 && ix < g.in.size[2] {
							tap.terms = append(tap.terms, term{g.in.plane(n, 0) + ((iz*g.in.size[1]+iy)*g.in.size[2]+ix)*block, g.out.plane(n, 0) + ((z*g.out.size[1]+y)*g.out.size[2]+x)*block})
						}
					}
				}
			}
		}
		if tap.k > 0 && len(tap.terms) > 0 {
			k.live = append(k.live, tap)
		}
	}
	return k
}

// smallWeightsCost is in multiplications of vectors, a weight that is written counted as 40.
func smallWeightsCost(k *smallWeights) float64 {
	n := 40 * k.taps
	for _, t := range k.live {
		n += t.k * len(t.terms)
	}
	return float64(k.x.channels*k.y.blocks) * float64(n)
}

// Scratch implements [device.Kernel].
func (k *smallWeights) Scratch() int {
	if k.keeps() {
		return 0
	}
	return k.cpu.opt.Threads * k.stage()
}

// stage is the number of elements of two pairs of blocks, in which a worker makes gradients that are used up.
func (k *smallWeights) stage() int { return 2 * k.taps * block * block }

// Run implements [device.Kernel].
func (k *smallWeights) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.begin(out, in)
	k.in, k.dy, k.scratch = in[0].(Slice), in[1].(Slice), scratch.(Slice)
	k.cpu.pool.run(k.x.blocks*((k.y.blocks+1)/2), k)
	k.end(out)
	k.in, k.dy, k.scratch = nil, nil, nil
}

// do computes the gradients of one block of input channels and one group of output channels.
func (k *smallWeights) do(worker, item int) {
	groups := (k.y.blocks + 1) / 2
	b, group := item/groups, item%groups
	vectors, pair := min(2, k.y.blocks-2*group), k.taps*k.w.tap(b)
	to, cv := k.dw, k.w.group() // from one pair to the next
	if k.keeps() {
		to = to[k.w.at(2*group, b):]
	} else {
		to, cv = k.scratch[worker*k.stage():], pair
	}
	if len(k.live) < k.taps {
		for v := range vectors {
			clear(to[v*cv:][:pair])
		}
	}
	for i := range k.live {
		t := &k.live[i]
		k.cpu.kernels.rowsOuter(k.w.inputs(b), vectors, k.in[k.x.plane(0, b):], k.dy[k.y.plane(0, 2*group):], to[t.tap*k.w.tap(b):], t.terms, t.k, k.xs, k.ys, k.y.voxels*block, block, cv, false)
	}
	if !k.keeps() {
		for v := range vectors {
			k.take(to[v*cv:], 2*group+v, b)
		}
	}
}
