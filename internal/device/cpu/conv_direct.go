package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// direct is the convolution as it is written: for a row of outputs, one product of matrices summed
// over taps and blocks of input channels. It serves every geometry.
//
// Where taps reach past the border, a band of the input is first copied into scratch memory with
// its border of zeros; the copy stays in the cache.
type direct struct {
	cpu *CPU
	g   geometry

	segments [][]segment // of each phase
	as       int         // from one row (output voxel) to the next in the input
	bs       int         // from one input of a term to the next in the weights

	lanes    int // of an input voxel as it is multiplied
	copies   bool
	band     [3]int // input voxels of a band: planes, rows, columns
	bandRows int    // output rows of a band
	bands    int    // bands in an output plane
	depth    int    // output planes of a phase, at most
	elements int    // of a band
	rowSize  int    // of a row of outputs, where they have to be squeezed into one lane

	biasAt, workAt, work, total int // exchanged weights lie at 0

	out, in, w, bias, scratch Slice // of the present run
}

// segment is a sum of products over the same number of inputs: the channels of a block, or where
// voxels have no more lanes than channels, all channels of a row of taps.
type segment struct {
	k     int
	terms []term // the weights' offsets are those of the first group of output channels
}

const bandElements = 96 << 10 // a band leaves room for weights in a second-level cache

func newDirect(c *CPU, g geometry) *direct {
	return planDirect(&direct{cpu: c, g: g, lanes: g.in.lanes, copies: !g.inside()})
}

// planDirect lays out the bands and the products of a convolution.
func planDirect(d *direct) *direct {
	c, g := d.cpu, d.g
	rows, width := 0, 0
	for _, p := range g.phases {
		d.depth, rows, width = max(d.depth, p.count[0]), max(rows, p.count[1]), max(width, p.count[2])
	}
	if flattens(&g) && !d.copies {
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
		row := g.in.blocks * d.lanes * reach[0] * columns
		d.bandRows = max(1, min(rows, (bandElements/row-reach[1])/g.stride[1]+1))
		d.band = [3]int{reach[0], g.stride[1]*(d.bandRows-1) + reach[1], columns}
		d.elements = g.in.blocks * d.lanes * d.band[0] * d.band[1] * d.band[2]
		size, lo = d.band, g.lo
	}
	d.bands = (rows + d.bandRows - 1) / d.bandRows
	d.as = g.stride[2] * d.lanes
	d.plan(size, lo)
	if g.out.lanes == 1 {
		d.rowSize = width * block
	}
	if g.exchanged {
		d.biasAt = g.weights.elements()
	}
	d.workAt = d.biasAt + g.out.blocks*block
	d.work = aligned(d.elements) + aligned(d.rowSize)
	d.total = d.workAt + d.work*c.opt.Threads
	return d
}

// flattens says whether it is a 1x1x1 convolution of stride 1.
func flattens(g *geometry) bool {
	return g.in.size == g.out.size && g.weights.taps == 1 && g.stride == [3]int{1, 1, 1} && g.step == g.stride
}

// flatten cuts the image of a 1x1x1 convolution in rows of a convenient length, if its size allows:
// its voxels have no neighbours.
func (d *direct) flatten() {
	length := min(128, d.g.in.voxels)
	for d.g.in.voxels%length != 0 {
		length--
	}
	rows := d.g.in.voxels / length
	if length < 32 && !(onePlane(&d.g) && length >= 4) {
		return
	}
	d.g.in.size = [3]int{1, rows, length}
	d.g.out.size = d.g.in.size
	p := d.g.phases[0]
	p.count = d.g.in.size
	d.g.phases = []phase{p}
}

// plan lists the terms of each phase in an input of this size whose first voxel is lo.
func (d *direct) plan(size, lo [3]int) {
	g := &d.g
	d.bs = block
	offset := func(b int, t tap) int {
		return ((b*size[0]+t.d[0]-lo[0])*size[1]+t.d[1]-lo[1])*size[2]*d.lanes + (t.d[2]-lo[2])*d.lanes
	}
	for _, p := range g.phases {
		var segments []segment
		if d.lanes < block {
			if len(p.taps) > 0 {
				columns := 1
				for columns < len(p.taps) && p.taps[columns].d[2] > p.taps[0].d[2] {
					columns++
				}
				s := segment{k: columns * d.lanes}
				for i := 0; i < len(p.taps); i += columns {
					s.terms = append(s.terms, term{offset(0, p.taps[i]), p.taps[i].w * d.lanes * block})
				}
				segments = append(segments, s)
				if columns > 1 {
					d.bs = (p.taps[1].w - p.taps[0].w) * block
				}
			}
		} else {
			for b := range g.in.blocks {
				k := min(block, g.in.channels-b*block)
				if len(segments) == 0 || segments[len(segments)-1].k != k {
					segments = append(segments, segment{k: k})
				}
				s := &segments[len(segments)-1]
				for _, t := range p.taps {
					s.terms = append(s.terms, term{offset(b, t), g.weights.at(0, b) + t.w*g.weights.tap(b)})
				}
			}
			if len(p.taps) == 0 {
				segments = nil
			}
		}
		d.segments = append(d.segments, segments)
	}
}

