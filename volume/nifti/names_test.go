package nifti

import "testing"

// A path that begins with a dot is not a hidden file.
func TestRelativePaths(t *testing.T) {
	for name, want := range map[string]bool{"../a.nii.gz": true, "./a.nii": true, "a.hdr": true, "x/.a.nii": false,
		"._a.nii.gz": false, ".nii": false} {
		if got := IsName(name); got != want {
			t.Errorf("%s: NIfTI %v, want %v", name, got, want)
		}
	}
}
