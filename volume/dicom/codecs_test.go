package dicom

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/pixels"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// codecCase is one of testdata/codecs.json and testdata/htj2k.json: a code stream, and the pixels
// that other decoders make of it.
type codecCase struct {
	Name, Syntax        string
	Columns, Rows, Bits int
	Signed              bool
	Stream, Pixels      []byte // base64 in the file
}

func codecCases(t testing.TB) []codecCase {
	t.Helper()
	var all []codecCase
	for _, name := range []string{"codecs.json", "htj2k.json"} {
		text, err := os.ReadFile("../../testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var cases []codecCase
		if err := json.Unmarshal(text, &cases); err != nil {
			t.Fatal(err)
		}
		all = append(all, cases...)
	}
	return all
}

func TestCodecsAgreeWithPeers(t *testing.T) {
	for _, c := range codecCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			out := make([]uint32, c.Columns*c.Rows)
			precision, err := pixels.Codecs[c.Syntax].Decode(c.Stream, c.Columns, c.Rows, out)
			if err != nil {
				t.Fatal(err)
			}
			if precision < c.Bits {
				t.Errorf("precision of %d bits, want %d", precision, c.Bits)
			}
			tolerance := 0
			if strings.Contains(c.Name, "irreversible") {
				// float32, rounded once: the order of operations is another than OpenJPEG's
				tolerance = 1
			}
			mask := uint32(1)<<c.Bits - 1
			for n, got := range out {
				want := uint32(binary.LittleEndian.Uint16(c.Pixels[2*n:])) & mask
				if d := int(got&mask) - int(want); max(d, -d) > tolerance {
					t.Fatalf("pixel %d is %d, want %d", n, got&mask, want)
				}
			}
		})
	}
}

// Code streams of fewer bits than a header that says signed. JPEG and JPEG-LS have no sign: dcmtk
// and gdcm decode the values as they are. JPEG 2000 has one, and where it contradicts the header,
// readers differ (gdcm and dcm2niix take the stream's, pydicom the header's): it is noted.
func TestStreamsOfFewerBits(t *testing.T) {
	cases := codecCases(t)
	for name, sign := range map[string]bool{"JPEG extended, quality 90, 12 bits": false,
		"JPEG-LS near 1, 12 bits": false, "JPEG 2000, -M 1, 12 bits": true} {
		c := cases[slices.IndexFunc(cases, func(c codecCase) bool { return c.Name == name })]
		for _, header := range [][2]uint16{{16, 1}, {12, 1}, {16, 0}} {
			stored, signed := header[0], header[1]
			f := sliceFields("1.2", 1, stack.Vector{}, axial, c.Columns, c.Rows, nil)
			f = set(set(set(set(f, tag.BitsStored, "US", stored), tag.HighBit, "US", stored-1), tag.PixelRepresentation,
				"US", signed), tag.PixelData, "", nil)
			file := part10(c.Syntax, slices.Concat(encode(f, binary.LittleEndian, false), encapsulated(nil, c.Stream)))
			path := filepath.Join(t.TempDir(), "slice")
			if err := os.WriteFile(path, file, 0o644); err != nil {
				t.Fatal(err)
			}
			var notes []string
			v, err := ReadWith(scanOne(t, path), Options{Note: func(n string) { notes = append(notes, n) }})
			if err != nil {
				t.Fatal(err)
			}
			for n := range c.Columns * c.Rows {
				want := int16(binary.LittleEndian.Uint16(c.Pixels[2*n:]))
				if signed == 1 && (sign || stored == 12) && want >= 2048 {
					want -= 4096
				}
				if got := v.Int16[v.Index(n%c.Columns, c.Rows-1-n/c.Columns, 0)]; got != want {
					t.Fatalf("%s, %d bits stored, signed %d: pixel %d is %d, want %d", name, stored, signed, n, got,
						want)
				}
			}
			said := strings.Contains(strings.Join(notes, ""),
				"is compressed with 12 bits, unsigned, and claims 16, signed: values of "+
					"more than 2047 are taken for negative ones")
			if said != (sign && stored == 16 && signed == 1) {
				t.Errorf("%s, %d bits stored, signed %d: notes %q", name, stored, signed, notes)
			}
		}
	}
}

