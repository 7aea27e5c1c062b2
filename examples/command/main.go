// Command command is voxsaw with a pretext task of its own: a crop stands on its head or not, and
// the network tells. It has all of voxsaw's verbs and flags:
//
//	command pretrain --data PREPARED --task upside-down --out RUN
//	command solve --data PREPARED --checkpoint RUN
//	command finetune --data PREPARED --init RUN --out ORGANS
//
// Start at [turned].
package main

import (
	"math/rand/v2"

	"github.com/voxsaw/voxsaw/cli"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/task"
)

func init() {
	task.Register(task.Task{
		Name: "upside-down", Short: "say whether a crop stands on its head", Classes: 2, Make: turned,
	})
}

// turned writes a crop (channels, D, H, W); of class 1 with its slices from last to first.
func turned(dst []float32, of sample.Sample, origin, size [3]int, class int, _ *rand.Rand) error {
	crop := make([]float32, len(dst))
	if err := of.Crop(crop, origin, size); err != nil {
		return err
	}
	slice, depth := size[0]*size[1], size[2]
	for n := range len(dst) / slice {
		from := n
		if class == 1 {
			from = n/depth*depth + depth - 1 - n%depth // n/depth is the channel
		}
		copy(dst[n*slice:][:slice], crop[from*slice:])
	}
	return nil
}

func main() { cli.Main() }
