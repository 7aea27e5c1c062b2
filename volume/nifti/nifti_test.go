package nifti

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/voxsaw/voxsaw/volume"
)

// goldenCase is one of testdata/nifti_cases.json: a file, and what nibabel reads from it.
type goldenCase struct {
	Name, Axcodes, File, Image string
	Volume                     int
	Shape                      [3]int
	Affine                     volume.Affine
	Values                     []value
}

// value is a number, or one of the strings nan, inf and -inf.
type value float64

func (v *value) UnmarshalJSON(text []byte) error {
	x, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	*v = value(x)
	return err
}

func goldenCases(t testing.TB) []goldenCase {
	t.Helper()
	text, err := os.ReadFile("../../testdata/nifti_cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func decode64(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write1(t testing.TB, path string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// file writes a case to a folder and returns its path.
func (c goldenCase) file(t testing.TB) string {
	dir := t.TempDir()
	if c.Image == "" {
		return write1(t, filepath.Join(dir, "case.nii"), decode64(t, c.File))
	}
	write1(t, filepath.Join(dir, "case.img"), decode64(t, c.Image))
	return write1(t, filepath.Join(dir, "case.hdr"), decode64(t, c.File))
}

func TestCasesAgreeWithNibabel(t *testing.T) {
	for _, c := range goldenCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			path := c.file(t)
			v, err := ReadWith(path, Options{Volume: c.Volume})
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Check(); err != nil {
				t.Fatal(err)
			}
			if v.Shape != c.Shape {
				t.Fatalf("shape %v, want %v", v.Shape, c.Shape)
			}
			if v.Axcodes() != c.Axcodes {
				t.Errorf("axcodes %s, want %s", v.Axcodes(), c.Axcodes)
			}
			for r := range 4 {
				for s := range 4 {
					if math.Abs(v.Affine[r][s]-c.Affine[r][s]) > 2e-5 { // float32 in the header
						t.Fatalf("affine %v, want %v", v.Affine, c.Affine)
					}
				}
			}
			whole := true
			for n, want := range c.Values {
				i, j, k := n%v.Shape[0], n/v.Shape[0]%v.Shape[1], n/v.Shape[0]/v.Shape[1]
				got := v.At(i, j, k)
				if want != want {
					if got == got {
						t.Fatalf("value %d is %g, want NaN", n, got)
					}
					continue
				}
				if got != float32(want) {
					t.Fatalf("value %d is %g, want %g", n, got, want)
				}
				whole = whole && float64(want) == math.Trunc(float64(want)) && want >= math.MinInt16 &&
					want <= math.MaxInt16
			}
			float := strings.Contains(c.Name, "f4") || strings.Contains(c.Name, "f8") ||
				strings.Contains(c.Name, "float") || c.Name == "NaN" || c.Name == "pair gzip"
			if want := whole && !float; (v.Int16 != nil) != want {
				t.Errorf("voxels in int16: %v, want %v", v.Int16 != nil, want)
			}
		})
	}
}

// All volumes at once are those that are read one by one.
func TestReadAll(t *testing.T) {
	several := 0
	for _, c := range goldenCases(t) {
		path := c.file(t)
		all, err := ReadAll(path, Options{})
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		several += len(all) / 3
		for n, got := range all {
			want, err := ReadWith(path, Options{Volume: n + 1})
			if err != nil {
				t.Fatal(err)
			}
			for at := range want.Len() {
				i, j, k := at%want.Shape[0], at/want.Shape[0]%want.Shape[1], at/want.Shape[0]/want.Shape[1]
				if x, y := got.At(i, j, k), want.At(i, j, k); got.Grid != want.Grid || x != y && (x == x || y == y) {
					t.Fatalf("%s: voxel %d of volume %d is %g, want %g", c.Name, at, n+1, x, y)
				}
			}
		}
	}
	if several != 4 {
		t.Errorf("%d files of three volumes", several)
	}
}

