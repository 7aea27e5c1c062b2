package dicom

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/turns"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
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
// those that testdata/dicom_rtstruct_written.py has read with pydicom and dcmrtstruct2nii, and
// filled by itself; with VOXSAW_RTSTRUCT=FOLDER they are written there for it.
func TestStructuresRoundTrip(t *testing.T) {
	digests := []string{"a38f89b984667767978865895aa9e31a1683e1306985b1a1d60113366e26479a",
		"648bbac192a488fdaf63e68b8b7a3f688efd1da198cce426f22099862c9adb2e"}
	for n, c := range readStructureCases(t) {
		s, _ := c.open(t)
		writtenContours(t, fmt.Sprint(n), s, speckled(s), digests[n])
	}
}

// writtenContours writes the two labels of a label map as contours, reads them back, compares, and
// returns how many points the longest contour has.
func writtenContours(t *testing.T, name string, s *Series, want *volume.LabelMap, digest string) (longest int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rs.dcm")
	if err := WriteStructureSet(path, want, s, WriteOptions{Version: "1", Parameters: "{}"}); err != nil {
		t.Fatal(err)
	}
	g, err := OpenStructureSet(path)
	if err != nil {
		t.Fatal(err)
	}
	if g.Find([]*Series{s}) != s || g.Description != "{}" || len(g.Structures) != 2 {
		t.Errorf("%s: %v, %q, %v", name, g.Structures, g.Description, g.Problems)
	}
	numbers := slices.Sorted(maps.Keys(want.Names))
	got, err := g.ReadOn(s, map[int]uint16{0: numbers[0], 1: numbers[1]}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := difference(want, got); d != "" || !maps.Equal(want.Names, got.Names) {
		t.Errorf("%s: %s, %v", name, d, got.Names)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(file)); sum != digest {
		t.Errorf("%s: the file is %s, not the one that others have read", name, sum)
	}
	if dir := os.Getenv("VOXSAW_RTSTRUCT"); dir != "" {
		for k, slice := range s.Files {
			data, err := os.ReadFile(slice)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, name, fmt.Sprintf("%d.dcm", k)), data)
		}
		write(t, filepath.Join(dir, name+".rs"), file)
		var labels []byte
		for _, l := range want.Labels {
			labels = append(labels, byte(l))
		}
		write(t, filepath.Join(dir, name+".labels"), labels)
	}
	// NumberOfContourPoints (3006,0046), an integer as text
	for _, part := range bytes.Split(file, []byte{0x06, 0x30, 0x46, 0x00, 'I', 'S'})[1:] {
		size := int(binary.LittleEndian.Uint16(part))
		points, err := strconv.Atoi(strings.TrimSpace(string(part[2 : 2+size])))
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, points)
	}
	return longest
}

// nested is a label map of two labels on a series of five slices: rings within rings, an outline of
// more than ten thousand points, that outline as a hole, noise, and single pixels in the corners.
func nested(s *Series) *volume.LabelMap {
	l := &volume.LabelMap{Grid: s.Grid, Labels: make([]uint16, s.Grid.Shape[0]*s.Grid.Shape[1]*s.Grid.Shape[2]),
		Names: map[uint16]string{1: "rings", 2: "islands"}}
	columns, rows := s.Grid.Shape[0], s.Grid.Shape[1]
	state := uint32(3)
	for n := range l.Labels {
		state = state*1664525 + 1013904223
		i, j := n%columns, n/columns%rows
		edge := min(i, j, columns-1-i, rows-1-j)
		// a spine, and teeth with notches
		comb := edge > 0 && (j%3 == 0 || j%3 == 1 && i%2 == 1 || i == 1)
		label := 0
		switch n / columns / rows {
		case 0: // rings of one pixel and more, every third of them of the other label
			label = []int{1, 0, 0, 2, 2, 0, 1, 1}[edge%8]
		case 1:
			if comb {
				label = 1
			}
		case 2:
			if label = 1; comb {
				label = 0
			} else if i%16 == 4 {
				label = 2
			}
		case 3:
			label = int(state >> 30 % 3)
		case 4:
			if (i == 0 || i == columns-1) && (j == 0 || j == rows-1) || edge == rows/3 {
				label = 2
			}
		}
		l.Labels[n] = uint16(label)
	}
	return l
}

// So it is however the axes of the image lie in the patient, with holes in islands in holes, and
// where an outline has more points than an element holds.
func TestContoursInEveryDirection(t *testing.T) {
	if !turns.Has(t, 1, 2) {
		return
	}
	const columns, rows = 150, 132
	for name, c := range map[string]struct {
		orientation [6]float64
		digest      string
	}{
		"axial": {axial,
			"fbf2778d4018afcf956e3b0ef0a5a95c24b018191e68d1ea3d08169a81de00fb"},
		"axial, turned": {[6]float64{-1, 0, 0, 0, -1, 0},
			"a20b44d4629bdcf607074675575fbaac1787a88ec91f7a61f64d6e012929c3b8"},
		"axial, from above": {[6]float64{-1, 0, 0, 0, 1, 0},
			"11938474ad64fb10579083279d9a38713fc86a09e89207b571d570d8f0864cd0"},
		"axes exchanged": {[6]float64{0, 1, 0, 1, 0, 0},
			"1b6d828f9f8530f3ec3e5f51a0aa239bc9723292150f92282d8956033cd98948"},
		"sagittal, negated": {[6]float64{0, -1, 0, 0, 0, 1},
			"f88777a043ecdd0b21dafa4cc4a1610bc7d88b0a6ccd1771f9bc4057efb5edee"},
		"coronal, negated": {[6]float64{-1, 0, 0, 0, 0, -1},
			"0fd90fdcb403066d44d6f04c9fdacb7a7098c198814e857b76cce1be2ba83a98"},
		"oblique": {oblique,
			"814f97806da7c167914c823534277aa641359ae5713064071bbae272c38ba881"},
		"oblique, negated": {[6]float64{-0.8, -0.6, 0, -0.36, 0.48, -0.8},
			"669203d732ea0f17781c0e705221109f98d12c3b339b6074945a833101c71caf"},
		"oblique, backwards": {[6]float64{0.36, -0.48, 0.8, 0.8, 0.6, 0},
			"ba93edbef845e6a831e16b7cdee88d9d2d2e4d8339155709981bd137f2c999d1"},
	} {
		dir := t.TempDir()
		_, _, normal, err := (&stack.Slice{
			Info: stack.Info{Orientation: c.orientation[:], Spacing: []float64{1, 1}},
		}).Axes()
		if err != nil {
			t.Fatal(err)
		}
		writeStack(t, dir, "1.2", c.orientation, line(stack.Vector{-50.3, 20.7, -100.1}, normal, 0, 2.5, 5, 7.5, 10),
			func(k int, f []field) []field {
				f = set(set(f, tag.Columns, "US", uint16(columns)), tag.Rows, "US", uint16(rows))
				f = set(f, tag.FrameOfReferenceUID, "UI", "1.2.9")
				return set(f, tag.PixelData, "OW", make([]byte, 2*columns*rows))
			})
		s := scanOne(t, dir)
		longest := writtenContours(t, strings.NewReplacer(",", "", " ", "_").Replace(name), s, nested(s), c.digest)
		if longest > 1200 || longest < 600 {
			t.Errorf("%s: the longest contour has %d points: an outline of more than 1200 is cut", name, longest)
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
