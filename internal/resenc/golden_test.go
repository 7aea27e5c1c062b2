package resenc

import (
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone/backbonetest"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
)

var goldens = []struct {
	name     string
	settings voxsaw.Network
	size     [5]int
}{
	{"instance", voxsaw.Network{Channels: 4, Blocks: []int{1, 2, 1, 1}, Classes: 3}, [5]int{2, 1, 16, 32, 16}},
	{"batch", voxsaw.Network{Channels: 4, Blocks: []int{1, 1, 2}, Norm: "batch", Classes: 2}, [5]int{2, 1, 16, 16, 24}},
	{"two_stages", voxsaw.Network{Channels: 4, Blocks: []int{2, 1}, Classes: 2}, [5]int{1, 1, 12, 8, 16}},
	{"2_channels", voxsaw.Network{Inputs: 2, Channels: 4, Blocks: []int{1, 1, 2}, Classes: 3},
		[5]int{2, 2, 16, 16, 24}},
	{"4_channels", voxsaw.Network{Inputs: 4, Channels: 4, Blocks: []int{1, 1, 2}, Classes: 3},
		[5]int{2, 4, 16, 16, 24}},
}

// Logits, every gradient under deep supervision, the losses of five steps of SGD and the evaluation
// after them are those of dynamic_network_architectures, on the same weights.
func TestPyTorch(t *testing.T) {
	for _, algorithm := range []string{"direct", "auto"} {
		dev, err := cpu.New(cpu.Options{Conv: algorithm})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		for _, c := range goldens {
			t.Run(c.name+" "+algorithm, func(t *testing.T) {
				backbonetest.PyTorch(t, dev, mustResolve(t, c.settings),
					filepath.Join("..", "..", "testdata", "resenc_"+c.name+".safetensors"), c.size, 1e-4)
			})
		}
	}
}
