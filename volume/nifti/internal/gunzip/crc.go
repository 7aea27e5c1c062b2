package gunzip

import "hash/crc32"

// combine returns the CRC-32 of two pieces that follow each other, from that of either and the
// length of the second: the first is shifted behind the second, which means multiplied by
// x^(8*length) modulo the polynomial (as zlib's crc32_combine).
func combine(first, second uint32, length int64) uint32 {
	// x^0 and x^8: the highest bit is the lowest power
	power, square := uint32(1)<<31, uint32(1)<<23
	for n := uint64(length); n > 0; n >>= 1 {
		if n&1 == 1 {
			power = multiply(power, square)
		}
		square = multiply(square, square)
	}
	return multiply(power, first) ^ second
}

// multiply multiplies polynomials modulo that of the checksum.
func multiply(a, b uint32) uint32 {
	var p uint32
	for bit := uint32(1) << 31; bit > 0; bit >>= 1 {
		if a&bit != 0 {
			p ^= b
		}
		b = b>>1 ^ crc32.IEEE*(b&1)
	}
	return p
}
