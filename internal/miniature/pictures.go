package miniature

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
)

// OddPictures writes a PNG that is called JPEG, a picture of a pixel, one whose header says
// that it has 30000x30000, one with 16 bits and alpha, and an animated GIF.
func OddPictures(folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	encode := func(m image.Image) []byte {
		var b bytes.Buffer
		if err := png.Encode(&b, m); err != nil {
			panic(err) // a buffer takes all
		}
		return b.Bytes()
	}
	gray := image.NewGray(image.Rect(0, 0, 40, 30))
	// IHDR begins at byte 12: width and height at 16 and 20, its CRC at 29
	huge := encode(gray)
	binary.BigEndian.PutUint32(huge[16:], 30000)
	binary.BigEndian.PutUint32(huge[20:], 30000)
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	frames := &gif.GIF{}
	for shade := range 2 {
		m := image.NewPaletted(gray.Rect, color.Palette{color.Black, color.White})
		m.Pix[0] = byte(shade)
		frames.Image, frames.Delay = append(frames.Image, m), append(frames.Delay, 10)
	}
	var animated bytes.Buffer
	if err := gif.EncodeAll(&animated, frames); err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"png.jpg": encode(gray), "pixel.png": encode(image.NewGray(image.Rect(0, 0, 1, 1))), "huge.png": huge,
		"deep.png": encode(image.NewNRGBA64(gray.Rect)), "animated.gif": animated.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// Picture writes a JPEG with a pattern of its own, some 60 x 50 pixels.
func Picture(path string, number int) error {
	m := image.NewRGBA(image.Rect(0, 0, 60+number%13, 50+number%7))
	for y := range m.Rect.Dy() {
		for x := range m.Rect.Dx() {
			m.Set(x, y, color.RGBA{byte(4*x + number), byte(5*y + number/256), byte(37 * number), 255})
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := jpeg.Encode(f, m, nil); err != nil {
		return err
	}
	return f.Close()
}
