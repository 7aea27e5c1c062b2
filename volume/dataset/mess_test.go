package dataset

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// This file: folders as people have them.

// Names that differ in capital letters, in the words that mean labels, and where nothing fits.
func TestLabelsAreFoundUnderManyNames(t *testing.T) {
	for _, c := range []struct {
		files, cases []string
		notes        int
	}{
		{[]string{"scans/Pat1.nii.gz", "annotations/PAT1_seg.NII.GZ"},
			[]string{"Pat1 scans/Pat1.nii.gz annotations/PAT1_seg.NII.GZ"}, 0},
		{[]string{"Pat1.nii.gz", "pat1.nii.gz", "PAT1_seg.nii.gz"}, []string{"Pat1 Pat1.nii.gz", "pat1 pat1.nii.gz"},
			1},
		{[]string{"IMAGES/One.NII", "LABELS/One.nii.gz"}, []string{"One IMAGES/One.NII LABELS/One.nii.gz"}, 0},
		{[]string{"a.nii", "a.seg.nii"}, []string{"a a.nii a.seg.nii"}, 0},
		{[]string{"a.nii", "a-label.nii"}, []string{"a a.nii a-label.nii"}, 0},
		{[]string{"a.nii", "a_roi.nii"}, []string{"a a.nii a_roi.nii"}, 0},
		{[]string{"a.nii", "truth/a.nii"}, []string{"a a.nii truth/a.nii"}, 0},
		{[]string{"ct/a b (1).nii", "lbl/a b (1).nii"}, []string{"a b (1) ct/a b (1).nii lbl/a b (1).nii"}, 0},
		{[]string{"p_ct.nii", "p_image.nii", "p_seg.nii"}, []string{"p_ct p_ct.nii", "p_image p_image.nii"}, 2},
		{[]string{"a.nii", "ghost_seg.nii"}, []string{"a a.nii"}, 1},
		{[]string{"case_00001/imaging.nii.gz", "case_00001/segmentation.nii.gz"},
			[]string{"case_00001 case_00001/imaging.nii.gz case_00001/segmentation.nii.gz"}, 0},
		{[]string{"volume-12.nii", "segmentation-12.nii"}, []string{"volume-12 volume-12.nii segmentation-12.nii"}, 0},
		{[]string{"images/a_1_0000.nii.gz", "labels/a_1.nii.gz"},
			[]string{"a_1_0000 images/a_1_0000.nii.gz labels/a_1.nii.gz"}, 0},
		{[]string{"images/a_0000.nii.gz", "images/a_0001.nii.gz", "labels/a.nii.gz"},
			[]string{"a_0000 images/a_0000.nii.gz", "a_0001 images/a_0001.nii.gz"}, 1},
		{[]string{"images/a_0000.nii.gz", "labels/a.nii.gz", "labels/a_0000.nii.gz"},
			[]string{"a_0000 images/a_0000.nii.gz labels/a_0000.nii.gz"}, 1},
		{[]string{"a.nii", "a_Segmentierung.nii"}, []string{"a a.nii a_Segmentierung.nii"}, 0},
		{[]string{"Bilder/a.nii", "Masken/a.nii"}, []string{"a Bilder/a.nii Masken/a.nii"}, 0},
		{[]string{"a.nii", "a-masque.nii", "b.nii", "b_Maske2.nii"},
			[]string{"a a.nii a-masque.nii", "b b.nii b_Maske2.nii"}, 0},
		{[]string{"p1/ct.nii", "p1/máscara.nii", "p2/ct.nii", "p2/ma\u0301scara.nii", "p3/ct.nii", "p3/MASCARA.nii"},
			[]string{"p1 p1/ct.nii p1/máscara.nii", "p2 p2/ct.nii p2/ma\u0301scara.nii", "p3 p3/ct.nii p3/MASCARA.nii"},
			0},
		{[]string{"a.nii", "segmentación/a.nii", "b.nii", "segmentazione/b.nii"},
			[]string{"a a.nii segmentación/a.nii", "b b.nii segmentazione/b.nii"}, 0},
		{[]string{"a.nii", "a_contour.nii", "b.nii", "Contours/b.nii"},
			[]string{"a a.nii a_contour.nii", "b b.nii Contours/b.nii"}, 0},
		// names of people and of wards in which such a word is a part
		{[]string{"maskell.nii", "segovia_1.nii", "labelle.nii", "contoura/a.nii", "mascarada_2.nii"},
			[]string{"contoura_a contoura/a.nii", "labelle labelle.nii", "mascarada_2 mascarada_2.nii",
				"maskell maskell.nii", "segovia_1 segovia_1.nii"}, 0},
		{[]string{"ünï/山田.nii", "ünï/山田_seg.nii"}, []string{"ünï_山田 ünï/山田.nii ünï/山田_seg.nii"}, 0},
	} {
		files := map[string]string{}
		for _, name := range c.files {
			files[name] = "not looked at"
		}
		d := detect(t, tree(t, files))
		if got := list(d); !slices.Equal(got, c.cases) || len(d.Notes) != c.notes {
			t.Errorf("%q: %q, notes %q", c.files, got, d.Notes)
		}
	}
}

