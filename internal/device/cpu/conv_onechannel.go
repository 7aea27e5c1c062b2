package cpu

import (
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"
)

// The first layer of a network sees one channel: its voxels lie next to each other, without lanes.
// Its inputs are transformed along x, with 16 rows in the lanes, and multiplied by weights that are
// transformed along x. So F(4,5) multiplies twice for each output and row of taps where a direct
// convolution multiplies five times. Along y and z nothing is transformed: outputs have 16 lanes,
// inputs have one, so to transform outputs along more axes takes longer than it saves.

// onePoints is a tensor of one channel, transformed along x: [image][plane][point][tile][row], with
// the planes and rows of the padding.
type onePoints struct {
	cpu           *CPU
	f             *transforms
	x             layout
	pad           [3]int
	tile          toomcook.Tile
	points, tiles int
	planes        int // of an image
	rows, columns int // of a plane with its padding, rounded up to whole vectors
	point, plane  int // from one point, and from one plane, to the next
	size          int // elements of all planes
	work, total   int // elements of a worker's scratch memory, which follows; of all

	in, to Slice
}

// oneTile is the tile for a first layer: of one input channel, and rows of five or three taps.
func oneTile(s device.ConvSpec) (t toomcook.Tile, ok bool) {
	ofGroup := s.OfGroup()
	t = toomcook.Tile{Outputs: 4, Taps: s.Kernel[2]}
	return t, ofGroup.In == 1 && ofGroup.Out > 1 && s.Stride == [3]int{1, 1, 1} && (t.Taps == 5 || t.Taps == 3)
}

func newOnePoints(c *CPU, s device.ConvSpec, t toomcook.Tile) onePoints {
	out := s.OutSize()
	p := onePoints{cpu: c, f: c.kernels.winograd[t], x: inputsOf(s), pad: s.Pad, tile: t, points: t.Points(),
		tiles: (out[2] + t.Outputs - 1) / t.Outputs, planes: out[0] + s.Kernel[0] - 1}
	p.rows = aligned(out[1] + s.Kernel[1] - 1)
	p.columns = aligned(p.tiles*t.Outputs + t.Taps - 1)
	p.point = p.tiles * p.rows
	p.plane = oddLines(p.points * p.point)
	p.size = p.x.n * p.planes * p.plane
	p.work = 2 * p.rows * p.columns
	p.total = p.size + c.opt.Threads*p.work
	return p
}

// transform transforms all planes of in.
func (p *onePoints) transform(in, scratch Slice) {
	p.in, p.to = in, scratch
	p.cpu.pool.run(p.x.n*p.planes, p)
	p.in = nil
}

// at is where the tiles of the first point of a plane lie.
func (p *onePoints) at(n, z int) []float32 { return p.to[(n*p.planes+z)*p.plane:] }

// do transforms one plane.
func (p *onePoints) do(worker, item int) {
	n, z := item/p.planes, item%p.planes-p.pad[0]
	to := p.at(n, item%p.planes)[:p.plane]
	if z < 0 || z >= p.x.size[0] {
		clear(to)
		return
	}
	work := p.to[p.size+worker*p.work:][:p.work]
	rows, turned := work[:p.work/2], work[p.work/2:]
	clear(rows)
	left, width := p.pad[2], min(p.x.size[2], p.columns-p.pad[2])
	for y := range min(p.x.size[1], p.rows-p.pad[1]) {
		copy(rows[(y+p.pad[1])*p.columns+left:][:width],
			p.in[p.x.plane(n, 0)+(z*p.x.size[1]+y)*p.x.size[2]:][:width])
	}
	for y := 0; y < p.rows; y += block {
		for x := 0; x < p.columns; x += block {
			p.cpu.kernels.transpose(&turned[x*p.rows+y], &rows[y*p.columns+x], p.rows, p.columns)
		}
		p.f.data(&to[y], &turned[y], p.point, p.rows, p.rows, p.tile.Outputs*p.rows, p.tiles)
	}
}

// oneChannel is a convolution of one input channel. An item is a plane of outputs: a tile of a band
// of rows at a time, so that their products stay in L1.
type oneChannel struct {
	in    onePoints
	out   layout
	w     weightLayout
	ky    int // taps along y
	taps  int // of a point: those along z and y
	bias  bool
	terms []term // of the taps along z
	band  int    // rows

	// After the points lie the bias, transformed weights ([block][point][tap][16]), and what each
	// worker needs: the products of two blocks ([block][point][row][16]), and a tile.
	biasAt, weightsAt, workAt, work, total int

	y, wp, scratch Slice
}

