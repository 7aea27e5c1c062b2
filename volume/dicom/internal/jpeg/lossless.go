package jpeg

// decodeLossless decodes a scan of differences between samples and their predictions (T.81 annex
// H).
func (d *decoder) decodeLossless(data []byte, out []uint32, table *huffman, predictor, shift int) error {
	columns := d.columns
	bits, rest := segment(data, d.buffer)
	r := bitReader{data: bits}
	start := int32(1) << (d.precision - shift - 1)
	left := d.restart // samples to the next restart
	if left%columns != 0 {
		return unsupported("restarts within a row of a lossless image are not read")
	}
	first := true // whether the row is the first of the image or of a restart interval
	for row := range d.rows {
		if d.restart > 0 && left == 0 {
			if r.short() || rest == nil {
				return errShort
			}
			bits, rest = segment(rest, bits)
			r = bitReader{data: bits}
			left, first = d.restart, true
		}
		line := out[row*columns:][:columns]
		var above []uint32
		var a int32 // the sample on the left
		if first {
			a = start
		} else {
			above = out[(row-1)*columns:][:columns]
			a = int32(above[0])
		}
		for i := range line {
			if r.n < 32 {
				r.fill()
			}
			var difference int32
			if category := table.next(&r); category == 16 {
				difference = 32768
			} else {
				difference = r.extend(category & 15)
			}
			var p int32
			switch {
			case first || i == 0 || predictor == 1:
				p = a
			default:
				b, c := int32(above[i]), int32(above[i-1])
				switch predictor {
				case 2:
					p = b
				case 3:
					p = c
				case 4:
					p = a + b - c
				case 5:
					p = a + (b-c)>>1
				case 6:
					p = b + (a-c)>>1
				case 7:
					p = (a + b) >> 1
				}
			}
			a = (p + difference) & 0xFFFF
			line[i] = uint32(a)
		}
		if r.short() {
			return errShort
		}
		left -= columns
		first = false
	}
	if shift > 0 {
		for n := range out {
			out[n] = out[n] << shift & 0xFFFF
		}
	}
	return nil
}
