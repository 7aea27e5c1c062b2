package fingerprint

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

const golden = "../../testdata/nnplan" // made by testdata/nnplan.py

// theirs is nnU-Net's dataset_fingerprint.json, along (k, j, i), and the voxels of each label in
// its boxes, as numpy counts them.
type theirs struct {
	Intensities map[string]planning.Intensities `json:"foreground_intensity_properties_per_channel"`
	Relative    float64                         `json:"median_relative_size_after_cropping"`
	Shapes      [][3]int                        `json:"shapes_after_crop"`
	Spacings    [][3]float64                    `json:"spacings"`
	Labels      []map[string]int                `json:"label_voxels"`
}

func readTheirs(t *testing.T) (w theirs) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(golden, "dataset_fingerprint.json"))
	if err == nil {
		err = json.Unmarshal(text, &w)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// tiny is the set that nnU-Net's fingerprint is of, its axes as in the files.
func tiny(t *testing.T, modality string) (*dataset.Dataset, volume.Preparation) {
	t.Helper()
	d, err := dataset.Detect(filepath.Join(golden, "Dataset007_Tiny"), dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	how := volume.DefaultPreparation()
	how.Axcodes, how.Modality = "LPS", modality
	d, how, _, err = d.ChooseModality(how, dataset.DefaultReadOptions(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return d, how
}

// like compares statistics with nnU-Net's, which draws the values at random: by a hundredth of
// their spread, values lying one apart.
func like(t *testing.T, name string, got, want planning.Intensities) {
	t.Helper()
	if got.Min != want.Min || got.Max != want.Max {
		t.Errorf("%s: from %g to %g, nnU-Net has %g to %g", name, got.Min, got.Max, want.Min, want.Max)
	}
	for what, v := range map[string][2]float64{"mean": {got.Mean, want.Mean}, "SD": {got.SD, want.SD},
		"median": {got.Median, want.Median}, "low": {got.Low, want.Low}, "high": {got.High, want.High}} {
		if math.Abs(v[0]-v[1]) > max(1, want.SD/100) {
			t.Errorf("%s: %s is %g, nnU-Net has %g", name, what, v[0], v[1])
		}
	}
}

func TestScansAreNNUNets(t *testing.T) {
	want := readTheirs(t)
	d, how := tiny(t, "MR")
	told := 0
	f, left, err := OfScans(t.Context(), d, how, dataset.DefaultReadOptions(), func(int, int) { told++ })
	if err != nil || len(left) > 0 || told != 4 || f.Channels != 2 || f.Classes != 3 {
		t.Fatalf("%d told of, %v left out, %v: %+v", told, left, err, f)
	}
	for n, s := range f.Scans {
		for a := range 3 {
			if s.Body[a] != want.Shapes[n][2-a] || math.Abs(s.Spacing[a]-want.Spacings[n][2-a]) > 1e-6 {
				t.Errorf("scan %d: box %v of %v mm, nnU-Net has %v of %v", n, s.Body, s.Spacing, want.Shapes[n],
					want.Spacings[n])
			}
		}
		if len(s.Millilitres) != len(want.Labels[n]) || !s.Labels || !s.Cut {
			t.Errorf("scan %d: %+v", n, s)
		}
		for key, count := range want.Labels[n] {
			label, _ := strconv.Atoi(key)
			ml := float64(count) * want.Spacings[n][0] * want.Spacings[n][1] * want.Spacings[n][2] / 1000
			if got := s.Millilitres[uint16(label)]; math.Abs(got-ml) > 1e-5*ml {
				t.Errorf("scan %d: %g ml of label %d, want %g", n, got, label, ml)
			}
		}
	}
	if facts := f.Facts(); math.Abs(facts.BodyShare-want.Relative) > 1e-5 || len(facts.Labels) != 2 ||
		facts.Labels[0].Name != "liver" || facts.Labels[0].Scans != 4 {
		t.Errorf("%+v, nnU-Net's share is %g", facts, want.Relative)
	}
	for n, c := range f.Under {
		like(t, c.Name, c.Intensities, want.Intensities[strconv.Itoa(n)])
	}
	if len(f.Under) != 2 || f.Under[1].Name != "T1" {
		t.Errorf("channels %+v", f.Under)
	}
	// Values from -200 to 299 are as likely one as the other; 399 of 500 lie inside of the window.
	if math.Abs(f.Within-399.0/500) > 0.02 {
		t.Errorf("%g lie in the window of %v", f.Within, f.Window)
	}
}

// What one channel alone shows is in the box as well, as in nnU-Net's.
func TestBoxOfAllChannels(t *testing.T) {
	root := t.TempDir()
	for name, last := range map[string]int{"imagesTr/a_0000.nii.gz": 3, "imagesTr/a_0001.nii.gz": 7} {
		v := &volume.Volume{Grid: volume.Grid{Shape: [3]int{10, 10, 10}, Affine: volume.Scaling([3]float64{1, 1, 1})},
			Int16: make([]int16, 1000)}
		for n := 2; n <= last; n++ {
			v.Int16[v.Index(n, n, n)] = 5
		}
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := nifti.Write(path, v); err != nil {
			t.Fatal(err)
		}
	}
	names := `{"channel_names": {"0": "T1", "1": "T2"}, "labels": {"background": 0, "liver": 1}}`
	if err := os.WriteFile(filepath.Join(root, "dataset.json"), []byte(names), 0o600); err != nil {
		t.Fatal(err)
	}
	how := volume.DefaultPreparation()
	d, err := dataset.Detect(root, dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, how, _, err = d.ChooseModality(how, dataset.DefaultReadOptions(), 0)
	if err != nil {
		t.Fatal(err)
	}
	f, left, err := OfScans(t.Context(), d, how, dataset.DefaultReadOptions(), func(int, int) {})
	if err != nil || len(left) > 0 || len(f.Scans) != 1 || f.Scans[0].Body != [3]int{6, 6, 6} || !f.Scans[0].Cut {
		t.Errorf("%+v, %v, %v", f.Scans, left, err)
	}
}

// What is prepared of a scan has the same values, as far as its scheme keeps them.
func TestPreparedIsLikeTheScans(t *testing.T) {
	want := readTheirs(t)
	d, _ := tiny(t, "MR")
	for scheme, how := range map[string]volume.Preparation{
		"window": {Window: [2]float64{-200, 300}},
		"zscore": {Modality: "MR", Intensity: "zscore", Window: volume.DefaultPreparation().Window},
		"ct-percentiles": {Modality: "CT", Intensity: "ct-percentiles", Window: volume.DefaultPreparation().Window,
			Foreground: [4]float64{-1000, 1000, 50, 150}},
	} {
		how.Channels, how.Axcodes, how.Interpolation, how.Crop = "CT,T1", "LPS", "linear", volume.CropBody
		switch scheme {
		case "ct-percentiles":
			how.Modality, how.Intensity = "CT,MR", "ct-percentiles,zscore"
		case "window":
			how.Modality, how.Intensity = "CT,MR", "ct-window,zscore"
		}
		var inputs []prepared.Input
		for _, c := range d.Cases {
			v, l, _, err := c.Read(dataset.DefaultReadOptions(), d.LabelNames)
			if err != nil {
				t.Fatal(err)
			}
			more, _, err := c.ReadMore(v.Grid, dataset.DefaultReadOptions())
			if err != nil {
				t.Fatal(err)
			}
			inputs = append(inputs, prepared.Input{ID: c.ID, Image: v, More: more, Labels: l})
		}
		store := traintest.Store(t, how, inputs...)
		f, err := OfPrepared(t.Context(), store, func(int, int) {})
		if err != nil || len(f.Under) != 2 || f.Channels != 2 || f.Intensity != how.Scheme() {
			t.Fatalf("%s: %+v, %v", scheme, f, err)
		}
		if how.ModalityName() == "MR" { // cut as nnU-Net cuts
			for n, s := range f.Scans {
				if !s.Cut || s.Body != [3]int{want.Shapes[n][2], want.Shapes[n][1], want.Shapes[n][0]} ||
					s.Whole[0] != 36 {
					t.Errorf("%s: %+v, nnU-Net has %v", scheme, s, want.Shapes[n])
				}
			}
		}
		for n, c := range f.Under {
			wanted := want.Intensities[strconv.Itoa(n)]
			if how.ModalityName() != "MR" {
				// the body's box has labels that nnU-Net crops away, whose voxels are 0
				if math.Abs(c.Intensities.High-wanted.High) > 5 || c.Intensities.Max > wanted.Max+1 {
					t.Errorf("%s, %s: %+v, nnU-Net has %+v", scheme, c.Name, c.Intensities, wanted)
				}
				continue
			}
			got := c.Intensities
			if math.Abs(got.Min-wanted.Min) > 1 || math.Abs(got.Max-wanted.Max) > 1 {
				t.Errorf("%s, %s: from %g to %g, nnU-Net has %g to %g", scheme, c.Name, got.Min, got.Max, wanted.Min,
					wanted.Max)
			}
			got.Min, got.Max = wanted.Min, wanted.Max // steps of a thousandth of the spread
			like(t, scheme+", "+c.Name, got, wanted)
		}
		records := OfRecords(store)
		if len(records.Under) > 0 || !strings.Contains(records.Values, "not looked at") {
			t.Errorf("%s: records tell of intensities: %+v", scheme, records)
		}
	}
}

// A scan that cannot be read is left out, and named; without any there is no fingerprint.
func TestUnreadableScans(t *testing.T) {
	d, how := tiny(t, "MR")
	broken := filepath.Join(t.TempDir(), "c9_0000.nii.gz")
	if err := os.WriteFile(broken, []byte("no scan"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Cases = slices.Clone(d.Cases)
	d.Cases[1].Image = broken
	f, left, err := OfScans(t.Context(), d, how, dataset.DefaultReadOptions(), func(int, int) {})
	if err != nil || len(f.Scans) != 3 || len(left) != 1 || !strings.HasPrefix(left[0].Error(), d.Cases[1].ID+": ") {
		t.Errorf("%d scans, %v left out, %v", len(f.Scans), left, err)
	}
	d.Cases = d.Cases[1:2]
	if _, _, err := OfScans(t.Context(), d, how, dataset.DefaultReadOptions(), func(int, int) {}); err == nil ||
		!strings.Contains(err.Error(), "no scan could be read") || !strings.Contains(err.Error(), d.Cases[0].ID) {
		t.Errorf("nothing to read: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := OfScans(ctx, d, how, dataset.DefaultReadOptions(), func(int, int) {}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// Structures are counted that label maps hold, whether or not a file names them, and those that the
// data set names; what is to be ignored is none.
func TestClasses(t *testing.T) {
	root := t.TempDir()
	grid := volume.Grid{Shape: [3]int{14, 6, 5}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	for _, folder := range []string{"imagesTr", "labelsTr"} {
		if err := os.Mkdir(filepath.Join(root, folder), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for name, from := range map[string]int{"a": 1, "b": 7} {
		v := &volume.Volume{Grid: grid, Int16: make([]int16, grid.Len())}
		l := &volume.LabelMap{Grid: grid, Labels: make([]uint16, grid.Len())}
		for at := range v.Int16 {
			v.Int16[at] = int16(at % 1000)
			if label := from + at%14 - 1; label >= from && label < from+7 {
				l.Labels[at] = uint16(label)
			}
		}
		err := errors.Join(nifti.Write(filepath.Join(root, "imagesTr", name+"_0000.nii.gz"), v),
			nifti.WriteLabels(filepath.Join(root, "labelsTr", name+".nii.gz"), l))
		if err != nil {
			t.Fatal(err)
		}
	}
	for names, want := range map[string]int{
		"": 14,
		`{"channel_names": {"0": "CT"}, "labels": {"background": 0, "liver": 1, "tumour": 20}}`: 15,
		`{"channel_names": {"0": "CT"}, "labels": {"background": 0, "liver": 1, "ignore": 13}}`: 13,
	} {
		path := filepath.Join(root, "dataset.json")
		if err := os.WriteFile(path, []byte(names), 0o600); err != nil {
			t.Fatal(err)
		}
		if names == "" {
			os.Remove(path)
		}
		d, err := dataset.Detect(root, dataset.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f, left, err := OfScans(t.Context(), d, volume.DefaultPreparation(), dataset.DefaultReadOptions(),
			func(int, int) {})
		if err != nil || len(left) > 0 || f.Classes != want {
			t.Errorf("%s: %d classes, want %d; %v, %v", names, f.Classes, want, left, err)
		}
	}
}

// Of very many cases fewer values of each are kept, which tell nearly the same.
func TestManyCases(t *testing.T) {
	f := Foreground{most: 1 << 17}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		values := make([]float32, 5000)
		for n := range values {
			values[n] = float32(r.NormFloat64()*10 + 50)
		}
		f.Add(valuesOf(values))
	}
	kept := 0
	for _, c := range f.cases {
		kept += len(c.some)
	}
	i, err := f.Intensities()
	if err != nil || kept > f.most || kept < f.most/4 {
		t.Fatalf("%d values are kept, %v", kept, err)
	}
	// of a normal distribution
	for what, v := range map[string][2]float64{"mean": {i.Mean, 50}, "SD": {i.SD, 10}, "median": {i.Median, 50},
		"low": {i.Low, 50 - 25.758}, "high": {i.High, 50 + 25.758}, "within": {100 * f.Share(40, 60), 68.27}} {
		if math.Abs(v[0]-v[1]) > 0.2 {
			t.Errorf("%s is %g, want %g", what, v[0], v[1])
		}
	}
}

// A folder whose cases are all held back for testing has nothing to plan for.
func TestNothingToTrainOn(t *testing.T) {
	v, l, err := phantom.New(1, phantom.Options{Shape: [3]int{20, 16, 12}})
	if err != nil {
		t.Fatal(err)
	}
	store := traintest.Store(t, volume.DefaultPreparation(),
		prepared.Input{ID: "a", Group: dataset.GroupTest, Image: v, Labels: l})
	if _, err := OfPrepared(t.Context(), store, func(int, int) {}); err == nil ||
		!strings.Contains(err.Error(), "held back for testing") {
		t.Errorf("got %v", err)
	}
}
