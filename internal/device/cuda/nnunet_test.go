//go:build gpu

package cuda_test

import (
	"testing"

	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/backbone/backbonetest"
	"github.com/voxsaw/voxsaw/internal/device/cuda"
	"github.com/voxsaw/voxsaw/internal/unet"
)

// TestNetworksOfNNUNet: networks that nnU-Net plans learn on the GPU as in PyTorch: logits, every
// gradient, five steps and the evaluation after them. They are those of internal/unet's TestPyTorch
// whose kernels and strides differ by axis.
func TestNetworksOfNNUNet(t *testing.T) {
	s := unet.Settings{Features: []int{4, 6, 8, 8}, Kernels: [][3]int{{1, 3, 3}, {3, 3, 3}, {3, 3, 3}, {3, 3, 1}},
		Strides: [][3]int{{1, 1, 1}, {1, 2, 2}, {2, 2, 2}, {2, 2, 1}}, Bias: true, Epsilon: 1e-5, Slope: 0.01}
	for _, c := range []struct {
		name             string
		residual         bool
		blocks, decoders []int
		size             [5]int // n, channels, D, H, W
	}{
		{"plain", false, []int{2, 2, 1, 2}, []int{2, 1, 2}, [5]int{2, 1, 8, 16, 16}},
		{"residual", true, []int{1, 2, 1, 2}, []int{1, 2, 1}, [5]int{2, 2, 8, 16, 24}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.Residual, s.Blocks, s.DecoderConvs = c.residual, c.blocks, c.decoders
			network := s.Network()
			network.Classes, network.Inputs = 3, c.size[1]
			b, err := backbone.Of(network)
			if err != nil {
				t.Fatal(err)
			}
			backbonetest.PyTorch(t, cuda.OpenSimulated(t, "fp32"), b, "../../../testdata/unet_"+c.name+".safetensors",
				c.size, 1e-4)
		})
	}
}
