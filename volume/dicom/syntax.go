package dicom

import (
	"encoding/binary"
	"strings"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/jpeg"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/jpeg2000"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/jpegls"
)

// syntax is a transfer syntax: how elements and pixels are encoded.
type syntax struct {
	uid      string
	name     string
	implicit bool
	order    byteOrder
	deflated bool
	codec    codec // of the pixels; nil where they are not compressed
	// code streams say whether samples are signed, so that those of fewer bits than the header
	// claims have a sign of their own
	signs bool
}

// A codec decodes the compressed samples of one frame, one a pixel, into out: rows*columns values,
// in the low bits. Precision is the number of bits that the code stream says its samples have.
// Negative numbers are in two's complement.
type codec func(data []byte, columns, rows int, out []uint32) (precision int, err error)

const (
	explicitLittle = "1.2.840.10008.1.2.1"
	rle            = "1.2.840.10008.1.2.5"
)

// syntaxes that are read, by UID (PS3.5 section 10, PS3.6 table A-1).
var syntaxes = map[string]syntax{
	"1.2.840.10008.1.2":      {name: "implicit VR little endian", implicit: true, order: binary.LittleEndian},
	explicitLittle:           {name: "explicit VR little endian", order: binary.LittleEndian},
	"1.2.840.10008.1.2.1.98": {name: "encapsulated uncompressed explicit VR little endian", order: binary.LittleEndian},
	"1.2.840.10008.1.2.1.99": {name: "deflated explicit VR little endian", order: binary.LittleEndian, deflated: true},
	"1.2.840.10008.1.2.2":    {name: "explicit VR big endian", order: binary.BigEndian},
	rle:                      {name: "RLE lossless", order: binary.LittleEndian, codec: decodeRLE},

	"1.2.840.10008.1.2.4.50": {name: "JPEG baseline", order: binary.LittleEndian, codec: jpeg.Decode},
	"1.2.840.10008.1.2.4.51": {name: "JPEG extended", order: binary.LittleEndian, codec: jpeg.Decode},
	"1.2.840.10008.1.2.4.57": {name: "JPEG lossless (process 14)", order: binary.LittleEndian, codec: jpeg.Decode},
	"1.2.840.10008.1.2.4.70": {name: "JPEG lossless (process 14, selection value 1)", order: binary.LittleEndian, codec: jpeg.Decode},
	"1.2.840.10008.1.2.4.80": {name: "JPEG-LS lossless", order: binary.LittleEndian, codec: jpegls.Decode},
	"1.2.840.10008.1.2.4.81": {name: "JPEG-LS near-lossless", order: binary.LittleEndian, codec: jpegls.Decode},
	"1.2.840.10008.1.2.4.90": {name: "JPEG 2000 lossless", order: binary.LittleEndian, codec: jpeg2000.Decode, signs: true},
	"1.2.840.10008.1.2.4.91": {name: "JPEG 2000", order: binary.LittleEndian, codec: jpeg2000.Decode, signs: true},
}

// unread syntaxes have a name, so that they can be refused by it.
var unread = map[string]string{
	"1.2.840.10008.1.2.4.92":  "JPEG 2000 multi-component lossless",
	"1.2.840.10008.1.2.4.93":  "JPEG 2000 multi-component",
	"1.2.840.10008.1.2.4.94":  "JPIP referenced",
	"1.2.840.10008.1.2.4.95":  "JPIP referenced deflated",
	"1.2.840.10008.1.2.4.100": "MPEG-2",
	"1.2.840.10008.1.2.4.102": "MPEG-4",
	"1.2.840.10008.1.2.4.107": "HEVC",
	"1.2.840.10008.1.2.4.110": "JPEG XL lossless",
	"1.2.840.10008.1.2.4.111": "JPEG XL recompressed JPEG",
	"1.2.840.10008.1.2.4.112": "JPEG XL",
	"1.2.840.10008.1.2.4.201": "HTJ2K lossless",
	"1.2.840.10008.1.2.4.202": "HTJ2K lossless RPCL",
	"1.2.840.10008.1.2.4.203": "HTJ2K",
}

// lookup returns the transfer syntax of a UID. Those that are not known are taken for explicit
// little endian, as all but four of them are; their pixels are refused by name later.
func lookup(uid string) (s syntax, known bool) {
	s, known = syntaxes[uid]
	if !known {
		s = syntax{name: unread[uid], order: binary.LittleEndian}
		if s.name == "" && strings.Trim(uid, "0123456789.") == "" {
			s.name = "transfer syntax " + uid
		} else if s.name == "" {
			// whatever else somebody wrote there is not shown
			s.name = "a transfer syntax that is no UID"
		}
	}
	s.uid = uid
	return s, known
}
