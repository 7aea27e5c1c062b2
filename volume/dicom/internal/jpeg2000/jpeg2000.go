// Package jpeg2000 decodes grey JPEG 2000 images, reversible and irreversible, as bare code streams
// or in a JP2 file. It reads the classic coding of Part 1 (ITU-T T.800) and high throughput, HTJ2K
// (Part 15, ITU-T T.814).
//
// Start at [Decode]. The data pass through these steps:
//
//   - jpeg2000.go reads the markers and collects the packets of each tile.
//   - tile.go divides a tile into resolutions, sub-bands and code-blocks.
//   - packet.go reads the packet headers and hands the coded bytes to the code-blocks.
//   - block.go decodes a code-block by the MQ coder (mq.go), or ht.go does if it is of high
//     throughput.
//   - wavelet.go undoes the wavelet transform.
//
// Colour, subsampled components and the extensions of other parts are refused as unsupported.
// Numbers in parentheses are sections, tables and annexes of T.800, unless T.814 is named.
package jpeg2000

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

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

// rectangle holds the points with x0 <= x < x1 and y0 <= y < y1.
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
	componentPositionResolutionLayer // the same as positionResolutionLayer: there is one component
)

// Code-block styles (table A.19; T.814 table A.4).
const (
	styleBypass = 1 << iota
	styleReset
	styleTerminate
	styleCausal
	stylePredictable
	styleSegmentation
	styleHighThroughput // all code-blocks are of high throughput,
	styleMayBeClassic   // except, if this is set as well, those that turn out to be classic
	styleMixed          = styleHighThroughput | styleMayBeClassic
)

// coding holds the parameters of a COD or COC marker (A.6.1, A.6.2).
type coding struct {
	progression, layers int
	sop, eph            bool
	levels              int // number of decomposition levels
	blockX, blockY      int // logarithms of the width and height of code-blocks
	style               int
	reversible          bool
	precincts           [33][2]int // logarithms of the width and height of precincts, by resolution
}

// quantization holds the parameters of a QCD or QCC marker (A.6.4, A.6.5).
type quantization struct {
	style, guard int
	exponents    []int
	mantissas    []int
}

// decoder holds the parameters from the main header.
type decoder struct {
	image, tiles  rectangle // on the reference grid; tiles is the first tile before it is clipped
	columns, rows int
	precision     int
	signed        bool
	coding        coding
	quantization  quantization
	shift         int           // of the region of interest (annex H)
	changes       []progression // from POC markers
	pieces        []headerPiece // from PPM markers
	packed        bool          // whether there are PPM markers
	headers       []byte        // from them, for the tile-parts to come
	sized         bool          // whether SIZ was read
	coded, quant  bool          // whether COD and QCD were read
}

// Decode decodes an image of columns x rows samples into out, row by row. It returns the number of
// bits per sample. Negative samples are in two's complement. An image that is correct but not read
// gives a [*volume.UnsupportedError]; any other error means that the data are damaged.
func Decode(data []byte, columns, rows int, out []uint32) (precision int, err error) {
	if data, err = unwrap(data); err != nil {
		return 0, err
	}
	d := &decoder{columns: columns, rows: rows}
	if len(data) < 4 || data[0] != 0xFF || data[1] != 0x4F {
		return 0, errors.New("JPEG 2000: no start of code stream")
	}
	tiles, order, err := d.codeStream(data)
	if err != nil {
		return 0, err
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
		r := rectangle{d.tiles.x0 + p*d.tiles.width(), d.tiles.y0 + q*d.tiles.height(),
			d.tiles.x0 + (p+1)*d.tiles.width(), d.tiles.y0 + (q+1)*d.tiles.height()}
		if err := d.tile(r.intersect(d.image), tiles[index], out); err != nil {
			return 0, err
		}
	}
	return d.precision, nil
}

// codeStream reads the markers of a code stream. It returns the tiles by number, and the numbers in
// the order in which the tiles begin.
func (d *decoder) codeStream(data []byte) (tiles map[int]*tilePart, order []int, err error) {
	tiles = map[int]*tilePart{}
	for at := 2; ; {
		marker, body, next, err := readMarker(data, at)
		switch {
		case err != nil:
			return nil, nil, err
		case marker == 0xFFD9:
			return tiles, order, nil
		case marker != 0xFF90: // not SOT
			if err := d.marker(marker, body, nil); err != nil {
				return nil, nil, err
			}
			at = next
			continue
		case !d.sized || !d.coded || !d.quant:
			return nil, nil, errors.New("JPEG 2000: the main header is not complete")
		case len(body) < 8:
			return nil, nil, errMarker
		}
		index, length := int(binary.BigEndian.Uint16(body)), int(binary.BigEndian.Uint32(body[2:]))
		part := tiles[index]
		if part == nil {
			part = &tilePart{coding: d.coding, quantization: d.quantization, shift: d.shift, changes: d.changes}
			tiles[index] = part
			order = append(order, index)
		}
		end := at + length
		if length == 0 || end > len(data) {
			end = len(data) // only the last tile-part may have no length
		}
		if at, err = d.tilePart(part, data, next, end, length == 0); err != nil {
			return nil, nil, err
		}
		if at+2 > len(data) {
			return tiles, order, nil // without an end marker: the packets may still be complete
		}
	}
}

