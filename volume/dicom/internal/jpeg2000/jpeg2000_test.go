package jpeg2000

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/volume"
)

// streamCase is one of testdata/htj2k.json: a code stream and its pixels. The tests of volume/dicom
// compare them all.
type streamCase struct {
	Name                string
	Columns, Rows, Bits int
	Signed              bool
	Stream, Pixels      []byte
	Decoders            []string
}

func streamCases(t *testing.T) []streamCase {
	t.Helper()
	text, err := os.ReadFile("../../../../testdata/htj2k.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []streamCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func findCase(t *testing.T, name string) streamCase {
	t.Helper()
	cases := streamCases(t)
	n := slices.IndexFunc(cases, func(c streamCase) bool { return c.Name == name })
	if n < 0 {
		t.Fatalf("there is no case %q", name)
	}
	return cases[n]
}

// marker returns a marker segment.
func marker(code uint16, body ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, code)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(body)+2)), body...)
}

// stream returns a code stream of a grey image of 8 bits in one tile without decomposition. More
// are markers for the main header.
func stream(columns, rows byte, layers uint16, style byte, more, packets []byte) []byte {
	size := []byte{0x40, 0, 0, 0, 0, columns, 0, 0, 0, rows, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, columns, 0, 0, 0, rows, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 1, 7, 1, 1}
	return slices.Concat([]byte{0xFF, 0x4F}, marker(0xFF51, size...),
		marker(0xFF52, 0, 0, byte(layers>>8), byte(layers), 0, 0, 4, 4, style, 1), marker(0xFF5C, 1<<5, 8<<3), more,
		marker(0xFF90, 0, 0, 0, 0, 0, 0, 0, 1), []byte{0xFF, 0x93}, packets, []byte{0xFF, 0xD9})
}

func TestCapabilities(t *testing.T) {
	// the pixel has no code-block, and is in the middle of its range
	empty := []byte{0}
	for name, c := range map[string]struct {
		stream []byte
		want   string // of the error, * at the front for what is not supported
	}{
		"Part 15": {stream(1, 1, 1, 0x40, marker(0xFF50, 0, 2, 0, 0, 0, 3), empty), ""},
		"Part 15, with a profile": {stream(1, 1, 1, 0x40, slices.Concat(marker(0xFF50, 0, 2, 0, 0, 0, 3),
			marker(0xFF59, 0, 1)), empty), ""},
		"Part 2": {stream(1, 1, 1, 0, marker(0xFF50, 0x40, 0, 0, 0, 0, 3), empty),
			"*extensions of part 2 are not read"},
		"Part 15 and Part 2": {stream(1, 1, 1, 0x40, marker(0xFF50, 0x40, 2, 0, 0, 0, 3, 0, 0), empty),
			"*extensions of part 2 are not read"},
		"cut capabilities":          {stream(1, 1, 1, 0x40, marker(0xFF50, 0, 2), empty), "damaged marker"},
		"both kinds of code-blocks": {stream(1, 1, 1, 0xC0, nil, empty), ""},
		"both kinds, with bypass": {stream(1, 1, 1, 0xC1, nil, empty),
			"*code-blocks of both kinds (HTMIXED) with bypass or termination"},
		"both kinds, with termination": {stream(1, 1, 1, 0xC4, nil, empty),
			"*code-blocks of both kinds (HTMIXED) with bypass or termination"},
		"a reserved style":  {stream(1, 1, 1, 0x80, nil, empty), "damaged marker"},
		"no packet headers": {stream(1, 1, 1, 0x40, marker(0xFF60, 0), empty), "ends in the middle of the image"},
		"more packet headers than it has": {stream(1, 1, 1, 0x40, marker(0xFF60, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0), empty),
			"ends in the middle of the image"},
		"PPT in the main header": {stream(1, 1, 1, 0x40, marker(0xFF61, 0, 0), empty), "damaged marker"},
		"packed packet headers":  {stream(1, 1, 1, 0x40, marker(0xFF60, 0, 0, 0, 0, 1, 0), nil), ""},
	} {
		out := make([]uint32, 1)
		_, err := Decode(c.stream, 1, 1, out)
		want, refused := strings.CutPrefix(c.want, "*")
		var unsupported *volume.UnsupportedError
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)),
			errors.As(err, &unsupported) != refused:
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		case want == "" && out[0] != 128:
			t.Errorf("%s: the pixel is %d", name, out[0])
		}
	}
}

