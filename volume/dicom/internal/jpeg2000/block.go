package jpeg2000

// This file: the coded bit-planes of a code-block (annex D), by the MQ coder (annex C).
//
//   - Rows are taken in stripes of four. One word of flags tells all about the four samples of a column in a stripe: which of the 3x6 samples in and around it
//     are significant, row by row from bit 0 to 17, so that sample n of the four sees its neighbours in bits 3n to 3n+8; and for each n, from bit 19+3n on, its sign,
//     whether it was refined, and whether it was visited in this bit-plane. Bits 18 and 31 are the signs of the samples above and below the column. (OpenJPEG
//     packs its flags in the same way.)
//   - Values are doubled: the lowest bit is the middle of the interval that the bits read so far leave.

const (
	bitNeighbours = 0x1EF // of sample 0: all but itself
	bitSelf       = 1 << 4
	signShift     = 19
	bitSign       = 1 << signShift
	bitRefined    = 1 << 20
	bitVisited    = 1 << 21
	allVisited    = bitVisited | bitVisited<<3 | bitVisited<<6 | bitVisited<<9

	contextSign       = 9
	contextRefinement = 14
	contextRun        = 17
	contextUniform    = 18
)

// zeroContexts is the context of a sample by orientation and neighbours (table D.1); signContexts the context of a sign (tables D.2 and D.3), its lowest
// bit in bit 7 where the decoded bit is to be inverted.
var (
	zeroContexts [4][512]uint8
	signContexts [256]uint8
)

func init() {
	for n := range 512 {
		at := func(b int) int { return n >> b & 1 }
		h, v, d := at(3)+at(5), at(1)+at(7), at(0)+at(2)+at(6)+at(8)
		plain := func(h, v int) uint8 {
			switch {
			case h == 2:
				return 8
			case h == 1 && v >= 1:
				return 7
			case h == 1 && d >= 1:
				return 6
			case h == 1:
				return 5
			case v == 2:
				return 4
			case v == 1:
				return 3
			}
			return uint8(min(d, 2))
		}
		zeroContexts[0][n], zeroContexts[1][n], zeroContexts[2][n] = plain(h, v), plain(v, h), plain(h, v)
		switch hv := uint8(min(h+v, 2)); {
		case d >= 3:
			zeroContexts[3][n] = 8
		case d == 2:
			zeroContexts[3][n] = 6 + min(hv, 1)
		case d == 1:
			zeroContexts[3][n] = 3 + hv
		default:
			zeroContexts[3][n] = hv
		}
	}
	// Index: significance of above, left, right, below in bits 1, 3, 5, 7, their signs in bits 4, 0, 2, 6.
	for n := range 256 {
		side := func(significant, sign int) int { return (n >> significant & 1) * (1 - 2*(n>>sign&1)) }
		h := min(max(side(3, 0)+side(5, 2), -1), 1)
		v := min(max(side(1, 4)+side(7, 6), -1), 1)
		flip := uint8(0)
		if h < 0 || h == 0 && v < 0 {
			h, v, flip = -h, -v, 0x80
		}
		if h == 1 {
			signContexts[n] = uint8(contextSign+3+v) | flip
		} else {
			signContexts[n] = uint8(contextSign+v) | flip
		}
	}
}

// blockDecoder decodes one code-block after the other.
type blockDecoder struct {
	style    int
	mq       coder
	raw      rawReader
	width    int
	height   int
	stride   int      // of flags
	flags    []uint32 // with a border of one word on each side
	values   []int32
	zero     *[512]uint8
	contexts [19]uint8 // states of the MQ coder
}

func newBlockDecoder(style int) *blockDecoder { return &blockDecoder{style: style} }

