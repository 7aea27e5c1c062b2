package cpu

import (
	"iter"

	"github.com/voxsaw/voxsaw/internal/device"
)

// pooling is Pool and PoolGrad, the lanes of a voxel together.
type pooling struct {
	c        *CPU
	lanes    *laneKernels
	s        device.PoolSpec
	in, out  layout
	backward bool

	x, y, dx, dy Slice
}

func newPooling(c *CPU, s device.PoolSpec, backward bool) (*pooling, error) {
	if err := accept(s, s.Type); err != nil {
		return nil, err
	}
	return &pooling{
		c: c, lanes: lanesOf(c.kernels.name), s: s, in: layoutOf(s.Shape), out: layoutOf(s.OutShape()),
		backward: backward,
	}, nil
}

// Pool implements [device.Device].
func (c *CPU) Pool(s device.PoolSpec) (device.Kernel, error) { return newPooling(c, s, false) }

// PoolGrad implements [device.Device].
func (c *CPU) PoolGrad(s device.PoolSpec) (device.Kernel, error) { return newPooling(c, s, true) }

func (k *pooling) Scratch() int64 { return 0 }

func (k *pooling) Run(out, in []device.Buffer, _ device.Buffer) {
	planes := k.in.n * k.in.blocks
	if k.backward {
		k.dx, k.x, k.dy = out[0].(Slice), in[0].(Slice), in[2].(Slice)
		k.c.pool.run(planes, k) // windows may overlap: a plane is one item's
		return
	}
	k.y, k.x = out[0].(Slice), in[0].(Slice)
	k.c.pool.run(planes*k.out.size[0], k)
}

func (k *pooling) do(_, item int) {
	if !k.backward {
		k.slices(item/k.out.size[0], item%k.out.size[0], item%k.out.size[0]+1)
		return
	}
	plane := k.in.voxels * k.in.lanes
	clear(k.dx[item*plane:][:plane])
	k.slices(item, 0, k.out.size[0])
}

// slices pools output slices first..end of one plane.
func (k *pooling) slices(plane, first, end int) {
	if !k.s.Average && k.in.lanes == block && k.s.Kernel[0] == 1 {
		k.maxima(plane, first, end)
		return
	}
	do := k.greatest
	switch {
	case k.s.Average && k.backward:
		do = k.averageGrad
	case k.s.Average:
		do = k.average
	case k.backward:
		do = k.greatestGrad
	}
	from := plane * k.in.voxels * k.in.lanes
	for d := first; d < end; d++ {
		for h := range k.out.size[1] {
			for w := range k.out.size[2] {
				at := (plane*k.out.voxels + (d*k.out.size[1]+h)*k.out.size[2] + w) * k.out.lanes
				do(k.windowAt(d, h, w), from, at)
			}
		}
	}
}

// A window is the voxels of the input that one voxel of the output is made of, without the padding.
type window struct {
	d0, d1, h0, h1, w0, w1 int
	size                   int // voxels, with the padding
}

// windowAt is the window of voxel (d, h, w) of the output.
func (k *pooling) windowAt(d, h, w int) (r window) {
	var depth, height, width int
	r.d0, r.d1, depth = k.s.Window(0, d)
	r.h0, r.h1, height = k.s.Window(1, h)
	r.w0, r.w1, width = k.s.Window(2, w)
	r.size = depth * height * width
	return r
}

// rows yields where each row of a window begins and ends among the elements of a plane.
func (k *pooling) rows(r window) iter.Seq2[int, int] {
	return func(yield func(first, end int) bool) {
		for d := r.d0; d < r.d1; d++ {
			for h := r.h0; h < r.h1; h++ {
				row := (d*k.in.size[1] + h) * k.in.size[2]
				if !yield((row+r.w0)*k.in.lanes, (row+r.w1)*k.in.lanes) {
					return
				}
			}
		}
	}
}

// average pools one window. Here and below, from is where the plane of the input begins, and at
// where the voxel of the output lies, in elements.
func (k *pooling) average(r window, from, at int) {
	lanes, divisor := k.in.lanes, 1/float32(r.size)
	var sum [block]float32
	for first, end := range k.rows(r) {
		for n, v := range k.x[from+first : from+end] {
			sum[n%lanes] += v
		}
	}
	for lane := range lanes {
		k.y[at+lane] = sum[lane] * divisor
	}
}

// averageGrad adds the gradient of a mean to all that it is the mean of.
func (k *pooling) averageGrad(r window, from, at int) {
	lanes, divisor := k.in.lanes, 1/float32(r.size)
	for first, end := range k.rows(r) {
		dx := k.dx[from+first : from+end]
		for n := range dx {
			dx[n] += k.dy[at+n%lanes] * divisor
		}
	}
}

func (k *pooling) greatest(r window, from, at int) {
	best, _ := k.search(r, from)
	copy(k.y[at:][:k.in.lanes], best[:])
}

// greatestGrad adds the gradient of a maximum where the maximum is.
func (k *pooling) greatestGrad(r window, from, at int) {
	_, where := k.search(r, from)
	for lane := range k.in.lanes {
		k.dx[from+where[lane]+lane] += k.dy[at+lane]
	}
}

// search finds the maximum of a window, lane by lane: the first of several, or the last NaN. where
// is where its voxel begins in the plane.
func (k *pooling) search(r window, from int) (best [block]float32, where [block]int) {
	start := true
	for first, end := range k.rows(r) {
		for v := first; v < end; v += k.in.lanes {
			for lane, value := range k.x[from+v:][:k.in.lanes] {
				if start || value > best[lane] || value != value {
					best[lane], where[lane] = value, v
				}
			}
			start = false
		}
	}
	return best, where
}

// maxima is slices for maxima of whole vectors in windows of one slice of the input, a row of
// windows at a time.
func (k *pooling) maxima(plane, first, end int) {
	for d := first; d < end; d++ {
		d0, _, _ := k.s.Window(0, d)
		for h := range k.out.size[1] {
			h0, h1, _ := k.s.Window(1, h)
			for w := 0; w < k.out.size[2]; {
				w0, w1, _ := k.s.Window(2, w)
				n := 1 // windows of the same width, one stride apart
				for w+n < k.out.size[2] {
					next0, next1, _ := k.s.Window(2, w+n)
					if next0 != w0+n*k.s.Stride[2] || next1-next0 != w1-w0 {
						break
					}
					n++
				}
				at := (plane*k.out.voxels + (d*k.out.size[1]+h)*k.out.size[2] + w) * block
				from := (plane*k.in.voxels + (d0*k.in.size[1]+h0)*k.in.size[2] + w0) * block
				rows, columns, rowStep, next := h1-h0, w1-w0, k.in.size[2]*block, k.s.Stride[2]*block
				if k.backward {
					k.lanes.greatestGrad(&k.dx[from], &k.x[from], &k.dy[at], n, rows, columns, rowStep, next)
				} else {
					k.lanes.greatest(&k.y[at], &k.x[from], n, rows, columns, rowStep, next)
				}
				w += n
			}
		}
	}
}
