package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// Where an image has a few voxels only, many taps of a large kernel fall on padding: at 2^3, 8 of 125 are alive for each output, at 4^3 43. And there are so few outputs that to read the weights,
// and to turn them into vectors, takes as long as to multiply by them. So only taps that are alive are multiplied, and the weights of a group of output channels and a block of input channels
// are used for all outputs while they lie in L2:
//
//	for each group of output channels:          an item
//		for each block of input channels:
//			pack the weights
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
	taps   int  // from there to the last one that is
	sums   []smallSum
	width  int // of a padded row
	padded int // elements of a padded block of an image

	workAt, paddedAt, work, total int // the bias lies at 0

	out, in, w, scratch Slice
}

// smallSum is one product: an output voxel, or a row of them.
type smallSum struct {
	at    int       // elements before its first voxel in a block
	terms [3][]term // for a group of 1 or 2 vectors
}

func newSmall(c *CPU, g geometry) *small {
	k := &small{cpu: c, g: g, rows: g.out.n, parts: (c.opt.Threads + g.groups() - 1) / g.groups()}
	k.along = g.stride == [3]int{1, 1, 1} && g.step == g.stride && g.out.size[2] > g.out.n
	if k.along {
		k.rows = g.out.size[2]
		k.width = g.out.size[2] + g.hi[2] - g.lo[2]
		k.padded = g.in.size[0] * g.in.size[1] * k.width * block
	}
	k.first, k.taps = g.taps, 0
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
	k.paddedAt = k.taps * block * 2 * block
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
		for vectors := 1; vectors <= 2; vectors++ {
			s.terms[vectors] = append(s.terms[vectors], term{at, (t.w - k.first) * block * vectors * block})
		}
	}
	return s
}

// smallCost is in multiplications of vectors, a weight that is packed counted as 60.
func smallCost(g *geometry, k *small) float64 {
	terms, rows := 0, g.out.n
	for _, s := range k.sums {
		terms += len(s.terms[1])
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
		k.pack(work, ib, group)
		in := k.in[g.in.plane(0, ib):]
		if k.along {
			in = work[k.paddedAt:]
			k.copyPadded(in, ib)
		}
		for n := range images {
			for i := range sums {
				if terms := sums[i].terms[vectors]; len(terms) > 0 {
					k.cpu.kernels.rowsProduct(k.rows, vectors, in[n*image:], work, out[n*g.out.plane(1, 0)+sums[i].at:], terms, min(block, g.in.channels-ib*block), as, vectors*block, cs, g.out.voxels*block, true)
				}
			}
		}
	}
}

// pack makes vectors of the weights of a block of input channels and a group of output channels: [tap][input channel][vector][16].
func (k *small) pack(to []float32, ib, group int) {
	g := &k.g
	vectors := g.vectors(group)
	for v := range vectors {
		ob := 2*group + v
		for i := range min(block, g.in.channels-ib*block) {
			k.cpu.kernels.gatherTaps(to, (i*vectors+v)*block, block*vectors*block, k.w[(ib*block+i)*g.wIn+ob*block*g.wOut+k.first:], g.wOut, k.taps, min(block, g.out.channels-ob*block))
		}
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
	cpu  *CPU
	x, y layout
	taps int
	live []smallTap
	xs   int // from one voxel of a term to the next in x
	ys   int // and in dy
	work int

	dw, in, dy, scratch Slice
}

// smallTap is a tap that is alive.
type smallTap struct {
	tap   int
	k     int    // voxels of a term: the images, or neighbours along x
	terms []term // in x and dy
}

func newSmallWeights(c *CPU, s device.ConvSpec) *smallWeights {
	g := forwardGeometry(s)
	k := &smallWeights{cpu: c, x: g.in, y: g.out, taps: g.taps, xs: g.in.plane(1, 0), ys: g.out.plane(1, 0)}
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
	k.work = g.taps * block * 2 * block // [tap][input channel][vector][16]
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
func (k *smallWeights) Scratch() int { return k.work * k.cpu.opt.Threads }

// Run implements [device.Kernel].
func (k *smallWeights) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.dw, k.in, k.dy, k.scratch = out[0].(Slice), in[0].(Slice), in[1].(Slice), scratch.(Slice)
	k.cpu.pool.run(k.x.blocks*((k.y.blocks+1)/2), k)
	k.dw, k.in, k.dy, k.scratch = nil, nil, nil, nil
}

// do computes the gradients of one block of input channels and one group of output channels.
func (k *smallWeights) do(worker, item int) {
	groups := (k.y.blocks + 1) / 2
	b, group := item/groups, item%groups
	vectors, channels := min(2, k.y.blocks-2*group), min(block, k.x.channels-b*block)
	sum := k.scratch[worker*k.work:][:k.work]
	if len(k.live) < k.taps {
		clear(sum)
	}
	for i := range k.live {
		t := &k.live[i]
		k.cpu.kernels.rowsOuter(channels, vectors, k.in[k.x.plane(0, b):], k.dy[k.y.plane(0, 2*group):], sum[t.tap*block*2*block:], t.terms,
			t.k, k.xs, k.ys, k.y.voxels*block, 2*block, false)
	}
	for v := range vectors {
		o := (2*group + v) * block
		for i := range channels {
			to := k.dw[(o*k.x.channels+b*block+i)*k.taps:]
			k.cpu.kernels.scatterTaps(to, sum[i*2*block+v*block:], k.x.channels*k.taps, block*2*block, k.taps, min(block, k.y.channels-o))
		}
	}
}
