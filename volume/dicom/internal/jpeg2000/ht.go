package jpeg2000

import "math/bits"

// This file: decoding code-blocks of high throughput (HTJ2K, ITU-T T.814).
//
// A code-block consists of HT sets. A set is a clean-up pass and up to two refinement passes, which
// refine by one more bit-plane. Each clean-up pass codes all bit-planes down to its own, without
// regard to the sets before it. So only the last set is decoded. Sets without bytes stand for
// bit-planes that are not coded.
//
// The clean-up pass codes quads: squares of 2x2 samples, numbered down the first column and then
// down the second. Three bit streams make up the pass:
//
//   - VLC: code words that tell which samples of a quad are significant, and how many bits they
//     take. Their contexts are the neighbouring quads.
//   - MEL: run lengths. They tell which quads without significant neighbours have no code word.
//   - MagSgn: the magnitudes and the signs.

// quadMemory is memory for decodeHT.
type quadMemory struct {
	vlc, signs, refining []byte
	patterns             [2][]uint16
	residuals            []uint8
	below                []uint32
}

// decodeHT fills the values of a code-block of high throughput, which are zeros before.
func (d *blockDecoder) decodeHT(b *block, planes int) error {
	clean, refine, set := lastSet(b.segments)
	if clean == nil {
		return nil
	}
	plane := planes - 1 - b.missing - set
	if plane < 0 || !d.cleanUpHT(clean.data, plane, planes-plane+1) {
		return errDamaged
	}
	if refine == nil {
		return nil
	}
	if plane == 0 {
		return errDamaged
	}
	d.flags = zeros(d.flags, d.stride*((d.height+3)/4+2))
	d.tellAll()
	// Both passes share a segment: the first is read forwards from its start, the second backwards
	// from its end.
	d.refining, _ = unstuff(d.refining, refine.data, &zeroSlack)
	d.significanceHT(&bitReader{data: d.refining}, plane-1)
	if refine.passes > 1 {
		d.refining, _ = unstuffBackwards(d.refining, refine.data, 0xFF, 0, 0)
		d.refinementRaw(&bitReader{data: d.refining}, plane-1)
	}
	return nil
}

// lastSet returns the last HT set whose clean-up pass has bytes, and its number. Clean is nil if
// there is none, and refine is nil if the set has no refinement passes.
func lastSet(segments []codeSegment) (clean, refine *codeSegment, set int) {
	passes := 0
	for n := range segments {
		s := &segments[n]
		passes += s.passes
		switch {
		case n%2 == 0 && len(s.data) > 0:
			clean, refine, set = s, nil, (passes-1)/3
		case n%2 == 1 && clean == &segments[n-1]:
			refine = s
		}
	}
	return clean, refine, set
}

// cleanUpHT decodes a clean-up pass (T.814 clause 7.3), whose lowest bit-plane is plane. At most
// most bits are coded for a sample. It reports whether the data are well-formed.
func (d *blockDecoder) cleanUpHT(data []byte, plane, most int) bool {
	// First comes MagSgn, then a part that MEL and VLC share: MEL is read forwards from its start,
	// VLC backwards from its end. The last twelve bits are the length of that part (T.814 clause
	// 7.1.1).
	n := len(data)
	if n < 2 {
		return false
	}
	shared := int(data[n-1])<<4 | int(data[n-2]&0x0F)
	if shared < 2 || shared > min(n, 4079) {
		return false
	}
	m := &d.quadMemory
	across := (d.width + 1) / 2
	m.residuals, m.below = zeros(m.residuals, across+1), zeros(m.below, across+1)
	for k := range m.patterns {
		m.patterns[k] = zeros(m.patterns[k], across+3)
	}
	r := quadRow{
		across: across, residuals: m.residuals, below: m.below,
		mel: newMELReader(data[n-shared : n-1]), scale: 1 << plane, most: most,
	}
	last, left := data[n-2]|0x0F, 4 // VLC begins with the upper half of this byte
	if last&0x7F == 0x7F {
		left = 3
	}
	m.vlc, r.vlc.end = unstuffBackwards(m.vlc, data[n-shared:n-2], last, uint64(last)>>4&(1<<left-1), left)
	m.signs, r.signs.end = unstuff(m.signs, data[:n-shared], &oneSlack)
	r.vlc.data, r.signs.data = m.vlc, m.signs
	for y := 0; y < d.height; y += 2 {
		r.now, r.above = m.patterns[y/2%2], m.patterns[(y/2+1)%2]
		r.upper, r.lower = d.values[y*d.pitch:][:d.pitch], d.values[(y+1)*d.pitch:][:d.pitch]
		if r.vlc.at > r.vlc.end || !r.decode(y == 0) {
			return false
		}
	}
	return r.vlc.at <= r.vlc.end
}

