package dicom

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/pixels"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// encapsulated is the Pixel Data element of fragments behind an offset table.
func encapsulated(table []uint32, fragments ...[]byte) []byte {
	item := func(out, b []byte) []byte {
		out = append(out, 0xFE, 0xFF, 0, 0xE0)
		return append(binary.LittleEndian.AppendUint32(out, uint32(len(b))), b...)
	}
	var offsets []byte
	for _, at := range table {
		offsets = binary.LittleEndian.AppendUint32(offsets, at)
	}
	out := item([]byte{0xE0, 0x7F, 0x10, 0, 'O', 'B', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF}, offsets)
	for _, f := range fragments {
		out = item(out, f)
	}
	return append(out, 0xFE, 0xFF, 0xDD, 0xE0, 0, 0, 0, 0)
}

// Frames in fragments, however these are cut: with and without an offset table, with a wrong one,
// of odd length, without their end.
func TestFragments(t *testing.T) {
	cases := map[string]codecCase{}
	for _, c := range codecCases(t) {
		cases[c.Name] = c
	}
	for _, pair := range [][2]string{
		{"JPEG lossless, predictor 1, 16 bits", "JPEG lossless, point transform 3, 16 bits"},
		{"JPEG-LS, 16 bits", "JPEG-LS near 10, 16 bits"},
		{"JPEG 2000, 16 bits", "JPEG 2000, lossy, quality 30, 16 bits"},
	} {
		a, b := cases[pair[0]], cases[pair[1]]
		if a.Stream == nil || b.Stream == nil {
			t.Fatalf("no case %q", pair)
		}
		x, y := a.Stream, b.Stream
		third := len(x) / 3
		one, two, three := x[:third], x[third:third+7], x[third+7:] // one of them of odd length
		first, second := uint32(0), uint32(3*8+len(x))
		without := func(b []byte) []byte { return b[:len(b)-8] }
		damaged := "hold 2 frames, and no table says which"
		for name, c := range map[string]struct {
			pixels []byte
			frames string
			want   string // the error
		}{
			"one fragment":                      {encapsulated(nil, x), "1", ""},
			"three fragments":                   {encapsulated(nil, one, two, three), "1", ""},
			"padded":                            {encapsulated(nil, append(slices.Clone(x), 0, 0, 0)), "1", ""},
			"no end":                            {without(encapsulated(nil, one, two, three)), "1", ""},
			"a fragment each":                   {encapsulated(nil, x, y), "2", ""},
			"a fragment each, table":            {encapsulated([]uint32{0, uint32(8 + len(x))}, x, y), "2", ""},
			"a fragment each, no end":           {without(encapsulated(nil, x, y)), "2", ""},
			"several fragments, table":          {encapsulated([]uint32{first, second}, one, two, three, y), "2", ""},
			"several fragments, no table":       {encapsulated(nil, one, two, three, y), "2", ""},
			"several fragments, table of zeros": {encapsulated([]uint32{0, 0}, one, two, three, y), "2", ""},
			"several fragments, wrong table": {encapsulated([]uint32{first, second + 2}, one, two, three, y), "2",
				""},
			"nothing begins":    {encapsulated(nil, two, three, three), "2", damaged},
			"a frame too many":  {encapsulated(nil, x, y, x), "2", damaged},
			"cut in a fragment": {without(without(encapsulated(nil, x, y))), "2", "ends in the middle of an element"},
		} {
			t.Run(pair[0]+"/"+name, func(t *testing.T) {
				f := sliceFields("1.2", 1, stack.Vector{}, axial, a.Columns, a.Rows, nil)
				f = set(set(set(f, tag.PixelData, "", nil), tag.NumberOfFrames, "IS", c.frames),
					tag.PixelRepresentation, "US", uint16(0))
				path := filepath.Join(t.TempDir(), "image")
				if err := os.WriteFile(path,
					part10(a.Syntax, append(encode(f, binary.LittleEndian, false), c.pixels...)), 0o644); err != nil {
					t.Fatal(err)
				}
				im, err := stack.ReadImage(path)
				if err != nil {
					t.Fatal(err)
				}
				var r pixels.Reader
				defer r.Close()
				for n, want := range []codecCase{a, b}[:im.Frames] {
					got, err := r.Read(&im.Image, n)
					var format *volume.FormatError
					if c.want != "" {
						if !errors.As(err, &format) || !strings.Contains(err.Error(), c.want) {
							t.Errorf("got %v", err)
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					for k, p := range got.Decoded {
						if p != uint32(binary.LittleEndian.Uint16(want.Pixels[2*k:])) {
							t.Fatalf("frame %d: pixel %d is %d", n+1, k, p)
						}
					}
				}
			})
		}
	}
}

// Run lengths of words whose samples lie at the top.
func TestCompressedWords(t *testing.T) {
	segment := func(b ...byte) []byte { return append([]byte{byte(len(b) - 1)}, b...) }
	high, low := segment(0x80, 0x7F, 0x00, 0xFF), segment(0x0F, 0xF3, 0x10, 0xF0)
	stream := make([]byte, 64)
	binary.LittleEndian.PutUint32(stream, 2)
	binary.LittleEndian.PutUint32(stream[4:], 64)
	binary.LittleEndian.PutUint32(stream[8:], uint32(64+len(high)))
	stream = slices.Concat(stream, high, low)
	f := sliceFields("1.2", 1, stack.Vector{}, axial, 2, 2, nil)
	f = set(set(set(f, tag.PixelData, "", nil), tag.BitsStored, "US", uint16(12)), tag.HighBit, "US", uint16(15))
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "slice"),
		part10("1.2.840.10008.1.2.5", append(encode(f, binary.LittleEndian, false), encapsulated(nil, stream)...)),
		0o644)
	v, err := Read(scanOne(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if got := [4]float32{v.At(0, 1, 0), v.At(1, 1, 0), v.At(0, 0, 0), v.At(1, 0, 0)}; got != [4]float32{-2048, 2047, 1,
		-1} {
		t.Errorf("values %v", got)
	}
}
