package gunzip

import "math/bits"

// The tables are indexed with the next bits of the input, and an entry says all there is to do.
// Codes longer than a table's index go on in a subtable behind it. The idea of packing several
// literals into one entry is ISA-L's, the rest of the layout follows libdeflate's.
//
// An entry of the table of literals and lengths is one of
//
//	literals    bits 0-3 code length, 4-5 how many literals (1 to 3), 8-31 the literals, the first lowest
//	length      bits 0-3 code length, 6-7 isLength, 8-16 smallest length, 20-24 code length and extra bits together
//	subtable    bits 6-7 isSubtable, 8-23 where it begins, 24-27 bits of its index
//	end         bits 0-3 code length, 6-7 isEnd
//	0           no code begins like this
//
// and one of the table of distances
//
//	distance    bits 0-4 code length and extra bits together, 8-11 code length, 16-30 smallest distance
//	subtable    bit 31, bits 0-3 bits of its index, 16-30 where it begins
//	0           no code begins like this
const (
	litBits  = 11
	distBits = 8

	// with room for subtables: one of s bits needs s+1 of the 286 symbols, which makes 912 entries
	// at most
	litSize  = 1 << 12
	distSize = 1 << 10 // and these need at most 512

	manyLiterals = 3 << 4
	isLength     = 1 << 6
	isSubtable   = 2 << 6
	isEnd        = 3 << 6
	kindMask     = 3 << 6

	farSubtable = 1 << 31
)

type tables struct {
	lit   [litSize]uint32
	dist  [distSize]uint32
	codes codes // those of the table that is being made
}

// What a symbol means, without its code length: see tables.
var litMeaning, distMeaning = func() (lit [288]uint32, dist [32]uint32) {
	for s := range 256 {
		lit[s] = 1<<4 | uint32(s)<<8
	}
	lit[256] = isEnd
	base := uint32(3)
	for s := range 28 {
		extra := uint32(max(s/4-1, 0))
		lit[257+s] = isLength | base<<8 | extra<<20
		base += 1 << extra
	}
	lit[285] = isLength | 258<<8
	base = 1
	for s := range 30 {
		extra := uint32(max(s/2-1, 0))
		dist[s] = base<<16 | extra
		base += 1 << extra
	}
	return lit, dist // the last two symbols of either do not exist
}()

// buildLit makes the table of literals and lengths for code lengths. It returns false where these
// are no prefix code.
func (t *tables) buildLit(lengths []uint8) bool {
	if lengths[256] == 0 || !t.codes.sort(lengths) {
		return false
	}
	t.lit = [litSize]uint32{}
	t.codes.each(litBits, func(symbol int, length, at, step, end uint) {
		e := litMeaning[symbol]
		if e == 0 {
			return
		}
		e |= uint32(length)
		if e&kindMask == isLength {
			e += uint32(length) << 20
		}
		for ; at < end; at += step {
			t.lit[at] = e
		}
	}, func(at, begin, bits uint) { t.lit[at] = isSubtable | uint32(begin)<<8 | uint32(bits)<<24 })
	if packs(lengths) {
		t.packLiterals()
	}
	return true
}

// packs reports whether packing literals pays for a block: whether four in ten symbols or more are
// literals of so few bits that two fit into an index of the table.
func packs(lengths []uint8) bool {
	share := 0 // of all symbols, in parts of 2^15
	for _, l := range lengths[:256] {
		if l > 0 && l <= litBits/2 {
			share += 1 << (15 - l)
		}
	}
	return share >= 4<<15/10
}

// packLiterals puts up to three literals into an entry where their codes fit into its index.
func (t *tables) packLiterals() {
	// From the last entry to the first: the one that is looked at for the second literal has a
	// smaller index, or is the same, and is still single.
	for n := 1<<litBits - 1; n >= 0; n-- {
		e := t.lit[n]
		if e&manyLiterals == 0 {
			continue
		}
		length, count := e&15, uint32(1)
		for count < 3 {
			next := t.lit[n>>length]
			if next&manyLiterals == 0 || length+next&15 > litBits {
				break
			}
			e |= next >> 8 & 255 << (8 + 8*count)
			length += next & 15
			count++
		}
		t.lit[n] = e&0xffffff00 | count<<4 | length
	}
}

// buildDist makes the table of distances.
func (t *tables) buildDist(lengths []uint8) bool {
	if !t.codes.sort(lengths) {
		return false
	}
	t.dist = [distSize]uint32{}
	t.codes.each(distBits, func(symbol int, length, at, step, end uint) {
		e := distMeaning[symbol]
		if e == 0 {
			return
		}
		e += uint32(length) | uint32(length)<<8
		for ; at < end; at += step {
			t.dist[at] = e
		}
	}, func(at, begin, bits uint) { t.dist[at] = farSubtable | uint32(begin)<<16 | uint32(bits) })
	return true
}

// codes holds the symbols of a prefix code in the order of their codes.
type codes struct {
	symbols []uint16
	memory  [288]uint16
	count   [16]uint // of each length
}

// sort sorts symbols by code length, and checks that the lengths make a complete prefix code. As
// zlib does, it also accepts one code of one bit, and none.
func (c *codes) sort(lengths []uint8) bool {
	c.count = [16]uint{}
	for _, l := range lengths {
		c.count[l]++
	}
	c.count[0] = 0
	var first [17]uint
	left := 1
	for l := 1; l <= 15; l++ {
		left = left*2 - int(c.count[l])
		if left < 0 {
			return false
		}
		first[l+1] = first[l] + c.count[l]
	}
	used := first[16]
	if left > 0 && used > 0 && !(used == 1 && c.count[1] == 1) {
		return false
	}
	for s, l := range lengths {
		if l > 0 {
			c.memory[first[l]] = uint16(s)
			first[l]++
		}
	}
	c.symbols = c.memory[:used]
	return true
}

// each calls put for every symbol, with the entries it belongs into: from at below end, every step.
// A table with an index of main bits comes first; subtable is told of each one behind it.
func (c *codes) each(main uint, put func(symbol int, length, at, step, end uint), subtable func(at, begin, bits uint)) {
	code, n := uint(0), 0 // code with its first bit highest
	begin, bitsOf := uint(1)<<main, uint(0)
	prefix := ^uint(0)
	for length := uint(1); length <= 15; length++ {
		code <<= 1
		for range c.count[length] {
			reversed := uint(bits.Reverse16(uint16(code)) >> (16 - length))
			if length <= main {
				put(int(c.symbols[n]), length, reversed, 1<<length, 1<<main)
			} else {
				if p := reversed & (1<<main - 1); p != prefix {
					if prefix != ^uint(0) {
						begin += 1 << bitsOf
					}
					prefix = p
					// As many bits as the codes below this prefix need.
					bitsOf = length - main
					space := 1 << bitsOf
					for l, rest := length, int(c.count[length])-(n-c.start(length)); ; rest = int(c.count[l]) {
						if space -= rest; space <= 0 {
							break
						}
						l++
						bitsOf++
						space <<= 1
					}
					subtable(p, begin, bitsOf)
				}
				put(int(c.symbols[n]), length, begin+reversed>>main, 1<<(length-main), begin+1<<bitsOf)
			}
			code++
			n++
		}
	}
}

// start is the index of the first symbol of a length.
func (c *codes) start(length uint) int {
	n := uint(0)
	for l := range length {
		n += c.count[l]
	}
	return int(n)
}