func newOneChannel(c *CPU, s device.ConvSpec, t toomcook.Tile) *oneChannel {
	k := &oneChannel{in: newOnePoints(c, s, t), out: outputsOf(s), w: weightsOfGroup(s), ky: s.Kernel[1],
		taps: s.Kernel[0] * s.Kernel[1], bias: s.Bias}
	k.band = min(24, k.out.size[1])
	for z := range s.Kernel[0] {
		k.terms = append(k.terms, term{z * k.in.plane, z * k.ky * block})
	}
	k.biasAt = aligned(k.in.total)
	k.weightsAt = k.biasAt + k.out.blocks*block
	k.workAt = k.weightsAt + k.out.blocks*k.group()
	k.work = 2*k.products() + k.band*t.Outputs*block
	k.total = k.workAt + c.opt.Threads*k.work
	return k
}

// group and products are from one block to the next, of transformed weights and of products.
func (k *oneChannel) group() int    { return k.in.points * k.taps * block }
func (k *oneChannel) products() int { return k.in.points * k.band * block }

// Scratch implements [device.Kernel].
func (k *oneChannel) Scratch() int64 { return bytesOf(k.total) }

// Run implements [device.Kernel].
func (k *oneChannel) Run(out, in []device.Buffer, scratch device.Buffer) {
	runConvolver(k, out, in, scratch)
}

func (k *oneChannel) convolve(y, x, w, bias, scratch Slice) {
	k.in.transform(x, scratch)
	k.y, k.scratch, k.wp = y, scratch, scratch[k.weightsAt:k.workAt]
	padded := scratch[k.biasAt:k.weightsAt]
	clear(padded)
	if k.bias {
		pad(padded, bias[:k.out.channels])
	}
	for ob := range k.out.blocks {
		r := k.in.tile.Taps
		k.in.f.weights(&k.wp[ob*k.group()], &k.w.pair(w, ob, 0)[0], k.taps*block, block, block, r*block, k.taps)
	}
	k.in.cpu.pool.run(k.out.n*k.out.size[0], k)
	k.y, k.wp, k.scratch, k.in.to = nil, nil, nil, nil
}

// do computes one plane of outputs.
func (k *oneChannel) do(worker, item int) {
	n, z := item/k.out.size[0], item%k.out.size[0]
	work := k.scratch[k.workAt+worker*k.work:][:k.work]
	for y := 0; y < k.out.size[1]; y += k.band {
		for tile := range k.in.tiles {
			for ob := 0; ob < k.out.blocks; ob += 2 {
				k.multiply(work, n, z, y, tile, ob)
			}
		}
	}
}

// multiply computes outputs of up to two blocks: a tile of some rows, from row y on.
func (k *oneChannel) multiply(work []float32, n, z, y, tile, ob int) {
	in, ks := k.in.at(n, z)[tile*k.in.rows+y:], k.in.cpu.kernels
	by := product{rows: min(k.band, k.out.size[1]-y), vectors: min(2, k.out.blocks-ob), k: k.ky, as: 1, bs: block,
		bv: k.group(), cs: block, cv: k.products()}
	for p := range k.in.points {
		ks.rowsProduct(&by, in[p*k.in.point:], k.wp[ob*k.group()+p*k.taps*block:], work[p*k.band*block:], k.terms)
	}
	m, width := k.in.tile.Outputs, k.out.size[2]
	for v := range by.vectors {
		bias, from := &k.scratch[k.biasAt+(ob+v)*block], work[v*k.products():]
		to := k.y[k.out.plane(n, ob+v)+((z*k.out.size[1]+y)*width+tile*m)*block:]
		if tile*m+m <= width {
			k.in.f.output(&to[0], &from[0], block, k.band*block, width*block, block, by.rows, bias)
			continue
		}
		last := work[2*k.products():] // with outputs past the row
		k.in.f.output(&last[0], &from[0], block, k.band*block, m*block, block, by.rows, bias)
		for i := range by.rows {
			copy(to[i*width*block:][:width%m*block], last[i*m*block:])
		}
	}
}

// oneChannelWeights is the gradient of the weights of such a layer. An item is a slab of output
// planes. Of each it transforms a band of rows of output gradients along x, and sums for each point
// the products of the taps along z and y: of 5 x 5 in registers down the rows of a tile, of others
// a row of taps at a time, down the rows of all tiles.
type oneChannelWeights struct {
	slabSums
	in        onePoints
	kernel    [3]int
	band      int    // rows
	dyPoint   int    // from one point to the next of output gradients: [point][tile][row][16]
	terms     []term // where tiles start in the inputs and there
	pointTaps int    // elements of the sums of a block ([point][tap][16])
}

