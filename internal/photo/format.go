package photo

import (
	"bytes"
	"path/filepath"
	"strings"
)

// A Format is what a file holds.
type Format string

// The formats that are read.
const (
	JPEG Format = "JPEG"
	PNG  Format = "PNG"
	GIF  Format = "GIF"
	BMP  Format = "BMP"
	WebP Format = "WebP"
	TIFF Format = "TIFF"
)

// Formats that are told apart, so that an error can say what to do.
const (
	Unknown     Format = ""
	Empty       Format = "empty file"
	HEIC        Format = "HEIC"
	AVIF        Format = "AVIF"
	JPEG2000    Format = "JPEG 2000"
	JPEGXL      Format = "JPEG XL"
	Photoshop   Format = "Photoshop document"
	PDF         Format = "PDF"
	SVG         Format = "SVG drawing"
	WebPage     Format = "web page"
	LFSPointer  Format = "Git LFS pointer"
	AppleDouble Format = "macOS attribute file"
	DICOM       Format = "DICOM file"
	NIfTI       Format = "NIfTI file"
	Archive     Format = "archive"
)

// SniffLen is how many bytes [Sniff] looks at.
const SniffLen = 352

// Sniff tells a file's format by its first bytes, [SniffLen] of them where there are as many.
func Sniff(data []byte) Format {
	starts := func(magic string) bool { return bytes.HasPrefix(data, []byte(magic)) }
	at := func(n int, magic string) bool {
		return len(data) >= n+len(magic) && string(data[n:n+len(magic)]) == magic
	}
	switch {
	case len(data) == 0:
		return Empty
	case starts("\xff\xd8\xff"):
		return JPEG
	case starts("\x89PNG\r\n\x1a\n"):
		return PNG
	case starts("GIF87a"), starts("GIF89a"):
		return GIF
	case starts("RIFF") && at(8, "WEBP"):
		return WebP
	case starts("II*\x00"), starts("MM\x00*"):
		return TIFF
	case starts("BM") && at(6, "\x00\x00\x00\x00"):
		return BMP
	case at(4, "ftypavif"), at(4, "ftypavis"):
		return AVIF
	case at(4, "ftyphei"), at(4, "ftyphev"), at(4, "ftypmif1"), at(4, "ftypmsf1"):
		return HEIC
	case starts("\x00\x00\x00\x0cjP  "), starts("\xff\x4f\xff\x51"):
		return JPEG2000
	case starts("\x00\x00\x00\x0cJXL "), starts("\xff\x0a"):
		return JPEGXL
	case starts("8BPS"):
		return Photoshop
	case starts("%PDF"):
		return PDF
	case starts("version https://git-lfs"):
		return LFSPointer
	case starts("\x00\x05\x16\x07"):
		return AppleDouble
	case at(128, "DICM"):
		return DICOM
	case at(344, "n+1\x00"), at(344, "ni1\x00"), at(4, "n+2\x00"):
		return NIfTI
	case starts("PK\x03\x04"), starts("\x1f\x8b"), at(257, "ustar"), starts("Rar!"), starts("7z\xbc\xaf"):
		return Archive
	}
	text := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(string(data[:min(len(data), SniffLen)]), "\ufeff")))
	switch {
	case strings.HasPrefix(text, "<!doctype html"), strings.HasPrefix(text, "<html"), strings.HasPrefix(text, "<head"),
		strings.HasPrefix(text, "<body"):
		return WebPage
	case strings.HasPrefix(text, "<svg"), strings.HasPrefix(text, "<?xml") && strings.Contains(text, "<svg"):
		return SVG
	}
	return Unknown
}

// Readable says whether photographs of this format are read.
func (f Format) Readable() bool {
	switch f {
	case JPEG, PNG, GIF, BMP, WebP, TIFF:
		return true
	}
	return false
}

// Scan says whether the format is one of scans, which are not photographs.
func (f Format) Scan() bool { return f == DICOM || f == NIfTI }

// Picture says whether a file of this format was meant to be a photograph: one that is read, one
// that would have to be converted, or one that is not there yet.
func (f Format) Picture() bool {
	switch f {
	case HEIC, AVIF, JPEG2000, JPEGXL, Photoshop, LFSPointer:
		return true
	}
	return f.Readable()
}

// IsPicture says whether a file was meant to be a photograph: its name ends as those of photographs
// do.
func IsPicture(name string) bool {
	switch strings.ToLower(strings.TrimPrefix(filepath.Ext(name), ".")) {
	case "jpg", "jpeg", "jpe", "jfif", "png", "gif", "bmp", "webp", "tif", "tiff", "heic", "heif", "avif", "jp2", "jxl":
		return true
	}
	return false
}

// refusal says why a format is not read, and what to do; nil where it is.
func (f Format) refusal() error {
	switch f {
	case Empty:
		return problem("copy or download it again", "the file is empty")
	case HEIC, AVIF, JPEG2000, JPEGXL, Photoshop:
		return problem("convert it to JPEG or PNG", "%s is not read", f)
	case LFSPointer:
		return problem("run git lfs pull", "a %s, not the photograph itself", f)
	case WebPage:
		return problem("download the photograph again", "a web page, not a photograph")
	case AppleDouble:
		return problem("delete it", "a %s, not a photograph", f)
	case DICOM, NIfTI:
		return problem("voxsaw prepare reads scans", "a scan (%s), not a photograph", f)
	case Archive:
		return problem("unpack it", "an archive, not a photograph")
	case PDF, SVG:
		return problem("leave it out", "a %s, not a photograph", f)
	case Unknown:
		return problem("use JPEG, PNG, GIF, BMP, WebP or TIFF", "no format of photographs that is known")
	}
	return nil
}
