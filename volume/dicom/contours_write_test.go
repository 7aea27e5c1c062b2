package dicom

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// speckled is a label map with two labels on a series: lumps with holes, pixels that meet in
// corners, and the edge of the image.
func speckled(s *Series) *volume.LabelMap {
	l := &volume.LabelMap{Grid: s.Grid, Labels: make([]uint16, s.Grid.Shape[0]*s.Grid.Shape[1]*s.Grid.Shape[2]),
		Names: map[uint16]string{3: "liver", 7: "kidney_left"}}
	state := uint32(7)
	for n := range l.Labels {
		state = state*1664525 + 1013904223
		i, j := n%s.Grid.Shape[0], n/s.Grid.Shape[0]%s.Grid.Shape[1]
		switch lump := (i-15)*(i-15)+(j-13)*(j-13) < 120; {
		case lump && state>>24 < 230, state>>24 < 30:
			l.Labels[n] = 3
		case state>>24 > 250:
			l.Labels[n] = 7
		}
	}
	return l
}

// Contours that are written come back voxel for voxel, on axial and oblique series. The files are
// those that testdata/dicom_rtstruct_written.py has read with pydicom and dcmrtstruct2nii; with
// VOXSAW_RTSTRUCT=FOLDER they are written there for it.
func TestStructuresRoundTrip(t *testing.T) {
	digests := []string{"a38f89b984667767978865895aa9e31a1683e1306985b1a1d60113366e26479a",
		"648bbac192a488fdaf63e68b8b7a3f688efd1da198cce426f22099862c9adb2e"}
	for n, c := range readStructureCases(t) {
		s, _ := c.open(t)
		want := speckled(s)
		path := filepath.Join(t.TempDir(), "rs.dcm")
		if err := WriteStructureSet(path, want, s, WriteOptions{Version: "1", Parameters: "{}"}); err != nil {
			t.Fatal(err)
		}
		g, err := OpenStructureSet(path)
		if err != nil {
			t.Fatal(err)
		}
		if g.Find([]*Series{s}) != s || g.Description != "{}" || len(g.Structures) != 2 {
			t.Errorf("case %d: %v, %q, %v", n, g.Structures, g.Description, g.Problems)
		}
		got, err := g.ReadOn(s, map[int]uint16{0: 3, 1: 7}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(want, got); d != "" || !maps.Equal(want.Names, got.Names) {
			t.Errorf("case %d: %s, %v", n, d, got.Names)
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(file)); sum != digests[n] {
			t.Errorf("case %d: the file is %s, not the one that others have read", n, sum)
		}
		if dir := os.Getenv("VOXSAW_RTSTRUCT"); dir != "" {
			for k, slice := range c.Slices {
				write(t, filepath.Join(dir, fmt.Sprint(n), fmt.Sprintf("%d.dcm", k)), unpacked(t, slice))
			}
			write(t, filepath.Join(dir, fmt.Sprintf("%d.rs", n)), file)
			var labels []byte
			for _, l := range want.Labels {
				labels = append(labels, byte(l))
			}
			write(t, filepath.Join(dir, fmt.Sprintf("%d.labels", n)), labels)
		}
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
