package nifti

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// What a label map says of its place is what its scan says: both forms, their codes, the voxel
// sizes and the unit, byte for byte as nibabel writes a label map with the scan's header.
func TestLabelsLieAsTheirScan(t *testing.T) {
	var golden struct {
		Cases []struct {
			Name         string
			Scan, Header []byte
			Qform, Sform [][]float64
			Qcode, Scode int32
		}
	}
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "nifti_placing.json"))
	if err == nil {
		err = json.Unmarshal(data, &golden)
	}
	if err != nil || len(golden.Cases) != 8 {
		t.Fatal(len(golden.Cases), err)
	}
	// of NIfTI-1: pixdim[0] to [3], xyzt_units, and from qform_code to srow_z
	places := [][2]int{{76, 92}, {123, 124}, {252, 328}}
	for _, c := range golden.Cases {
		dir := t.TempDir()
		scan, path := filepath.Join(dir, "scan.nii"), filepath.Join(dir, "labels.nii")
		if err := os.WriteFile(scan, c.Scan, 0o666); err != nil {
			t.Fatal(err)
		}
		h, err := ReadHeader(scan)
		if err != nil {
			t.Fatal(c.Name, err)
		}
		l := &volume.LabelMap{Grid: h.Grid, Labels: make([]uint16, h.Len())}
		if err := WriteLabelsWith(path, l, h, nil); err != nil {
			t.Fatal(err)
		}
		written, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range places {
			if got, want := written[at[0]:at[1]], c.Header[at[0]:at[1]]; !bytes.Equal(got, want) {
				t.Errorf("%s: bytes %v are\n% x, nibabel writes\n% x", c.Name, at, got, want)
			}
		}
		back, err := ReadHeader(path)
		if err != nil || back.AffineFrom != h.AffineFrom || !back.Same(h.Grid, 1e-5) {
			t.Errorf("%s: read as %v by the %s, %v", c.Name, back.Affine, back.AffineFrom, err)
		}
		if p := back.placing; p.qform != c.Qcode || p.sform != c.Scode {
			t.Errorf("%s: codes %d and %d", c.Name, p.qform, p.sform)
		}
		for r := range c.Sform {
			for n, want := range c.Sform[r] {
				if r < 3 && math.Abs(back.placing.srow[r][n]-want) > 1e-5 {
					t.Errorf("%s: sform %v, want %v", c.Name, back.placing.srow, c.Sform)
				}
			}
		}
		// On other voxels a label map has a place of its own.
		moved := *l
		moved.Affine[0][3] += 5
		if err := WriteLabelsWith(path, &moved, h, nil); err != nil {
			t.Fatal(err)
		}
		if back, err := ReadHeader(path); err != nil || !back.Same(moved.Grid, 1e-5) || back.placing.sform != 1 {
			t.Errorf("%s, moved: %v, %v", c.Name, back, err)
		}
	}
}
