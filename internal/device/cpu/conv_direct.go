package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// direct is the convolution as it is written: for a row of outputs, one product of matrices summed over taps and blocks of input channels. It serves every geometry.
//
// Where taps reach past the border, a band of the input is first copied into scratch memory with its border of zeros; the copy stays in the cache.
type direct struct {
	cpu *CPU
	g   geometry

	segments [][]segment // of each phase
	packed   [][]int     // [phase][group] offset of packed weights in scratch
	as       int         // from one row (output voxel) to the next in the input

	copies   bool
	band     [3]int // input voxels of a band: planes, rows, columns
	bandRows int    // output rows of a band
	bands    int    // bands in an output plane
	depth    int    // output planes of a phase, at most
	elements int    // of a band
	rowSize  int    // of a row of outputs, where they have to be squeezed into one lane

	biasAt, workAt, work, total int

	out, in, w, bias, scratch Slice // of the present run
}

// segment is a sum of products over the same number of inputs.
type segment struct {
	k     int
	terms [3][]term // for a group of 1 or 2 vectors
	load  []load    // how the weights of each term are packed
}

// load says which weights a term multiplies: those of a tap for a block of input channels, or where there is one input channel, those of k taps a step apart.
type load struct{ block, tap, step int }

const bandElements = 96 << 10 // a band leaves room for weights in a second-level cache

func newDirect(c *CPU, g geometry) *direct {
	d := &direct{cpu: c, g: g, copies: !g.inside()}
	rows, width := 0, 0
	for _, p := range g.phases {
		d.depth, rows, width = max(d.depth, p.count[0]), max(rows, p.count[1]), max(width, p.count[2])
	}
	if g.in.size == g.out.size && g.taps == 1 && g.stride == [3]int{1, 1, 1} && g.step == g.stride && !d.copies {
		d.flatten()
		count := d.g.phases[0].count
		d.depth, rows, width = count[0], count[1], count[2]
	}
	g = d.g
	size, lo := g.in.size, [3]int{}
	d.bandRows = min(rows, max(1, 256/width))
	if d.copies {
		reach := [3]int{g.hi[0] - g.lo[0] + 1, g.hi[1] - g.lo[1] + 1, g.hi[2] - g.lo[2] + 1}
		columns := g.stride[2]*(width-1) + reach[2]
		row := g.in.blocks * g.in.lanes * reach[0] * columns
		d.bandRows = max(1, min(rows, (bandElements/row-reach[1])/g.stride[1]+1))
		d.band = [3]int{reach[0], g.stride[1]*(d.bandRows-1) + reach[1], columns}
		d.elements = g.in.blocks * g.in.lanes * d.band[0] * d.band[1] * d.band[2]
		size, lo = d.band, g.lo
	}
	d.bands = (rows + d.bandRows - 1) / d.bandRows
	d.as = g.stride[2] * g.in.lanes
	d.plan(size, lo)
	if g.out.lanes == 1 {
		d.rowSize = width * block
	}
	d.biasAt = d.total
	d.total += g.out.blocks * block
	d.workAt = d.total
	d.work = max(aligned(d.elements)+aligned(d.rowSize), g.taps*block)
	d.total += d.work * c.opt.Threads
	return d
}

// flatten cuts the image of a 1x1x1 convolution in rows of a convenient length, if its size allows: its voxels have no neighbours.
func (d *direct) flatten() {
	length := min(128, d.g.in.voxels)
	for d.g.in.voxels%length != 0 {
		length--
	}
	rows := d.g.in.voxels / length
	if length < 32 {
		return
	}
	d.g.in.size = [3]int{1, rows, length}
	d.g.out.size = d.g.in.size
	p := d.g.phases[0]
	p.count = d.g.in.size
	d.g.phases = []phase{p}
}

