package dicom

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// Whatever a file holds, reading it ends in a whole volume or in an error of one of the two kinds, which names the file.
func FuzzFile(f *testing.F) {
	pixels := rampPixels(vector{1, 2, 3}, axial, binary.LittleEndian)
	fields := sliceFields("1.2", 1, vector{1, 2, 3}, axial, stackColumns, stackRows, pixels)
	f.Add(part10(explicitLittle, encode(fields, binary.LittleEndian, false)))
	f.Add(part10("1.2.840.10008.1.2", encode(fields, binary.LittleEndian, true)))
	f.Add(part10("1.2.840.10008.1.2.2", encode(fields, binary.BigEndian, false)))
	f.Add(encode(fields, binary.LittleEndian, true))
	for _, c := range codecCases(f)[:3] {
		set := encode(set(sliceFields("1.2", 1, vector{}, axial, c.Columns, c.Rows, nil), 0x7FE00010, "", nil), binary.LittleEndian, false)
		set = append(set, 0xE0, 0x7F, 0x10, 0, 'O', 'B', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE, 0xFF, 0, 0xE0, 0, 0, 0, 0, 0xFE, 0xFF, 0, 0xE0)
		set = append(binary.LittleEndian.AppendUint32(set, uint32(len(c.Stream))), c.Stream...)
		f.Add(part10(c.Syntax, append(set, 0xFE, 0xFF, 0xDD, 0xE0, 0, 0, 0, 0)))
	}
	seedsFromData(f, "dicom/pydicom/*.dcm", 40<<10)
	path := filepath.Join(f.TempDir(), "file")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		series, passed, err := Scan(path)
		if err != nil {
			t.Fatal(err)
		}
		var format *volume.FormatError
		var unsupported *volume.UnsupportedError
		for _, p := range passed {
			if p.Err != nil && !errors.As(p.Err, &format) && !errors.As(p.Err, &unsupported) {
				t.Fatalf("%T: %v", p.Err, p.Err)
			}
		}
		for _, s := range series {
			if s.slices[0].image.rows*s.slices[0].image.columns*len(s.slices) > 1<<22 {
				continue // of the size that the file may claim; it is the kind of error that is looked for
			}
			v, err := ReadWith(s, Options{Gaps: GapsResample})
			switch {
			case err != nil && !errors.As(err, &format) && !errors.As(err, &unsupported):
				t.Fatalf("%T: %v", err, err)
			case err == nil && v.Check() != nil:
				t.Fatal(v.Check())
			}
		}
	})
}

func seedsFromData(f *testing.F, pattern string, most int64) {
	files, _ := filepath.Glob(filepath.Join(os.Getenv("VOXSAW_DATA"), pattern))
	for _, path := range files {
		if info, err := os.Stat(path); err != nil || info.Size() > most {
			continue
		}
		if data, err := os.ReadFile(path); err == nil {
			f.Add(data)
		}
	}
}

// fuzzCodec feeds a codec with damaged streams of images of two sizes: it must neither panic nor write outside.
func fuzzCodec(f *testing.F, prefix string) {
	var c codec
	for _, s := range codecCases(f) {
		if len(s.Name) > len(prefix) && s.Name[:len(prefix)] == prefix {
			c = syntaxes[s.Syntax].codec
			f.Add(s.Stream, s.Columns, s.Rows)
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, columns, rows int) {
		if columns < 1 || rows < 1 || columns > 1000 || rows > 1000 {
			return
		}
		out := make([]uint32, columns*rows)
		if precision, err := c(stream, columns, rows, out); err == nil && (precision < 1 || precision > 32) {
			t.Fatalf("precision %d", precision)
		}
	})
}

func FuzzRLE(f *testing.F)      { fuzzCodec(f, "RLE") }
func FuzzJPEG(f *testing.F)     { fuzzCodec(f, "JPEG lossless") }
func FuzzJPEGDCT(f *testing.F)  { fuzzCodec(f, "JPEG extended") }
func FuzzJPEGLS(f *testing.F)   { fuzzCodec(f, "JPEG-LS") }
func FuzzJPEG2000(f *testing.F) { fuzzCodec(f, "JPEG 2000") }