// Scratch implements [device.Kernel].
func (d *direct) Scratch() int64 { return bytesOf(d.total) }

// Run implements [device.Kernel].
func (d *direct) Run(out, in []device.Buffer, scratch device.Buffer) {
	runConvolver(d, out, in, scratch)
}

func (d *direct) convolve(y, x, w, bias, scratch Slice) {
	d.out, d.in, d.w, d.scratch = y, x, w, scratch
	d.bias = nil
	if d.g.bias {
		d.bias = bias
		pad(d.scratch[d.biasAt:][:d.g.out.blocks*block], d.bias[:d.g.out.channels])
	}
	if d.g.exchanged {
		d.cpu.pool.run(d.g.weights.pairs(), (*directExchange)(d))
		d.w = d.scratch[:d.biasAt]
	}
	d.cpu.pool.run(d.g.in.n*d.depth*d.bands, d)
	d.out, d.in, d.w, d.bias, d.scratch = nil, nil, nil, nil, nil
}

// pad copies src to the start of dst and zeros the rest.
func pad(dst, src []float32) { clear(dst[copy(dst, src):]) }

// directExchange turns one pair of channel blocks of the weights round.
type directExchange direct

func (d *directExchange) do(_, item int) {
	d.cpu.kernels.exchangePair(d.g.weights, d.scratch, d.w, item)
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
		rowStep, planeBase = g.stride[1]*d.band[2]*d.lanes, -first*g.stride[1]*d.band[2]*d.lanes
	}
	for group := range g.groups() {
		vectors := g.vectors(group)
		for ph, p := range g.phases {
			if z >= p.count[0] {
				continue
			}
			weights := d.w[2*group*g.weights.group():]
			for y := first; y < min(first+d.bandRows, p.count[1]); y++ {
				at := g.out.plane(n, 2*group) +
					(((p.origin[0]+g.step[0]*z)*g.out.size[1]+p.origin[1]+g.step[1]*y)*g.out.size[2]+
						p.origin[2])*g.out.lanes
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
	by := product{rows: count, vectors: vectors, as: d.as, bs: d.bs, bv: d.g.weights.group(), cs: cs, cv: cv}
	if d.bias != nil {
		by.bias = &d.scratch[d.biasAt+2*group*block]
	}
	if len(segments) == 0 {
		for v := range vectors {
			bias := &zeros
			if d.bias != nil {
				bias = vector(by.bias, v*block)
			}
			for x := range count {
				*(*[block]float32)(c[x*cs+v*cv:]) = *bias
			}
		}
	}
	for i := range segments {
		s := &segments[i]
		by.k = s.k
		d.cpu.kernels.rowsProduct(&by, in, weights, c, s.terms)
		by.add = true
	}
}

var zeros [block]float32

// copyBand copies the inputs of a band of outputs, zeros where there are none:
// [block][plane][row][column][lane].
func (d *direct) copyBand(band []float32, n, z, y int) {
	g := &d.g
	row := d.band[2] * d.lanes
	for b := range g.in.blocks {
		plane := d.in[g.in.plane(n, b):][:g.in.voxels*g.in.lanes]
		for pz := range d.band[0] {
			iz := g.stride[0]*z + g.lo[0] + pz
			for py := range d.band[1] {
				to := band[:row]
				band = band[row:]
				if iz < 0 || iz >= g.in.size[0] {
					clear(to)
					continue
				}
				copyRow(to, plane[iz*g.in.size[1]*g.in.size[2]*g.in.lanes:], g.in, d.lanes, g.stride[1]*y+g.lo[1]+py,
					g.lo[2])
			}
		}
	}
}

// copyRow copies row y of one plane of an input, from column x0 on, with the first lanes of each
// voxel. Where there is no input, it writes zeros.
func copyRow(to, plane []float32, in layout, lanes, y, x0 int) {
	columns := len(to) / lanes
	left := max(0, -x0)
	right := min(columns, in.size[2]-x0) // past the last column that exists
	if y < 0 || y >= in.size[1] || right <= left {
		clear(to)
		return
	}
	clear(to[:left*lanes])
	from := plane[(y*in.size[2]+x0+left)*in.lanes:]
	own := to[left*lanes : right*lanes]
	if lanes == in.lanes {
		copy(own, from)
	} else {
		for x := 0; len(own) > 0; x += in.lanes {
			for i := range lanes {
				own[i] = from[x+i]
			}
			own = own[lanes:]
		}
	}
	clear(to[right*lanes:])
}
