package cpu

import (
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// First layers: more rows than a band has, of one to three blocks; widths that tiles do not divide;
// no padding, more than half a kernel of it, and unequal kernels.
var oneChannelCases = []device.ConvSpec{
	cube(1, 1, 16, 26, 5, 1, 2),
	{N: 2, In: 1, Out: 36, Size: [3]int{6, 30, 21}, Kernel: [3]int{5, 5, 5}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{2, 2, 2}},
	{N: 1, In: 1, Out: 16, Size: [3]int{9, 20, 11}, Kernel: [3]int{5, 5, 5}, Stride: [3]int{1, 1, 1}},
	{N: 1, In: 1, Out: 8, Size: [3]int{1, 2, 3}, Kernel: [3]int{5, 5, 5}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{4, 4, 4}},
	{N: 1, In: 1, Out: 17, Size: [3]int{4, 19, 34}, Kernel: [3]int{2, 4, 5}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{0, 1, 3}},
	{N: 2, In: 1, Out: 32, Size: [3]int{5, 18, 22}, Kernel: [3]int{3, 3, 3}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{1, 1, 1}},
	{N: 1, In: 1, Out: 8, Size: [3]int{4, 35, 13}, Kernel: [3]int{1, 3, 3}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{0, 1, 1}},
}

func TestConvOneChannel(t *testing.T) {
	for _, ks := range availableKernels() {
		t.Run(ks.name, func(t *testing.T) {
			for i, s := range oneChannelCases {
				choices := map[string]string{ChoiceKey(s, Weights): "one channel"}
				if s.Kernel[2] == 5 {
					choices[ChoiceKey(s, Forward)] = "one channel"
				}
				c := newTestCPU(t, Options{Threads: 1 + i%3, Choices: choices}, ks)
				checkConv(t, c, c.makers(), s, 5e-6)
			}
		})
	}
}
