package prepare

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// What dataset.json says of the channel that is taken holds for all cases; the values alone decide
// where nobody says anything; an MR among CTs is refused by itself.
func TestChooseModality(t *testing.T) {
	of := datasettest.Likenesses(t)
	write := func(files map[string]string, json string) *dataset.Dataset {
		t.Helper()
		root := t.TempDir()
		for name, kind := range files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := nifti.Write(path, of[kind]); err != nil {
				t.Fatal(err)
			}
		}
		if json != "" {
			if err := os.WriteFile(filepath.Join(root, "dataset.json"), []byte(json), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return detect(t, root)
	}
	for name, c := range map[string]struct {
		d                   *dataset.Dataset
		modality, intensity string
		refused             string
	}{
		"nothing is said, CT": {write(map[string]string{"a.nii": "CT", "b.nii": "CT"}, ""), "CT", "ct-window", ""},
		"nothing is said, MR": {write(map[string]string{"a.nii": "MR", "b.nii": "MR"}, ""), "MR", "zscore", ""},
		"nothing is said, both": {write(map[string]string{"a.nii": "MR", "b.nii": "CT"}, ""), "", "",
			"1 case CT (b); 1 case MR (a)"},
		"one tells nothing": {write(map[string]string{"a.nii": "MR", "b.nii": "soft tissue and bone, no fat",
			"c.nii": "MR"}, ""), "MR", "zscore", ""},
		"all tell nothing": {write(map[string]string{"a.nii": "soft tissue and bone, no fat"}, ""), "CT", "ct-window",
			""},
		"names of both": {write(map[string]string{"p1/ct.nii": "CT", "p2/mri.nii": "MR"}, ""), "", "", "1 case CT"},
		"patients":      {write(map[string]string{"pet_1.nii": "CT", "pet_2.nii": "CT"}, ""), "CT", "ct-window", ""},
		"channel names": {write(map[string]string{"imagesTr/a_0000.nii": "MR"},
			`{"channel_names": {"0": "T1"}, "labels": {}, "file_ending": ".nii"}`), "MR", "zscore", ""},
		"modality": {write(map[string]string{"imagesTr/a.nii": "CT in kilo-HU"},
			`{"modality": {"0": "CT"}, "labels": {}}`), "CT", "ct-window", ""},
	} {
		kept, p, note, err := c.d.ChooseModality(volume.DefaultPreparation(), dataset.DefaultReadOptions(), 0)
		var mixed *dataset.MixedError
		switch {
		case c.refused != "":
			if !errors.As(err, &mixed) || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil || p.ModalityName() != c.modality || p.Scheme() != c.intensity ||
			len(kept.Cases) != len(c.d.Cases) || (note == "") != (c.modality == "CT"):
			t.Errorf("%s: %+v, %q, %v", name, p, note, err)
		}
	}
	d := write(map[string]string{"a.nii": "CT", "b.nii": "CT", "c.nii": "CT", "d.nii": "MR", "e.nii": "CT"}, "")
	summary, err := Run(t.Context(), d, t.TempDir(), volume.DefaultPreparation(), Options{}, nil)
	if err == nil || summary.Prepared != 4 ||
		!strings.Contains(
			err.Error(),
			"d.nii is not CT by its values: they are no Hounsfield units: --modality says what all of these scans are",
		) {
		t.Errorf("%+v, %v", summary, err)
	}
	p := volume.DefaultPreparation()
	p.Window = [2]float64{0, 500}
	if _, _, _, err := write(map[string]string{"a.nii": "MR"}, "").ChooseModality(p,
		dataset.DefaultReadOptions(), 0); err == nil ||
		!strings.Contains(err.Error(), "window is of intensity ct-window, and these scans are prepared by zscore") {
		t.Errorf("a window of MR: %v", err)
	}
	p = volume.DefaultPreparation()
	p.Modality = "CT"
	if summary, err = Run(t.Context(), d, t.TempDir(), p, Options{}, nil); err != nil ||
		summary.Prepared != 5 {
		t.Errorf("%+v, %v", summary, err)
	}
}

// Scans of which nothing is left are refused by name, labelled or not.
func TestBlankScansAreRefused(t *testing.T) {
	of := datasettest.Likenesses(t)
	nan := &volume.Volume{Grid: of["CT"].Grid, Float32: make([]float32, of["CT"].Len())}
	for n := range nan.Float32 {
		nan.Float32[n] = float32(math.NaN())
	}
	for name, c := range map[string]struct {
		scan *volume.Volume
		want string
	}{
		"blank": {of["nothing"], "all voxels are -1000: there is nothing to see"},
		"nan":   {nan, "no voxel is a number: there is nothing to see"},
		"tiny":  {of["PET in a tiny unit"], "nothing is left of its values, which go from 0 to "},
	} {
		for _, modality := range []string{"CT", "MR"} {
			if name == "tiny" && modality == "MR" {
				continue // it has its own scale
			}
			root := t.TempDir()
			if err := nifti.Write(filepath.Join(root, name+".nii.gz"), c.scan); err != nil {
				t.Fatal(err)
			}
			p := volume.DefaultPreparation()
			p.Modality = modality
			_, err := Run(t.Context(), detect(t, root), t.TempDir(), p, Options{}, nil)
			if err == nil || !strings.Contains(err.Error(), "preparing case "+name) ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%s as %s: %v", name, modality, err)
			}
		}
	}
}

