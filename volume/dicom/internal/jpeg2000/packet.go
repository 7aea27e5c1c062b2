package jpeg2000

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
)

// tagTree codes a matrix of numbers by their minima over ever larger squares (B.10.2).
type tagTree struct {
	nodes  []tagNode
	parent []int32 // by node, -1 for the root
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

// below says whether the number of a leaf is below a threshold, reading as many bits as that takes.
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

// headerReader reads the bits of packet headers: after a byte of ones only seven follow (B.10.1).
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

// align goes to the next whole byte.
func (r *headerReader) align() {
	if r.now == 0xFF {
		r.at++ // the stuffed bit has a byte to itself
	}
	r.now, r.left = 0, 0
}

// progression is an order of packets: those of the resolutions from first to before last, of the
// layers below layers (A.6.6, B.12.2).
type progression struct{ order, first, last, layers int }

// parseChanges reads POC: the progressions of the one component that there is.
func parseChanges(b []byte) ([]progression, error) {
	var all []progression
	if len(b) == 0 || len(b)%7 != 0 {
		return nil, errMarker
	}
	for ; len(b) > 0; b = b[7:] {
		p := progression{order: int(b[6]), first: int(b[0]), last: int(b[4]), layers: int(binary.BigEndian.Uint16(b[2:]))}
		if p.order > componentPositionResolutionLayer || p.first >= p.last {
			return nil, errMarker
		}
		if b[1] == 0 {
			all = append(all, p)
		}
	}
	return all, nil
}

// packets reads the packets of a tile in their order (B.12). Steps bounds how many code-blocks are
// looked at: empty packets take a byte, and as many looks as there are code-blocks.
func (p *tilePart) packets(resolutions []*resolution, steps int) error {
	r := packetReader{coding: &p.coding, data: p.data, steps: steps}
	changes := p.changes
	if len(changes) == 0 {
		changes = []progression{{p.coding.progression, 0, len(resolutions), p.coding.layers}}
	}
	for _, c := range changes {
		c.first, c.last, c.layers = min(c.first, len(resolutions)), min(c.last, len(resolutions)), min(c.layers, p.coding.layers)
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

// follow reads the packets of a progression, but for those that another has brought.
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
	if c.order != resolutionPositionLayer { // else they are in their order
		slices.SortStableFunc(places, func(a, b place) int {
			return cmp.Or(cmp.Compare(a.y, b.y), cmp.Compare(a.x, b.x), cmp.Compare(a.resolution, b.resolution), cmp.Compare(a.n, b.n))
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
	data  []byte // that is left
	steps int    // that are left
}

// upTo reads the packets of a precinct up to so many layers.
func (r *packetReader) upTo(p *precinct, layers int) error {
	for ; p.layers < layers; p.layers++ {
		if err := r.packet(p, p.layers); err != nil {
			return err
		}
	}
	return nil
}

// packet reads one packet: what a layer adds to the code-blocks of a precinct (B.9, B.10).
func (pr *packetReader) packet(p *precinct, layer int) error {
	data := pr.data
	if bytes.HasPrefix(data, []byte{0xFF, 0x91}) { // SOP
		if len(data) < 6 {
			return errShort
		}
		data = data[6:]
	}
	if len(data) == 0 {
		return errShort
	}
	type piece struct {
		block   *block
		segment int
		length  int
	}
	var pieces []piece
	r := &headerReader{data: data}
	if r.bit() == 1 {
		for _, part := range p.parts {
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
				for passes > 0 {
					last := len(b.segments) - 1
					if last < 0 || b.segments[last].passes == b.segments[last].most {
						b.segments = append(b.segments, codeSegment{most: pr.segmentPasses(b.segments)})
						last++
					}
					s := &b.segments[last]
					n := min(passes, s.most-s.passes)
					s.passes += n
					passes -= n
					length := r.bits(b.length + bits.Len(uint(n)) - 1)
					if length > len(data) {
						return errShort
					}
					pieces = append(pieces, piece{b, last, length})
				}
			}
		}
	}
	if r.short {
		return errShort
	}
	r.align()
	if r.at > len(data) {
		return errShort
	}
	data = data[r.at:]
	if bytes.HasPrefix(data, []byte{0xFF, 0x92}) { // EPH
		data = data[2:]
	}
	for _, piece := range pieces {
		if piece.length > len(data) {
			return errShort
		}
		s := &piece.block.segments[piece.segment]
		if s.data == nil {
			s.data = data[:piece.length:piece.length]
		} else {
			s.data = append(s.data, data[:piece.length]...)
		}
		data = data[piece.length:]
	}
	pr.data = data
	return nil
}

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

// segmentPasses returns how many passes the next segment of a code-block can have (table D.9).
func (c *coding) segmentPasses(before []codeSegment) int {
	switch {
	case c.style&styleTerminate != 0:
		return 1
	case c.style&styleBypass == 0:
		return 1 << 20
	case len(before) == 0:
		return 10 // four bit-planes
	case len(before)%2 == 1:
		return 2 // significance and refinement, uncoded
	}
	return 1 // clean-up
}
