package cpu

import "github.com/voxsaw/voxsaw/internal/device"

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
	lanes := k.in.lanes
	x := k.x[plane*k.in.voxels*lanes:]
	for d := first; d < end; d++ {
		d0, d1, depth := k.s.Window(0, d)
		for h := range k.out.size[1] {
			h0, h1, height := k.s.Window(1, h)
			for w := range k.out.size[2] {
				w0, w1, width := k.s.Window(2, w)
				divisor := 1 / float32(depth*height*width)
				at := (plane*k.out.voxels + (d*k.out.size[1]+h)*k.out.size[2] + w) * lanes
				var best [block]float32
				var where [block]int
				start := true
				for i := d0; i < d1; i++ {
					for j := h0; j < h1; j++ {
						row := (i*k.in.size[1] + j) * k.in.size[2]
						switch {
						case k.s.Average && k.backward:
							dx := k.dx[plane*k.in.voxels*lanes:][(row+w0)*lanes : (row+w1)*lanes]
							for n := range dx {
								dx[n] += k.dy[at+n%lanes] * divisor
							}
						case k.s.Average:
							for n, v := range x[(row+w0)*lanes : (row+w1)*lanes] {
								best[n%lanes] += v
							}
						default:
							for v := row + w0; v < row+w1; v++ {
								for lane, value := range x[v*lanes:][:lanes] {
									if start || value > best[lane] || value != value {
										best[lane], where[lane] = value, v
									}
								}
								start = false
							}
						}
					}
				}
				switch {
				case !k.backward && k.s.Average:
					for lane := range lanes {
						k.y[at+lane] = best[lane] * divisor
					}
				case !k.backward:
					copy(k.y[at:][:lanes], best[:])
				case !k.s.Average:
					for lane := range lanes {
						k.dx[(plane*k.in.voxels+where[lane])*lanes+lane] += k.dy[at+lane]
					}
				}
			}
		}
	}
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
