package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// The first layer of a network of photographs sees three channels, which take a whole block of 16
// lanes in memory. Its kernels copy the inputs that they need without the other lanes, so that all
// channels of a row of taps lie next to each other, as their weights do: a sum over 7 taps of 3
// channels is one over 21 neighbours.

// fewChannels says whether this is such a layer.
func fewChannels(s device.ConvSpec) bool {
	in := s.OfGroup().In
	return isFlat(s) && s.Size[0] == 1 && s.Kernel[2] > 1 && in > 1 && in <= 4
}

// newFewChannels is the convolution as it is written, without the lanes that hold no channel.
func newFewChannels(c *CPU, g geometry) *direct {
	return planDirect(&direct{cpu: c, g: g, lanes: g.in.channels, copies: true})
}

// fewChannelsWeights is the gradient of its weights. An item is a slab of images. Of each it takes
// a band of rows at a time, and sums a row of taps, all channels of it, in registers along the rows
// of voxels of the band.
type fewChannelsWeights struct {
	slabSums
	s       device.ConvSpec
	lanes   int
	columns int    // of a row of inputs as they are copied
	rows    int    // of outputs in a band
	terms   []term // of each row of outputs in a band: where it starts in the copy and in dy
}

const fewChannelsSlabs = 32

func newFewChannelsWeights(c *CPU, s device.ConvSpec) *fewChannelsWeights {
	k := &fewChannelsWeights{slabSums: newSlabSums(c, s), s: s}
	k.sums = k
	k.lanes = k.x.channels
	k.columns = s.Stride[2]*(k.y.size[2]-1) + s.Kernel[2]
	k.rows = min(k.y.size[1], max(1, bandVoxels/k.y.size[2]))
	k.slabs = min(fewChannelsSlabs, k.y.n)
	k.work = aligned((s.Stride[1]*(k.rows-1) + s.Kernel[1]) * k.columns * k.lanes)
	for y := range k.rows {
		k.terms = append(k.terms, term{y * s.Stride[1] * k.columns * k.lanes, y * k.y.size[2] * block})
	}
	return k
}

// do sums one slab.
func (k *fewChannelsWeights) do(worker, slab int) {
	sum := k.sum(slab)
	clear(sum)
	band := k.ofWorker(worker)
	begin, end := k.part(slab, k.y.n)
	for n := begin; n < end; n++ {
		for y := 0; y < k.y.size[1]; y += k.rows {
			k.addBand(sum, band, n, y, min(k.rows, k.y.size[1]-y))
		}
	}
}

// addBand adds the products of some rows of outputs of an image, from row y on.
func (k *fewChannelsWeights) addBand(sum, band []float32, n, y, rows int) {
	row := k.columns * k.lanes
	for i := range k.s.Stride[1]*(rows-1) + k.s.Kernel[1] {
		copyRow(band[i*row:][:row], k.xs[k.x.plane(n, 0):], k.x, k.lanes, k.s.Stride[1]*y+i-k.s.Pad[1], -k.s.Pad[2])
	}
	taps := k.s.Kernel[2] * k.lanes
	by := product{rows: taps, k: k.y.size[2], as: k.s.Stride[2] * k.lanes, bs: block, bv: k.y.voxels * block, cs: block,
		cv: k.w.group(), add: true}
	for ob := 0; ob < k.y.blocks; ob += 2 {
		by.vectors = min(2, k.y.blocks-ob)
		dy := k.dy[k.y.plane(n, ob)+y*k.y.size[2]*block:]
		for ky := range k.s.Kernel[1] {
			k.cpu.kernels.rowsOuter(&by, band[ky*row:], dy, sum[k.w.at(ob, 0)+ky*taps*block:], k.terms[:rows])
		}
	}
}
