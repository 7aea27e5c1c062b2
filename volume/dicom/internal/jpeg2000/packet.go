package jpeg2000

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"
)

// tagTree codes a matrix of numbers (B.10.2). Each node holds the minimum of at most 2x2 nodes of
// the level below.
type tagTree struct {
	nodes  []tagNode
	parent []int32 // index of the parent by node; -1 for the root
}

type tagNode struct {
	value, low int32
}

const tagUnknown = 1 << 30

func newTagTree(across, down int) *tagTree {
	t := &tagTree{}
	start := 0
	for {
		count := across * down
		for range count {
			t.nodes = append(t.nodes, tagNode{value: tagUnknown})
		}
		if count == 1 {
			t.parent = append(t.parent, -1)
			return t
		}
		upper := (across + 1) / 2
		for n := range count {
			t.parent = append(t.parent, int32(start+count+(n/across/2)*upper+n%across/2))
		}
		start += count
		across, down = upper, (down+1)/2
	}
}

// below reports whether the number of a leaf is below a threshold. It reads as many bits as it
// needs to know.
func (t *tagTree) below(r *headerReader, leaf int, threshold int32) bool {
	var path [32]int32
	depth := 0
	for n := int32(leaf); n >= 0; n = t.parent[n] {
		path[depth] = n
		depth++
	}
	low := int32(0)
	for depth--; depth >= 0; depth-- {
		node := &t.nodes[path[depth]]
		low = max(low, node.low)
		for low < threshold && low < node.value {
			if r.bit() == 1 {
				node.value = low
			} else {
				low++
			}
		}
		node.low = low
	}
	return t.nodes[leaf].value < threshold
}

// headerReader reads the bits of packet headers. The byte after a byte 0xFF has seven (B.10.1).
type headerReader struct {
	data  []byte
	at    int
	now   byte
	left  int
	short bool
}

func (r *headerReader) bit() int {
	if r.left == 0 {
		r.left = 8
		if r.now == 0xFF {
			r.left = 7
		}
		if r.at < len(r.data) {
			r.now = r.data[r.at]
			r.at++
		} else {
			r.now, r.short = 0, true
		}
	}
	r.left--
	return int(r.now>>r.left) & 1
}

func (r *headerReader) bits(n int) int {
	v := 0
	for range n {
		v = v<<1 | r.bit()
	}
	return v
}

// align goes to the next byte boundary.
func (r *headerReader) align() {
	if r.now == 0xFF {
		r.at++ // skip the byte that holds nothing but the stuffed bit
	}
	r.now, r.left = 0, 0
}

// progression is an order of packets, for the resolutions first <= r < last and for the layers
// l < layers (A.6.6, B.12.2).
type progression struct{ order, first, last, layers int }

// parseChanges reads the progressions of component 0 from POC.
func parseChanges(b []byte) ([]progression, error) {
	var all []progression
	if len(b) == 0 || len(b)%7 != 0 {
		return nil, errMarker
	}
	for ; len(b) > 0; b = b[7:] {
		p := progression{order: int(b[6]), first: int(b[0]), last: int(b[4]),
			layers: int(binary.BigEndian.Uint16(b[2:]))}
		if p.order > componentPositionResolutionLayer || p.first >= p.last {
			return nil, errMarker
		}
		if b[1] == 0 {
			all = append(all, p)
		}
	}
	return all, nil
}

// packets reads the packets of a tile in their order (B.12). Steps limits how often a code-block is
// looked at: an empty packet takes one byte of data, but a look at each code-block of its precinct.
func (p *tilePart) packets(resolutions []*resolution, steps int) error {
	r := packetReader{coding: &p.coding, data: p.data, packed: p.packed, headers: p.headers, steps: steps}
	changes := p.changes
	if len(changes) == 0 {
		changes = []progression{{p.coding.progression, 0, len(resolutions), p.coding.layers}}
	}
	for _, c := range changes {
		c.first, c.last, c.layers = min(c.first, len(resolutions)), min(c.last, len(resolutions)),
			min(c.layers, p.coding.layers)
		if err := r.follow(c, resolutions[:c.last]); err != nil {
			return err
		}
	}
	for _, res := range resolutions {
		for _, precinct := range res.precincts {
			if precinct.layers < p.coding.layers {
				return errors.New("JPEG 2000: the progressions leave packets out")
			}
		}
	}
	return nil
}

