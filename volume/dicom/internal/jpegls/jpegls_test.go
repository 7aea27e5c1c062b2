package jpegls

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// The example of T.87, annex H.3: 4x4 samples, lossless, with default parameters.
var (
	example = []byte{
		0xFF, 0xD8,
		0xFF, 0xF7, 0x00, 0x0B, 0x08, 0x00, 0x04, 0x00, 0x04, 0x01, 0x01, 0x11, 0x00,
		0xFF, 0xDA, 0x00, 0x08, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00,
		0xC0, 0x00, 0x00, 0x6C, 0x80, 0x20, 0x8E, 0x01, 0xC0, 0x00, 0x00, 0x57, 0x40, 0x00, 0x00, 0x6E, 0xE6, 0x00,
		0x00, 0x01, 0xBC, 0x18, 0x00, 0x00, 0x05, 0xD8, 0x00, 0x00, 0x91, 0x60,
		0xFF, 0xD9,
	}
	exampleSamples = []uint32{0, 0, 90, 74, 68, 50, 43, 205, 64, 145, 145, 145, 100, 145, 145, 145}
)

func TestExampleOfTheStandard(t *testing.T) {
	out := make([]uint32, 16)
	precision, err := Decode(example, 4, 4, out)
	if err != nil || precision != 8 || !slices.Equal(out, exampleSamples) {
		t.Errorf("got %d bits, %v, %v", precision, out, err)
	}
}

// Default thresholds (C.2.4.1.1): those of table C.3 for lossless images, and others worked out by
// its formulas.
func TestDefaultThresholds(t *testing.T) {
	for _, c := range []struct{ precision, near, t1, t2, t3 int }{
		{8, 0, 3, 7, 21}, {10, 0, 6, 19, 72}, {12, 0, 18, 67, 276}, {16, 0, 18, 67, 276},
		{8, 3, 12, 22, 42}, {7, 0, 2, 3, 10}, {6, 0, 2, 3, 5}, {4, 0, 2, 3, 4}, {2, 0, 2, 3, 3},
	} {
		d := new(decoder)
		if err := d.start(c.precision, c.near); err != nil {
			t.Fatal(err)
		}
		for g := -d.maxval; g <= d.maxval; g++ {
			want := 0
			for _, threshold := range []int{c.near + 1, c.t1, c.t2, c.t3} {
				if max(g, -g) >= threshold {
					want++
				}
			}
			if g < 0 {
				want = -want
			}
			if got := int(d.quantized[g+d.maxval]); got != want {
				t.Fatalf("%d bits, near %d: gradient %d is quantised to %d, want %d", c.precision, c.near, g, got, want)
			}
		}
	}
}

// What is wrong with an image is told, and whose fault it is.
func TestRefusals(t *testing.T) {
	change := func(marker byte, offset int, value byte) []byte {
		b := slices.Clone(example)
		b[bytes.Index(b, []byte{0xFF, marker})+offset] = value
		return b
	}
	before := func(marker ...byte) []byte { return slices.Concat(example[:2], marker, example[2:]) }
	for name, c := range map[string]struct {
		data []byte
		want string // * at the front for what is not supported
	}{
		"three components": {change(0xF7, 9, 3), "*3 components: only grey images are read"},
		"one bit":          {change(0xF7, 4, 1), "impossible precision of 1 bits"},
		"another height":   {change(0xF7, 6, 5), "the image has 4x5 pixels, not 4x4"},
		"a baseline frame": {change(0xF7, 1, 0xC0), "this is another kind of JPEG"},
		"palette":          {change(0xDA, 6, 1), "*palettes are not read"},
		"near 128 of 255":  {change(0xDA, 7, 128), "impossible parameters"},
		"thresholds upside down": {before(0xFF, 0xF8, 0, 13, 1, 0, 255, 0, 9, 0, 8, 0, 7, 0, 64),
			"impossible thresholds"},
		"a mapping table":          {before(0xFF, 0xF8, 0, 5, 2, 1, 1), "*palettes and oversize images are not read"},
		"restarts, but no markers": {before(0xFF, 0xDD, 0, 4, 0, 2), "ends in the middle of the image"},
		"no scan":                  {example[:15], "ends before its image"},
		"no data":                  {example[:25], "ends in the middle of the image"},
	} {
		_, err := Decode(c.data, 4, 4, make([]uint32, 16))
		want, refused := strings.CutPrefix(c.want, "*")
		var unsupported *volume.UnsupportedError
		if err == nil || !strings.HasSuffix(err.Error(), want) || errors.As(err, &unsupported) != refused {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
