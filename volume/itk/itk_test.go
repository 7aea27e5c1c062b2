package itk

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// itkCase is a case of testdata/itk_files.json: files, and what SimpleITK reads in them.
type itkCase struct {
	Name    string            `json:"name"`
	Files   map[string][]byte `json:"files"`
	Shape   [3]int            `json:"shape"`
	Affine  volume.Affine     `json:"affine"`
	Volumes [][]float64       `json:"volumes"`
}

func readCases(t testing.TB) (cases []itkCase) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "itk_files.json"))
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// write writes the files of a case and returns the path of the one to read.
func (c itkCase) write(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range c.Files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, c.Name)
}

func TestFilesAgreeWithSimpleITK(t *testing.T) {
	for _, c := range readCases(t) {
		path := c.write(t)
		h, err := ReadHeader(path)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if h.Volumes != len(c.Volumes) || !h.Same(volume.Grid{Shape: c.Shape, Affine: c.Affine}, 1e-3) ||
			len(h.Problems) > 0 && c.Name != "four.nrrd" {
			t.Errorf("%s: %+v, want %+v", c.Name, h, c.Affine)
		}
		for n, want := range c.Volumes {
			v, err := Read(path, n+1)
			if err != nil {
				t.Errorf("%s: %v", c.Name, err)
				continue
			}
			for i, x := range want {
				if got := v.At(i%c.Shape[0], i/c.Shape[0]%c.Shape[1], i/c.Shape[0]/c.Shape[1]); got != float32(x) {
					t.Errorf("%s: volume %d, voxel %d: %g, want %g", c.Name, n, i, got, x)
					break
				}
			}
			if whole := !slices.ContainsFunc(want,
				func(x float64) bool { return x != math.Trunc(x) }); whole != (v.Int16 != nil) {
				t.Errorf("%s: whole numbers %v", c.Name, v.Int16 != nil)
			}
		}
		if _, err := Read(path, 0); len(c.Volumes) > 1 && (err == nil || !strings.Contains(err.Error(), "--volume")) {
			t.Errorf("%s: one of several volumes: %v", c.Name, err)
		}
	}
}

// Segmentations of 3D Slicer name their labels.
func TestSegmentNames(t *testing.T) {
	for _, c := range readCases(t) {
		if c.Name != "organs.seg.nrrd" {
			continue
		}
		l, err := ReadLabels(c.write(t), 0)
		if err != nil || !maps.Equal(l.Names, map[uint16]string{3: "Parotid left", 7: "cord"}) ||
			float64(l.Labels[4]) != c.Volumes[0][4] {
			t.Errorf("%v, %+v", err, l)
		}
	}
}

func TestLabelsAreWholeNumbers(t *testing.T) {
	for _, c := range readCases(t) {
		if c.Name == "packed.mha" {
			if _, err := ReadLabels(c.write(t), 0); err == nil || !strings.Contains(err.Error(), "is not a label map") {
				t.Errorf("numbers: %v", err)
			}
		}
	}
}

