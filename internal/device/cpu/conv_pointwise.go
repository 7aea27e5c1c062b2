package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// A 1x1 convolution of photographs is a product of matrices: the rows are the pixels of all images,
// the columns the output channels, and input channels are summed over. Where images are small,
// pixels of several of them are multiplied by the same weights, so that weights are read from
// memory less often. With a stride only the pixels that count are multiplied.
//
// An item is some rows and some blocks of output channels. The rows are copied into scratch memory,
// a part of the channels at a time, so that the copy stays in a second-level cache and the weights
// of a block for these channels in a first-level one:
//
//	for each part of the input channels:
//		copy the rows
//		for each block of output channels: add the product

// isPointwise says whether this is such a convolution. Maps of one voxel may be those of a volume.
func isPointwise(s device.ConvSpec) bool {
	return s.Size[0] == 1 && s.Size[1]*s.Size[2] > 1 && s.Kernel == [3]int{1, 1, 1} && s.Pad == [3]int{} &&
		min(s.OfGroup().In, s.OfGroup().Out) > 1
}

const (
	pointwiseRows  = 128 // of an item, about
	pointwiseDepth = 256 // input channels at a time
	// outputs that follow each other in memory, at least, to be multiplied where they lie
	pointwiseRun = 12
)

type pointwise struct {
	cpu *CPU
	g   geometry
	pixelChunks

	// where the pixels lie in a block of an input and of an output; the end of an output
	from, to []int
	depth    int // input channels at a time
	stride   int // from one row of the copy to the next
	blocks   int // of outputs in an item
	// products are staged in scratch memory, as outputs of few pixels in a row do not lie together
	stages bool

	workAt, work, total int // the exchanged weights lie at 0, then the bias

	out, in, w, bias, scratch Slice
}

// pixelChunks cuts the pixels that a convolution multiplies into chunks: a part of an image, or
// several images.
type pixelChunks struct {
	n, height, width int // images and their pixels
	images           int // of a chunk
	parts            int // of an image
}

func chunksOfPixels(n int, size [3]int, rows int) pixelChunks {
	c := pixelChunks{n: n, height: size[1], width: size[2], images: 1, parts: 1}
	if pixels := size[1] * size[2]; pixels >= rows {
		c.parts = (pixels + rows - 1) / rows
	} else {
		chunks := (n*pixels + rows - 1) / rows
		c.images = (n + chunks - 1) / chunks
	}
	return c
}

func (c *pixelChunks) pixels() int { return c.height * c.width }
func (c *pixelChunks) count() int  { return (c.n + c.images - 1) / c.images * c.parts }

// rows is the most that a chunk has.
func (c *pixelChunks) rows() int { return c.images * ((c.pixels() + c.parts - 1) / c.parts) }

// chunk is the images of a chunk, and the pixels of each.
func (c *pixelChunks) chunk(i int) (n, endN, first, end int) {
	n, part := i/c.parts*c.images, i%c.parts
	return n, min(n+c.images, c.n), part * c.pixels() / c.parts, (part + 1) * c.pixels() / c.parts
}

// pixelsOf is where the pixels of a chunk's grid lie in a block of an image, a step apart there.
func pixelsOf(l layout, c pixelChunks, step [3]int) []int {
	list := make([]int, 0, c.pixels()+1)
	for y := range c.height {
		for x := range c.width {
			list = append(list, (y*step[1]*l.size[2]+x*step[2])*block)
		}
	}
	return list
}

// copyPixels copies pixels of a block into rows, stride elements from one to the next.
func copyPixels(rows []float32, stride int, from []float32, pixels []int) {
	for i, at := range pixels {
		*(*[block]float32)(rows[i*stride:]) = *(*[block]float32)(from[at:])
	}
}

func newPointwise(c *CPU, g geometry) *pointwise {
	k := &pointwise{cpu: c, g: g, pixelChunks: chunksOfPixels(g.in.n, g.phases[0].count, pointwiseRows)}
	k.from, k.to = pixelsOf(g.in, k.pixelChunks, g.stride), append(pixelsOf(g.out, k.pixelChunks, g.step),
		g.out.voxels*block)
	passes := (g.in.channels + pointwiseDepth - 1) / pointwiseDepth
	k.depth = aligned((g.in.channels + passes - 1) / passes)
	k.stride = k.depth + block
	k.stages = g.step != [3]int{1, 1, 1} || k.rows() < pointwiseRun*k.images
	k.blocks = g.out.blocks
	for k.blocks > 8 && (k.stages && k.blocks > 16 ||
		k.count()*((g.out.blocks+k.blocks-1)/k.blocks) < 4*c.opt.Threads) {
		k.blocks = (k.blocks + 1) / 2
	}
	if g.exchanged {
		k.workAt = g.weights.elements()
	}
	k.workAt += g.out.blocks * block
	k.work = k.rows() * k.stride
	if k.stages {
		k.work += k.rows() * k.blocks * block
	}
	k.work = aligned(k.work)
	k.total = k.workAt + k.work*c.opt.Threads
	return k
}