func TestOtherFormatsAreNamed(t *testing.T) {
	_, err := Detect(tree(t, map[string]string{"a.npy": "x", "b/c.MGZ": "x", "b/d.mgz": "x"}), Options{})
	if err == nil || !strings.Contains(err.Error(), "passed over 2 .mgz: NIfTI, NRRD, MetaImage and DICOM are read") ||
		!strings.Contains(err.Error(), "passed over 1 .npy") {
		t.Errorf("got %v", err)
	}
	d := detect(t, tree(t, map[string]string{"a.nii": "x", "b.zip": "x"}))
	if len(d.Notes) != 1 || !strings.Contains(d.Notes[0],
		"passed over 1 .zip: unpack them first, if scans are in them") {
		t.Errorf("notes %q", d.Notes)
	}
}

// DICOM files that are compressed or in an archive are named, with what to do about it, whatever
// the archive is called.
func TestPackedDICOMIsNamed(t *testing.T) {
	v, _ := datasettest.Axial(t, 1)
	slices := t.TempDir()
	datasettest.WriteSeries(t, slices, "1.2.3", v, false)
	files, err := filepath.Glob(filepath.Join(slices, "*.dcm"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	one, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var zipped, squeezed bytes.Buffer
	z := zip.NewWriter(&zipped)
	w, err := z.Create("IM1")
	if err != nil {
		t.Fatal(err)
	}
	g := gzip.NewWriter(&squeezed)
	for _, write := range []func() error{func() error { _, err := w.Write(one); return err }, z.Close,
		func() error { _, err := g.Write(one); return err }, g.Close} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	root := tree(t, map[string]string{"a/1.dcm.gz": squeezed.String(), "a/2.dcm.gz": squeezed.String(),
		"study": zipped.String(), "notes.txt.gz": "x"})
	_, err = Detect(root, Options{})
	for _, want := range []string{"passed over 3 .gz: unpack them first",
		"study: passed over: a zip archive: unpack it"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for name, want := range map[string]string{"a/1.dcm.gz": "is no scan, but DICOM compressed with gzip: decompress it",
		"study": "is no scan, but a zip archive: unpack it"} {
		path := filepath.Join(root, name)
		if _, _, err := (Case{Image: path}).ReadImage(DefaultReadOptions()); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		entries, _, err := Inspect(t.Context(), []string{path}, InspectOptions{})
		if _, what, _ := strings.Cut(want, "but "); err != nil || len(entries) != 1 || len(entries[0].Problems) != 1 ||
			entries[0].Problems[0] != what {
			t.Errorf("%s: %+v, %v", name, entries, err)
		}
	}
}

// What lies among the files of a published layout, and what would be lost or taken for something
// else, is noted.
func TestNothingIsLostSilently(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		o     Options
		want  string // a note, or the error
	}{
		"other formats in imagesTr": {map[string]string{"imagesTr/a.nii.gz": "x", "imagesTr/b.mgz": "x",
			"imagesTr/c/1.dcm": "x", "imagesTr/.DS_Store": "x", "dataset.json": "{}"}, Options{},
			"imagesTr: passed over 2 that are no files of scans, such as b.mgz"},
		"a pair is one file": {map[string]string{"imagesTr/a.hdr": "x", "imagesTr/a.img": "x",
			"imagesTr/b.hdr.gz": "x", "imagesTr/b.img.gz": "x", "labelsTr/a.nii": "x", "labelsTr/b.nii": "x",
			"dataset.json": "{}"}, Options{}, ""},
		"a pair in a tree": {map[string]string{"b.hdr.gz": "x", "b.img.gz": "x"}, Options{}, ""},
		"packed": {map[string]string{"a.nii.gz": "x", "b.nii.bz2": "x"}, Options{},
			"passed over 1 .bz2"},
		"labels elsewhere": {map[string]string{"a.nii.gz": "x"}, Options{Labels: "labels"},
			"has the layout scans: say with --pairs which labels belong to which scan"},
		"an ignore label": {map[string]string{"imagesTr/a_0000.nii.gz": "x", "labelsTr/a.nii.gz": "x",
			"dataset.json": `{"labels": {"background": 0, "x": 1, "ignore": 2}}`}, Options{},
			"label 2 for voxels to ignore: losses and scores leave them out; --relabel 2:0 makes them background"},
		"numbers that look like channels": {map[string]string{"imagesTr/amos_0001.nii.gz": "x",
			"imagesTr/amos_0002.nii.gz": "x"}, Options{}, "or say --layout scans"},
	} {
		d, err := Detect(tree(t, c.files), c.o)
		if err != nil {
			d = &Dataset{Notes: []string{err.Error()}}
		}
		if c.want == "" && (err != nil || len(d.Notes)+len(d.PassedOver) > 0) ||
			!datasettest.Noted(append(d.Notes, ""), c.want) {
			t.Errorf("%s: notes %q, want %q", name, d.Notes, c.want)
		}
	}
}

// A file of labels whose name does not say so, or not of which scan, is no scan: its values give it
// away. It is one if that is asked for, and then it is named.
func TestLabelsTakenForAScan(t *testing.T) {
	v, l := datasettest.Patient(t, 1)
	float := &volume.Volume{Grid: l.Grid, Float32: make([]float32, l.Len())}
	// a CT that somebody has clipped to a narrow window
	head := &volume.Volume{Grid: v.Grid, Int16: make([]int16, v.Len())}
	for n, label := range l.Labels {
		float.Float32[n] = 400 * float32(label)
		head.Int16[n] = min(max(v.Int16[n], 0), 80)
	}
	root := tree(t, map[string]string{"images/p1.nii.gz": "", "labels/P1.nii.gz": "", "labels/clipped.nii.gz": ""})
	for name, err := range map[string]error{
		"predictions/p1.nii.gz":       nifti.WriteLabels(make1(t, root, "predictions/p1.nii.gz"), l),
		"p2/Brainstem.nii.gz":         nifti.Write(make1(t, root, "p2/Brainstem.nii.gz"), float),
		"images/p2_mask_organ.nii.gz": nifti.WriteLabels(make1(t, root, "images/p2_mask_organ.nii.gz"), l),
		"head.nii.gz":                 nifti.Write(make1(t, root, "head.nii.gz"), head),
		// has labels: a scan
		"images/clipped.nii.gz": nifti.WriteLabels(make1(t, root, "images/clipped.nii.gz"), l),
	} {
		if err != nil {
			t.Fatal(name, err)
		}
	}
	entries, _, err := Inspect(t.Context(), []string{root}, InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	masks := []string{"images/p2_mask_organ.nii.gz", "p2/Brainstem.nii.gz", "predictions/p1.nii.gz"}
	for _, e := range entries {
		path, err := filepath.Rel(root, e.Path)
		if err != nil {
			t.Fatal(err)
		}
		if mask := slices.Contains(masks, filepath.ToSlash(path)); mask != slices.Equal(e.Problems,
			[]string{maskNote}) {
			t.Errorf("inspect: %s: %q", path, e.Problems)
		}
	}
	d := detect(t, root)
	if got, want := list(d), []string{"clipped images/clipped.nii.gz labels/clipped.nii.gz", "head head.nii.gz",
		"p1 images/p1.nii.gz labels/P1.nii.gz"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for n, mask := range masks {
		if want := filepath.Join(root, filepath.FromSlash(mask)) + ": passed over: " +
			maskNote; len(d.Notes) != len(masks) || d.Notes[n] != want {
			t.Errorf("notes %q", d.Notes)
		}
	}
	if d, err = Detect(root, Options{LabelsAsScans: true}); err != nil || len(d.Cases) != 6 {
		t.Fatalf("asked for: %v, %v", d, err)
	}
	// The rule that leaves files out is the one by which they are noted where they are taken.
	for _, c := range d.Cases {
		path, err := filepath.Rel(root, c.Image)
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.ToSlash(path)
		_, notes, err := c.ReadImage(DefaultReadOptions())
		if want := slices.Contains(masks, path) || path == "images/clipped.nii.gz"; err != nil ||
			slices.Contains(notes, notLabels) != want {
			t.Errorf("%s: %q, %v", path, notes, err)
		}
	}
	// What is asked for by its name is a scan, too.
	file := filepath.Join(root, "predictions", "p1.nii.gz")
	if d, err = Detect(file, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, notes, err := d.Cases[0].ReadImage(DefaultReadOptions()); err != nil ||
		!slices.Equal(notes, []string{notLabels}) {
		t.Errorf("a file: %q, %v", notes, err)
	}
	if _, err = Detect(filepath.Dir(file), Options{}); err == nil ||
		!strings.Contains(err.Error(), "no scan is left: "+file+" "+maskNote) {
		t.Errorf("nothing else: %v", err)
	}
}

// make1 is the path of a file in a folder that is there.
func make1(t *testing.T, root, name string) string {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

// A case's name is a file's, too.
func TestNamesOfCases(t *testing.T) {
	deep := strings.Repeat("x/", 150)
	for id, want := range map[string]string{"a:b*c": "a_b_c", "..": "scan", "tab\tand\nline": "tab_and_line",
		"山田":         "山田",
		"end \u00a0": "end", ". b": "b", "del\x7f\u0085": "del__", "\xe9": "%E9"} {
		if got := FileName(id); got != want {
			t.Errorf("%q becomes %q, want %q", id, got, want)
		}
	}
	if a, b := FileName(deep+"a"), FileName(deep+"b"); len(a) > 220 || a == b {
		t.Errorf("long names: %q, %q", a, b)
	}
}

// What is no scan of a patient is named, by inspect and by prepare.
// TestValuesThatAreNoHounsfieldUnits: scans that were scaled or shifted are told from CTs.
func TestValuesThatAreNoHounsfieldUnits(t *testing.T) {
	const some = "values go from "
	for name, c := range map[string]struct {
		value func(n int) float32
		want  string
	}{
		"a CT":         {func(n int) float32 { return float32(n%2000 - 1000) }, ""},
		"from 0 to 1":  {func(n int) float32 { return float32(n) / 1727 }, some + "0 to 1, "},
		"from -1 to 1": {func(n int) float32 { return float32(n)/1727*2 - 1 }, some + "-1 to 1, "},
		"shifted":      {func(n int) float32 { return float32(n % 2000) }, some + "0 to 1727, "},
		"labels":       {func(n int) float32 { return float32(n % 3) }, ""},
		"not a number": {func(n int) float32 { return float32(math.NaN()) }, ""},
		"some not ones": {func(n int) float32 { return []float32{float32(math.NaN()), 0.5, 0.25}[n%3] },
			some + "0.25 to 0.5, "},
	} {
		g := volume.Grid{Shape: [3]int{12, 12, 12}, Affine: volume.Scaling([3]float64{1, 1, 1})}
		v := &volume.Volume{Grid: g, Float32: make([]float32, g.Len())}
		for n := range v.Float32 {
			v.Float32[n] = c.value(n)
		}
		if got := strings.Join(doubtsAbout(v), "; "); c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A file of one or two slices beside scans is no scan, as a series of DICOM is none, unless it has
// labels, or is all that there is.
func TestFilesOfFewSlicesAreNoScans(t *testing.T) {
	v, _ := datasettest.Patient(t, 1)
	thin := func(slices int) *volume.Volume {
		part, err := v.Crop([3]int{}, [3]int{v.Shape[0], v.Shape[1], slices}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return part
	}
	root := t.TempDir()
	for name, v := range map[string]*volume.Volume{"a": v, "two": thin(2), "three": thin(3), "one": thin(1)} {
		if err := nifti.Write(filepath.Join(root, name+".nii"), v); err != nil {
			t.Fatal(err)
		}
	}
	d := detect(t, root)
	if got := list(d); len(got) != 2 || !strings.HasPrefix(got[0], "a ") || !strings.HasPrefix(got[1], "three ") {
		t.Errorf("%q", got)
	}
	said := strings.Join(d.PassedOver, "\n")
	for _, want := range []string{
		"two.nii: passed over: 24x20x2 voxels are too few slices", "one.nii: passed over: 24x20x1 voxels",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q, want %q", said, want)
		}
	}
	if d := detect(t, filepath.Join(root, "two.nii")); len(d.Cases) != 1 {
		t.Errorf("by its path: %q", list(d))
	}
}