// tilePart reads a tile-part, whose first marker ends at at, up to end. It returns where the next
// tile-part begins. A tile-part that is open has no length of its own: then end is the end of the
// data, and the end marker may be among them.
func (d *decoder) tilePart(part *tilePart, data []byte, at, end int, open bool) (next int, err error) {
	for marker := 0; marker != 0xFF93; at = next { // SOD
		var body []byte
		if marker, body, next, err = readMarker(data, at); err != nil {
			return 0, err
		}
		if marker != 0xFF93 {
			if err := d.marker(marker, body, part); err != nil {
				return 0, err
			}
		}
	}
	if end < at {
		return 0, errMarker
	}
	if err := d.packedHeaders(part); err != nil {
		return 0, err
	}
	if open && end-2 >= at && data[end-2] == 0xFF && data[end-1] == 0xD9 {
		end -= 2
	}
	if part.data == nil {
		part.data = data[at:end:end] // most tiles have one tile-part: it is not copied
	} else {
		part.data = append(part.data, data[at:end]...)
	}
	return end, nil
}

// headerPiece holds the packet headers of a PPM or PPT marker, and its number (A.7.4, A.7.5).
type headerPiece struct {
	number byte
	data   []byte
}

// joined joins pieces in the order of their numbers.
func joined(pieces []headerPiece) (all []byte) {
	slices.SortStableFunc(pieces, func(a, b headerPiece) int { return cmp.Compare(a.number, b.number) })
	for _, p := range pieces {
		all = append(all, p.data...)
	}
	return all
}

// packedHeaders gives a tile the packed packet headers of its next tile-part. They are in the PPT
// markers of the tile-part, or in the PPM markers of the main header: there, those of all
// tile-parts follow each other, each after its length.
func (d *decoder) packedHeaders(part *tilePart) error {
	if len(d.pieces) > 0 {
		d.headers, d.pieces, d.packed = joined(d.pieces), nil, true
	}
	if len(part.pieces) > 0 {
		part.headers = append(part.headers, joined(part.pieces)...)
		part.pieces, part.packed = nil, true
		return nil
	}
	if !d.packed {
		return nil
	}
	if len(d.headers) < 4 {
		return errShort
	}
	n := int(binary.BigEndian.Uint32(d.headers))
	if n > len(d.headers)-4 {
		return errShort
	}
	part.headers = append(part.headers, d.headers[4:4+n]...)
	part.packed = true
	d.headers = d.headers[4+n:]
	return nil
}

// unwrap returns the code stream of a JP2 file (annex I). Other data it returns as they are.
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
		length = cmp.Or(length, uint64(len(data)))
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

// readMarker reads the marker segment at an offset. Next is the offset behind it.
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

// marker reads a marker segment of the main header or, if part is not nil, of a tile-part header.
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
		return capabilities(b)
	case 0xFF52: // COD
		d.coded = true
		return c.parse(b)
	case 0xFF53:
		// COC: the number of the component in one byte, then what COD has from Scod on.
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
		default: // the tile has its own: those of the main header do not apply
			part.changes, part.ownChanges = changes, true
		}
	case 0xFF60, 0xFF61: // PPM, PPT
		if len(b) < 1 || (marker == 0xFF60) != (part == nil) {
			return errMarker
		}
		pieces := &d.pieces
		if part != nil {
			pieces = &part.pieces
		}
		*pieces = append(*pieces, headerPiece{b[0], b[1:]})
	}
	return nil
}

// capabilities reads CAP (A.5.2): bit 32-n of its first word means that the stream needs part n of
// the standard. Part 15 is high throughput. The details that follow are not needed: code-blocks and
// their styles say the same.
func capabilities(b []byte) error {
	if len(b) < 4 {
		return errMarker
	}
	const highThroughput = 1 << (32 - 15)
	if others := binary.BigEndian.Uint32(b) &^ highThroughput; others != 0 {
		return unsupported("extensions of part %d are not read", bits.LeadingZeros32(others)+1)
	}
	return nil
}

// size reads SIZ (A.5.1).
func (d *decoder) size(b []byte) error {
	if len(b) < 39 {
		return errMarker
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
		return fmt.Errorf("JPEG 2000: the image has %dx%d pixels, not %dx%d", d.image.width(), d.image.height(),
			d.columns, d.rows)
	}
	if d.precision > 24 {
		return unsupported("%d bits a sample", d.precision)
	}
	if n[4] == 0 || n[5] == 0 || d.tiles.x0 > d.image.x0 || d.tiles.y0 > d.image.y0 || d.tiles.x1 <= d.image.x0 ||
		d.tiles.y1 <= d.image.y0 {
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
	switch c.style & styleMixed {
	case styleMayBeClassic:
		return errMarker
	case styleMixed:
		if c.style&(styleBypass|styleTerminate) != 0 {
			return unsupported("code-blocks of both kinds (HTMIXED) with bypass or termination")
		}
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

// band returns the exponent and mantissa of sub-band n, of decomposition level l of levels (E.1).
// Sub-bands are numbered LL, then HL, LH, HH of each resolution.
func (q *quantization) band(n, l, levels int) (exponent, mantissa int, err error) {
	if q.style == 1 {
		return max(q.exponents[0]+l-levels, 0), q.mantissas[0], nil
	}
	if n >= len(q.exponents) {
		return 0, 0, errors.New("JPEG 2000: a sub-band has no step size")
	}
	return q.exponents[n], q.mantissas[n], nil
}
