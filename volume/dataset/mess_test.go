package dataset

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/prepared"
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
	v, _ := axial(t, 1)
	slices := t.TempDir()
	writeSeries(t, slices, "1.2.3", v, false)
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
// else, is said.
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
		if c.want == "" && (err != nil || len(d.Notes)+len(d.PassedOver) > 0) || !noted(append(d.Notes, ""), c.want) {
			t.Errorf("%s: notes %q, want %q", name, d.Notes, c.want)
		}
	}
}

// A file of labels whose name does not say so, or not of which scan, is no scan: its values give it
// away. It is one if that is asked for, and then it is named.
func TestLabelsTakenForAScan(t *testing.T) {
	v, l := patient(t, 1)
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

// What is said about labels on other voxels: nothing where only the order of axes differs, which is
// no change.
func TestLabelsBesideTheirScan(t *testing.T) {
	v, l := patient(t, 1)
	turned, err := l.Orient("LPS")
	if err != nil {
		t.Fatal(err)
	}
	moved := func(voxels float64) *volume.LabelMap {
		m := &volume.LabelMap{Grid: l.Grid, Labels: l.Labels}
		m.Affine[0][3] += voxels * l.Spacing()[0]
		return m
	}
	coarse, err := l.Resample([3]float64{2 * l.Spacing()[0], 2 * l.Spacing()[1], 2 * l.Spacing()[2]})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		labels     *volume.LabelMap
		note, fail string
		exact      bool
	}{
		"same":       {l, "", "", true},
		"other axes": {turned, "", "", true},
		"rounded":    {moved(0.01), "", "", true},
		"0.4 voxels": {moved(0.4), "0.40 voxels beside those of the scan, by their header: taken voxel by voxel", "",
			true},
		"coarse":     {coarse, "on other voxels in the same box: resampled", "", false},
		"0.6 voxels": {moved(0.6), "", "do not fill the same box", false},
	} {
		root := t.TempDir()
		if err := errors.Join(nifti.Write(filepath.Join(root, "a.nii"), v),
			nifti.WriteLabels(filepath.Join(root, "a_seg.nii"), c.labels)); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		s, err := Prepare(t.Context(), detect(t, root), dir, volume.DefaultPreparation(), PrepareOptions{}, nil)
		if c.fail != "" {
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v, %+v", name, err, s)
		}
		cache, err := prepared.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer cache.Close()
		if notes := strings.Join(slices.Collect(cache.Records())[0].Notes, "; "); notes != "" != (c.note != "") ||
			!strings.Contains(notes, c.note) {
			t.Errorf("%s: notes %q", name, notes)
		}
		opened, err := cache.Open("a")
		if err != nil {
			t.Fatal(err)
		}
		labels, err := opened.LabelMap()
		if err != nil {
			t.Fatal(err)
		}
		if c.exact && !slices.Equal(labels.Labels, l.Labels) {
			t.Errorf("%s: other labels", name)
		}
		entries, _, err := Inspect(t.Context(), []string{root}, InspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if said := fmt.Sprint(entries[0].Problems, entries[1].Problems); !strings.Contains(said, c.note) ||
			c.note == "" && said != "[] []" {
			t.Errorf("%s: inspect says %s", name, said)
		}
	}
}

// Patients that are links, links that go round or nowhere.
func TestTreeOfLinks(t *testing.T) {
	archive, root := t.TempDir(), t.TempDir()
	a, _ := axial(t, 1)
	writeSeries(t, filepath.Join(archive, "p1", "CT"), "1.2.1", a, false)
	writeSeries(t, filepath.Join(archive, "p2"), "1.2.2", a, false)
	for name, target := range map[string]string{"one": filepath.Join(archive, "p1"),
		"two": filepath.Join(archive, "p2"), "round": ".", "broken": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Skip("no links here: ", err)
		}
	}
	d := detect(t, root)
	if got, want := list(d), []string{"one one/CT", "two two"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if said := strings.Join(d.PassedOver, "; "); !strings.Contains(said, "broken") ||
		!strings.Contains(said, "a link that leads nowhere") {
		t.Errorf("passed over %q", said)
	}
	dir := t.TempDir()
	if _, err := Prepare(t.Context(), d, dir, volume.DefaultPreparation(), PrepareOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	if s, err := Prepare(t.Context(), detect(t, root), dir, volume.DefaultPreparation(), PrepareOptions{},
		nil); err != nil || s.Kept != 2 {
		t.Errorf("again: %+v, %v", s, err)
	}
	// Behind a link, too, a changed file is noticed.
	files, err := filepath.Glob(filepath.Join(archive, "p2", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := prepared.Open(dir); !errors.Is(err, prepared.ErrStale) {
		t.Errorf("a slice is gone: %v", err)
	}
}

// One study of several series: a scan, chosen by rule or as asked for; the localizer is never one.
func TestSeriesOfAStudy(t *testing.T) {
	root := t.TempDir()
	thin, _ := axial(t, 1)
	thick := &volume.Volume{Grid: thin.Grid} // every second slice
	thick.Shape[2] /= 2
	for w := range 3 {
		thick.Affine[w][2] *= 2
	}
	area := thin.Shape[0] * thin.Shape[1]
	for k := range thick.Shape[2] {
		thick.Int16 = append(thick.Int16, thin.Int16[2*k*area:][:area]...)
	}
	writeStudy(t, filepath.Join(root, "pat", "se1"), "1.2.1", "1.2.9", 2, "CT", thick, nil)
	writeStudy(t, filepath.Join(root, "pat", "se2"), "1.2.2", "1.2.9", 3, "CT", thin, nil)
	writeStudy(t, filepath.Join(root, "other", "se7"), "1.2.3", "1.2.8", 3, "CT", thick, nil)
	for _, c := range []struct {
		series, fails string
		cases         []string
		notes         int
	}{
		{"", "", []string{"other_se7 other/se7", "pat_se2 pat/se2"}, 1},
		{"2", "", []string{"pat_se1 pat/se1"}, 1}, // and that the other study has none
		{"3", "", []string{"other_se7 other/se7", "pat_se2 pat/se2"}, 0},
		{"1.2.1", "", []string{"pat_se1 pat/se1"}, 1},
		// and that two are of one patient
		{SeriesAll, "", []string{"other_se7 other/se7", "pat_se1 pat/se1", "pat_se2 pat/se2"}, 1},
		{"77", "there is no series 77; there are:\n", nil, 0},
	} {
		d, err := Detect(root, Options{Series: c.series})
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("series %q: %v", c.series, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := list(d); !slices.Equal(got, c.cases) || len(d.Notes) != c.notes {
			t.Errorf("series %q: %q, notes %q", c.series, got, d.Notes)
		}
	}
	d := detect(t, root)
	if !strings.Contains(d.Notes[0],
		"pat: CT series 3: 30 axial slices of 40x36, explicit VR little endian: the largest axial CT of 2 series; --series chooses another") {
		t.Errorf("notes %q", d.Notes)
	}
	// Anonymised to one study: the others are not passed over without a word of warning.
	for n := range 3 {
		writeStudy(t, filepath.Join(root, "anonymous", fmt.Sprint("p", n), "ct"), fmt.Sprint("1.2.6", n), "1.2.7", 1,
			"CT", thin, nil)
	}
	if d := detect(t, root); !strings.Contains(strings.Join(d.Notes, "\n"),
		"2 of them lie in other folders and frames of reference") {
		t.Errorf("notes %q", d.Notes)
	}
	files, err := filepath.Glob(filepath.Join(root, "anonymous", "p2", "ct", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files { // a projection is no scan of anybody else
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		class := element(0x0008, 0x0016, "UI", "1.2.840.10008.5.1.4.1.1.2")
		if err := os.WriteFile(file, []byte(strings.Replace(string(data), class,
			element(0x0008, 0x0008, "CS", `DERIVED\SECONDARY\AXIAL\MIP`)+class, 1)), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if d := detect(t, root); !strings.Contains(strings.Join(d.Notes, "\n"),
		"1 of them lie in other folders and frames of reference") {
		t.Errorf("notes %q", d.Notes)
	}
	if err := os.RemoveAll(filepath.Join(root, "anonymous")); err != nil {
		t.Fatal(err)
	}
	entries, _, err := Inspect(t.Context(), []string{root}, InspectOptions{Series: "3"})
	if err != nil || len(entries) != 2 || entries[0].Number != "3" || entries[0].Modality != "CT" {
		t.Errorf("inspect --series 3: %+v, %v", entries, err)
	}
	// A study of which none can be chosen is a case that fails by name; the others are prepared.
	writeStudy(t, filepath.Join(root, "mr", "a"), "1.2.5", "1.2.7", 1, "MR", thin, nil)
	writeStudy(t, filepath.Join(root, "mr", "b"), "1.2.6", "1.2.7", 2, "MR", thick, nil)
	s, err := Prepare(t.Context(), detect(t, root), t.TempDir(), volume.DefaultPreparation(), PrepareOptions{}, nil)
	if err == nil || s.Prepared != 2 || len(s.Failed) != 1 || s.Failed[0].Case.ID != "mr" ||
		!strings.Contains(err.Error(), "none of several series is an axial CT: choose with --series") {
		t.Errorf("%+v, %v", s, err)
	}
	// Two such studies in one folder are two.
	for n, series := range []string{"1.2.11", "1.2.12", "1.2.13", "1.2.14"} {
		writeStudy(t, filepath.Join(root, "mixed"), series, fmt.Sprintf("1.2.2%d", n/2), n, "MR", thick, nil)
	}
	s, err = Prepare(t.Context(), detect(t, root), t.TempDir(), volume.DefaultPreparation(), PrepareOptions{}, nil)
	if err == nil || s.Prepared != 2 || len(s.Failed) != 3 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A file whose name is not UTF-8 is prepared once, not each time.
func TestNamesThatAreNotUTF8(t *testing.T) {
	v, _ := patient(t, 1)
	root, out := t.TempDir(), t.TempDir()
	path := filepath.Join(root, "caf\xe9.nii.gz")
	if err := nifti.Write(path, v); err != nil {
		t.Skip("no such names here: ", err)
	}
	for n, want := range [][2]int{{1, 0}, {0, 1}} {
		s, err := Prepare(t.Context(), detect(t, root), out, volume.DefaultPreparation(), PrepareOptions{}, nil)
		if err != nil || s.Prepared != want[0] || s.Kept != want[1] {
			t.Errorf("run %d: %+v, %v", n+1, s, err)
		}
	}
	store, err := prepared.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for r := range store.Records() {
		if len(r.Sources) != 1 || r.Sources[0].Path != path || !utf8.ValidString(r.ID) {
			t.Errorf("%+v", r)
		}
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

// TestNumbersOfUnlikeCases: where one case has less than half of the labels of another, and none
// has a name, a number may mean two things.
func TestNumbersOfUnlikeCases(t *testing.T) {
	of := func(sets ...[]uint16) string {
		var u unlike
		for n, labels := range sets {
			counts := map[uint16]int{}
			for _, label := range labels {
				counts[label] = 5
			}
			u.add(string(rune('a'+n)), counts)
		}
		return u.doubt()
	}
	if got := of([]uint16{1, 2, 3}, []uint16{1, 3}, nil); got != "" {
		t.Error(got)
	}
	for _, got := range []string{of([]uint16{1, 2, 3, 7}, []uint16{5}), of([]uint16{5}, nil, []uint16{1, 2, 3, 7})} {
		if !strings.Contains(got, "has 1 label (5), ") ||
			!strings.Contains(got, " has 4 labels (1 to 3, 7): a number is learnt as one organ") {
			t.Errorf("%q", got)
		}
	}
}

func TestImplausibleScansAreNamed(t *testing.T) {
	scan := func(spacing float64, values ...int16) *volume.Volume {
		g := volume.Grid{Shape: [3]int{4, 3, 2}, Affine: volume.Scaling([3]float64{spacing, spacing, 1})}
		v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
		for n := range v.Int16 {
			v.Int16[n] = values[n%len(values)]
		}
		return v
	}
	for name, c := range map[string]struct {
		scan *volume.Volume
		want string
	}{
		"micrometres": {scan(3906, -1000, 40),
			"voxels of 3906 x 3906 x 1 mm are none of a patient: is the unit of length another?"},
		"metres": {scan(0.0001, -1000, 40),
			"voxels of 0.0001 x 0.0001 x 1 mm are none of a patient: is the unit of length another?"},
		"blank":  {scan(1, -1024), "all voxels are -1024: there is nothing to see"},
		"zeros":  {scan(1, 0), "all voxels are 0: there is nothing to see"},
		"a scan": {scan(1, -1000, 40), ""},
		"fine":   {scan(0.02, -1000, 40), ""},
	} {
		path := filepath.Join(t.TempDir(), "ct.nii.gz")
		if err := nifti.Write(path, c.scan); err != nil {
			t.Fatal(err)
		}
		entries, _, err := Inspect(t.Context(), []string{path}, InspectOptions{})
		if err != nil || len(entries) != 1 || strings.Join(entries[0].Problems, "; ") != c.want {
			t.Errorf("%s: inspect says %+v, %v", name, entries, err)
		}
		_, notes, err := (Case{Image: path}).ReadImage(DefaultReadOptions())
		notes = slices.DeleteFunc(notes, func(note string) bool { return note == notLabels })
		if err != nil || strings.Join(notes, "; ") != c.want {
			t.Errorf("%s: reading it notes %q, %v", name, notes, err)
		}
	}
	// The same of DICOM, whose SeriesInstanceUID is text that may say who it is.
	root, out := t.TempDir(), t.TempDir()
	v, _ := axial(t, 1)
	for n := range v.Int16 {
		v.Int16[n] = int16(n % 301)
	}
	writeSeries(t, filepath.Join(root, "p"), "Mustermann^Erika", v, false)
	if _, err := Prepare(t.Context(), detect(t, root), out, volume.DefaultPreparation(), PrepareOptions{},
		nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"manifest.json", "cases/p.json"} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || !strings.Contains(string(text), "values go from 0 to 300") ||
			strings.Contains(string(text), "Mustermann") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// A file of one or two slices beside scans is no scan, as a series of DICOM is none, unless it has
// labels, or is all that there is.
func TestFilesOfFewSlicesAreNoScans(t *testing.T) {
	v, _ := patient(t, 1)
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
