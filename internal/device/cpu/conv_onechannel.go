package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// oneChannelWeights is the weight gradient of a 5^3 convolution of stride 1 with one input channel:
// the first layer of a network, where voxels are many and weights few.
//
// An item is a slab of output planes; it keeps the five padded input planes that the present output
// plane needs, and sums 25 taps at a time in registers, along a row of voxels.
type oneChannelWeights struct {
	slabSums
	s     device.ConvSpec
	width int // of a padded row
	plane int // of a padded plane
}

const (
	side             = 5 // of the kernel
	oneChannelSlabs  = 32
	oneChannelPlanes = 4 // at least, in a slab
)

func newOneChannelWeights(c *CPU, s device.ConvSpec) *oneChannelWeights {
	k := &oneChannelWeights{slabSums: newSlabSums(c, s), s: s}
	k.sums = k
	k.width = k.y.size[2] + side - 1
	k.plane = (k.y.size[1] + side - 1) * k.width
	k.slabs = max(1, min(oneChannelSlabs, k.y.n*k.y.size[0]/oneChannelPlanes))
	k.work = aligned(side * k.plane)
	return k
}

// do sums one slab.
func (k *oneChannelWeights) do(worker, slab int) {
	sum := k.sum(slab)
	clear(sum)
	// input plane z lies at (z + pad) mod 5
	ring := k.ofWorker(worker)
	have := -1 // the last padded plane of the image that lies in the ring
	begin, end := k.part(slab, k.y.n*k.y.size[0])
	for plane := begin; plane < end; plane++ {
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
					k.cpu.kernels.outerTaps(&ring[(z+kz)%side*k.plane+y*k.width], &dy[0],
						&sum[(ob*side+kz)*side*side*block], k.y.size[2], k.width)
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
		copy(to[row*k.width+k.s.Pad[2]:][:k.width-k.s.Pad[2]],
			k.xs[k.x.plane(n, 0)+(z*k.x.size[1]+y)*k.x.size[2]:][:k.x.size[2]])
	}
}