// A series in each of the three transfer syntaxes of HTJ2K, signed and unsigned, its frames in one
// fragment or in several.
func TestSeriesOfHTJ2K(t *testing.T) {
	cases := codecCases(t)
	for name, uid := range map[string]string{
		"HTJ2K, 3 levels, 12 bits signed":              "1.2.840.10008.1.2.4.201",
		"HTJ2K, CT, 12 bits":                           "1.2.840.10008.1.2.4.202",
		"HTJ2K, irreversible, qstep 0.001, 12 bits":    "1.2.840.10008.1.2.4.203",
		"HTJ2K, both kinds of code-blocks, 12 bits":    "1.2.840.10008.1.2.4.201",
		"HTJ2K, both refinements, 13 bits":             "1.2.840.10008.1.2.4.203",
		"HTJ2K, tiles of 16x20, PCRL, 12 bits":         "1.2.840.10008.1.2.4.201",
		"HTJ2K, packet headers in PPT, 12 bits":        "1.2.840.10008.1.2.4.201",
		"HTJ2K, placeholders in three layers, 13 bits": "1.2.840.10008.1.2.4.203",
	} {
		c := cases[slices.IndexFunc(cases, func(c codecCase) bool { return c.Name == name })]
		folder := t.TempDir()
		for number := range 3 {
			f := sliceFields("1.2", number+1, stack.Vector{0, 0, 2 * float64(number)}, axial, c.Columns, c.Rows, nil)
			signed := uint16(0)
			if c.Signed {
				signed = 1
			}
			f = set(set(set(f, tag.BitsStored, "US", uint16(c.Bits)), tag.HighBit, "US", uint16(c.Bits-1)),
				tag.PixelRepresentation, "US", signed)
			f = set(set(f, tag.RescaleIntercept, "DS", fmt.Sprint(-1024*number)), tag.PixelData, "", nil)
			fragments := [][]byte{c.Stream}
			if number == 1 {
				fragments = [][]byte{c.Stream[:40], c.Stream[40:100], c.Stream[100:]}
			}
			file := part10(uid, slices.Concat(encode(f, binary.LittleEndian, false), encapsulated(nil, fragments...)))
			if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(number)), file, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		v, err := Read(scanOne(t, folder))
		if err != nil {
			t.Fatal(name, err)
		}
		if v.Shape != [3]int{c.Columns, c.Rows, 3} || v.Int16 == nil {
			t.Fatal(name, v.Shape)
		}
		for n := range len(v.Int16) {
			i, j, k := n%c.Columns, n/c.Columns%c.Rows, n/c.Columns/c.Rows
			stored := int(binary.LittleEndian.Uint16(c.Pixels[2*((c.Rows-1-j)*c.Columns+i):]))
			if c.Signed {
				stored = int(int16(stored))
			}
			if got, want := int(v.Int16[v.Index(i, j, k)]), stored-1024*k; got != want &&
				(max(got-want, want-got) > 1 || !strings.Contains(name, "irreversible")) {
				t.Fatalf("%s: voxel %d %d %d is %d, want %d", name, i, j, k, got, want)
			}
		}
	}
}

