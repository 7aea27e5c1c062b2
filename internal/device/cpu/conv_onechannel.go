package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// oneChannelWeights is the weight gradient of a 5^3 convolution of stride 1 with one input channel:
// the first layer of a network, where voxels are many and weights few.
//
// An item is a slab of output planes; it keeps the five padded input planes that the present output
// plane needs, and sums 25 taps at a time in registers, along a row of voxels.
type oneChannelWeights struct {
	gradientSink
	cpu   *CPU
	s     device.ConvSpec
	x, y  layout
	width int // of a padded row
	plane int // of a padded plane
	slabs int
	work  int

	xs, dy, scratch Slice
}

const (
	side             = 5 // of the kernel
	oneChannelSlabs  = 32
	oneChannelPlanes = 4 // at least, in a slab
)

func newOneChannelWeights(c *CPU, s device.ConvSpec) *oneChannelWeights {
	k := &oneChannelWeights{gradientSink: gradientSink{w: weightsOfGroup(s)}, cpu: c, s: s, x: inputsOf(s), y: outputsOf(s)}
	k.width = k.y.size[2] + side - 1
	k.plane = (k.y.size[1] + side - 1) * k.width
	k.slabs = max(1, min(oneChannelSlabs, k.y.n*k.y.size[0]/oneChannelPlanes))
	k.work = aligned(side * k.plane)
	return k
}

// Scratch implements [device.Kernel].
func (k *oneChannelWeights) Scratch() int64 {
	return bytesOf(k.whole() + (k.slabs-1)*k.w.elements() + k.cpu.opt.Threads*k.work)
}

// Run implements [device.Kernel].
func (k *oneChannelWeights) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.begin(out, in)
	k.convolve(k.dw, in[0].(Slice), in[1].(Slice), nil, scratch.(Slice))
	k.end(out)
}

func (k *oneChannelWeights) convolve(dw, x, dy, _, scratch Slice) {
	k.dw, k.xs, k.dy, k.scratch = dw, x, dy, scratch
	if !k.keeps() {
		k.dw, k.scratch = k.scratch[:k.whole()], k.scratch[k.whole():]
	}
	k.cpu.pool.run(k.slabs, k)
	for slab := 1; slab < k.slabs; slab++ {
		k.cpu.kernels.addVectors(k.sum(0), k.sum(slab))
	}
	if !k.keeps() {
		for ob := range k.w.outBlocks() {
			k.take(k.w.pair(k.dw, ob, 0), ob, 0)
		}
	}
	k.dw, k.xs, k.dy, k.scratch = nil, nil, nil, nil
}

// sum is where a slab is summed: the first one in the result, those after it in scratch memory.
func (k *oneChannelWeights) sum(slab int) []float32 {
	if slab == 0 {
		return k.dw[:k.w.elements()]
	}
	return k.scratch[(slab-1)*k.w.elements():][:k.w.elements()]
}

// do sums one slab.
func (k *oneChannelWeights) do(worker, slab int) {
	sum := k.sum(slab)
	clear(sum)
	// input plane z lies at (z + pad) mod 5
	ring := k.scratch[(k.slabs-1)*k.w.elements()+worker*k.work:][:k.work]
	planes := k.y.n * k.y.size[0]
	have := -1 // the last padded plane of the image that lies in the ring
	for plane := slab * planes / k.slabs; plane < (slab+1)*planes/k.slabs; plane++ {
		n, z := plane/k.y.size[0], plane%k.y.size[0]
		if z == 0 {
			have = -1
		}
		for p := max(have+1, z); p < z+side; p++ {
			k.copyPlane(ring[p%side*k.plane:][:k.plane], n, p-k.s.Pad[0])
		}
		have = z + side - 1
		for y := range k.y.size[1] {
			for ob := range k.y.blocks {
				dy := k.dy[k.y.plane(n, ob)+(z*k.y.size[1]+y)*k.y.size[2]*block:]
				for kz := range side {
					k.cpu.kernels.outerTaps(&ring[(z+kz)%side*k.plane+y*k.width], &dy[0], &sum[(ob*side+kz)*side*side*block], k.y.size[2], k.width)
				}
			}
		}
	}
}

// copyPlane copies an input plane with its padding, zeros where there is no such plane.
func (k *oneChannelWeights) copyPlane(to []float32, n, z int) {
	clear(to)
	if z < 0 || z >= k.x.size[0] {
		return
	}
	for y := range k.x.size[1] {
		row := y + k.s.Pad[1]
		if row >= k.y.size[1]+side-1 {
			return
		}
		copy(to[row*k.width+k.s.Pad[2]:][:k.width-k.s.Pad[2]], k.xs[k.x.plane(n, 0)+(z*k.x.size[1]+y)*k.x.size[2]:][:k.x.size[2]])
	}
}
