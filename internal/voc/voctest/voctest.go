// Package voctest makes a small data set in the exact layout of Pascal VOC 2007, for tests:
// coloured shapes on backgrounds, with their boxes, and a file of proposals.
//
// Start at [Write], which is all there is to it.
package voctest

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

// Classes are what is on the photographs: squares in red, discs in green, and triangles in blue.
var Classes = []string{"disc", "square", "triangle"}

// Proposals is the file of proposals, beside JPEGImages.
const Proposals = "proposals.csv"

// Options say how large the data set is.
type Options struct {
	Train, Val, Test int    // photographs of each side
	Side             int    // about the width and the height of one
	Seed             uint64 // of everything random
}

// object is a shape on a photograph.
type object struct {
	class     int
	box       image.Rectangle // in pixels of Go: from 0, without the right and the lower edge
	difficult bool
}

// Write makes a data set: JPEGImages, Annotations, ImageSets/Main with the lists of all sides and
// classes, and a file of proposals. The same options give the same files.
func Write(dir string, o Options) error {
	r := rand.New(rand.NewPCG(o.Seed, 2007))
	lists := map[string]*strings.Builder{}
	list := func(name, format string, args ...any) {
		if lists[name] == nil {
			lists[name] = &strings.Builder{}
		}
		fmt.Fprintf(lists[name], format, args...)
	}
	proposals := strings.Builder{}
	proposals.WriteString("photo,xmin,ymin,xmax,ymax\n")
	files := map[string][]byte{}
	number := 0
	for _, side := range []struct {
		name  string
		count int
	}{{"train", o.Train}, {"val", o.Val}, {"test", o.Test}} {
		for range side.count {
			number++
			name := fmt.Sprintf("%06d", number)
			width, height := o.Side+r.IntN(o.Side/4+1), o.Side-r.IntN(o.Side/8+1)
			objects := place(r, number, width, height)
			photo, err := draw(r, width, height, objects)
			if err != nil {
				return err
			}
			files["JPEGImages/"+name+".jpg"] = photo
			files["Annotations/"+name+".xml"] = []byte(annotation(name, width, height, objects))
			sides := []string{side.name}
			if side.name != "test" {
				sides = append(sides, "trainval")
			}
			for _, s := range sides {
				list(s, "%s\n", name)
				for class, c := range Classes {
					list(c+"_"+s, "%s %2d\n", name, truth(objects, class))
				}
			}
			for _, box := range propose(r, width, height, objects) {
				fmt.Fprintf(&proposals, "%s,%d,%d,%d,%d\n", name, box.Min.X+1, box.Min.Y+1, box.Max.X, box.Max.Y)
			}
		}
	}
	for name, text := range lists {
		files["ImageSets/Main/"+name+".txt"] = []byte(text.String())
	}
	files[Proposals] = []byte(proposals.String())
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// truth is what the list of a class says of a photograph.
func truth(objects []object, class int) int {
	t := -1
	for _, o := range objects {
		switch {
		case o.class == class && !o.difficult:
			return 1
		case o.class == class:
			t = 0
		}
	}
	return t
}

// place puts one or two shapes on a photograph. Classes come in turn, so that none is missing.
// Every tenth photograph has a third, small one, marked as difficult.
func place(r *rand.Rand, number, width, height int) []object {
	var objects []object
	add := func(class, least, most int, difficult bool) {
		for range 50 { // until it hides no other one
			w, h := least+r.IntN(most-least+1), least+r.IntN(most-least+1)
			x, y := r.IntN(width-w+1), r.IntN(height-h+1)
			box := image.Rect(x, y, x+w, y+h)
			free := true
			for _, o := range objects {
				free = free && o.box.Intersect(box).Empty()
			}
			if free {
				objects = append(objects, object{class, box, difficult})
				return
			}
		}
	}
	side := min(width, height)
	add(number%len(Classes), side/3, side/2, false)
	if r.IntN(2) == 0 {
		add(r.IntN(len(Classes)), side/3, side/2, false)
	}
	if number%10 == 0 {
		add(r.IntN(len(Classes)), side/10, side/8, true)
	}
	return objects
}

// draw paints the shapes on a background of gray noise.
func draw(r *rand.Rand, width, height int, objects []object) ([]byte, error) {
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	level := 90 + r.IntN(80)
	for y := range height {
		for x := range width {
			v := uint8(level + r.IntN(40))
			m.SetRGBA(x, y, color.RGBA{v, v, v, 255})
		}
	}
	for _, o := range objects {
		bright, dark := uint8(180+r.IntN(75)), uint8(r.IntN(60))
		tint := [][3]uint8{{dark, bright, dark}, {bright, dark, dark}, {dark, dark, bright}}[o.class]
		for y := o.box.Min.Y; y < o.box.Max.Y; y++ {
			for x := o.box.Min.X; x < o.box.Max.X; x++ {
				if inside(o, x, y) {
					m.SetRGBA(x, y, color.RGBA{tint[0], tint[1], tint[2], 255})
				}
			}
		}
	}
	var b bytes.Buffer
	err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 95})
	return b.Bytes(), err
}

// inside says whether a pixel of its box belongs to a shape.
func inside(o object, x, y int) bool {
	across := (float64(x-o.box.Min.X) + 0.5) / float64(o.box.Dx()) // from 0 to 1
	down := (float64(y-o.box.Min.Y) + 0.5) / float64(o.box.Dy())
	switch Classes[o.class] {
	case "disc":
		return (across-0.5)*(across-0.5)+(down-0.5)*(down-0.5) <= 0.25
	case "triangle":
		return across >= 0.5-down/2 && across <= 0.5+down/2
	}
	return true
}

// propose makes boxes near the objects, as selective search finds them, and others anywhere.
func propose(r *rand.Rand, width, height int, objects []object) []image.Rectangle {
	photo := image.Rect(0, 0, width, height)
	var boxes []image.Rectangle
	near := func(v, by int) int { return v + r.IntN(2*by+1) - by }
	for _, o := range objects {
		for _, by := range []int{2, 3, 5, 8, 8} {
			box := image.Rect(near(o.box.Min.X, by), near(o.box.Min.Y, by), near(o.box.Max.X, by),
				near(o.box.Max.Y, by)).Intersect(photo)
			if !box.Empty() {
				boxes = append(boxes, box)
			}
		}
	}
	for range 12 {
		w, h := width/5+r.IntN(width/2), height/5+r.IntN(height/2)
		x, y := r.IntN(width-w+1), r.IntN(height-h+1)
		boxes = append(boxes, image.Rect(x, y, x+w, y+h))
	}
	return boxes
}

// annotation is what VOC 2007's files hold.
func annotation(name string, width, height int, objects []object) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<annotation>
	<folder>VOC2007</folder>
	<filename>%s.jpg</filename>
	<size><width>%d</width><height>%d</height><depth>3</depth></size>
	<segmented>0</segmented>
`, name, width, height)
	for _, o := range objects {
		difficult := 0
		if o.difficult {
			difficult = 1
		}
		fmt.Fprintf(&b, `	<object>
		<name>%s</name>
		<pose>Unspecified</pose>
		<truncated>0</truncated>
		<difficult>%d</difficult>
		<bndbox><xmin>%d</xmin><ymin>%d</ymin><xmax>%d</xmax><ymax>%d</ymax></bndbox>
	</object>
`, Classes[o.class], difficult, o.box.Min.X+1, o.box.Min.Y+1, o.box.Max.X, o.box.Max.Y)
	}
	b.WriteString("</annotation>\n")
	return b.String()
}