func TestProblemsAreNamed(t *testing.T) {
	want := map[string]string{
		"sheared":      "the axes are sheared: two of them are 68.30 degrees apart",
		"no code":      "neither sform nor qform has a code",
		"bitpix wrong": "bitpix is 8, int16 has 16: ignored",
		"units metre":  "the unit of length is metre: taken for mm",

		"qform and sform differ":                              "mm apart: the sform is taken",
		"mended: sizeof_hdr 0":                                "sizeof_hdr is 0, not 348: ignored",
		"mended: sizeof_hdr of the other byte order":          "sizeof_hdr is 1543569408, not 348: ignored",
		"mended: sizeof_hdr of the other byte order, swapped": "sizeof_hdr is 1543569408, not 348: ignored",
		"mended: magic of a pair":                             `the magic string "ni1" is that of a pair, but the voxels are here`,
		"mended: magic without line ends": "the magic string " +
			"has zeros where line ends belong: ignored",
		"mended: vox_offset 352.5":             "vox_offset is 352.5: the fraction is ignored",
		"mended: voxel size negative, qform":   "the voxel size along j is -0.8 mm: taken for positive",
		"mended: voxel size negative, no code": "the voxel size along i is -0.7 mm: taken for positive",
		"mended: voxel size 0, qform":          "the voxel size along k is 0: taken for 1 mm",
		"mended: voxel size 0, no code":        "the voxel size along k is 0: taken for 1 mm",
		"mended: sform code 200": "the sform has the code 200, " +
			"which NIfTI does not know: taken for none",
		"slope infinite": "scl_slope is +Inf: values are not scaled",
		"mended: qform code -1": "the qform has the code -1, " +
			"which NIfTI does not know: taken for none",
		"bytes behind the voxels": "holds 25 slices more than its header says",
	}
	for _, c := range goldenCases(t) {
		path := c.file(t)
		h, err := ReadHeader(path)
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(h.Problems, "; ")
		var notes []string
		if _, err := ReadWith(path, Options{Volume: c.Volume,
			Note: func(note string) { notes = append(notes, note) }}); err != nil {
			t.Fatal(err)
		}
		if told := strings.Join(notes, "; "); !strings.HasPrefix(told, all) || len(notes) != len(h.Problems) {
			t.Errorf("%s: notes %q, want %q", c.Name, told, all)
		}
		if problem, ok := want[c.Name]; ok {
			if !strings.Contains(all, problem) {
				t.Errorf("%s: problems %q, want %q", c.Name, all, problem)
			}
		} else if all != "" && !strings.HasPrefix(c.Name, "no code") && !strings.HasPrefix(c.Name, "qf") &&
			c.Name != "sform alone" && !strings.HasSuffix(c.Name, "full range") {
			t.Errorf("%s: problems %q", c.Name, all)
		}
	}
}

// What nibabel does not read, or reads wrongly, and the NIfTI library of FSL and ITK reads like
// this.
func TestMended(t *testing.T) {
	ok := good(t)
	for _, c := range []struct {
		name  string
		data  []byte
		shape [3]int
		want  string
	}{
		{"the third extent 0", with(ok, 46, int16(0)), [3]int{5, 4, 1}, "the extent in dimension 3 is 0: taken for 1"},
		{"four dimensions, the last 0", with(with(ok, 40, int16(4)), 48, int16(0)), [3]int{5, 4, 3},
			"the extent in dimension 4 is 0: taken for 1"},
		{"vox_offset 0", with(ok, 108, float32(0)), [3]int{5, 4, 3},
			"vox_offset is 0: the voxels are taken from behind the header"},
		{"singular sform", with(with(ok, 252, [2]int16{1, 1}), 280, [12]float32{}), [3]int{5, 4, 3},
			"the sform counts for nothing, the qform is taken: affine is singular"},
		{"sform NaN", with(with(ok, 252, [2]int16{1, 1}), 280, float32(math.NaN())), [3]int{5, 4, 3},
			"the sform counts for nothing, the qform is taken: affine holds values that are not finite"},
	} {
		path := write1(t, filepath.Join(t.TempDir(), "scan.nii"), c.data)
		h, err := ReadHeader(path)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		v, err := Read(path)
		if err != nil || v.Shape != c.shape || v.Int16[1] != int16(binary.LittleEndian.Uint16(ok[354:])) {
			t.Errorf("%s: %v, %v", c.name, v, err)
		}
		if all := strings.Join(h.Problems, "; "); !strings.Contains(all, c.want) {
			t.Errorf("%s: problems %q, want %q", c.name, all, c.want)
		}
	}
}

// good returns the bytes of a file without faults, and its header's offsets are those of NIfTI-1.
func good(t testing.TB) []byte { return goldenFile(t, "nifti1 i2") }

func goldenFile(t testing.TB, name string) []byte {
	for _, c := range goldenCases(t) {
		if c.Name == name {
			return decode64(t, c.File)
		}
	}
	t.Fatal("no such case")
	return nil
}

func zip(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// with returns a copy of data with a number put at an offset.
func with(data []byte, offset int, number any) []byte {
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, number)
	out := bytes.Clone(data)
	copy(out[offset:], b.Bytes())
	return out
}

