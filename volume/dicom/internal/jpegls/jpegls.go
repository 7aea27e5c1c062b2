// Package jpegls decodes grey JPEG-LS images (ITU-T T.87), lossless and near-lossless, of 2 to 16
// bits.
//
// Start at [Decode]. Colour and palettes are refused as unsupported. Variables have the names of
// the standard.
package jpegls

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/voxsaw/voxsaw/volume"
)

func unsupported(format string, args ...any) error {
	return &volume.UnsupportedError{Problem: "JPEG-LS: " + fmt.Sprintf(format, args...)}
}

var errShort = errors.New("JPEG-LS: ends in the middle of the image")

// Decode decodes an image of columns x rows samples into out, row by row. It returns the number of
// bits per sample. An image that is correct but not read gives a [*volume.UnsupportedError]; any
// other error means that the data are damaged.
func Decode(data []byte, columns, rows int, out []uint32) (precision int, err error) {
	if len(data) < 2 || data[0] != 0xFF || data[1] != 0xD8 {
		return 0, errors.New("JPEG-LS: no start of image")
	}
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	d.preset, d.restart = [5]int{}, 0
	framed := false
	for at := 2; ; {
		if at+4 > len(data) || data[at] != 0xFF {
			return 0, errors.New("JPEG-LS: ends before its image")
		}
		marker := data[at+1]
		if marker == 0xFF {
			at++
			continue
		}
		length := int(binary.BigEndian.Uint16(data[at+2:]))
		if length < 2 || at+2+length > len(data) {
			return 0, errors.New("JPEG-LS: ends in the middle of a marker")
		}
		b := data[at+4 : at+2+length]
		at += 2 + length
		switch marker {
		case 0xF7: // SOF55
			if len(b) < 9 || framed {
				return 0, errors.New("JPEG-LS: damaged frame header")
			}
			framed = true
			precision = int(b[0])
			height, width := int(binary.BigEndian.Uint16(b[1:])), int(binary.BigEndian.Uint16(b[3:]))
			if b[5] != 1 {
				return 0, unsupported("%d components: only grey images are read", b[5])
			}
			if precision < 2 || precision > 16 {
				return 0, fmt.Errorf("JPEG-LS: impossible precision of %d bits", precision)
			}
			if width != columns || height != rows {
				return 0, fmt.Errorf("JPEG-LS: the image has %dx%d pixels, not %dx%d", width, height, columns, rows)
			}
		case 0xF8: // LSE
			if len(b) < 1 {
				return 0, errors.New("JPEG-LS: damaged parameters")
			}
			if b[0] != 1 {
				return 0, unsupported("palettes and oversize images are not read")
			}
			if len(b) < 11 {
				return 0, errors.New("JPEG-LS: damaged parameters")
			}
			for n := range d.preset {
				d.preset[n] = int(binary.BigEndian.Uint16(b[1+2*n:]))
			}
		case 0xDD: // DRI (C.2.5)
			if len(b) < 2 || len(b) > 4 {
				return 0, errors.New("JPEG-LS: damaged restart interval")
			}
			d.restart = 0
			for _, x := range b {
				d.restart = d.restart<<8 | int(x)
			}
		case 0xDA: // SOS
			if !framed || len(b) < 6 || b[0] != 1 {
				return 0, errors.New("JPEG-LS: damaged scan header")
			}
			if b[2] != 0 {
				return 0, unsupported("palettes are not read")
			}
			if err := d.start(precision, int(b[3])); err != nil {
				return 0, err
			}
			d.r = reader{data: data[at:]}
			return precision, d.scan(columns, rows, out)
		case 0xC0, 0xC1, 0xC2, 0xC3:
			return 0, errors.New("JPEG-LS: this is another kind of JPEG")
		case 0xD9:
			return 0, errors.New("JPEG-LS: ends before its image")
		}
	}
}

// reader reads bits, the highest first. The byte after a byte 0xFF has only seven of them.
type reader struct {
	data []byte
	at   int
	bits uint64 // the next n bits, at the top
	n    int
	over int // zeros that were added after the end or in place of a marker
}

// fill reads ahead until at least 57 bits are available. After the end it adds zeros.
func (r *reader) fill() {
	for r.n <= 56 {
		if r.at >= len(r.data) || r.data[r.at] == 0xFF && (r.at+1 >= len(r.data) || r.data[r.at+1] >= 0x80) {
			r.over += 8
			r.n += 8
			continue
		}
		width := 8
		if r.at > 0 && r.data[r.at-1] == 0xFF {
			width = 7
		}
		r.bits |= uint64(r.data[r.at]) << (64 - width) >> r.n
		r.n += width
		r.at++
	}
}

