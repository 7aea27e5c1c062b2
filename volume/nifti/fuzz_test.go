package nifti

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// Whatever a file holds, reading it ends in a whole volume that survives a round trip, or in an
// error of one of the two kinds.
func FuzzFile(f *testing.F) {
	for _, c := range goldenCases(f) {
		if c.Image == "" {
			f.Add(decode64(f, c.File))
		}
	}
	files, _ := filepath.Glob(filepath.Join(os.Getenv("VOXSAW_DATA"), "nifti/nibabel/*"))
	for _, path := range files {
		if data, err := os.ReadFile(path); err == nil && len(data) < 40<<10 {
			f.Add(data)
		}
	}
	dir := f.TempDir()
	in, out := filepath.Join(dir, "in.nii"), filepath.Join(dir, "out.nii")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(in, data, 0o644); err != nil {
			t.Fatal(err)
		}
		_, all := ReadAll(in, Options{MaxBytes: 1 << 22})
		_, labels := ReadLabelsWith(in, Options{MaxBytes: 1 << 22})
		v, err := ReadWith(in, Options{MaxBytes: 1 << 22})
		for _, err := range []error{all, labels, err} {
			var format *volume.FormatError
			var unsupported *volume.UnsupportedError
			if err != nil && !errors.As(err, &format) && !errors.As(err, &unsupported) {
				t.Fatalf("%T: %v", err, err)
			}
		}
		if err != nil {
			return
		}
		if err := v.Check(); err != nil {
			t.Fatal(err)
		}
		if v.Int16 == nil {
			return // NaN is not equal to itself
		}
		if err := Write(out, v); err != nil {
			t.Fatal(err)
		}
		w, err := Read(out)
		if err != nil {
			return // an affine that float64 holds (NIfTI-2) and float32 does not
		}
		for n := range v.Int16 {
			if v.Int16[n] != w.Int16[n] {
				t.Fatalf("voxel %d is %d after a round trip, was %d", n, w.Int16[n], v.Int16[n])
			}
		}
	})
}
