package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// Where an image has a few voxels only, many taps of a large kernel fall on padding: at 2^3, 8 of
// 125 are alive for each output, at 4^3 43. And there are so few outputs that to read the weights
// takes as long as to multiply by them. So only what is alive is multiplied, and the weights of a
// group of output channels and a block of input channels are read from memory once, for all
// outputs.
//
// Where images are many, they are the rows of a product; where they are few, outputs along x are,
// whose inputs are copied into rows that have the padding along x. A product is summed over taps in
// registers while the weights lie in L2:
//
//	for each group of output channels:          an item
//		for each block of input channels:
//			for each output voxel, or row of them: add the product over its taps that are alive
type small struct {
	cpu   *CPU
	g     geometry
	along bool // rows along x
	width int  // voxels of a copied row of inputs
	first int  // tap that is alive
	taps  int  // from there to the last one that is: those that are exchanged
	// of the outputs, so that there is work for every thread where there are few groups
	parts [][]smallSum

	as, cs int // from one row to the next, in inputs and outputs

	// the bias lies at 0; in a worker's scratch the exchanged weights, and copied rows
	workAt, rowsAt, work, total int

	out, in, w, scratch Slice
}

// smallSum is an output voxel of all images, or a row of them of one: where it lies in a block.
type smallSum struct {
	out, rows   int
	whole, last []term // for a whole block of input channels, and for the last one if it has fewer
}

func newSmall(c *CPU, g geometry) *small {
	k := &small{cpu: c, g: g, along: g.out.size[2] > g.out.n, first: g.weights.taps,
		parts: make([][]smallSum, (c.opt.Threads+g.groups()-1)/g.groups())}
	k.as, k.cs = g.in.plane(1, 0), g.out.plane(1, 0)
	rows := 0
	if k.along {
		k.as, k.cs = g.stride[2]*block, g.step[2]*block
		for _, p := range g.phases {
			k.width = max(k.width, g.stride[2]*(p.count[2]-1)+1+g.hi[2]-g.lo[2])
		}
		rows = g.in.size[0] * g.in.size[1] * k.width * block
	}
	for i := range k.parts {
		for j := range g.phases {
			k.plan(i, &g.phases[j])
		}
	}
	k.taps = max(0, k.taps-k.first)
	k.workAt = aligned(g.out.blocks * block)
	if g.exchanged {
		k.rowsAt = 2 * g.weights.taps * block * block
	}
	k.work = aligned(k.rowsAt + rows)
	k.total = k.workAt + k.work*c.opt.Threads
	return k
}

// lines is the range of rows of outputs, counted along z and y, that a part has of a phase.
func (k *small) lines(p *phase, part int) (from, to int) {
	n := p.count[0] * p.count[1]
	return part * n / len(k.parts), (part + 1) * n / len(k.parts)
}

// plan lists the products of one part of a phase.
func (k *small) plan(part int, p *phase) {
	g := &k.g
	from, end := k.lines(p, part)
	columns, rows := p.count[2], g.out.n // of sums
	if k.along {
		columns, rows = 1, p.count[2]
	}
	at := len(k.parts[part])
	for line := from; line < end; line++ {
		for x := range columns {
			_, out := k.offsets(p, tap{}, [3]int{line / p.count[1], line % p.count[1], x})
			k.parts[part] = append(k.parts[part], smallSum{out: out, rows: rows})
		}
	}
	sums := k.parts[part][at:]
	for _, t := range p.taps {
		w, last := t.w*block*block, t.w*g.weights.tap(g.in.blocks-1)
		k.eachLine(p, t, from, end, func(z, y, firstX, endX int) {
			if k.along {
				firstX, endX = 0, 1
			}
			for x := firstX; x < endX; x++ {
				in, _ := k.offsets(p, t, [3]int{z, y, x})
				s := &sums[(z*p.count[1]+y-from)*columns+x]
				s.whole = append(s.whole, term{in, w})
				s.last = append(s.last, term{in, last})
			}
		})
	}
}

// eachLine calls f for the rows of outputs that a tap reaches, out of a range of them, with the
// outputs along x, and notes that the tap is alive.
func (k *small) eachLine(p *phase, t tap, from, to int, f func(z, y, firstX, endX int)) {
	var first, end [3]int
	for i := range 3 {
		first[i], end[i] = liveOutputs(p.count[i], k.g.in.size[i], k.g.stride[i], t.d[i])
	}
	if first[2] >= end[2] {
		return
	}
	for z := first[0]; z < end[0]; z++ {
		for y := max(first[1], from-z*p.count[1]); y < min(end[1], to-z*p.count[1]); y++ {
			k.first, k.taps = min(k.first, t.w), max(k.taps, t.w+1)
			f(z, y, first[2], end[2])
		}
	}
}

