package devicetest

import "github.com/voxsaw/voxsaw/internal/device"

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
		for i := range n {
			g := factor*gradient[i] + decay*parameters[i]
			velocity[i] = momentum*velocity[i] + g
			parameters[i] -= rate * velocity[i]
		}
	}), nil
}
