package dataset

import (
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
