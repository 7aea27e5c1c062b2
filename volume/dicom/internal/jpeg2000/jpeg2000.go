// Package jpeg2000 decodes grey JPEG 2000 images (ITU-T T.800), reversible and irreversible, as
// bare code streams or in a JP2 file.
//
// Start at [Decode]. The way of the data: markers (jpeg2000.go), packets (packet.go) that bring the
// code-blocks of a tile (tile.go) their coded bit-planes (block.go), and the inverse wavelet
// transform (wavelet.go). It leaves out colour, packed packet headers, and high throughput (HTJ2K):
// they are refused as unsupported. Numbers in parentheses are sections of T.800.
package jpeg2000

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/voxsaw/voxsaw/volume"
)

func unsupported(format string, args ...any) error {
	return &volume.UnsupportedError{Problem: "JPEG 2000: " + fmt.Sprintf(format, args...)}
}

var (
	errShort   = errors.New("JPEG 2000: ends in the middle of the image")
	errMarker  = errors.New("JPEG 2000: damaged marker")
	errDamaged = errors.New("JPEG 2000: damaged packet")
)

// rectangle is x0 <= x < x1, y0 <= y < y1.
type rectangle struct{ x0, y0, x1, y1 int }

func (r rectangle) width() int  { return r.x1 - r.x0 }
func (r rectangle) height() int { return r.y1 - r.y0 }
func (r rectangle) empty() bool { return r.x0 >= r.x1 || r.y0 >= r.y1 }

func (r rectangle) intersect(s rectangle) rectangle {
	return rectangle{max(r.x0, s.x0), max(r.y0, s.y0), min(r.x1, s.x1), min(r.y1, s.y1)}
}

// Progression orders (table A.16).
const (
	layerResolutionPosition = iota
	resolutionLayerPosition
	resolutionPositionLayer
	positionResolutionLayer
	componentPositionResolutionLayer // one component: as positionResolutionLayer
)

// Code-block styles (table A.19).
const (
	styleBypass = 1 << iota
	styleReset
	styleTerminate
	styleCausal
	stylePredictable
	styleSegmentation
)

// coding is what a COD or COC marker says (A.6.1, A.6.2).
type coding struct {
	progression, layers int
	sop, eph            bool
	levels              int // of decomposition
	blockX, blockY      int // logarithms of the code-blocks' size
	style               int
	reversible          bool
	precincts           [33][2]int // logarithms of their size, by resolution
}

// quantization is what a QCD or QCC marker says (A.6.4, A.6.5).
type quantization struct {
	style, guard int
	exponents    []int
	mantissas    []int
}

// decoder holds what the markers say.
type decoder struct {
	image, tiles  rectangle // on the reference grid; tiles is the first tile, unclipped
	columns, rows int
	precision     int
	signed        bool
	coding        coding
	quantization  quantization
	shift         int           // of the region of interest
	changes       []progression // of the order of packets
	sized         bool          // SIZ was read
	coded, quant  bool          // COD and QCD were
}

// Decode decodes an image of columns x rows samples into out, row by row, and returns how many bits
// a sample has. Negative samples are in two's complement.
func Decode(data []byte, columns, rows int, out []uint32) (precision int, err error) {
	if data, err = unwrap(data); err != nil {
		return 0, err
	}
	d := &decoder{columns: columns, rows: rows}
	if len(data) < 4 || data[0] != 0xFF || data[1] != 0x4F {
		return 0, errors.New("JPEG 2000: no start of code stream")
	}
	tiles := map[int]*tilePart{}
	var order []int
	at := 2
	for {
		marker, body, next, err := readMarker(data, at)
		if err != nil {
			return 0, err
		}
		if marker == 0xFFD9 {
			break
		}
		if marker != 0xFF90 { // not SOT
			if err := d.marker(marker, body, nil); err != nil {
				return 0, err
			}
			at = next
			continue
		}
		if !d.sized || !d.coded || !d.quant {
			return 0, errors.New("JPEG 2000: the main header is not complete")
		}
		if len(body) < 8 {
			return 0, errMarker
		}
		index, length := int(binary.BigEndian.Uint16(body)), int(binary.BigEndian.Uint32(body[2:]))
		end := at + length
		if length == 0 || end > len(data) {
			end = len(data) // the last tile-part may leave its length open
		}
		part := tiles[index]
		if part == nil {
			part = &tilePart{coding: d.coding, quantization: d.quantization, shift: d.shift, changes: d.changes}
			tiles[index] = part
			order = append(order, index)
		}
		for at = next; ; at = next {
			if marker, body, next, err = readMarker(data, at); err != nil {
				return 0, err
			}
			if marker == 0xFF93 { // SOD
				at += 2
				break
			}
			if err := d.marker(marker, body, part); err != nil {
				return 0, err
			}
		}
		if end < at {
			return 0, errMarker
		}
		if length == 0 && end-2 >= at && data[end-2] == 0xFF && data[end-1] == 0xD9 {
			end -= 2
		}
		if part.data == nil {
			part.data = data[at:end:end] // mostly all of it: not copied
		} else {
			part.data = append(part.data, data[at:end]...)
		}
		at = end
		if at+2 > len(data) {
			break // the end marker is missing, the packets may all be there
		}
	}
	if !d.sized {
		return 0, errors.New("JPEG 2000: ends before its image")
	}
	across := (d.image.x1 - d.tiles.x0 + d.tiles.width() - 1) / d.tiles.width()
	down := (d.image.y1 - d.tiles.y0 + d.tiles.height() - 1) / d.tiles.height()
	if len(order) != across*down {
		return 0, errShort
	}
	for _, index := range order {
		if index >= across*down {
			return 0, fmt.Errorf("JPEG 2000: there is no tile %d", index)
		}
		p, q := index%across, index/across
		r := rectangle{d.tiles.x0 + p*d.tiles.width(), d.tiles.y0 + q*d.tiles.height(), d.tiles.x0 + (p+1)*d.tiles.width(), d.tiles.y0 + (q+1)*d.tiles.height()}
		if err := d.tile(r.intersect(d.image), tiles[index], out); err != nil {
			return 0, err
		}
	}
	return d.precision, nil
}

