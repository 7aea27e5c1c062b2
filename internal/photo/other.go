package photo

import (
	"bytes"
	"image"
	"image/gif"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"
)

// codec is what decodes a format other than JPEG.
type codec struct {
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

var codecs = map[Format]codec{
	PNG:  {png.DecodeConfig, png.Decode},
	GIF:  {gif.DecodeConfig, gif.Decode}, // the first picture
	BMP:  {bmp.DecodeConfig, bmp.Decode},
	WebP: {webp.DecodeConfig, webp.Decode},
	TIFF: {tiff.DecodeConfig, tiff.Decode},
}

func decodeOther(f Format, data []byte) (*Photo, error) {
	damaged := func(err error) error {
		return problem("save it again as JPEG or PNG, or leave it out", "the %s cannot be decoded (%v)", f, err)
	}
	config, err := codecs[f].config(bytes.NewReader(data))
	if err != nil {
		return nil, damaged(err)
	}
	if err := checkSize(config.Width, config.Height); err != nil {
		return nil, err
	}
	decoded, err := codecs[f].decode(bytes.NewReader(data))
	if err != nil {
		return nil, damaged(err)
	}
	p := &Photo{Width: config.Width, Height: config.Height, orientation: findOrientation(f, data)}
	if m, ok := decoded.(*image.NYCbCrA); ok {
		fullRange(&m.YCbCr)
	}
	switch m := decoded.(type) {
	case *image.Gray:
		p.planes = []plane{{m.Pix, m.Stride, p.Width, p.Height, 1, 1}}
	case *image.YCbCr:
		if f == WebP {
			fullRange(m)
		}
		p.fromYCbCr(m)
	default:
		p.fromImage(decoded)
	}
	return p, nil
}

// fullRange widens WebP's samples, luma of 16 to 235 and chroma of 16 to 240 (RFC 6386, section
// 9.2, leaves it to ITU-R BT.601), to those of JPEG, which is what image.YCbCr means.
func fullRange(m *image.YCbCr) {
	widen := func(plane []byte, from, width, to float64) {
		var table [256]byte
		for v := range table {
			table[v] = byte(math.Round(min(max((float64(v)-from)*255/width+to, 0), 255)))
		}
		for n, v := range plane {
			plane[n] = table[v]
		}
	}
	widen(m.Y, 16, 219, 0)
	widen(m.Cb, 128, 224, 128)
	widen(m.Cr, 128, 224, 128)
}