func TestBadFilesAreRefused(t *testing.T) {
	ok := good(t)
	float32bits := func(f float64) uint32 { return math.Float32bits(float32(f)) }
	zipped := zip(t, ok)
	damaged := bytes.Clone(zipped)
	damaged[len(damaged)-6] ^= 1 // checksum
	for _, c := range []struct {
		name        string
		data        []byte
		want        string
		unsupported bool
	}{
		{"empty", nil, "is empty", false},
		{"bzip2", []byte("BZh91AY&SY and more"), "is compressed with bzip2", true},
		{"Zstandard", []byte("\x28\xb5\x2f\xfd and more"), "is compressed with Zstandard", true},
		{"gzip, twice", zip(t, zip(t, ok)), "is compressed twice", false},
		{"gzip with other data behind", append(zip(t, ok), "junk"...), "is damaged: gzip: other data follow", false},
		{"three bytes", ok[:3], "is too short for a NIfTI file: 3 bytes", false},
		{"text", []byte(strings.Repeat("not a scan ", 100)), "is not a NIfTI file", false},
		{"DICOM", []byte(strings.Repeat("\x00", 128) + "DICM" + strings.Repeat("\x00", 400)),
			"is a DICOM file with the name of a NIfTI file: rename it", false},
		{"half a header", ok[:200], "is truncated: its header has 200 bytes", false},
		{"header alone", ok[:352], "is truncated or its header is wrong", false},
		{"a byte missing", ok[:len(ok)-1], "is truncated or its header is wrong", false},
		{"gzip cut", zipped[:len(zipped)/2], "is truncated", false},
		{"gzip of cut file", zip(t, ok[:len(ok)-1]), "is truncated: 119 of 120 bytes of voxels", false},
		{"gzip with a wrong checksum", damaged, "is damaged: gzip: invalid checksum", false},
		{"gzip of nothing", zip(t, nil), "is empty", false},
		{"gzip magic alone", []byte{0x1f, 0x8b}, "is truncated", false},
		{"absurd extents", with(ok, 42, [3]int16{32767, 32767, 32767}), "more than 8589934592 voxels", false},
		{"large extents", with(ok, 42, [3]int16{2000, 2000, 2000}),
			"need 16000000352 bytes, the file can hold 472 at most", false},
		{"absurd extents, gzip", zip(t, with(ok, 42, [3]int16{32767, 32767, 32767})), "more than 8589934592 voxels",
			false},
		{"extents whose product is 2^64 bytes",
			with(goldenFile(t, "nifti2 i2"), 16, [5]int64{4, 1024, 1024, 2048, 1 << 32}),
			"need 18446744073709551616 bytes, the file can hold", false},
		{"large extents, gzip", zip(t, with(ok, 42, [3]int16{2000, 2000, 2000})), "is truncated or its header is wrong",
			false},
		{"negative extent", with(ok, 42, int16(-5)), "has an extent of -5 in dimension 1", false},
		{"zero extent", with(ok, 44, int16(0)), "has an extent of 0 in dimension 2", false},
		{"no dimensions", with(ok, 40, int16(0)), "has 0 dimensions", false},
		{"nine dimensions", with(ok, 40, int16(9)), "has 9 dimensions", false},
		{"unknown type", with(ok, 70, int16(77)), "has the data type 77", false},
		{"RGB", with(ok, 70, int16(128)), "holds colours (RGB)", true},
		{"RGBA", with(ok, 70, int16(2304)), "holds colours (RGBA)", true},
		{"complex", with(ok, 70, int16(32)), "holds complex numbers", true},
		{"bits", with(ok, 70, int16(1)), "holds single bits", true},
		{"float128", with(ok, 70, int16(1536)), "holds 128-bit floats", true},
		{"vox_offset in the header", with(ok, 108, float32bits(100)), "has its voxels at byte 100", false},
		{"vox_offset negative", with(ok, 108, float32bits(-352)), "has its voxels at byte -352", false},
		{"vox_offset NaN", with(ok, 108, float32bits(math.NaN())), "has its voxels at byte NaN", false},
		{"vox_offset behind the end", with(ok, 108, float32bits(1e6)), "is truncated or its header is wrong", false},
		{"intercept infinite", with(with(ok, 112, float32bits(1)), 116, float32bits(math.Inf(1))),
			"has the intercept +Inf", false},
		{"sform NaN", with(ok, 280, float32bits(math.NaN())), "sform: affine holds values that are not finite", false},
		{"sform singular", with(ok, 280, [4]float32{}), "sform: affine is singular", false},
		{"quaternion too long", with(with(ok, 252, [2]int16{1, 0}), 256, [3]float32{1, 1, 1}),
			"qform: quaternion 1, 1, 1 is longer than 1", false},
		{"magic", with(ok, 344, [4]byte{'x', 'y', 'z', 0}), `has the magic string "xyz"`, false},
		{"magic of a pair, vox_offset 0", with(with(ok, 344, [4]byte{'n', 'i', '1', 0}), 108, float32(0)),
			"is the header of a pair", false},
		{"Analyze", with(ok, 344, [4]byte{}), "is in the Analyze 7.5 format", true},
		{"several volumes", with(ok, 40, [5]int16{4, 5, 4, 1, 3}), "holds 3 volumes (shape 5x4x1x3)", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write1(t, filepath.Join(t.TempDir(), "scan.nii"), c.data)
			for what, read := range map[string]func() error{
				"volume": func() error { _, err := Read(path); return err },
				"labels": func() error { _, err := ReadLabels(path); return err },
			} {
				err := read()
				var format *volume.FormatError
				var unsupported *volume.UnsupportedError
				if c.unsupported && !errors.As(err, &unsupported) || !c.unsupported && !errors.As(err, &format) {
					t.Fatalf("%s: %T %v", what, err, err)
				}
				if !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: got %v, want %s", what, err, c.want)
				}
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "nothing.nii")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	several := write1(t, filepath.Join(t.TempDir(), "several.nii"), with(ok, 40, [5]int16{4, 5, 4, 1, 3}))
	if _, err := Read(several); err == nil || !strings.HasSuffix(err.Error(), ": choose one with --volume") {
		t.Errorf("several volumes: %v", err)
	}
	if _, err := ReadLabels(several); err == nil ||
		!strings.HasSuffix(err.Error(), "are to be put together, numbered 1, 2, ...") {
		t.Errorf("labels of several volumes: %v", err)
	}
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("a folder was read")
	}
	path := write1(t, filepath.Join(t.TempDir(), "scan.nii"), ok)
	if _, err := ReadWith(path, Options{Volume: 2}); err == nil ||
		!strings.Contains(err.Error(), "has no volume 2: it holds 1") {
		t.Errorf("volume 2 of 1: %v", err)
	}
	if _, err := ReadWith(path, Options{MaxBytes: 100}); err == nil ||
		!strings.Contains(err.Error(), "the limit is 100") {
		t.Errorf("limit: %v", err)
	}
}