// What is correct and not read, and what contradicts itself, is refused by name.
func TestBadFilesAreRefused(t *testing.T) {
	const nrrd = "NRRD0004\ntype: uint8\ndimension: 3\nspace: left-posterior-superior\nsizes: 2 2 " +
		"2\nspace directions: (1,0,0) (0,1,0) (0,0,1)\nkinds: domain domain domain\nendian: " +
		"little\nencoding: raw\nspace origin: (0,0,0)\n\n12345678"
	const meta = "ObjectType = Image\nNDims = 3\nBinaryData = True\nTransformMatrix = 1 0 0 0 1 0 0 0 1\nOffset = 0 " +
		"0 0\nElementSpacing = 1 1 1\nDimSize = 2 2 2\nElementType = MET_UCHAR\nElementDataFile = LOCAL\n12345678"
	path := filepath.Join(t.TempDir(), "a.nrrd")
	for _, c := range []struct{ from, old, new, want string }{
		{nrrd, "", "", ""},
		{meta, "", "", ""},
		{nrrd, "12345678", "1234567", "does not hold the 2x2x2 voxels"},
		{meta, "12345678", "", "does not hold the 2x2x2 voxels"},
		{nrrd, "raw", "hex", `its encoding is "hex"`},
		{nrrd, "uint8", "block", `values of type "block"`},
		{nrrd, "sizes: 2 2 2", "sizes: 2 2", "are not those of"},
		{nrrd, "sizes: 2 2 2", "sizes: 2 2 999999999", "does not hold the 2x2x999999999 voxels"},
		{nrrd, "left-posterior-superior", "scanner-xyz", `its space is "scanner-xyz"`},
		{nrrd, "(0,0,1)", "none", "are not three of space"},
		{nrrd, "(0,0,1)", "(0,0,0)", "has no usable geometry"},
		{nrrd, "encoding: raw", "encoding: raw\ndata file: ../b.raw", "only files beside it"},
		{nrrd, "encoding: raw", "encoding: raw\ndata file: gone.raw", "the file with its voxels is not there"},
		{nrrd, "encoding: raw", "encoding: gzip", "does not hold the 2x2x2 voxels"},
		{nrrd, "encoding: raw", "encoding: raw\nSizes: 2 2 1", `its header says sizes twice: "2 2 2" and "2 2 1"`},
		{nrrd, "encoding: raw", "encoding: raw\nsizes: 2 2 2", ""}, // the same
		{nrrd, "encoding: raw", "encoding: raw\nSegment0_Name:=a\nSegment0_Name:=b",
			`its header says Segment0_Name twice: "a" and "b"`},
		{nrrd, "encoding: raw", "encoding: raw\nnote:=a\nnote:=b", ""},
		{meta, "NDims = 3", "NDims = 3\nDimSize = 2 2 1", `its header says dimsize twice: "2 2 1" and "2 2 2"`},
		{nrrd, nrrd, "", "is empty"},
		{nrrd, "encoding: raw", "encoding: raw\nbyte skip: 9223372036854775807", "more than any file has"},
		{nrrd, "encoding: raw", "encoding: raw\nbyte skip: 9223372036854775300", "of a file that has"},
		{nrrd, "encoding: raw", "encoding: raw\nbyte skip: 1", "does not hold the 2x2x2 voxels"},
		{nrrd, "encoding: raw", "encoding: raw\nbyte skip: -1", ""},
		{nrrd, "encoding: raw", "encoding: raw\nbyte skip: -2", "it skips \"-2\" bytes"},
		{nrrd, "sizes: 2 2 2", "sizes: 2 2 9\nbyte skip: -1", "does not hold the 2x2x9 voxels"},
		{nrrd, "encoding: raw", "encoding: gzip\nbyte skip: -1", "it skips \"-1\" bytes"},
		{nrrd, "\n\n12345678", "\n", "its header has no end"},
		{nrrd, "\n\n12345678", "", "its header has no end"},
		{meta, "ElementDataFile", "HeaderSize = 202\nElementDataFile", ""}, // as long as it is
		{meta, "ElementDataFile", "HeaderSize = -1\nElementDataFile", ""},
		{meta, "ElementDataFile", "HeaderSize = 0\nElementDataFile", ""},
		{meta, "ElementDataFile", "HeaderSize = 200\nElementDataFile", "is 200, but its header has 202 bytes"},
		{meta, "ElementDataFile", "HeaderSize = 9223372036854775807\nElementDataFile", "but its header has"},
		{meta, "ElementDataFile", "HeaderSize = -2\nElementDataFile", `its HeaderSize is "-2"`},
		{meta, "DimSize = 2 2 2", "DimSize = 2 2 9\nHeaderSize = -1", "does not hold the 2x2x9 voxels"},
		{meta, "NDims", "CompressedData = True\nHeaderSize = -1\nNDims", `its HeaderSize is "-1"`},
		{meta, "MET_UCHAR", "MET_ASCII_CHAR", `values of type "MET_ASCII_CHAR"`},
		{meta, "ElementDataFile = LOCAL\n", "", "no line of its header names the file"},
		{meta, "LOCAL", "/etc/passwd", "only files beside it"},
		{meta, "LOCAL", "LIST", "several files"},
		{meta, "NDims = 3", "NDims = 2", "is not that of"},
		{meta, "Image", "Mesh", `an object of type "Mesh"`},
		{"not an image\n", "", "", "is neither NRRD nor MetaImage"},
	} {
		if err := os.WriteFile(path, []byte(strings.Replace(c.from, c.old, c.new, 1)), 0o666); err != nil {
			t.Fatal(err)
		}
		v, err := Read(path, 0)
		var format *volume.FormatError
		var unsupported *volume.UnsupportedError
		switch {
		case c.want == "" && (err != nil || v.At(1, 0, 0) != '2'):
			t.Errorf("%v, %v", err, v)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			!errors.As(err, &format) && !errors.As(err, &unsupported)):
			t.Errorf("%q: %v", c.new, err)
		}
	}
	// Whatever is cut off or changed, the error is of one of the two kinds.
	for _, text := range []string{nrrd, meta} {
		for n := range text {
			for _, changed := range []string{text[:n], text[:n] + string(rune(text[n]^0x15)) + text[n+1:]} {
				if err := os.WriteFile(path, []byte(changed), 0o666); err != nil {
					t.Fatal(err)
				}
				_, err := Read(path, 0)
				var format *volume.FormatError
				var unsupported *volume.UnsupportedError
				if err != nil && !errors.As(err, &format) && !errors.As(err, &unsupported) {
					t.Fatalf("%q: %v", changed, err)
				}
			}
		}
	}
}

