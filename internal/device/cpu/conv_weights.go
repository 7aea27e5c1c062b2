package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// directWeights is the gradient of the weights as it is written: for each tap, an outer product of
// inputs and output gradients summed over a row of voxels.
//
//	dw[o][i][tap] = sum over n, v of x[n][i][stride v + tap - pad] dy[n][o][v]
//
// An item is a slab of output planes, a block of input channels and a group of two blocks of output
// channels. It takes a band of rows of output gradients at a time, for all taps while the band
// stays in L1; the sums of a tap stay in registers over the band.
type directWeights struct {
	slabSums // of the N*D output planes
	s        device.ConvSpec
	groups   int
	blocks   int    // of input channels
	band     int    // rows
	rows     []term // of output voxels in a band: where they start in x and dy, from the first one
}

const (
	slabPlanes = 8
	bandVoxels = 128 // 24 KiB of a block of inputs and two of output gradients
)

func newDirectWeights(c *CPU, s device.ConvSpec) *directWeights {
	d := &directWeights{slabSums: newSlabSums(c, s), s: s}
	d.sums = d
	d.groups = (d.y.blocks + 1) / 2
	d.blocks = d.x.blocks
	d.items = d.blocks * d.groups
	planes := d.y.n * d.y.size[0]
	// As many slabs as keep the partial sums within 4 Mi elements, at most one for 8 planes.
	d.slabs = max(1, min((planes+slabPlanes-1)/slabPlanes, 16, (4<<20)/d.w.elements()))
	d.band = max(1, bandVoxels/d.y.size[2])
	for y := range min(d.band, d.y.size[1]) {
		d.rows = append(d.rows, term{y * s.Stride[1] * d.x.size[2] * d.x.lanes, y * d.y.size[2] * d.y.lanes})
	}
	return d
}

// do sums one item.
func (d *directWeights) do(_, item int) {
	slab, b, group := item/d.items, item/d.groups%d.blocks, item%d.groups
	sums := d.sum(slab)
	for v := range d.vectors(group) {
		clear(d.w.pair(sums, 2*group+v, b))
	}
	sum := sums[d.w.at(2*group, b):]
	begin, end := d.part(slab, d.y.n*d.y.size[0])
	for plane := begin; plane < end; plane++ {
		for y := 0; y < d.y.size[1]; y += d.band {
			d.sumBand(sum, plane/d.y.size[0], plane%d.y.size[0], y, b, group)
		}
	}
}

// vectors is the number of output channel blocks in a group.
func (d *directWeights) vectors(group int) int { return min(2, d.y.blocks-2*group) }

// sumBand adds the products of one band of rows.
func (d *directWeights) sumBand(sum []float32, n, oz, oy, b, group int) {
	s := &d.s
	vectors, channels := d.vectors(group), d.w.inputs(b)
	for kz := range s.Kernel[0] {
		iz := oz*s.Stride[0] + kz - s.Pad[0]
		if iz < 0 || iz >= d.x.size[0] {
			continue
		}
		for ky := range s.Kernel[1] {
			y, endY := liveOutputs(d.y.size[1], d.x.size[1], s.Stride[1], ky-s.Pad[1])
			y, endY = max(y, oy), min(endY, oy+d.band)
			if y >= endY {
				continue
			}
			x := d.xs[d.x.plane(n, b)+(iz*d.x.size[1]+y*s.Stride[1]+ky-s.Pad[1])*d.x.size[2]*d.x.lanes:]
			dy := d.dy[d.y.plane(n, 2*group)+(oz*d.y.size[1]+y)*d.y.size[2]*d.y.lanes:]
			for kx := range s.Kernel[2] {
				first, end := liveOutputs(d.y.size[2], d.x.size[2], s.Stride[2], kx-s.Pad[2])
				if first >= end {
					continue
				}
				at := (first*s.Stride[2] + kx - s.Pad[2]) * d.x.lanes
				to, rows := sum[((kz*s.Kernel[1]+ky)*s.Kernel[2]+kx)*d.w.tap(b):], d.rows[:endY-y]
				if d.y.lanes == 1 {
					for _, r := range rows {
						d.oneOutput(to, x[at+r[0]:], dy[r[1]+first:r[1]+end], channels)
					}
					continue
				}
				by := product{rows: channels, vectors: vectors, k: end - first, as: s.Stride[2] * d.x.lanes, bs: block,
					bv: d.y.voxels * block, cs: block, cv: d.w.group(), add: true}
				d.cpu.kernels.rowsOuter(&by, x[at:], dy[first*block:], to, rows)
			}
		}
	}
}

// oneOutput is the outer product where the output has one channel.
func (d *directWeights) oneOutput(to, x, dy []float32, channels int) {
	for i := range channels {
		var sum float32
		for v, g := range dy {
			sum += g * x[v*d.s.Stride[2]*d.x.lanes+i]
		}
		to[i*block] += sum
	}
}

// liveOutputs is the range of outputs o for which stride*o + d is an input.
func liveOutputs(outputs, inputs, stride, d int) (first, end int) {
	if d < 0 {
		first = (-d + stride - 1) / stride
	}
	if inputs-1-d < 0 {
		return 0, 0
	}
	return first, min(outputs, (inputs-1-d)/stride+1)
}
