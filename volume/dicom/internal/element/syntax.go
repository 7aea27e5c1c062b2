package element

import (
	"encoding/binary"
	"strings"
)

// Syntax is a transfer syntax: how elements and pixels are encoded.
type Syntax struct {
	UID   string
	Name  string
	Known bool // it is one of those that are read

	Implicit   bool
	Order      ByteOrder
	Deflated   bool
	Compressed bool // the pixels are compressed, in a way that is read
}

// UIDs of transfer syntaxes that are asked for by name.
const (
	ImplicitLittle = "1.2.840.10008.1.2"
	ExplicitLittle = "1.2.840.10008.1.2.1"
	ExplicitBig    = "1.2.840.10008.1.2.2"
	Encapsulated   = "1.2.840.10008.1.2.1.98" // in fragments, but not compressed
	RLE            = "1.2.840.10008.1.2.5"
	DeflatedFrames = "1.2.840.10008.1.2.8.1"
)

// syntaxes that are read, by UID (PS3.5 section 10, PS3.6 table A-1).
var syntaxes = map[string]Syntax{
	ImplicitLittle:           {Name: "implicit VR little endian", Implicit: true, Order: binary.LittleEndian},
	ExplicitLittle:           {Name: "explicit VR little endian", Order: binary.LittleEndian},
	Encapsulated:             {Name: "encapsulated uncompressed explicit VR little endian", Order: binary.LittleEndian},
	"1.2.840.10008.1.2.1.99": {Name: "deflated explicit VR little endian", Order: binary.LittleEndian, Deflated: true},
	ExplicitBig:              {Name: "explicit VR big endian", Order: binary.BigEndian},
	RLE:                      {Name: "RLE lossless", Order: binary.LittleEndian, Compressed: true},
	DeflatedFrames:           {Name: "deflated image frames", Order: binary.LittleEndian, Compressed: true},

	"1.2.840.10008.1.2.4.50": {Name: "JPEG baseline", Order: binary.LittleEndian, Compressed: true},
	"1.2.840.10008.1.2.4.51": {Name: "JPEG extended", Order: binary.LittleEndian, Compressed: true},
	"1.2.840.10008.1.2.4.57": {Name: "JPEG lossless (process 14)", Order: binary.LittleEndian, Compressed: true},
	"1.2.840.10008.1.2.4.70": {Name: "JPEG lossless (process 14, selection value 1)", Order: binary.LittleEndian,
		Compressed: true},
	"1.2.840.10008.1.2.4.80": {Name: "JPEG-LS lossless", Order: binary.LittleEndian, Compressed: true},
	"1.2.840.10008.1.2.4.81": {Name: "JPEG-LS near-lossless", Order: binary.LittleEndian, Compressed: true},
	"1.2.840.10008.1.2.4.90": {Name: "JPEG 2000 lossless", Order: binary.LittleEndian, Compressed: true},
	"1.2.840.10008.1.2.4.91": {Name: "JPEG 2000", Order: binary.LittleEndian, Compressed: true},

	"1.2.840.10008.1.2.4.201": {Name: "HTJ2K lossless", Order: binary.LittleEndian, Compressed: true},
	"1.2.840.10008.1.2.4.202": {Name: "HTJ2K lossless RPCL", Order: binary.LittleEndian, Compressed: true},
	"1.2.840.10008.1.2.4.203": {Name: "HTJ2K", Order: binary.LittleEndian, Compressed: true},
}

// unread are transfer syntaxes that have a name, so that they can be refused by it.
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
}

// lookup returns the transfer syntax of a UID. Those that are not known are taken for explicit
// little endian, as nearly all of them are; their pixels are refused by name later.
func lookup(uid string) Syntax {
	s, known := syntaxes[uid]
	if !known {
		s = Syntax{Name: unread[uid], Order: binary.LittleEndian}
		if s.Name == "" && strings.Trim(uid, "0123456789.") == "" {
			s.Name = "the transfer syntax " + uid
		} else if s.Name == "" {
			// whatever somebody wrote there is not shown
			s.Name = "a transfer syntax that is no UID"
		}
	}
	s.UID, s.Known = uid, known
	return s
}

// Refusal says why a transfer syntax that is not known is not read.
func (s Syntax) Refusal() string {
	if unread[s.UID] != "" {
		return "is compressed with " + s.Name + ", which is not read"
	}
	return "has " + s.Name + ", which is not read"
}
