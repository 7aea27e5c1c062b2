package dicom

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/pixels"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/internal/expect"
)

// lossy says by how much the stored values of codecs that compute with fractions may differ from
// those of another decoder.
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
			im, err := stack.ReadImage(filepath.Join(data, name))
			if err != nil {
				t.Fatal(err)
			}
			if im.Rows == 0 {
				// A dose grid has pixels, which the golden file lists, but is no scan: it must be
				// passed over, and nothing else may be.
				if !strings.Contains(name, "rtdose") {
					t.Fatalf("passed over: %s", im.PassOver())
				}
				return
			}
			if im.Rows != want.Shape[0] || im.Columns != want.Shape[1] {
				t.Fatalf("%dx%d pixels, want %v", im.Rows, im.Columns, want.Shape)
			}
			var r pixels.Reader
			defer r.Close()
			f, err := r.Read(&im.Image, frame-1)
			if err != nil {
				t.Fatal(err)
			}
			values := make([]float32, im.Rows*im.Columns)
			raw := make([]byte, 0, 4*len(values))
			if !pixels.Values(f, 1, 0, make([]uint32, im.Columns), values) {
				t.Fatal("values do not fit")
			}
			var sum int64
			tolerance := lossy(name, want.Syntax)
			// Its header says signed, its code stream unsigned, of 13 bits. The header is right
			// (pydicom's note on the file); gdcm follows the stream.
			mismatch := strings.HasSuffix(name, "J2K_pixelrep_mismatch.dcm")
			for n := range values {
				row, column := n/im.Columns, n%im.Columns
				v := int64(values[(im.Rows-1-row)*im.Columns+column]) // the volume is upside down
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
	want := expect.Read[map[string]entry](t,
		"dicom/expected_series.json")["totalsegmentator/dicom_jpeg2000"].Volumes["0.nii"]
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
			im, err := stack.ReadImage(filepath.Join(data, "dicom/wg04", encoding, slice+"_"+encoding))
			if err != nil {
				t.Fatal(err)
			}
			var r pixels.Reader
			defer r.Close()
			f, err := r.Read(&im.Image, 0)
			if err != nil {
				t.Fatal(err)
			}
			out := f.Decoded
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
	if s.Err == nil || !strings.Contains(s.Err.Error(),
		"slices are not evenly spaced: 7.00 mm between slices 16 and 17") {
		t.Errorf("got %v", s.Err)
	}
	if math.Abs(s.Tilt-18.5) > 0.01 {
		t.Errorf("tilt of %g degrees, want 18.5", s.Tilt)
	}
	if _, err := ReadWith(s, Options{Gaps: GapsResample, Tilt: TiltError}); err == nil ||
		!strings.Contains(err.Error(), "askew, by 18.50 degrees") {
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
	// Each known voxel is where it was measured: values of both agree in the world, slice by slice,
	// where a slice was kept.
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
	// Rows are moved by a fraction: the kept row lies between two of the straightened ones, which
	// each lie between two kept ones.
	if got, want := float64(below)*(1-f)+float64(above)*f, float64(kept.At(256, 256, 0)); math.Abs(got-want) > 100 {
		t.Errorf("value %g, want about %g", got, want)
	}
}

// fileOutcomes is what becomes of each file of $VOXSAW_DATA/dicom that is looked at alone: the
// shape, least and greatest value of the volume, the error, or what it is passed over as.
var fileOutcomes = map[string]string{
	"pydicom/693_J2KI.dcm":                             "[512 512 1] -3995 1812",
	"pydicom/CT_small.dcm":                             "[128 128 1] -896 1167",
	"pydicom/ExplVR_BigEnd.dcm":                        "error: holds colours (RGB), not a scan",
	"pydicom/ExplVR_BigEndNoMeta.dcm":                  "RT object",
	"pydicom/ExplVR_LitEndNoMeta.dcm":                  "RT object",
	"pydicom/GDCMJ2K_TextGBR.dcm":                      "error: holds colours (YBR_RCT), not a scan",
	"pydicom/J2K_pixelrep_mismatch.dcm":                "[512 512 1] -2000 1896",
	"pydicom/JPEG-lossy.dcm":                           "error: series 1: " + noPlace,
	"pydicom/JPEG2000-embedded-sequence-delimiter.dcm": "error: series 1: " + noPlace,
	"pydicom/JPEG2000.dcm":                             "error: series 1: " + noPlace,
	"pydicom/JPEGLSNearLossless_08.dcm":                "error: series (no number): " + noPlace,
	"pydicom/JPEGLSNearLossless_16.dcm":                "error: series (no number): " + noPlace,
	"pydicom/JPGExtended.dcm":                          "error: series 1: " + noPlace,
	"pydicom/MR_small.dcm":                             "[64 64 1] 127 2145",
	"pydicom/MR_small_RLE.dcm":                         "[64 64 1] 127 2145",
	"pydicom/MR_small_bigendian.dcm":                   "[64 64 1] 127 2145",
	"pydicom/MR_small_expb.dcm":                        "[64 64 1] 127 2145",
	"pydicom/MR_small_implicit.dcm":                    "[64 64 1] 127 2145",
	"pydicom/MR_small_jp2klossless.dcm":                "[64 64 1] 127 2145",
	"pydicom/MR_small_jpeg_ls_lossless.dcm":            "[64 64 1] 127 2145",
	"pydicom/MR_small_padded.dcm":                      "[64 64 1] 127 2145",
	"pydicom/MR_truncated.dcm":                         "error: is truncated: 8130 of 8192 bytes of pixels",
	"pydicom/SC_jpeg_no_color_transform.dcm":           "error: holds colours (RGB), not a scan",
	"pydicom/SC_jpeg_no_color_transform_2.dcm":         "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_dcmtk_+eb+cr.dcm":                  "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_dcmtk_+eb+cy+n1.dcm":               "error: holds colours (YBR_FULL), not a scan",
	"pydicom/SC_rgb_dcmtk_+eb+cy+n2.dcm":               "error: holds colours (YBR_FULL), not a scan",
	"pydicom/SC_rgb_dcmtk_+eb+cy+np.dcm":               "error: holds colours (YBR_FULL_422), not a scan",
	"pydicom/SC_rgb_dcmtk_+eb+cy+s2.dcm":               "error: holds colours (YBR_FULL_422), not a scan",
	"pydicom/SC_rgb_dcmtk_+eb+cy+s4.dcm":               "error: holds colours (YBR_FULL), not a scan",
	"pydicom/SC_rgb_gdcm_KY.dcm":                       "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_jls_lossy_line.dcm":                "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_jls_lossy_sample.dcm":              "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_jpeg.dcm":                          "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_jpeg_app14_dcmd.dcm":               "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_jpeg_dcmd.dcm":                     "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_jpeg_dcmtk.dcm":                    "error: holds colours (YBR_FULL), not a scan",
	"pydicom/SC_rgb_jpeg_gdcm.dcm":                     "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_jpeg_lossy_gdcm.dcm":               "error: holds colours (YBR_FULL), not a scan",
	"pydicom/SC_rgb_rle.dcm":                           "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_rle_16bit.dcm":                     "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_rle_16bit_2frame.dcm":              "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_rle_2frame.dcm":                    "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_rle_32bit.dcm":                     "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_rle_32bit_2frame.dcm":              "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_small_odd.dcm":                     "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_small_odd_big_endian.dcm":          "error: holds colours (RGB), not a scan",
	"pydicom/SC_rgb_small_odd_jpeg.dcm":                "error: holds colours (YBR_FULL), not a scan",
	"pydicom/SC_ybr_full_422_uncompressed.dcm":         "error: holds colours (YBR_FULL_422), not a scan",
	"pydicom/UN_sequence.dcm":                          "no image",
	"pydicom/badVR.dcm":                                "RTDOSE",
	"pydicom/crayons.icc":                              "not DICOM",
	"pydicom/dicomdirtests/DICOMDIR":                   "DICOMDIR",
	"pydicom/dicomdirtests/DICOMDIR-bigEnd":            "DICOMDIR",
	"pydicom/dicomdirtests/DICOMDIR-empty.dcm":         "DICOMDIR",
	"pydicom/dicomdirtests/DICOMDIR-implicit":          "DICOMDIR",
	"pydicom/dicomdirtests/DICOMDIR-nooffset":          "DICOMDIR",
	"pydicom/dicomdirtests/DICOMDIR-nopatient":         "DICOMDIR",
	"pydicom/dicomdirtests/DICOMDIR-reordered":         "DICOMDIR",
	"pydicom/dicomdirtests/TINY_ALPHA/DICOMDIR":        "DICOMDIR",
	"pydicom/empty_charset_LEI.dcm":                    "no image",
	"pydicom/examples_jpeg2k.dcm":                      "error: holds colours (YBR_RCT), not a scan",
	"pydicom/examples_overlay.dcm":                     "[484 300 1] 0 1123",
	"pydicom/examples_palette.dcm":                     "error: holds colours (PALETTE COLOR), not a scan",
	"pydicom/examples_rgb_color.dcm":                   "error: holds colours (RGB), not a scan",
	"pydicom/examples_ybr_color.dcm":                   "error: holds colours (YBR_FULL_422), not a scan",
	"pydicom/image_dfl.dcm":                            "error: series (no number): " + noPlace,
	"pydicom/liver_1frame.dcm":                         "SEG",
	"pydicom/liver_expb_1frame.dcm":                    "SEG",
	"pydicom/meta_missing_tsyntax.dcm": "damaged: cannot be read: says nothing about the size of " +
		"its image (Rows, Columns, BitsAllocated)",
	"pydicom/nested_priv_SQ.dcm": "damaged: cannot be read: says nothing about the size of " +
		"its image (Rows, Columns, BitsAllocated)",
	"pydicom/no_meta.dcm":                         "not DICOM",
	"pydicom/no_meta_group_length.dcm":            "RT object",
	"pydicom/priv_SQ.dcm":                         "no image",
	"pydicom/reportsi.dcm":                        "SR",
	"pydicom/reportsi_with_empty_number_tags.dcm": "SR",
	"pydicom/rtdose.dcm":                          "RTDOSE",
	"pydicom/rtdose_1frame.dcm":                   "RTDOSE",
	"pydicom/rtdose_expb.dcm":                     "RTDOSE",
	"pydicom/rtdose_expb_1frame.dcm":              "RTDOSE",
	"pydicom/rtdose_rle.dcm":                      "RTDOSE",
	"pydicom/rtdose_rle_1frame.dcm":               "RTDOSE",
	"pydicom/rtplan.dcm":                          "RT object",
	"pydicom/rtplan.dump":                         "not DICOM",
	"pydicom/rtplan_truncated.dcm":                "damaged: is truncated: it ends in the middle of an element",
	"pydicom/rtstruct.dcm":                        "RTSTRUCT",
	"pydicom/rtstruct.dump":                       "not DICOM",
	"pydicom/test-SR.dcm":                         "SR",
	"pydicom/waveform_ecg.dcm":                    "waveform",
	"pydicom/zipMR.gz":                            "DICOM compressed with gzip: decompress it",
	"wg04/J2KI/CT1_J2KI":                          "[512 512 1] -3339 1385",
	"wg04/J2KI/CT2_J2KI":                          "[512 512 1] -2386 1542",
	"wg04/J2KR/CT1_J2KR":                          "[512 512 1] -3024 1254",
	"wg04/J2KR/CT2_J2KR":                          "[512 512 1] -2048 1433",
	"wg04/JLSL/CT1_JLSL":                          "[512 512 1] -3024 1254",
	"wg04/JLSL/CT2_JLSL":                          "[512 512 1] -2048 1433",
	"wg04/JLSN/CT1_JLSN":                          "[512 512 1] -3028 1254",
	"wg04/JLSN/CT2_JLSN":                          "[512 512 1] -2052 1434",
	"wg04/JPLL/CT1_JPLL":                          "[512 512 1] -3024 1254",
	"wg04/JPLL/CT2_JPLL":                          "[512 512 1] -2048 1433",
	"wg04/REF/CT1_UNC.zst":                        "compressed with Zstandard: decompress it",
	"wg04/REF/CT2_UNC.zst":                        "compressed with Zstandard: decompress it",
	"wg04/RLE/CT1_RLE":                            "[512 512 1] -3024 1254",
	"wg04/RLE/CT2_RLE":                            "[512 512 1] -2048 1433",
}

const noPlace = "does not say where its images lie (ImagePositionPatient, ImageOrientationPatient, PixelSpacing)"

func TestEachFile(t *testing.T) {
	root := filepath.Join(expect.Data(t), "dicom")
	for name, want := range fileOutcomes {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(root, name)
			series, passed, err := Scan(path)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			if len(passed) > 0 {
				if got = passed[0].What; passed[0].Err != nil {
					got += ": " + strings.TrimPrefix(passed[0].Err.Error(), path+": ")
				}
			} else if v, err := Read(series[0]); err != nil {
				got = "error: " + strings.TrimPrefix(err.Error(), path+": ")
			} else {
				s := v.Statistics()
				got = fmt.Sprintf("%v %g %g", v.Shape, s.Min, s.Max)
			}
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// No file of the whole tree is lost: each is in one series, or passed over by name.
func TestNoFileIsLost(t *testing.T) {
	root := filepath.Join(expect.Data(t), "dicom")
	series, passed, err := Scan(root)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, s := range series {
		for _, f := range s.Files {
			seen[f]++
		}
	}
	for _, p := range passed {
		seen[p.Path]++
	}
	files := 0
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files++
			if seen[path] != 1 {
				t.Errorf("%s was seen %d times", path, seen[path])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 200 {
		t.Errorf("only %d files", files)
	}
}
