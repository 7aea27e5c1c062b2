package prepare

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// undrawnIn prepares folders and lists the labels that each case says nobody drew.
func undrawnIn(t *testing.T, dir string, p volume.Preparation, o dataset.Options, roots ...string) (map[string][]uint16,
	*Summary) {
	t.Helper()
	d, err := dataset.DetectAll(roots, o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Run(t.Context(), d, dir, p, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	undrawn := map[string][]uint16{}
	for r := range store.Records() {
		if r.Undrawn != nil {
			undrawn[r.ID] = r.Undrawn
		}
		c, err := store.Open(r.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, read := range []func() (*volume.LabelMap, error){c.LabelMap, c.OriginalLabelMap} {
			if l, err := read(); err != nil || l != nil && !slices.Equal(l.Undrawn, r.Undrawn) {
				t.Errorf("case %s: labels %v, %v", r.ID, l, err)
			}
		}
	}
	return undrawn, s
}

func same(a, b map[string][]uint16) bool {
	return maps.EqualFunc(a, b, slices.Equal[[]uint16])
}

// What one data set names and the other does not, nobody drew in the other. A name without voxels
// says that the structure is absent.
func TestStructuresOfOneDataSetAreUndrawnInTheOther(t *testing.T) {
	a := tree(t, map[string]string{"imagesTr/a1.nii.gz": "", "labelsTr/a1.nii.gz": "",
		"dataset.json": `{"labels": {"1": "pancreas", "2": "liver"}}`})
	b := tree(t, map[string]string{"imagesTr/b1.nii.gz": "", "labelsTr/b1.nii.gz": "", "imagesTr/b2.nii.gz": "",
		"dataset.json": `{"labels": {"1": "pancreas"}}`})
	p, dir := volume.DefaultPreparation(), t.TempDir()
	if got, s := undrawnIn(t, dir, p, dataset.Options{}, a); len(got) > 0 || s.Undrawn != nil {
		t.Errorf("one data set: %v", got)
	}
	alone := fingerprintOf(t, dir)
	got, s := undrawnIn(t, dir, p, dataset.Options{}, a, b)
	if want := map[string][]uint16{"b1": {2}}; !same(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if len(s.Undrawn) != 1 || !slices.Equal(s.Undrawn["liver"], []string{"b1"}) ||
		!strings.Contains(strings.Join(s.Notes, " "),
			"not drawn in all cases: liver in 1 of 2 cases with labels (b1)") {
		t.Errorf("%v, %q", s.Undrawn, s.Notes)
	}
	if got, _ := undrawnIn(t, t.TempDir(), p, dataset.Options{AllDrawn: true}, a, b); len(got) > 0 {
		t.Errorf("all drawn: %v", got)
	}
	// Merged labels are drawn where one of them is; a dropped one is nobody's business.
	p.Relabel = "2:1"
	if got, _ := undrawnIn(t, t.TempDir(), p, dataset.Options{}, a, b); len(got) > 0 {
		t.Errorf("merged: %v", got)
	}
	p.Relabel = "2:5"
	if got, _ := undrawnIn(t, t.TempDir(), p, dataset.Options{}, a, b); !same(got, map[string][]uint16{"b1": {5}}) {
		t.Errorf("renumbered: %v", got)
	}
	p.Relabel = "2:0"
	if got, _ := undrawnIn(t, t.TempDir(), p, dataset.Options{}, a, b); len(got) > 0 {
		t.Errorf("dropped: %v", got)
	}
	// A case that was prepared before is not prepared again, but its record is.
	again := fingerprintOf(t, dir)
	if again == alone {
		t.Error("the fingerprint says nothing of what scores leave out")
	}
}

// fingerprintOf is the fingerprint of prepared cases.
func fingerprintOf(t *testing.T, dir string) string {
	t.Helper()
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	return store.Fingerprint()
}

// Of masks, a missing file is not drawn, and an empty one is drawn and absent.
func TestMissingMasksAreUndrawn(t *testing.T) {
	root := tree(t, map[string]string{
		"p1/ct.nii.gz": "", "p1/segmentations/liver.nii.gz": "", "p1/segmentations/spleen.nii.gz": "",
		"p2/ct.nii.gz": "", "p2/segmentations/liver.nii.gz": "", "p2/segmentations/spleen.nii.gz": "",
		"p3/ct.nii.gz": "", "p3/segmentations/liver.nii.gz": "", "p4/ct.nii.gz": "",
	})
	for file, number := range map[string]uint64{"p1/segmentations/spleen.nii.gz": 1,
		"p2/segmentations/spleen.nii.gz": 2} {
		_, l := datasettest.Patient(t, number)
		clear(l.Labels) // as elsewhere
		if number == 1 {
			l.Labels[0] = 1
		}
		if err := nifti.WriteLabels(filepath.Join(root, filepath.FromSlash(file)), l); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	got, s := undrawnIn(t, dir, volume.DefaultPreparation(), dataset.Options{}, root)
	if want := map[string][]uint16{"p3": {2}}; !same(got, want) || !slices.Equal(s.Undrawn["spleen"], []string{"p3"}) {
		t.Errorf("%v, %v, want %v", got, s.Undrawn, want)
	}
	// A case kept from before that has become the odd one out is recorded so.
	more := tree(t, map[string]string{"q1/ct.nii.gz": "", "q1/segmentations/kidney.nii.gz": ""})
	got, _ = undrawnIn(t, dir, volume.DefaultPreparation(), dataset.Options{Structures: []string{"liver", "spleen",
		"kidney"}},
		root, more)
	if got["p4"] != nil { // it has no labels
		t.Errorf("a case without labels: %v", got)
	}
}

// A structure whose contours lie outside the scan was not drawn on it, and still was not when the
// case is kept.
func TestContoursOutsideTheScanAreUndrawn(t *testing.T) {
	root := t.TempDir()
	datasettest.WriteStructureSet(t, root, 0, func(file []byte) {
		head := []byte{0x06, 0x30, 0x50, 0x00, 'D', 'S'} // ContourData
		at := 0
		for range 5 { // those of the first structure
			at += bytes.Index(file[at:], head)
			value := file[at+len(head)+2:][:binary.LittleEndian.Uint16(file[at+len(head):])]
			copy(value, bytes.ReplaceAll(value, []byte("-"), []byte("9"))) // from -20 mm to 920 mm
			at += len(head) + len(value)
		}
	})
	dir, o := t.TempDir(), dataset.Options{Structures: []string{"parotid l", "two parts"}}
	for range 2 {
		got, s := undrawnIn(t, dir, volume.DefaultPreparation(), o, root)
		if len(got) != 1 || !slices.Equal(slices.Concat(slices.Collect(maps.Values(got))...), []uint16{1}) ||
			len(s.Undrawn["Parotid_L"]) != 1 {
			t.Errorf("%v, %v", got, s.Undrawn)
		}
	}
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for r := range store.Records() {
		if !datasettest.Noted(r.Notes,
			"WARNING: RS.dcm: no contour lies on the scan, which counts as not "+
				"drawn: Parotid_L (5 contours outside the scan)") {
			t.Errorf("notes %q", r.Notes)
		}
	}
}

// The summary says how many cases show each structure, and what is assumed of labels whose names
// are lost.
func TestStructuresAreCounted(t *testing.T) {
	a := tree(t, map[string]string{"imagesTr/a1.nii.gz": "", "labelsTr/a1.nii.gz": "",
		"dataset.json": `{"labels": {"1": "pancreas", "2": "liver"}}`})
	b := tree(t, map[string]string{"imagesTr/b1.nii.gz": "", "labelsTr/b1.nii.gz": "", "imagesTr/b2.nii.gz": "",
		"dataset.json": `{"labels": {"1": "pancreas"}}`})
	_, s := undrawnIn(t, t.TempDir(), volume.DefaultPreparation(), dataset.Options{}, a, b)
	all := 0
	for _, one := range s.Structures {
		all += one.Cases + one.Absent + one.Undrawn
	}
	if len(s.Structures) != 2 || all != 2*s.Labelled || s.Structures[0].Name != "pancreas" ||
		s.Structures[1].Name != "liver" || s.Structures[1].Undrawn != 1 {
		t.Errorf("%+v of %d", s.Structures, s.Labelled)
	}
	if text := s.DescribeStructures(); !strings.Contains(text, "of 2 with labels: pancreas ") ||
		!strings.Contains(text, "liver ") || !strings.Contains(text, "(not drawn in 1)") {
		t.Error(text)
	}
}

// What label maps without names lack is assumed to be absent, with a note; where nothing lacks, or
// names say it, it is not.
func TestLabelsWithoutNamesAreAssumed(t *testing.T) {
	v, l, err := phantom.New(1, phantom.Options{Shape: [3]int{24, 20, 16}})
	if err != nil {
		t.Fatal(err)
	}
	const words = "it is assumed that what has no voxels there is not in the patient"
	for _, named := range []bool{false, true} {
		root := t.TempDir()
		for n, id := range []string{"a", "b"} {
			one := &volume.LabelMap{Grid: l.Grid, Labels: slices.Clone(l.Labels)}
			if named {
				one.Names = map[uint16]string{1: "one", 2: "two", 3: "three"}
			}
			for i, label := range one.Labels {
				if n == 1 && label == 2 {
					one.Labels[i] = 0
				}
			}
			if err := errors.Join(nifti.Write(filepath.Join(root, id+".nii.gz"), v),
				nifti.WriteLabels(filepath.Join(root, id+"_seg.nii.gz"), one)); err != nil {
				t.Fatal(err)
			}
		}
		_, s := undrawnIn(t, t.TempDir(), volume.DefaultPreparation(), dataset.Options{}, root)
		notes := strings.Join(s.Notes, "\n")
		if strings.Contains(notes, words) == named || !named && !strings.Contains(notes, "1 case that lack some") {
			t.Errorf("named %v: %s", named, notes)
		}
		if text := s.DescribeStructures(); !named && !strings.Contains(text, "label 2 1, ") ||
			named && !strings.Contains(text, "two 1, ") {
			t.Error(text)
		}
	}
}