// quadRow decodes rows of quads.
type quadRow struct {
	across     int       // quads in a row
	vlc, signs bitReader // signs is MagSgn
	mel        melReader
	// now and above hold the entries of vlcTables for the quads of this row and of the row above.
	// The entry of quad q has the index q+1. The entries around them are zeros.
	now, above []uint16
	context    uint16  // of the next quad, without the part from the row above
	residuals  []uint8 // u of the quads of this row
	// below[q] is the bitwise or of what was coded for the lower samples of the second column of
	// quad q-1 and of the first column of quad q. It decides how many bits the samples of the next
	// row take. From the current quad on, below is still from the row above.
	below        []uint32
	carry        uint32  // what was coded for the lower sample of the previous column
	upper, lower []int32 // the two rows of values
	scale        uint32  // 1 << bit-plane
	most         int     // bits that may be coded for a sample
}

// decode decodes a row. It reports whether the data are well-formed. Code words are decoded one
// pair of quads ahead of the magnitudes: each code word waits for the one before it, and the
// processor can work on magnitudes in the meantime.
func (r *quadRow) decode(first bool) bool {
	r.context, r.carry = 0, 0
	r.pair(0, first)
	for q := range r.across {
		if q%2 == 0 && q+2 < r.across {
			r.pair(q+2, first)
		}
		if !r.magnitudes(q) {
			return false
		}
	}
	r.below[r.across] = r.carry
	return true
}

// pair decodes the code words of two quads: their significance patterns and their residuals u
// (T.814 clause 7.3.5).
func (r *quadRow) pair(q int, first bool) {
	if first {
		r.firstPair(q)
		return
	}
	word := bitsAt(r.vlc.data, r.vlc.at)
	above := r.above[q+1 : q+4]
	context := r.context | above[0]&0xA0<<2 | above[1]&0x20<<4
	a := vlcTables[1][vlcIndex(context, word)]
	// Without significant neighbours, an event of MEL tells whether there is a code word.
	if context == 0 && !r.mel.event() {
		a = 0
	}
	word >>= a & 7
	context = a&0x40<<2 | a&0x80<<1 | above[0]&0x80 | above[1]&0xA0<<2 | above[2]&0x20<<4
	b := uint16(0)
	if q+1 < r.across {
		if b = vlcTables[1][vlcIndex(context, word)]; context == 0 && !r.mel.event() {
			b = 0
		}
	}
	word >>= b & 7
	r.context = b&0x40<<2 | b&0x80<<1 | above[1]&0x80
	r.now[q+1], r.now[q+2] = a, b
	r.vlc.at += int(a&7+b&7) + residuals[a>>3&1|b>>2&2][word&63].decode(word, r.residuals[q:q+2])
}

// firstPair is pair for the first row, which has contexts of its own because there is no row above.
func (r *quadRow) firstPair(q int) {
	word := bitsAt(r.vlc.data, r.vlc.at)
	a := vlcTables[0][vlcIndex(r.context, word)]
	if r.context == 0 && !r.mel.event() {
		a = 0
	}
	word >>= a & 7
	context := a&0x10<<3 | a&0xE0<<2
	b := uint16(0)
	if q+1 < r.across {
		if b = vlcTables[0][vlcIndex(context, word)]; context == 0 && !r.mel.event() {
			b = 0
		}
	}
	word >>= b & 7
	r.context = b&0x10<<3 | b&0xE0<<2
	mode := a>>3&1 | b>>2&2
	if mode == residualBoth {
		mode = residualSmall
		if r.mel.event() {
			mode = residualLarge
		}
	}
	r.now[q+1], r.now[q+2] = a, b
	r.vlc.at += int(a&7+b&7) + residuals[mode][word&63].decode(word, r.residuals[q:q+2])
}

