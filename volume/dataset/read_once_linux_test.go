package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// Predicted labels of another scan are told of, for which the scan is read twice; who drops the
// notes reads it once.
func TestScanIsReadOnceForNoNotes(t *testing.T) {
	dir := t.TempDir()
	g := volume.Grid{Shape: [3]int{64, 64, 64}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	c := Case{ID: "a", Image: filepath.Join(dir, "a.nii"), Labels: filepath.Join(dir, "a_seg.nii.gz")}
	v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
	if err := nifti.Write(c.Image, v); err != nil {
		t.Fatal(err)
	}
	if err := nifti.WriteLabelsWith(c.Labels, &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}, nil,
		[]nifti.Extension{provenance.Extension(`{"program": "voxsaw predict", "scan_sha256": "another"}`)}); err != nil {
		t.Fatal(err)
	}
	bytes := func(read func()) (n int) {
		t.Helper()
		var at [2]int
		for i := range at {
			text, err := os.ReadFile("/proc/self/io")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Sscanf(string(text), "rchar: %d", &at[i]); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				read()
			}
		}
		return at[1] - at[0]
	}
	twice := bytes(func() {
		if _, _, notes, err := c.Read(DefaultReadOptions(), nil); err != nil ||
			!strings.Contains(strings.Join(notes, ""), "predicted from other files") {
			t.Errorf("%q, %v", notes, err)
		}
	})
	once := bytes(func() {
		if _, l, err := c.ReadQuietly(DefaultReadOptions(), nil); err != nil || l == nil {
			t.Error(err)
		}
	})
	if size := 2 * g.Len(); once < size || twice-once < size {
		t.Errorf("%d bytes are read for notes, %d for none, of a scan of %d", twice, once, size)
	}
}
