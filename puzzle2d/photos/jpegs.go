package photos

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"

	"github.com/voxsaw/voxsaw/internal/photo"
)

// This file: prepared photographs that are kept as JPEGs, which take a tenth of the room and are
// decoded whenever they are looked at.

// ext is the ending of a shard's file: of pixels, or of JPEGs one behind the other.
func ext(quality int) string {
	if quality > 0 {
		return "jpegs"
	}
	return "rgb"
}

// compress makes a JPEG of prepared pixels, of 4:2:0, and puts in their place what will be seen of
// them.
func (o Options) compress(r *photo.Resizer, pixels []byte) ([]byte, error) {
	m := image.NewRGBA(image.Rect(0, 0, o.Size[0], o.Size[1]))
	for i := range len(pixels) / 3 {
		copy(m.Pix[4*i:], pixels[3*i:3*i+3])
		m.Pix[4*i+3] = 255
	}
	var data bytes.Buffer
	if err := jpeg.Encode(&data, m, &jpeg.Options{Quality: o.JPEG}); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	return data.Bytes(), decompress(r, pixels, data.Bytes())
}

// decompress decodes a JPEG that compress has made. The resizer is of its size.
func decompress(r *photo.Resizer, pixels, data []byte) error {
	p, err := photo.Decode(data)
	if err != nil {
		return err
	}
	if 3*p.Width*p.Height != len(pixels) {
		return fmt.Errorf("a JPEG of %dx%d pixels has no room in %d bytes", p.Width, p.Height, len(pixels))
	}
	r.Resize(pixels, p)
	return nil
}
