package dicom

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// peerVolume is what dcm2niix made of a series.
type peerVolume struct {
	Shape  [3]int
	Affine [4][4]float64
	Voxels []float64
}

func (p *peerVolume) at(v [3]int) float64 { return p.Voxels[v[0]+p.Shape[0]*(v[1]+p.Shape[1]*v[2])] }

// Small series as scanners and archives write them lie where dcm2niix puts them, voxel by voxel
// (testdata/dicom_trees.py).
func TestTreesAgreeWithDcm2niix(t *testing.T) {
	text, err := os.ReadFile("../../testdata/dicom_trees.json")
	if err != nil {
		t.Fatal(err)
	}
	var trees map[string]struct {
		Files    []byte
		Dcm2niix map[string]peerVolume
	}
	if err := json.Unmarshal(text, &trees); err != nil {
		t.Fatal(err)
	}
	for name, tree := range trees {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			unzip(t, dir, tree.Files)
			series, passed, err := Scan(dir)
			if err != nil || len(passed) > 0 {
				t.Fatalf("passed over %v, %v", passed, err)
			}
			if len(series) != len(tree.Dcm2niix) {
				t.Fatalf("%d series, dcm2niix has %d volumes", len(series), len(tree.Dcm2niix))
			}
			for _, s := range series {
				v, err := Read(s)
				if err != nil {
					t.Fatal(err)
				}
				problem := ""
				for file, p := range tree.Dcm2niix {
					if problem = sameVolume(v, &p, name); problem == "" {
						delete(tree.Dcm2niix, file)
						break
					}
				}
				if problem != "" {
					t.Errorf("%s: %s", s, problem)
				}
			}
		})
	}
}

// sameVolume compares two volumes in the world, and says where they differ.
func sameVolume(v *volume.Volume, p *peerVolume, name string) string {
	inverse, err := volume.Affine(p.Affine).Inverse()
	if err != nil {
		return err.Error()
	}
	if v.Len() != len(p.Voxels) {
		return "other shapes"
	}
	near := 0.01 // voxels
	if strings.HasPrefix(name, "jitter") {
		near = 0.1 // we take the distance that fits all slices, dcm2niix that of the first two
	}
	for k := range v.Shape[2] {
		for j := range v.Shape[1] {
			for i := range v.Shape[0] {
				at := inverse.Apply(v.World([3]float64{float64(i), float64(j), float64(k)}))
				var n [3]int
				for c := range at {
					n[c] = int(math.Round(at[c]))
					if math.Abs(at[c]-float64(n[c])) > near || n[c] < 0 || n[c] >= p.Shape[c] {
						return fmt.Sprintf("voxel (%d, %d, %d) is dcm2niix's %.3f", i, j, k, at)
					}
				}
				// dcm2niix rounds to its NIfTI's slope.
				if got, want := float64(v.At(i, j, k)), p.at(n); math.Abs(got-want) > 1e-4*math.Abs(want)+0.01 {
					return fmt.Sprintf("voxel (%d, %d, %d) is %g, dcm2niix's is %g", i, j, k, got, want)
				}
			}
		}
	}
	return ""
}

func unzip(t *testing.T, dir string, packed []byte) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