// restart goes to the data behind the next marker. It reports whether that is a restart marker.
func (r *reader) restart() bool {
	for ; r.at+1 < len(r.data); r.at++ {
		// A byte 0xFF before a marker is a fill byte.
		if r.data[r.at] == 0xFF && r.data[r.at+1] >= 0x80 && r.data[r.at+1] != 0xFF {
			marker := r.data[r.at+1]
			*r = reader{data: r.data[r.at+2:]}
			return marker >= 0xD0 && marker <= 0xD7
		}
	}
	return false
}

// short reports whether bits after the end were used.
func (r *reader) short() bool { return r.over > r.n }

// read returns the next k <= 32 bits.
func (r *reader) read(k int) int {
	if r.n < k {
		r.fill()
	}
	v := r.bits >> 1 >> (63 - k)
	r.bits <<= k
	r.n -= k
	return int(v)
}

// golomb reads a number in the Golomb code with parameter k, whose code words have at most limit
// bits (A.5.3).
func (r *reader) golomb(k, limit, qbpp int) int {
	if r.n < 57 {
		r.fill()
	}
	zeros := bits.LeadingZeros64(r.bits)
	most := limit - qbpp - 1
	if zeros >= most { // most is 47 at most, so the bits are available
		r.bits <<= most + 1
		r.n -= most + 1
		return r.read(qbpp) + 1
	}
	r.bits <<= zeros + 1
	r.n -= zeros + 1
	return zeros<<k | r.read(k)
}

// decoder holds the parameters and the contexts.
type decoder struct {
	r reader
	// MAXVAL, T1, T2, T3, RESET; 0 for the default
	preset                                       [5]int
	maxval, near, step, span, qbpp, limit, reset int
	restart                                      int // interval in lines, 0 for none
	// Q of a local gradient, by the gradient plus maxval
	quantized []int8
	contexts  [365]context
	runs      [2]context // of run interruption: RItype 0 and 1
	runIndex  int
}

// decoders are reused from image to image.
var decoders = sync.Pool{New: func() any { return new(decoder) }}

// context holds A, B (Nn for run interruption), C and N.
type context struct{ a, b, c, n int }

func clamp(i, least, most int) int {
	if i > most || i < least {
		return least
	}
	return i
}

// start sets the parameters (C.2.4.1.1).
func (d *decoder) start(precision, near int) error {
	d.maxval = 1<<precision - 1
	if d.preset[0] != 0 {
		d.maxval = d.preset[0]
	}
	d.near, d.reset = near, 64
	if d.maxval >= 1<<precision || near > min(255, d.maxval/2) {
		return errors.New("JPEG-LS: impossible parameters")
	}
	var t1, t2, t3 int
	if d.maxval >= 128 {
		f := (min(d.maxval, 4095) + 128) / 256
		t1 = clamp(f+2+3*near, near+1, d.maxval)
		t2 = clamp(4*f+3+5*near, t1, d.maxval)
		t3 = clamp(17*f+4+7*near, t2, d.maxval)
	} else {
		f := 256 / (d.maxval + 1)
		t1 = clamp(max(2, 3/f+3*near), near+1, d.maxval)
		t2 = clamp(max(3, 7/f+5*near), t1, d.maxval)
		t3 = clamp(max(4, 21/f+7*near), t2, d.maxval)
	}
	for n, t := range []*int{&t1, &t2, &t3, &d.reset} {
		if d.preset[n+1] != 0 {
			*t = d.preset[n+1]
		}
	}
	if t1 < near+1 || t2 < t1 || t3 < t2 || t3 > d.maxval || d.reset < 3 {
		return errors.New("JPEG-LS: impossible thresholds")
	}
	d.step = 2*near + 1
	d.span = d.maxval + 1
	if near > 0 {
		d.span = (d.maxval+2*near)/d.step + 1
	}
	d.qbpp = bits.Len(uint(d.span - 1))
	bpp := max(2, bits.Len(uint(d.maxval)))
	d.limit = 2 * (bpp + max(8, bpp))
	d.quantized = slices.Grow(d.quantized[:0], 2*d.maxval+1)[:2*d.maxval+1]
	for n := range d.quantized {
		g := n - d.maxval
		q := int8(0)
		for _, t := range []int{near + 1, t1, t2, t3} {
			if max(g, -g) >= t {
				q++
			}
		}
		if g < 0 {
			q = -q
		}
		d.quantized[n] = q
	}
	return nil
}

// forget sets the contexts to their initial values (A.2.1).
func (d *decoder) forget() {
	a := max(2, (d.span+32)/64)
	for n := range d.contexts {
		d.contexts[n] = context{a: a, n: 1}
	}
	d.runs = [2]context{{a: a, n: 1}, {a: a, n: 1}}
	d.runIndex = 0
}

// runLengths is J: logarithms of the lengths of runs (A.2.1).
var runLengths = [32]int{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 9, 10, 11, 12, 13,
	14, 15}