// plan lists the terms of each phase in an input of this size whose first voxel is lo, and lays out the packed weights.
func (d *direct) plan(size, lo [3]int) {
	g := &d.g
	offset := func(b int, t tap) int {
		return ((b*size[0]+t.d[0]-lo[0])*size[1]+t.d[1]-lo[1])*size[2]*g.in.lanes + (t.d[2]-lo[2])*g.in.lanes
	}
	for _, p := range g.phases {
		var segments []segment
		if g.in.lanes == 1 {
			if len(p.taps) > 0 {
				columns := 1
				for columns < len(p.taps) && p.taps[columns].d[2] > p.taps[0].d[2] {
					columns++
				}
				s := segment{k: columns}
				for i := 0; i < len(p.taps); i += columns {
					s.add(offset(0, p.taps[i]), load{tap: p.taps[i].w, step: p.taps[min(i+1, len(p.taps)-1)].w - p.taps[i].w})
				}
				segments = append(segments, s)
			}
		} else {
			for b := range g.in.blocks {
				k := min(block, g.in.channels-b*block)
				if len(segments) == 0 || segments[len(segments)-1].k != k {
					segments = append(segments, segment{k: k})
				}
				s := &segments[len(segments)-1]
				for _, t := range p.taps {
					s.add(offset(b, t), load{block: b, tap: t.w})
				}
			}
			if len(p.taps) == 0 {
				segments = nil
			}
		}
		var at []int
		for group := range g.groups() {
			at = append(at, d.total)
			for _, s := range segments {
				d.total += len(s.load) * s.k * g.vectors(group) * block
			}
		}
		d.segments = append(d.segments, segments)
		d.packed = append(d.packed, at)
	}
}

// add appends a term whose inputs start at a, its weights behind those of the term before.
func (s *segment) add(a int, l load) {
	for vectors := 1; vectors <= 2; vectors++ {
		s.terms[vectors] = append(s.terms[vectors], term{a, len(s.load) * s.k * vectors * block})
	}
	s.load = append(s.load, l)
}

// Scratch implements [device.Kernel].
func (d *direct) Scratch() int { return d.total }

// Run implements [device.Kernel].
func (d *direct) Run(out, in []device.Buffer, scratch device.Buffer) {
	d.out, d.in, d.w, d.scratch = out[0].(Slice), in[0].(Slice), in[1].(Slice), scratch.(Slice)
	d.bias = nil
	if d.g.bias {
		d.bias = in[2].(Slice)
		pad(d.scratch[d.biasAt:][:d.g.out.blocks*block], d.bias[:d.g.out.channels])
	}
	d.cpu.pool.run(d.g.in.blocks*d.g.out.blocks, (*directPack)(d))
	d.cpu.pool.run(d.g.in.n*d.depth*d.bands, d)
	d.out, d.in, d.w, d.bias, d.scratch = nil, nil, nil, nil, nil
}

// pad copies src to the start of dst and zeros the rest.
func pad(dst, src []float32) { clear(dst[copy(dst, src):]) }

// directPack packs the weights of one pair of channel blocks for all phases: [segment][term][k][vector][16].
type directPack direct

func (d *directPack) do(worker, item int) {
	g := &d.g
	ib, ob := item/g.out.blocks, item%g.out.blocks
	group, vectors := ob/2, g.vectors(ob/2)
	taps := d.scratch[d.workAt+worker*d.work:][:g.taps*block]
	for i := range min(g.in.lanes, g.in.channels-ib*g.in.lanes) {
		at := (ib*g.in.lanes+i)*g.wIn + ob*block*g.wOut
		d.cpu.kernels.gatherTaps(taps, 0, block, d.w[at:], g.wOut, g.taps, min(block, g.out.channels-ob*block))
		for ph := range g.phases {
			to := d.scratch[d.packed[ph][group]+ob%2*block:]
			for _, s := range d.segments[ph] {
				for j, l := range s.load {
					if g.in.lanes == 1 {
						for x := range s.k {
							*(*[block]float32)(to[(j*s.k+x)*vectors*block:]) = *(*[block]float32)(taps[(l.tap+x*l.step)*block:])
						}
					} else if l.block == ib {
						*(*[block]float32)(to[(j*s.k+i)*vectors*block:]) = *(*[block]float32)(taps[l.tap*block:])
					}
				}
				to = to[len(s.load)*s.k*vectors*block:]
			}
		}
	}
}