// follow reads the packets of a progression. Packets that an earlier progression has read are left
// out.
func (r *packetReader) follow(c progression, resolutions []*resolution) error {
	if c.order == layerResolutionPosition {
		for layer := range c.layers {
			for _, res := range resolutions[c.first:] {
				for _, precinct := range res.precincts {
					if err := r.upTo(precinct, layer+1); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	if c.order == resolutionLayerPosition {
		for _, res := range resolutions[c.first:] {
			for layer := range c.layers {
				for _, precinct := range res.precincts {
					if err := r.upTo(precinct, layer+1); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	type place struct {
		*precinct
		resolution, n int
	}
	var places []place
	for k, res := range resolutions[c.first:] {
		for n, precinct := range res.precincts {
			places = append(places, place{precinct, k, n})
		}
	}
	if c.order != resolutionPositionLayer { // for which places are in order already
		slices.SortStableFunc(places, func(a, b place) int {
			return cmp.Or(cmp.Compare(a.y, b.y), cmp.Compare(a.x, b.x), cmp.Compare(a.resolution, b.resolution),
				cmp.Compare(a.n, b.n))
		})
	}
	for _, at := range places {
		if err := r.upTo(at.precinct, c.layers); err != nil {
			return err
		}
	}
	return nil
}

// packetReader reads packets.
type packetReader struct {
	*coding
	data    []byte // not read yet
	packed  bool   // whether packet headers are in headers, not in data
	headers []byte // not read yet
	steps   int    // left, see packets
	pieces  []piece
}

// piece tells the number of bytes that a packet has for a segment of a code-block.
type piece struct {
	block           *block
	segment, length int
}

// upTo reads the packets of a precinct until it has so many layers.
func (r *packetReader) upTo(p *precinct, layers int) error {
	for ; p.layers < layers; p.layers++ {
		if err := r.packet(p, p.layers); err != nil {
			return err
		}
	}
	return nil
}

// packet reads one packet: the bytes of one layer for the code-blocks of a precinct (B.9, B.10).
func (pr *packetReader) packet(p *precinct, layer int) error {
	if bytes.HasPrefix(pr.data, []byte{0xFF, 0x91}) { // SOP
		if len(pr.data) < 6 {
			return errShort
		}
		pr.data = pr.data[6:]
	}
	headers := &pr.data
	if pr.packed {
		headers = &pr.headers
	}
	if len(*headers) == 0 {
		return errShort
	}
	r := &headerReader{data: *headers}
	pr.pieces = pr.pieces[:0]
	if r.bit() == 1 {
		for k := range p.parts {
			if err := pr.contributions(r, &p.parts[k], layer); err != nil {
				return err
			}
		}
	}
	if r.align(); r.short || r.at > len(*headers) {
		return errShort
	}
	*headers = bytes.TrimPrefix((*headers)[r.at:], []byte{0xFF, 0x92}) // EPH
	for _, piece := range pr.pieces {
		if piece.length > len(pr.data) {
			return errShort
		}
		s := &piece.block.segments[piece.segment]
		if s.data == nil {
			s.data = pr.data[:piece.length:piece.length]
		} else {
			s.data = append(s.data, pr.data[:piece.length]...)
		}
		pr.data = pr.data[piece.length:]
	}
	return nil
}

// contributions reads the part of a packet header that is about one band. It appends to pr.pieces.
func (pr *packetReader) contributions(r *headerReader, part *part, layer int) error {
	if pr.steps -= len(part.blocks); pr.steps < 0 {
		return errDamaged
	}
	for n, b := range part.blocks {
		if b.included {
			if r.bit() == 0 {
				continue
			}
		} else {
			if !part.inclusion.below(r, n, int32(layer)+1) {
				continue
			}
			b.included = true
			for !part.zero.below(r, n, int32(b.missing)+1) {
				if b.missing++; b.missing > part.band.planes+31 || r.short {
					return errDamaged
				}
			}
		}
		passes := r.passes()
		for r.bit() == 1 {
			if b.length++; b.length > 31 {
				return errDamaged
			}
		}
		first := len(pr.pieces)
		if b.kind == undecided {
			var err error
			if passes, err = pr.undecided(r, b, passes); err != nil {
				return err
			}
		}
		for passes > 0 {
			passes -= pr.segment(r, b, passes)
		}
		for _, piece := range pr.pieces[first:] {
			// Checked here, so that no header asks for more memory than there are bytes.
			if piece.length > len(pr.data) {
				return errShort
			}
		}
	}
	return nil
}

// segment reads the number of bytes for the current segment of a code-block, which takes as many of
// the passes as it can. It returns how many these are.
func (pr *packetReader) segment(r *headerReader, b *block, passes int) int {
	last := len(b.segments) - 1
	if last < 0 || b.segments[last].passes == b.segments[last].most {
		b.segments = append(b.segments, codeSegment{most: pr.segmentPasses(b)})
		last++
	}
	s := &b.segments[last]
	n := min(passes, s.most-s.passes)
	pr.add(b, last, n, r.bits(b.length+log2(n)))
	return n
}

// add counts passes of a segment and records their bytes.
func (pr *packetReader) add(b *block, segment, passes, length int) {
	b.passes += passes
	b.segments[segment].passes += passes
	pr.pieces = append(pr.pieces, piece{b, segment, length})
}

func log2(n int) int { return bits.Len(uint(n)) - 1 }

// passes reads the number of coding passes (table B.4).
func (r *headerReader) passes() int {
	if r.bit() == 0 {
		return 1
	}
	if r.bit() == 0 {
		return 2
	}
	if n := r.bits(2); n < 3 {
		return 3 + n
	}
	if n := r.bits(5); n < 31 {
		return 6 + n
	}
	return 37 + r.bits(7)
}

// segmentPasses returns the greatest number of passes of the next segment of a code-block (table
// D.9; T.814 clause B.3).
func (c *coding) segmentPasses(b *block) int {
	n := len(b.segments)
	switch {
	case b.kind == highThroughput:
		return 1 + n%2 // a clean-up pass, then two refinement passes
	case c.style&styleTerminate != 0:
		return 1
	case c.style&styleBypass == 0:
		return 1 << 20
	case n == 0:
		return 10 // four bit-planes
	case n%2 == 1:
		return 2 // significance and refinement, uncoded
	}
	return 1 // clean-up
}

// undecided reads a length of a code-block that has no bytes yet (T.814 clause B.3). It returns the
// number of passes whose lengths follow.
//
// The passes before the first clean-up pass with bytes are placeholders: they have no bytes, and
// their HT sets stand for bit-planes that are not coded. One length is written for them and that
// clean-up pass together. If the packet ends before it, one length, 0, is written for all passes of
// the packet, as for a classic code-block.
//
// In a mixed code stream the first length that is not 0 tells the kind of the code-block. It
// belongs to a high-throughput clean-up pass if such a pass may end there, if the length is at
// least 2 and begins with a zero bit, and if Lblock is above 3. Otherwise the code-block is
// classic.
func (pr *packetReader) undecided(r *headerReader, b *block, passes int) (left int, err error) {
	mixed := pr.style&styleMixed == styleMixed
	if len(b.segments) == 0 {
		b.segments = append(b.segments, codeSegment{most: math.MaxInt})
	}
	// the number of passes up to the last one that may be a clean-up pass
	upTo := passes - (b.passes+passes-1)%3
	length, width := 0, 0 // width is the number of bits that were read of it
	if upTo > 0 {
		width = b.length + log2(upTo)
		length = r.bits(width)
		isHT := length > 1
		if mixed {
			isHT = isHT && b.length > 3 && length>>(width-1) == 0
		}
		if isHT {
			b.kind = highThroughput
			pr.add(b, 0, upTo, length)
			b.segments[0].most = b.segments[0].passes
			return passes - upTo, nil
		}
	}
	for ; width < b.length+log2(passes); width++ {
		length = length<<1 | r.bit()
	}
	if length > 0 {
		if !mixed {
			return 0, errDamaged
		}
		b.kind = classic
	}
	pr.add(b, 0, passes, length)
	return 0, nil
}
