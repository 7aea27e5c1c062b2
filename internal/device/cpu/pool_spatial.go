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
	spans    [3][]span // of the outputs along each axis
	runs     []run     // of a row of outputs
	rows     []windows // that each worker is at

	x, y, dx, dy Slice
}

// A span is what an output sees along an axis, without the padding, and its size with it.
type span struct{ first, end, size int }

// A run is n neighbours along a row whose spans are of one size, a stride apart.
type run struct{ first, n int }

func newPooling(c *CPU, s device.PoolSpec, backward bool) (*pooling, error) {
	if err := accept(s, s.Type); err != nil {
		return nil, err
	}
	k := &pooling{
		c: c, lanes: lanesOf(c.kernels.name), s: s, in: layoutOf(s.Shape), out: layoutOf(s.OutShape()),
		backward: backward, rows: make([]windows, c.Threads()),
	}
	for axis := range k.spans {
		for o := range k.out.size[axis] {
			first, end, size := s.Window(axis, o)
			k.spans[axis] = append(k.spans[axis], span{first, end, size})
		}
	}
	for w := 0; w < k.out.size[2]; {
		r := run{first: w, n: 1}
		for w+r.n < k.out.size[2] && k.alike(w, w+r.n) {
			r.n++
		}
		k.runs = append(k.runs, r)
		w += r.n
	}
	return k, nil
}

// alike says whether two outputs of a row see as much, as many strides apart as they are.
func (k *pooling) alike(i, j int) bool {
	a, b := k.spans[2][i], k.spans[2][j]
	return b.first == a.first+(j-i)*k.s.Stride[2] && b.end-b.first == a.end-a.first && b.size == a.size
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

func (k *pooling) do(worker, item int) {
	if !k.backward {
		k.slices(worker, item/k.out.size[0], item%k.out.size[0], item%k.out.size[0]+1)
		return
	}
	plane := k.in.voxels * k.in.lanes
	clear(k.dx[item*plane:][:plane])
	k.slices(worker, item, 0, k.out.size[0])
}

// slices pools output slices first..end of one plane.
func (k *pooling) slices(worker, plane, first, end int) {
	if k.in.lanes == block {
		k.vectors(&k.rows[worker], plane, first, end)
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
	from := plane * k.in.voxels
	for d := first; d < end; d++ {
		for h := range k.out.size[1] {
			for w := range k.out.size[2] {
				do(k.windowAt(d, h, w), from, plane*k.out.voxels+(d*k.out.size[1]+h)*k.out.size[2]+w)
			}
		}
	}
}

// vectors pools output slices of whole vectors, a row of windows at a time as far as they are of
// one size.
func (k *pooling) vectors(row *windows, plane, first, end int) {
	for d := first; d < end; d++ {
		for h := range k.out.size[1] {
			for _, r := range k.runs {
				k.row(row, k.windowAt(d, h, r.first), r.n, plane*k.in.voxels*block,
					(plane*k.out.voxels+(d*k.out.size[1]+h)*k.out.size[2]+r.first)*block)
			}
		}
	}
}

// row pools n windows, one stride apart, of which r is the first one.
func (k *pooling) row(w *windows, r window, n, from, at int) {
	width := k.in.size[2]
	from += ((r.d0*k.in.size[1]+r.h0)*width + r.w0) * block
	*w = windows{n: n, planes: r.d1 - r.d0, rows: r.h1 - r.h0, columns: r.w1 - r.w0,
		planeStep: k.in.size[1] * width * block, rowStep: width * block, next: k.s.Stride[2] * block}
	switch factor := 1 / float32(r.size); {
	case k.s.Average && k.backward:
		k.lanes.meanGrad(&k.dx[from], &k.dy[at], w, factor)
	case k.s.Average:
		k.lanes.mean(&k.y[at], &k.x[from], w, factor)
	case k.backward:
		k.lanes.greatestGrad(&k.dx[from], &k.x[from], &k.dy[at], w)
	default:
		k.lanes.greatest(&k.y[at], &k.x[from], w)
	}
}

// A window is the voxels of the input that one voxel of the output is made of, without the padding.
type window struct {
	d0, d1, h0, h1, w0, w1 int
	size                   int // voxels, with the padding
}

// windowAt is the window of voxel (d, h, w) of the output.
func (k *pooling) windowAt(d, h, w int) (r window) {
	depth, height, width := k.spans[0][d], k.spans[1][h], k.spans[2][w]
	r.d0, r.d1, r.h0, r.h1, r.w0, r.w1 = depth.first, depth.end, height.first, height.end, width.first, width.end
	r.size = depth.size * height.size * width.size
	return r
}

// voxels yields where each row of voxels of a window begins and ends in a plane of one lane.
func (k *pooling) voxels(r window) iter.Seq2[int, int] {
	return func(yield func(first, end int) bool) {
		for d := r.d0; d < r.d1; d++ {
			for h := r.h0; h < r.h1; h++ {
				row := (d*k.in.size[1] + h) * k.in.size[2]
				if !yield(row+r.w0, row+r.w1) {
					return
				}
			}
		}
	}
}

// average pools one window of one lane. Here and below, from is where the plane of the input
// begins, and at where the voxel of the output lies.
func (k *pooling) average(r window, from, at int) {
	sum := float32(0)
	for first, end := range k.voxels(r) {
		for _, v := range k.x[from+first : from+end] {
			sum += v
		}
	}
	k.y[at] = sum * (1 / float32(r.size))
}

// averageGrad adds the gradient of a mean to all that it is the mean of.
func (k *pooling) averageGrad(r window, from, at int) {
	gradient := k.dy[at] * (1 / float32(r.size))
	for first, end := range k.voxels(r) {
		dx := k.dx[from+first : from+end]
		for i := range dx {
			dx[i] += gradient
		}
	}
}

func (k *pooling) greatest(r window, from, at int) { k.y[at] = k.x[from+k.search(r, from)] }

// greatestGrad adds the gradient of a maximum where the maximum is.
func (k *pooling) greatestGrad(r window, from, at int) { k.dx[from+k.search(r, from)] += k.dy[at] }

// search finds where the maximum of a window is in its plane: the first of several, or the last
// NaN.
func (k *pooling) search(r window, from int) (where int) {
	where = -1
	for first, end := range k.voxels(r) {
		for v := first; v < end; v++ {
			if value := k.x[from+v]; where < 0 || value > k.x[from+where] || value != value {
				where = v
			}
		}
	}
	return where
}
