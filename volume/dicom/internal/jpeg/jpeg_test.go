package jpeg

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	stdjpeg "image/jpeg"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// The tests of volume/dicom compare streams of dcmtk, which are all of one size. Here are images of
// other sizes: edges that fill no block, single rows and single samples.

// Baseline images of the standard library's encoder, whose decoder has another inverse DCT: its
// samples differ by 1 at most.
func TestBaselineOfEverySize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for columns := 1; columns < 36; columns++ {
		rows := 1 + r.IntN(36)
		m := image.NewGray(image.Rect(0, 0, columns, rows))
		for n := range m.Pix {
			m.Pix[n] = byte(3*n + r.IntN(40))
		}
		var b bytes.Buffer
		if err := stdjpeg.Encode(&b, m, &stdjpeg.Options{Quality: 1 + r.IntN(100)}); err != nil {
			t.Fatal(err)
		}
		decoded, err := stdjpeg.Decode(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		want := decoded.(*image.Gray)
		out := make([]uint32, columns*rows)
		if precision, err := Decode(b.Bytes(), columns, rows, out); err != nil || precision != 8 {
			t.Fatal(columns, rows, precision, err)
		}
		for n, got := range out {
			if w := int(want.GrayAt(n%columns, n/columns).Y); int(got)-w > 1 || w-int(got) > 1 {
				t.Fatalf("%dx%d: sample %d is %d, image/jpeg's is %d", columns, rows, n, got, w)
			}
		}
	}
}

// lossless is an encoder of process 14 (T.81 annex H) with a Huffman table that has all categories
// in five bits. Interval is the restart interval in rows.
func lossless(samples []uint32, columns, precision, predictor, shift, interval int) []byte {
	rows := len(samples) / columns
	out := []byte{0xFF, 0xD8, 0xFF, 0xC3, 0, 11, byte(precision), byte(rows >> 8), byte(rows), byte(columns >> 8),
		byte(columns), 1, 1, 0x11, 0}
	out = append(out, 0xFF, 0xC4, 0, 19+17, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	for category := range 17 {
		out = append(out, byte(category))
	}
	if interval > 0 {
		out = append(out, 0xFF, 0xDD, 0, 4, byte(interval*columns>>8), byte(interval*columns))
	}
	out = append(out, 0xFF, 0xDA, 0, 8, 1, 1, 0, byte(predictor), 0, byte(shift))
	var word uint64
	count := 0
	put := func(v uint32, n int) {
		word, count = word<<n|uint64(v), count+n
		for ; count >= 8; count -= 8 {
			b := byte(word >> (count - 8))
			if out = append(out, b); b == 0xFF {
				out = append(out, 0)
			}
		}
	}
	fill := func() {
		n := (8 - count%8) % 8
		put(1<<n-1, n)
	}
	at := func(x, y int) int32 { return int32(samples[y*columns+x] >> shift) }
	for y := range rows {
		first := y == 0
		if interval > 0 && y > 0 && y%interval == 0 {
			fill()
			out = append(out, 0xFF, 0xD0+byte(y/interval-1)%8)
			first = true
		}
		for x := range columns {
			var p int32
			switch {
			case first && x == 0:
				p = 1 << (precision - shift - 1)
			case first:
				p = at(x-1, y)
			case x == 0:
				p = at(x, y-1)
			default:
				a, b, c := at(x-1, y), at(x, y-1), at(x-1, y-1)
				p = []int32{a, b, c, a + b - c, a + (b-c)>>1, b + (a-c)>>1, (a + b) >> 1}[predictor-1]
			}
			d := int32(int16(at(x, y) - p)) // modulo 2^16
			if d == -32768 {
				put(16, 5)
				continue
			}
			category := bits.Len32(uint32(max(d, -d)))
			put(uint32(category), 5)
			if d < 0 {
				d--
			}
			put(uint32(d)&(1<<category-1), category)
		}
	}
	fill()
	return append(out, 0xFF, 0xD9)
}

func TestLosslessOfEveryKind(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 1000 {
		columns, rows, precision, predictor := 1+r.IntN(20), 1+r.IntN(20), 2+r.IntN(15), 1+n%7
		shift, interval := 0, 0
		if r.IntN(3) == 0 {
			shift = r.IntN(precision)
		}
		if r.IntN(3) == 0 {
			interval = 1 + r.IntN(rows)
		}
		samples := make([]uint32, columns*rows)
		for k := range samples {
			samples[k] = r.Uint32() & (1<<precision - 1)
			if n%2 == 0 { // smooth
				samples[k] = uint32(k*7+r.IntN(3)) & (1<<precision - 1)
			}
		}
		name := fmt.Sprintf("%dx%d, %d bits, predictor %d, point transform %d, restarts every %d rows", columns, rows,
			precision, predictor, shift, interval)
		out := make([]uint32, len(samples))
		got, err := Decode(lossless(samples, columns, precision, predictor, shift, interval), columns, rows, out)
		if err != nil || got != precision {
			t.Fatal(name, got, err)
		}
		for k, v := range samples {
			if out[k] != v>>shift<<shift {
				t.Fatalf("%s: sample %d is %d, want %d", name, k, out[k], v>>shift<<shift)
			}
		}
	}
}

// Errors say what is wrong with an image, and whose fault it is.
func TestRefusals(t *testing.T) {
	good := lossless([]uint32{1, 2, 3, 4, 5, 6}, 3, 8, 1, 0, 0)
	change := func(marker byte, offset int, value byte) []byte {
		b := slices.Clone(good)
		b[bytes.Index(b, []byte{0xFF, marker})+offset] = value
		return b
	}
	for name, c := range map[string]struct {
		data []byte
		want string // * at the front for what is not supported
	}{
		"three components":     {change(0xC3, 9, 3), "*3 components: only grey images are read"},
		"progressive":          {change(0xC3, 1, 0xC2), "*progressive images are not read"},
		"17 bits":              {change(0xC3, 4, 17), "impossible precision of 17 bits"},
		"one bit":              {change(0xC3, 4, 1), "impossible precision of 1 bits"},
		"another width":        {change(0xC3, 8, 4), "the image has 4x2 pixels, not 3x2"},
		"predictor 8":          {change(0xDA, 7, 8), "impossible predictor 8 with point transform 0"},
		"predictor 0":          {change(0xDA, 7, 0), "impossible predictor 0 with point transform 0"},
		"point transform of 8": {change(0xDA, 9, 8), "impossible predictor 1 with point transform 8"},
		"another table":        {change(0xDA, 6, 0x10), "a Huffman table is missing"},
		"too many codes":       {change(0xC4, 5, 3), "damaged Huffman table"},
		"codes that do not fit": {slices.Concat(good[:bytes.Index(good, []byte{0xFF, 0xC4})],
			[]byte{0xFF, 0xC4, 0, 22, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3}),
			"impossible Huffman table"},
		"no scan": {good[:bytes.Index(good, []byte{0xFF, 0xDA})], "ends before its image"},
		"restarts within a row": {slices.Concat(good[:2], []byte{0xFF, 0xDD, 0, 4, 0, 2}, good[2:]),
			"*restarts within a row of a lossless image are not read"},
		"no restart marker": {slices.Concat(good[:2], []byte{0xFF, 0xDD, 0, 4, 0, 3}, good[2:]),
			"ends in the middle of the image"},
	} {
		_, err := Decode(c.data, 3, 2, make([]uint32, 6))
		want, refused := strings.CutPrefix(c.want, "*")
		var unsupported *volume.UnsupportedError
		if err == nil || !strings.HasSuffix(err.Error(), want) || errors.As(err, &unsupported) != refused {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