// Placeholder passes take no bytes. Millions of them end in an error, and at once.
func TestPlaceholdersWithoutEnd(t *testing.T) {
	const layers = 20000
	for name, style := range map[string]byte{"high throughput": 0x40, "both kinds": 0xC0} {
		var packets []byte
		bits, count, full := 0, 0, false
		put := func(v, n int) {
			for n--; n >= 0; n-- {
				bits, count = bits<<1|v>>n&1, count+1
				if count == 8 || full && count == 7 {
					packets, full = append(packets, byte(bits)), bits == 0xFF
					bits, count = 0, 0
				}
			}
		}
		for layer := range layers {
			put(1, 1) // not empty
			if layer == 0 {
				put(3, 2) // included, no zero bit-planes
			} else {
				put(1, 1) // included
			}
			put(0xFFFF, 16) // 164 passes
			put(0, 1)       // Lblock stays 3
			length := 0
			if layer >= layers-2 {
				length = 1 // a byte that no clean-up pass of high throughput has
			}
			put(length, 3+7)
			for count > 0 || full {
				put(0, 1)
			}
			packets = append(packets, make([]byte, length)...)
		}
		start := time.Now()
		_, err := Decode(stream(1, 1, layers, style, nil, packets), 1, 1, make([]uint32, 1))
		if taken := time.Since(start); taken > 10*time.Second {
			t.Errorf("%s: takes %v", name, taken)
		}
		if !errors.Is(err, errDamaged) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Packed packet headers may be cut anywhere: then they are too short, and never those of another
// tile.
func TestCutPackedHeaders(t *testing.T) {
	for _, name := range []string{"PPM", "PPT"} {
		c := findCase(t, "HTJ2K, packet headers in "+name+", 12 bits")
		code := map[string][]byte{"PPM": {0xFF, 0x60}, "PPT": {0xFF, 0x61}}[name]
		at := bytes.LastIndex(c.Stream, code) // the second of them
		length := int(binary.BigEndian.Uint16(c.Stream[at+2:]))
		for cut := 1; cut < length-2; cut++ {
			s := slices.Concat(c.Stream[:at], marker(binary.BigEndian.Uint16(code), c.Stream[at+4:at+2+length-cut]...),
				c.Stream[at+2+length:])
			if name == "PPT" { // the tile-part is shorter
				sot := bytes.Index(s, []byte{0xFF, 0x90})
				binary.BigEndian.PutUint32(s[sot+6:], binary.BigEndian.Uint32(s[sot+6:])-uint32(cut))
			}
			if _, err := Decode(s, c.Columns, c.Rows, make([]uint32, c.Columns*c.Rows)); err == nil {
				t.Errorf("%s without its last %d bytes is accepted", name, cut)
			}
		}
	}
}

// Samples of irreversible images are rounded to the nearest number, halves to even, and clamped.
func TestRounding(t *testing.T) {
	nan, infinite := float32(math.NaN()), float32(math.Inf(1))
	from := []float32{-0.5, 0, 0.49, 0.5, 0.51, 1.5, 2.5, -1.5, -2.5, -2.51, 127, 127.4, 127.5, 1e30, infinite, -128,
		-128.4, -129, -1e30, -infinite, nan}
	want := []int{0, 0, 0, 0, 1, 2, 2, -2, -2, -3, 127, 127, 127, 127, 127, -128, -128, -128, -128, -128, -128}
	got := make([]uint32, len(from))
	for _, d := range []decoder{{precision: 8, signed: true}, {precision: 8}} {
		d.storeFractions(got, from)
		for n, w := range want {
			if !d.signed {
				w += 128
			}
			if int(int32(got[n])) != w {
				t.Errorf("signed %v: %v becomes %d, want %d", d.signed, from[n], int32(got[n]), w)
			}
		}
	}
}
