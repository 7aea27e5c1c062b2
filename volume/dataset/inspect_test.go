package dataset

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// The parts of a data set give the entries of the whole: a scan and its labels, in one file or in
// several, are in one part and are compared there; what belongs to no case is in one part, too.
func TestInspectParts(t *testing.T) {
	root := folderOf(t, "p1", "p2", "p3", "p4", "p5")
	_, l := datasettest.Patient(t, 2)
	moved := &volume.LabelMap{Grid: l.Grid, Labels: l.Labels}
	moved.Affine[2][3] += 40
	if err := errors.Join(
		nifti.WriteLabels(filepath.Join(root, "labelsTr/p3.nii.gz"), moved),
		nifti.WriteLabels(filepath.Join(root, "labelsTr/of_nobody.nii.gz"), l)); err != nil {
		t.Fatal(err)
	}
	byPath := func(a, b Entry) int { return strings.Compare(a.Path, b.Path) }
	whole, _, err := Inspect(t.Context(), []string{root}, InspectOptions{})
	if err != nil || len(whole) != 11 {
		t.Fatalf("%d entries, %v", len(whole), err)
	}
	slices.SortFunc(whole, byPath)
	for _, of := range []int{1, 2, 3, 11} {
		var all []Entry
		for n := range of {
			part, _, err := Inspect(t.Context(), []string{root}, InspectOptions{Part: Part{n + 1, of}})
			if err != nil {
				t.Fatal(err)
			}
			if of == 2 && n == 0 && len(part) != 6+1 { // p1, p3, p5 and the first that is of nobody
				t.Errorf("%d entries in part 1 of 2", len(part))
			}
			all = append(all, part...)
		}
		slices.SortFunc(all, byPath)
		if !reflect.DeepEqual(all, whole) {
			t.Errorf("%d parts: %+v\nwant %+v", of, all, whole)
		}
	}
}

func TestInspect(t *testing.T) {
	root := folderOf(t, "p1", "p2", "p3")
	_, l := datasettest.Patient(t, 1)
	moved := &volume.LabelMap{Grid: l.Grid, Labels: l.Labels}
	moved.Affine[2][3] += 40
	if err := errors.Join(
		os.WriteFile(filepath.Join(root, "imagesTr/p1.nii.gz"), []byte("no scan"), 0o666),
		nifti.WriteLabels(filepath.Join(root, "labelsTr/p2.nii.gz"), moved)); err != nil {
		t.Fatal(err)
	}
	entries, notes, err := Inspect(t.Context(), []string{root}, InspectOptions{})
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "3 cases, 3 with labels") {
		t.Fatal(notes, err)
	}
	problems := map[string]int{}
	for _, e := range entries {
		relative, err := filepath.Rel(root, e.Path)
		if err != nil {
			t.Fatal(err)
		}
		problems[filepath.ToSlash(relative)] = len(e.Problems)
		if e.Labels != nil != strings.HasPrefix(filepath.ToSlash(relative), "labelsTr") {
			t.Errorf("%s: labels %v", relative, e.Labels)
		}
	}
	want := map[string]int{"imagesTr/p1.nii.gz": 1, "imagesTr/p2.nii.gz": 0, "imagesTr/p3.nii.gz": 0,
		"labelsTr/p1.nii.gz": 0, "labelsTr/p2.nii.gz": 1, "labelsTr/p3.nii.gz": 0}
	for name, n := range want {
		if got, found := problems[name]; got != n || !found {
			t.Errorf("%s: %d problems, want %d", name, got, n)
		}
	}
	if first := ProblemsFirst(entries); len(first[0].Problems) == 0 || len(first[1].Problems) == 0 || len(first) != 6 {
		t.Error("problems do not come first")
	}

	// The fields that programs read, no more and no fewer.
	data, err := json.Marshal(entries[1])
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields("path kind shape spacing axcodes affine dtype min max mean problems") {
		if value, found := fields[name]; !found || value == nil {
			t.Errorf("%s is %v", name, value)
		}
		delete(fields, name)
	}
	if len(fields) > 0 {
		t.Errorf("further fields: %v", fields)
	}
	if _, _, err := Inspect(t.Context(), []string{filepath.Join(root, "nothing")}, InspectOptions{}); err == nil {
		t.Error("a path that is not there")
	}
}