// RLE has a segment for each byte of a pixel. Fewer of them are not the pixels that the header
// describes.
func TestRLEOfOtherBits(t *testing.T) {
	cases := codecCases(t)
	for name, want := range map[string]string{"RLE, 8 bits": "has damaged pixels: RLE: 1 bytes a pixel, not 2",
		"RLE, 16 bits": ""} {
		c := cases[slices.IndexFunc(cases, func(c codecCase) bool { return c.Name == name })]
		f := set(sliceFields("1.2", 1, stack.Vector{}, axial, c.Columns, c.Rows, nil), tag.PixelData, "", nil)
		path := filepath.Join(t.TempDir(), "slice")
		if err := os.WriteFile(path, part10(element.RLE, slices.Concat(encode(f, binary.LittleEndian, false),
			encapsulated(nil, c.Stream))), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(scanOne(t, path)); want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A code stream that is cut anywhere is an error, or (where only padding is missing) the same
// image; never a panic.
func TestCutStreams(t *testing.T) {
	for _, c := range codecCases(t) {
		out := make([]uint32, c.Columns*c.Rows)
		failed, tried := 0, 0
		for n := 0; n < len(c.Stream); n += 1 + len(c.Stream)/50 {
			tried++
			if _, err := pixels.Codecs[c.Syntax].Decode(c.Stream[:n], c.Columns, c.Rows, out); err != nil {
				failed++
			}
		}
		if failed < tried*9/10 {
			t.Errorf("%s: only %d of %d cut streams are errors", c.Name, failed, tried)
		}
		if _, err := pixels.Codecs[c.Syntax].Decode(c.Stream, c.Columns+1, c.Rows,
			make([]uint32, (c.Columns+1)*c.Rows)); err == nil {
			t.Errorf("%s: an image of another size was accepted", c.Name)
		}
	}
}

// What is not read is refused by name.
func TestCodeStreamsAreRefused(t *testing.T) {
	cases := codecCases(t)
	find := func(prefix string) codecCase {
		return cases[slices.IndexFunc(cases, func(c codecCase) bool { return strings.HasPrefix(c.Name, prefix) })]
	}
	jpeg2000, lossless, dct, jpegLS := find("JPEG 2000"), find("JPEG lossless"), find("JPEG extended"), find("JPEG-LS")
	// behind inserts bytes behind the first marker segment (the size of a JPEG 2000 image, the
	// frame of a JPEG-LS one).
	behind := func(c codecCase, marker ...byte) codecCase {
		at := 4 + int(binary.BigEndian.Uint16(c.Stream[4:]))
		c.Stream = slices.Concat(c.Stream[:at], marker, c.Stream[at:])
		return c
	}
	frame := func(c codecCase, old, marker byte) codecCase {
		c.Stream = bytes.Replace(c.Stream, []byte{0xFF, old}, []byte{0xFF, marker}, 1)
		return c
	}
	for want, c := range map[string]codecCase{
		"JPEG 2000: extensions of part 2 are not read":       behind(jpeg2000, 0xFF, 0x50, 0, 8, 0x40, 0, 0, 0, 0, 0),
		"JPEG: progressive images are not read":              frame(dct, 0xC1, 0xC2),
		"JPEG: hierarchical images are not read":             frame(dct, 0xC1, 0xC5),
		"JPEG: arithmetic coding is not read":                frame(lossless, 0xC3, 0xCB),
		"JPEG-LS: palettes and oversize images are not read": behind(jpegLS, 0xFF, 0xF8, 0, 5, 2, 0, 0),
	} {
		var unsupported *volume.UnsupportedError
		if _, err := pixels.Codecs[c.Syntax].Decode(c.Stream, c.Columns, c.Rows,
			make([]uint32, c.Columns*c.Rows)); !errors.As(err, &unsupported) || unsupported.Problem != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Packets that bring nothing take a byte each, and a look at every code-block of their precinct.
// Their number is bounded: this stream would ask for 4e9 looks.
func TestEmptyPacketsAreBounded(t *testing.T) {
	const side, layers = 2000, 60000
	u16 := func(x ...uint16) (b []byte) {
		for _, x := range x {
			b = binary.BigEndian.AppendUint16(b, x)
		}
		return b
	}
	u32 := func(x ...uint32) (b []byte) {
		for _, x := range x {
			b = binary.BigEndian.AppendUint32(b, x)
		}
		return b
	}
	stream := slices.Concat(u16(0xFF4F, 0xFF51, 41, 0), u32(side, side, 0, 0, side, side, 0, 0), u16(1),
		[]byte{7, 1, 1},
		// 4x4 blocks, no decomposition
		u16(0xFF52, 12), []byte{0, 0}, u16(layers), []byte{0, 0, 0, 0, 0, 1},
		u16(0xFF5C, 4), []byte{2 << 5, 8 << 3},
		u16(0xFF90, 10, 0), u32(0), []byte{0, 1}, u16(0xFF93), bytes.Repeat([]byte{0x80}, layers+9), u16(0xFFD9))
	_, err := pixels.Codecs["1.2.840.10008.1.2.4.90"].Decode(stream, side, side, make([]uint32, side*side))
	if err == nil || !strings.Contains(err.Error(), "damaged packet") {
		t.Errorf("got %v", err)
	}
}
