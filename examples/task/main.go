// Command task adds a pretext task, and pretrains by it on made-up patients: a crop is mirrored or
// not along each axis, and the network tells in which of eight ways.
//
// Start at [mirrored].
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/task"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

var mirrors = task.Task{Name: "mirrors", Classes: 8, Make: mirrored}

// mirrored writes a crop that is mirrored along i, j and k as the bits of the class say.
func mirrored(dst []float32, of sample.Sample, origin, size [3]int, class int, _ *rand.Rand) error {
	crop := make([]float32, len(dst))
	if err := of.Crop(crop, origin, size); err != nil {
		return err
	}
	for n := range dst {
		at, from, stride := n, 0, 1
		for axis, extent := range size {
			x := at % extent
			at /= extent
			if class>>axis&1 == 1 {
				x = extent - 1 - x
			}
			from, stride = from+x*stride, stride*extent
		}
		dst[n] = crop[from+at*stride] // at is the channel
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run pretrains two steps, tries what was learnt, and fine-tunes from it.
func run() error {
	folder, err := os.MkdirTemp("", "task")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	store, err := patients(filepath.Join(folder, "prepared"))
	if err != nil {
		return err
	}
	defer store.Close()
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{Threads: 2})
	if err != nil {
		return err
	}
	defer dev.Close()
	ctx := context.Background()

	s := task.DefaultSettings()
	s.Network.Channels, s.Network.Levels = 4, 2
	s.Crop, s.Batch, s.Features, s.Train.Steps = [3]int{16, 16, 16}, 2, 16, 2
	encoder := filepath.Join(folder, "encoder")
	data := sample.Data{Store: store, Train: []string{"patient_1"}, Validate: []string{"patient_2"}}
	if _, err := mirrors.Pretrain(ctx, dev, s, data, voxsaw.RunOptions{Folder: encoder}); err != nil {
		return err
	}
	held, err := sample.Open(store, data.Validate)
	if err != nil {
		return err
	}
	if right, err := mirrors.Evaluate(ctx, dev, encoder, held); err != nil || right < 0 || right > 1 {
		return fmt.Errorf("a share of %g: %w", right, err)
	}

	c := segment.DefaultConfig()
	c.Network, c.Crop, c.Train.Steps = s.Network, s.Crop, 2
	_, loaded, err := segment.Finetune(ctx, dev, c, data, filepath.Join(encoder, "last.safetensors"),
		voxsaw.RunOptions{})
	if err != nil {
		return err
	}
	fmt.Println(len(loaded.Loaded), "tensors come from pretraining")
	return nil
}

// patients prepares scans of made-up patients, with their organs.
func patients(folder string) (*prepared.Store, error) {
	w, err := prepared.NewWriter(folder, volume.DefaultPreparation())
	if err != nil {
		return nil, err
	}
	for i := range 2 {
		scan, organs, err := phantom.New(uint64(i), phantom.Options{Shape: [3]int{28, 24, 24}})
		if err != nil {
			return nil, err
		}
		in := prepared.Input{ID: fmt.Sprintf("patient_%d", i+1), Image: scan, Labels: organs}
		if _, err := w.Add(in); err != nil {
			return nil, err
		}
	}
	if err := w.Finish(); err != nil {
		return nil, err
	}
	return prepared.Open(folder)
}
