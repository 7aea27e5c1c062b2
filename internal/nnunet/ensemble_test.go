package nnunet

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// ensemble opens models that predict together.
func ensemble(t *testing.T, o Options, paths ...string) (*Ensemble, error) {
	t.Helper()
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	var models []*Model
	for _, path := range paths {
		m, err := Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		models = append(models, m)
	}
	return NewEnsemble(dev, models, o)
}

// Probabilities are means of those of the models, and the highest decides; of one model twice they
// are its own, of labels and of regions.
func TestEnsemble(t *testing.T) {
	thick := filepath.Join("..", "..", "testdata", "nnunet", "thick")
	var folds []string
	for _, fold := range []string{"0", "1"} {
		folds = append(folds, filepath.Join(thick, "fold_"+fold, checkpointNames[0]))
	}
	scan := func() *volume.Volume { return scanAt(t, filepath.Join(thick, "scan_0000.nii.gz")) }
	e, err := ensemble(t, Options{Probabilities: true, Agreement: true}, folds...)
	if err != nil {
		t.Fatal(err)
	}
	done, all := 0, 0
	e.Progress = func(n, of int) { done, all = n, of }
	l, maps, err := e.PredictMaps(t.Context(), []*volume.Volume{scan()})
	if err != nil {
		t.Fatal(err)
	}
	if done != all || all == 0 {
		t.Errorf("%d of %d windows", done, all)
	}
	one, first, _ := asked(t, folds[0], nil, Options{Probabilities: true}, scan())
	other, second, _ := asked(t, folds[1], nil, Options{Probabilities: true}, scan())
	for label, want := range eval.Dice(one.Labels, other.Labels, nil, 2) {
		if got := maps.Agreement[uint16(label)]; label > 0 && (got != want || !(want > 0 && want < 1)) {
			t.Errorf("label %d: the label maps of each agree to %v, told is %v", label, want, got)
		}
	}
	differ := 0
	for i, x := range maps.Probabilities {
		if x != (first.Probabilities[i]+second.Probabilities[i])/2 {
			t.Fatalf("probability %d is %v, of %v and %v", i, x, first.Probabilities[i], second.Probabilities[i])
		}
		if first.Probabilities[i] != second.Probabilities[i] {
			differ++
		}
	}
	if differ == 0 {
		t.Error("the models say the same")
	}
	n := len(l.Labels)
	for i, label := range l.Labels {
		for head := range e.Model().Heads() {
			if x := maps.Probabilities[head*n+i]; x > maps.Probabilities[int(label)*n+i] {
				t.Fatalf("voxel %d has label %d, and %d has %v", i, label, head, x)
			}
		}
	}
	regions := filepath.Join("..", "..", "testdata", "nnunet", "regions")
	for _, c := range []struct {
		path, folder string
		channels     int
	}{{folds[0], thick, 1}, {regions, regions, 2}} {
		var scans []string
		for channel := range c.channels {
			scans = append(scans, filepath.Join(c.folder, fmt.Sprintf("scan_%04d.nii.gz", channel)))
		}
		want, err := predictedBy(t, c.path, Options{}, scans...)
		if err != nil {
			t.Fatal(err)
		}
		e, err := ensemble(t, Options{}, c.path, c.path)
		if err != nil {
			t.Fatal(err)
		}
		var channels []*volume.Volume
		for _, path := range scans {
			channels = append(channels, scanAt(t, path))
		}
		got, maps, err := e.PredictMaps(t.Context(), channels)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Labels, want.Labels) || maps.Probabilities != nil {
			t.Errorf("%s twice: %v voxels of labels, want %v", c.path, got.Counts(), want.Counts())
		}
	}
}