// A scan that was put where labels belong is found out by its values.
func TestInspectFindsAScanAmongLabels(t *testing.T) {
	root := folderOf(t, "p1")
	scan, _ := datasettest.Patient(t, 1)
	if err := nifti.Write(filepath.Join(root, "labelsTr/p1.nii.gz"), scan); err != nil {
		t.Fatal(err)
	}
	entries, _, err := Inspect(t.Context(), []string{root}, InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		flagged := slices.ContainsFunc(e.Problems, func(p string) bool {
			return strings.Contains(p, "its labels cannot be read: is not a label map: it holds -")
		})
		if labels := strings.Contains(e.Path, "labelsTr"); flagged != labels {
			t.Errorf("%s: problems %q", e.Path, e.Problems)
		}
	}
}

// A folder with everything in it: what cannot be used comes first, then what is odd; labels have
// the names of the data set; a localizer is no problem.
func TestInspectMixedFolder(t *testing.T) {
	root := folderOf(t, "p1", "p2", "p3")
	in := func(name string) string { return filepath.Join(root, name) }
	v, _ := datasettest.Axial(t, 1)
	_, l := datasettest.Patient(t, 1)
	l.Affine[0][3] += 0.3 * l.Spacing()[0]
	scout := &volume.Volume{Grid: v.Grid, Int16: v.Int16[:v.Shape[0]*v.Shape[1]]}
	scout.Shape[2] = 1
	datasettest.WriteSeries(t, in("dicom/ct"), "1.2.1", v, false)
	datasettest.WriteSeries(t, in("dicom/scout"), "1.2.2", scout, false)
	files, err := filepath.Glob(in("dicom/scout/*"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	class := datasettest.Element(0x0008, 0x0016, "UI", "1.2.840.10008.5.1.4.1.1.2")
	file = []byte(strings.Replace(string(file), class, datasettest.Element(0x0008, 0x0008, "CS",
		`ORIGINAL\PRIMARY\LOCALIZER`)+
		class, 1))
	if err := errors.Join(os.WriteFile(files[0], file, 0o666), os.WriteFile(in("a.mgz"), nil, 0o666),
		os.WriteFile(in("imagesTr/._p1.nii.gz"), []byte("junk"), 0o666),
		os.WriteFile(in("empty.nii.gz"), nil, 0o666), os.WriteFile(in("dicom/ct/cut.dcm"), file[:300], 0o666),
		nifti.WriteLabels(in("labelsTr/p1.nii.gz"), l)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"empty.nii.gz NIfTI is empty",
		"dicom/ct/cut.dcm DICOM is truncated: it ends in the middle of an element",
		"labelsTr/p1.nii.gz NIfTI-1 labels lie 0.30 voxels beside those of the " +
			"scan, by their header: taken voxel by voxel",
		"dicom/ct DICOM a file beside its slices, cut.dcm, is empty or damaged: was the transfer complete?",
		"imagesTr/p1.nii.gz NIfTI-1 ", "imagesTr/p2.nii.gz NIfTI-1 ", "imagesTr/p3.nii.gz NIfTI-1 ",
		"labelsTr/p2.nii.gz NIfTI-1 ", "labelsTr/p3.nii.gz NIfTI-1 ",
		"dicom/scout DICOM localizer ",
	}
	if err := os.Symlink("nowhere", in("link")); err == nil { // not everywhere
		want = slices.Insert(want, 1, "link unknown a link that leads nowhere")
	}
	entries, notes, err := Inspect(t.Context(), []string{root}, InspectOptions{})
	if err != nil || !datasettest.Noted(notes, "passed over 1 .mgz: NIfTI, NRRD, MetaImage and DICOM are read") ||
		!datasettest.Noted(notes, "layout scans, 5 cases, 3 with labels") {
		t.Fatalf("%v, %q", err, notes)
	}
	var got []string
	for _, e := range ProblemsFirst(entries) {
		relative, err := filepath.Rel(root, e.Path)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, filepath.ToSlash(relative)+" "+e.Kind+" "+strings.Join(e.Problems, "; "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// The names that the data set gives its labels.
	root = folderOf(t, "p1")
	if err := os.WriteFile(in("dataset.json"), []byte(`{"labels": {"0": "background", "4": "pancreas"}}`),
		0o666); err != nil {
		t.Fatal(err)
	}
	if entries, _, err = Inspect(t.Context(), []string{root}, InspectOptions{}); err != nil ||
		entries[0].LabelNames != nil || entries[1].LabelNames[4] != "pancreas" {
		t.Errorf("%+v, %v", entries, err)
	}
}

// Pictures of two dimensions are scans of one slice.
func TestInspectTwoDimensions(t *testing.T) {
	root := folderOf(t)
	g := volume.Grid{Shape: [3]int{3, 2, 1}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	if err := errors.Join(nifti.Write(filepath.Join(root, "a.nii"),
		&volume.Volume{Grid: g, Int16: []int16{1, 2, 3, 4, 5, -6}}),
		nifti.WriteLabels(filepath.Join(root, "a_seg.nii"),
			&volume.LabelMap{Grid: g, Labels: []uint16{0, 1, 0, 0, 0, 0}})); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.nii", "a_seg.nii"} {
		file, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			file[40] = 2
			err = os.WriteFile(filepath.Join(root, name), file, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	entries, _, err := Inspect(t.Context(), []string{root}, InspectOptions{})
	if err != nil || len(entries) != 2 || !slices.Equal(entries[0].Shape, []int{3, 2}) || len(entries[0].Problems)+
		len(entries[1].Problems) > 0 || entries[1].Labels[1] != 1 {
		t.Errorf("%+v, %v", entries, err)
	}
}

// Files of several volumes: all together, or the one that is asked for.
func TestInspectVolumes(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "time.nii")
	v := &volume.Volume{Grid: volume.Grid{Shape: [3]int{2, 1, 6}, Affine: volume.Scaling([3]float64{1, 1, 1})},
		Int16: []int16{1, 2, 3, 4, 0, 1, -2, 2, 50, 60, 70, 80}}
	if err := nifti.Write(path, v); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file[40], file[46], file[48] = 4, 2, 3 // three volumes of two slices
	if err := os.WriteFile(path, file, 0o666); err != nil {
		t.Fatal(err)
	}
	for chosen, want := range []struct {
		min, max, mean float64
		problem        string
	}{{-2, 80, 271. / 12, "3 volumes: choose one with --volume, or name all with --channels"}, {1, 4, 2.5, ""}, {-2, 2,
		0.25, ""}, {50, 80, 65, ""},
		{0, 0, 0, "has no volume 4: it holds 3"}} {
		entries, _, err := Inspect(t.Context(), []string{root}, InspectOptions{Volume: chosen})
		if err != nil || len(entries) != 1 || !slices.Equal(entries[0].Shape, []int{2, 1, 2, 3}) {
			t.Fatalf("%+v, %v", entries, err)
		}
		e := entries[0]
		if strings.Join(e.Problems, "; ") != want.problem || (e.Min == nil) != (want.min == want.max) {
			t.Errorf("volume %d: %+v", chosen, e)
		} else if e.Min != nil && (*e.Min != want.min || *e.Max != want.max || math.Abs(*e.Mean-want.mean) > 1e-9) {
			t.Errorf("volume %d: %g to %g, mean %g", chosen, *e.Min, *e.Max, *e.Mean)
		}
	}
	// nnU-Net's channels are files.
	root = tree(t, map[string]string{"imagesTr/1_0000.nii.gz": "", "imagesTr/1_0001.nii.gz": "x",
		"labelsTr/1.nii.gz": ""})
	for chosen, want := range []string{"case 1 has 2 channels: choose one with --volume",
		"layout nnunet, 1 case, 1 with labels", "layout nnunet, 1 case, 1 with labels"} {
		entries, notes, err := Inspect(t.Context(), []string{root}, InspectOptions{Volume: chosen})
		if err != nil || len(entries) != 3 || len(entries[0].Problems) > 0 || !datasettest.Noted(notes, want) {
			t.Errorf("channel %d: %+v, %q, %v", chosen, entries, notes, err)
		}
	}
}

func TestInspectAgreesWithNibabel(t *testing.T) {
	data := os.Getenv("VOXSAW_DATA")
	if data == "" {
		t.Skip("VOXSAW_DATA is unset: real data is not looked at")
	}
	// Nothing is wrong with these: a false alarm on every file hides the true ones.
	scans, err := filepath.Glob(filepath.Join(data, "openkbp", "imagesTr", "pt_00*.nii.gz"))
	if err != nil || len(scans) == 0 {
		t.Fatal("no scans", err)
	}
	entries, _, err := Inspect(t.Context(), scans, InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if len(e.Problems) > 0 {
			t.Errorf("%s: %q", e.Path, e.Problems)
		}
	}
	text, err := os.ReadFile(filepath.Join(data, "nifti", "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var expected map[string]struct {
		Error          string
		Shape          []int
		Spacing        []float64
		Axcodes        string
		Affine         [][]float64
		Min, Max, Mean float64
	}
	if err := json.Unmarshal(text, &expected); err != nil {
		t.Fatal(err)
	}
	for name, want := range expected {
		path := filepath.Join(data, "nifti", name)
		if _, err := os.Stat(path); err != nil || want.Error != "" || !nifti.IsName(path) {
			continue
		}
		entries, _, err := Inspect(t.Context(), []string{path}, InspectOptions{})
		if err != nil || len(entries) != 1 {
			t.Errorf("%s: %v, %v", name, entries, err)
			continue
		}
		e := entries[0]
		if e.Min == nil {
			t.Logf("%s: not read: %v", name, e.Problems)
			continue
		}
		near := func(a, b []float64, tolerance float64) bool {
			return slices.EqualFunc(a, b,
				func(x, y float64) bool { return math.Abs(x-y) <= tolerance*max(1, math.Abs(y)) })
		}
		if !slices.Equal(e.Shape, want.Shape) || e.Axcodes != want.Axcodes ||
			!near(e.Spacing, want.Spacing[:3], 1e-4) ||
			!near(slices.Concat(e.Affine...), slices.Concat(want.Affine...), 1e-4) ||
			!near([]float64{*e.Min, *e.Max, *e.Mean}, []float64{want.Min, want.Max, want.Mean}, 1e-4) {
			t.Errorf("%s: %+v (%g %g %g), want %+v", name, e, *e.Min, *e.Max, *e.Mean, want)
		}
	}
}

// A file that cannot be opened is one entry, though volumes and DICOM files are looked for
// separately.
func TestUnreadableFileIsOneEntry(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("nothing is locked for root")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "scan.nii.gz"), nil, 0); err != nil {
		t.Fatal(err)
	}
	entries, _, err := Inspect(t.Context(), []string{dir}, InspectOptions{})
	if err != nil || len(entries) != 1 || !entries[0].Unreadable {
		t.Errorf("entries %+v, %v", entries, err)
	}
}

// Inspecting looks for DICOM once in each folder, though its data set asks again.
func TestInspectLooksOnce(t *testing.T) {
	root := folderOf(t, "p1", "p2")
	scan := func(name string) { // a layout of scans, in which DICOM is looked for
		if err := os.Rename(filepath.Join(root, name), filepath.Join(root, "scans"+name)); err != nil {
			t.Fatal(err)
		}
	}
	scan("imagesTr")
	scan("labelsTr")
	files := newSeen()
	if _, _, err := findEntries(root+string(filepath.Separator), InspectOptions{}, files); err != nil ||
		len(files.dicom) != 1 {
		t.Fatalf("%d folders were looked through: %v", len(files.dicom), err)
	}
	d, notes := detectSet(root, Options{seen: files})
	if d == nil || d.Layout != LayoutScans {
		t.Fatalf("%v: %q", d, notes)
	}
	if len(files.dicom) != 1 {
		t.Errorf("%d folders were looked through", len(files.dicom))
	}
}
