package cpu

import (
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// pointwiseMakers make the products of 1x1 convolutions whatever the cost model says.
func pointwiseMakers(c *CPU) makers {
	return makers{
		conv: func(s device.ConvSpec) (device.Kernel, error) { return newPointwise(c, forwardGeometry(s)), nil },
		transposed: func(s device.ConvSpec) (device.Kernel, error) {
			return newPointwise(c, transposedGeometry(s)), nil
		},
		weights: func(s device.ConvSpec) (device.Kernel, error) { return newPointwiseWeights(c, s), nil },
	}
}

func strided(s device.ConvSpec, height, width int) device.ConvSpec {
	s.Stride = [3]int{1, height, width}
	return s
}

// Images of one pixel, of a few, of more than a chunk; channels that fill no block, and more of
// them than are multiplied at a time; strides that end with the last pixel and before it.
var pointwiseCases = []device.ConvSpec{
	flat(3, 16, 32, 16, 16, 1, 0),
	flat(2, 40, 24, 17, 23, 1, 0),
	flat(40, 35, 70, 2, 2, 1, 0),
	flat(37, 64, 48, 1, 1, 1, 0),
	flat(9, 300, 33, 4, 4, 1, 0),
	flat(5, 17, 272, 3, 5, 1, 0),
	flat(1, 2, 3, 5, 1, 1, 0),
	flat(7, 640, 20, 2, 1, 1, 0),
	strided(flat(3, 33, 40, 16, 16, 1, 0), 2, 2),
	strided(flat(30, 32, 48, 4, 4, 1, 0), 2, 2),
	strided(flat(2, 20, 16, 31, 27, 1, 0), 2, 3),
	strided(flat(3, 18, 35, 5, 7, 1, 0), 3, 1),
}

func TestPointwise(t *testing.T) {
	for _, ks := range availableKernels() {
		t.Run(ks.name, func(t *testing.T) {
			for i, s := range pointwiseCases {
				c := newTestCPU(t, Options{Threads: 1 + i%3}, ks)
				checkConv(t, c, pointwiseMakers(c), s, directTolerance)
			}
		})
	}
}

// fewChannelsMakers make the kernels of first layers whatever the cost model says.
func fewChannelsMakers(c *CPU) makers {
	return makers{
		conv: func(s device.ConvSpec) (device.Kernel, error) {
			return newFewChannels(c, forwardGeometry(s)), nil
		},
		transposed: c.ConvTransposed,
		weights:    func(s device.ConvSpec) (device.Kernel, error) { return newFewChannelsWeights(c, s), nil },
	}
}

var fewChannelsCases = []device.ConvSpec{
	strided(flat(2, 3, 40, 21, 19, 7, 3), 2, 2),
	strided(flat(3, 3, 16, 23, 24, 11, 0), 2, 2),
	strided(flat(1, 4, 33, 30, 9, 5, 4), 3, 1),
	flat(34, 2, 20, 6, 5, 3, 1),
	strided(flat(1, 3, 48, 40, 150, 11, 2), 4, 4),
	{N: 2, In: 3, Out: 18, Size: [3]int{1, 9, 8}, Kernel: [3]int{1, 1, 4}, Stride: [3]int{1, 1, 2},
		Pad: [3]int{0, 0, 3}},
	{N: 1, In: 3, Out: 17, Size: [3]int{1, 3, 2}, Kernel: [3]int{1, 7, 7}, Stride: [3]int{1, 2, 2},
		Pad: [3]int{0, 3, 3}},
}

func TestFewChannels(t *testing.T) {
	for _, ks := range availableKernels() {
		t.Run(ks.name, func(t *testing.T) {
			for i, s := range fewChannelsCases {
				c := newTestCPU(t, Options{Threads: 1 + i%3}, ks)
				checkConv(t, c, fewChannelsMakers(c), s, directTolerance)
			}
		})
	}
}
