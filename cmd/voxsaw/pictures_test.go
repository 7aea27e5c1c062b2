package main

import (
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
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
	flag.Parse()
	for n, folder := range flag.Args() {
		for k := range *count {
			if err := writePicture(filepath.Join(folder, fmt.Sprintf("%03d.jpg", k)), 1000*n+k); err != nil {
				log.Fatal(err)
			}
		}
	}
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