func grid(shape [3]int) volume.Grid {
	a := volume.Affine{{-0.8, 0.1, 0.3, 40}, {0.05, 0.9, -0.2, -30}, {0.2, 0.15, 2.4, 7}, {0, 0, 0, 1}}
	return volume.Grid{Shape: shape, Affine: a}
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(3, 4))
	for _, shape := range [][3]int{{5, 4, 3}, {1, 1, 1}, {120, 110, 90}, {40000, 2, 1}} {
		for _, name := range []string{"scan.nii", "scan.nii.gz"} {
			path := filepath.Join(dir, name)
			v := &volume.Volume{Grid: grid(shape)}
			f := &volume.Volume{Grid: v.Grid}
			l := &volume.LabelMap{Grid: v.Grid}
			for range v.Len() {
				x := int16(r.IntN(1 << 16))
				v.Int16 = append(v.Int16, x)
				f.Float32 = append(f.Float32, float32(x)/7)
				l.Labels = append(l.Labels, uint16(x)%7)
			}
			near := func(got volume.Grid) {
				t.Helper()
				if !got.Same(v.Grid, 1e-4*float64(shape[0])) || got.Axcodes() != v.Axcodes() {
					t.Fatalf("%s %v: grid %v, want %v", name, shape, got, v.Grid)
				}
			}
			for _, w := range []*volume.Volume{v, f} {
				if err := Write(path, w); err != nil {
					t.Fatal(err)
				}
				back, err := Read(path)
				if err != nil {
					t.Fatal(err)
				}
				near(back.Grid)
				if !slices.Equal(back.Int16, w.Int16) || !slices.Equal(back.Float32, w.Float32) {
					t.Fatalf("%s %v: other voxels", name, shape)
				}
			}
			for _, most := range []uint16{7, 300} {
				l.Labels[0] = most
				if err := WriteLabels(path, l); err != nil {
					t.Fatal(err)
				}
				back, err := ReadLabels(path)
				if err != nil {
					t.Fatal(err)
				}
				near(back.Grid)
				if !slices.Equal(back.Labels, l.Labels) {
					t.Fatalf("%s %v: other labels", name, shape)
				}
				h, err := ReadHeader(path)
				if err != nil {
					t.Fatal(err)
				}
				if want := map[uint16]string{7: "uint8", 300: "uint16"}[most]; h.Datatype != want {
					t.Errorf("labels up to %d are stored as %s, want %s", most, h.Datatype, want)
				}
			}
		}
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The qform that is written says the same as the sform, whatever the orientation.
func TestFormsAgree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scan.nii")
	r := rand.New(rand.NewPCG(5, 6))
	for n := range 96 {
		g := volume.Grid{Shape: [3]int{2, 3, 4}, Affine: rigid(r, n%2 == 0, n < 48)}
		if err := WriteLabels(path, &volume.LabelMap{Grid: g, Labels: make([]uint16, 24)}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		q, err := parse(with(data[:352], 254, int16(0)), path, path) // no sform
		if err != nil {
			t.Fatal(err)
		}
		// float32 leaves a rotation by half a turn 4e-4 of its angle
		if q.AffineFrom != "qform" || !q.Same(g, 1e-2) {
			t.Fatalf("qform %v, want %v", q.Affine, g.Affine)
		}
	}
}

// Rounding of a quaternion near half a turn is no difference between sform and qform; a turn of
// half a degree is one.
func TestFormsNearHalfATurn(t *testing.T) {
	header := good(t)[:352]
	size := [3]int16{512, 512, 300} // so large that a hundredth of a degree is 0.1 mm
	problems := func(angle float64, exact volume.Affine, bcd [3]float32) []string {
		turned := exact
		for r := range 2 {
			turned[0][r] = exact[0][r]*math.Cos(angle) - exact[1][r]*math.Sin(angle)
			turned[1][r] = exact[0][r]*math.Sin(angle) + exact[1][r]*math.Cos(angle)
		}
		raw := with(header, 42, size)
		raw = with(with(raw, 76, [4]float32{1, 0.7, 0.8, 2.5}), 252, [2]int16{1, 1})
		raw = with(raw, 256, [6]float32{bcd[0], bcd[1], bcd[2], 0, 0, 0})
		for r := range 3 {
			raw = with(raw, 280+16*r, [4]float32{float32(turned[r][0]), float32(turned[r][1]), float32(turned[r][2]),
				0})
		}
		h, err := parse(raw, "file", "file")
		if err != nil {
			t.Fatal(err)
		}
		return h.Problems
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		// a rotation by half a turn, or nearly so, about an axis in the plane of x and y
		axis, less := r.Float64()*2*math.Pi, []float64{0, 1e-4, 6e-4, 1e-3}[r.IntN(4)]
		a, b, c := math.Sin(less), math.Cos(less)*math.Cos(axis), math.Cos(less)*math.Sin(axis)
		exact := volume.Affine{
			{(1 - 2*c*c) * 0.7, 2 * b * c * 0.8, 2 * a * c * 2.5, 0},
			{2 * b * c * 0.7, (1 - 2*b*b) * 0.8, -2 * a * b * 2.5, 0},
			{-2 * a * c * 0.7, 2 * a * b * 0.8, (1 - 2*b*b - 2*c*c) * 2.5, 0}, {0, 0, 0, 1},
		}
		bcd := [3]float32{float32(b), float32(c), 0}
		if p := problems(0, exact, bcd); len(p) > 0 {
			t.Fatalf("%g from half a turn: %q", less, p)
		}
		if p := problems(0.01, exact, bcd); len(p) != 1 || !strings.Contains(p[0], "sform and qform lie up to") {
			t.Fatalf("turned by half a degree: %q", p)
		}
	}
}

// rigid returns a random affine without shear: a rotation, or one of the 48 orientations.
func rigid(r *rand.Rand, mirrored, straight bool) volume.Affine {
	a := volume.Scaling([3]float64{0.7, 1.1, 2.5})
	if mirrored {
		a[0][0] = -a[0][0]
	}
	for range 4 {
		i, j := r.IntN(3), r.IntN(2)
		j = (i + 1 + j) % 3
		angle := r.Float64() * 2 * math.Pi
		if straight {
			angle = math.Pi / 2 * float64(r.IntN(4))
		}
		turn := volume.Scaling([3]float64{1, 1, 1})
		s, c := math.Sincos(angle)
		turn[i][i], turn[j][j], turn[i][j], turn[j][i] = c, c, -s, s
		a = turn.Mul(a)
	}
	a[0][3], a[1][3], a[2][3] = 10, -20, 30
	return a
}

func TestWriteFailsCleanly(t *testing.T) {
	v := &volume.Volume{Grid: grid([3]int{2, 2, 2}), Int16: make([]int16, 8)}
	dir := t.TempDir()
	if err := Write(filepath.Join(dir, "scan.mha"), v); err == nil ||
		!strings.Contains(err.Error(), "must end in .nii or .nii.gz") {
		t.Errorf("got %v", err)
	}
	if err := Write(filepath.Join(dir, "missing", "scan.nii"), v); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	v.Int16 = v.Int16[:7]
	if err := Write(filepath.Join(dir, "scan.nii"), v); err == nil {
		t.Error("a volume with a voxel missing was written")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	// The old file survives where the new one cannot take its place.
	full := filepath.Join(dir, "full.nii")
	if err := os.MkdirAll(filepath.Join(full, "inside"), 0o755); err != nil {
		t.Fatal(err)
	}
	v.Int16 = make([]int16, 8)
	if err := Write(full, v); err == nil {
		t.Error("a folder was overwritten")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float32
		want   string
	}{
		{"whole floats", []float32{0, 1, 2, 3, 255, 256, 65535, 7}, ""},
		{"rounded floats", []float32{0, 0.9999, 2.0001, 3, 4, 5, 6, 7}, ""},
		{"fractions", []float32{0, 0.5, 1, 0.5, 0.25, 2, 2, 2},
			"is not a label map: it holds 0.5, 0.25; labels are whole numbers from 0 to 65535"},
		{"negative", []float32{0, -1, 1, 1, 1, 2, 2, 2}, "it holds -1;"},
		{"too large", []float32{0, 65536, 1, 1, 1, 2, 2, 2}, "it holds 65536;"},
		{"NaN", []float32{0, float32(math.NaN()), 1, float32(math.NaN()), 1, 2, 2, 2}, "it holds NaN;"},
		{"many", []float32{.1, .2, .3, .4, .5, .6, .7, .8}, "it holds 0.1, 0.2, 0.3, 0.4, 0.5, ...;"},
	} {
		path := filepath.Join(t.TempDir(), "label.nii.gz")
		if err := Write(path, &volume.Volume{Grid: grid([3]int{2, 2, 2}), Float32: c.values}); err != nil {
			t.Fatal(err)
		}
		l, err := ReadLabels(path)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %s", c.name, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for n, x := range c.values {
			if l.Labels[n] != uint16(math.Round(float64(x))) {
				t.Errorf("%s: label %d is %d, want %g", c.name, n, l.Labels[n], x)
			}
		}
	}
}

// Values tell labels from scans: whole ones from 0 on, few of them, or like their neighbours.
func TestMayBeLabels(t *testing.T) {
	for _, c := range []struct {
		name  string
		value func(n int) float32
		want  bool
	}{
		{"an organ", func(n int) float32 { return float32(n / 1000 % 2) }, true},
		{"points", func(n int) float32 { return float32(n % 5) }, true},
		{"117 organs", func(n int) float32 { return float32(n / 100 % 118) }, true},
		{"background", func(int) float32 { return 0 }, true},
		{"129 values", func(n int) float32 { return float32(n / 100 % 129) }, false},
		{"a narrow window", func(n int) float32 { return float32(n * 7919 % 81) }, false},
		{"air", func(n int) float32 { return float32(n/1000%2) - 1000 }, false},
		{"no background", func(n int) float32 { return float32(n/1000%2) + 1 }, false},
		{"shares", func(n int) float32 { return float32(n/1000%2) / 2 }, false},
		{"NaN", func(n int) float32 { return float32(math.NaN()) }, false},
	} {
		v := &volume.Volume{Grid: grid([3]int{40, 40, 20}), Float32: make([]float32, 32000)}
		for n := range v.Float32 {
			v.Float32[n] = c.value(n)
		}
		for _, name := range []string{"a.nii", "a.nii.gz"} {
			path := filepath.Join(t.TempDir(), name)
			if err := Write(path, v); err != nil {
				t.Fatal(err)
			}
			if got, err := MayBeLabels(path, Options{}); err != nil || got != c.want {
				t.Errorf("%s, %s: %v, %v", c.name, name, got, err)
			}
			if read, err := Read(path); err != nil || VolumeMayBeLabels(read) != c.want {
				t.Errorf("%s, %s, once it is read: not %v (%v)", c.name, name, c.want, err)
			}
		}
	}
	if _, err := MayBeLabels(filepath.Join(t.TempDir(), "none.nii"), Options{}); err == nil {
		t.Error("no file is no error")
	}
}

// Reading takes the voxels' memory, and little more: here mostly the four buffers of a megabyte
// each.
func TestReadMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scan.nii.gz")
	v := noisy([3]int{256, 256, 200})
	if err := Write(path, v); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	voxels := float64(2 * v.Len())
	if used := float64(after.TotalAlloc - before.TotalAlloc); used > 1.3*voxels {
		t.Errorf("allocated %.2f times the voxels' %.0f bytes", used/voxels, voxels)
	}
	if !reflect.DeepEqual(v.Int16, w.Int16) {
		t.Error("other voxels")
	}
}