// decode returns the values of a code-block, doubled, row by row. They are valid until the next call.
func (d *blockDecoder) decode(b *block, orientation, planes int) ([]int32, error) {
	d.width, d.height = b.area.width(), b.area.height()
	d.stride = d.width + 2
	stripes := (d.height + 3) / 4
	need := d.stride * (stripes + 2)
	if cap(d.flags) < need {
		d.flags = make([]uint32, need)
	}
	d.flags = d.flags[:need]
	clear(d.flags)
	if cap(d.values) < d.width*d.height {
		d.values = make([]int32, d.width*d.height)
	}
	d.values = d.values[:d.width*d.height]
	clear(d.values)
	d.zero = &zeroContexts[orientation]
	d.reset()
	plane := planes - 1 - b.missing
	kind := 2 // of the next pass: 0 significance, 1 refinement, 2 clean-up
	pass := 0
	for n := range b.segments {
		s := &b.segments[n]
		raw := d.style&styleBypass != 0 && pass >= 10 && kind < 2
		if raw {
			d.raw = rawReader{data: s.data}
		} else {
			d.mq.start(s.data)
		}
		for range s.passes {
			if plane < 0 {
				return nil, errDamaged
			}
			switch {
			case kind == 0 && raw:
				d.significanceRaw(plane)
			case kind == 0:
				d.significance(plane)
			case kind == 1 && raw:
				d.refinementRaw(plane)
			case kind == 1:
				d.refinement(plane)
			default:
				d.cleanup(plane)
				if d.style&styleSegmentation != 0 {
					for range 4 {
						d.mq.decode(&d.contexts[contextUniform])
					}
				}
			}
			if d.style&styleReset != 0 {
				d.reset()
			}
			pass++
			if kind++; kind == 3 {
				kind = 0
				plane--
			}
		}
	}
	return d.values, nil
}

// reset sets the contexts to their initial states (table D.7).
func (d *blockDecoder) reset() {
	d.contexts = [19]uint8{0: 4 << 1, contextRun: 3 << 1, contextUniform: 46 << 1}
}

// sign decodes the sign of sample n of the column whose flags are at f: 1 for negative.
func (d *blockDecoder) sign(f, n int) uint32 {
	here := d.flags[f]
	index := here >> (3 * n) & 0xAA
	index |= d.flags[f-1] >> (signShift + 3*n) & 1
	index |= d.flags[f+1] >> (signShift + 3*n) & 1 << 2
	if n == 0 {
		index |= here >> 18 & 1 << 4
	} else {
		index |= here >> (signShift + 3*n - 3) & 1 << 4
	}
	index |= here >> (signShift + 3 + 3*n) & 1 << 6
	context := signContexts[index]
	return uint32(d.mq.decode(&d.contexts[context&0x7F])) ^ uint32(context>>7)
}

// become makes sample n of the column at f significant, and tells its neighbours.
func (d *blockDecoder) become(f, n int, sign uint32) {
	flags := d.flags
	flags[f-1] |= 1 << (5 + 3*n)
	flags[f] |= (sign<<signShift | bitSelf) << (3 * n)
	flags[f+1] |= 1 << (3 + 3*n)
	if n == 0 && d.style&styleCausal == 0 {
		up := f - d.stride
		flags[up-1] |= 1 << 17
		flags[up] |= sign<<31 | 1<<16
		flags[up+1] |= 1 << 15
	}
	if n == 3 {
		down := f + d.stride
		flags[down-1] |= 1 << 2
		flags[down] |= sign<<18 | 1<<1
		flags[down+1] |= 1
	}
}

// first sets sample n of the column at v to its first value in a bit-plane.
func (d *blockDecoder) first(v, n, plane int, sign uint32) {
	x := int32(3) << plane
	if sign != 0 {
		x = -x
	}
	d.values[v+n*d.width] = x
}

// significance is the significance propagation pass (D.3.1).
func (d *blockDecoder) significance(plane int) {
	for y := 0; y < d.height; y += 4 {
		f, v := (y/4+1)*d.stride+1, y*d.width
		rows := min(4, d.height-y)
		for range d.width {
			if d.flags[f] != 0 {
				for n := range rows {
					here := d.flags[f] >> (3 * n)
					if here&bitSelf == 0 && here&bitNeighbours != 0 {
						if d.mq.decode(&d.contexts[d.zero[here&bitNeighbours]]) != 0 {
							sign := d.sign(f, n)
							d.first(v, n, plane, sign)
							d.become(f, n, sign)
						}
						d.flags[f] |= bitVisited << (3 * n)
					}
				}
			}
			f++
			v++
		}
	}
}

