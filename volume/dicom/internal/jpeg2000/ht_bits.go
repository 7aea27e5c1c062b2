package jpeg2000

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// This file: reading the bit streams of a high-throughput code-block (T.814 clause 7.1). The
// encoder has stuffed zero bits into them, so that no marker appears. They are removed from a whole
// segment before it is read, so that bits can be read at any place.

// slack is what follows after the bits of an unstuffed segment. It is as long as what may be read
// after the end: refinement passes read at most two bits for each of 4096 samples, and VLC is
// checked after each row of at most 512 quads, which take at most 15 bits each.
type slack [1024]byte

var (
	zeroSlack slack
	oneSlack  = func() (s slack) {
		for n := range s {
			s[n] = 0xFF
		}
		return s
	}()
)

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// bitWriter collects bits, the lowest first.
type bitWriter struct {
	to   []byte
	at   int    // index of the byte that is being filled
	now  uint64 // its bits so far
	used int    // number of them, below 8
}

// put adds up to 56 bits. Those above them are zeros.
func (w *bitWriter) put(bits uint64, n int) {
	w.now |= bits << w.used
	binary.LittleEndian.PutUint64(w.to[w.at:], w.now)
	w.used += n
	w.at += w.used >> 3
	w.now >>= w.used &^ 7
	w.used &= 7
}

// put64 adds 64 bits.
func (w *bitWriter) put64(bits uint64) {
	binary.LittleEndian.PutUint64(w.to[w.at:], w.now|bits<<w.used)
	w.now = bits >> (64 - w.used)
	w.at += 8
}

// newBitWriter returns a writer for up to n bytes, in the memory of old if it is large enough.
func newBitWriter(old []byte, n int) bitWriter {
	n += len(slack{}) + 9
	return bitWriter{to: slices.Grow(old[:0], n)[:n]}
}

// end adds the slack. It returns everything, and the number of bits before the slack.
func (w *bitWriter) end(fill *slack) ([]byte, int) {
	w.to[w.at] = byte(w.now) | fill[0]<<w.used
	n := copy(w.to[w.at+1:], fill[:])
	return w.to[:w.at+1+n], 8*w.at + w.used
}

// unstuff returns the bits of a segment without stuffed bits, in the memory of to if it is large
// enough, and their number. The byte after a byte 0xFF has seven bits.
func unstuff(to, data []byte, fill *slack) ([]byte, int) {
	w := newBitWriter(to, len(data))
	full := false // whether the previous byte was 0xFF
	for len(data) >= 8 {
		word := binary.LittleEndian.Uint64(data)
		if x := ^word; full || (x-lowBits)&^x&highBits != 0 { // or one of these is
			for _, b := range data[:8] {
				full = w.stuffed(b, full) == 0xFF
			}
		} else {
			w.put64(word)
		}
		data = data[8:]
	}
	for _, b := range data {
		full = w.stuffed(b, full) == 0xFF
	}
	return w.end(fill)
}

// unstuffBackwards is unstuff for a segment that is read from its last byte to its first. A byte
// with seven ones in its lower bits has only these bits, if the byte read before it is above 0x8F.
// Before is the byte that was read before the segment. The lower n bits of left are put first.
func unstuffBackwards(to, data []byte, before byte, left uint64, n int) ([]byte, int) {
	w := newBitWriter(to, len(data))
	w.put(left, n)
	for len(data) >= 8 {
		rest := len(data) - 8
		word := bits.ReverseBytes64(binary.LittleEndian.Uint64(data[rest:]))
		// one of these bytes may have seven ones
		if x := ^word &^ highBits; (x-lowBits)&highBits != 0 {
			for k := 7; k >= 0; k-- {
				before = w.stuffed(data[rest+k], before > 0x8F && data[rest+k]&0x7F == 0x7F)
			}
		} else {
			w.put64(word)
			before = data[rest]
		}
		data = data[:rest]
	}
	for k := len(data) - 1; k >= 0; k-- {
		before = w.stuffed(data[k], before > 0x8F && data[k]&0x7F == 0x7F)
	}
	return w.end(&zeroSlack)
}

// stuffed adds the bits of a byte: only the lower seven if a bit was stuffed. It returns the byte.
func (w *bitWriter) stuffed(b byte, stuffed bool) byte {
	if stuffed {
		w.put(uint64(b&0x7F), 7)
	} else {
		w.put(uint64(b), 8)
	}
	return b
}

// bitReader reads the bits of an unstuffed segment, the lowest bit of each byte first.
type bitReader struct {
	data    []byte
	at, end int // in bits
}

func (r *bitReader) bit() uint32 {
	b := uint32(r.data[r.at>>3]>>(r.at&7)) & 1
	r.at++
	return b
}

// bitsAt returns the bits from place at on, at least 57 of them.
func bitsAt(from []byte, at int) uint64 {
	return binary.LittleEndian.Uint64(from[at>>3:]) >> (at & 7)
}

// melReader decodes the adaptive run-length code MEL (T.814 clause 7.3.3). The highest bit of each
// byte comes first. After the end it reads ones.
type melReader struct {
	data  []byte
	now   uint64 // the next bits, at the top
	left  int    // number of them
	full  bool   // whether the previous byte was 0xFF: the next one has seven bits
	state int
	rest  int // of the current run, see next
}

// melExponents are the logarithms of the lengths of runs, by state.
var melExponents = [13]uint8{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5}

func newMELReader(data []byte) melReader {
	m := melReader{data: data}
	m.rest = m.next()
	return m
}

// event decodes an event.
func (m *melReader) event() bool {
	if m.rest -= 2; m.rest >= 0 {
		return false
	}
	is := m.rest == -1
	m.rest = m.next()
	return is
}

// next decodes a run of n false events. It returns 2n+1 if a true event follows, and 2n-2 if
// another run does. When event subtracts 2 for each event, -1 is reached with the true event, or -2
// with the last false one.
func (m *melReader) next() int {
	for m.left < 6 { // bits that a run takes at most
		m.input()
	}
	e := melExponents[m.state]
	if m.now>>63 != 0 {
		m.state = min(m.state+1, len(melExponents)-1)
		m.now <<= 1
		m.left--
		return 2<<e - 2
	}
	m.state = max(m.state-1, 0)
	run := int(m.now >> (63 - e)) // the first bit is 0
	m.now <<= e + 1
	m.left -= int(e) + 1
	return 2*run + 1
}

func (m *melReader) input() {
	b, n := byte(0xFF), 8
	if len(m.data) > 0 {
		b = m.data[0]
		if len(m.data) == 1 {
			b |= 0x0F // these bits of the last byte do not belong to MEL
		}
		m.data = m.data[1:]
	}
	if m.full {
		b, n = b&0x7F, 7
	}
	m.full = b == 0xFF
	m.now |= uint64(b) << (64 - n - m.left)
	m.left += n
}
