package miniature

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// ImageNet writes ILSVRC2012 as it is unpacked: train/SYNSET/SYNSET_N.JPEG, a flat folder val of
// ILSVRC2012_val_0000000N.JPEG, and the ground truth of these beside them in
// imagenet_2012_validation_synset_labels.txt, a line for each.
func ImageNet(root string, classes, train, val int) error {
	var truth strings.Builder
	number := 0
	for class := range classes {
		synset := fmt.Sprintf("n0%07d", 1440764+37*class)
		for n := range train {
			path := filepath.Join(root, "train", synset, fmt.Sprintf("%s_%d.JPEG", synset, 7*n+3))
			if err := writePhoto(path, 68+n%3*8, 60, class, uint64(100*class+n)); err != nil {
				return err
			}
		}
	}
	for n := range val {
		for class := range classes {
			number++
			path := filepath.Join(root, "val", fmt.Sprintf("ILSVRC2012_val_%08d.JPEG", number))
			if err := writePhoto(path, 72, 64, class, uint64(9000+100*class+n)); err != nil {
				return err
			}
			fmt.Fprintf(&truth, "n0%07d\n", 1440764+37*class)
		}
	}
	return os.WriteFile(filepath.Join(root, "imagenet_2012_validation_synset_labels.txt"), []byte(truth.String()),
		0o666)
}

// Caltech256 writes 256_ObjectCategories: NNN.name/NNN_MMMM.jpg, and 257.clutter, which is no
// class.
func Caltech256(root string, classes, each int) error {
	for class := range classes + 1 {
		number, name := class+1, []string{"ak47", "american-flag", "backpack", "baseball-bat"}[class%4]
		if class == classes {
			number, name = 257, "clutter"
		}
		for n := range each {
			path := filepath.Join(root, "256_ObjectCategories", fmt.Sprintf("%03d.%s", number, name),
				fmt.Sprintf("%03d_%04d.jpg", number, n+1))
			if err := writePhoto(path, 64, 66, class, uint64(2000+100*class+n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// writePhoto writes a picture that shows its class by a colour and stripes, brighter towards the
// upper left, so that there is something to learn of where a patch lies.
func writePhoto(path string, width, height, class int, number uint64) error {
	r := rand.New(rand.NewPCG(number, 7))
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	tint := [3]float64{float64(40 + 60*(class%3)), float64(160 - 50*(class%2)), float64(90 + 40*(class%4))}
	for y := range height {
		for x := range width {
			light := 1.2 - 0.5*float64(x)/float64(width) - 0.4*float64(y)/float64(height)
			if (x*(class%3+1)+y*(class%2+1))%11 < 4 {
				light *= 0.7
			}
			noise := 12 * r.NormFloat64()
			level := func(v float64) uint8 { return uint8(min(max(v*light+noise, 0), 255)) }
			m.SetRGBA(x, y, color.RGBA{level(tint[0]), level(tint[1]), level(tint[2]), 255})
		}
	}
	var data bytes.Buffer
	if err := jpeg.Encode(&data, m, &jpeg.Options{Quality: 90}); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return os.WriteFile(path, data.Bytes(), 0o666)
}