// magnitudes decodes the samples of a quad (T.814 clause 7.3.6). It reports whether their number of
// bits is possible.
func (r *quadRow) magnitudes(q int) bool {
	p := uint32(r.now[q+1])
	below := r.below[q : q+2]
	significant := p & 0xF0
	if significant == 0 {
		below[0], r.carry = r.carry, 0
		return true
	}
	// size is U: the number of bits that are coded for each sample. If several samples are
	// significant, u is the difference to the bits of the samples above.
	size := int(r.residuals[q]) + 1
	if significant&(significant-0x10) != 0 {
		size += bits.Len32(below[0]|below[1]|2) - 2
	}
	if size > r.most {
		return false
	}
	at := min(r.signs.at, r.signs.end) // only ones follow after the end
	c0, n0 := sample(bitsAt(r.signs.data, at), p, size)
	at += n0
	c1, n1 := sample(bitsAt(r.signs.data, at), p>>1, size)
	at += n1
	c2, n2 := sample(bitsAt(r.signs.data, at), p>>2, size)
	at += n2
	c3, n3 := sample(bitsAt(r.signs.data, at), p>>3, size)
	r.signs.at = at + n3
	upper, lower := r.upper[2*q:2*q+2], r.lower[2*q:2*q+2]
	upper[0], upper[1] = value(c0, p, r.scale), value(c2, p>>2, r.scale)
	lower[0], lower[1] = value(c1, p>>1, r.scale), value(c3, p>>3, r.scale)
	below[0], r.carry = r.carry|c1, c3
	return true
}

// sample decodes sample 0 of a pattern, or sample n if the pattern is shifted right by n. It
// returns what is coded for it and the number of bits that were read. A magnitude m is coded as
// 2*(m-1), and a negative sample as 1 more.
func sample(word uint64, pattern uint32, size int) (coded uint32, length int) {
	n := (uint32(size) - pattern>>12&1) & -(pattern >> 4 & 1) & 31
	return uint32(word)&(1<<n-1) | pattern>>8&1<<n, int(n)
}

// value returns the doubled value of the sample that sample has decoded.
func value(coded, pattern, scale uint32) int32 {
	x, sign := ((coded|1)+2)*scale&-(pattern>>4&1), -(coded & 1)
	return int32(x ^ sign - sign)
}

// tellAll sets the flags for all values that are not zero.
func (d *blockDecoder) tellAll() {
	for y := range d.height {
		f, at := (y/4+1)*d.stride+1, y%4*3
		for x, v := range d.values[y*d.pitch:][:d.width] {
			if v != 0 {
				d.flags[f+x] |= d.tell(f+x, at, 0)
			}
		}
	}
}

// significanceHT is the significance propagation pass of high throughput (T.814 clause 7.4). It
// differs from significanceRaw in that the signs of four columns of a stripe follow after their
// significance.
func (d *blockDecoder) significanceHT(data bitSource, plane int) {
	var found [16]int // indices of values that became significant
	for y := 0; y < d.height; y += 4 {
		inside := stripe(d.height - y)
		for x := 0; x < d.width; x += 4 {
			count := 0
			for k := range min(4, d.width-x) {
				f, v := (y/4+1)*d.stride+1+x+k, y*d.pitch+x+k
				flags := d.flags[f]
				for left := candidates(flags) & inside; left != 0; {
					at := bits.TrailingZeros32(left)
					left &= left - 1
					if data.bit() != 0 {
						flags |= d.settle(f, v, at, plane, 0)
						left |= 8 << at &^ (flags >> 4) & inside
						found[count] = v + at/3*d.pitch
						count++
					}
					flags |= bitVisited << at
				}
				d.flags[f] = flags
			}
			for _, v := range found[:count] {
				if data.bit() != 0 {
					d.values[v] = -d.values[v]
				}
			}
		}
	}
}
