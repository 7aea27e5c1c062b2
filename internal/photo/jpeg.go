package photo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"

	"github.com/gen2brain/jpegn"
)

// jpegHeader is what the markers before the first scan say.
type jpegHeader struct {
	frame         byte // the marker that begins it: baseline, progressive and so on
	precision     int  // bits a sample
	width, height int
	components    int
	scanned       int // components in the first scan
	scan          int // where that begins
	orientation   orientation
}

// Markers of ITU-T T.81, table B.1.
const (
	baseline    = 0xc0
	extended    = 0xc1 // sequential, with more tables
	progressive = 0xc2
	startOfScan = 0xda
	endOfImage  = 0xd9
)

var errCut = problem("copy or download it again", "the JPEG is cut off")

// readJPEGHeader reads the markers up to the first scan, and no pixel.
func readJPEGHeader(data []byte) (h jpegHeader, err error) {
	h.orientation = 1
	for at := 2; ; {
		next := bytes.IndexByte(data[min(at, len(data)):], 0xff)
		if next < 0 || at+next+2 > len(data) {
			return h, errCut
		}
		at += next + 1
		marker := data[at]
		if marker == 0 || marker == 0xff || marker == 1 || marker >= 0xd0 && marker <= 0xd8 {
			continue // stray bytes, fill bytes and markers without content
		}
		at++
		if marker == endOfImage || at+2 > len(data) {
			return h, errCut
		}
		size := int(binary.BigEndian.Uint16(data[at:]))
		if size < 2 || at+size > len(data) {
			return h, errCut
		}
		segment := data[at+2 : at+size]
		at += size
		switch {
		case marker == startOfScan:
			if h.components == 0 || len(segment) == 0 {
				return h, problem("save it again, or leave it out", "the JPEG is damaged")
			}
			h.scan, h.scanned = at, int(segment[0])
			return h, nil
		case marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc:
			if len(segment) < 6 {
				return h, problem("save it again, or leave it out", "the JPEG is damaged")
			}
			h.frame, h.precision = marker, int(segment[0])
			h.height, h.width = int(binary.BigEndian.Uint16(segment[1:])), int(binary.BigEndian.Uint16(segment[3:]))
			h.components = int(segment[5])
			if err := checkSize(h.width, h.height); err != nil {
				return h, err // before anything else is looked at
			}
		case marker == 0xe1:
			if exif, ok := bytes.CutPrefix(segment, []byte("Exif\x00\x00")); ok {
				h.orientation = orientationOf(exif)
			}
		}
	}
}

// check says what cannot be decoded, or is not all there.
func (h jpegHeader) check(data []byte) error {
	switch {
	case h.precision != 8:
		return problem("convert it to 8-bit JPEG or to PNG", "a JPEG of %d bits a sample is not read", h.precision)
	case h.frame == 0xc3 || h.frame == 0xc7:
		return problem("convert it to an ordinary JPEG or to PNG", "lossless JPEG is not read")
	case h.frame > extended && h.frame != progressive:
		return problem("convert it to an ordinary JPEG (cjpeg, or jpegtran without -arithmetic)", "a JPEG with arithmetic coding or in hierarchies is not read")
	}
	// Within a scan these two bytes never stand beside each other, but at its end.
	if bytes.LastIndex(data[h.scan:], []byte{0xff, endOfImage}) < 0 {
		return errCut
	}
	return nil
}

// decodeJPEG reads the planes of a JPEG as they are. Damage within the coded pixels is overlooked,
// as it is by libjpeg.
func decodeJPEG(data []byte) (*Photo, error) {
	h, err := readJPEGHeader(data)
	if err != nil {
		return nil, err
	}
	if err := h.check(data); err != nil {
		return nil, err
	}
	// The fast decoder does not know frames whose scans hold one component each and four
	// components with less chroma, and jpegn v0.5.0 gets the end of a progressive scan wrong.
	var decoded image.Image
	if h.frame != baseline || h.scanned != h.components || h.components == 4 {
		decoded, err = jpeg.Decode(bytes.NewReader(data))
	} else {
		decoded, err = jpegn.Decode(bytes.NewReader(data), &jpegn.Options{UpsampleMethod: jpegn.CatmullRom})
	}
	switch {
	case errors.Is(err, jpegn.ErrUnsupported):
		return nil, problem("save it again as an ordinary JPEG", "a JPEG of an unusual kind is not read")
	case err != nil:
		return nil, problem("save it again, or leave it out", "the JPEG is damaged (%v)", err)
	}
	p := &Photo{Width: h.width, Height: h.height, orientation: h.orientation}
	switch m := decoded.(type) {
	case *image.Gray:
		p.planes = []plane{{m.Pix, m.Stride, h.width, h.height, 1, 1}}
	case *image.YCbCr:
		p.fromYCbCr(m)
	case *image.CMYK:
		p.fromCMYK(m)
	default:
		p.fromImage(decoded)
	}
	return p, nil
}

// fromYCbCr takes over the planes of an image with luma and chroma.
func (p *Photo) fromYCbCr(m *image.YCbCr) {
	across, down := 1, 1
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio422:
		across = 2
	case image.YCbCrSubsampleRatio420:
		across, down = 2, 2
	case image.YCbCrSubsampleRatio440:
		down = 2
	case image.YCbCrSubsampleRatio411:
		across = 4
	case image.YCbCrSubsampleRatio410:
		across, down = 4, 2
	}
	width, height := (p.Width+across-1)/across, (p.Height+down-1)/down
	p.chroma = true
	p.planes = []plane{
		{m.Y, m.YStride, p.Width, p.Height, 1, 1},
		{m.Cb, m.CStride, width, height, across, down},
		{m.Cr, m.CStride, width, height, across, down},
	}
}

// fromCMYK turns ink into light: each of red, green and blue is what its ink and black let through.
func (p *Photo) fromCMYK(m *image.CMYK) {
	p.allocate()
	for y := range p.Height {
		row := m.Pix[y*m.Stride:]
		for x := range p.Width {
			through := 255 - int(row[4*x+3])
			for c := range 3 {
				light := through * (255 - int(row[4*x+c]))
				p.planes[c].pix[y*p.Width+x] = byte((light + 127) / 255)
			}
		}
	}
}

// fromImage takes the colours of any image, over white.
func (p *Photo) fromImage(m image.Image) {
	size := image.Rect(0, 0, p.Width, p.Height)
	canvas := image.NewRGBA(size)
	draw.Draw(canvas, size, image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(canvas, m.Bounds(), m, m.Bounds().Min, draw.Over)
	p.allocate()
	r, g, b := p.planes[0].pix, p.planes[1].pix, p.planes[2].pix
	for n := range r {
		pixel := canvas.Pix[4*n : 4*n+3]
		r[n], g[n], b[n] = pixel[0], pixel[1], pixel[2]
	}
}

// allocate makes planes of red, green and blue.
func (p *Photo) allocate() {
	p.planes = nil
	for range 3 {
		p.planes = append(p.planes, plane{make([]byte, p.Width*p.Height), p.Width, p.Width, p.Height, 1, 1})
	}
}
