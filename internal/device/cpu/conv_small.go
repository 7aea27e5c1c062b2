package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// Where an image has a few voxels only, most taps of a large kernel fall on padding: at 2^3, 8 of 125 are alive for each output. Then each output voxel is a product of matrices over
// the taps that are alive, its rows the images, and only the weights of taps that are alive for any output are packed at all.

// pair is a tap that takes an input voxel to an output voxel.
type pair struct {
	tap, in, out int
}

// pairs lists the pairs of each output voxel of a geometry.
func (g *geometry) pairs() [][]pair {
	list := make([][]pair, g.out.voxels)
	for _, p := range g.phases {
		for z := range p.count[0] {
			for y := range p.count[1] {
				for x := range p.count[2] {
					out := ((p.origin[0]+g.step[0]*z)*g.out.size[1]+p.origin[1]+g.step[1]*y)*g.out.size[2] + p.origin[2] + g.step[2]*x
					for _, t := range p.taps {
						iz, iy, ix := g.stride[0]*z+t.d[0], g.stride[1]*y+t.d[1], g.stride[2]*x+t.d[2]
						if iz >= 0 && iz < g.in.size[0] && iy >= 0 && iy < g.in.size[1] && ix >= 0 && ix < g.in.size[2] {
							list[out] = append(list[out], pair{tap: t.w, in: (iz*g.in.size[1]+iy)*g.in.size[2] + ix, out: out})
						}
					}
				}
			}
		}
	}
	return list
}

// small is the convolution of small images, or the adjoint of one.
type small struct {
	cpu    *CPU
	g      geometry
	live   []int       // the taps that are alive
	full   [][3][]term // of each output voxel, for a group of 1 or 2 vectors: taps by whole blocks of input channels
	rest   [][3][]term // and taps by the last block, if it is not whole
	groups []int       // offset of each group's weights: [live tap][input channel][vector][16]

	biasAt, workAt, work, total int

	out, in, w, scratch Slice
}

func newSmall(c *CPU, g geometry) *small {
	k := &small{cpu: c, g: g}
	at := map[int]int{}
	for _, pairs := range g.pairs() {
		var full, rest [3][]term
		for _, p := range pairs {
			if _, ok := at[p.tap]; !ok {
				at[p.tap] = len(k.live)
				k.live = append(k.live, p.tap)
			}
			for b := range g.in.blocks {
				for vectors := 1; vectors <= 2; vectors++ {
					t := term{(b*g.in.voxels + p.in) * block, (at[p.tap]*g.in.channels + b*block) * vectors * block}
					if (b+1)*block <= g.in.channels {
						full[vectors] = append(full[vectors], t)
					} else {
						rest[vectors] = append(rest[vectors], t)
					}
				}
			}
		}
		k.full, k.rest = append(k.full, full), append(k.rest, rest)
	}
	for group := range g.groups() {
		k.groups = append(k.groups, k.total)
		k.total += len(k.live) * g.in.channels * g.vectors(group) * block
	}
	k.biasAt = k.total
	k.workAt = k.biasAt + g.out.blocks*block
	k.work = g.taps * block
	k.total = k.workAt + k.work*c.opt.Threads
	return k
}

// Scratch implements [device.Kernel].
func (k *small) Scratch() int { return k.total }

// Run implements [device.Kernel].
func (k *small) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.out, k.in, k.w, k.scratch = out[0].(Slice), in[0].(Slice), in[1].(Slice), scratch.(Slice)
	bias := k.scratch[k.biasAt:k.workAt]
	clear(bias)
	if k.g.bias {
		pad(bias, in[2].(Slice)[:k.g.out.channels])
	}
	k.cpu.pool.run(k.g.in.blocks*k.g.out.blocks, (*smallPack)(k))
	k.cpu.pool.run(k.g.groups()*k.g.out.voxels, k)
	k.out, k.in, k.w, k.scratch = nil, nil, nil, nil
}

// smallPack packs the weights of one pair of channel blocks.
type smallPack small

