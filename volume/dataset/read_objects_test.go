package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// What is compared lies on one grid, though an object ends where its frames end.
func TestLabelPairs(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	v, l := datasettest.Axial(t, 3)
	datasettest.WriteSeries(t, in("CT"), "1.2.1", v, false)
	datasettest.WriteSegmentation(t, in("a.dcm"), in("CT"), l)
	if err := nifti.WriteLabels(in("a.nii.gz"), l); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{{"a.dcm", "a.nii.gz"}, {"a.nii.gz", "a.dcm"}, {"a.nii.gz", "a.nii.gz"},
		{"a.dcm", "a.dcm"}} {
		a, b, notes, err := ReadLabelPair(in(pair[0]), in(pair[1]), ScansIn(in("CT")), DefaultReadOptions())
		if err != nil || len(notes) > 0 || !a.Same(b.Grid, 1e-3) || !slices.Equal(a.Labels, b.Labels) ||
			a.Len() != l.Len() {
			t.Errorf("%v: %v, %q", pair, err, notes)
		}
	}
	if _, _, _, err := ReadLabelPair(in("a.dcm"), in("a.dcm"), nil, DefaultReadOptions()); !errors.Is(err, ErrNoScans) {
		t.Errorf("without scans: %v", err)
	}
	object, err := dicom.OpenSegmentation(in("a.dcm"))
	if err != nil {
		t.Fatal(err)
	}
	if alone, err := object.Read(dicom.Options{}); err != nil || alone.Shape[2] >= l.Shape[2] {
		t.Errorf("alone: %v, %v", err, alone)
	}
}

