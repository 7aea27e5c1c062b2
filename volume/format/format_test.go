package format_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/format"
	"github.com/voxsaw/voxsaw/volume/format/formattest"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// shape is that of the volumes here.
var shape = [3]int{6, 5, 4}

// values of a scan, or of a label map.
func values(labels bool) []int16 {
	all := make([]int16, shape[0]*shape[1]*shape[2])
	for n := range all {
		if all[n] = int16(n*37%2000 - 1000); labels {
			all[n] = int16(n / 30 % 3)
		}
	}
	return all
}

func raw(volumes ...[]int16) []byte {
	var b bytes.Buffer
	for _, one := range volumes {
		_ = binary.Write(&b, binary.LittleEndian, one)
	}
	return b.Bytes()
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFormatsConform(t *testing.T) {
	scan, labels := values(false), values(true)
	grid := volume.Grid{Shape: shape, Affine: volume.Affine{{2, 0, 0, -5}, {0, 1.5, 0, 7}, {0, 0, 3, 11}, {0, 0, 0, 1}}}
	path := func(name string) string { return filepath.Join(t.TempDir(), name) }
	for _, name := range []string{"a.nii", "a.nii.gz"} {
		files := formattest.Files{Scan: path(name), Labels: path(name), Several: path(name)}
		map16 := make([]uint16, len(labels))
		float := make([]float32, 2*len(scan))
		for n, x := range labels {
			map16[n], float[n], float[len(scan)+n] = uint16(x), float32(scan[n]), float32(x)+0.5
		}
		err := nifti.Write(files.Scan, &volume.Volume{Grid: grid, Int16: scan})
		if err == nil {
			err = nifti.WriteLabels(files.Labels, &volume.LabelMap{Grid: grid, Labels: map16})
		}
		if err == nil {
			err = nifti.WriteChannels(files.Several, grid, float, nil, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { formattest.Conform(t, "NIfTI", files) })
	}
	nrrd := func(volumes ...[]int16) []byte {
		head := "NRRD0004\ntype: int16\ndimension: 3\nspace: right-anterior-superior\nsizes: 6 5 4\nspace " +
			"directions: (2,0,0) (0,1.5,0) (0,0,3)\nspace origin: (-5,7,11)\n"
		if len(volumes) > 1 {
			head = fmt.Sprintf("NRRD0004\ntype: int16\ndimension: 4\nspace: "+
				"right-anterior-superior\nsizes: 6 5 4 %d\nspace directions: (2,0,0) (0,1.5,0) (0,0,3) "+
				"none\nkinds: domain domain domain list\nspace origin: (-5,7,11)\n", len(volumes))
		}
		return slices.Concat([]byte(head+"endian: little\nencoding: raw\n\n"), raw(volumes...))
	}
	t.Run("a.nrrd", func(t *testing.T) {
		formattest.Conform(t, "NRRD", formattest.Files{Scan: write(t, "a.nrrd", nrrd(scan)),
			Labels: write(t, "a.nrrd", nrrd(labels)), Several: write(t, "a.nrrd", nrrd(scan, labels))})
	})
	meta := func(voxels []int16) []byte {
		return slices.Concat([]byte("ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = "+
			"False\nCompressedData = False\nTransformMatrix = 1 0 0 0 1 0 0 0 1\nOffset = 5 -7 11\nElementSpacing = "+
			"2 1.5 3\nDimSize = 6 5 4\nElementType = MET_SHORT\nElementDataFile = LOCAL\n"), raw(voxels))
	}
	t.Run("a.mha", func(t *testing.T) {
		formattest.Conform(t, "MetaImage", formattest.Files{Scan: write(t, "a.mha", meta(scan)),
			Labels: write(t, "a.mha", meta(labels))})
	})
}

// Another module adds a format: its files are read like all others.
func TestAFormatIsAdded(t *testing.T) {
	nii := format.All()[0]
	format.Register(format.Format{
		Name:   "Twice",
		Stem:   func(path string) (string, bool) { return strings.CutSuffix(path, ".twice") },
		Header: nii.Header, Read: nii.Read, Labels: nii.Labels,
	})
	grid := volume.Grid{Shape: shape, Affine: volume.Affine{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}}
	path := filepath.Join(t.TempDir(), "a.nii")
	if err := nifti.Write(path, &volume.Volume{Grid: grid, Int16: values(false)}); err != nil {
		t.Fatal(err)
	}
	other := strings.TrimSuffix(path, ".nii") + ".twice"
	if err := os.Rename(path, other); err != nil {
		t.Fatal(err)
	}
	v, err := format.Read(other, format.Options{})
	if err != nil || format.Name(other) != "Twice" || !slices.Equal(v.Int16, values(false)) {
		t.Errorf("%v, %s", err, format.Name(other))
	}
	if all, err := format.ReadAll(other, format.Options{}); err != nil || len(all) != 1 ||
		!slices.Equal(all[0].Int16, v.Int16) {
		t.Errorf("all volumes: %d, %v", len(all), err)
	}
	if may, err := format.MayBeLabels(other, format.Options{}); may || err != nil {
		t.Errorf("may be labels: %v, %v", may, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("half a format is taken")
		}
	}()
	format.Register(format.Format{Name: "half"})
}
