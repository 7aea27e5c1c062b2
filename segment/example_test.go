package segment_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Train a small network to segment the liver and both kidneys.
func ExampleFinetune() {
	folder, err := os.MkdirTemp("", "voxsaw")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	summary, err := finetune(dev, folder)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(summary.Step, "steps; validated by", summary.Validation.Metrics[0].Name)
	// Output: 3 steps; validated by dsc
}

// Make the label map of a scan with a trained network. It lies on the voxels of the scan, whatever
// the network works on.
func ExamplePredictor() {
	folder, err := os.MkdirTemp("", "voxsaw")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	if _, err := finetune(dev, folder); err != nil {
		log.Fatal(err)
	}

	p, err := segment.NewPredictor(dev, []string{filepath.Join(folder, "run", "last.safetensors")},
		segment.DefaultInference(), 0)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	scan, _, err := phantom.New(7, phantom.Options{Shape: [3]int{30, 26, 20}})
	if err != nil {
		log.Fatal(err)
	}
	labels, err := p.Predict(context.Background(), scan)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("labels", p.Labels(), labels.Names, "on", labels.Shape)
	// Output: labels [2 4] map[2:liver 4:right kidney+left kidney] on [30 26 20]
}

// finetune trains on scans of made-up patients.
func finetune(dev voxsaw.Device, folder string) (voxsaw.Summary, error) {
	store, err := madeUp(filepath.Join(folder, "prepared"), 3)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	defer store.Close()
	c := segment.DefaultConfig()
	c.Network.Channels, c.Network.Levels = 4, 2
	c.Crop, c.Labels, c.Train.Steps = [3]int{16, 16, 16}, []string{"2", "4+5"}, 3
	if c, err = c.Resolve(store); err != nil {
		return voxsaw.Summary{}, err
	}
	data := sample.Data{Store: store, Train: []string{"patient_1", "patient_2"}, Validate: []string{"patient_3"}}
	summary, _, err := segment.Finetune(context.Background(), dev, c, data, "",
		voxsaw.RunOptions{Folder: filepath.Join(folder, "run")})
	return summary, err
}

// madeUp prepares scans of made-up patients, with their labels.
func madeUp(folder string, n int) (*prepared.Store, error) {
	w, err := prepared.NewWriter(folder, volume.DefaultPreparation())
	if err != nil {
		return nil, err
	}
	for i := range n {
		scan, organs, err := phantom.New(uint64(i), phantom.Options{Shape: [3]int{28, 24, 24}})
		if err != nil {
			return nil, err
		}
		if _, err := w.Add(prepared.Input{ID: fmt.Sprintf("patient_%d", i+1), Image: scan,
			Labels: organs}); err != nil {
			return nil, err
		}
	}
	if err := w.Finish(); err != nil {
		return nil, err
	}
	return prepared.Open(folder)
}
