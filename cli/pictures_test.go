package cli

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"log"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw/internal/voc/voctest"
)

// pascalMain is the command pascal of the scripts: it makes a data set in Pascal VOC's layout.
func pascalMain() {
	o := voctest.Options{Side: 64, Seed: 1}
	flag.IntVar(&o.Train, "train", 8, "photographs of the side train")
	flag.IntVar(&o.Val, "val", 4, "photographs of the side val")
	flag.IntVar(&o.Test, "test", 4, "photographs of the side test")
	flag.Parse()
	if err := voctest.Write(flag.Arg(0), o); err != nil {
		log.Fatal(err)
	}
}

// picturesMain is the command pictures of the scripts: it writes JPEGs, each a pattern of its own,
// into folders.
func picturesMain() {
	count := flag.Int("count", 10, "pictures a folder")
	odd := flag.String("odd", "", "folder for pictures of which some cannot be read")
	flag.Parse()
	if *odd != "" {
		if err := writeOddPictures(*odd); err != nil {
			log.Fatal(err)
		}
	}
	for n, folder := range flag.Args() {
		for k := range *count {
			if err := writePicture(filepath.Join(folder, fmt.Sprintf("%03d.jpg", k)), 1000*n+k); err != nil {
				log.Fatal(err)
			}
		}
	}
}

// writeOddPictures writes a PNG that is called JPEG, a picture of a pixel, one whose header says
// that it has 30000x30000, one with 16 bits and alpha, and an animated GIF.
func writeOddPictures(folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	encode := func(m image.Image) []byte {
		var b bytes.Buffer
		if err := png.Encode(&b, m); err != nil {
			log.Fatal(err)
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

func writePicture(path string, number int) error {
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
