package pixels

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// decodeRLE decodes DICOM's run lengths (PS3.5 annex G): a table of 16 numbers, then one segment of
// PackBits for each byte of a sample, the highest first.
func decodeRLE(data []byte, columns, rows int, out []uint32) (precision int, err error) {
	if len(data) < 64 {
		return 0, errors.New("RLE: no room for the table of segments")
	}
	count := int(binary.LittleEndian.Uint32(data))
	if count != 1 && count != 2 && count != 4 {
		return 0, fmt.Errorf("RLE: %d segments, not 1, 2 or 4", count)
	}
	clear(out)
	for s := range count {
		from := int64(binary.LittleEndian.Uint32(data[4+4*s:]))
		to := int64(len(data))
		if s+1 < count {
			to = int64(binary.LittleEndian.Uint32(data[8+4*s:]))
		}
		if from < 64 || from > to || to > int64(len(data)) {
			return 0, errors.New("RLE: a segment lies outside the data")
		}
		if err := unpackBits(data[from:to], out, 8*(count-1-s)); err != nil {
			return 0, fmt.Errorf("RLE: segment %d: %w", s+1, err)
		}
	}
	return 8 * count, nil
}

// unpackBits puts one byte into each element of out, shifted left.
func unpackBits(data []byte, out []uint32, shift int) error {
	n := 0
	for at := 0; n < len(out); {
		if at >= len(data) {
			return fmt.Errorf("%d of %d bytes", n, len(out))
		}
		control := int(int8(data[at]))
		at++
		switch {
		case control >= 0:
			run := min(control+1, len(out)-n)
			if at+run > len(data) {
				return fmt.Errorf("%d of %d bytes", n, len(out))
			}
			for _, b := range data[at : at+run] {
				out[n] |= uint32(b) << shift
				n++
			}
			at += control + 1
		case control != -128:
			if at >= len(data) {
				return fmt.Errorf("%d of %d bytes", n, len(out))
			}
			v := uint32(data[at]) << shift
			at++
			for range min(1-control, len(out)-n) {
				out[n] |= v
				n++
			}
		}
	}
	return nil
}

// unpackRLE decodes the only segment of a frame of single bits, into at most so many bytes.
func unpackRLE(data []byte, most int) ([]byte, error) {
	if len(data) < 64 {
		return nil, errors.New("RLE: no room for the table of segments")
	}
	if count, from := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:]); count != 1 || from != 64 {
		return nil, fmt.Errorf("RLE: %d segments from byte %d on, not 1 from byte 64", count, from)
	}
	var out []byte
	for data = data[64:]; len(data) > 1 && len(out) < most; {
		control := int(int8(data[0]))
		switch {
		case control >= 0:
			run := min(control+1, len(data)-1)
			out = append(out, data[1:1+run]...)
			data = data[1+run:]
		case control == -128:
			data = data[1:]
		default:
			for range 1 - control {
				out = append(out, data[1])
			}
			data = data[2:]
		}
	}
	return out[:min(len(out), most)], nil
}
