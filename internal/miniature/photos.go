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
			if err := writePhoto(path, 68+n%3*8, 60, class, uint64(100*class+n), nil); err != nil {
				return err
			}
		}
	}
	for n := range val {
		for class := range classes {
			number++
			path := filepath.Join(root, "val", fmt.Sprintf("ILSVRC2012_val_%08d.JPEG", number))
			if err := writePhoto(path, 72, 64, class, uint64(9000+100*class+n), nil); err != nil {
				return err
			}
			fmt.Fprintf(&truth, "n0%07d\n", 1440764+37*class)
		}
	}
	return os.WriteFile(
		filepath.Join(root, "imagenet_2012_validation_synset_labels.txt"),
		[]byte(truth.String()),
		0o666,
	)
}

// vocClasses are some of Pascal VOC's twenty.
var vocClasses = []string{"aeroplane", "bicycle", "bird"}

// VOC2007 writes VOCdevkit/VOC2007: JPEGImages, Annotations with objects, some of them difficult,
// and ImageSets/Main with train, val, trainval and test, and for each class a list of who shows it
// (1), does not (-1), or only as a difficult object (0).
func VOC2007(root string, side int) error {
	voc := filepath.Join(root, "VOCdevkit", "VOC2007")
	main := filepath.Join(voc, "ImageSets", "Main")
	for _, folder := range []string{main, filepath.Join(voc, "Annotations")} {
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return err
		}
	}
	lists := map[string]*strings.Builder{}
	line := func(list, format string, args ...any) {
		if lists[list] == nil {
			lists[list] = &strings.Builder{}
		}
		fmt.Fprintf(lists[list], format, args...)
	}
	for n := range 3 * side {
		name, class := fmt.Sprintf("%06d", 5+2*n), n%len(vocClasses)
		split := []string{"train", "val", "test"}[n/side]
		const width, height = 96, 72
		x, y := 8+n%5*6, 6+n%3*8
		object := image.Rect(x, y, x+40, y+32)
		difficult := n%7 == 6
		if err := writePhoto(filepath.Join(voc, "JPEGImages", name+".jpg"), width, height, class, uint64(500+n),
			&object); err != nil {
			return err
		}
		var text strings.Builder
		fmt.Fprintf(
			&text,
			"<annotation>\n\t<folder>VOC2007</folder>\n\t<filename>%s.jpg</filename>\n\t<source>\n\t\t<database>The "+
				"VOC2007 "+
				"Database</database>\n\t</source>\n\t<size>\n\t\t<width>%d</width>\n\t\t<height>%d</height>\n"+
				"\t\t<depth>3</depth>\n\t</size>\n\t<segmented>0</segmented>\n\t<object>\n\t\t<name>%s</name>\n"+
				"\t\t<pose>Unspecified</pose>\n\t\t<truncated>0</truncated>\n\t\t<difficult>%d</difficult>\n"+
				"\t\t<bndbox>\n"+
				"\t\t\t<xmin>%d</xmin>\n\t\t\t<ymin>%d</ymin>\n\t\t\t<xmax>%d</xmax>\n\t\t\t<ymax>%d</ymax>\n"+
				"\t\t</bndbox>\n\t</object>\n</annotation>\n",
			name,
			width,
			height,
			vocClasses[class],
			map[bool]int{true: 1}[difficult],
			object.Min.X+1,
			object.Min.Y+1,
			object.Max.X,
			object.Max.Y,
		)
		if err := os.WriteFile(filepath.Join(voc, "Annotations", name+".xml"), []byte(text.String()),
			0o666); err != nil {
			return err
		}
		sides := []string{split}
		if split != "test" {
			sides = append(sides, "trainval")
		}
		for _, side := range sides {
			line(side, "%s\n", name)
			for k, other := range vocClasses {
				shows := -1
				if k == class {
					shows = map[bool]int{true: 0, false: 1}[difficult]
				}
				line(other+"_"+side, "%s %2d\n", name, shows)
			}
		}
	}
	for list, text := range lists {
		if err := os.WriteFile(filepath.Join(main, list+".txt"), []byte(text.String()), 0o666); err != nil {
			return err
		}
	}
	return nil
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
			if err := writePhoto(path, 64, 66, class, uint64(2000+100*class+n), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// writePhoto writes a picture that shows its class by a colour and stripes, brighter towards the
// upper left, so that there is something to learn of where a patch lies; an object stands out.
func writePhoto(path string, width, height, class int, number uint64, object *image.Rectangle) error {
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
			c := [3]float64{tint[0], tint[1], tint[2]}
			if object != nil && image.Pt(x, y).In(*object) {
				c = [3]float64{c[2] + 70, c[0] / 2, c[1] + 40}
			}
			level := func(v float64) uint8 { return uint8(min(max(v*light+noise, 0), 255)) }
			m.SetRGBA(x, y, color.RGBA{level(c[0]), level(c[1]), level(c[2]), 255})
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