// A 2D and a 3D model together give what nnU-Net's own functions of nnUNetv2_ensemble make of their
// probabilities: no voxel is another one.
func TestEnsembleOfNNUNet(t *testing.T) {
	golden := filepath.Join("..", "..", "testdata")
	flat := filepath.Join(golden, "nnunet", "flat")
	want, err := nifti.ReadLabels(filepath.Join(golden, "nnunet_ensemble", "labels.nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	var first []float32
	for _, order := range [][]string{{flat, filepath.Join(golden, "nnunet", "thick")},
		{filepath.Join(golden, "nnunet", "thick"), flat}} {
		e, err := ensemble(t, Options{Probabilities: true}, order...)
		if err != nil {
			t.Fatal(err)
		}
		scan := scanAt(t, filepath.Join(flat, "scan_0000.nii.gz"))
		got, said, err := e.PredictMaps(t.Context(), []*volume.Volume{scan})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Labels, want.Labels) || len(want.Counts()) != 3 {
			t.Errorf("%v: %v voxels of labels, want %v", order, got.Counts(), want.Counts())
		}
		if first == nil {
			first = said.Probabilities
		} else if !slices.Equal(first, said.Probabilities) {
			t.Errorf("%v: the order of the models changes probabilities", order)
		}
	}
}

// What an ensemble takes is known before a scan is read: with a byte less one of its models does
// not fit.
func TestEnsembleFits(t *testing.T) {
	thick := filepath.Join("..", "..", "testdata", "nnunet", "thick")
	e, err := ensemble(t, Options{}, filepath.Join(thick, "fold_0", checkpointNames[0]), thick)
	if err != nil {
		t.Fatal(err)
	}
	g := scanAt(t, filepath.Join(thick, "scan_0000.nii.gz")).Grid
	low, high := int64(1), int64(math.MaxInt32)
	for low < high {
		if e.memory = (low + high) / 2; e.Fits(g, 2) == nil {
			high = e.memory
		} else {
			low = e.memory + 1
		}
	}
	for _, less := range []int64{0, 1} {
		e.memory = low - less
		_, _, err := e.PredictMaps(t.Context(), []*volume.Volume{scanAt(t, filepath.Join(thick, "scan_0000.nii.gz"))})
		if (err != nil) != (less > 0) || err != nil && !strings.Contains(err.Error(), "raise --memory") {
			t.Errorf("%d bytes too few: %v", less, err)
		}
	}
	if voxels := int64(g.Len()); low < 4*3*voxels {
		t.Errorf("%d bytes, of which the probabilities take %d", low, 4*3*voxels)
	}
}

// Of models of which one was trained without mirror images, another has them: that is not the same
// as if none had.
func TestMirroringOfEnsembles(t *testing.T) {
	thick := filepath.Join("..", "..", "testdata", "nnunet", "thick")
	_, r := read(t, thick, "0")
	plain := filepath.Join(t.TempDir(), "Dataset901_Again", "nnUNetTrainer__otherPlans__3d_small")
	if err := r.Write(plain); err != nil {
		t.Fatal(err)
	}
	mirrored := func(o Options, paths ...string) string {
		e, err := ensemble(t, o, paths...)
		if err != nil {
			t.Fatal(err)
		}
		return e.MirroredAxes()
	}
	first := filepath.Join(thick, "fold_0", checkpointNames[0])
	for want, got := range map[string]string{
		"":    mirrored(Options{NoMirroring: true}, first, plain),
		"012": mirrored(Options{}, first, filepath.Join(thick, "fold_1", checkpointNames[0])),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := mirrored(Options{}, first, plain); got != "012,-" && got != "-,012" {
		t.Errorf("%q", got)
	}
}

// Each channel of a scan counts with its own type once it is read, and before with the largest one
// of all. All models but the last get a copy.
func TestChannelsOfEnsembles(t *testing.T) {
	regions := filepath.Join("..", "..", "testdata", "nnunet", "regions")
	e, err := ensemble(t, Options{}, regions, filepath.Join(regions, "fold_all", checkpointNames[0]))
	if err != nil {
		t.Fatal(err)
	}
	var scan []*volume.Volume
	for _, name := range []string{"scan_0000.nii.gz", "scan_0001.nii.gz"} {
		scan = append(scan, scanAt(t, filepath.Join(regions, name)))
	}
	v := scan[1]
	if scan[0].Int16 == nil || v.Int16 == nil {
		t.Fatal("no integers")
	}
	for _, x := range v.Int16 {
		v.Float32 = append(v.Float32, float32(x))
	}
	v.Int16, e.memory = nil, 1<<30
	left := func() int64 { return e.memory - e.members[0].memory }
	for _, bytes := range []int{2, 4} {
		want := int64(v.Len()) * int64(2*bytes)
		if err := e.Fits(v.Grid, bytes); err != nil || left() != want {
			t.Errorf("before it is read: %d bytes, want %d; %v", left(), want, err)
		}
	}
	want := int64(v.Len()) * (2 + 4)
	e.members[0].memory = 0
	if _, _, err := e.PredictMaps(t.Context(), scan); err != nil || left() != want {
		t.Errorf("read: %d bytes, want %d; %v", left(), want, err)
	}
}

// Models of other labels are refused, and what several together do not tell.
func TestEnsembleRefusals(t *testing.T) {
	golden := filepath.Join("..", "..", "testdata", "nnunet")
	thick, other := filepath.Join(golden, "thick"), filepath.Join(t.TempDir(), "other")
	if err := errors.Join(os.CopyFS(other, os.DirFS(filepath.Join(golden, "flat"))), os.WriteFile(filepath.Join(other,
		datasetName), []byte(`{"channel_names": {"0": "T1"}, "labels": {"background": 0, "organ": 1, "lesion": 2}}`),
		0o666)); err != nil {
		t.Fatal(err)
	}
	_, err := ensemble(t, Options{}, thick, filepath.Join(golden, "regions"))
	if err == nil || !strings.Contains(err.Error(), "cannot be averaged: their labels differ: background (0), organ") {
		t.Error(err)
	}
	if _, err := ensemble(t, Options{}, thick, other); err == nil ||
		!strings.Contains(err.Error(), "cannot be averaged: their channels differ") {
		t.Error(err)
	}
	// unions of other labels that are called alike
	regions := filepath.Join(t.TempDir(), "regions")
	if err := os.CopyFS(regions, os.DirFS(filepath.Join(golden, "regions"))); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(regions, datasetName))
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(bytes.Join(bytes.Fields(text), nil), []byte("[1,2]"), []byte("[1,4]"), 1)
	if err := os.WriteFile(filepath.Join(regions, datasetName), changed, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ensemble(t, Options{}, filepath.Join(golden, "regions"), regions); err == nil ||
		!strings.Contains(err.Error(), "cannot be averaged: their labels differ: whole (1 of 1+2)") {
		t.Errorf("%v: %s", err, changed)
	}
	var refused *AskedError
	if _, err := ensemble(t, Options{Postprocess: true}, thick, thick); !errors.As(err, &refused) ||
		refused.Flag != "--components" {
		t.Error(err)
	}
}