func TestExtensionsSurvive(t *testing.T) {
	for _, c := range goldenCases(t) {
		if c.Name != "extension" {
			continue
		}
		path := c.file(t)
		h, err := ReadHeader(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(h.Extensions) != 1 || h.Extensions[0].Code != 6 || !strings.HasPrefix(string(h.Extensions[0].Data),
			"a comment of some length") {
			t.Fatalf("extensions %v", h.Extensions)
		}
		v, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		h.Extensions = append(h.Extensions, Extension{Code: 4, Data: []byte("<AFNI/>")})
		for _, name := range []string{"copy.nii", "copy.nii.gz"} {
			path := filepath.Join(t.TempDir(), name)
			if err := WriteWith(path, v, h.Extensions); err != nil {
				t.Fatal(err)
			}
			again, err := ReadHeader(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(again.Extensions) != 2 || !bytes.Equal(again.Extensions[0].Data, h.Extensions[0].Data) ||
				!strings.HasPrefix(string(again.Extensions[1].Data), "<AFNI/>\x00") {
				t.Errorf("%s: extensions %v", name, again.Extensions)
			}
			w, err := Read(path)
			if err != nil || !reflect.DeepEqual(w.Int16, v.Int16) {
				t.Errorf("%s: other voxels, %v", name, err)
			}
		}
	}
}

// Names of labels come back from a file, once, beside what others have put into its header.
func TestLabelNamesSurvive(t *testing.T) {
	l := &volume.LabelMap{Grid: volume.Grid{Shape: [3]int{2, 3, 4}, Affine: volume.Scaling([3]float64{1, 1, 2})},
		Labels: make([]uint16, 24)}
	others := []Extension{{Code: 6, Data: []byte("a comment")}, {Code: 4, Data: []byte("<AFNI/>")}}
	path := filepath.Join(t.TempDir(), "labels.nii.gz")
	for _, name := range []string{"liver", "Leber, größer"} {
		l.Names = map[uint16]string{2: name, 300: "spleen", 7: ""}
		if err := WriteLabelsWith(path, l, nil, others); err != nil {
			t.Fatal(err)
		}
		want := map[uint16]string{2: name, 300: "spleen"}
		if again, err := ReadLabels(path); err != nil || !maps.Equal(again.Names, want) {
			t.Errorf("names %v, %v", again.Names, err)
		}
		h, err := ReadHeader(path)
		if err != nil || len(h.Extensions) != 3 {
			t.Fatalf("%v, extensions %v", err, h.Extensions)
		}
		others = h.Extensions
	}
	l.Names = nil
	if err := WriteLabels(path, l); err != nil {
		t.Fatal(err)
	}
	if h, err := ReadHeader(path); err != nil || len(h.Extensions) > 0 || h.LabelNames() != nil {
		t.Errorf("%v, extensions %v", err, h.Extensions)
	}
}

func TestShear(t *testing.T) {
	// A ramp in the world stays the ramp when it is straightened.
	g := volume.Grid{Shape: [3]int{20, 18, 16}, Affine: volume.Affine{{1, 0.4, 0, -7}, {0, 1, 0, 3}, {0, 0.1, 2, 5},
		{0, 0, 0, 1}}}
	ramp := func(p [3]float64) float64 { return 5*p[0] - 3*p[1] + 2*p[2] + 1000 }
	v := &volume.Volume{Grid: g, Float32: make([]float32, g.Len())}
	l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
	for n := range v.Float32 {
		v.Float32[n] = float32(ramp(g.World([3]float64{float64(n % 20), float64(n / 20 % 18), float64(n / 360)})))
		l.Labels[n] = 1
	}
	path := filepath.Join(t.TempDir(), "sheared.nii")
	if err := Write(path, v); err != nil {
		t.Fatal(err)
	}
	kept, err := Read(path)
	if err != nil || !kept.Same(g, 1e-4) {
		t.Fatalf("kept: %v", err)
	}
	var unsupported *volume.UnsupportedError
	if _, err := ReadWith(path, Options{Shear: ShearError}); !errors.As(err, &unsupported) ||
		!strings.Contains(err.Error(),
			"the axes are sheared: two of them are 68.30 degrees apart: --shear resample straightens it") {
		t.Errorf("error: %v", err)
	}
	if _, err := ReadWith(path, Options{Shear: "bend"}); err == nil {
		t.Error("bend was accepted")
	}
	var notes []string
	s, err := ReadWith(path, Options{Shear: ShearResample, Note: func(note string) { notes = append(notes, note) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(notes) != 1 || !strings.HasSuffix(notes[0], "degrees apart: resampled onto a grid without shear") {
		t.Errorf("notes %q", notes)
	}
	if s.Affine.Shear() > 1e-6 {
		t.Errorf("shear %g is left", s.Affine.Shear())
	}
	background := v.Statistics().Min
	inverse, err := g.Affine.Inverse()
	if err != nil {
		t.Fatal(err)
	}
	inside := 0
	for n, got := range s.Float32 {
		p := s.World([3]float64{float64(n % s.Shape[0]), float64(n / s.Shape[0] % s.Shape[1]),
			float64(n / s.Shape[0] / s.Shape[1])})
		within := true
		for a, x := range inverse.Apply(p) {
			within = within && x >= 0 && x <= float64(g.Shape[a]-1)
		}
		if !within {
			continue
		}
		inside++
		if want := ramp(p); math.Abs(float64(got)-want) > 1e-2 || got == background {
			t.Fatalf("voxel %d is %g, want %g", n, got, want)
		}
	}
	if inside < g.Len()/2 {
		t.Errorf("only %d of %d voxels are inside", inside, g.Len())
	}
	if err := WriteLabels(path, l); err != nil {
		t.Fatal(err)
	}
	straight, err := ReadLabelsWith(path, Options{Shear: ShearResample})
	if err != nil || straight.Affine.Shear() > 1e-6 {
		t.Fatalf("labels: %v", err)
	}
	if n := straight.Counts()[1]; math.Abs(
		float64(n)*straight.Affine.Det()/(float64(g.Len())*g.Affine.Det())-1,
	) > 0.05 {
		t.Errorf("labels: %d voxels of %d", n, g.Len())
	}
}

// Voxels are counted four at a time, where they are alike: as one by one.
func TestLabelValuesAreCounted(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		piece := make([]int16, r.IntN(40))
		for n := range piece {
			switch r.IntN(4) {
			case 0:
				piece[n] = int16(r.IntN(3))
			case 1:
				piece[n] = int16(r.IntN(1<<16) - 1<<15)
			default:
				if n > 0 {
					piece[n] = piece[n-1]
				}
			}
		}
		piece = piece[min(r.IntN(4), len(piece)):]
		want, before, negative := tally{}, int16(0), false
		for _, x := range piece {
			want.seen[uint16(x)] = true
			if x > 0 {
				want.above++
			}
			if x > 0 && x == before {
				want.like++
			}
			before, negative = x, negative || x < 0
		}
		got := newTally()
		ok := count(got, piece)
		if slices.Contains(got.seen[got.end:], true) {
			t.Fatalf("%v: values from %d on", piece, got.end)
		}
		if want.end = got.end; *got != want || ok == negative {
			t.Fatalf("%v: %d above, %d like, %v", piece, got.above, got.like, ok)
		}
		if got.release(); *got != (tally{}) {
			t.Fatalf("%v is still known afterwards", piece)
		}
	}
}

// A 4D file of several channels comes back channel by channel, in NIfTI-1 and, where an extent
// needs it, NIfTI-2.
func TestWriteChannels(t *testing.T) {
	for _, shape := range [][3]int{{5, 4, 3}, {1, 40000, 1}} {
		g := volume.Grid{Shape: shape, Affine: volume.Affine{{0, -0.8, 0, 10}, {0.7, 0, 0, -5}, {0, 0, 2.5, 100},
			{0, 0, 0, 1}}}
		values := make([]float32, 3*g.Len())
		for n := range values {
			values[n] = float32(n)/7 - 3
		}
		path := filepath.Join(t.TempDir(), "channels.nii.gz")
		if err := WriteChannels(path, g, values, nil, nil); err != nil {
			t.Fatal(err)
		}
		all, err := ReadAll(path, Options{})
		if err != nil || len(all) != 3 {
			t.Fatalf("%d volumes, %v", len(all), err)
		}
		for c, v := range all {
			if !v.Same(g, 1e-4) || !slices.Equal(v.Float32, values[c*g.Len():(c+1)*g.Len()]) {
				t.Errorf("channel %d of %v differs", c, shape)
			}
		}
	}
	if err := WriteChannels(filepath.Join(t.TempDir(), "x.nii"),
		volume.Grid{Shape: [3]int{2, 2, 2}, Affine: volume.Scaling([3]float64{1, 1, 1})}, make([]float32, 12),
		nil, nil); err == nil {
		t.Error("one channel and a half was written")
	}
}

// What lies behind the voxels is told: often the header has lost a slice or a volume.
func TestMoreThanTheHeaderSays(t *testing.T) {
	v := &volume.Volume{Grid: volume.Grid{Shape: [3]int{4, 3, 2}, Affine: volume.Affine{{1}, {0, 1}, {0, 0, 1},
		{0, 0, 0, 1}}}, Int16: make([]int16, 24)}
	folder := t.TempDir()
	for _, ext := range []string{".nii", ".nii.gz"} {
		path := filepath.Join(folder, "whole"+ext)
		if err := Write(path, v); err != nil {
			t.Fatal(err)
		}
		for bytes, want := range map[int]string{0: "", 1: "holds 1 byte more", 24: "holds 1 slice more",
			48: "holds 1 volume more", 72: "holds 3 slices more", 96: "holds 2 volumes more"} {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			more := make([]byte, bytes)
			if ext == ".nii.gz" && bytes > 0 { // a member of its own, as cat would add
				var b strings.Builder
				w := gzip.NewWriter(&b)
				w.Write(more)
				w.Close()
				more = []byte(b.String())
			}
			long := filepath.Join(folder, "long"+ext)
			if err := os.WriteFile(long, append(data, more...), 0o644); err != nil {
				t.Fatal(err)
			}
			var notes []string
			if _, err := ReadWith(long, Options{Note: func(s string) { notes = append(notes, s) }}); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(notes, "; "); want == "" && got != "" || !strings.HasPrefix(got, want) {
				t.Errorf("%s and %d bytes: %q, want %q", ext, bytes, got, want)
			}
		}
	}
}
