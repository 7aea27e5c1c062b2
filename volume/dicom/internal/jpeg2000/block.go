package jpeg2000

import "math/bits"

// This file: decoding the bit-planes of a code-block (annex D) by the MQ coder (annex C).
//
//   - Samples are scanned in stripes of four rows. One word of flags describes the four samples of
//     a column in a stripe. Bits 0 to 17 tell which of the 3x6 samples in and around the column are
//     significant, row by row: sample n and its neighbours are in bits 3n to 3n+8. Three bits for
//     each n, from bit 19+3n on, are the sign of sample n, whether it was refined, and whether it
//     was visited in this bit-plane. Bits 18 and 31 are the signs of the samples above and below
//     the column. (OpenJPEG packs its flags in the same way.)
//   - Values are doubled. So the middle of the interval that the bits read so far leave for a
//     sample is a whole number, too.

const (
	bitNeighbours = 0x1EF // the eight neighbours of sample 0
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

// zeroContexts holds the context of a sample by the orientation of the sub-band and the
// significance of the neighbours (table D.1). signContexts holds the context of a sign (tables D.2
// and D.3). Bit 7 is set where the decoded bit must be inverted.
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
	// Bits of the index: 1, 3, 5, 7 are the significance of the samples above, left, right, below;
	// 4, 0, 2, 6 are their signs.
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

// blockDecoder decodes code-blocks. Its memory is reused from code-block to code-block.
type blockDecoder struct {
	style    int
	mq       coder
	width    int
	height   int
	pitch    int      // of values: the distance from row to row
	stride   int      // of flags: the distance from stripe to stripe
	flags    []uint32 // with a border of one word on each side
	values   []int32
	zero     *[512]uint8
	contexts [32]uint32 // states of the MQ coder, of which 19 are used
	quadMemory
}

// decode returns the values of a code-block, doubled. Rows begin pitch elements apart. The values
// are valid until the next call.
func (d *blockDecoder) decode(b *block, orientation, planes int) (values []int32, pitch int, err error) {
	d.width, d.height = b.area.width(), b.area.height()
	d.stride = d.width + 2
	if b.kind != classic {
		d.pitch = d.width + d.width&1
		d.values = zeros(d.values, d.pitch*(d.height+d.height&1))
		err = d.decodeHT(b, planes)
	} else {
		d.pitch = d.width
		d.values = zeros(d.values, d.width*d.height)
		err = d.decodePlanes(b, orientation, planes)
	}
	return d.values, d.pitch, err
}

// decodePlanes fills the values of a classic code-block. It has so many bit-planes, those that are
// zero included.
func (d *blockDecoder) decodePlanes(b *block, orientation, planes int) error {
	d.flags = zeros(d.flags, d.stride*((d.height+3)/4+2))
	d.zero = &zeroContexts[orientation]
	d.reset()
	plane := planes - 1 - b.missing
	kind := 2 // of the next pass: 0 significance propagation, 1 magnitude refinement, 2 clean-up
	pass := 0
	for n := range b.segments {
		s := &b.segments[n]
		var raw bitSource
		if d.style&styleBypass != 0 && pass >= 10 && kind < 2 {
			raw = &rawReader{data: s.data}
		} else {
			d.mq.start(s.data)
		}
		for range s.passes {
			if plane < 0 {
				return errDamaged
			}
			switch {
			case kind == 0 && raw != nil:
				d.significanceRaw(raw, plane)
			case kind == 0:
				d.significance(plane)
			case kind == 1 && raw != nil:
				d.refinementRaw(raw, plane)
			case kind == 1:
				d.refinement(plane)
			default:
				d.cleanup(plane)
				if d.style&styleSegmentation != 0 {
					for range 4 {
						d.mq.register, _ = d.mq.next(d.mq.register, &d.contexts[contextUniform])
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
	return nil
}

// reset sets all contexts to their initial states (table D.7).
func (d *blockDecoder) reset() {
	d.contexts = initial
}

const (
	eachSample = 0o1111   // bit 3n for each sample n of a column
	eachRow    = 0o111111 // bit 3n for each row n of the 3x6 samples
)

// stripe returns bit 3n for each sample n of a column that is inside the code-block, where so many
// rows are left.
func stripe(rows int) uint32 { return eachSample >> max(12-3*rows, 0) }

// candidates returns bit 3n for each sample n of a column that is not significant, but has a
// significant neighbour.
func candidates(flags uint32) uint32 {
	rows := (flags | flags>>1 | flags>>2) & eachRow // rows with a significant sample
	return (rows | rows>>3 | rows>>6) &^ (flags >> 4) & eachSample
}

// significance is the significance propagation pass (D.3.1).
func (d *blockDecoder) significance(plane int) {
	r := d.mq.register
	for y := 0; y < d.height; y += 4 {
		f, v := (y/4+1)*d.stride+1, y*d.pitch
		inside := stripe(d.height - y)
		for end := f + d.width; f < end; f, v = f+1, v+1 {
			flags := d.flags[f]
			if flags == 0 {
				continue
			}
			for left := candidates(flags) & inside; left != 0; {
				at := bits.TrailingZeros32(left) & 31
				left &= left - 1
				// As coder.next, which would cost a call.
				context := &d.contexts[d.zero[flags>>at&bitNeighbours]&31]
				word, less := *context, uint32(0)
				if r.interval, r.code, less = divide(r.interval, r.code, word); int32(r.interval) >= 0 {
					*context = moves[word&0x7F][less]
					shift := bits.LeadingZeros32(r.interval) & 31
					if r.room >= shift {
						r.interval <<= shift
						r.code <<= shift
						r.room -= shift
					} else {
						r = d.mq.refill(r, shift)
					}
				}
				if (word^less)&1 != 0 {
					flags, r = d.become(f, v, at, plane, flags, r)
					// the sample below has a significant neighbour now
					left |= 8 << at &^ (flags >> 4) & inside
				}
				flags |= bitVisited << at
			}
			d.flags[f] = flags
		}
	}
	d.mq.register = r
}

// cleanup is the clean-up pass (D.3.4).
func (d *blockDecoder) cleanup(plane int) {
	r := d.mq.register
	for y := 0; y < d.height; y += 4 {
		f, v := (y/4+1)*d.stride+1, y*d.pitch
		inside := stripe(d.height - y)
		for end := f + d.width; f < end; f, v = f+1, v+1 {
			flags := d.flags[f]
			left := inside &^ (flags>>4 | flags>>21)
			if flags == 0 && inside == eachSample {
				var bit, high, low uint32
				if r, bit = d.mq.next(r, &d.contexts[contextRun]); bit == 0 {
					continue
				}
				r, high = d.mq.next(r, &d.contexts[contextUniform])
				r, low = d.mq.next(r, &d.contexts[contextUniform])
				at := 3 * int(high<<1|low)
				flags, r = d.become(f, v, at, plane, flags, r)
				left = eachSample << (at + 3) & eachSample
			}
			for ; left != 0; left &= left - 1 {
				at := bits.TrailingZeros32(left) & 31
				// As coder.next, which would cost a call.
				context := &d.contexts[d.zero[flags>>at&bitNeighbours]&31]
				word, less := *context, uint32(0)
				if r.interval, r.code, less = divide(r.interval, r.code, word); int32(r.interval) >= 0 {
					*context = moves[word&0x7F][less]
					shift := bits.LeadingZeros32(r.interval) & 31
					if r.room >= shift {
						r.interval <<= shift
						r.code <<= shift
						r.room -= shift
					} else {
						r = d.mq.refill(r, shift)
					}
				}
				if (word^less)&1 != 0 {
					flags, r = d.become(f, v, at, plane, flags, r)
				}
			}
			d.flags[f] = flags &^ allVisited
		}
	}
	d.mq.register = r
}

// become decodes the sign of a sample that becomes significant, and records both. The flags of the
// sample's column are d.flags[f]; flags is a local copy of them. The sample is number at/3 of the
// column, whose values begin at v. It returns the flags of the column.
func (d *blockDecoder) become(f, v, at, plane int, flags uint32, r register) (uint32, register) {
	index := flags >> at & 0xAA
	index |= d.flags[f-1] >> (signShift + at) & 1
	index |= d.flags[f+1] >> (signShift + at) & 1 << 2
	if at == 0 {
		index |= flags >> 18 & 1 << 4
	} else {
		index |= flags >> (signShift + at - 3) & 1 << 4
	}
	index |= flags >> (signShift + 3 + at) & 1 << 6
	entry := signContexts[index]
	r, sign := d.mq.next(r, &d.contexts[entry&31])
	sign ^= uint32(entry >> 7)
	return flags | d.settle(f, v, at, plane, sign), r
}

// settle gives a sample that becomes significant its first value, and calls tell.
func (d *blockDecoder) settle(f, v, at, plane int, sign uint32) uint32 {
	x := int32(3) << plane
	d.values[v+at/3*d.pitch] = x ^ -int32(sign) + int32(sign)
	return d.tell(f, at, sign)
}

// tell sets the flags of the neighbouring columns and stripes for a sample that is significant. It
// returns the bits to set in the flags of the sample's own column.
func (d *blockDecoder) tell(f, at int, sign uint32) uint32 {
	flags := d.flags
	flags[f-1] |= 1 << (5 + at)
	flags[f+1] |= 1 << (3 + at)
	if at == 0 && d.style&styleCausal == 0 {
		up := f - d.stride
		flags[up-1] |= 1 << 17
		flags[up] |= sign<<31 | 1<<16
		flags[up+1] |= 1 << 15
	}
	if at == 9 {
		down := f + d.stride
		flags[down-1] |= 1 << 2
		flags[down] |= sign<<18 | 1<<1
		flags[down+1] |= 1
	}
	return (sign<<signShift | bitSelf) << at
}

// refinement is the magnitude refinement pass (D.3.3).
func (d *blockDecoder) refinement(plane int) {
	r := d.mq.register
	half := int32(1) << plane
	for y := 0; y < d.height; y += 4 {
		f, v := (y/4+1)*d.stride+1, y*d.pitch
		for end := f + d.width; f < end; f, v = f+1, v+1 {
			flags := d.flags[f]
			left := flags >> 4 &^ (flags >> 21) & eachSample
			d.flags[f] = flags | left*bitRefined
			for ; left != 0; left &= left - 1 {
				at := bits.TrailingZeros32(left) & 31
				here := flags >> at
				k := contextRefinement
				if here&bitRefined != 0 {
					k += 2
				} else if here&bitNeighbours != 0 {
					k++
				}
				// As coder.next, which would cost a call.
				context := &d.contexts[k&31]
				word, less := *context, uint32(0)
				if r.interval, r.code, less = divide(r.interval, r.code, word); int32(r.interval) >= 0 {
					*context = moves[word&0x7F][less]
					shift := bits.LeadingZeros32(r.interval) & 31
					if r.room >= shift {
						r.interval <<= shift
						r.code <<= shift
						r.room -= shift
					} else {
						r = d.mq.refill(r, shift)
					}
				}
				refine(&d.values[v+at/3*d.pitch], (word^less)&1, half)
			}
		}
	}
	d.mq.register = r
}

// refine moves a value to the middle of the upper (bit 1) or the lower (bit 0) half of its
// interval.
func refine(value *int32, bit uint32, half int32) {
	sign := *value >> 31
	*value += (half * int32(2*bit-1)) ^ sign - sign
}

// significanceRaw and refinementRaw are the same passes on bits that are not coded by the MQ coder
// (D.6).
func (d *blockDecoder) significanceRaw(data bitSource, plane int) {
	for y := 0; y < d.height; y += 4 {
		f, v := (y/4+1)*d.stride+1, y*d.pitch
		inside := stripe(d.height - y)
		for end := f + d.width; f < end; f, v = f+1, v+1 {
			flags := d.flags[f]
			for left := candidates(flags) & inside; left != 0; {
				at := bits.TrailingZeros32(left)
				left &= left - 1
				if data.bit() != 0 {
					flags |= d.settle(f, v, at, plane, data.bit())
					left |= 8 << at &^ (flags >> 4) & inside
				}
				flags |= bitVisited << at
			}
			d.flags[f] = flags
		}
	}
}

func (d *blockDecoder) refinementRaw(data bitSource, plane int) {
	half := int32(1) << plane
	for y := 0; y < d.height; y += 4 {
		f, v := (y/4+1)*d.stride+1, y*d.pitch
		for end := f + d.width; f < end; f, v = f+1, v+1 {
			flags := d.flags[f]
			left := flags >> 4 &^ (flags >> 21) & eachSample
			d.flags[f] = flags | left*bitRefined
			for ; left != 0; left &= left - 1 {
				refine(&d.values[v+bits.TrailingZeros32(left)/3*d.pitch], data.bit(), half)
			}
		}
	}
}

// bitSource reads single bits.
type bitSource interface{ bit() uint32 }

// rawReader reads the bits of uncoded passes, the highest of a byte first. The byte after a byte
// 0xFF has seven. After the end it reads ones.
type rawReader struct {
	data []byte
	at   int
	now  byte
	left int
}

func (r *rawReader) bit() uint32 {
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
	return uint32(r.now>>r.left) & 1
}
