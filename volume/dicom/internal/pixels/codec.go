package pixels

import (
	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/jpeg"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/jpeg2000"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/jpegls"
)

// A Decoder decodes the compressed samples of one frame, one a pixel, into out: rows*columns
// values, in the low bits. Precision is the number of bits that the code stream says its samples
// have. Negative numbers are in two's complement.
type Decoder func(data []byte, columns, rows int, out []uint32) (precision int, err error)

// Codec is how the pixels of a transfer syntax are decoded.
type Codec struct {
	Decode Decoder
	// Unpack, where it is not nil, decodes a frame into the bytes that it would take without
	// compression. It returns at most so many.
	Unpack func(data []byte, most int) ([]byte, error)
	// The code streams say whether samples are signed, so that samples of fewer bits than the
	// header claims have a sign of their own.
	signs bool
}

// Codecs are those of the transfer syntaxes that compress pixels, by UID.
var Codecs = map[string]Codec{
	element.RLE:              {Decode: decodeRLE},
	element.DeflatedFrames:   {Unpack: inflate},
	"1.2.840.10008.1.2.4.50": {Decode: jpeg.Decode},
	"1.2.840.10008.1.2.4.51": {Decode: jpeg.Decode},
	"1.2.840.10008.1.2.4.57": {Decode: jpeg.Decode},
	"1.2.840.10008.1.2.4.70": {Decode: jpeg.Decode},
	"1.2.840.10008.1.2.4.80": {Decode: jpegls.Decode},
	"1.2.840.10008.1.2.4.81": {Decode: jpegls.Decode},
	"1.2.840.10008.1.2.4.90": {Decode: jpeg2000.Decode, signs: true},
	"1.2.840.10008.1.2.4.91": {Decode: jpeg2000.Decode, signs: true},

	"1.2.840.10008.1.2.4.201": {Decode: jpeg2000.Decode, signs: true},
	"1.2.840.10008.1.2.4.202": {Decode: jpeg2000.Decode, signs: true},
	"1.2.840.10008.1.2.4.203": {Decode: jpeg2000.Decode, signs: true},
}