// writeStructures writes labels as a structure set that refers to the only series of a folder.
func writeStructures(t *testing.T, path, series string, l *volume.LabelMap, o dicom.WriteOptions) {
	t.Helper()
	all, _, err := dicom.Scan(series)
	if err != nil || len(all) != 1 {
		t.Fatal(len(all), err)
	}
	if l, err = l.Orient(all[0].Axcodes); err == nil {
		err = dicom.WriteStructureSet(path, l, all[0], o)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Contours are compared on their series with whatever else there is: the labels that they were
// written from, by numbers where this program predicted them, otherwise by names alone.
func TestStructurePairs(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	v, l := datasettest.Axial(t, 3)
	datasettest.WriteSeries(t, in("CT"), "1.2.1", v, false)
	datasettest.WriteSeries(t, in("other"), "1.2.2", v, false)
	for n, label := range l.Labels {
		if label > 0 {
			l.Labels[n] = uint16(1 + n/3%2)
		}
	}
	l.Names = nil
	stamped := dicom.WriteOptions{Parameters: `{"program": "voxsaw predict"}`}
	datasettest.WriteSegmentation(t, in("unnamed-seg.dcm"), in("CT"), l)
	writeStructures(t, in("unnamed-predicted.dcm"), in("CT"), l, stamped)
	if err := nifti.WriteLabels(in("unnamed.nii.gz"), l); err != nil {
		t.Fatal(err)
	}
	l.Names = map[uint16]string{1: "pancreas", 2: "liver"}
	datasettest.WriteSegmentation(t, in("seg.dcm"), in("CT"), l)
	writeStructures(t, in("predicted.dcm"), in("CT"), l, stamped)
	writeStructures(t, in("elsewhere.dcm"), in("other"), l, stamped)
	if err := nifti.WriteLabels(in("named.nii.gz"), l); err != nil {
		t.Fatal(err)
	}
	// another program's, whose numbers are its own
	theirs := &volume.LabelMap{Grid: l.Grid, Labels: make([]uint16, len(l.Labels)),
		Names: map[uint16]string{40: "Liver", 41: "PANCREAS", 42: "never drawn"}}
	for n, label := range l.Labels {
		theirs.Labels[n] = map[uint16]uint16{1: 41, 2: 40}[label]
	}
	writeStructures(t, in("drawn.dcm"), in("CT"), theirs, dicom.WriteOptions{})
	none := &volume.LabelMap{Grid: l.Grid, Labels: make([]uint16, len(l.Labels)), Names: l.Names}
	writeStructures(t, in("nothing.dcm"), in("CT"), none, stamped)

	for _, c := range []struct{ prediction, reference, scans, want string }{
		{"predicted.dcm", "drawn.dcm", "CT", ""}, {"drawn.dcm", "predicted.dcm", "CT", ""},
		{"predicted.dcm", "named.nii.gz", "CT", ""}, {"named.nii.gz", "predicted.dcm", "CT", ""},
		{"drawn.dcm", "named.nii.gz", "CT", ""}, {"named.nii.gz", "drawn.dcm", "CT", ""},
		{"drawn.dcm", "seg.dcm", "CT", ""}, {"seg.dcm", "drawn.dcm", "CT", ""},
		{"drawn.dcm", "drawn.dcm", "CT", ""}, {"predicted.dcm", "predicted.dcm", "CT", ""},
		{"unnamed-predicted.dcm", "unnamed.nii.gz", "CT", ""}, {"unnamed.nii.gz", "unnamed-predicted.dcm", "CT", ""},
		{"unnamed-predicted.dcm", "unnamed-seg.dcm", "CT", ""}, {"predicted.dcm", "unnamed.nii.gz", "CT", ""},
		{"drawn.dcm", "unnamed.nii.gz", "CT", "unnamed.nii.gz: its labels have no names, and those of"},
		{"unnamed.nii.gz", "drawn.dcm", "CT",
			"its structures have names (Liver, PANCREAS), and label 1 of the prediction has none"},
		{"nothing.dcm", "named.nii.gz", "CT", "nothing"}, {"nothing.dcm", "drawn.dcm", "CT", "nothing"},
		{"predicted.dcm", "named.nii.gz", "",
			"predicted.dcm is contours, which the slices of their series make voxels"},
		{"predicted.dcm", "drawn.dcm", "", "predicted.dcm is contours"},
		{"elsewhere.dcm", "named.nii.gz", "CT", "elsewhere.dcm refers to none of the series in " + in("CT") +
			": its contours were drawn on the series 1.2.2"},
	} {
		var scans *Scans
		if c.scans != "" {
			scans = ScansIn(in(c.scans))
		}
		p, r, _, err := ReadPair(Labels{Path: in(c.prediction)}, Labels{Path: in(c.reference)}, scans,
			DefaultReadOptions())
		switch {
		case c.want == "nothing":
			if err != nil || len(p.Counts()) != 1 || len(r.Counts()) != 3 || len(r.Undrawn) > 0 {
				t.Errorf("%s against %s: %v", c.prediction, c.reference, err)
			}
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s against %s: %v, want %q", c.prediction, c.reference, err, c.want)
			}
			if errors.Is(err, ErrNoScans) != (scans == nil) {
				t.Errorf("%s against %s: whether scans are needed: %v", c.prediction, c.reference, err)
			}
		case err != nil || !p.Same(r.Grid, 1e-3) || !slices.Equal(p.Labels, r.Labels) || len(p.Counts()) != 3:
			t.Errorf("%s against %s: %v, or other labels", c.prediction, c.reference, err)
		}
	}

	// Beside its series a set is the reference of a case, whose series says where both lie.
	set := filepath.Join(root, "set")
	if err := errors.Join(os.Mkdir(set, 0o777), os.Rename(in("CT"), filepath.Join(set, "CT")),
		os.Rename(in("drawn.dcm"), filepath.Join(set, "drawn.dcm"))); err != nil {
		t.Fatal(err)
	}
	found := References(set, Options{})
	if len(found) != 1 {
		t.Fatal(found)
	}
	p, r, _, err := ReadPair(Labels{Path: in("predicted.dcm")}, found[0].Labels, nil, DefaultReadOptions())
	if err != nil || !p.Same(r.Grid, 1e-3) || !slices.Equal(p.Labels, r.Labels) || len(p.Counts()) != 3 {
		t.Errorf("beside the series: %v, or other labels", err)
	}
}

// A SEG object and a NIfTI file of a series whose slices were straightened or filled in: the scans
// tell how.
func TestLabelPairsOfRepairedSeries(t *testing.T) {
	for name, c := range map[string]struct {
		tilt             float64     // mm to the front per mm to the head
		missing          bool        // a slice
		file             ReadOptions // how the NIfTI file came to be
		o                ReadOptions
		withScans, alone string // the error; "" for the same labels
	}{
		"straight": {0, false, ReadOptions{}, ReadOptions{}, "", ""},
		"tilted": {0.3, false, ReadOptions{}, ReadOptions{}, "",
			"tell where it belongs: where these are is not said"},
		"tilted, kept": {0.3, false, ReadOptions{Tilt: dicom.TiltKeep}, ReadOptions{}, "", ""},
		// none where there is no slice
		"a gap": {0, true, ReadOptions{Gaps: dicom.GapsResample}, ReadOptions{Gaps: dicom.GapsResample}, "",
			"other labels"},
		"a gap, not filled": {0, true, ReadOptions{Gaps: dicom.GapsResample}, ReadOptions{}, "--gaps resample",
			"other labels"},
	} {
		root := t.TempDir()
		in := func(name string) string { return filepath.Join(root, name) }
		v, l := datasettest.Axial(t, 3)
		v.Affine[1][2] = c.tilt * v.Spacing()[2]
		datasettest.WriteSeries(t, in("CT"), "1.2.1", v, false)
		area := l.Shape[0] * l.Shape[1]
		if c.missing {
			all, _, err := dicom.Scan(in("CT"))
			if err != nil {
				t.Fatal(err)
			}
			k := slices.IndexFunc(l.Labels, func(x uint16) bool { return x != 0 })/area + 1
			l.Labels = slices.Delete(l.Labels, k*area, (k+1)*area)
			if err := os.Remove(all[0].Files[k]); err != nil {
				t.Fatal(err)
			}
		}
		all, _, err := dicom.Scan(in("CT"))
		if err != nil {
			t.Fatal(err)
		}
		asIs := dicom.Options{Tilt: dicom.TiltKeep, Gaps: dicom.GapsResample}
		drawn, err := all[0].Labels(slices.Clone(l.Labels), asIs)
		if err != nil {
			t.Fatal(err)
		}
		file, err := all[0].Labels(l.Labels, c.file.dicom(nil))
		if err != nil {
			t.Fatal(err)
		}
		if file, err = file.Orient("RAS"); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(nifti.WriteLabels(in("a.nii.gz"), file), dicom.WriteSegmentation(in("a.dcm"), drawn,
			all[0], dicom.WriteOptions{Algorithm: "test", Read: asIs})); err != nil {
			t.Fatal(err)
		}
		for _, files := range [][2]string{{"a.nii.gz", "a.dcm"}, {"a.dcm", "a.nii.gz"}} {
			for want, scans := range map[string]*Scans{"with scans: " + c.withScans: ScansIn(in("CT")),
				"alone: " + c.alone: nil} {
				what, want, _ := strings.Cut(want, ": ")
				a, b, _, err := ReadLabelPair(in(files[0]), in(files[1]), scans, c.o)
				got := ""
				if err != nil {
					got = err.Error()
				} else if !a.Same(b.Grid, 1e-3) || !slices.Equal(a.Labels, b.Labels) {
					got = "other labels"
				}
				if !strings.Contains(got, want) || want == "" && got != "" ||
					errors.Is(err, ErrNoScans) != strings.Contains(want, "not said") {
					t.Errorf("%s, %v %s: %q, want %q", name, files, what, got, want)
				}
			}
		}
	}
}

// A structure set in the tree is the labels of the series that it was drawn on.
func TestStructureSetsAreLabels(t *testing.T) {
	root := t.TempDir()
	for n := range 2 {
		datasettest.WriteStructureSet(t, filepath.Join(root, fmt.Sprint("p", n+1)), n, nil)
	}
	d, err := Detect(root, Options{Series: SeriesAll, Structures: []string{"parotid l", "ring*"}})
	if err != nil || len(d.Cases) != 2 || d.LabelNames[1] != "Parotid_L" || d.LabelNames[2] != "Ring ä" ||
		len(d.LabelNames) != 2 {
		t.Fatalf("%v, %+v", err, d)
	}
	for _, c := range d.Cases {
		_, l, _, err := c.Read(DefaultReadOptions(), d.LabelNames)
		if err != nil || l.Counts()[1] == 0 || l.Counts()[2] == 0 || l.Names[2] != "Ring ä" {
			t.Errorf("%s: %v, %+v", c.ID, err, l)
		}
	}
	// Without a choice, what is no anatomy is left out, with a note.
	if d, err = Detect(root, Options{}); err != nil || len(d.LabelNames) != 4 ||
		!datasettest.Noted(d.Notes,
			"structures left out, because they are no anatomy or have no contours: BODY external") {
		t.Errorf("%v: %v, %q", err, d.LabelNames, d.Notes)
	}
	entries, notes, err := Inspect(t.Context(), []string{root}, InspectOptions{})
	sets := 0
	for _, e := range entries {
		if e.Kind == "DICOM RTSTRUCT" {
			sets++
			if e.LabelNames[1] != "Parotid_L" || e.Modality != "RTSTRUCT" || len(e.Problems) > 0 {
				t.Errorf("%+v", e)
			}
		}
	}
	if err != nil || sets != 2 || datasettest.Noted(notes, "passed over: RTSTRUCT") {
		t.Errorf("%d structure sets, %q, %v", sets, notes, err)
	}
}

// Two structure sets of one series are counted as what they are.
func TestStructureSetsAreCounted(t *testing.T) {
	root := t.TempDir()
	datasettest.WriteStructureSet(t, root, 0, nil)
	data, err := os.ReadFile(filepath.Join(root, "rs", "RS.dcm"))
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Replace(data, []byte("Parotid_L"), []byte("Parotid_R"), 1) // another set
	if uid := regexp.MustCompile("\x08\x00\x18\x00UI..[0-9.]+").FindIndex(other); uid != nil {
		last := uid[1] - 1
		other[last] = '0' + (other[last]-'0'+1)%10
	}
	if err := os.WriteFile(filepath.Join(root, "rs", "RS2.dcm"), other, 0o666); err != nil {
		t.Fatal(err)
	}
	d := detect(t, root)
	if len(d.Cases) != 1 || d.Cases[0].Labels != "" ||
		!datasettest.Noted(d.Notes,
			"used without labels, because it has 2 RT structure sets, and structure sets are not put together "+
				"with others: --segmentation chooses one") {
		t.Errorf("%q, %q", list(d), d.Notes)
	}
	if d, err = Detect(root, Options{Segmentation: "nothing"}); err != nil ||
		!datasettest.Noted(d.Notes, "because none of its RT structure sets is nothing") {
		t.Errorf("%q, %v", d.Notes, err)
	}
	if got := countKinds([]format.Object{{Structures: &dicom.StructureSet{}}, {Segmentation: &dicom.Segmentation{}},
		{Segmentation: &dicom.Segmentation{}}}); got != "2 SEG objects and 1 RT structure set" {
		t.Error(got)
	}
}
