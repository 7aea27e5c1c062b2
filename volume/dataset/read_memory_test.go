package dataset

import "testing"

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