// refinement is the magnitude refinement pass (D.3.3).
func (d *blockDecoder) refinement(plane int) {
	half := int32(1) << plane
	for y := 0; y < d.height; y += 4 {
		f, v := (y/4+1)*d.stride+1, y*d.width
		rows := min(4, d.height-y)
		for range d.width {
			if flags := d.flags[f]; flags != 0 {
				for n := range rows {
					here := flags >> (3 * n)
					if here&(bitSelf|bitVisited) == bitSelf {
						context := contextRefinement
						if here&bitRefined != 0 {
							context += 2
						} else if here&bitNeighbours != 0 {
							context++
						}
						d.refine(v+n*d.width, d.mq.decode(&d.contexts[context]), half)
						flags |= bitRefined << (3 * n)
					}
				}
				d.flags[f] = flags
			}
			f++
			v++
		}
	}
}

// refine moves a value to the middle of the upper or the lower half of its interval.
func (d *blockDecoder) refine(at, bit int, half int32) {
	x := d.values[at]
	if (bit != 0) == (x > 0) {
		x += half
	} else {
		x -= half
	}
	d.values[at] = x
}

// cleanup is the clean-up pass (D.3.4).
func (d *blockDecoder) cleanup(plane int) {
	for y := 0; y < d.height; y += 4 {
		f, v := (y/4+1)*d.stride+1, y*d.width
		rows := min(4, d.height-y)
		for range d.width {
			n := 0
			if d.flags[f] == 0 && rows == 4 {
				if d.mq.decode(&d.contexts[contextRun]) == 0 {
					f++
					v++
					continue
				}
				n = d.mq.decode(&d.contexts[contextUniform])<<1 | d.mq.decode(&d.contexts[contextUniform])
				sign := d.sign(f, n)
				d.first(v, n, plane, sign)
				d.become(f, n, sign)
				n++
			}
			for ; n < rows; n++ {
				here := d.flags[f] >> (3 * n)
				if here&(bitSelf|bitVisited) == 0 && d.mq.decode(&d.contexts[d.zero[here&bitNeighbours]]) != 0 {
					sign := d.sign(f, n)
					d.first(v, n, plane, sign)
					d.become(f, n, sign)
				}
			}
			d.flags[f] &^= allVisited
			f++
			v++
		}
	}
}

// significanceRaw and refinementRaw are the passes without the MQ coder (D.6).
func (d *blockDecoder) significanceRaw(plane int) {
	for y := 0; y < d.height; y += 4 {
		f, v := (y/4+1)*d.stride+1, y*d.width
		rows := min(4, d.height-y)
		for range d.width {
			for n := range rows {
				here := d.flags[f] >> (3 * n)
				if here&bitSelf == 0 && here&bitNeighbours != 0 {
					if d.raw.bit() != 0 {
						sign := uint32(d.raw.bit())
						d.first(v, n, plane, sign)
						d.become(f, n, sign)
					}
					d.flags[f] |= bitVisited << (3 * n)
				}
			}
			f++
			v++
		}
	}
}

func (d *blockDecoder) refinementRaw(plane int) {
	half := int32(1) << plane
	for y := 0; y < d.height; y += 4 {
		f, v := (y/4+1)*d.stride+1, y*d.width
		rows := min(4, d.height-y)
		for range d.width {
			for n := range rows {
				if here := d.flags[f] >> (3 * n); here&(bitSelf|bitVisited) == bitSelf {
					d.refine(v+n*d.width, d.raw.bit(), half)
					d.flags[f] |= bitRefined << (3 * n)
				}
			}
			f++
			v++
		}
	}
}

// rawReader reads bits: after a byte of ones only seven follow. Behind the end there are ones.
type rawReader struct {
	data []byte
	at   int
	now  byte
	left int
}

func (r *rawReader) bit() int {
	if r.left == 0 {
		r.left = 8
		if r.now == 0xFF {
			r.left = 7
		}
		r.now = 0xFF
		if r.at < len(r.data) {
			r.now = r.data[r.at]
			r.at++
		}
	}
	r.left--
	return int(r.now>>r.left) & 1
}
