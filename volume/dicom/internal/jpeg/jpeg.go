// Package jpeg decodes grey JPEG images (ITU-T T.81) as DICOM files hold them: baseline and
// extended sequential with 8 and 12 bits, and lossless (process 14) with 2 to 16 bits and any
// predictor.
//
// Start at [Decode]. Colour, progressive and hierarchical images, and arithmetic coding are refused
// as unsupported. The standard library's image/jpeg reads neither 12 bits nor lossless images. Its
// DCT also rounds differently from the IJG library, which DICOM tools use. The DCT here gives the
// same samples as the IJG library.
package jpeg

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/voxsaw/voxsaw/volume"
)

// decoder holds the parameters from the markers before the scan.
type decoder struct {
	columns, rows int
	precision     int
	lossless      bool
	quantizer     int // index of the quantisation table in tables
	tables        [4][64]int32
	hasTable      [4]bool
	huffman       [2][4]*huffman // by class (0: DC or lossless, 1: AC) and index
	restart       int            // interval in 8x8 blocks (lossless: in samples), 0 for none
	buffer        []byte         // with capacity for the entropy-coded data
	framed        bool
}

func unsupported(format string, args ...any) error {
	return &volume.UnsupportedError{Problem: "JPEG: " + fmt.Sprintf(format, args...)}
}

// Decode decodes an image of columns x rows samples into out, row by row. It returns the number of
// bits per sample. An image that is correct but not read gives a [*volume.UnsupportedError]; any
// other error means that the data are damaged.
func Decode(data []byte, columns, rows int, out []uint32) (precision int, err error) {
	d := decoder{}
	if len(data) < 2 || data[0] != 0xFF || data[1] != 0xD8 {
		return 0, errors.New("JPEG: no start of image")
	}
	at := 2
	for {
		// Fill bytes may stand before a marker.
		for at < len(data) && data[at] != 0xFF {
			at++
		}
		for at < len(data) && data[at] == 0xFF {
			at++
		}
		if at >= len(data) {
			return 0, errors.New("JPEG: ends before its image")
		}
		marker := data[at]
		at++
		if marker == 0 || marker == 1 || marker >= 0xD0 && marker <= 0xD8 {
			continue
		}
		if marker == 0xD9 {
			return 0, errors.New("JPEG: ends before its image")
		}
		if at+2 > len(data) {
			return 0, errors.New("JPEG: ends in the middle of a marker")
		}
		length := int(binary.BigEndian.Uint16(data[at:]))
		if length < 2 || at+length > len(data) {
			return 0, errors.New("JPEG: ends in the middle of a marker")
		}
		body := data[at+2 : at+length]
		at += length
		switch marker {
		case 0xC0, 0xC1, 0xC3:
			err = d.frame(body, marker == 0xC3)
		case 0xC4:
			err = d.defineHuffman(body)
		case 0xDB:
			err = d.defineQuantizers(body)
		case 0xDD:
			if len(body) < 2 {
				return 0, errors.New("JPEG: restart interval is cut short")
			}
			d.restart = int(binary.BigEndian.Uint16(body))
		case 0xC2, 0xC6, 0xCA, 0xCE:
			err = unsupported("progressive images are not read")
		case 0xC5, 0xC7, 0xCD, 0xCF:
			err = unsupported("hierarchical images are not read")
		case 0xC9, 0xCB:
			err = unsupported("arithmetic coding is not read")
		case 0xDA:
			if !d.framed {
				return 0, errors.New("JPEG: a scan before its frame")
			}
			if d.columns != columns || d.rows != rows {
				return 0, fmt.Errorf("JPEG: the image has %dx%d pixels, not %dx%d", d.columns, d.rows, columns, rows)
			}
			return d.precision, d.scan(body, data[at:], out)
		}
		if err != nil {
			return 0, err
		}
	}
}

func (d *decoder) frame(b []byte, lossless bool) error {
	if len(b) < 9 {
		return errors.New("JPEG: frame header is cut short")
	}
	if d.framed {
		return errors.New("JPEG: more than one frame")
	}
	d.framed, d.lossless = true, lossless
	d.precision, d.rows, d.columns = int(b[0]), int(binary.BigEndian.Uint16(b[1:])), int(binary.BigEndian.Uint16(b[3:]))
	if b[5] != 1 {
		return unsupported("%d components: only grey images are read", b[5])
	}
	d.quantizer = int(b[8])
	switch {
	case lossless && (d.precision < 2 || d.precision > 16), !lossless && d.precision != 8 && d.precision != 12:
		return fmt.Errorf("JPEG: impossible precision of %d bits", d.precision)
	case !lossless && d.quantizer > 3:
		return errors.New("JPEG: impossible quantisation table")
	}
	return nil
}

func (d *decoder) defineQuantizers(b []byte) error {
	for len(b) > 0 {
		n, wide := int(b[0]&15), b[0]>>4 != 0
		size := 64
		if wide {
			size = 128
		}
		b = b[1:]
		if n > 3 || len(b) < size {
			return errors.New("JPEG: damaged quantisation table")
		}
		for k := range 64 {
			if wide {
				d.tables[n][zigzag[k]] = int32(binary.BigEndian.Uint16(b[2*k:]))
			} else {
				d.tables[n][zigzag[k]] = int32(b[k])
			}
		}
		d.hasTable[n] = true
		b = b[size:]
	}
	return nil
}

