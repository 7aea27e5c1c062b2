package segment

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// resampledPhantoms is a store of made-up patients at another spacing than theirs, and their scans.
func resampledPhantoms(t testing.TB, n int, shape [3]int, factor float64) (*prepared.Store, []*volume.Volume, []*volume.LabelMap) {
	t.Helper()
	var scans []*volume.Volume
	var labels []*volume.LabelMap
	var inputs []prepared.Input
	for i := range n {
		v, l, err := phantom.New(uint64(i), phantom.Options{Shape: shape})
		if err != nil {
			t.Fatal(err)
		}
		scans, labels = append(scans, v), append(labels, l)
		inputs = append(inputs, prepared.Input{ID: string(rune('a' + i)), Image: v, Labels: l})
	}
	p := volume.DefaultPreparation()
	for a, s := range scans[0].Spacing() {
		p.Spacing[a] = s * factor
	}
	dir := filepath.Join(t.TempDir(), "prepared")
	w, err := prepared.NewWriter(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range inputs {
		if _, err := w.Add(in); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, scans, labels
}

// quick is a checkpoint of a network that has seen a few crops.
func quick(t testing.TB, dev voxsaw.Device, store *prepared.Store, ids []string, steps int) string {
	t.Helper()
	c := tiny()
	c.Network.Channels, c.Crop, c.Labels, c.Batch = 8, [3]int{16, 16, 12}, []string{"2", "3+4+5"}, 2
	c.Train.Steps, c.Train.LR, c.Train.Warmup, c.Train.ValidateEvery, c.Train.CheckpointEvery = steps, 0.03, 2, 0, steps
	folder := filepath.Join(t.TempDir(), "run")
	if _, _, err := Finetune(t.Context(), dev, resolved(t, c, store), Data{store, ids, nil}, "", voxsaw.RunOptions{Folder: folder, Loaders: 1}); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "last.safetensors")
}

// A prepared case and the scan that it was prepared from have one prediction on the scan's voxels,
// which is not that of the nearest prepared voxel.
func TestPredictionsOnTheScansVoxels(t *testing.T) {
	dev := testDevice(t)
	store, scans, _ := resampledPhantoms(t, 2, [3]int{48, 40, 36}, 1.7)
	p, err := NewPredictor(dev, []string{quick(t, dev, store, []string{"a"}, 20)}, DefaultInference(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := store.Open("b")
	if err != nil {
		t.Fatal(err)
	}
	original, err := p.PredictOriginal(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	scan, err := p.Predict(t.Context(), scans[1])
	if err != nil {
		t.Fatal(err)
	}
	if original.Grid != scans[1].Grid || scan.Grid != scans[1].Grid {
		t.Errorf("the label maps lie on %v and %v, not on the scan's %v", original.Grid, scan.Grid, scans[1].Grid)
	}
	if !slices.Equal(original.Labels, scan.Labels) {
		t.Error("the prediction of a prepared case is not that of its scan")
	}
	if slices.Max(scan.Labels) == 0 {
		t.Error("nothing was found: the test says nothing")
	}
	onCase, err := p.PredictCase(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	nearest, err := store.Preparation().Restore(onCase, scans[1].Grid)
	if err != nil {
		t.Fatal(err)
	}
	different := 0
	for n := range nearest.Labels {
		if nearest.Labels[n] != scan.Labels[n] {
			different++
		}
	}
	if different == 0 || different > len(nearest.Labels)/5 {
		t.Errorf("%d of %d labels are not those of the nearest prepared voxel", different, len(nearest.Labels))
	}
}