// Whatever bit of compressed voxels is changed, and wherever they are cut, the voxels are right or
// the file is refused. What follows them does not matter, but for a header that says less than
// there is.
func TestCompressedVoxelsAreChecked(t *testing.T) {
	voxels := make([]byte, 64)
	for n := range voxels {
		voxels[n] = byte(n * n >> 3)
	}
	var gz, z bytes.Buffer
	for _, to := range []io.WriteCloser{gzip.NewWriter(&gz), zlib.NewWriter(&z)} {
		if _, err := to.Write(voxels); err != nil || to.Close() != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "a.nrrd")
	read := func(header string, voxels []byte) (*volume.Volume, error) {
		if err := os.WriteFile(path, append([]byte(header), voxels...), 0o666); err != nil {
			t.Fatal(err)
		}
		return Read(path, 0)
	}
	right := func(v *volume.Volume) bool {
		for n, x := range voxels {
			if v.At(n%4, n/4%4, n/16) != float32(x) {
				return false
			}
		}
		return true
	}
	const nrrd = "NRRD0004\ntype: uint8\ndimension: 3\nspace: left-posterior-superior\nsizes: 4 4 4\n" +
		"space directions: (1,0,0) (0,1,0) (0,0,1)\nencoding: gzip\nspace origin: (0,0,0)\n\n"
	const meta = "ObjectType = Image\nNDims = 3\nCompressedData = True\nElementSpacing = 1 1 1\nOffset = 0 0 0\n" +
		"TransformMatrix = 1 0 0 0 1 0 0 0 1\nDimSize = 4 4 4\nElementType = MET_UCHAR\nElementDataFile = LOCAL\n"
	for header, packed := range map[string][]byte{nrrd: gz.Bytes(), meta: z.Bytes()} {
		for _, behind := range []string{"", "other data"} {
			if v, err := read(header, append(slices.Clone(packed), behind...)); err != nil || !right(v) {
				t.Fatalf("%q behind: %v", behind, err)
			}
		}
		for n := range packed {
			if _, err := read(header, packed[:n]); err == nil {
				t.Errorf("%.4s: cut at %d of %d: read", header, n, len(packed))
			}
			for bit := range 8 {
				changed := slices.Clone(packed)
				changed[n] ^= 1 << bit
				if v, err := read(header, changed); err == nil && !right(v) {
					t.Errorf("%.4s: bit %d of byte %d changed: wrong voxels are read", header, bit, n)
				}
			}
		}
	}
	h, err := ReadHeader(writeRaw(t, path, strings.Replace(nrrd, "gzip", "raw", 1), voxels, 15))
	if err != nil || len(h.Problems) > 0 {
		t.Errorf("bytes behind the voxels: %v, %+v", err, h)
	}
	h, err = ReadHeader(writeRaw(t, path, strings.Replace(nrrd, "gzip", "raw", 1), voxels, 16))
	if err != nil || len(h.Problems) != 1 || !strings.Contains(h.Problems[0], "16 bytes more than the 4x4x4 voxels") {
		t.Errorf("a slice behind the voxels: %v, %+v", err, h)
	}
}

// writeRaw writes a header, voxels and so many bytes more.
func writeRaw(t *testing.T, path, header string, voxels []byte, more int) string {
	t.Helper()
	if err := os.WriteFile(path, append([]byte(header), append(slices.Clone(voxels), make([]byte, more)...)...),
		0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// Both halves of a number swap with the order of bytes; a header may be of another system.
func TestBigEndian(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.nrrd")
	text := "NRRD0001\r\ntype: short\r\ndimension: 3\r\nsizes: 1 1 2\r\nspacings: 1 2 3\r\nendian: " +
		"big\r\nencoding: raw\r\n\r\n\x01\x02\xff\xfe"
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	v, err := Read(path, 0)
	if err != nil || !slices.Equal(v.Int16, []int16{0x0102, -2}) || v.Spacing() != [3]float64{1, 2, 3} {
		t.Errorf("%v, %v", err, v)
	}
	if h, err := ReadHeader(path); err != nil || len(h.Problems) != 1 ||
		!strings.Contains(h.Problems[0], "where its axes go") {
		t.Errorf("%v, %v", err, h)
	}
}
