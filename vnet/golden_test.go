package vnet

import (
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone/backbonetest"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
)

var goldens = []struct {
	name     string
	settings voxsaw.Network
	size     [5]int
}{
	{"paper", voxsaw.Network{Preset: "paper", Channels: 4, Classes: 3}, [5]int{2, 1, 16, 32, 16}},
	{"paper_instance_elu", voxsaw.Network{Preset: "paper", Norm: "instance", Activation: "elu", Channels: 4,
		Classes: 3}, [5]int{1, 1, 32, 32, 32}},
	{"paper_deep", voxsaw.Network{Preset: "paper", Norm: "instance", Activation: "elu", Channels: 4, Classes: 3,
		DeepSupervision: true}, [5]int{1, 1, 32, 32, 32}},
	// patches of 16^3: one voxel is left at the deepest level
	{"paper_group_elu", voxsaw.Network{Preset: "paper", Norm: "group", Groups: 2, Activation: "elu", Channels: 4,
		Classes: 3}, [5]int{2, 1, 16, 16, 16}},
	{"caffe", voxsaw.Network{Preset: "caffe", Channels: 4, Classes: 2}, [5]int{2, 1, 16, 32, 16}},
	{"monai", voxsaw.Network{Preset: "monai", Channels: 4, Classes: 3, Dropout: 0}, [5]int{2, 1, 32, 32, 16}},
	// MONAI's own class
	{"monai_2_channels", voxsaw.Network{Preset: "monai", Inputs: 2, Channels: 4, Classes: 3, Dropout: 0},
		[5]int{2, 2, 32, 32, 16}},
	{"monai_4_channels", voxsaw.Network{Preset: "monai", Inputs: 4, Channels: 4, Classes: 3, Dropout: 0},
		[5]int{2, 4, 32, 16, 32}},
}

// Logits, every gradient, the losses of five steps of SGD and the evaluation after them are
// PyTorch's, on the same weights.
func TestPyTorch(t *testing.T) {
	for _, algorithm := range []string{"direct", "auto"} {
		dev := cputest.New(t, cpu.Options{Conv: algorithm})
		for _, c := range goldens {
			tolerance := 1e-4
			if algorithm == "auto" {
				// of gradients: fast transforms round the logits by 2e-5 instead of 1e-6, which
				// norms over few voxels and PReLU's kink make ten times more of
				tolerance = 1e-3
			}
			t.Run(c.name+" "+algorithm, func(t *testing.T) {
				backbonetest.PyTorch(t, dev, mustResolve(t, c.settings),
					filepath.Join("..", "testdata", "vnet_"+c.name+".safetensors"), c.size, tolerance)
			})
		}
	}
}