// do computes one band of outputs of all phases and all groups of output channels.
func (d *direct) do(worker, item int) {
	g := &d.g
	band, z, n := item%d.bands, item/d.bands%d.depth, item/d.bands/d.depth
	work := d.scratch[d.workAt+worker*d.work:][:d.work]
	squeezed := work[aligned(d.elements):]
	in := d.in[g.in.plane(n, 0):]
	first := band * d.bandRows
	rowStep, planeBase := g.stride[1]*g.in.size[2]*g.in.lanes, g.stride[0]*z*g.in.size[1]*g.in.size[2]*g.in.lanes
	if d.copies {
		d.copyBand(work, n, z, first)
		in = work
		rowStep, planeBase = g.stride[1]*d.band[2]*g.in.lanes, -first*g.stride[1]*d.band[2]*g.in.lanes
	}
	for group := range g.groups() {
		vectors := g.vectors(group)
		for ph, p := range g.phases {
			if z >= p.count[0] {
				continue
			}
			weights := d.scratch[d.packed[ph][group]:]
			for y := first; y < min(first+d.bandRows, p.count[1]); y++ {
				at := g.out.plane(n, 2*group) + (((p.origin[0]+g.step[0]*z)*g.out.size[1]+p.origin[1]+g.step[1]*y)*g.out.size[2]+p.origin[2])*g.out.lanes
				c, cs, cv := d.out[at:], g.step[2]*block, g.out.voxels*block
				if g.out.lanes == 1 {
					c, cs = squeezed, block
				}
				d.row(c, cs, cv, in[planeBase+y*rowStep:], weights, ph, group, vectors, p.count[2])
				if g.out.lanes == 1 {
					for x := range p.count[2] {
						d.out[at+g.step[2]*x] = squeezed[x*block]
					}
				}
			}
		}
	}
}

// row computes one row of outputs of one phase and group.
func (d *direct) row(c []float32, cs, cv int, in, weights []float32, ph, group, vectors, count int) {
	segments := d.segments[ph]
	add := d.bias != nil
	if add || len(segments) == 0 {
		for v := range vectors {
			bias := &zeros
			if add {
				bias = (*[block]float32)(d.scratch[d.biasAt+(2*group+v)*block:])
			}
			for x := range count {
				*(*[block]float32)(c[x*cs+v*cv:]) = *bias
			}
		}
	}
	for i := range segments {
		s := &segments[i]
		d.cpu.kernels.rowsProduct(count, vectors, in, weights, c, s.terms[vectors], s.k, d.as, vectors*block, cs, cv, add)
		weights = weights[len(s.load)*s.k*vectors*block:]
		add = true
	}
}

var zeros [block]float32

// copyBand copies the inputs of a band of outputs, zeros where there are none: [block][plane][row][column][lane].
func (d *direct) copyBand(band []float32, n, z, y int) {
	g := &d.g
	row := d.band[2] * g.in.lanes
	x0 := g.lo[2] // input column of the band's first
	left := max(0, -x0)
	right := min(d.band[2], g.in.size[2]-x0) // past the last column that exists
	for b := range g.in.blocks {
		plane := d.in[g.in.plane(n, b):][:g.in.voxels*g.in.lanes]
		for pz := range d.band[0] {
			iz := g.stride[0]*z + g.lo[0] + pz
			for py := range d.band[1] {
				iy := g.stride[1]*y + g.lo[1] + py
				to := band[:row]
				band = band[row:]
				if iz < 0 || iz >= g.in.size[0] || iy < 0 || iy >= g.in.size[1] || right <= left {
					clear(to)
					continue
				}
				clear(to[:left*g.in.lanes])
				copy(to[left*g.in.lanes:right*g.in.lanes], plane[((iz*g.in.size[1]+iy)*g.in.size[2]+x0+left)*g.in.lanes:])
				clear(to[right*g.in.lanes:])
			}
		}
	}
}
