package volume

import "testing"

// Axes of the file are put in an order, and none is turned.
func TestOrientFile(t *testing.T) {
	v := &Volume{Grid: Grid{Shape: [3]int{2, 3, 4}, Affine: Affine{{0, 0, 5, 1}, {-1, 0, 0, 2}, {0, -3, 0, 3},
		{0, 0, 0, 1}}}}
	for n := range v.Len() {
		v.Int16 = append(v.Int16, int16(n))
	}
	o, err := v.Orient("kij")
	if err != nil {
		t.Fatal(err)
	}
	if o.Shape != [3]int{4, 2, 3} || o.Spacing() != [3]float64{5, 1, 3} {
		t.Errorf("%v voxels of %v mm", o.Shape, o.Spacing())
	}
	for k := range 4 {
		for i := range 2 {
			for j := range 3 {
				if got, want := o.Int16[o.Index(k, i, j)], v.Int16[v.Index(i, j, k)]; got != want {
					t.Fatalf("voxel %d %d %d is %d, want %d", i, j, k, got, want)
				}
			}
		}
	}
	for _, wrong := range []string{"iij", "ijA", "kj", "ijkk"} {
		if _, err := v.Orient(wrong); err == nil {
			t.Errorf("%s: no error", wrong)
		}
	}
}
