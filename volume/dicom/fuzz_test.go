package dicom

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/pixels"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// Whatever a file holds, reading it ends in a whole volume or in an error of one of the two kinds,
// which names the file.
func FuzzFile(f *testing.F) {
	pixels := rampPixels(stack.Vector{1, 2, 3}, axial, binary.LittleEndian)
	fields := sliceFields("1.2", 1, stack.Vector{1, 2, 3}, axial, stackColumns, stackRows, pixels)
	f.Add(part10(element.ExplicitLittle, encode(fields, binary.LittleEndian, false)))
	f.Add(part10("1.2.840.10008.1.2", encode(fields, binary.LittleEndian, true)))
	f.Add(part10("1.2.840.10008.1.2.2", encode(fields, binary.BigEndian, false)))
	f.Add(encode(fields, binary.LittleEndian, true))
	// a transfer syntax without end
	f.Add(append(append(make([]byte, 128), "DICM"...), 2, 0, 0x10, 0, 'U', 'N', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF))
	for _, c := range codecCases(f)[:3] {
		set := encode(set(sliceFields("1.2", 1, stack.Vector{}, axial, c.Columns, c.Rows, nil), tag.PixelData, "", nil),
			binary.LittleEndian, false)
		f.Add(part10(c.Syntax, slices.Concat(set, encapsulated(nil, c.Stream))))
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
			if s.stack.Slices[0].Image.Rows*s.stack.Slices[0].Image.Columns*len(s.stack.Slices) > 1<<22 {
				// of the size that the file may claim; it is the kind of error that is looked for
				continue
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

// fuzzCodec feeds a codec with damaged streams: it must end in an error of one of the two kinds or
// fill the image, and do neither for long, nor with more memory than the stream and the image ask
// for. It must not panic, nor write outside.
func fuzzCodec(f *testing.F, prefix string) {
	var c pixels.Decoder
	for _, s := range codecCases(f) {
		if strings.HasPrefix(s.Name, prefix) {
			c = pixels.Codecs[s.Syntax].Decode
			f.Add(s.Stream, s.Columns, s.Rows)
		}
	}
	streamsFromData(f, c)
	f.Fuzz(func(t *testing.T, stream []byte, columns, rows int) {
		if columns < 1 || rows < 1 || columns > 1000 || rows > 1000 || columns*rows > pixels.MaxShrink*len(stream) {
			return
		}
		const guard = 0xA5A5A5A5
		out := make([]uint32, columns*rows+1)
		out[columns*rows] = guard
		before := allocated()
		precision, err := c(stream, columns, rows, out[:columns*rows:columns*rows])
		if more := allocated() - before; more > 16<<20+uint64(64*columns*rows+64*len(stream)) {
			t.Errorf("allocates %d bytes for %d of a stream and %dx%d pixels", more, len(stream), columns, rows)
		}
		// Once more: decoders work in memory that others have left. Several times where it is slow:
		// what else the machine does may take the time, but hardly each time.
		least := time.Hour
		for range 5 {
			again := make([]uint32, columns*rows)
			start := time.Now()
			if _, err2 := c(stream, columns, rows, again); (err == nil) != (err2 == nil) ||
				err == nil && !slices.Equal(again, out[:columns*rows]) {
				t.Errorf("another image the second time: %v, %v", err, err2)
			}
			if least = min(least, time.Since(start)); least < time.Second {
				break
			}
		}
		if least > 3*time.Second {
			t.Errorf("takes %v", least)
		}
		var unsupported *volume.UnsupportedError
		switch {
		case errors.As(err, &unsupported) && unsupported.Problem == "", err != nil && err.Error() == "":
			t.Errorf("says nothing: %T", err)
		case err == nil && (precision < 1 || precision > 32):
			t.Errorf("a precision of %d bits", precision)
		case out[columns*rows] != guard:
			t.Error("writes behind the image")
		}
	})
}

// allocated returns how many bytes the process has ever allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// streamsFromData adds the first frames of real files that a codec is for, if they are small.
func streamsFromData(f *testing.F, c pixels.Decoder) {
	data := os.Getenv("VOXSAW_DATA")
	if data == "" {
		return
	}
	files, _ := filepath.Glob(filepath.Join(data, "dicom/pydicom/*.dcm"))
	var r pixels.Reader
	defer r.Close()
	for _, path := range files {
		im, err := stack.ReadImage(path)
		if err != nil || pixels.Codecs[im.Syntax.UID].Decode == nil ||
			reflect.ValueOf(pixels.Codecs[im.Syntax.UID].Decode).Pointer() != reflect.ValueOf(c).Pointer() ||
			im.Check() != nil {
			continue
		}
		if _, err := r.Read(&im.Image, 0); err == nil && len(r.Raw) < 40<<10 {
			f.Add(slices.Clone(r.Raw), im.Columns, im.Rows)
		}
	}
}

func FuzzRLE(f *testing.F)      { fuzzCodec(f, "RLE") }
func FuzzJPEG(f *testing.F)     { fuzzCodec(f, "JPEG lossless") }
func FuzzJPEGDCT(f *testing.F)  { fuzzCodec(f, "JPEG extended") }
func FuzzJPEGLS(f *testing.F)   { fuzzCodec(f, "JPEG-LS") }
func FuzzJPEG2000(f *testing.F) { fuzzCodec(f, "JPEG 2000") }
func FuzzHTJ2K(f *testing.F)    { fuzzCodec(f, "HTJ2K") }

// A SEG object is read, alone and onto a series, or refused by an error of one of the two kinds, in
// memory that its size makes plausible.
func FuzzSegmentation(f *testing.F) {
	cases := readSegCases(f)
	for _, c := range cases.Cases {
		f.Add(c.File)
	}
	f.Add(cases.Written.File)
	f.Add(cases.Written.File[:len(cases.Written.File)-3])
	s := cases.series(f, "axial")
	path := filepath.Join(f.TempDir(), "file")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		known := func(err error) bool {
			var format *volume.FormatError
			var unsupported *volume.UnsupportedError
			return errors.As(err, &format) || errors.As(err, &unsupported)
		}
		g, err := OpenSegmentation(path)
		if err != nil {
			if !known(err) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		for _, segment := range g.Segments {
			if segment.Name != element.Printable(segment.Name) {
				t.Fatalf("name %q", segment.Name)
			}
		}
		if area := g.object.Image.Rows * g.object.Image.Columns; area > 1<<18 || area*g.Frames > 1<<21 {
			// as large as the file makes plausible: it is the kind of error that is looked for
			return
		}
		check := func(l *volume.LabelMap, err error) {
			switch {
			case err != nil && !known(err):
				t.Fatalf("%T: %v", err, err)
			case err == nil && l.Check() != nil:
				t.Fatal(l.Check())
			}
		}
		check(g.ReadOn(s, Options{Overlap: OverlapLast}))
		check(g.ReadOnGrid(s.Grid, Options{}))
		if grid, err := g.Grid(); err != nil || grid.Len() < 1<<20 {
			check(g.Read(Options{Gaps: GapsResample}))
		}
	})
}