// What is clipped, or has few values, is named with its share; a usual CT is not.
func TestOddValuesAreNamed(t *testing.T) {
	of := datasettest.Likenesses(t)
	for kind, want := range map[string]string{
		"CT": "", "CT with filler": "", "CT masked with 0": "", "MR": "",
		"CT from 0 up":  "% of the voxels are clipped at the upper end (HU -125 to 275)",
		"CT in kilo-HU": "WARNING: only ",
		"PET, hot": "1 of 61440 voxels lie further than 32 standard deviations off the mean, and are cut " +
			"there (values standardised scan by scan)",
	} {
		root, out := t.TempDir(), t.TempDir()
		if err := nifti.Write(filepath.Join(root, "p.nii.gz"), of[kind]); err != nil {
			t.Fatal(err)
		}
		p := volume.DefaultPreparation()
		switch p.Modality = "CT"; kind {
		case "MR", "PET, hot":
			p.Modality = "MR"
		case "CT from 0 up":
			p.Modality, p.Intensity = "OT", volume.CTWindow
		}
		var notes []string
		_, err := Run(t.Context(), detect(t, root), out, p, Options{},
			func(r Result) { notes = r.Record.Notes })
		if got := strings.Join(notes, "; "); err != nil || want == "" && strings.Contains(got, "WARNING") ||
			!strings.Contains(got, want) {
			t.Errorf("%s: %q, %v", kind, notes, err)
		}
	}
}

