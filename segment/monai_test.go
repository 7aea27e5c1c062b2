package segment

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/safetensors"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A scan that MONAI's network and its sliding_window_inference saw gets MONAI's logits from
// PredictMaps: HU, window, network, windows, Gaussian and mean. testdata/monai_vnet.py made them,
// and docs/predictions.md tells the differences that remain.
func TestLogitsOfMONAIsWindows(t *testing.T) {
	numbers, err := safetensors.Open("../testdata/monai_numbers.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer numbers.Close()
	read := func(name string) []float32 {
		values, err := numbers.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		return values
	}
	scan := &volume.Volume{Grid: volume.Grid{Shape: [3]int{32, 24, 16}, Affine: volume.Scaling([3]float64{1, 1, 1})}}
	for _, hu := range read("image") {
		scan.Int16 = append(scan.Int16, int16(hu))
	}
	labels := &volume.LabelMap{Grid: scan.Grid, Labels: make([]uint16, scan.Len())}
	labels.Labels[0] = 1
	store := traintest.Store(t, volume.DefaultPreparation(), prepared.Input{ID: "a", Image: scan, Labels: labels})

	c := DefaultConfig()
	c.Network = voxsaw.Network{Preset: "monai", Channels: 1, Dropout: -1}
	c.Crop, c.Labels, c.Train.Steps = [3]int{32, 32, 32}, []string{"1"}, 1
	dev, folder := testDevice(t), filepath.Join(t.TempDir(), "run")
	if _, _, err := Finetune(t.Context(), dev, resolved(t, c, store), sample.Data{Store: store, Train: []string{"a"}},
		"",
		voxsaw.RunOptions{Folder: folder, Loaders: 1}); err != nil {
		t.Fatal(err)
	}
	o := Inference{Window: [3]int{16, 16, 16}, Overlap: 0.5, Batch: 2, Logits: true}
	p, err := NewPredictor(dev, []string{filepath.Join(folder, "last.safetensors")}, o, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if loaded, err := initialise("../testdata/monai_vnet.safetensors", c, p.params); err != nil ||
		len(loaded.Missing) > 0 {
		t.Fatalf("loaded %v, %v", loaded, err)
	}
	l, m, err := p.PredictMaps(t.Context(), scan, MapOptions{Logits: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		farther float64 // in parts of the largest logit
	}{{"windows", 2e-5}, {"windows_clamped", 0.25}} {
		want, worst, size := read(c.name), 0.0, 0.0
		for n, x := range want {
			worst, size = max(worst, math.Abs(float64(m.Logits[n]-x))), max(size, math.Abs(float64(x)))
		}
		if len(want) != len(m.Logits) || !(worst <= c.farther*size) {
			t.Errorf("%s: logits differ by up to %v of %v", c.name, worst, size)
		}
		n, others := scan.Len(), 0
		for v, label := range l.Labels {
			if (want[n+v] > want[v]) != (label == 1) {
				others++
			}
		}
		t.Logf("%s: logits differ by up to %.2g of %.2g; %d of %d labels of mean "+
			"logits are not those of mean probabilities", c.name, worst, size, others, n)
	}
}
