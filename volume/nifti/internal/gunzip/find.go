package gunzip

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// kraft[n] is the sum of 2^(7-length) over four code lengths of three bits each.
var kraft = func() (sums [1 << 12]uint16) {
	for n := range sums {
		for lengths := n; lengths > 0; lengths >>= 3 {
			if l := lengths & 7; l > 0 {
				sums[n] += 128 >> l
			}
		}
	}
	return sums
}()

// find looks for a place from a bit on, before another, and leaves the decoder behind its header.
// What it finds is a guess: one in many millions of bits looks like a header by chance.
func (d *decoder) find(from, until int64) (place, bool) {
	d.kind, d.final, d.member, d.low, d.ends = noBlock, false, false, 0, nil
	for from < until {
		d.buffer = d.buffer[:0] // seek would stay where the bit is buffered, and not read on
		if d.seek(from) != nil {
			return place{}, false
		}
		// Of what is buffered, the last reserve bytes are left for the next turn: headers are read
		// from where they are seen.
		base := d.base * 8
		stop := min(until, base+int64(len(d.buffer)-reserve)*8)
		if stop <= from {
			return place{}, false // the rest is padding
		}
		if p, ok := d.findBuffered(from-base, stop-base, base); ok {
			return p, true
		}
		from = stop
	}
	return place{}, false
}

// findBuffered looks in the buffer, which begins at bit base of the file, from one of its bits to
// another. The buffer stays as it is, because it holds a whole header behind each of these bits.
func (d *decoder) findBuffered(from, to, base int64) (place, bool) {
	buffer := d.buffer
	// A member's header is rare and found at once. Blocks count before it.
	block := to
	for at := (from + 7) / 8; at < (to+7)/8; at++ {
		n := bytes.Index(buffer[at:], []byte{0x1f, 0x8b, 8})
		if n < 0 || at+int64(n) >= (to+7)/8 {
			break
		}
		at += int64(n)
		if buffer[at+3]&0xe0 == 0 {
			block = at * 8
			break
		}
	}
	// a word is read from a whole byte on: 57 bits of it are there whatever the bit, and the
	// pattern has three
	const step = 55
	for p := from; p < block; p += step {
		word := binary.LittleEndian.Uint64(buffer[p>>3:]) >> (p & 7)
		// One bit for each place of the pattern 0, 0, 1: not the last, and dynamic.
		for m := ^word & ^(word >> 1) & (word >> 2) & (1<<step - 1); m != 0; m &= m - 1 {
			q := p + int64(bits.TrailingZeros64(m))
			if q < block && plausible(buffer, q) && d.try(base+q) {
				return place{bit: base + q}, true
			}
		}
	}
	if block < to {
		d.seek(base + block) // within the buffer: cannot fail
		d.member = true
		return place{base + block, true}, true
	}
	return place{}, false
}

// plausible says whether a dynamic block's header at a bit has symbols that exist and a complete
// code for code lengths. One of some thousand does by chance.
func plausible(buffer []byte, bit int64) bool {
	word := binary.LittleEndian.Uint64(buffer[bit>>3:]) >> (bit & 7)
	if word>>3&31 > 286-257 || word>>8&31 > 30-1 {
		return false
	}
	n := word>>13&15 + 4
	bit += 17
	lengths := binary.LittleEndian.Uint64(buffer[bit>>3:]) >> (bit & 7) & (1<<(3*n) - 1)
	return kraft[lengths&0xfff]+kraft[lengths>>12&0xfff]+kraft[lengths>>24&0xfff]+kraft[lengths>>36&0xfff]+
		kraft[lengths>>48&0xfff] == 128
}

// try reads a block's header at a bit of what is buffered.
func (d *decoder) try(bit int64) bool {
	if d.seek(bit) == nil && d.begin() == nil {
		return true
	}
	d.kind = noBlock
	return false
}
