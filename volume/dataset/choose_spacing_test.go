package dataset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// TestChooseSpacing has scans of voxels along other axes than those that are prepared, one of which
// has no header.
func TestChooseSpacing(t *testing.T) {
	dir := t.TempDir()
	for name, spacing := range map[string][3]float64{"a": {1, 2, 6}, "b": {1, 2, 4}, "c": {6, 1, 2}} {
		v := &volume.Volume{Grid: volume.Grid{Shape: [3]int{4, 4, 4}, Affine: volume.Scaling(spacing)},
			Int16: make([]int16, 64)}
		for n := range v.Int16 {
			v.Int16[n] = int16(20*n - 1000)
		}
		if name == "c" { // i grows to the feet, j to the left, k to the back
			v.Affine = volume.Affine{{0, -1, 0, 0}, {0, 0, -2, 0}, {-6, 0, 0, 0}, {0, 0, 0, 1}}
		}
		if err := nifti.Write(filepath.Join(dir, name+".nii"), v); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "d.nii"), make([]byte, 400), 0o644); err != nil {
		t.Fatal(err)
	}
	p := volume.DefaultPreparation()
	p.Spacing = volume.AllMedian()
	d := detect(t, dir)
	got, note, err := d.ChooseSpacing(t.TempDir(), p, false)
	if err != nil || got.Spacing != [3]float64{1, 2, 6} || got.Choosing() {
		t.Errorf("%v, %v", got.Spacing, err)
	}
	const want = "spacing: 1x2x6 mm, the median of all scans (3, but for 1 whose header cannot be read), which " +
		"have 1 x 2 x 4 to 6 mm; resampled to it: 1 "
	if !strings.HasPrefix(note, want) {
		t.Errorf("%q, want %q", note, want)
	}
	if _, note, err := d.ChooseSpacing(t.TempDir(), volume.DefaultPreparation(), false); note != "" || err != nil {
		t.Errorf("nothing to choose: %q, %v", note, err)
	}
}
