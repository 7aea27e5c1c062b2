package jpeg2000

import (
	"bytes"
	"cmp"
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

// packets reads the packets of a tile in their order (B.12).
func (p *tilePart) packets(resolutions []*resolution) error {
	c := &p.coding
	data := p.data
	read := func(res *resolution, n, layer int) (err error) {
		data, err = c.packet(data, res.precincts[n], layer)
		return err
	}
	switch c.progression {
	case layerResolutionPosition:
		for l := range c.layers {
			for _, res := range resolutions {
				for n := range res.precincts {
					if err := read(res, n, l); err != nil {
						return err
					}
				}
			}
		}
	case resolutionLayerPosition:
		for _, res := range resolutions {
			for l := range c.layers {
				for n := range res.precincts {
					if err := read(res, n, l); err != nil {
						return err
					}
				}
			}
		}
	default:
		type place struct{ y, x, resolution, n int }
		var places []place
		for r, res := range resolutions {
			for n, pr := range res.precincts {
				places = append(places, place{pr.y, pr.x, r, n})
			}
		}
		slices.SortStableFunc(places, func(a, b place) int {
			if c.progression == resolutionPositionLayer {
				return cmp.Or(cmp.Compare(a.resolution, b.resolution), cmp.Compare(a.n, b.n))
			}
			return cmp.Or(cmp.Compare(a.y, b.y), cmp.Compare(a.x, b.x), cmp.Compare(a.resolution, b.resolution), cmp.Compare(a.n, b.n))
		})
		for _, at := range places {
			for l := range c.layers {
				if err := read(resolutions[at.resolution], at.n, l); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// packet reads one packet: what a layer adds to the code-blocks of a precinct (B.9, B.10). It returns the data behind it.
func (c *coding) packet(data []byte, p *precinct, layer int) ([]byte, error) {
	if bytes.HasPrefix(data, []byte{0xFF, 0x91}) { // SOP
		if len(data) < 6 {
			return nil, errShort
		}
		data = data[6:]
	}
	if len(data) == 0 {
		return nil, errShort
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
							return nil, errDamaged
						}
					}
				}
				passes := r.passes()
				for r.bit() == 1 {
					if b.length++; b.length > 31 {
						return nil, errDamaged
					}
				}
				for passes > 0 {
					last := len(b.segments) - 1
					if last < 0 || b.segments[last].passes == b.segments[last].most {
						b.segments = append(b.segments, codeSegment{most: c.segmentPasses(b.segments)})
						last++
					}
					s := &b.segments[last]
					n := min(passes, s.most-s.passes)
					s.passes += n
					passes -= n
					length := r.bits(b.length + bits.Len(uint(n)) - 1)
					if length > len(data) {
						return nil, errShort
					}
					pieces = append(pieces, piece{b, last, length})
				}
			}
		}
	}
	if r.short {
		return nil, errShort
	}
	r.align()
	if r.at > len(data) {
		return nil, errShort
	}
	data = data[r.at:]
	if bytes.HasPrefix(data, []byte{0xFF, 0x92}) { // EPH
		data = data[2:]
	}
	for _, piece := range pieces {
		if piece.length > len(data) {
			return nil, errShort
		}
		s := &piece.block.segments[piece.segment]
		if s.data == nil {
			s.data = data[:piece.length:piece.length]
		} else {
			s.data = append(s.data, data[:piece.length]...)
		}
		data = data[piece.length:]
	}
	return data, nil
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