// unwrap returns the code stream of a JP2 file (annex I), or data itself.
func unwrap(data []byte) ([]byte, error) {
	if len(data) < 12 || !bytes.Equal(data[4:8], []byte("jP  ")) {
		return data, nil
	}
	for len(data) >= 8 {
		length, kind, header := uint64(binary.BigEndian.Uint32(data)), string(data[4:8]), uint64(8)
		if length == 1 {
			if len(data) < 16 {
				break
			}
			length, header = binary.BigEndian.Uint64(data[8:]), 16
		}
		if length == 0 {
			length = uint64(len(data))
		}
		if length < header || length > uint64(len(data)) {
			break
		}
		if kind == "jp2c" {
			return data[header:length], nil
		}
		data = data[length:]
	}
	return nil, errors.New("JPEG 2000: the file holds no code stream")
}

// readMarker reads the marker at an offset, its body, and where the next one is.
func readMarker(data []byte, at int) (marker int, body []byte, next int, err error) {
	if at+2 > len(data) {
		return 0, nil, 0, errShort
	}
	marker = int(binary.BigEndian.Uint16(data[at:]))
	if marker == 0xFF93 || marker == 0xFFD9 || marker >= 0xFF30 && marker <= 0xFF3F {
		return marker, nil, at + 2, nil
	}
	if marker < 0xFF00 || at+4 > len(data) {
		return 0, nil, 0, errMarker
	}
	length := int(binary.BigEndian.Uint16(data[at+2:]))
	if length < 2 || at+2+length > len(data) {
		return 0, nil, 0, errMarker
	}
	return marker, data[at+4 : at+2+length], at + 2 + length, nil
}

// marker takes in a marker of the main header, or of the header of a tile-part.
func (d *decoder) marker(marker int, b []byte, part *tilePart) error {
	c, q, shift := &d.coding, &d.quantization, &d.shift
	if part != nil {
		c, q, shift = &part.coding, &part.quantization, &part.shift
	}
	switch marker {
	case 0xFF51: // SIZ
		if part != nil || d.sized {
			return errMarker
		}
		return d.size(b)
	case 0xFF50: // CAP
		return unsupported("high throughput (HTJ2K) is not read")
	case 0xFF52: // COD
		d.coded = true
		return c.parse(b)
	case 0xFF53:
		// COC: one component number, of one byte for fewer than 257 components, then as COD from
		// Scoc on
		if len(b) < 7 || b[0] != 0 {
			return errMarker
		}
		return c.parseStyle(b[2:], b[1]&1 != 0)
	case 0xFF5C: // QCD
		d.quant = true
		return q.parse(b)
	case 0xFF5D: // QCC
		if len(b) < 2 || b[0] != 0 {
			return errMarker
		}
		return q.parse(b[1:])
	case 0xFF5E: // RGN
		if len(b) < 3 || b[1] != 0 || b[2] > 31 {
			return errMarker
		}
		*shift = int(b[2])
	case 0xFF5F: // POC
		changes, err := parseChanges(b)
		if err != nil {
			return err
		}
		switch {
		case part == nil:
			d.changes = append(d.changes, changes...)
		case part.ownChanges:
			part.changes = append(part.changes, changes...)
		default: // what the main header says is not for this tile
			part.changes, part.ownChanges = changes, true
		}
	case 0xFF60, 0xFF61:
		return unsupported("packed packet headers are not read")
	}
	return nil
}

