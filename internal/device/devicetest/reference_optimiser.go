package devicetest

import (
	"errors"
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
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
