package unet

import (
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/backbone/backbonetest"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
)

// Logits, every gradient under deep supervision, the losses of five steps of SGD and the evaluation
// after them are those of dynamic_network_architectures, on the same weights. Kernels and strides
// differ by axis and stage, so that the resolutions that are supervised do, and their losses are
// weighted as nnU-Net weights them.
func TestPyTorch(t *testing.T) {
	thick := Settings{Features: []int{4, 6, 8, 8},
		Kernels: [][3]int{{1, 3, 3}, {3, 3, 3}, {3, 3, 3}, {3, 3, 1}},
		Strides: [][3]int{{1, 1, 1}, {1, 2, 2}, {2, 2, 2}, {2, 2, 1}}, Bias: true, Epsilon: 1e-5, Slope: 0.01}
	plain, residual := thick, thick
	plain.Blocks, plain.DecoderConvs = []int{2, 2, 1, 2}, []int{2, 1, 2}
	residual.Residual, residual.Blocks, residual.DecoderConvs = true, []int{1, 2, 1, 2}, []int{1, 2, 1}
	cubes := Settings{Features: []int{4, 8, 8}, Kernels: [][3]int{{3, 3, 3}, {3, 3, 3}, {3, 3, 3}},
		Strides: [][3]int{{1, 1, 1}, {2, 2, 2}, {2, 2, 2}}, Blocks: []int{2, 2, 2}, DecoderConvs: []int{2, 2},
		Epsilon: 1e-2, Slope: 0.1}
	for _, algorithm := range []string{"direct", "auto"} {
		dev := cputest.New(t, cpu.Options{Conv: algorithm})
		for _, c := range []struct {
			name     string
			settings Settings
			classes  int
			size     [5]int // n, channels, D, H, W
		}{
			{"plain", plain, 3, [5]int{2, 1, 8, 16, 16}},
			{"residual", residual, 3, [5]int{2, 2, 8, 16, 24}},
			{"cubes", cubes, 2, [5]int{1, 1, 16, 16, 16}},
		} {
			t.Run(c.name+" "+algorithm, func(t *testing.T) {
				n := c.settings.Network()
				n.Classes, n.Inputs = c.classes, c.size[1]
				b, err := backbone.Of(n)
				if err != nil {
					t.Fatal(err)
				}
				backbonetest.PyTorch(t, dev, b, filepath.Join("..", "..", "testdata", "unet_"+c.name+".safetensors"),
					c.size, 1e-4)
			})
		}
	}
}
