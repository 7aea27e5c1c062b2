package photo

import "encoding/binary"

// coded are the bits of a scan.
type coded struct {
	data []byte
	at   int    // the next byte
	next uint64 // bits that have been read, the first of them on top
	n    int    // how many these are
}

// refill makes at least 32 bits ready. Beyond the end of the scan they are zero, as in libjpeg.
func (c *coded) refill() {
	if c.at+8 <= len(c.data) {
		word := binary.BigEndian.Uint64(c.data[c.at:])
		// no byte is 0xff: nothing is stuffed
		if (^word-0x0101010101010101)&word&0x8080808080808080 == 0 {
			c.next |= word >> c.n
			bytes := (63 - c.n) >> 3
			c.at += bytes
			c.n += 8 * bytes
			return
		}
	}
	for c.n <= 56 {
		var b byte
		if c.at < len(c.data) {
			b = c.data[c.at]
			if b != 0xff {
				c.at++
			} else if c.at+1 < len(c.data) && c.data[c.at+1] == 0 {
				c.at += 2
			} else {
				b = 0 // a marker
			}
		}
		// bits of this byte may be there already, from a word that was read above
		c.next |= uint64(b) << (56 - c.n)
		c.n += 8
	}
}

// restart leaves the bits that remain, and goes behind the next marker of a restart. Where another
// marker comes first, there are no more bits.
func (c *coded) restart() {
	c.next, c.n = 0, 0
	for ; c.at+1 < len(c.data); c.at++ {
		if c.data[c.at] != 0xff {
			continue
		}
		switch marker := c.data[c.at+1]; {
		case marker >= 0xd0 && marker <= 0xd7:
			c.at += 2
			return
		case marker != 0 && marker != 0xff:
			return
		}
	}
}

// read gives the next bits, 16 at most.
func (c *coded) read(n int) uint32 {
	if c.n < 16 {
		c.refill()
	}
	v := uint32(c.next >> 32 >> (32 - n))
	c.next <<= n & 63
	c.n -= n
	return v
}

// symbol decodes a code and the number behind it: how many coefficients to skip, and the next one.
// Size is 0 where there is no number.
func (c *coded) symbol(h *huffman) (run, size int, number int32) {
	if c.n < 32 {
		c.refill()
	}
	entry := h.fast[c.next>>(64-fastBits)]
	if entry&withNumber != 0 {
		used := entry & 63
		c.next <<= used
		c.n -= int(used)
		return int(entry >> 8 & 15), 1, int32(entry) >> 16
	}
	symbol, length := byte(entry>>8), int(entry&63)
	if entry == 0 {
		symbol, length = h.long(c.next)
	}
	c.next <<= length & 63
	c.n -= length
	run, size = int(symbol>>4), int(symbol&15)
	if size > 0 {
		number = extend(uint32(c.next>>(64-size)), size)
		c.next <<= size & 63
		c.n -= size
	}
	return run, size, number
}

// zigzag is where the coefficients of a block stand, in the order in which they come (T.81, figure
// A.6).
var zigzag = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
	28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47,
	55, 62, 63,
}

// component is a channel of a sequential scan.
type component struct {
	id, across, down byte // sampling factors
	table            byte // of quantisation
	dc, ac           *huffman
	quantisation     *[64]int32 // in the order in which coefficients come
	previous         int32      // DC coefficient
	width, height    int        // samples
	plane            []byte
	stride           int
}

// block decodes the coefficients of a block, multiplied out. It reports whether there is but the
// first.
func (c *coded) block(k *component, b *[64]int32) (flat bool) {
	*b = [64]int32{}
	_, _, number := c.symbol(k.dc)
	k.previous += number
	b[0] = k.previous * k.quantisation[0]
	flat = true
	for n := 1; n < 64; n++ {
		run, size, number := c.symbol(k.ac)
		if size == 0 {
			if run < 15 {
				break // the rest is zero
			}
			n += 15
			continue
		}
		n += run
		if n > 63 {
			break // damaged
		}
		b[zigzag[n]&63] = number * k.quantisation[n]
		flat = false
	}
	return flat
}

// scan decodes all blocks of components that are interleaved, mcus of them across and down.
func (c *coded) scan(components []component, across, down, interval int) {
	left := interval
	var b [64]int32
	for y := range down {
		for x := range across {
			if interval > 0 {
				if left == 0 {
					c.restart()
					for n := range components {
						components[n].previous = 0
					}
					left = interval
				}
				left--
			}
			for n := range components {
				k := &components[n]
				for v := range int(k.down) {
					for h := range int(k.across) {
						dst := k.plane[8*((y*int(k.down)+v)*k.stride+x*int(k.across)+h):]
						if c.block(k, &b) {
							flat(dst, k.stride, b[0])
						} else {
							toSamples(dst, k.stride, &b)
						}
					}
				}
			}
		}
	}
}
