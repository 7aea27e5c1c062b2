package dataset

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/format"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

// A file that has a slice's name and is no DICOM, an empty one say, may be a slice that is missing:
// it is listed. What else lies in folders of scans is not.
func TestFilesWithNamesOfSlicesAreListed(t *testing.T) {
	root := t.TempDir()
	v, _ := datasettest.Axial(t, 1)
	datasettest.WriteSeries(t, root, "1.2.3", v, false)
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
	v, _ := datasettest.Axial(t, 1)
	datasettest.WriteSeries(t, root, "1.2.3", v, false)
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
			file = bytes.Replace(file, []byte(datasettest.Element(0x0028, tag, "US",
				map[uint16]string{0x0101: "\x10\x00", 0x0102: "\x0F\x00"}[tag])),
				[]byte(datasettest.Element(0x0028, tag, "US", bits)), 1)
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

// Of several series of one number the only one that is a scan is taken, with a note.
func TestSeriesOfANumberWithItsLocalizer(t *testing.T) {
	root := t.TempDir()
	v, _ := datasettest.Axial(t, 1)
	datasettest.WriteSeries(t, root, "1.2.1", v, false)
	one := &volume.Volume{Grid: v.Grid, Int16: v.Int16[:v.Shape[0]*v.Shape[1]]}
	one.Shape[2] = 1
	datasettest.WriteStudy(t, root, "1.2.2", "1.2.1.9", 1, "CT", one, nil)
	d, err := Detect(root, Options{Series: "1"})
	if err != nil || len(d.Cases) != 1 || d.Cases[0].Series != "1.2.1" || len(d.Notes) != 1 ||
		!strings.Contains(d.Notes[0], "the only scan of 2 series that are 1") {
		t.Errorf("%+v, %v", d, err)
	}
}

// A DICOMDIR stands for its folder: what inspect and Detect say of one they say of the other.
func TestDICOMDIRStandsForItsFolder(t *testing.T) {
	root := t.TempDir()
	v, _ := datasettest.Axial(t, 1)
	datasettest.WriteSeries(t, filepath.Join(root, "DICOM"), "1.2.1", v, false)
	directory := filepath.Join(root, "DICOMDIR")
	meta := strings.Repeat("\x00", 128) + "DICM" + datasettest.Element(0x0002, 0x0002, "UI", "1.2.840.10008.1.3.10") +
		datasettest.Element(0x0002, 0x0010, "UI", "1.2.840.10008.1.2.1")
	if err := os.WriteFile(directory, []byte(meta+datasettest.Element(0x0004, 0x1130, "CS", "DISK")),
		0o666); err != nil {
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
	v, _ := datasettest.Axial(t, 1)
	datasettest.WriteSeries(t, filepath.Join(root, "copy"), "1.2.1", v, false)
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
func all(objects []format.Object) []format.Object { return objects }
