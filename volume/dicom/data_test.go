package dicom

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
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
			for n := range values {
				row, column := n/im.columns, n%im.columns
				v := int64(values[(im.rows-1-row)*im.columns+column]) // the volume is upside down
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