const (
	side             = 5 // of the taps of outerTaps
	oneChannelSlabs  = 32
	oneChannelPlanes = 4 // at least, in a slab
	oneChannelBand   = 16
)

func newOneChannelWeights(c *CPU, s device.ConvSpec, t toomcook.Tile) *oneChannelWeights {
	k := &oneChannelWeights{slabSums: newSlabSums(c, s), in: newOnePoints(c, s, t), kernel: s.Kernel}
	k.sums = k
	k.slabs = max(1, min(oneChannelSlabs, k.y.n*k.y.size[0]/oneChannelPlanes))
	k.band = min(oneChannelBand, k.y.size[1])
	k.dyPoint = oddLines(k.in.tiles * k.band * block)
	k.pointTaps = k.in.points * s.Kernel[0] * s.Kernel[1] * block
	for tile := range k.in.tiles {
		k.terms = append(k.terms, term{tile * k.in.rows, tile * k.band * block})
	}
	k.work = aligned(k.y.blocks*k.pointTaps + k.in.points*k.dyPoint + t.Outputs*block)
	return k
}

// Scratch implements [device.Kernel].
func (k *oneChannelWeights) Scratch() int64 {
	return bytesOf(aligned(k.in.total)) + k.slabSums.Scratch()
}

// Run implements [device.Kernel].
func (k *oneChannelWeights) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.run(k, out, in, scratch)
}

func (k *oneChannelWeights) convolve(dw, x, dy, _, scratch Slice) {
	k.in.transform(x, scratch)
	k.slabSums.convolve(dw, x, dy, nil, scratch[aligned(k.in.total):])
	k.in.to = nil
}

// do sums one slab.
func (k *oneChannelWeights) do(worker, slab int) {
	work := k.ofWorker(worker)
	sums, work := work[:k.y.blocks*k.pointTaps], work[k.y.blocks*k.pointTaps:]
	clear(sums)
	begin, end := k.part(slab, k.y.n*k.y.size[0])
	for plane := begin; plane < end; plane++ {
		n, z := plane/k.y.size[0], plane%k.y.size[0]
		for y := 0; y < k.y.size[1]; y += k.band {
			for ob := range k.y.blocks {
				k.addBand(sums[ob*k.pointTaps:], work, n, z, y, ob)
			}
		}
	}
	taps := k.kernel[0] * k.kernel[1]
	for ob := range k.y.blocks {
		k.in.f.weightGrad(&k.w.pair(k.sum(slab), ob, 0)[0], &sums[ob*k.pointTaps], block, taps*block,
			k.kernel[2]*block, block, taps)
	}
}

// addBand adds the products of some rows of output gradients, from row y on.
func (k *oneChannelWeights) addBand(sums, work []float32, n, z, y, ob int) {
	m, width, rows := k.in.tile.Outputs, k.y.size[2], min(k.band, k.y.size[1]-y)
	last := work[k.in.points*k.dyPoint:][:m*block]
	for i := range rows {
		from, whole := k.dy[k.y.plane(n, ob)+(z*k.y.size[1]+y+i)*width*block:], width/m
		if whole > 0 {
			k.in.f.grad(&work[i*block], &from[0], k.dyPoint, block, k.band*block, m*block, whole)
		}
		if whole < k.in.tiles {
			pad(last, from[whole*m*block:width*block])
			k.in.f.grad(&work[(whole*k.band+i)*block], &last[0], k.dyPoint, block, 0, 0, 1)
		}
	}
	in, kz, ky := k.in.at(n, z), k.kernel[0], k.kernel[1]
	by := product{rows: ky, vectors: 1, k: rows, as: 1, bs: block, cs: block, add: true}
	for p := range k.in.points {
		in, dy, sums := in[p*k.in.point+y:], work[p*k.dyPoint:], sums[p*kz*ky*block:]
		if kz == side && ky == side {
			for _, t := range k.terms {
				k.cpu.kernels.outerTaps(&in[t[0]], &dy[t[1]], &sums[0], rows, k.in.plane)
			}
			continue
		}
		for z := range kz {
			k.cpu.kernels.rowsOuter(&by, in[z*k.in.plane:], dy, sums[z*ky*block:], k.terms)
		}
	}
}