func (d *decoder) defineHuffman(b []byte) error {
	for len(b) > 0 {
		if len(b) < 17 {
			return errors.New("JPEG: damaged Huffman table")
		}
		class, n := int(b[0]>>4), int(b[0]&15)
		total := 0
		for _, c := range b[1:17] {
			total += int(c)
		}
		if class > 1 || n > 3 || len(b) < 17+total {
			return errors.New("JPEG: damaged Huffman table")
		}
		h, err := newHuffman(b[1:17], b[17:17+total])
		if err != nil {
			return err
		}
		d.huffman[class][n] = h
		b = b[17+total:]
	}
	return nil
}

// buffers are reused from image to image.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// scan decodes the scan, which is the only one of the image.
func (d *decoder) scan(b, data []byte, out []uint32) error {
	if len(b) < 6 || b[0] != 1 {
		return errors.New("JPEG: damaged scan header")
	}
	dc, ac := d.huffman[0][b[2]>>4&3], d.huffman[1][b[2]&3]
	predictor, shift := int(b[3]), int(b[5]&15)
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	*buffer = slices.Grow((*buffer)[:0], len(data))
	d.buffer = *buffer
	if dc == nil {
		return errors.New("JPEG: a Huffman table is missing")
	}
	if d.lossless {
		if predictor < 1 || predictor > 7 || shift >= d.precision {
			return fmt.Errorf("JPEG: impossible predictor %d with point transform %d", predictor, shift)
		}
		return d.decodeLossless(data, out, dc, predictor, shift)
	}
	if ac == nil || !d.hasTable[d.quantizer] {
		return errors.New("JPEG: a table is missing")
	}
	return d.decodeDCT(data, out, dc, ac, &d.tables[d.quantizer])
}

// segment returns the entropy-coded data up to the next marker, without stuffed bytes. If that
// marker is a restart, rest is the data behind it; otherwise rest is nil.
func segment(data, buffer []byte) (bits, rest []byte) {
	bits = buffer[:0]
	for {
		n := bytes.IndexByte(data, 0xFF)
		if n < 0 || n+1 >= len(data) {
			return append(bits, data...), nil
		}
		bits = append(bits, data[:n]...)
		switch next := data[n+1]; {
		case next == 0:
			bits = append(bits, 0xFF)
			data = data[n+2:]
		case next == 0xFF: // fill
			data = data[n+1:]
		case next >= 0xD0 && next <= 0xD7:
			return bits, data[n+2:]
		default:
			return bits, nil
		}
	}
}

// errShort is returned when the entropy-coded data end before the image is complete.
var errShort = errors.New("JPEG: ends in the middle of the image")

// bitReader reads bits from data without stuffed bytes, the highest bit first. After the end it
// reads zeros and counts them in over.
type bitReader struct {
	data []byte
	at   int
	bits uint64 // the next n bits, at the top
	n    int
	over int // zeros that were added after the end
}

// fill reads ahead until at least 56 bits are available.
func (r *bitReader) fill() {
	if r.at+8 <= len(r.data) {
		r.bits |= binary.BigEndian.Uint64(r.data[r.at:]) >> r.n
		take := (63 - r.n) >> 3
		r.at += take
		r.n += take << 3
		return
	}
	for r.n <= 56 {
		if r.at < len(r.data) {
			r.bits |= uint64(r.data[r.at]) << (56 - r.n)
			r.at++
		} else {
			r.over += 8
		}
		r.n += 8
	}
}

func (r *bitReader) skip(n int) {
	r.bits <<= n
	r.n -= n
}

// short reports whether bits after the end were used.
func (r *bitReader) short() bool { return r.over > r.n }

// huffman decodes the symbols of one table (T.81 annex C and F.2.2.3).
type huffman struct {
	// by the next fastBits bits: length<<8 | symbol, 0 for longer codes
	fast    [1 << fastBits]uint16
	symbols []byte
	limit   [18]int32 // by length: 1 + the greatest code, shifted left to 16 bits
	offset  [17]int32 // by length: index of a symbol minus its code
}

const fastBits = 11

func newHuffman(counts, symbols []byte) (*huffman, error) {
	h := &huffman{symbols: symbols}
	code, index := int32(0), int32(0)
	for length := 1; length <= 16; length++ {
		n := int32(counts[length-1])
		h.offset[length] = index - code
		if code+n > 1<<length {
			return nil, errors.New("JPEG: impossible Huffman table")
		}
		if length <= fastBits {
			for k := range n {
				entry := uint16(length)<<8 | uint16(symbols[index+k])
				from := (code + k) << (fastBits - length)
				for e := range int32(1) << (fastBits - length) {
					h.fast[from+e] = entry
				}
			}
		}
		code += n
		index += n
		h.limit[length] = code << (16 - length)
		code <<= 1
	}
	h.limit[17] = 1 << 30
	return h, nil
}

// next decodes a symbol. At least 16 bits must be available. A code that does not exist gives 0,
// and short will report it.
func (h *huffman) next(r *bitReader) int {
	if e := h.fast[r.bits>>(64-fastBits)]; e != 0 {
		r.skip(int(e >> 8))
		return int(e & 0xFF)
	}
	top := int32(r.bits >> 48)
	length := fastBits + 1
	for top >= h.limit[length] {
		length++
	}
	if length > 16 {
		r.skip(16)
		r.over += 1 << 20 // so that short reports it
		return 0
	}
	r.skip(length)
	return int(h.symbols[top>>(16-length)+h.offset[length]])
}

// extend reads the n bits that follow category n and returns their value (T.81 figure F.12).
func (r *bitReader) extend(n int) int32 {
	if n == 0 {
		return 0
	}
	v := int32(r.bits >> (64 - n))
	r.skip(n)
	if v < 1<<(n-1) {
		v += -1<<n + 1
	}
	return v
}
