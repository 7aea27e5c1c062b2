package dataset

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// Mask files whose names are two spellings of one structure are one label only where their voxels
// are the same; otherwise one of the spellings must be chosen.
func TestMasksOfOneName(t *testing.T) {
	root := tree(t, map[string]string{"p1/ct.nii.gz": "", "p1/segmentations/brain-stem.nii.gz": "",
		"p1/segmentations/brainstem.nii.gz": "", "p1/segmentations/liver.nii.gz": ""})
	path := func(name string) string { return filepath.Join(root, "p1", "segmentations", name) }
	_, l := datasettest.Patient(t, 1)
	write := func(name string, voxels ...int) {
		t.Helper()
		clear(l.Labels)
		for _, n := range voxels {
			l.Labels[n] = 1
		}
		if err := nifti.WriteLabels(path(name), l); err != nil {
			t.Fatal(err)
		}
	}
	read := func(structures ...string) (*volume.LabelMap, error) {
		t.Helper()
		d, err := Detect(root, Options{Structures: structures})
		if err != nil {
			t.Fatal(err)
		}
		_, l, _, err := d.Cases[0].Read(DefaultReadOptions(), d.LabelNames)
		return l, err
	}
	write("liver.nii.gz", 7)
	write("brain-stem.nii.gz", 1, 2)
	write("brainstem.nii.gz", 1, 2)
	if l, err := read(); err != nil || l.Counts()[1] != 2 || len(l.Names) != 2 {
		t.Errorf("the same voxels: %v, %+v", err, l)
	}
	write("brainstem.nii.gz", 2, 3, 4)
	want := path("brain-stem.nii.gz") + " and " + path("brainstem.nii.gz") +
		" are both brainstem by their names, and have different voxels: rename or remove one of them, or choose: " +
		"--structures 'brain-stem' takes that spelling alone"
	if _, err := read(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	for name, voxels := range map[string]int{"brain-stem": 2, "brainstem": 3} {
		if l, err := read(name, "liver"); err != nil || l.Counts()[1] != voxels {
			t.Errorf("%s: %v, %+v", name, err, l)
		}
	}
	if _, err := read("Brainstem"); err == nil {
		t.Error("a third spelling chooses")
	}
}

// Structures of two cases are one label only where their names are spellings of one: numbers stay
// apart, and so do words that differ in vowel signs.
func TestStructuresOfOtherNumbers(t *testing.T) {
	names := [][]string{
		{"lesion_1_1", "PTV 50.4", "दिल", "Gro\u0308\u00dfe"},
		{"Lesion_11", "PTV 504", "दल", "gr\u00f6\u00dfe"},
	}
	files := map[string]string{}
	for n, all := range names {
		patient := []string{"p1", "p2"}[n]
		files[patient+"/ct.nii.gz"] = ""
		for _, name := range all {
			files[patient+"/segmentations/"+name+".nii.gz"] = ""
		}
	}
	d, err := Detect(tree(t, files), Options{})
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]uint16{}
	for _, c := range d.Cases {
		for _, m := range c.Masks {
			of[m.Name] = m.Label
		}
	}
	if len(of) != 8 || len(d.LabelNames) != 7 {
		t.Fatalf("masks %v, names %v", of, d.LabelNames)
	}
	for n, a := range names[0] {
		if b := names[1][n]; of[a] == of[b] != (n == 3) {
			t.Errorf("%q is label %d, and %q label %d", a, of[a], b, of[b])
		}
	}
}

func TestWantedNames(t *testing.T) {
	for pattern, want := range map[string]string{
		"lesion_1_*":     "lesion_1_1 lesion.1.2 lesion_1_b",
		"lesion_1*":      "lesion_1_1 lesion.1.2 lesion_1_b Lesion_11",
		"*_1":            "lesion_1_1",
		"*1":             "lesion_1_1 Lesion_11",
		"lesion_1_*_1":   "lesion_1_1",
		"lesion_*_1":     "lesion_1_1",
		"lesion_1 * 1":   "lesion_1_1",
		"LESION*":        "lesion_1_1 lesion.1.2 lesion_1_b Lesion_11",
		"*":              "lesion_1_1 lesion.1.2 lesion_1_b Lesion_11",
		"lesion 1 1":     "lesion_1_1",
		"lesion.1_*":     "lesion_1_1 lesion.1.2 lesion_1_b",
		"les*on_1_*":     "lesion_1_1 lesion.1.2 lesion_1_b",
		"lesion_1_*_3_*": "",
	} {
		var got []string
		for _, name := range []string{"lesion_1_1", "lesion.1.2", "lesion_1_b", "Lesion_11"} {
			if isWanted(name, []string{pattern}) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}
