package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A file that has a slice's name and is no DICOM, an empty one say, may be a slice that is missing:
// it is listed. What else lies in folders of scans is not.
func TestFilesWithNamesOfSlicesAreListed(t *testing.T) {
	root := t.TempDir()
	v, _ := axial(t, 1)
	writeSeries(t, root, "1.2.3", v, false)
	listed := []string{"IM0007", "00000012", "1.2.840.113619.2.55", "slice.dcm", "LAST.DCM"}
	for _, name := range append([]string{"README", "notes.txt", "Thumbs.db", "report2.pdf", "scan1.json"}, listed...) {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		_, _, others, err := listSeries(root, Options{}, all)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{filepath.Join(root, name) + ": passed over: not DICOM"}
		if !slices.Contains(listed, name) {
			want = nil
		}
		if !slices.Equal(others, want) {
			t.Errorf("%s: %s", name, strings.Join(others, "\n"))
		}
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// What is odd about pixels is found when they are read: inspect tells it as well.
func TestInspectTellsWhatPixelsHold(t *testing.T) {
	root := t.TempDir()
	v, _ := axial(t, 1)
	writeSeries(t, root, "1.2.3", v, false)
	files, err := filepath.Glob(filepath.Join(root, "*.dcm"))
	if err != nil {
		t.Fatal(err)
	}
	for n, path := range files {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// BitsStored, HighBit
		for tag, bits := range map[uint16]string{0x0101: "\x0C\x00", 0x0102: "\x0B\x00"} {
			file = bytes.Replace(file, []byte(element(0x0028, tag, "US",
				map[uint16]string{0x0101: "\x10\x00", 0x0102: "\x0F\x00"}[tag])),
				[]byte(element(0x0028, tag, "US", bits)), 1)
		}
		if n == 0 {
			copy(file[len(file)-2:], "\x88\x13") // 5000
		}
		if err := os.WriteFile(path, file, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	entries, _, err := Inspect(t.Context(), []string{root}, InspectOptions{})
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	if p := strings.Join(entries[0].Problems, "|"); !strings.Contains(p,
		"has pixels of more than the 12 bits that it claims") || strings.Contains(p, "|") {
		t.Errorf("problems %q", p)
	}
}

// A number that several series of a study have chooses none of them: their UIDs are told, by
// inspect as well, and choose.
func TestSeriesOfOneNumber(t *testing.T) {
	root := t.TempDir()
	v, _ := axial(t, 1)
	for _, series := range []string{"1.2.1", "1.2.2"} {
		writeStudy(t, filepath.Join(root, "pat"), series, "1.2.9", 2, "CT", v, nil)
	}
	// the only one of its study
	writeStudy(t, filepath.Join(root, "other"), "1.2.3", "1.2.8", 2, "CT", v, nil)
	d, err := Detect(root, Options{Series: "2"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Prepare(t.Context(), d, t.TempDir(), volume.DefaultPreparation(), PrepareOptions{}, nil)
	if err == nil || s.Prepared != 1 || len(s.Failed) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	for _, want := range []string{"series 2 is not one but 2 (choose by UID", ", UID 1.2.1", ", UID 1.2.2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %s", err, want)
		}
	}
	if d, err = Detect(root, Options{Series: "1.2.2"}); err != nil || len(d.Cases) != 1 ||
		d.Cases[0].Series != "1.2.2" {
		t.Errorf("by UID: %+v, %v", d, err)
	}
	if d = detect(t, root); len(d.Notes) != 1 ||
		!strings.Contains(d.Notes[0],
			"the largest axial CT of 2 series, UID 1.2.1, as large as series 2 UID 1.2.2; --series chooses another") {
		t.Errorf("notes %q", d.Notes)
	}
	entries, _, err := Inspect(t.Context(), []string{root}, InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		want := "another series of its study has the same number: --series " + e.Series + " takes this one"
		if e.Series == "1.2.3" {
			want = ""
		}
		if got := strings.Join(e.Problems, "; "); got != want {
			t.Errorf("series %s: problems %q", e.Series, got)
		}
	}
}

// Of several series of one number the only one that is a scan is taken, and that is said.
func TestSeriesOfANumberWithItsLocalizer(t *testing.T) {
	root := t.TempDir()
	v, _ := axial(t, 1)
	writeSeries(t, root, "1.2.1", v, false)
	one := &volume.Volume{Grid: v.Grid, Int16: v.Int16[:v.Shape[0]*v.Shape[1]]}
	one.Shape[2] = 1
	writeStudy(t, root, "1.2.2", "1.2.1.9", 1, "CT", one, nil)
	d, err := Detect(root, Options{Series: "1"})
	if err != nil || len(d.Cases) != 1 || d.Cases[0].Series != "1.2.1" || len(d.Notes) != 1 ||
		!strings.Contains(d.Notes[0], "the only scan of 2 series that are 1") {
		t.Errorf("%+v, %v", d, err)
	}
}

// A DICOMDIR stands for its folder: what inspect and Detect say of one they say of the other.
func TestDICOMDIRStandsForItsFolder(t *testing.T) {
	root := t.TempDir()
	v, _ := axial(t, 1)
	writeSeries(t, filepath.Join(root, "DICOM"), "1.2.1", v, false)
	directory := filepath.Join(root, "DICOMDIR")
	meta := strings.Repeat("\x00", 128) + "DICM" + element(0x0002, 0x0002, "UI", "1.2.840.10008.1.3.10") +
		element(0x0002, 0x0010, "UI", "1.2.840.10008.1.2.1")
	if err := os.WriteFile(directory, []byte(meta+element(0x0004, 0x1130, "CS", "DISK")), 0o666); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, path := range []string{root, directory} {
		entries, notes, err := Inspect(t.Context(), []string{path}, InspectOptions{})
		if err != nil || len(entries) != 1 || entries[0].Path != filepath.Join(root, "DICOM") ||
			len(entries[0].Problems) > 0 {
			t.Errorf("%s: %+v, %v", path, entries, err)
		}
		d, err := Detect(path, Options{})
		if err != nil || len(d.Cases) != 1 {
			t.Fatalf("%s: %+v, %v", path, d, err)
		}
		said = append(said, strings.Join(notes, "\n")+list(d)[0])
	}
	if said[0] != said[1] || !strings.Contains(said[0], directory+": passed over: DICOMDIR") {
		t.Errorf("of the folder: %s\nof the DICOMDIR: %s", said[0], said[1])
	}
}

// A folder with a copy of itself inside is a case of its own name, not the copy's.
func TestCaseIsNotNamedAfterItsCopy(t *testing.T) {
	root := t.TempDir()
	v, _ := axial(t, 1)
	writeSeries(t, filepath.Join(root, "copy"), "1.2.1", v, false)
	if err := errors.Join(os.CopyFS(filepath.Join(root, "pat"), os.DirFS(filepath.Join(root, "copy"))),
		os.Rename(filepath.Join(root, "copy"), filepath.Join(root, "pat", "again"))); err != nil {
		t.Fatal(err)
	}
	d := detect(t, root)
	if got := list(d); !slices.Equal(got, []string{"pat pat"}) || !strings.Contains(strings.Join(d.PassedOver, "; "),
		"again: passed over 30 files") {
		t.Errorf("%q, passed over %q", got, d.PassedOver)
	}
}

// A scan of whose slices each has UIDs of its own is prepared as a whole, or not at all: never is a
// slice of it taken for a scan.
func TestSlicesWithUIDsOfTheirOwn(t *testing.T) {
	v, _ := axial(t, 3)
	each := func(k int) string { return fmt.Sprintf("1.8.%d", k) }
	for name, c := range map[string]struct {
		without func(k int) bool // slices that are missing
		study   func(k int) string
		fail    string
	}{
		"each of a study of its own": {func(int) bool { return false }, each, ""},
		"all of one study":           {func(int) bool { return false }, func(int) string { return "1.8" }, ""},
		"one is missing": {func(k int) bool { return k == 12 }, func(int) string { return "1.8" },
			"slices are not evenly spaced"},
		"one is missing, studies": {func(k int) bool { return k == 12 }, each, "slices are not evenly spaced"},
	} {
		root, out := t.TempDir(), t.TempDir()
		for k := range v.Shape[2] {
			one, err := v.Crop([3]int{0, 0, k}, [3]int{v.Shape[0], v.Shape[1], 1}, 0)
			if err != nil {
				t.Fatal(err)
			}
			if !c.without(k) {
				writeStudy(t, filepath.Join(root, "patient"), fmt.Sprintf("1.7.%d", k), c.study(k), 4, "CT", one, nil)
			}
		}
		_, err := Prepare(t.Context(), detect(t, root), out, volume.DefaultPreparation(), PrepareOptions{}, nil)
		if c.fail != "" {
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		store, err := prepared.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		records := slices.Collect(store.Records())
		want, err := v.Orient("RAS")
		if err != nil {
			t.Fatal(err)
		}
		if len(records) != 1 || records[0].Shape != want.Shape || !strings.Contains(strings.Join(records[0].Notes, ""),
			"taken for one volume") {
			t.Errorf("%s: %+v", name, records)
		}
	}
}

// Single slices whose UIDs have nothing in common are no cases if they lie in one folder and look
// alike, unless that is asked for.
func TestSingleSlicesOfOneFolder(t *testing.T) {
	v, _ := axial(t, 3)
	for name, these := range map[string][]int{"two": {3, 4}, "three, unevenly": {2, 3, 8}} {
		root := t.TempDir()
		folder := filepath.Join(root, "data", "patient")
		if err := os.MkdirAll(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		for _, k := range these {
			one, err := v.Crop([3]int{0, 0, k}, [3]int{v.Shape[0], v.Shape[1], 1}, 0)
			if err != nil {
				t.Fatal(err)
			}
			from := filepath.Join(root, fmt.Sprint(k), "one") // a frame of reference each
			writeStudy(t, from, fmt.Sprintf("1.7.%d", k), fmt.Sprintf("1.8.%d", k), 4, "CT", one, nil)
			files, err := filepath.Glob(filepath.Join(from, "*"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			if err := os.Rename(files[0], filepath.Join(folder, filepath.Base(files[0]))); err != nil {
				t.Fatal(err)
			}
		}
		root = filepath.Join(root, "data")
		_, err := Prepare(t.Context(), detect(t, root), t.TempDir(), volume.DefaultPreparation(), PrepareOptions{}, nil)
		if want := fmt.Sprintf("%d single slices that look alike have UIDs of their own", len(these)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if d, err := Detect(root, Options{Series: SeriesAll}); err != nil || len(d.Cases) != len(these) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

// More series of one number than the alphabet has letters get names all the same.
func TestManySeriesOfOneNumber(t *testing.T) {
	for n, want := range map[int]string{2: "b", 26: "z", 27: "aa", 28: "ab", 52: "az", 53: "ba", 702: "zz",
		703: "aaa"} {
		if got := letters(n); got != want {
			t.Errorf("number %d is %s, want %s", n, got, want)
		}
	}
}

// all keeps every object.
func all(objects []object) []object { return objects }