func (d *decoder) scan(columns, rows int, out []uint32) error {
	// Each line has one more sample at each end: Ra and Rc on the left, Rd on the right (A.2.1).
	previous, line := make([]int, columns+2), make([]int, columns+2)
	d.forget()
	for row := range rows {
		if d.restart > 0 && row > 0 && row%d.restart == 0 {
			if !d.r.restart() {
				return errShort
			}
			d.forget()
			clear(previous)
		}
		line[0] = previous[1]
		previous[columns+1] = previous[columns]
		for i := 1; i <= columns; {
			ra, rb, rc, rd := line[i-1], previous[i], previous[i-1], previous[i+1]
			q1, q2, q3 := d.quantized[rd-rb+d.maxval], d.quantized[rb-rc+d.maxval], d.quantized[rc-ra+d.maxval]
			if q1|q2|q3 == 0 {
				i = d.run(line, previous, i, columns)
				continue
			}
			line[i] = d.regular(ra, rb, rc, (int(q1)*9+int(q2))*9+int(q3))
			i++
		}
		if d.r.short() {
			return errShort
		}
		dst := out[row*columns:][:columns]
		for i := range dst {
			dst[i] = uint32(line[i+1])
		}
		previous, line = line, previous
	}
	return nil
}

// regular decodes a sample in the context q (A.4 to A.6).
func (d *decoder) regular(ra, rb, rc, q int) int {
	sign := 1
	if q < 0 {
		q, sign = -q, -1
	}
	c := &d.contexts[q]
	p := ra + rb - rc
	if rc >= max(ra, rb) {
		p = min(ra, rb)
	} else if rc <= min(ra, rb) {
		p = max(ra, rb)
	}
	p = min(max(p+sign*c.c, 0), d.maxval)
	k := 0
	for c.n<<k < c.a && k < 24 {
		k++
	}
	m := d.r.golomb(k, d.limit, d.qbpp)
	e := m >> 1
	if m&1 != 0 {
		e = -e - 1
	}
	if d.near == 0 && k == 0 && 2*c.b <= -c.n {
		e = -e - 1
	}
	c.b += e * d.step
	c.a += max(e, -e)
	if c.n == d.reset {
		c.a >>= 1
		c.b >>= 1
		c.n >>= 1
	}
	c.n++
	if c.b <= -c.n {
		c.b += c.n
		c.c = max(c.c-1, -128)
		c.b = max(c.b, -c.n+1)
	} else if c.b > 0 {
		c.b -= c.n
		c.c = min(c.c+1, 127)
		c.b = min(c.b, 0)
	}
	return d.reconstruct(p, sign*e)
}

// reconstruct adds an error to a prediction, modulo RANGE (A.4.5).
func (d *decoder) reconstruct(p, e int) int {
	x := p + e*d.step
	if x < -d.near {
		x += d.span * d.step
	} else if x > d.maxval+d.near {
		x -= d.span * d.step
	}
	return min(max(x, 0), d.maxval)
}

// run decodes a run of equal samples that begins at column i, and the sample that interrupts it
// (A.7). It returns the column behind them.
func (d *decoder) run(line, previous []int, i, columns int) int {
	ra := line[i-1]
	for d.r.read(1) == 1 {
		full := 1 << runLengths[d.runIndex]
		n := min(full, columns+1-i)
		for range n {
			line[i] = ra
			i++
		}
		if n == full && d.runIndex < 31 {
			d.runIndex++
		}
		if i > columns || d.r.short() {
			return i
		}
	}
	for range min(d.r.read(runLengths[d.runIndex]), columns+1-i) {
		line[i] = ra
		i++
	}
	if i > columns {
		d.r.over += 1 << 20 // a run that does not end in its line is damaged: short reports it
		return i
	}
	rb := previous[i]
	kind, p, sign := 0, rb, 1
	if max(ra-rb, rb-ra) <= d.near {
		kind, p = 1, ra
	} else if ra > rb {
		sign = -1
	}
	c := &d.runs[kind]
	a := c.a
	if kind == 1 {
		a += c.n >> 1
	}
	k := 0
	for c.n<<k < a && k < 24 {
		k++
	}
	m := d.r.golomb(k, d.limit-runLengths[d.runIndex]-1, d.qbpp)
	odd := (m + kind) & 1
	e := (m + kind + odd) / 2
	if (k != 0 || 2*c.b >= c.n) == (odd == 1) {
		e = -e
	}
	if e < 0 {
		c.b++
	}
	c.a += (m + 1 - kind) >> 1
	if c.n == d.reset {
		c.a >>= 1
		c.b >>= 1
		c.n >>= 1
	}
	c.n++
	if d.runIndex > 0 {
		d.runIndex--
	}
	line[i] = d.reconstruct(p, sign*e)
	return i + 1
}