// Scratch implements [device.Kernel].
func (k *pointwise) Scratch() int64 { return bytesOf(k.total) }

// Run implements [device.Kernel].
func (k *pointwise) Run(out, in []device.Buffer, scratch device.Buffer) {
	runConvolver(k, out, in, scratch)
}

func (k *pointwise) convolve(y, x, w, bias, scratch Slice) {
	k.out, k.in, k.w, k.scratch = y, x, w, scratch
	k.bias = scratch[k.workAt-k.g.out.blocks*block : k.workAt]
	clear(k.bias)
	if k.g.bias {
		pad(k.bias, bias[:k.g.out.channels])
	}
	if k.g.exchanged {
		k.cpu.pool.run(k.g.weights.pairs(), (*pointwiseExchange)(k))
		k.w = scratch[:k.g.weights.elements()]
	}
	k.cpu.pool.run(k.count()*k.ranges(), k)
	k.out, k.in, k.w, k.bias, k.scratch = nil, nil, nil, nil, nil
}

// ranges is how many ranges of blocks of outputs there are.
func (k *pointwise) ranges() int { return (k.g.out.blocks + k.blocks - 1) / k.blocks }

// pointwiseExchange turns one pair of channel blocks of the weights round.
type pointwiseExchange pointwise

func (k *pointwiseExchange) do(_, item int) {
	k.cpu.kernels.exchangePair(k.g.weights, k.scratch, k.w, item)
}

// do computes one item.
func (k *pointwise) do(worker, item int) {
	g := &k.g
	n, endN, first, end := k.chunk(item / k.ranges())
	ob := item % k.ranges() * k.blocks
	endB := min(ob+k.blocks, g.out.blocks)
	work := k.scratch[k.workAt+worker*k.work:][:k.work]
	rows, stage := work[:k.rows()*k.stride], work[k.rows()*k.stride:]
	biased := g.bias && !k.stages
	if biased || g.step != [3]int{1, 1, 1} {
		k.setBias(n, endN, first, end, ob, endB)
	}
	for c := 0; c < g.in.channels; c += k.depth {
		depth := min(k.depth, g.in.channels-c)
		k.copyRows(rows, n, endN, first, end, c, depth)
		by := product{k: depth, as: k.stride, bs: block, cs: block, add: biased || c > 0}
		for b := ob; b < endB; b += 2 {
			by.vectors = min(2, endB-b)
			by.bv = g.weights.group()
			weights := k.w[g.weights.at(b, 0)+c*block:]
			if k.stages {
				by.rows, by.cv = (endN-n)*(end-first), k.rows()*block
				k.cpu.kernels.rowsProduct(&by, rows, weights, stage[(b-ob)*k.rows()*block:], oneTerm)
				continue
			}
			by.rows, by.cv = end-first, g.out.voxels*block
			for i := n; i < endN; i++ {
				k.cpu.kernels.rowsProduct(&by, rows[(i-n)*by.rows*k.stride:], weights,
					k.out[g.out.plane(i, b)+first*block:], oneTerm)
			}
		}
	}
	if k.stages {
		k.scatter(stage, n, endN, first, end, ob, endB)
	}
}

// copyRows copies some input channels of a chunk of pixels, a row a pixel.
func (k *pointwise) copyRows(rows []float32, n, endN, first, end, c, depth int) {
	for i := n; i < endN; i++ {
		for j := 0; j < depth; j += block {
			copyPixels(rows[j:], k.stride, k.in[k.g.in.plane(i, (c+j)/block):], k.from[first:end])
		}
		rows = rows[(end-first)*k.stride:]
	}
}

// setBias fills the outputs of an item with the bias. Where outputs lie a step apart, it fills all
// pixels, though the product adds to some of them only.
func (k *pointwise) setBias(n, endN, first, end, ob, endB int) {
	for i := n; i < endN; i++ {
		for b := ob; b < endB; b++ {
			bias := (*[block]float32)(k.bias[b*block:])
			to := k.out[k.g.out.plane(i, b):]
			for at := k.to[first]; at < k.to[end]; at += block {
				*(*[block]float32)(to[at:]) = *bias
			}
		}
	}
}

// scatter moves the staged products of an item to where they lie.
func (k *pointwise) scatter(stage []float32, n, endN, first, end, ob, endB int) {
	for b := ob; b < endB; b++ {
		from, bias := stage[(b-ob)*k.rows()*block:], (*[block]float32)(k.bias[b*block:])
		for i := n; i < endN; i++ {
			to := k.out[k.g.out.plane(i, b):]
			for _, at := range k.to[first:end] {
				x, y := (*[block]float32)(from), (*[block]float32)(to[at:])
				for lane := range y {
					y[lane] = x[lane] + bias[lane]
				}
				from = from[block:]
			}
		}
	}
}
