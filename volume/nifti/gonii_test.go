package nifti

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/okieraised/gonii"
	"github.com/okieraised/gonii/pkg/matrix"
	library "github.com/okieraised/gonii/pkg/nifti"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/internal/expect"
)

// fromGonii is what gonii reads in a file. It panics on some: what is damaged, it trusts.
func fromGonii(path string) (data *library.Nii, err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("panic: %v", what)
		}
	}()
	header, image, err := pair(path)
	if err != nil {
		return nil, err
	}
	r, err := gonii.NewNiiReader(gonii.WithReadImageFile(image))
	if err == nil && header != image {
		r, err = gonii.NewNiiReader(gonii.WithReadHeaderFile(header), gonii.WithReadImageFile(image))
	}
	if err == nil {
		err = r.Parse()
	}
	if err != nil {
		return nil, err
	}
	return r.GetNiiData(), nil
}

// unlike says how a volume that was read here differs from gonii's first one; "" where it does
// not.
func unlike(v *volume.Volume, g *library.Nii) string {
	var found []string
	if s := g.GetImgShape(); s[0] != int64(v.Shape[0]) || s[1] != int64(v.Shape[1]) || s[2] != int64(v.Shape[2]) {
		return fmt.Sprintf("shape %v", s)
	}
	matrix := g.GetAffine().M
	furthest := 0.0
	for i := range 4 {
		for j := range 4 {
			furthest = max(furthest, math.Abs(matrix[i][j]-v.Affine[i][j]))
		}
	}
	if furthest > 1e-3 || furthest != furthest {
		found = append(found, "affine")
	} else if axes := g.GetOrientation(); axesOf(axes) != v.Axcodes() {
		found = append(found, "axes "+axesOf(axes)+" for "+v.Axcodes())
	}
	different := 0
	for k := range v.Shape[2] {
		for j := range v.Shape[1] {
			for i := range v.Shape[0] {
				x, y := float64(v.At(i, j, k)), float32(g.GetAt(int64(i), int64(j), int64(k), 0))
				if close := math.Abs(x-float64(y)) <= 1e-5*math.Abs(x); !close && x != float64(y) &&
					!(x != x && y != y) {
					different++
				}
			}
		}
	}
	if different > 0 {
		found = append(found, "voxels")
	}
	return strings.Join(found, ", ")
}

// axesOf is the first letters of gonii's words for where axes grow to.
func axesOf(words [3]string) (codes string) {
	for _, word := range words {
		_, to, _ := strings.Cut(word, "(")
		codes += (to + "?")[:1]
	}
	return codes
}

// Every NIfTI file of the data folder that is read here is read by gonii, too, and alike: axes,
// where they lie, and every voxel of the first volume.
func TestFilesAgreeWithGonii(t *testing.T) {
	files := 0
	err := filepath.WalkDir(expect.Data(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !IsName(path) {
			return err
		}
		if files++; testing.Short() && files%20 != 0 {
			return nil
		}
		v, err := ReadWith(path, Options{Volume: 1})
		if err != nil {
			return nil // TestFilesAgreeWithNibabel lists these errors
		}
		g, err := fromGonii(path)
		if err != nil {
			t.Errorf("%s: gonii does not read it: %v", path, err)
		} else if difference := unlike(v, g); difference != "" {
			t.Errorf("%s: gonii has other %s", path, difference)
		}
		return nil
	})
	if err != nil || files < 50 {
		t.Fatal(err, files)
	}
}

