package devicetest

import (
	"errors"
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/numbers"
)

func (reference) SumSquares(n int) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		sum := 0.0
		for _, x := range in[0][:n] {
			sum += x * x
		}
		out[0][0] = sum
	}), nil
}

func (reference) SGD(n int) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		parameters, velocity, gradient := out[0], out[1], in[0]
		rate, momentum, decay, factor := in[1][0], in[1][1], in[1][2], in[1][3]
		if rate == 0 && momentum == 1 && decay == 0 && factor == 0 {
			return // not even where a gradient is not finite
		}
		for i := range n {
			g := factor*gradient[i] + decay*parameters[i]
			velocity[i] = momentum*velocity[i] + g
			parameters[i] -= rate * velocity[i]
		}
	}), nil
}

func (r reference) ConvGradWeightsSGD(s device.ConvSpec) (device.Kernel, error) {
	n := s.WShape().Elements()
	gradient, err := r.ConvGradWeights(s)
	squares, errSquares := r.SumSquares(n)
	sgd, errSGD := r.SGD(n)
	return kernel(func(out, in []values) {
		w, velocity, sum, x, dy, hyper := out[0], out[1], out[2], in[0], in[1], in[2]
		dw := make(values, n)
		gradient.(kernel)([]values{dw}, []values{x, dy})
		squares.(kernel)([]values{sum}, []values{dw})
		sgd.(kernel)([]values{w, velocity}, []values{dw, hyper})
	}), errors.Join(err, errSquares, errSGD)
}

func (reference) AdamW(n int) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		parameters, mean, square, gradient, hyper := out[0], out[1], out[2], in[0], in[1]
		rate, new1, new2, epsilon, decay, factor := hyper[0], hyper[1], hyper[2], hyper[3], hyper[4], hyper[5]
		if rate == 0 {
			return // not even where a gradient is not finite
		}
		for i := range n {
			g := factor * gradient[i]
			parameters[i] -= rate * decay * parameters[i]
			mean[i] += new1 * (g - mean[i])
			square[i] += new2 * (g*g - square[i])
			parameters[i] -= rate * mean[i] / hyper[6] / (math.Sqrt(square[i]/hyper[7]) + epsilon)
		}
	}), nil
}

// DecideStep implements [device.StepDecider].
func (reference) DecideStep(s device.DecideSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		verdict, hyper, squares, planned, rest := out[0], out[1], in[0], in[1], in[2:]
		sum, loss := 0.0, 0.0
		for i := range s.Squares {
			sum += squares[i*s.Pitch]
		}
		if s.Loss {
			loss, rest = rest[0][0], rest[1:]
		}
		norm, factor := math.Sqrt(sum), 1.0
		if s.Clip > 0 {
			factor = min(1, float64(s.Clip)/(norm+1e-6))
		}
		taken := numbers.Finite(norm) && numbers.Finite(loss)
		for i := range s.Rates * s.Width {
			column := i % s.Width
			at := i/s.Width*s.Pitch + column
			switch hyper[at] = planned[at]; {
			case !taken && column == s.One:
				hyper[at] = 1
			case !taken:
				hyper[at] = 0
			case column == s.Factor:
				hyper[at] *= factor
			}
		}
		verdict[0], verdict[1], verdict[2] = norm, 0, loss
		if taken {
			verdict[1] = 1
		}
		if s.Values > 0 {
			copy(verdict[3:], rest[0][:s.Values])
		}
	}), s.Check()
}

func (reference) Average(n int) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		for i := range n {
			out[0][i] += in[1][0] * (in[0][i] - out[0][i])
		}
	}), nil
}

func (r reference) AddWeights(n int) (device.Kernel, error) {
	return r.Add(device.Tensor{Shape: device.Shape{n}})
}
