package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
)

// write makes four scans with labels of the numbers 2, 5 and 7, and one without; 5 is called
// ignore. It returns the first scan and its labels.
func write(t *testing.T, root string) (first *volume.Volume, drawn *volume.LabelMap) {
	t.Helper()
	for n := range 5 {
		v, l, err := phantom.New(uint64(n+1), phantom.Options{Shape: [3]int{20, 16, 12}})
		if err != nil {
			t.Fatal(err)
		}
		for i, label := range l.Labels {
			l.Labels[i] = map[uint16]uint16{1: 2, 2: 5, 3: 7}[label]
		}
		l.Names = map[uint16]string{2: "liver", 5: "Ignore", 7: "spleen"}
		if n == 0 {
			first, drawn = v, l
		}
		for _, folder := range []string{"imagesTr", "labelsTr"} {
			if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		name := fmt.Sprintf("Doe^John_%d.nii.gz", n)
		if err := nifti.Write(filepath.Join(root, "imagesTr", name), v); err != nil {
			t.Fatal(err)
		}
		if n < 4 {
			if err := nifti.WriteLabels(filepath.Join(root, "labelsTr", name), l); err != nil {
				t.Fatal(err)
			}
		}
	}
	return first, drawn
}

func options() Options {
	return Options{
		Names:    NamesNumbered,
		Read:     dataset.DefaultReadOptions(),
		Channels: []string{"CT"},
		Folds:    5,
		Seed:     1,
	}
}

func detect(t *testing.T, root string) *dataset.Dataset {
	t.Helper()
	d, err := dataset.Detect(root, dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The folder is what nnU-Net's documentation wants: scripts/nnunet-check.py has nnU-Net verify one.
func TestNNUNet(t *testing.T) {
	root, out := t.TempDir(), filepath.Join(t.TempDir(), "Dataset001_Test")
	v, l := write(t, root)
	d := detect(t, root)
	told := 0
	s, err := NNUNet(context.Background(), d, out, options(), func(string, []string) { told++ })
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(s.Notes, "splits_final.json has 4 folds, not 5: a patient with labels in each") {
		t.Errorf("fewer folds than were asked for: notes %q", s.Notes)
	}
	if s.Labelled != 4 || s.Unlabelled != 1 || s.Folds != 4 || told != 5 {
		t.Errorf("%+v, told %d times", s, told)
	}
	if want := map[uint16]string{1: "liver", 2: "spleen", 3: "ignore"}; !maps.Equal(s.Labels, want) {
		t.Errorf("labels %v, want %v", s.Labels, want)
	}
	var about map[string]any
	text, err := os.ReadFile(filepath.Join(out, "dataset.json"))
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"channel_names": map[string]any{"0": "CT"}, "file_ending": ".nii.gz", "numTraining": 4.,
		"name":   "Dataset001_Test",
		"labels": map[string]any{"background": 0., "liver": 1., "spleen": 2., "ignore": 3.}}
	if !reflect.DeepEqual(about, want) {
		t.Errorf("dataset.json %v, want %v", about, want)
	}

	got, err := nifti.Read(filepath.Join(out, "imagesTr", "case_0001_0000.nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	map1, err := nifti.ReadLabels(filepath.Join(out, "labelsTr", "case_0001.nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for row := range 3 {
		for column := range 4 { // files hold them in single precision
			if x, y := got.Affine[row][column], v.Affine[row][column]; math.Abs(x-y) > 1e-5 {
				t.Errorf("affine %v, was %v", got.Affine, v.Affine)
			}
		}
	}
	if got.Grid != map1.Grid {
		t.Errorf("the grid of the labels is %v, of the scan %v", map1.Grid, got.Grid)
	}
	number := map[uint16]uint16{0: 0, 2: 1, 7: 2, 5: 3}
	for i := range map1.Labels {
		if got.Int16[i] != v.Int16[i] || map1.Labels[i] != number[l.Labels[i]] {
			t.Fatalf("voxel %d is %d with label %d, was %d with label %d", i, got.Int16[i], map1.Labels[i], v.Int16[i],
				l.Labels[i])
		}
	}
	folds, err := dataset.ReadSplits(filepath.Join(out, "splits_final.json"), []string{"case_0001", "case_0002",
		"case_0003", "case_0004"})
	if err != nil || len(folds) != 4 {
		t.Errorf("%d folds, %v", len(folds), err)
	}
	err = filepath.WalkDir(out, func(path string, e os.DirEntry, err error) error {
		if strings.Contains(e.Name(), "Doe") {
			t.Errorf("a patient's name is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadFile(filepath.Join(out, "names.csv")); err != nil ||
		!strings.HasPrefix(string(names), "name,case,scan,labels,series,first_file\n") ||
		!strings.Contains(string(names), "case_0005,Doe^John_4,") {
		t.Errorf("names.csv: %s, %v", names, err)
	}
	if _, err := NNUNet(context.Background(), d, out, options(), nil); err == nil ||
		!strings.Contains(err.Error(), "has a data set already") {
		t.Errorf("a second time: %v", err)
	}
}

// A folder that was interrupted is written anew, and has no case of before.
func TestInterrupted(t *testing.T) {
	root, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	write(t, root)
	ctx, cancel := context.WithCancel(context.Background())
	o := options()
	o.Names = NamesKeep
	if _, err := NNUNet(ctx, detect(t, root), out, o, func(string, []string) { cancel() }); err == nil {
		t.Fatal("an interrupted export ended well")
	}
	if _, err := NNUNet(context.Background(), detect(t, root), out, options(), nil); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(out, "images*", "*"))
	if err != nil || len(left) != 5 ||
		slices.ContainsFunc(left, func(p string) bool { return strings.Contains(p, "Doe") }) {
		t.Errorf("%q, %v", left, err)
	}
	// two at once: one of them writes, and the other one leaves its files alone
	shared := filepath.Join(t.TempDir(), "out")
	var second error
	if _, err := NNUNet(context.Background(), detect(t, root), shared, options(), func(string, []string) {
		_, err := NNUNet(context.Background(), detect(t, root), shared, options(), nil)
		second = errors.Join(second, err)
	}); err != nil || !errors.As(second, new(*atomicfile.HeldError)) {
		t.Errorf("two at once: %v, and %v", err, second)
	}
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "names.csv"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := NNUNet(context.Background(), detect(t, root), foreign, options(), nil); err == nil {
		t.Error("another's file was written over")
	}
}

// Scans that an export did not write stay, whatever else is written anew, and are not mixed with
// its own; so do files that are no scans.
func TestForeignScansStay(t *testing.T) {
	root := t.TempDir()
	write(t, root)
	interrupted := func() string {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		ctx, cancel := context.WithCancel(context.Background())
		if _, err := NNUNet(ctx, detect(t, root), out, options(), func(string, []string) { cancel() }); err == nil {
			t.Fatal("an interrupted export ended well")
		}
		return out
	}
	put := func(path string) {
		t.Helper()
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("mine"), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"imagesTr", "labelsTr", "imagesTs"} {
		out := interrupted()
		own := filepath.Join(out, folder, "liver_01_0000.nii.gz")
		put(own)
		_, err := NNUNet(context.Background(), detect(t, root), out, options(), nil)
		if err == nil || !strings.Contains(err.Error(), own+" is not of voxsaw export") {
			t.Errorf("%s: %v", folder, err)
		}
		if text, err := os.ReadFile(own); string(text) != "mine" {
			t.Errorf("%s: %q, %v", folder, text, err)
		}
		if _, err := os.Stat(filepath.Join(out, "imagesTr", "case_0001_0000.nii.gz")); err != nil {
			t.Errorf("refused, and yet removed: %v", err)
		}
	}
	out := interrupted()
	put(filepath.Join(out, "imagesTr", "notes.txt"))
	if _, err := NNUNet(context.Background(), detect(t, root), out, options(), nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(out, "imagesTr", "notes.txt")); err != nil {
		t.Error(err)
	}
}

func TestRegions(t *testing.T) {
	root := t.TempDir()
	write(t, root)
	o := options()
	for want, regions := range map[string][]string{
		"later regions take all":           {"spleen=spleen", "both=liver+spleen"},
		"the second does not lie in the f": {"left=liver+spleen", "right=spleen+Ignore"},
		`there is no label "heart"`:        {"all=liver+heart"},
		`there is no label "Ignore"`:       {"all=liver+Ignore"},
		"no region has the label spleen":   {"all=liver"},
		"want a new name":                  {"all=liver", "all=spleen"},
		"and labels, as in whole=edema+t":  {"all"},
	} {
		o.Regions = regions
		if _, err := NNUNet(context.Background(), detect(t, root), filepath.Join(t.TempDir(), "x"), o,
			nil); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", regions, err, want)
		}
	}
	o.Regions = []string{"all=liver+heart"}
	if _, err := NNUNet(context.Background(), detect(t, root), filepath.Join(t.TempDir(), "x"), o,
		func(id string, _ []string) { t.Errorf("%s is read before --regions is looked at", id) }); err == nil {
		t.Error("a label that there is not")
	}
	o.Regions = []string{"whole=liver+spleen", "core=spleen"}
	out := filepath.Join(t.TempDir(), "x")
	if _, err := NNUNet(context.Background(), detect(t, root), out, o, nil); err != nil {
		t.Fatal(err)
	}
	var about struct {
		Labels map[string]any `json:"labels"`
		Order  []int          `json:"regions_class_order"`
	}
	text, err := os.ReadFile(filepath.Join(out, "dataset.json"))
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	want := map[string]any{"background": 0., "whole": []any{1., 2.}, "core": []any{2.}, "ignore": 3.}
	if err != nil || !reflect.DeepEqual(about.Labels, want) || !slices.Equal(about.Order, []int{1, 2}) {
		t.Errorf("%v, order %v, %v", about.Labels, about.Order, err)
	}
	o.Regions = []string{"both=liver+spleen"}
	s, err := NNUNet(context.Background(), detect(t, root), filepath.Join(t.TempDir(), "x"), o, nil)
	if err != nil || !slices.Contains(s.Notes, "WARNING: nnU-Net has one number for the voxels of region both that "+
		"are in no other: those of spleen become liver") {
		t.Errorf("%+v, %v", s, err)
	}
	// nnU-Net goes through the regions in the file's order when it writes a prediction: one that
	// comes before a region around it would be overwritten (label_handling.py, LabelManager).
	whole, core := bytes.Index(text, []byte(`"whole"`)), bytes.Index(text, []byte(`"core"`))
	if whole > core {
		t.Errorf("the order of regions is not that of --regions:\n%s", text)
	}
}

// Cases that the data set holds back for testing are none to learn from.
func TestHeldBack(t *testing.T) {
	root, out := t.TempDir(), filepath.Join(t.TempDir(), "Dataset001_Test")
	write(t, root)
	for _, folder := range []string{"imagesT", "labelsT"} {
		if err := os.Mkdir(filepath.Join(root, folder+"s"), 0o755); err != nil {
			t.Fatal(err)
		}
		const scan = "Doe^John_3.nii.gz"
		if err := os.Rename(filepath.Join(root, folder+"r", scan), filepath.Join(root, folder+"s", scan)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := NNUNet(context.Background(), detect(t, root), out, options(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Labelled != 3 || s.HeldBack != 1 || s.Unlabelled != 1 || s.Folds != 3 {
		t.Errorf("%+v", s)
	}
	names, err := os.ReadFile(filepath.Join(out, "names.csv"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut("\n"+string(names), ",Doe^John_3,")
	before := strings.TrimSuffix(string(names), rest)
	name := before[strings.LastIndex(before, "\n")+1:]
	name, _, _ = strings.Cut(name, ",")
	for _, file := range []string{"imagesTs/" + name + "_0000", "labelsTs/" + name} {
		if _, err := os.Stat(filepath.Join(out, file+".nii.gz")); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "labelsTr", name+".nii.gz")); err == nil {
		t.Error("a case that is held back for testing would be learnt from")
	}
	splits, err := os.ReadFile(filepath.Join(out, "splits_final.json"))
	if err != nil || bytes.Contains(splits, []byte(name)) {
		t.Errorf("%s is in %s, %v", name, splits, err)
	}
	l, err := nifti.ReadLabels(filepath.Join(out, "labelsTs", name+".nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for number := range l.Counts() {
		if number > 3 {
			t.Errorf("the labels of a case for testing have the number %d", number)
		}
	}
}

func TestOtherModality(t *testing.T) {
	root := t.TempDir()
	write(t, root)
	o := options()
	o.Channels = []string{"MR"}
	if _, err := NNUNet(context.Background(), detect(t, root), filepath.Join(t.TempDir(), "x"), o, nil); err == nil {
		t.Error("CT was exported as MR")
	}
}

// A CT that lies 1024 above Hounsfield units is told where somebody says that it is a CT, and
// refused where its values are all that does.
func TestShiftedCTIsTold(t *testing.T) {
	root := t.TempDir()
	v, l, err := phantom.New(1, phantom.Options{Shape: [3]int{48, 40, 32}})
	if err != nil {
		t.Fatal(err)
	}
	for n, above := range []int16{0, 1024} {
		for i := range v.Int16 {
			v.Int16[i] = max(v.Int16[i], -1024) + above
		}
		name := fmt.Sprintf("%d", n)
		if err := errors.Join(nifti.Write(filepath.Join(root, name+".nii.gz"), v),
			nifti.WriteLabels(filepath.Join(root, name+"_seg.nii.gz"), l)); err != nil {
			t.Fatal(err)
		}
	}
	for _, said := range []string{"", "CT"} {
		p := volume.DefaultPreparation()
		p.Modality = said
		d, p, _, err := detect(t, root).ChooseModality(p, dataset.DefaultReadOptions(), 0)
		if err != nil {
			t.Fatal(err)
		}
		told := map[string]string{}
		_, err = NNUNet(t.Context(), d, filepath.Join(t.TempDir(), "x"), options(), func(id string, notes []string) {
			told[id] = strings.Join(notes, " ")
		})
		if said == "" {
			if err == nil || !strings.HasPrefix(err.Error(), "1: has values from 0 to") {
				t.Errorf("nobody says what the scans are: %v", err)
			}
			continue
		}
		if err != nil || told["0"] != "" || !strings.Contains(told["1"], "WARNING: has values from 0 to") {
			t.Errorf("%v, %q", err, told)
		}
	}
}

// Cases of two channels in folders by patient, of one of whom there are two: each channel is a file
// of its own with its voxels, and no fold divides the patient.
func TestChannelsAndPatients(t *testing.T) {
	root, out := t.TempDir(), filepath.Join(t.TempDir(), "Dataset001_Test")
	write(t, root)
	scans := filepath.Join(root, "imagesTr")
	for n := range 5 {
		second, _, err := phantom.New(uint64(n+11), phantom.Options{Shape: [3]int{20, 16, 12}})
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(scans, fmt.Sprintf("Doe^John_%d", n))
		if err := errors.Join(os.Rename(name+".nii.gz", name+"_0000.nii.gz"),
			nifti.Write(name+"_0001.nii.gz", second)); err != nil {
			t.Fatal(err)
		}
	}
	table := filepath.Join(root, "patients.csv")
	const rows = "case,patient\nDoe^John_0,A\nDoe^John_1,B\nDoe^John_2,A\nDoe^John_3,C\nDoe^John_4,D\n"
	about := `{"channel_names": {"0": "T1", "1": "T2"}, "file_ending": ".nii.gz",
		"labels": {"background": 0, "liver": 2, "ignore": 5, "spleen": 7}}`
	if err := errors.Join(os.WriteFile(table, []byte(rows), 0o666),
		os.WriteFile(filepath.Join(root, "dataset.json"), []byte(about), 0o666)); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Channels = []string{"T1", "T2"}
	d, err := dataset.Detect(root, dataset.Options{Channels: o.Channels, Patients: table})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NNUNet(t.Context(), d, out, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Folds != 3 || !slices.Equal(s.Channels, o.Channels) || s.Labels[3] != "ignore" {
		t.Errorf("%+v", s)
	}
	for n := range 4 {
		for c := range 2 {
			want, err := nifti.Read(filepath.Join(scans, fmt.Sprintf("Doe^John_%d_%04d.nii.gz", n, c)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := nifti.Read(filepath.Join(out, images, fmt.Sprintf("case_%04d_%04d.nii.gz", n+1, c)))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Int16, want.Int16) || got.Grid != want.Grid {
				t.Errorf("case %d, channel %d: other voxels, or elsewhere", n, c)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(out, datasetFile))
	if err != nil || !bytes.Contains(text, []byte("\"0\": \"T1\",\n    \"1\": \"T2\"")) {
		t.Errorf("dataset.json: %s, %v", text, err)
	}
	cases := []string{"case_0001", "case_0002", "case_0003", "case_0004"}
	folds, err := dataset.ReadSplits(filepath.Join(out, splitsFile), cases)
	if err != nil || len(folds) != 3 {
		t.Fatalf("%v, %v", folds, err)
	}
	for _, f := range folds {
		if slices.Contains(f.Val, cases[0]) != slices.Contains(f.Val, cases[2]) ||
			slices.Contains(f.Train, cases[0]) != slices.Contains(f.Train, cases[2]) {
			t.Errorf("a fold divides a patient: %+v", f)
		}
	}
}

// A DICOM series becomes a file with its values where they lie, and its labels on the same grid.
func TestSeries(t *testing.T) {
	root, out := t.TempDir(), filepath.Join(t.TempDir(), "Dataset001_Test")
	if err := miniature.Scans(root, miniature.ScanOptions{Cases: 3, Labelled: 2, Format: "dicom"}); err != nil {
		t.Fatal(err)
	}
	s, err := NNUNet(t.Context(), detect(t, root), out, options(), nil)
	if err != nil || s.Labelled != 2 || s.Unlabelled != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	for n := range 2 {
		scan, drawn, err := phantom.New(uint64(n+1), phantom.Options{Shape: [3]int{24, 20, 16}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := nifti.Read(filepath.Join(out, images, fmt.Sprintf("case_%04d_0000.nii.gz", n+1)))
		if err != nil {
			t.Fatal(err)
		}
		of, err := nifti.ReadLabels(filepath.Join(out, labels, fmt.Sprintf("case_%04d.nii.gz", n+1)))
		if err != nil {
			t.Fatal(err)
		}
		if got.Grid != of.Grid {
			t.Errorf("the grid of the labels is %v, of the scan %v", of.Grid, got.Grid)
		}
		if got, err = got.Orient("RAS"); err != nil {
			t.Fatal(err)
		}
		if of, err = of.Orient("RAS"); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Int16, scan.Int16) || !slices.Equal(of.Labels, drawn.Labels) {
			t.Errorf("case %d: other voxels than those of the series", n)
		}
		for row := range 3 {
			for column := range 4 {
				if x, y := got.Affine[row][column], scan.Affine[row][column]; math.Abs(x-y) > 1e-3 {
					t.Errorf("affine %v, was %v", got.Affine, scan.Affine)
				}
			}
		}
	}
}
