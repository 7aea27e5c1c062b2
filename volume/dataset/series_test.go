package dataset

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A file that has a slice's name and is no DICOM, an empty one say, may be a slice that is missing: it is listed. What else lies in folders of scans is not.
func TestFilesWithNamesOfSlicesAreListed(t *testing.T) {
	root := t.TempDir()
	v, _ := axial(t, 1)
	writeSeries(t, root, "1.2.3", v, false)
	listed := []string{"IM0007", "00000012", "1.2.840.113619.2.55", "slice.dcm", "LAST.DCM"}
	for _, name := range append([]string{"README", "notes.txt", "Thumbs.db", "report2.pdf", "scan1.json"}, listed...) {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		_, _, others, err := listSeries(root, "", "")
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
		for tag, bits := range map[uint16]string{0x0101: "\x0C\x00", 0x0102: "\x0B\x00"} { // BitsStored, HighBit
			file = bytes.Replace(file, []byte(element(0x0028, tag, "US", map[uint16]string{0x0101: "\x10\x00", 0x0102: "\x0F\x00"}[tag])), []byte(element(0x0028, tag, "US", bits)), 1)
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
	if p := strings.Join(entries[0].Problems, "|"); !strings.Contains(p, "has pixels of more than the 12 bits that it claims") || strings.Contains(p, "|") {
		t.Errorf("problems %q", p)
	}
}