// size reads SIZ (A.5.1).
func (d *decoder) size(b []byte) error {
	if len(b) < 39 {
		return errMarker
	}
	if binary.BigEndian.Uint16(b)&0x4000 != 0 {
		return unsupported("high throughput (HTJ2K) is not read")
	}
	var n [8]int
	for k := range n {
		u := binary.BigEndian.Uint32(b[2+4*k:])
		if u > math.MaxInt32 {
			return errMarker
		}
		n[k] = int(u)
	}
	if count := binary.BigEndian.Uint16(b[34:]); count != 1 {
		return unsupported("%d components: only grey images are read", count)
	}
	d.image = rectangle{n[2], n[3], n[0], n[1]}
	d.tiles = rectangle{n[6], n[7], n[6] + n[4], n[7] + n[5]}
	d.precision, d.signed = int(b[36]&0x7F)+1, b[36]&0x80 != 0
	if b[37] != 1 || b[38] != 1 {
		return unsupported("a subsampled component")
	}
	if d.image.width() != d.columns || d.image.height() != d.rows {
		return fmt.Errorf("JPEG 2000: the image has %dx%d pixels, not %dx%d", d.image.width(), d.image.height(), d.columns, d.rows)
	}
	if d.precision > 24 {
		return unsupported("%d bits a sample", d.precision)
	}
	if n[4] == 0 || n[5] == 0 || d.tiles.x0 > d.image.x0 || d.tiles.y0 > d.image.y0 || d.tiles.x1 <= d.image.x0 || d.tiles.y1 <= d.image.y0 {
		return errors.New("JPEG 2000: impossible tiles")
	}
	across := (d.image.x1 - d.tiles.x0 + n[4] - 1) / n[4]
	down := (d.image.y1 - d.tiles.y0 + n[5] - 1) / n[5]
	if across > 65535 || down > 65535 || across*down > 65535 {
		return errors.New("JPEG 2000: impossible tiles")
	}
	d.sized = true
	return nil
}

func (c *coding) parse(b []byte) error {
	if len(b) < 10 {
		return errMarker
	}
	c.sop, c.eph = b[0]&2 != 0, b[0]&4 != 0
	c.progression, c.layers = int(b[1]), int(binary.BigEndian.Uint16(b[2:]))
	if c.progression > componentPositionResolutionLayer || c.layers == 0 {
		return errMarker
	}
	return c.parseStyle(b[5:], b[0]&1 != 0)
}

func (c *coding) parseStyle(b []byte, precincts bool) error {
	c.levels, c.blockX, c.blockY, c.style = int(b[0]), int(b[1]&15)+2, int(b[2]&15)+2, int(b[3])
	c.reversible = b[4] == 1
	if c.levels > 32 || c.blockX > 10 || c.blockY > 10 || c.blockX+c.blockY > 12 || b[4] > 1 {
		return errMarker
	}
	if c.style&0x40 != 0 {
		return unsupported("high throughput (HTJ2K) is not read")
	}
	for r := range c.levels + 1 {
		c.precincts[r] = [2]int{15, 15}
		if precincts {
			if len(b) <= 5+r {
				return errMarker
			}
			c.precincts[r] = [2]int{int(b[5+r] & 15), int(b[5+r] >> 4)}
			if r > 0 && (c.precincts[r][0] == 0 || c.precincts[r][1] == 0) {
				return errMarker
			}
		}
	}
	return nil
}

func (q *quantization) parse(b []byte) error {
	if len(b) < 2 {
		return errMarker
	}
	q.style, q.guard = int(b[0]&31), int(b[0]>>5)
	q.exponents, q.mantissas = nil, nil
	b = b[1:]
	switch q.style {
	case 0:
		for _, x := range b {
			q.exponents, q.mantissas = append(q.exponents, int(x>>3)), append(q.mantissas, 0)
		}
	case 1, 2:
		for ; len(b) >= 2; b = b[2:] {
			x := int(binary.BigEndian.Uint16(b))
			q.exponents, q.mantissas = append(q.exponents, x>>11), append(q.mantissas, x&0x7FF)
		}
	default:
		return errMarker
	}
	if len(q.exponents) == 0 {
		return errMarker
	}
	return nil
}

// band returns the exponent and mantissa of sub-band number n (LL, then HL, LH, HH of each
// resolution), of decomposition level l of levels (E.1).
func (q *quantization) band(n, l, levels int) (exponent, mantissa int, err error) {
	if q.style == 1 {
		return max(q.exponents[0]+l-levels, 0), q.mantissas[0], nil
	}
	if n >= len(q.exponents) {
		return 0, 0, errors.New("JPEG 2000: a sub-band has no step size")
	}
	return q.exponents[n], q.mantissas[n], nil
}
