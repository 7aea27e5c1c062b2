package dicom

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/internal/expect"
)

// lossy says by how much the stored values of codecs that compute with fractions may differ from those of another decoder.
func lossy(name, syntax string) int64 {
	if strings.HasPrefix(syntax, "JPEG 2000 Image Compression") && !strings.Contains(syntax, "Lossless") {
		return 1 // the 9/7 wavelet in float32, rounded once: gdcm's order of operations is another
	}
	return 0
}

// The stored pixels of every grey image are those of dcmtk, gdcm and pydicom.
func TestPixelsAgreeWithPeers(t *testing.T) {
	data := expect.Data(t)
	text, err := os.ReadFile("../../testdata/dicom_pixels.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden map[string]struct {
		Syntax, SHA256 string
		Shape          [2]int
		Min, Max, Sum  int64
		Every997       []int64
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	for key, want := range golden {
		t.Run(key, func(t *testing.T) {
			name, number, _ := strings.Cut(key, "#")
			frame, _ := strconv.Atoi(number)
			im, err := readImage(filepath.Join(data, name))
			if err != nil {
				t.Fatal(err)
			}
			if im.rows == 0 { // passed over as no scan, but its pixels are as good as any to test a decoder with
				t.Skip("passed over: " + im.passOver())
			}
			if im.rows != want.Shape[0] || im.columns != want.Shape[1] {
				t.Fatalf("%dx%d pixels, want %v", im.rows, im.columns, want.Shape)
			}
			out := make([]uint32, im.rows*im.columns)
			bits, err := im.readFrame(frame-1, out)
			if err != nil {
				t.Fatal(err)
			}
			values := make([]float32, len(out))
			raw := make([]byte, 0, 4*len(out))
			if !real(im, &frameInfo{}, bits, out, values) {
				t.Fatal("values do not fit")
			}
			var sum int64
			tolerance := lossy(name, want.Syntax)
			// Its header says signed, its code stream unsigned, of 13 bits. The header is right (pydicom's note on the file); gdcm follows the stream.
			mismatch := strings.HasSuffix(name, "J2K_pixelrep_mismatch.dcm")
			for n := range values {
				row, column := n/im.columns, n%im.columns
				v := int64(values[(im.rows-1-row)*im.columns+column]) // the volume is upside down
				if mismatch && v < 0 {
					v += 1 << 13
				}
				raw = binary.LittleEndian.AppendUint32(raw, uint32(v))
				sum += v
				if n%997 == 0 {
					if d := v - want.Every997[n/997]; d > tolerance || d < -tolerance {
						t.Fatalf("pixel %d is %d, want %d", n, v, want.Every997[n/997])
					}
				}
			}
			if digest := sha256.Sum256(raw); tolerance == 0 && hex.EncodeToString(digest[:]) != want.SHA256 {
				t.Errorf("other pixels, with the sum %d, want %d", sum, want.Sum)
			}
		})
	}
}

// one returns the only series under a path of the data folder.
func one(t testing.TB, path string) *Series {
	t.Helper()
	series, _, err := Scan(filepath.Join(expect.Data(t), path))
	if err != nil {
		t.Fatal(err)
	}
	if len(series) != 1 {
		t.Fatalf("%d series, want 1", len(series))
	}
	return series[0]
}

// The series are what dcm2niix makes of them: the same voxels on the same grid.
func TestSeriesAgreesWithDcm2niix(t *testing.T) {
	type entry struct{ Volumes map[string]expect.Entry }
	want := expect.Read[map[string]entry](t, "dicom/expected_series.json")["totalsegmentator/dicom_jpeg2000"].Volumes["0.nii"]
	s := one(t, "totalsegmentator/dicom_jpeg2000")
	if s.Err != nil {
		t.Fatal(s.Err)
	}
	want.CheckGrid(t, s.Grid)
	v, err := Read(s)
	if err != nil {
		t.Fatal(err)
	}
	if v.Int16 == nil {
		t.Error("voxels are not int16")
	}
	want.Check(t, v, 0)
}

// The lossless encodings of one slice hold the same pixels (WG04's purpose).
func TestLosslessEncodingsAreEqual(t *testing.T) {
	data := expect.Data(t)
	for _, slice := range []string{"CT1", "CT2"} {
		var first []uint32
		for _, encoding := range []string{"RLE", "JPLL", "JLSL", "J2KR"} {
			im, err := readImage(filepath.Join(data, "dicom/wg04", encoding, slice+"_"+encoding))
			if err != nil {
				t.Fatal(err)
			}
			out := make([]uint32, im.rows*im.columns)
			if _, err := im.readFrame(0, out); err != nil {
				t.Fatal(err)
			}
			for n := range out {
				out[n] &= 0xFFFF // some are sign-extended
			}
			if first == nil {
				first = out
			}
			if !slices.Equal(out, first) {
				t.Errorf("%s_%s differs from the RLE encoding", slice, encoding)
			}
		}
	}
}

// 28 slices of a tilted gantry, 7.00, 1.08 and 4.00 mm apart.
func TestGantryTilt(t *testing.T) {
	s := one(t, "dicom/gantry_tilt")
	if s.Err == nil || !strings.Contains(s.Err.Error(), "slices are not evenly spaced: 7.00 mm between slices 16 and 17") {
		t.Errorf("got %v", s.Err)
	}
	if math.Abs(s.Tilt-18.5) > 0.01 {
		t.Errorf("tilt of %g degrees, want 18.5", s.Tilt)
	}
	if _, err := ReadWith(s, Options{Gaps: GapsResample, Tilt: TiltError}); err == nil || !strings.Contains(err.Error(), "askew, by 18.50 degrees") {
		t.Errorf("got %v", err)
	}
	var notes []string
	v, err := ReadWith(s, Options{Gaps: GapsResample, Note: func(n string) { notes = append(notes, n) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(notes) != 2 {
		t.Errorf("notes %q", notes)
	}
	if v.Affine.Shear() > 1e-6 {
		t.Errorf("sheared by %g", v.Affine.Shear())
	}
	kept, err := ReadWith(s, Options{Gaps: GapsResample, Tilt: TiltKeep})
	if err != nil {
		t.Fatal(err)
	}
	// Each known voxel is where it was measured: values of both agree in the world, slice by slice, where a slice was kept.
	inverse, err := v.Affine.Inverse()
	if err != nil {
		t.Fatal(err)
	}
	p := inverse.Apply(kept.World([3]float64{256, 256, 0}))
	if math.Abs(p[2]) > 1e-6 || math.Abs(p[0]-256) > 1e-6 {
		t.Errorf("voxel (256, 256, 0) is at %v of the straightened grid", p)
	}
	f := p[1] - math.Floor(p[1])
	below, above := v.At(256, int(p[1]), 0), v.At(256, int(p[1])+1, 0)
	// Rows are moved by a fraction: the kept row lies between two of the straightened ones, which each lie between two kept ones.
	if got, want := float64(below)*(1-f)+float64(above)*f, float64(kept.At(256, 256, 0)); math.Abs(got-want) > 100 {
		t.Errorf("value %g, want about %g", got, want)
	}
}
