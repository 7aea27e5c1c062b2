package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// directWeights is the gradient of the weights as it is written: for each tap, an outer product of inputs and output gradients summed over a row of voxels.
//
//	dw[o][i][tap] = sum over n, v of x[n][i][stride v + tap - pad] dy[n][o][v]
//
// An item is a slab of output planes, a block of input channels, a group of two blocks of output channels and one (z, y) row of taps. The
// slabs are there for parallelism and for accuracy: each sums from zero, and the sums are then added up in their order.
type directWeights struct {
	cpu    *CPU
	s      device.ConvSpec
	x, y   layout
	taps   int
	groups int
	blocks int // of input channels
	slabs  int // of the N*D output planes
	part   int // elements of the sum of one item
	total  int

	xs, dy, dw, scratch Slice
}

const slabPlanes = 8

func newDirectWeights(c *CPU, s device.ConvSpec) *directWeights {
	d := &directWeights{cpu: c, s: s, x: layoutOf(s.XShape()), y: layoutOf(s.YShape())}
	d.taps = s.Kernel[0] * s.Kernel[1] * s.Kernel[2]
	d.groups = (d.y.blocks + 1) / 2
	d.blocks = d.x.blocks
	planes := d.y.n * d.y.size[0]
	whole := d.blocks * d.groups * d.taps * d.x.lanes * 2 * block
	// As many slabs as keep the partial sums within 4 Mi elements, at most one for 8 planes.
	d.slabs = max(1, min((planes+slabPlanes-1)/slabPlanes, 16, (4<<20)/whole))
	d.part = s.Kernel[2] * d.x.lanes * 2 * block
	d.total = d.slabs * whole
	return d
}

// Scratch implements [device.Kernel].
func (d *directWeights) Scratch() int { return d.total }

// Run implements [device.Kernel].
func (d *directWeights) Run(out, in []device.Buffer, scratch device.Buffer) {
	d.dw, d.xs, d.dy, d.scratch = out[0].(Slice), in[0].(Slice), in[1].(Slice), scratch.(Slice)
	rows := d.s.Kernel[0] * d.s.Kernel[1]
	d.cpu.pool.run(d.slabs*d.blocks*d.groups*rows, d)
	d.cpu.pool.run(d.blocks*d.groups, (*directWeightsSum)(d))
	d.dw, d.xs, d.dy, d.scratch = nil, nil, nil, nil
}

// do sums one item: [tap x][input channel][vector][16].
func (d *directWeights) do(_, item int) {
	s, rows := &d.s, d.s.Kernel[0]*d.s.Kernel[1]
	sum := d.scratch[item*d.part:][:d.part]
	clear(sum)
	slab := item / (d.blocks * d.groups * rows)
	b, group, row := item/(d.groups*rows)%d.blocks, item/rows%d.groups, item%rows
	kz, ky := row/s.Kernel[1], row%s.Kernel[1]
	vectors := min(2, d.y.blocks-2*group)
	channels := min(d.x.lanes, d.x.channels-b*d.x.lanes)
	planes := d.y.n * d.y.size[0]
	for plane := slab * planes / d.slabs; plane < (slab+1)*planes/d.slabs; plane++ {
		n, oz := plane/d.y.size[0], plane%d.y.size[0]
		iz := oz*s.Stride[0] + kz - s.Pad[0]
		if iz < 0 || iz >= d.x.size[0] {
			continue
		}
		for oy := range d.y.size[1] {
			iy := oy*s.Stride[1] + ky - s.Pad[1]
			if iy < 0 || iy >= d.x.size[1] {
				continue
			}
			x := d.xs[d.x.plane(n, b)+(iz*d.x.size[1]+iy)*d.x.size[2]*d.x.lanes:]
			dy := d.dy[d.y.plane(n, 2*group)+(oz*d.y.size[1]+oy)*d.y.size[2]*d.y.lanes:]
			for kx := range s.Kernel[2] {
				first, end := liveOutputs(d.y.size[2], d.x.size[2], s.Stride[2], kx-s.Pad[2])
				if first >= end {
					continue
				}
				at := (first*s.Stride[2] + kx - s.Pad[2]) * d.x.lanes
				to := sum[kx*d.x.lanes*2*block:]
				if d.y.lanes == 1 {
					d.oneOutput(to, x[at:], dy[first:end], channels)
					continue
				}
				d.cpu.kernels.rowsOuter(channels, vectors, x[at:], dy[first*block:], to, oneTerm, end-first, s.Stride[2]*d.x.lanes, block, d.y.voxels*block, 2*block, true)
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
		to[i*2*block] += sum
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

// directWeightsSum adds up the slabs of one block of input channels and group of output channels, and writes them as plain weights.
type directWeightsSum directWeights

func (d *directWeightsSum) do(_, item int) {
	rows := d.s.Kernel[0] * d.s.Kernel[1]
	size := rows * d.part
	stride := d.blocks * d.groups * size
	sum := d.scratch[item*size:][:size]
	for slab := 1; slab < d.slabs; slab++ {
		d.cpu.kernels.addVectors(sum, d.scratch[slab*stride+item*size:])
	}
	b, group := item/d.groups, item%d.groups
	channels := min(d.x.lanes, d.x.channels-b*d.x.lanes)
	for v := range min(2, d.y.blocks-2*group) {
		o := (2*group + v) * block
		for i := range channels {
			to := d.dw[(o*d.x.channels+b*d.x.lanes+i)*d.taps:]
			d.cpu.kernels.scatterTaps(to, sum[i*2*block+v*block:], d.x.channels*d.taps, d.x.lanes*2*block, d.taps, min(block, d.y.channels-o))
		}
	}
}
