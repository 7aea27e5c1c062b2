package format

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Both halves of a pair are files of the image, under all names that it is read by.
func TestFilesOfPairs(t *testing.T) {
	for _, c := range [][2]string{{"scan.hdr", "scan.img"}, {"scan.hdr.gz", "scan.img.gz"}, {"scan.hdr", "scan.img.gz"},
		{"scan.hdr.gz", "scan.img"}, {"SCAN.HDR", "SCAN.IMG"}, {"SCAN.HDR.GZ", "SCAN.IMG.GZ"}} {
		dir := t.TempDir()
		header, image := filepath.Join(dir, c[0]), filepath.Join(dir, c[1])
		for _, path := range []string{header, image} {
			if err := os.WriteFile(path, nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if got := Files(header); !slices.Equal(got, []string{header, image}) {
			t.Errorf("%s and %s: %q", c[0], c[1], got)
		}
	}
	if got := Files("alone.hdr"); !slices.Equal(got, []string{"alone.hdr"}) {
		t.Errorf("a header alone: %q", got)
	}
}