// The intensities of the labelled voxels are numpy's, in whatever order scans are read.
func TestForegroundIsNumpys(t *testing.T) {
	var g struct {
		Shape [3]int
		CT    struct{ Foreground [4]float64 }
	}
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "intensities.json"))
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil || g.CT.Foreground[3] == 0 {
		t.Fatal(err)
	}
	v := &volume.Volume{Grid: volume.Grid{Shape: g.Shape, Affine: volume.Scaling([3]float64{1, 1, 1})}}
	l := &volume.LabelMap{Grid: v.Grid}
	for n := range g.Shape[0] * g.Shape[1] * g.Shape[2] {
		i, j, k := n%g.Shape[0], n/g.Shape[0]%g.Shape[1], n/g.Shape[0]/g.Shape[1]
		far, x := (2*i-13)*(2*i-13)+(2*j-11)*(2*j-11)+(2*k-9)*(2*k-9), int16(0)
		if far < 90 && far > 6 {
			x = int16((uint64(n)*2654435761%(1<<32))>>22)*3 - 1100
		}
		label := uint16(0)
		if x > -200 {
			label = 1 + uint16(n%3)
		}
		v.Int16, l.Labels = append(v.Int16, x), append(l.Labels, label)
	}
	// As three cases, of a label each; one has a label to ignore, too, and one is held back.
	root := t.TempDir()
	for n, folder := range []string{"Tr", "Tr", "Tr", "Ts"} {
		one := &volume.LabelMap{Grid: l.Grid, Labels: make([]uint16, l.Len())}
		for at, label := range l.Labels {
			if label == uint16(n+1) || n == 3 {
				one.Labels[at] = 1
			} else if n == 1 && at%5 == 0 {
				one.Labels[at] = 2
			}
		}
		name := "case_" + string(rune('1'+n))
		for _, sub := range []string{"images", "labels"} {
			if err := os.MkdirAll(filepath.Join(root, sub+folder), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(nifti.Write(filepath.Join(root, "images"+folder, name+".nii.gz"), v),
			nifti.WriteLabels(filepath.Join(root, "labels"+folder, name+".nii.gz"), one)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "dataset.json"),
		[]byte(`{"modality": {"0": "CT"}, "labels": {"0": "background", "1": "organ", "2": "ignore"}}`),
		0o644); err != nil {
		t.Fatal(err)
	}
	p := volume.DefaultPreparation()
	p.Intensity = volume.CTPercentiles
	out := t.TempDir()
	summary, err := Run(t.Context(), detect(t, root), out, p, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range g.CT.Foreground {
		if got := summary.Preparation.Foreground[n]; math.Abs(got-want) > 1e-4 {
			t.Errorf("foreground %v, want %v", summary.Preparation.Foreground, g.CT.Foreground)
		}
	}
	before := summary.Fingerprint
	if summary, err = Run(t.Context(), detect(t, root), out, p, Options{Workers: 1}, nil); err != nil ||
		summary.Kept != 4 || summary.Fingerprint != before {
		t.Errorf("a second run: %+v, %v", summary, err)
	}
	if summary, err = Run(t.Context(), detect(t, root), t.TempDir(), p, Options{Workers: 1},
		nil); err != nil || summary.Fingerprint != before {
		t.Errorf("one after the other: %+v, %v", summary, err)
	}
}

// A CT that lies 1024 above Hounsfield units is refused whoever says that it is a CT, unless the
// window is one of such values, or intensities go by each scan.
func TestShiftedCTsOfASaidModality(t *testing.T) {
	scans := datasettest.Likenesses(t)
	shifted := volume.DefaultPreparation()
	shifted.Modality, shifted.Window = volume.ModalityCT, [2]float64{899, 1299}
	said := volume.DefaultPreparation()
	said.Modality = volume.ModalityCT
	counted := said // by what is counted in these scans
	counted.Intensity = volume.CTPercentiles
	standardised := said
	standardised.Intensity = volume.ZScore
	for _, c := range []struct {
		scan, channels string
		how            volume.Preparation
		want           string
	}{
		{"CT from 0 up", "", said, "a CT whose rescale by -1024 was left out"},
		{"CT from 0 up", "", shifted, ""},
		{"CT", "", shifted, "nothing is left of its values"},
		{"CT from 0 up", "", standardised, ""},
		{"CT from 0 up", "", counted, "rescale by -1024 was left out"},
		{"CT", "", counted, ""},
		{"CT", "", said, ""},
		{"CT from 0 up", `"0": "CT", "1": "CT late"`, volume.DefaultPreparation(), "rescale by -1024 was left out"},
		{"CT", `"0": "CT", "1": "CT late"`, volume.DefaultPreparation(), ""},
	} {
		root := t.TempDir()
		files := []string{"a.nii.gz"}
		if c.how.Scheme() == volume.CTPercentiles {
			v := scans[c.scan]
			l := &volume.LabelMap{Grid: v.Grid, Labels: make([]uint16, v.Len())}
			for n := range l.Labels[:v.Len()/2] {
				l.Labels[n] = 1
			}
			if err := nifti.WriteLabels(filepath.Join(root, "a_seg.nii.gz"), l); err != nil {
				t.Fatal(err)
			}
		}
		if c.channels != "" {
			files = []string{"imagesTr/a_0000.nii.gz", "imagesTr/a_0001.nii.gz"}
			if err := os.WriteFile(filepath.Join(root, "dataset.json"),
				[]byte(`{"channel_names": {`+c.channels+`}, "labels": {"background": 0, "organ": 1}}`), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for n, file := range files {
			path, v := filepath.Join(root, file), scans[c.scan]
			if n == 0 && len(files) > 1 {
				v = scans["CT"]
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), nifti.Write(path, v)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Run(t.Context(), detect(t, root), t.TempDir(), c.how, Options{}, nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s: %v, want %q", c.scan, c.channels, err, c.want)
		}
	}
}
