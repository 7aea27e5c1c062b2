package photos_test

import (
	"context"
	"fmt"
	"image"
	"image/png"
	"log"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

func Example() {
	root, err := os.MkdirTemp("", "photos")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	// A folder of photographs: here gray ones, of two classes.
	for n, name := range []string{"cat/1.png", "dog/1.png", "dog/2.png"} {
		m := image.NewGray(image.Rect(0, 0, 64, 48))
		for i := range m.Pix {
			m.Pix[i] = byte(100 + n)
		}
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			log.Fatal(err)
		}
		f, err := os.Create(path)
		if err != nil {
			log.Fatal(err)
		}
		if err := png.Encode(f, m); err != nil {
			log.Fatal(err)
		}
		if err := f.Close(); err != nil {
			log.Fatal(err)
		}
	}
	set, err := photos.Find(root, 0, 1)
	if err != nil {
		log.Fatal(err)
	}
	o := photos.DefaultOptions()
	o.Size = [2]int{32, 32}
	out := filepath.Join(root, "prepared")
	if _, err := photos.Prepare(context.Background(), set, out, o, nil); err != nil {
		log.Fatal(err)
	}
	store, err := photos.Open(out)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	for n := range store.Len() {
		pixels, err := store.At(n)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(store.Name(n), store.Classes()[store.Label(n)], store.Split(n), len(pixels), pixels[0])
	}
	// Output:
	// cat/1.png cat train 3072 100
	// dog/1.png dog train 3072 101
	// dog/2.png dog train 3072 102
}
