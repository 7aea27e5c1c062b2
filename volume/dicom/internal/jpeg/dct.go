package jpeg

// zigzag[k] is the index in the 8x8 block of the k-th coefficient in the stream.
var zigzag = [64]int{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
	28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47,
	55, 62, 63,
}

// decodeDCT decodes a scan of 8x8 blocks (T.81 annex F).
func (d *decoder) decodeDCT(data []byte, out []uint32, dc, ac *huffman, quantizer *[64]int32) error {
	bits, rest := segment(data, d.buffer)
	r := bitReader{data: bits}
	var last int32 // DC coefficient of the previous block
	left := d.restart
	var block [64]int32
	for y := 0; y < d.rows; y += 8 {
		for x := 0; x < d.columns; x += 8 {
			if d.restart > 0 && left == 0 {
				if r.short() || rest == nil {
					return errShort
				}
				bits, rest = segment(rest, bits)
				r = bitReader{data: bits}
				left, last = d.restart, 0
			}
			left--
			clear(block[:])
			r.fill()
			last += r.extend(dc.next(&r) & 15)
			block[0] = last * quantizer[0]
			for k := 1; k < 64; k++ {
				if r.n < 32 {
					r.fill()
				}
				symbol := ac.next(&r)
				run, size := symbol>>4, symbol&15
				if size == 0 {
					if run != 15 {
						break
					}
					k += 15
					continue
				}
				if k += run; k > 63 {
					return errShort
				}
				block[zigzag[k]] = r.extend(size) * quantizer[zigzag[k]]
			}
			if r.short() {
				return errShort
			}
			inverse(&block, d.precision)
			for j := range min(8, d.rows-y) {
				line := out[(y+j)*d.columns+x:][:min(8, d.columns-x)]
				for i := range line {
					line[i] = uint32(block[8*j+i])
				}
			}
		}
	}
	return nil
}

// inverse is the inverse DCT of Loeffler, Ligtenberg and Moschytz (1989) with 13 fractional bits:
// columns, then rows, then the level shift. Samples are clamped to their range. It does the same
// integer arithmetic as jidctint.c of the IJG library, so the results are the same to the bit.
func inverse(b *[64]int32, precision int) {
	const fraction = 13
	keep := 2 // extra bits between the passes
	if precision > 8 {
		keep = 1
	}
	for i := range 8 {
		butterfly(b[i:], 8, fraction-keep)
	}
	center, most := int32(1)<<(precision-1), int32(1)<<precision-1
	for j := range 8 {
		row := b[8*j : 8*j+8]
		butterfly(row, 1, fraction+keep+3)
		for i, v := range row {
			row[i] = min(max(v+center, 0), most)
		}
	}
}

// butterfly transforms eight numbers in place. They are step apart in b. The results are divided by
// 2^shift and rounded.
func butterfly(b []int32, step, shift int) {
	in := func(n int) int64 { return int64(b[n*step]) }
	// even part
	z := (in(2) + in(6)) * 4433
	t2, t3 := z-in(6)*15137, z+in(2)*6270
	t0, t1 := (in(0)+in(4))<<13, (in(0)-in(4))<<13
	e0, e3, e1, e2 := t0+t3, t0-t3, t1+t2, t1-t2
	// odd part
	o0, o1, o2, o3 := in(7), in(5), in(3), in(1)
	z1, z2, z3, z4 := (o0+o3)*-7373, (o1+o2)*-20995, (o0+o2)*-16069, (o1+o3)*-3196
	z5 := (o0 + o1 + o2 + o3) * 9633
	z3 += z5
	z4 += z5
	o0 = o0*2446 + z1 + z3
	o1 = o1*16819 + z2 + z4
	o2 = o2*25172 + z2 + z3
	o3 = o3*12299 + z1 + z4
	half := int64(1) << (shift - 1)
	for n, v := range [8]int64{e0 + o3, e1 + o2, e2 + o1, e3 + o0, e3 - o0, e2 - o1, e1 - o2, e0 - o3} {
		b[n*step] = int32((v + half) >> shift)
	}
}
