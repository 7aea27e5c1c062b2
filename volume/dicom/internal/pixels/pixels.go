// Package pixels reads the stored values of DICOM images: uncompressed, in any word, or compressed
// by one of the codecs that the standard has for grey values.
//
// Start at [Image], which says how the pixels of a file are stored, and [Reader.Read], which reads
// one frame of it. [Values] turns a frame into voxels, [Frame.Doubt] says where header and pixels
// contradict each other. Codecs are in packages beside this one, but for run lengths (rle.go).
//
// It leaves out colours, floating-point pixels, and where images lie in the patient.
package pixels

import (
	"fmt"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

const (
	MaxFrames = 1 << 16 // of one file
	MaxFrame  = 1 << 26 // pixels of a frame: 8192 x 8192
	// MaxShrink is how many pixels a compressed byte may hold: more than any codec reaches on an
	// image that is not empty.
	MaxShrink = 4096
)

// Image is what a file says about its pixels: how many there are and how they are stored.
type Image struct {
	Path   string
	Size   int64 // of the file
	Syntax element.Syntax

	Rows, Columns, Frames, Samples int
	Allocated, Stored, High        int // bits of a word, bits of a sample, its highest bit
	Signed                         bool
	Photometric                    string
	Padding                        *float64        // PixelPaddingValue, as stored
	Table                          bool            // values are looked up in a Modality LUT
	Mosaic                         bool            // many slices are tiled in one image
	Pixels                         element.Element // zero where there are none

	fragments fragments
}

// Check says whether the pixels are of a kind that is read, and whether the file can hold as many
// as it claims.
func (im *Image) Check() error {
	refuse := func(format string, args ...any) error {
		return &volume.UnsupportedError{Path: im.Path, Problem: fmt.Sprintf(format, args...)}
	}
	switch {
	case im.Pixels.Tag != tag.PixelData:
		return refuse("holds floating-point pixels")
	case !im.Syntax.Known:
		return refuse("%s", im.Syntax.Refusal())
	case im.Samples != 1 || im.Photometric != "MONOCHROME2" && im.Photometric != "MONOCHROME1" && im.Photometric != "":
		return refuse("holds colours (%s), not a scan", element.CodeString(im.Photometric))
	case im.Mosaic:
		return refuse("tiles many slices in one image (a mosaic), which is not read")
	case im.Table:
		return refuse("maps its values through a table (Modality LUT Sequence), which is not read")
	case im.Allocated != 8 && im.Allocated != 16 && im.Allocated != 32:
		return refuse("has %d bits a pixel: 8, 16 and 32 are read", im.Allocated)
	case int64(im.Rows)*int64(im.Columns) > MaxFrame:
		return refuse("has %d x %d pixels: more than %d are not read", im.Columns, im.Rows, MaxFrame)
	}
	return im.CheckSize()
}

// CheckSize says whether the file can hold as many pixels as it claims.
func (im *Image) CheckSize() error {
	bad := func(format string, args ...any) error {
		return &volume.FormatError{Path: im.Path, Problem: fmt.Sprintf(format, args...)}
	}
	claimed := int64(im.Rows) * int64(im.Columns) * int64(im.Frames)
	have := im.Size - im.Pixels.Value
	if im.Pixels.Length == element.Undefined {
		if claimed > MaxShrink*have {
			return bad("claims %d pixels in %d bytes", claimed, have)
		}
		if !im.Syntax.Compressed && im.Syntax.UID != element.Encapsulated {
			return bad("holds compressed pixels, but does not say with what: its transfer syntax is %s", im.Syntax.Name)
		}
		return nil
	}
	if im.Syntax.Compressed {
		return bad("says that its pixels are compressed with %s, but they are not", im.Syntax.Name)
	}
	if need := (claimed*int64(im.Allocated) + 7) / 8; min(im.Pixels.Length, have) < need {
		return bad("is truncated: %d of %d bytes of pixels", max(min(im.Pixels.Length, have), 0), need)
	}
	return nil
}

// Spare reports whether there are so many more pixels than the header claims that it may be wrong.
func (im *Image) Spare() bool {
	return im.Pixels.Length != element.Undefined && im.Samples == 1 && im.Allocated >= 8 &&
		im.Pixels.Length >= im.FrameBytes()*int64(im.Frames+1)
}

// FrameBytes is how many bytes an uncompressed frame takes.
func (im *Image) FrameBytes() int64 {
	return int64(im.Rows) * int64(im.Columns) * int64(im.Allocated/8)
}

// Reopen opens the file of an image for its pixels. Where they are is known.
func Reopen(im *Image) (*element.File, error) {
	file, err := element.Reopen(im.Path, im.Syntax, im.Size)
	if err != nil || im.Pixels.Length == element.Undefined {
		return file, err
	}
	bits := int64(im.Frames) * int64(im.Rows) * int64(im.Columns) * int64(im.Allocated)
	if err := file.HoldPart(im.Pixels.Value, min(im.Pixels.Length, (bits+7)/8)); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
