package jpeg2000

import "math/bits"

// coder is the MQ decoder (annex C, in its form of software conventions). Behind the end of its data there are ones. The interval a has its 16 bits at the top
// of the word, beside the 16 bits of the code register c that they are compared with: bit 31 tells whether a must be renormalised.
type coder struct {
	data []byte
	at   int
	a, c uint32
	left int // shifts to the next byte
}

// state is one of a context, the more probable symbol included: number 2*index + symbol.
type state struct {
	qe                 uint32 // at the top of the word
	moreNext, lessNext uint8
}

var states = func() (all [94]state) {
	// Table C.2: Qe, next if more probable, next if less probable, whether the symbols change places.
	table := [47][4]uint32{
		{0x5601, 1, 1, 1}, {0x3401, 2, 6, 0}, {0x1801, 3, 9, 0}, {0x0AC1, 4, 12, 0}, {0x0521, 5, 29, 0}, {0x0221, 38, 33, 0}, {0x5601, 7, 6, 1}, {0x5401, 8, 14, 0},
		{0x4801, 9, 14, 0}, {0x3801, 10, 14, 0}, {0x3001, 11, 17, 0}, {0x2401, 12, 18, 0}, {0x1C01, 13, 20, 0}, {0x1601, 29, 21, 0}, {0x5601, 15, 14, 1}, {0x5401, 16, 14, 0},
		{0x5101, 17, 15, 0}, {0x4801, 18, 16, 0}, {0x3801, 19, 17, 0}, {0x3401, 20, 18, 0}, {0x3001, 21, 19, 0}, {0x2801, 22, 19, 0}, {0x2401, 23, 20, 0}, {0x2201, 24, 21, 0},
		{0x1C01, 25, 22, 0}, {0x1801, 26, 23, 0}, {0x1601, 27, 24, 0}, {0x1401, 28, 25, 0}, {0x1201, 29, 26, 0}, {0x1101, 30, 27, 0}, {0x0AC1, 31, 28, 0}, {0x09C1, 32, 29, 0},
		{0x08A1, 33, 30, 0}, {0x0521, 34, 31, 0}, {0x0441, 35, 32, 0}, {0x02A1, 36, 33, 0}, {0x0221, 37, 34, 0}, {0x0141, 38, 35, 0}, {0x0111, 39, 36, 0}, {0x0085, 40, 37, 0},
		{0x0049, 41, 38, 0}, {0x0025, 42, 39, 0}, {0x0015, 43, 40, 0}, {0x0009, 44, 41, 0}, {0x0005, 45, 42, 0}, {0x0001, 45, 43, 0}, {0x5601, 46, 46, 0},
	}
	for n, t := range table {
		for mps := range uint32(2) {
			all[2*n+int(mps)] = state{t[0] << 16, uint8(2*t[1] + mps), uint8(2*t[2] + mps ^ t[3])}
		}
	}
	return all
}()

func (m *coder) start(data []byte) {
	*m = coder{data: data}
	m.c = uint32(m.byte(0)) << 16
	m.input()
	m.c <<= 7
	m.left -= 7
	m.a = 0x8000 << 16
}

func (m *coder) byte(n int) byte {
	if n < len(m.data) {
		return m.data[n]
	}
	return 0xFF
}

// input takes in a byte (C.3.4).
func (m *coder) input() {
	next := m.byte(m.at + 1)
	if m.byte(m.at) == 0xFF {
		if next > 0x8F {
			m.c += 0xFF00
			m.left = 8
			return
		}
		m.at++
		m.c += uint32(next) << 9
		m.left = 7
		return
	}
	m.at++
	m.c += uint32(next) << 8
	m.left = 8
}

// decode decodes a symbol in a context (C.3.2). What is here is the most frequent case and small enough to be inlined.
func (m *coder) decode(context *uint8) int {
	q := states[*context].qe
	m.a -= q
	if m.c >= q && int32(m.a) < 0 {
		m.c -= q
		return int(*context & 1)
	}
	return m.exchange(context)
}

// exchange is the rest of decode: the less probable symbol, or the more probable one with renormalisation.
func (m *coder) exchange(context *uint8) int {
	s := &states[*context]
	symbol := int(*context & 1)
	if m.c >= s.qe {
		m.c -= s.qe
		if m.a < s.qe {
			symbol ^= 1
			*context = s.lessNext
		} else {
			*context = s.moreNext
		}
	} else {
		if m.a < s.qe {
			*context = s.moreNext
		} else {
			symbol ^= 1
			*context = s.lessNext
		}
		m.a = s.qe
	}
	for shift := bits.LeadingZeros32(m.a); shift > 0; {
		if m.left == 0 {
			m.input()
		}
		n := min(shift, m.left)
		m.a <<= n
		m.c <<= n
		m.left -= n
		shift -= n
	}
	return symbol
}
