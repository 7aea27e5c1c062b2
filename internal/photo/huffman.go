package photo

// fastBits is the length of the codes that one look at the table decodes, with the number behind
// the code where that fits, too.
const fastBits = 10

// huffman is a table of ITU-T T.81, annex C, made ready for decoding.
type huffman struct {
	// By the next fastBits bits: how many of them are used (bits 0 to 5), whether the number is
	// among them (bit 6), the symbol or, with the number, its run (bits 8 to 15), the number (bits
	// 16 to 31). Zero where the code is longer.
	fast [1 << fastBits]uint32

	largest [17]int32 // code of each length, or -1
	first   [17]int32 // what to add to a code of that length to find its symbol
	symbols [256]byte
}

const withNumber = 1 << 6

// newHuffman reads a table: how many codes there are of each length from 1 to 16, and their
// symbols.
func newHuffman(counts, symbols []byte) (*huffman, error) {
	h := &huffman{}
	copy(h.symbols[:], symbols)
	code, n := int32(0), int32(0)
	for length := 1; length <= 16; length++ {
		h.first[length], h.largest[length] = n-code, -1
		for range counts[length-1] {
			if code >= 1<<length {
				return nil, errDamaged
			}
			h.largest[length] = code
			if length <= fastBits {
				h.enter(uint32(code), length, h.symbols[n])
			}
			code++
			n++
		}
		code <<= 1
	}
	return h, nil
}

// enter fills the places of the fast table that begin with a code.
func (h *huffman) enter(code uint32, length int, symbol byte) {
	rest := fastBits - length
	size := int(symbol & 15)
	for suffix := range uint32(1) << rest {
		entry := uint32(length) | uint32(symbol)<<8
		if size > 0 && size <= rest {
			number := extend(suffix>>(rest-size), size)
			entry = uint32(length+size) | withNumber | uint32(symbol>>4)<<8 | uint32(number)<<16
		}
		h.fast[code<<rest|suffix] = entry
	}
}

// long decodes a code that the fast table does not have. What is no code counts as the symbol 0, as
// in libjpeg.
func (h *huffman) long(next uint64) (symbol byte, length int) {
	for length := fastBits + 1; length <= 16; length++ {
		code := int32(next >> (64 - length))
		if code <= h.largest[length] {
			return h.symbols[(code+h.first[length])&255], length
		}
	}
	return 0, 16
}

// extend gives the number that so many bits stand for (T.81, figure F.12).
func extend(bits uint32, size int) int32 {
	v := int32(bits)
	if v < 1<<(size-1) {
		v -= 1<<size - 1
	}
	return v
}
