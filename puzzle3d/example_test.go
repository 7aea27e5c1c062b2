package puzzle3d_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/puzzle3d"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Pretrain a small network on the puzzles of a few scans, and solve those of a scan that it has not
// seen.
func ExamplePretrain() {
	folder, err := os.MkdirTemp("", "voxsaw")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	store, err := madeUp(filepath.Join(folder, "prepared"), 4)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	c := puzzle3d.DefaultConfig()
	c.Network.Channels, c.Network.Levels = 4, 1
	c.Grid, c.Crop, c.Features, c.Train.Steps = [4]int{2, 2, 2}, [3]int{24, 20, 20}, 32, 3
	if c, err = c.Resolve(store); err != nil {
		log.Fatal(err)
	}
	run := filepath.Join(folder, "run")
	data := sample.Data{Store: store, Train: []string{"patient_1", "patient_2", "patient_3"},
		Validate: []string{"patient_4"}}
	summary, err := puzzle3d.Pretrain(context.Background(), dev, c, data, voxsaw.RunOptions{Folder: run})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(summary.Step, "steps on patches of", c.Patch)

	player, err := puzzle3d.Open(context.Background(), dev, filepath.Join(run, "last.safetensors"),
		puzzle3d.PlayOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer player.Close()
	unseen, err := store.Open("patient_4")
	if err != nil {
		log.Fatal(err)
	}
	e, err := player.Evaluate(context.Background(), []sample.Sample{unseen})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.Puzzles, "puzzle; blind guessing puts", e.Chance.Patches, "of the patches in place")
	// Output:
	// 3 steps on patches of [8 8 8]
	// 1 puzzle; blind guessing puts 0.125 of the patches in place
}

// madeUp prepares scans of made-up patients.
func madeUp(folder string, n int) (*prepared.Store, error) {
	w, err := prepared.NewWriter(folder, volume.DefaultPreparation())
	if err != nil {
		return nil, err
	}
	for i := range n {
		scan, _, err := phantom.New(uint64(i), phantom.Options{Shape: [3]int{28, 24, 24}})
		if err != nil {
			return nil, err
		}
		if _, err := w.Add(prepared.Input{ID: fmt.Sprintf("patient_%d", i+1), Image: scan}); err != nil {
			return nil, err
		}
	}
	if err := w.Finish(); err != nil {
		return nil, err
	}
	return prepared.Open(folder)
}
