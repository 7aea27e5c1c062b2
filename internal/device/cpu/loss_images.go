package cpu

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

// The losses of photographs with several labels and of boxes: rows of some dozen columns, too small
// to be worth more than a loop.

// rowLoss is a kernel of one item.
type rowLoss func(out, in []device.Buffer)

func (rowLoss) Scratch() int64 { return 0 }

func (f rowLoss) Run(out, in []device.Buffer, _ device.Buffer) { f(out, in) }

// LabelLoss implements [device.ImageKernels].
func (c *CPU) LabelLoss(s device.Shape) (device.Kernel, error) {
	n := s.Elements()
	return rowLoss(func(out, in []device.Buffer) {
		target := in[1].(Slice)
		sum, count := 0.0, 0
		for i, x := range in[0].(Slice)[:n] {
			if t := float64(target[i]); !(t < 0) { // NaN counts, and makes the loss NaN
				x := float64(x)
				sum += max(x, 0) - x*t + math.Log1p(math.Exp(-math.Abs(x)))
				count++
			}
		}
		out[0].(Slice)[0], out[1].(Slice)[0] = float32(sum/float64(max(1, count))), float32(count)
	}), s.CheckMatrix()
}

// LabelLossGrad implements [device.ImageKernels].
func (c *CPU) LabelLossGrad(s device.Shape) (device.Kernel, error) {
	n := s.Elements()
	return rowLoss(func(out, in []device.Buffer) {
		dx, target := out[0].(Slice), in[1].(Slice)
		factor := float64(in[3].(Slice)[0]) / float64(max(1, in[2].(Slice)[0]))
		for i, x := range in[0].(Slice)[:n] {
			dx[i] = 0
			if t := float64(target[i]); !(t < 0) {
				dx[i] = float32(factor * (1/(1+math.Exp(-float64(x))) - t))
			}
		}
	}), s.CheckMatrix()
}

// SmoothL1 implements [device.ImageKernels].
func (c *CPU) SmoothL1(s device.SmoothL1Spec) (device.Kernel, error) {
	return rowLoss(func(out, in []device.Buffer) {
		target, weight, beta := in[1].(Slice), in[2].(Slice), float64(s.Beta)
		sum := 0.0
		for i, x := range in[0].(Slice)[:s.Rows*s.Columns] {
			d := math.Abs(float64(x) - float64(target[i]))
			if d < beta {
				d = d * d / (2 * beta)
			} else {
				d -= beta / 2
			}
			sum += float64(weight[i]) * d
		}
		out[0].(Slice)[0] = float32(sum / float64(s.Rows))
	}), s.Check()
}

// SmoothL1Grad implements [device.ImageKernels].
func (c *CPU) SmoothL1Grad(s device.SmoothL1Spec) (device.Kernel, error) {
	return rowLoss(func(out, in []device.Buffer) {
		dx, target, weight := out[0].(Slice), in[1].(Slice), in[2].(Slice)
		factor := in[3].(Slice)[0] / float32(s.Rows)
		for i, x := range in[0].(Slice)[:s.Rows*s.Columns] {
			dx[i] = factor * weight[i] * max(-1, min(1, (x-target[i])/s.Beta))
		}
	}), s.Check()
}
