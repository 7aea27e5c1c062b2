package dataset

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// A series is as large as the voxels that reading makes of it: float32 where rescaling makes
// fractions.
func TestExtentOfSeries(t *testing.T) {
	for folder, want := range map[string]int{"pt": 4, "ct": 2} {
		c := Case{Image: "../../testdata/pet_ct/" + folder}.Located()
		v, _, err := c.ReadImage(DefaultReadOptions())
		if err != nil {
			t.Fatal(err)
		}
		read := 2
		if v.Float32 != nil {
			read = 4
		}
		grid, bytes, known := c.Extent()
		if !known || bytes != want || read != want || grid != v.Grid {
			t.Errorf("%s: %d bytes (known: %t), read as %d, want %d", folder, bytes, known, read, want)
		}
		if n := c.reading(); n != int64(want*v.Len()) {
			t.Errorf("%s: reading takes %d bytes, want %d", folder, n, want*v.Len())
		}
	}
}

// Files on the scan's own voxels take what its type takes, in all channels, and the labels.
func TestStoredBytes(t *testing.T) {
	g := volume.Grid{Shape: [3]int{4, 3, 2}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	ints, floats := filepath.Join(t.TempDir(), "int16.nii"), filepath.Join(t.TempDir(), "float32.nii")
	if err := errors.Join(nifti.Write(ints, &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}),
		nifti.Write(floats, &volume.Volume{Grid: g, Float32: []float32{0.5, 23: 1}})); err != nil {
		t.Fatal(err)
	}
	c := Case{Image: ints, Labels: "drawn.nii", More: []Case{{Image: floats}}}
	if got := c.StoredBytes(); got != 24*(2+1+4) {
		t.Errorf("%d bytes", got)
	}
}