// offsets is where an output lies in a block of an image, and the input that a tap multiplies, in
// its block or in the copied rows.
func (k *small) offsets(p *phase, t tap, o [3]int) (in, out int) {
	size, first := k.g.in.size, 0
	if k.along {
		size[2], first = k.width, k.g.lo[2]
	}
	for i, o := range o {
		in = in*size[i] + k.g.stride[i]*o + t.d[i]
		out = out*k.g.out.size[i] + p.origin[i] + k.g.step[i]*o
	}
	return (in - first) * block, out * block
}

// smallCost is in multiplications of vectors.
func smallCost(g *geometry, k *small) float64 {
	return float64(g.in.channels*g.out.blocks) * float64(readCost*k.taps+k.liveProducts())
}

// liveProducts is the number of pairs of a voxel and a tap that are multiplied, for each pair of
// channels. Those of a row include padding: where a tap is alive for one output, all have it.
func (k *small) liveProducts() (n int) {
	for _, part := range k.parts {
		for _, s := range part {
			n += s.rows * len(s.whole) * k.images()
		}
	}
	return n
}

// images is how often the sums are computed: for each image where its rows are outputs along x.
func (k *small) images() int {
	if k.along {
		return k.g.out.n
	}
	return 1
}

// Scratch implements [device.Kernel].
func (k *small) Scratch() int64 { return bytesOf(k.total) }

// Run implements [device.Kernel].
func (k *small) Run(out, in []device.Buffer, scratch device.Buffer) {
	runConvolver(k, out, in, scratch)
}

func (k *small) convolve(y, x, w, bias, scratch Slice) {
	k.out, k.in, k.w, k.scratch = y, x, w, scratch
	padded := k.scratch[:k.workAt]
	clear(padded)
	if k.g.bias {
		pad(padded, bias[:k.g.out.channels])
	}
	k.cpu.pool.run(k.g.groups()*len(k.parts), k)
	k.out, k.in, k.w, k.scratch = nil, nil, nil, nil
}

// do computes one part of the outputs of one group of output channels.
func (k *small) do(worker, item int) {
	g := &k.g
	group, part := item/len(k.parts), item%len(k.parts)
	work := k.scratch[k.workAt+worker*k.work:][:k.work]
	k.setBias(group, part)
	for ib := range g.in.blocks {
		weights, bv := k.weights(work, group, ib)
		next := k.next(group, ib, len(k.parts[part])*k.images())
		for n := range k.images() {
			k.add(k.inputs(work[k.rowsAt:], n, ib), weights, bv, n, group, ib, k.parts[part], &next)
		}
	}
}

// inputs is a block of input channels of all images, or copied rows of one.
func (k *small) inputs(rows []float32, n, ib int) []float32 {
	in := k.in[k.g.in.plane(n, ib):]
	if k.along {
		size, row := k.g.in.size, k.width*block
		for z := range size[0] {
			for y := range size[1] {
				copyRow(rows[(z*size[1]+y)*row:][:row], in[z*size[1]*size[2]*block:], k.g.in, block, y, k.g.lo[2])
			}
		}
		return rows
	}
	return in
}

// add adds the products of a block of input channels.
func (k *small) add(in, weights []float32, bv, n, group, ib int, sums []smallSum, next *ahead) {
	g := &k.g
	out, channels := k.out[g.out.plane(n, 2*group):], g.weights.inputs(ib)
	by := product{vectors: g.vectors(group), k: channels, as: k.as, bs: block, bv: bv, cs: k.cs,
		cv: g.out.voxels * block, add: true}
	for i := range sums {
		next.next()
		s := &sums[i]
		by.rows = s.rows
		terms := s.whole
		if channels < block {
			terms = s.last
		}
		if len(terms) > 0 {
			k.cpu.kernels.rowsProduct(&by, in, weights, out[s.out:], terms)
		}
	}
}

// operand is the weights of a pair of blocks as they are given, those of the taps from the first
// one that is alive to the last.
func (k *small) operand(ob, ib int) []float32 {
	l, first := k.g.weights, k.first
	if k.g.exchanged {
		l, ob, ib, first = l.swapped(), ib, ob, l.taps-k.first-k.taps
	}
	return l.pair(k.w, ob, ib)[first*l.tap(ib):][:k.taps*l.tap(ib)]
}

