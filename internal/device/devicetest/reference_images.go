package devicetest

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

// lrnScale is K + Alpha/Size sum of x^2 of the window of element i.
func lrnScale(s device.LRNSpec, x values, i int) float64 {
	v := s.Shape.Voxels()
	c, sum := i/v%s.Shape[1], 0.0
	for k := max(0, c-s.Size/2); k <= min(s.Shape[1]-1, c+(s.Size-1)/2); k++ {
		e := x[i+(k-c)*v]
		sum += e * e
	}
	return float64(s.K) + float64(s.Alpha)/float64(s.Size)*sum
}

func (reference) LRN(s device.LRNSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		for i, x := range in[0] {
			out[0][i] = x * math.Pow(lrnScale(s, in[0], i), -float64(s.Beta))
		}
	}), s.Check()
}

func (reference) LRNGrad(s device.LRNSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		x, dy, v := in[0], in[1], s.Shape.Voxels()
		dx := make(values, len(x))
		for i := range x {
			scale, c := lrnScale(s, x, i), i/v%s.Shape[1]
			dx[i] += dy[i] * math.Pow(scale, -float64(s.Beta))
			outer := dy[i] * x[i] * -float64(s.Beta) * math.Pow(scale,
				-float64(s.Beta)-1) * 2 * float64(s.Alpha) / float64(s.Size)
			for k := max(0, c-s.Size/2); k <= min(s.Shape[1]-1, c+(s.Size-1)/2); k++ {
				dx[i+(k-c)*v] += outer * x[i+(k-c)*v]
			}
		}
		copy(out[0], dx)
	}), s.Check()
}

// eachBin calls f with the index of every element of y and those of x in its bin.
func eachBin(s device.RoISpec, regions values, f func(iy int, ix []int)) {
	iy := 0
	for r := range s.Regions {
		row := make([]float32, 5)
		for i := range row {
			row[i] = float32(regions[5*r+i])
		}
		for c := range s.Shape[1] {
			for h := range s.OutSize[0] {
				for w := range s.OutSize[1] {
					var bin []int
					y1, y2, x1, x2 := s.Bin(row, h, w)
					for y := y1; y < y2; y++ {
						for x := x1; x < x2; x++ {
							bin = append(bin, ((int(row[0])*s.Shape[1]+c)*s.Shape[3]+y)*s.Shape[4]+x)
						}
					}
					f(iy, bin)
					iy++
				}
			}
		}
	}
}

func (reference) RoIPool(s device.RoISpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		eachBin(s, in[1], func(iy int, bin []int) {
			out[0][iy] = 0
			if len(bin) > 0 {
				out[0][iy] = in[0][largest(in[0], bin)]
			}
		})
	}), s.Check()
}

func (reference) RoIPoolGrad(s device.RoISpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		clear(out[0])
		eachBin(s, in[1], func(iy int, bin []int) {
			if len(bin) > 0 {
				out[0][largest(in[0], bin)] += in[2][iy]
			}
		})
	}), s.Check()
}

func (reference) LabelLoss(s device.Shape) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		sum, count := 0.0, 0.0
		for i, x := range in[0] {
			if t := in[1][i]; t >= 0 {
				sum += max(x, 0) - x*t + math.Log1p(math.Exp(-math.Abs(x)))
				count++
			}
		}
		out[0][0], out[1][0] = sum/max(1, count), count
	}), s.CheckMatrix()
}

func (reference) LabelLossGrad(s device.Shape) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		for i, x := range in[0] {
			out[0][i] = 0
			if t := in[1][i]; t >= 0 {
				out[0][i] = in[3][0] * (1/(1+math.Exp(-x)) - t) / in[2][0]
			}
		}
	}), s.CheckMatrix()
}

func (reference) SmoothL1(s device.SmoothL1Spec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		sum, beta := 0.0, float64(s.Beta)
		for i, x := range in[0] {
			d := math.Abs(x - in[1][i])
			if d < beta {
				sum += in[2][i] * d * d / (2 * beta)
			} else {
				sum += in[2][i] * (d - beta/2)
			}
		}
		out[0][0] = sum / float64(s.Rows)
	}), s.Check()
}

func (reference) SmoothL1Grad(s device.SmoothL1Spec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		for i, x := range in[0] {
			slope := max(-1, min(1, (x-in[1][i])/float64(s.Beta)))
			out[0][i] = in[3][0] * in[2][i] * slope / float64(s.Rows)
		}
	}), s.Check()
}
