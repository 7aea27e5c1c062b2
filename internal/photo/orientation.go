package photo

import (
	"bytes"
	"encoding/binary"
)

// orientation is how a photograph is stored, as EXIF 2.32 numbers it (tag 0x0112): 1 is upright, 6
// means that it must be turned clockwise to be seen.
type orientation int

// transposes says whether rows are seen as columns.
func (o orientation) transposes() bool { return o >= 5 }

// flips says which axes of the stored pixels run the other way.
func (o orientation) flips() (x, y bool) {
	return o == 2 || o == 3 || o == 7 || o == 8, o == 3 || o == 4 || o == 6 || o == 7
}

// apply writes stored pixels, width x height of them, as they are seen.
func (o orientation) apply(dst, stored []byte, width, height int) {
	flipX, flipY := o.flips()
	to := 0
	put := func(x, y int) {
		if flipX {
			x = width - 1 - x
		}
		if flipY {
			y = height - 1 - y
		}
		from := 3 * (y*width + x)
		copy(dst[to:to+3], stored[from:from+3])
		to += 3
	}
	if o.transposes() {
		for x := range width {
			for y := range height {
				put(x, y)
			}
		}
		return
	}
	for y := range height {
		for x := range width {
			put(x, y)
		}
	}
}

// findOrientation looks where a format keeps it. What cannot be understood is upright.
func findOrientation(f Format, data []byte) orientation {
	switch f {
	case TIFF:
		return orientationOf(data)
	case PNG: // chunks of a length, a name, content and a checksum
		for at := 8; at+8 <= len(data); {
			size, name := int(binary.BigEndian.Uint32(data[at:])), string(data[at+4:at+8])
			at += 8
			if size > len(data)-at || name == "IEND" {
				break
			}
			if name == "eXIf" {
				return orientationOf(data[at : at+size])
			}
			at += size + 4
		}
	case WebP: // chunks of a name, a length and content, padded to an even number of bytes
		for at := 12; at+8 <= len(data); {
			size, name := int(binary.LittleEndian.Uint32(data[at+4:])), string(data[at:at+4])
			at += 8
			if size > len(data)-at {
				break
			}
			if name == "EXIF" {
				return orientationOf(bytes.TrimPrefix(data[at:at+size], []byte("Exif\x00\x00")))
			}
			at += size + size%2
		}
	}
	return 1
}

// orientationOf reads the tag out of a TIFF structure, which is what EXIF is, too.
func orientationOf(tiff []byte) orientation {
	if len(tiff) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.BigEndian
	if tiff[0] == 'I' {
		order = binary.LittleEndian
	}
	if order.Uint16(tiff[2:]) != 42 {
		return 1
	}
	const tag, short = 0x0112, 3
	at := int64(order.Uint32(tiff[4:]))
	if at+2 > int64(len(tiff)) {
		return 1
	}
	entries := int(order.Uint16(tiff[at:]))
	for at += 2; entries > 0 && at+12 <= int64(len(tiff)); entries, at = entries-1, at+12 {
		entry := tiff[at : at+12]
		if order.Uint16(entry) != tag {
			continue
		}
		if o := order.Uint16(entry[8:]); order.Uint16(entry[2:]) == short && o >= 1 && o <= 8 {
			return orientation(o)
		}
		break
	}
	return 1
}