func (k *smallPack) do(worker, item int) {
	g := &k.g
	ib, ob := item/g.out.blocks, item%g.out.blocks
	width := g.vectors(ob/2) * block
	taps := k.scratch[k.workAt+worker*k.work:][:k.work]
	for i := range min(block, g.in.channels-ib*block) {
		at := (ib*block+i)*g.wIn + ob*block*g.wOut
		k.cpu.kernels.gatherTaps(taps, 0, block, k.w[at:], g.wOut, g.taps, min(block, g.out.channels-ob*block))
		to := k.scratch[k.groups[ob/2]+(ib*block+i)*width+ob%2*block:]
		for j, t := range k.live {
			*(*[block]float32)(to[j*g.in.channels*width:]) = *(*[block]float32)(taps[t*block:])
		}
	}
}

// do computes one output voxel of all images for one group of output channels.
func (k *small) do(_, item int) {
	g := &k.g
	group, voxel := item/g.out.voxels, item%g.out.voxels
	vectors := g.vectors(group)
	inStep, outStep := g.in.plane(1, 0), g.out.plane(1, 0)
	c := k.out[g.out.plane(0, 2*group)+voxel*block:]
	for n := range g.out.n {
		for v := range vectors {
			*(*[block]float32)(c[n*outStep+v*g.out.voxels*block:]) = *(*[block]float32)(k.scratch[k.biasAt+(2*group+v)*block:])
		}
	}
	weights := k.scratch[k.groups[group]:]
	if terms := k.full[voxel][vectors]; len(terms) > 0 {
		k.cpu.kernels.rowsProduct(g.out.n, vectors, k.in, weights, c, terms, block, inStep, vectors*block, outStep, g.out.voxels*block, true)
	}
	if terms := k.rest[voxel][vectors]; len(terms) > 0 {
		k.cpu.kernels.rowsProduct(g.out.n, vectors, k.in, weights, c, terms, g.in.channels%block, inStep, vectors*block, outStep, g.out.voxels*block, true)
	}
}

// smallWeights is the weight gradient of small images: for each tap that is alive, outer products of the voxels it connects, summed over the images.
type smallWeights struct {
	cpu  *CPU
	x, y layout
	taps int
	live [][]pair // of each tap that is alive
	work int

	dw, xs, dy, scratch Slice
}

func newSmallWeights(c *CPU, s device.ConvSpec) *smallWeights {
	g := forwardGeometry(s)
	k := &smallWeights{cpu: c, x: g.in, y: g.out, taps: g.taps}
	at := map[int]int{}
	for _, pairs := range g.pairs() {
		for _, p := range pairs {
			if _, ok := at[p.tap]; !ok {
				at[p.tap] = len(k.live)
				k.live = append(k.live, nil)
			}
			k.live[at[p.tap]] = append(k.live[at[p.tap]], p)
		}
	}
	k.work = g.taps * block * 2 * block // [tap][input channel][vector][16]
	return k
}

// Scratch implements [device.Kernel].
func (k *smallWeights) Scratch() int { return k.work * k.cpu.opt.Threads }

// Run implements [device.Kernel].
func (k *smallWeights) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.dw, k.xs, k.dy, k.scratch = out[0].(Slice), in[0].(Slice), in[1].(Slice), scratch.(Slice)
	k.cpu.pool.run(k.x.blocks*((k.y.blocks+1)/2), k)
	k.dw, k.xs, k.dy, k.scratch = nil, nil, nil, nil
}

// do computes the gradients of one block of input channels and one group of output channels.
func (k *smallWeights) do(worker, item int) {
	groups := (k.y.blocks + 1) / 2
	b, group := item/groups, item%groups
	vectors, channels := min(2, k.y.blocks-2*group), min(block, k.x.channels-b*block)
	sum := k.scratch[worker*k.work:][:k.work]
	clear(sum)
	for _, pairs := range k.live {
		for _, p := range pairs {
			k.cpu.kernels.rowsOuter(channels, vectors, k.xs[k.x.plane(0, b)+p.in*block:], k.dy[k.y.plane(0, 2*group)+p.out*block:], sum[p.tap*block*2*block:],
				k.x.n, k.x.plane(1, 0), k.y.plane(1, 0), k.y.voxels*block, 2*block, true)
		}
	}
	for v := range vectors {
		o := (2*group + v) * block
		for i := range channels {
			to := k.dw[(o*k.x.channels+b*block+i)*k.taps:]
			k.cpu.kernels.scatterTaps(to, sum[i*2*block+v*block:], k.x.channels*k.taps, block*2*block, k.taps, min(block, k.y.channels-o))
		}
	}
}