// What gonii reads otherwise, and whose fault it is. Each is by the standard's text, and nibabel
// reads these files as they are read here.
func TestWhereGoniiDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		order  binary.ByteOrder
		change func(*library.Nii1Header)
		want   string // the difference; "" for none
	}{
		"none": {},
		// gonii's fault: its reader has one case for a byte, uint8
		"int8": {change: func(h *library.Nii1Header) { h.Datatype, h.Bitpix = int16(library.DT_INT8), 8 },
			want: "voxels"},
		// gonii's fault: GetAffine is the sform's rows, whatever the codes say
		"qform alone": {change: func(h *library.Nii1Header) { h.SformCode, h.QformCode, h.SrowX = 0, 1, [4]float32{} },
			want: "affine"},
		"no form": {change: func(h *library.Nii1Header) { h.SformCode = 0 }, want: "affine"},
		// gonii's fault: a slope that is no number is a scale of 1
		"slope":             {change: func(h *library.Nii1Header) { h.SclSlope = float32(math.NaN()) }, want: "voxels"},
		"scaled":            {change: func(h *library.Nii1Header) { h.SclSlope, h.SclInter = 2.5, -7 }},
		"uint16":            {change: func(h *library.Nii1Header) { h.Datatype = int16(library.DT_UINT16) }},
		"other bytes first": {order: binary.BigEndian},
		"sheared":           {change: func(h *library.Nii1Header) { h.SrowY = [4]float32{1, 1.5, 0.4, 7} }},
	} {
		t.Run(name, func(t *testing.T) {
			h := library.Nii1Header{
				SizeofHdr: library.NII1HeaderSize, Magic: library.NIFTI_1_MAGIC_SINGLE,
				Datatype: int16(library.DT_INT16), Bitpix: 16,
				Dim: [8]int16{3, 6, 5, 4, 1, 1, 1, 1}, Pixdim: [8]float32{1, 2, 1.5, 3}, VoxOffset: 352, SclSlope: 1,
				SformCode: 1,
				SrowX:     [4]float32{2, 0, 0, -5}, SrowY: [4]float32{0, 1.5, 0, 7}, SrowZ: [4]float32{0, 0, 3, 11},
			}
			if c.change != nil {
				c.change(&h)
			}
			if c.order == nil {
				c.order = binary.LittleEndian
			}
			var file bytes.Buffer
			voxels := make([]int16, 6*5*4)
			for n := range voxels {
				voxels[n] = int16(n*531%1000 - 200)
			}
			for _, part := range []any{h, [4]byte{}, voxels} {
				if err := binary.Write(&file, c.order, part); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(t.TempDir(), "a.nii")
			if err := os.WriteFile(path, file.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
			v, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			g, err := fromGonii(path)
			if err != nil {
				t.Fatalf("gonii: %v", err)
			}
			if got := unlike(v, g); got != c.want {
				t.Errorf("gonii has other %q, want %q", got, c.want)
			}
		})
	}
}

// The product has axis logic of its own ([volume.Affine.Axcodes]). It agrees with gonii's where
// axes follow those of the patient, in all 48 orders, and where they are turned a little. It agrees
// with nibabel's everywhere; gonii's does not where axes are turned far and sheared: it takes the
// first axis as it is and bends the others to it, and where it scales the third it leaves out a
// root.
func TestAxesOfGonii(t *testing.T) {
	codesOf := func(a volume.Affine) string {
		var g library.Nii
		g.MatrixToOrientation(matrix.DMat44{M: a})
		return axesOf(g.GetOrientation())
	}
	grid := volume.Grid{Shape: [3]int{6, 5, 4}, Affine: volume.Affine{{2, 0.1, -0.3, -5}, {-0.1, 1.5, 0.2, 7},
		{0.2, -0.1, 3, 11}, {0, 0, 0, 1}}}
	orders := map[string]bool{}
	for _, first := range "LRPAIS" {
		for _, second := range "LRPAIS" {
			for _, third := range "LRPAIS" {
				codes := string([]rune{first, second, third})
				o, err := grid.Oriented(codes)
				if err != nil {
					continue // an axis twice
				}
				orders[codes] = true
				if ours, theirs := o.Affine.Axcodes(), codesOf(o.Affine); ours != codes || theirs != codes {
					t.Errorf("%s is %s here, %s by gonii", codes, ours, theirs)
				}
			}
		}
	}
	if len(orders) != 48 {
		t.Errorf("%d orders, want 48", len(orders))
	}
	// nibabel.aff2axcodes of these
	for nibabel, c := range map[string]struct {
		affine volume.Affine
		gonii  string
	}{
		"ARS": {volume.Affine{{-4, 8, 1, 0}, {4, 5, 2, 0}, {0, -2, 6, 0}, {0, 0, 0, 1}}, "LAS"},
		"IAL": {volume.Affine{{-4, -8, -7, 0}, {0, 7, -8, 0}, {-4, 4, 7, 0}, {0, 0, 0, 1}}, "LSP"},
		"LPS": {volume.Affine{{-5, 6, 6, 0}, {-4, -7, 3, 0}, {6, -2, 8, 0}, {0, 0, 0, 1}}, "SPR"},
	} {
		if ours, theirs := c.affine.Axcodes(), codesOf(c.affine); ours != nibabel || theirs != c.gonii {
			t.Errorf("%v is %s here, %s by gonii, want %s and %s", c.affine, ours, theirs, nibabel, c.gonii)
		}
	}
}

// What is written here, gonii reads; what gonii writes, is read here.
func TestFilesGoThroughGonii(t *testing.T) {
	grid := volume.Grid{Shape: [3]int{6, 5, 4}, Affine: volume.Affine{{0, 2, 0, -5}, {-1.5, 0, 0, 7}, {0, 0, 3, 11},
		{0, 0, 0, 1}}}
	whole, parts := &volume.Volume{Grid: grid, Int16: make([]int16, grid.Len())}, &volume.Volume{Grid: grid,
		Float32: make([]float32, grid.Len())}
	for n := range whole.Int16 {
		whole.Int16[n], parts.Float32[n] = int16(n*531%1000-200), float32(n)/7-3
	}
	for name, v := range map[string]*volume.Volume{"a.nii": whole, "b.nii.gz": parts} {
		path := filepath.Join(t.TempDir(), name)
		if err := Write(path, v); err != nil {
			t.Fatal(err)
		}
		g, err := fromGonii(path)
		if err != nil {
			t.Fatal(err)
		}
		if difference := unlike(v, g); difference != "" {
			t.Errorf("%s: gonii has other %s", name, difference)
		}
		path = filepath.Join(t.TempDir(), name)
		w, err := gonii.NewNiiWriter(path, gonii.WithWriteNIfTIData(g),
			gonii.WithWriteCompression(strings.HasSuffix(name, ".gz")))
		if err == nil {
			err = w.WriteToFile()
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if difference := unlike(again, g); difference != "" || again.Affine != v.Affine {
			t.Errorf("%s, written by gonii: other %s, %v", name, difference, again.Affine)
		}
	}
}
