package devicetest

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

func (reference) Add(t device.Tensor) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		for i := range out[0] {
			out[0][i] = in[0][i] + in[1][i]
		}
	}), nil
}

func (reference) Scale(t device.Tensor, factor float32) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		for i := range out[0] {
			out[0][i] = float64(factor) * in[0][i]
		}
	}), nil
}

func (reference) ScaleChannels(t device.Tensor) (device.Kernel, error) {
	s := t.Shape
	return kernel(func(out, in []values) {
		for i := range out[0] {
			out[0][i] = in[0][i] * in[1][i/s.Voxels()]
		}
	}), t.Check()
}

func (reference) SumChannels(t device.Tensor) (device.Kernel, error) {
	s := t.Shape
	return kernel(func(out, in []values) {
		clear(out[0])
		for i, x := range in[0] {
			out[0][i/s.Voxels()%s[1]] += x
		}
	}), t.Check()
}

// eachPart calls f with the index of every element of y, and its part and its index therein.
func eachPart(s device.ConcatSpec, f func(iy, part, ix int)) {
	iy, v := 0, s.Operand(0).Voxels()
	for n := range s.N {
		for part, channels := range s.Channels {
			for i := range channels * v {
				f(iy, part, n*channels*v+i)
				iy++
			}
		}
	}
}

func (reference) Concat(s device.ConcatSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		eachPart(s, func(iy, part, ix int) { out[0][iy] = in[part][ix] })
	}), s.Check()
}

func (reference) Split(s device.ConcatSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		eachPart(s, func(iy, part, ix int) { out[part][ix] = in[0][iy] })
	}), s.Check()
}

func (reference) Flatten(t device.Tensor) (device.Kernel, error) {
	return kernel(func(out, in []values) { copy(out[0], in[0]) }), t.Check()
}

func (reference) Unflatten(t device.Tensor) (device.Kernel, error) {
	return kernel(func(out, in []values) { copy(out[0], in[0]) }), t.Check()
}

// eachWindow calls f with the index of every element of y and those of x under its window, in
// row-major order, and what an average divides by: the elements of the window, of x or of its
// padding.
func eachWindow(s device.PoolSpec, f func(iy int, ix []int, size float64)) {
	o := s.OutShape()
	x, y := s.Shape, 0
	for plane := range x[0] * x[1] {
		for od := range o[2] {
			for oh := range o[3] {
				for ow := range o[4] {
					var window []int
					size := 0.0
					for kd := range s.Kernel[0] {
						for kh := range s.Kernel[1] {
							for kw := range s.Kernel[2] {
								d, h, w := od*s.Stride[0]+kd-s.Pad[0], oh*s.Stride[1]+kh-s.Pad[1], ow*s.Stride[2]+
									kw-s.Pad[2]
								if d < x[2]+s.Pad[0] && h < x[3]+s.Pad[1] && w < x[4]+s.Pad[2] {
									size++
								}
								if d >= 0 && d < x[2] && h >= 0 && h < x[3] && w >= 0 && w < x[4] {
									window = append(window, ((plane*x[2]+d)*x[3]+h)*x[4]+w)
								}
							}
						}
					}
					f(y, window, size)
					y++
				}
			}
		}
	}
}

// largest returns which of the indices holds the largest x, the first of them where they tie, the
// last NaN if there is one.
func largest(x values, indices []int) int {
	best := indices[0]
	for _, i := range indices[1:] {
		if x[i] > x[best] || math.IsNaN(x[i]) {
			best = i
		}
	}
	return best
}

func (reference) Pool(s device.PoolSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		eachWindow(s, func(iy int, window []int, size float64) {
			if !s.Average {
				out[0][iy] = in[0][largest(in[0], window)]
				return
			}
			sum := 0.0
			for _, ix := range window {
				sum += in[0][ix]
			}
			out[0][iy] = sum / size
		})
	}), s.Check()
}

func (reference) PoolGrad(s device.PoolSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		x, dy, dx := in[0], in[2], out[0]
		clear(dx)
		eachWindow(s, func(iy int, window []int, size float64) {
			if !s.Average {
				dx[largest(x, window)] += dy[iy]
				return
			}
			for _, ix := range window {
				dx[ix] += dy[iy] / size
			}
		})
	}), s.Check()
}
