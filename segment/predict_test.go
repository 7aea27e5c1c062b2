package segment

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// resampledPhantoms is a store of made-up patients at another spacing than theirs, and their scans,
// with so many voxels of air on every side.
func resampledPhantoms(t testing.TB, n int, shape [3]int, around int, factor float64) (*prepared.Store,
	[]*volume.Volume, []*volume.LabelMap) {
	t.Helper()
	var scans []*volume.Volume
	var labels []*volume.LabelMap
	var inputs []prepared.Input
	for i := range n {
		v, l, err := phantom.New(uint64(i), phantom.Options{Shape: shape})
		if err != nil {
			t.Fatal(err)
		}
		origin, size := [3]int{-around, -around, -around}, [3]int{shape[0] + 2*around, shape[1] + 2*around,
			shape[2] + 2*around}
		if v, err = v.Crop(origin, size, -1000); err != nil {
			t.Fatal(err)
		}
		if l, err = l.Crop(origin, size); err != nil {
			t.Fatal(err)
		}
		scans, labels = append(scans, v), append(labels, l)
		inputs = append(inputs, prepared.Input{ID: string(rune('a' + i)), Image: v, Labels: l})
	}
	p := volume.DefaultPreparation()
	for a, s := range scans[0].Spacing() {
		p.Spacing[a] = s * factor
	}
	return traintest.Store(t, p, inputs...), scans, labels
}

// quick is a checkpoint of a network that has seen a few crops.
func quick(t testing.TB, dev voxsaw.Device, store *prepared.Store, ids []string, steps int) string {
	t.Helper()
	c := tiny()
	c.Network.Channels, c.Crop, c.Labels, c.Batch = 8, [3]int{16, 16, 12}, []string{"2", "3+4+5"}, 2
	c.Train.Steps, c.Train.LR, c.Train.Warmup, c.Train.ValidateEvery, c.Train.CheckpointEvery = steps, 0.03, 2, 0, steps
	folder := filepath.Join(t.TempDir(), "run")
	if _, _, err := Finetune(t.Context(), dev, resolved(t, c, store), sample.Data{Store: store, Train: ids}, "",
		voxsaw.RunOptions{Folder: folder, Loaders: 1}); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "last.safetensors")
}

// A prepared case and the scan that it was prepared from have one prediction on the scan's voxels,
// which is not that of the nearest prepared voxel.
func TestPredictionsOnTheScansVoxels(t *testing.T) {
	dev := testDevice(t)
	store, scans, _ := resampledPhantoms(t, 2, [3]int{48, 40, 36}, 0, 1.7)
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
	nearest, err := store.Preparation().Restore(onCase, scans[1].Whole())
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

// Where only the patient's box was prepared, predictions come back on the whole scan: around the
// box is background, and nothing else.
func TestPredictionsOfAPart(t *testing.T) {
	dev := testDevice(t)
	const around = 14
	store, scans, _ := resampledPhantoms(t, 2, [3]int{48, 40, 36}, around, 1.7)
	o := DefaultInference()
	o.Logits = true
	p, err := NewPredictor(dev, []string{quick(t, dev, store, []string{"a"}, 20)}, o, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := store.Open("b")
	if err != nil {
		t.Fatal(err)
	}
	if c.Box == nil {
		t.Fatal("the whole scan was prepared: the test says nothing")
	}
	original, err := p.PredictOriginal(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	scan, maps, err := p.PredictMaps(t.Context(), scans[1], MapOptions{Probabilities: true, Logits: true})
	if err != nil {
		t.Fatal(err)
	}
	if original.Grid != scans[1].Grid || scan.Grid != scans[1].Grid || !slices.Equal(original.Labels, scan.Labels) {
		t.Error("the prediction of a prepared case is not that of its scan")
	}
	if slices.Max(scan.Labels) == 0 {
		t.Error("nothing was found: the test says nothing")
	}
	n, box := scan.Len(), c.Bounds()
	for at, label := range scan.Labels {
		voxel := [3]int{at % scan.Shape[0], at / scan.Shape[0] % scan.Shape[1], at / scan.Shape[0] / scan.Shape[1]}
		inside := true
		for a := range 3 {
			inside = inside && voxel[a] >= box.Origin[a] && voxel[a] < box.Origin[a]+box.Size[a]
		}
		background, logit := maps.Probabilities[at], maps.Logits[n+at]
		if !inside && (label != 0 || background != 1 || maps.Probabilities[n+at] != 0 || maps.Logits[at] != 0 ||
			logit != -30) {
			t.Fatalf("voxel %v, outside the patient's box: label %d, background %v, logit %v", voxel, label, background,
				logit)
		}
		if inside && (logit == -30 || background == 1) {
			t.Fatalf("voxel %v, in the patient's box: background %v, logit %v", voxel, background, logit)
		}
	}
}
