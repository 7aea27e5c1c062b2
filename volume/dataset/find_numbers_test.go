package dataset

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// Labels that another program has numbered anew, as DICOM wants segments, come back into their data
// set by their names; so do those of a folder with numbers of its own.
func TestNumbersGoByNames(t *testing.T) {
	v, l := datasettest.Axial(t, 1)
	for n, label := range l.Labels {
		if label != 0 {
			l.Labels[n] = 1 + uint16(n/l.Shape[0]%3)
		}
	}
	// numbered is the label map with other numbers for its labels 1 to 3.
	numbered := func(table ...uint16) *volume.LabelMap {
		after := &volume.LabelMap{Grid: l.Grid, Labels: slices.Clone(l.Labels)}
		for n, label := range l.Labels {
			if label > 0 {
				after.Labels[n] = table[label-1]
			}
		}
		return after
	}
	root := t.TempDir()
	in := func(names ...string) string { return filepath.Join(append([]string{root}, names...)...) }
	write := func(folder, json string, table ...uint16) {
		t.Helper()
		for _, sub := range []string{"images", "labels"} {
			if err := os.MkdirAll(in(folder, sub), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if err := nifti.Write(in(folder, "images", folder+".nii.gz"), v); err != nil {
			t.Fatal(err)
		}
		if err := nifti.WriteLabels(in(folder, "labels", folder+".nii.gz"), numbered(table...)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(in(folder, "dataset.json"), []byte(`{"labels": `+json+`}`), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("set", `{"background": 0, "pancreas": 3, "liver": 2, "left kidney": 5, "stomach": 7}`, 3, 5, 7)
	write("other", `{"background": 0, "stomach": 3, "pancreas": 2, "Left Kidney": 1}`, 2, 1, 3)
	write("foreign", `{"background": 0, "lung": 3}`, 3, 3, 3)
	write("hidden", `{"background": 0, "stomach": 3, "pancreas": 2}`, 2, 1, 3)
	datasettest.WriteSeries(t, in("back", "ct"), "1.2.1", v, false)
	segments := numbered(1, 2, 3)
	segments.Names = map[uint16]string{1: "pancreas", 2: "left kidney", 3: "stomach"}
	datasettest.WriteSegmentation(t, in("back", "seg.dcm"), in("back", "ct"), segments)

	d, err := DetectAll([]string{in("set"), in("back"), in("other")}, Options{})
	if err == nil {
		err = d.CheckNames()
	}
	want := map[uint16]string{3: "pancreas", 2: "liver", 5: "left kidney", 7: "stomach"}
	if err != nil || !maps.Equal(d.LabelNames, want) || !datasettest.Noted(d.Notes,
		"labels go by their names, because files give them different numbers: 2 liver, 3 pancreas, 5 left kidney, "+
			"7 stomach. Numbers are changed in 2 cases: ct, other") {
		t.Fatalf("%v, %v, %q", err, d.LabelNames, d.Notes)
	}
	truth := numbered(3, 5, 7)
	for _, c := range d.Cases {
		_, got, _, err := c.Read(DefaultReadOptions(), d.LabelNames)
		if err == nil {
			got, err = got.Orient(l.Axcodes())
		}
		if err != nil || !slices.Equal(got.Labels, truth.Labels) || got.Names[7] != "stomach" || got.Names[3] !=
			"pancreas" {
			t.Errorf("%s: %v, %v, %v", c.ID, err, got.Counts(), got.Names)
		}
		if undrawn := slices.Contains(c.undrawn, 2); undrawn != (c.ID != "set") || len(c.undrawn) > 1 {
			t.Errorf("%s: undrawn %v", c.ID, c.undrawn)
		}
	}
	// without a list, by the numbers of most
	if d, err = DetectAll([]string{in("back"), in("other")}, Options{}); err != nil || len(d.LabelNames) != 3 ||
		d.LabelNames[2] != "pancreas" {
		t.Errorf("%v, %v", err, d.LabelNames)
	}
	// that numbers mean the same nobody can say of these, whatever lies beside them without names
	for n, names := range []map[uint16]string{{1: "pancreas", 2: "liver"}, {1: "liver", 2: "pancreas"}} {
		segments.Names = map[uint16]string{1: names[1], 2: names[2], 3: "stomach"}
		folder := in("one", fmt.Sprint("patient", n))
		datasettest.WriteSeries(t, filepath.Join(folder, "ct"), fmt.Sprint("1.2.3.", n), v, false)
		datasettest.WriteSegmentation(t, filepath.Join(folder, "seg.dcm"), filepath.Join(folder, "ct"), segments)
	}
	if err := errors.Join(nifti.Write(in("one", "plain.nii.gz"), v),
		nifti.WriteLabels(in("one", "plain_seg.nii.gz"), numbered(1, 2, 3))); err != nil {
		t.Fatal(err)
	}
	if d, err = Detect(in("one"), Options{SameLabels: true}); err != nil {
		t.Fatal(err)
	}
	if err := d.CheckNames(); len(d.Cases) != 3 || err == nil ||
		!strings.Contains(err.Error(), "is label 1 and 2, and label 1 is also") {
		t.Errorf("names with other numbers beside numbers alone, said to be the same: %v, %+v", err, d.Cases)
	}
	// one number of two names that have no other may be one structure, or two
	if d, err = DetectAll([]string{in("set"), in("foreign")}, Options{}); err == nil {
		t.Errorf("pancreas and lung of one number: %v", d.LabelNames)
	}
	// what a folder without labels lists decides nothing, whichever comes first
	write("unlabelled", `{"background": 0, "pancreas": 1, "left kidney": 2, "stomach": 3}`, 1, 2, 3)
	if err := os.RemoveAll(in("unlabelled", "labels")); err != nil {
		t.Fatal(err)
	}
	for _, folders := range [][]string{{in("unlabelled"), in("set")}, {in("set"), in("unlabelled")}} {
		for _, same := range []bool{false, true} {
			d, err := DetectAll(folders, Options{SameLabels: same})
			if err == nil {
				err = d.CheckNames()
			}
			if err != nil || len(d.Cases) != 2 || !maps.Equal(d.LabelNames, want) || slices.ContainsFunc(d.Cases,
				func(c Case) bool { return c.renumber != nil }) {
				t.Errorf("%v, same labels: %v: %v, %+v", folders, same, err, d)
			}
		}
	}
	// a number without a name is not taken for that of another
	if d, err = DetectAll([]string{in("set"), in("hidden")}, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := d.Cases[0].Read(DefaultReadOptions(), d.LabelNames); err == nil || !datasettest.Noted(
		[]string{err.Error()}, "has voxels of label 1 and no name for it") {
		t.Errorf("%s: a number without a name: %v", d.Cases[0].ID, err)
	}
}
