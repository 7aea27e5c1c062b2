package nnunet

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// asked predicts a scan with a model and what the options ask for.
func asked(t *testing.T, folder string, folds []string, o Options, scan *volume.Volume) (*volume.LabelMap, *Maps,
	*Predictor) {
	t.Helper()
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	m, err := Open(folder, folds)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPredictor(dev, m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	l, maps, err := p.PredictMaps(t.Context(), []*volume.Volume{scan})
	if err != nil {
		t.Fatal(err)
	}
	return l, maps, p
}

func scanAt(t *testing.T, path string) *volume.Volume {
	t.Helper()
	v, err := nifti.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The agreement is the DSC of the label maps that folds make alone, or that are made with mirror
// images and without, where nothing is resampled. It takes no other label map, in bands neither.
func TestAgreement(t *testing.T) {
	folder := filepath.Join("..", "..", "testdata", "nnunet", "flat")
	scan := func() *volume.Volume {
		v := scanAt(t, filepath.Join(folder, "scan_0000.nii.gz"))
		for axis, size := range [3]float64{1.9, 1.5, 3} { // the plans' spacing
			v.Affine[axis] = [4]float64{}
			v.Affine[axis][axis], v.Pixdim[axis] = size, size
		}
		return v
	}
	dsc := func(a, b *volume.LabelMap) map[uint16]float64 {
		mean := map[uint16]float64{}
		for label, x := range eval.Dice(a.Labels, b.Labels, nil, 2) {
			if label > 0 && !math.IsNaN(x) {
				mean[uint16(label)] = x
			}
		}
		return mean
	}
	first, _, _ := asked(t, folder, []string{"0"}, Options{}, scan())
	second, _, _ := asked(t, folder, []string{"1"}, Options{}, scan())
	plain, _, _ := asked(t, folder, []string{"0"}, Options{NoMirroring: true}, scan())
	both, _, _ := asked(t, folder, nil, Options{}, scan())
	for _, c := range []struct {
		folds []string
		same  *volume.LabelMap
		want  map[uint16]float64
	}{{nil, both, dsc(first, second)}, {[]string{"0"}, first, dsc(first, plain)}} {
		if x := c.want[1]; !(x > 0.1 && x < 0.99) {
			t.Fatalf("folds %v: DSC %v, which shows nothing", c.folds, c.want)
		}
		l, maps, p := asked(t, folder, c.folds, Options{Agreement: true}, scan())
		if !slices.Equal(l.Labels, c.same.Labels) {
			t.Errorf("folds %v: another label map", c.folds)
		}
		need := p.Need(l.Grid, 2)
		check := func(maps *Maps, how string) {
			if len(maps.Agreement) != len(c.want) {
				t.Errorf("folds %v%s: %v, want %v", c.folds, how, maps.Agreement, c.want)
			}
			for label, want := range c.want {
				if got := maps.Agreement[label]; math.Abs(got-want) > 1e-12 {
					t.Errorf("folds %v%s: label %d: %v, want %v", c.folds, how, label, got, want)
				}
			}
		}
		check(maps, "")
		e, err := p.scanned(l.Grid, 2)
		if err != nil {
			t.Fatal(err)
		}
		p.memory = p.Bytes() + p.inferring(e, 4)
		if p.count(e, p.room()) < 2 || p.inferring(e, 1) > need {
			t.Fatalf("folds %v: one band", c.folds)
		}
		_, maps, err = p.PredictMaps(t.Context(), []*volume.Volume{scan()})
		if err != nil {
			t.Fatal(err)
		}
		check(maps, " in bands")
	}
}

// What a model cannot tell is refused before anything is predicted.
func TestAskedTooMuch(t *testing.T) {
	golden := filepath.Join("..", "..", "testdata", "nnunet")
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, c := range []struct {
		model, flag, want string
		o                 Options
	}{
		{"flat_thick", "--agreement", "there is one fold, and nothing is mirrored",
			Options{Agreement: true, NoMirroring: true}},
		{"regions", "--agreement", "there is one fold", Options{Agreement: true}},
		{"regions", "--probabilities", "its regions may overlap", Options{Probabilities: true}},
	} {
		m, err := Open(filepath.Join(golden, c.model), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = NewPredictor(dev, m, c.o)
		var asked *AskedError
		if !errors.As(err, &asked) || asked.Flag != c.flag || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.model, err, c.want)
		}
	}
}

// Probabilities sum to 1, have their highest where the label map has its label, and leave the
// background alone outside of the box of what is not 0.
func TestProbabilities(t *testing.T) {
	folder := filepath.Join("..", "..", "testdata", "nnunet", "flat_thick")
	path := filepath.Join(folder, "scan_0000.nii.gz")
	l, maps, p := asked(t, folder, nil, Options{Probabilities: true}, scanAt(t, path))
	want, err := nifti.ReadLabels(filepath.Join(folder, "labels_mirrored.nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(l.Labels, want.Labels) {
		t.Error("another label map")
	}
	n := len(l.Labels)
	if len(maps.Probabilities) != 4*n {
		t.Fatalf("%d probabilities of %d voxels", len(maps.Probabilities), n)
	}
	scan := scanAt(t, path)
	outside := 0
	for i, label := range l.Labels {
		sum, best := float32(0), 0
		for class := range 4 {
			x := maps.Probabilities[class*n+i]
			if sum += x; x > maps.Probabilities[best*n+i] {
				best = class
			}
		}
		if math.Abs(float64(sum)-1) > 1e-6 || best != int(label) {
			t.Fatalf("voxel %d of label %d: sum %v, highest of class %d", i, label, sum, best)
		}
		if scan.Int16[i] == 0 && maps.Probabilities[i] == 1 {
			outside++
		}
	}
	if outside < 500 {
		t.Errorf("%d voxels are outside", outside)
	}
	bare, _ := predictor(t, folder)
	if more := p.Need(l.Grid, 2) - bare.Need(l.Grid, 2); more < int64(4*4*n) {
		t.Errorf("%d bytes more are said to be needed for %d probabilities", more, 4*n)
	}
}

// The probabilities are those that nnUNetv2_predict --save_probabilities writes.
func TestProbabilitiesOfNNUNet(t *testing.T) {
	folder := theirs(t)
	const model = "Dataset502_Thick/nnUNetTrainerDiceLoss__nnUNetResEncUNetMPlans__3d_small"
	scan := scanAt(t, filepath.Join(folder, "scans", "Dataset502_Thick", "kbp_016_0000.nii.gz"))
	l, maps, _ := asked(t, filepath.Join(folder, "results", model), nil,
		Options{Probabilities: true, NoMirroring: true}, scan)
	archive, err := zip.OpenReader(filepath.Join(folder, "predictions", "502_thick_fold_0_no_mirroring", "kbp_016.npz"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	f, err := archive.Open("probabilities.npy")
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	// numpy's format 1: magic, version, length of the header
	header := 10 + int(binary.LittleEndian.Uint16(data[8:]))
	if !strings.Contains(string(data[:header]), "'<f4', 'fortran_order': False") {
		t.Fatalf("%q", data[:header])
	}
	want := make([]float32, (len(data)-header)/4)
	if _, err := binary.Decode(data[header:], binary.LittleEndian, want); err != nil {
		t.Fatal(err)
	}
	if len(want) != len(maps.Probabilities) || len(want)%len(l.Labels) != 0 {
		t.Fatalf("%d probabilities, want %d", len(maps.Probabilities), len(want))
	}
	most := 0.0
	for i, x := range want {
		most = max(most, math.Abs(float64(x-maps.Probabilities[i])))
	}
	// a logit that rounds to the other float16 changes a probability by 2e-3 at most
	if most > 2e-3 {
		t.Errorf("a probability is off by %v", most)
	}
	t.Logf("off by %v at most", most)
}