// next has the weights of the next block of input channels fetched, in so many pieces.
func (k *small) next(group, ib, pieces int) ahead {
	a := ahead{fetch: k.cpu.kernels.fetch}
	if ib+1 < k.g.in.blocks {
		for v := range k.g.vectors(group) {
			a.add(v, k.operand(2*group+v, ib+1), pieces)
		}
	}
	return a
}

// weights is where those of a block of input channels and a group of output channels lie: in place,
// or turned round in scratch memory. bv is the distance from one output block to the next.
func (k *small) weights(work []float32, group, ib int) (weights []float32, bv int) {
	l := k.g.weights
	if !k.g.exchanged {
		return k.w[l.at(2*group, ib):], l.group()
	}
	tap := l.tap(ib)
	for v := range k.g.vectors(group) {
		ob := 2*group + v
		k.cpu.kernels.exchange(work[(v*l.taps+k.first)*tap:], k.operand(ob, ib), k.taps, l.outputs(ob), l.inputs(ib))
	}
	return work, l.taps * tap
}

// setBias sets the outputs of one part of a group to the bias.
func (k *small) setBias(group, part int) {
	g := &k.g
	for i := range g.phases {
		p := &g.phases[i]
		from, to := k.lines(p, part)
		for line := from; line < to; line++ {
			_, at := k.offsets(p, tap{}, [3]int{line / p.count[1], line % p.count[1], 0})
			for v := range g.vectors(group) {
				bias := (*[block]float32)(k.scratch[(2*group+v)*block:])
				for n := range g.out.n {
					row := k.out[g.out.plane(n, 2*group+v)+at:]
					for x := range p.count[2] {
						*(*[block]float32)(row[x*g.step[2]*block:]) = *bias
					}
				}
			}
		}
	}
}

// smallWeights is the weight gradient of small images: for each tap that is alive, outer products
// of the voxels it connects, summed over voxels and images.
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
	k := &smallWeights{gradientSink: gradientSink{w: g.weights}, cpu: c, x: g.in, y: g.out, taps: g.weights.taps,
		xs: g.in.plane(1, 0), ys: g.out.plane(1, 0)}
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
						if iz >= 0 && iz < g.in.size[0] && iy >= 0 && iy < g.in.size[1] && ix >= 0 &&
							ix < g.in.size[2] {
							tap.terms = append(tap.terms,
								term{g.in.plane(n, 0) + ((iz*g.in.size[1]+iy)*g.in.size[2]+ix)*block,
									g.out.plane(n, 0) + ((z*g.out.size[1]+y)*g.out.size[2]+x)*block})
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

// smallWeightsCost is in multiplications of vectors.
func smallWeightsCost(k *smallWeights) float64 {
	return float64(k.x.channels*k.y.blocks) * float64(writeCost*k.taps+k.liveProducts())
}

// liveProducts is the number of pairs of a voxel and a tap that are multiplied, for each pair of
// channels.
func (k *smallWeights) liveProducts() (n int) {
	for _, t := range k.live {
		n += t.k * len(t.terms)
	}
	return n
}

// Scratch implements [device.Kernel].
func (k *smallWeights) Scratch() int64 {
	if k.keeps() {
		return 0
	}
	return bytesOf(k.cpu.opt.Threads * k.stage())
}

// stage is the number of elements of two pairs of blocks, in which a worker makes gradients that
// are used up.
func (k *smallWeights) stage() int { return 2 * k.taps * block * block }

// Run implements [device.Kernel].
func (k *smallWeights) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.run(k, out, in, scratch)
}

func (k *smallWeights) convolve(dw, x, dy, _, scratch Slice) {
	k.dw, k.in, k.dy, k.scratch = dw, x, dy, scratch
	k.cpu.pool.run(k.x.blocks*((k.y.blocks+1)/2), k)
	k.dw, k.in, k.dy, k.scratch = nil, nil, nil, nil
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
	by := product{rows: k.w.inputs(b), vectors: vectors, as: k.xs, bs: k.ys, bv: k.y.voxels * block, cs: block, cv: cv}
	for i := range k.live {
		t := &k.live[i]
		by.k = t.k
		k.cpu.kernels.rowsOuter(&by, k.in[k.x.plane(0, b):], k.dy[k.y.plane(0, 2*group):], to[t.tap*k.w.tap(b):],
			t.terms)
	}
	if !k.keeps() {
		for v := range vectors {
			k.take(to[v*cv:], 2*group+v, b)
		}
	}
}
