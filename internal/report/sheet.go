package report

import (
	"cmp"
	"fmt"
	"image"
	"math"
	"slices"

	"golang.org/x/image/draw"

	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/volume"
)

// A Sheet is a contact sheet: pictures of the cases to look at first, those of the lowest values,
// such as the mean DSC. The zero value is an empty one.
type Sheet struct {
	Most  int    // pictures; 0: 12
	Title string // a line above them in [Sheet.Image]; "": none
	cases []sheetCase
	seen  int
}

type sheetCase struct {
	name, text string
	value      float64
	picture    image.Image
}

// Add adds a case, whose text stands below its picture. It is drawn at once if it is among the
// lowest so far; others cost nothing.
func (s *Sheet) Add(name string, value float64, text string, picture func() (image.Image, error)) error {
	s.seen++
	if math.IsNaN(value) { // nothing to be wrong about: last
		value = math.Inf(1)
	}
	c := sheetCase{name: name, text: text, value: value}
	at, _ := slices.BinarySearchFunc(s.cases, c, func(a, b sheetCase) int {
		return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.name, b.name))
	})
	most := cmp.Or(s.Most, 12)
	if at == most {
		return nil
	}
	var err error
	if c.picture, err = picture(); err != nil {
		return err
	}
	s.cases = slices.Insert(s.cases, at, c)
	s.cases = s.cases[:min(len(s.cases), most)]
	return nil
}

// Seen is how many cases were added.
func (s *Sheet) Seen() int { return s.seen }

// Pictures are those of the cases, worst first.
func (s *Sheet) Pictures() (all Pictures) {
	for _, c := range s.cases {
		all = append(all, Picture{Image: c.picture, Caption: c.name + ": " + c.text})
	}
	return all
}

// Image puts the pictures below one another, each under a line that says what it is; nil where
// there is none.
func (s *Sheet) Image() image.Image {
	const line = 22
	y := 0 // of the next picture
	if s.Title != "" {
		y = line
	}
	size := image.Pt(0, y)
	for _, c := range s.cases {
		b := c.picture.Bounds()
		size = image.Pt(max(size.X, b.Dx()), size.Y+line+b.Dy()+panelGap)
	}
	if len(s.cases) == 0 {
		return nil
	}
	all := image.NewRGBA(image.Rectangle{Max: size})
	draw.Draw(all, all.Bounds(), image.Black, image.Point{}, draw.Src)
	text(all, s.Title, 6, 15, ivory)
	for _, c := range s.cases {
		text(all, c.name+": "+c.text, 6, y+15, ivory)
		b := c.picture.Bounds()
		draw.Draw(all, b.Sub(b.Min).Add(image.Pt(0, y+line)), c.picture, b.Min, draw.Src)
		y += line + b.Dy() + panelGap
	}
	return all
}

// MeanDSC is what the text of a case in a [Sheet] says of a mean DSC.
func MeanDSC(dsc float64) string {
	if math.IsNaN(dsc) {
		return "no structure to compare"
	}
	return "mean DSC " + table.Rounded(dsc, 4)
}

// UsualWindow are the numbers of a scan that a picture draws from black to white: those of
// abdominal CT where it has Hounsfield units, which fall far below zero, and else all but the
// extreme hundredths.
func UsualWindow(v *volume.Volume) [2]float64 {
	n := v.Len()
	sample := make([]float64, 0, 1<<14)
	for at := 0; at < n; at += 1 + n>>14 {
		if v.Int16 != nil {
			sample = append(sample, float64(v.Int16[at]))
		} else {
			sample = append(sample, float64(v.Float32[at]))
		}
	}
	slices.Sort(sample)
	low, high := sample[len(sample)/100], sample[len(sample)-1-len(sample)/100]
	if sample[0] <= -200 || !(high > low) {
		return [2]float64{}
	}
	return [2]float64{low, high}
}

// Section is the sheet as a section of a page; none without pictures.
func (s *Sheet) Section(title, remark string) []Section {
	if len(s.cases) == 0 {
		return nil
	}
	if s.seen > len(s.cases) {
		remark += fmt.Sprintf(" These are %d of %d cases.", len(s.cases), s.seen)
	}
	return []Section{{title, []Block{Text(remark), s.Pictures()}}}
}
