package jpeg2000

import "math/bits"

// coder is the MQ decoder (annex C, software conventions). After the end of its data it reads ones.
type coder struct {
	data []byte
	at   int
	register
}

// register is the state of the MQ decoder that changes with every symbol. The 16 bits of the
// interval are the upper half of its word, as are the 16 bits of the code that they are compared
// with. If bit 31 of the interval is 0, it must be renormalised.
type register struct {
	interval, code uint32
	room           int // number of shifts until the next byte is needed
}

// A context is a word. The upper half is Qe, the part of the interval for the less probable symbol.
// The lower half is the state: 2*index + more probable symbol. moves holds the words that follow a
// state, after the more and after the less probable symbol. initial holds the words that contexts
// begin with (table D.7).
var moves, initial = func() (moves [128][2]uint32, initial [32]uint32) {
	// Table C.2: Qe; the next index after the more and after the less probable symbol; whether the
	// symbols are exchanged.
	table := [47][4]uint32{
		{0x5601, 1, 1, 1}, {0x3401, 2, 6, 0}, {0x1801, 3, 9, 0}, {0x0AC1, 4, 12, 0}, {0x0521, 5, 29, 0},
		{0x0221, 38, 33, 0}, {0x5601, 7, 6, 1}, {0x5401, 8, 14, 0},
		{0x4801, 9, 14, 0}, {0x3801, 10, 14, 0}, {0x3001, 11, 17, 0}, {0x2401, 12, 18, 0}, {0x1C01, 13, 20, 0},
		{0x1601, 29, 21, 0}, {0x5601, 15, 14, 1}, {0x5401, 16, 14, 0},
		{0x5101, 17, 15, 0}, {0x4801, 18, 16, 0}, {0x3801, 19, 17, 0}, {0x3401, 20, 18, 0}, {0x3001, 21, 19, 0},
		{0x2801, 22, 19, 0}, {0x2401, 23, 20, 0}, {0x2201, 24, 21, 0},
		{0x1C01, 25, 22, 0}, {0x1801, 26, 23, 0}, {0x1601, 27, 24, 0}, {0x1401, 28, 25, 0}, {0x1201, 29, 26, 0},
		{0x1101, 30, 27, 0}, {0x0AC1, 31, 28, 0}, {0x09C1, 32, 29, 0},
		{0x08A1, 33, 30, 0}, {0x0521, 34, 31, 0}, {0x0441, 35, 32, 0}, {0x02A1, 36, 33, 0}, {0x0221, 37, 34, 0},
		{0x0141, 38, 35, 0}, {0x0111, 39, 36, 0}, {0x0085, 40, 37, 0},
		{0x0049, 41, 38, 0}, {0x0025, 42, 39, 0}, {0x0015, 43, 40, 0}, {0x0009, 44, 41, 0}, {0x0005, 45, 42, 0},
		{0x0001, 45, 43, 0}, {0x5601, 46, 46, 0},
	}
	word := func(index, symbol uint32) uint32 { return table[index][0]<<16 | 2*index + symbol }
	for n, t := range table {
		for symbol := range uint32(2) {
			moves[2*n+int(symbol)] = [2]uint32{word(t[1], symbol), word(t[2], symbol^t[3])}
		}
	}
	for n := range initial {
		initial[n] = word(0, 0)
	}
	initial[0], initial[contextRun], initial[contextUniform] = word(4, 0), word(3, 0), word(46, 0)
	return moves, initial
}()

func (m *coder) start(data []byte) {
	*m = coder{data: data}
	m.code = uint32(m.byte(0)) << 16
	m.input()
	m.code <<= 7
	m.room -= 7
	m.interval = 0x8000 << 16
}

func (m *coder) byte(n int) byte {
	if n < len(m.data) {
		return m.data[n]
	}
	return 0xFF
}

// input reads a byte into the code (C.3.4).
func (m *coder) input() {
	next := m.byte(m.at + 1)
	if m.byte(m.at) == 0xFF {
		if next > 0x8F {
			m.code += 0xFF00
			m.room = 8
			return
		}
		m.at++
		m.code += uint32(next) << 9
		m.room = 7
		return
	}
	m.at++
	m.code += uint32(next) << 8
	m.room = 8
}

// divide decodes a symbol in a context (C.3.2). Less is 1 for the less probable symbol. The caller
// renormalises. There are no branches, because the processor could not predict them.
func divide(interval, code, context uint32) (newInterval, newCode, less uint32) {
	q := context &^ 0xFFFF
	interval -= q
	// all ones if the code lies in the lower part
	lower := uint32((int64(code) - int64(q)) >> 63)
	// all ones if the upper part is the smaller one
	small := uint32((int64(interval) - int64(q)) >> 63)
	return interval ^ (interval^q)&lower, code - q&^lower, (lower ^ small) & 1
}

// next decodes a symbol in a context. The register is passed and returned instead of kept in m, so
// that it stays in the processor's registers.
func (m *coder) next(r register, context *uint32) (register, uint32) {
	word, less := *context, uint32(0)
	if r.interval, r.code, less = divide(r.interval, r.code, word); int32(r.interval) >= 0 {
		*context = moves[word&0x7F][less]
		r = m.refill(r, bits.LeadingZeros32(r.interval))
	}
	return r, (word ^ less) & 1
}

// refill shifts the register, and reads bytes where there is not enough room.
func (m *coder) refill(r register, shift int) register {
	r.interval <<= shift & 31
	for shift > r.room {
		r.code <<= r.room & 31
		shift -= r.room
		m.code = r.code
		m.input()
		r.code, r.room = m.code, m.room
	}
	r.code <<= shift & 31
	r.room -= shift
	return r
}
