// Package tiles draws small grey pictures side by side, with titles and frames: what the pictures
// of pretext tasks are made of.
//
// Start at [Page]. The package knows no task.
package tiles

import (
	"image"
	"image/color"

	"golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// The colours of pictures.
var (
	Paper = color.RGBA{255, 255, 255, 255}
	Ink   = color.RGBA{32, 36, 42, 255}
	Faint = color.RGBA{110, 117, 127, 255}
	Wrong = color.RGBA{229, 57, 53, 255}
	Pale  = color.RGBA{239, 154, 154, 255} // wrong, but excusable
	Right = color.RGBA{46, 125, 50, 255}
)

// A Page is what is drawn on.
type Page struct{ *image.RGBA }

// NewPage is white paper of a size in pixels.
func NewPage(width, height int) Page {
	p := Page{image.NewRGBA(image.Rect(0, 0, width, height))}
	draw.Draw(p, p.Bounds(), image.NewUniform(Paper), image.Point{}, draw.Src)
	return p
}

// Tile draws an image into a rectangle.
func (p Page) Tile(place image.Rectangle, tile image.Image) {
	draw.CatmullRom.Scale(p, place, tile, tile.Bounds(), draw.Src, nil)
}

// Frame draws a frame around a tile, from the gap around it inwards.
func (p Page) Frame(r image.Rectangle, width int, tint color.Color) {
	r = r.Inset(-1)
	for _, side := range []image.Rectangle{
		{r.Min, image.Pt(r.Max.X, r.Min.Y+width)}, {image.Pt(r.Min.X, r.Max.Y-width), r.Max},
		{r.Min, image.Pt(r.Min.X+width, r.Max.Y)}, {image.Pt(r.Max.X-width, r.Min.Y), r.Max},
	} {
		draw.Draw(p, side, image.NewUniform(tint), image.Point{}, draw.Src)
	}
}

// Sheet is a page of n square tiles in rows of so many columns, and says where each of them lies.
func Sheet(n, columns int) (p Page, place func(tile int) image.Rectangle) {
	columns = min(columns, n)
	rows := (n + columns - 1) / columns
	p = NewPage(2*Margin+columns*(side+sideGap)-sideGap, 2*Margin+rows*(side+sideGap)-sideGap)
	return p, func(tile int) image.Rectangle {
		at := image.Pt(Margin+tile%columns*(side+sideGap), Margin+tile/columns*(side+sideGap))
		return image.Rectangle{Max: image.Pt(side, side)}.Add(at)
	}
}

// Sizes of a sheet in pixels.
const (
	side    = 96
	sideGap = 6
)

// A Face is letters of one size.
type Face struct{ face font.Face }

// NewFace is the Go font, which is compiled in, at a size in pixels.
func NewFace(size float64) Face {
	f, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return Face{basicfont.Face7x13}
	}
	face, err := opentype.NewFace(f, &opentype.FaceOptions{Size: size, DPI: 72, Hinting: font.HintingFull})
	if err != nil {
		return Face{basicfont.Face7x13}
	}
	return Face{face}
}

// Write writes a line of text; at is the left end of its base line.
func (p Page) Write(f Face, tint color.Color, at image.Point, text string) {
	d := font.Drawer{Dst: p, Src: image.NewUniform(tint), Face: f.face, Dot: fixed.P(at.X, at.Y)}
	d.DrawString(text)
}

// Slice is the middle slice along k of voxels (K, J, I), of a size along (i, j, k), black and white
// where shown begins and ends. It is turned as radiologists look at a case in RAS: the patient's
// right is on the left, the front on top.
func Slice(voxels []float32, size [3]int, shown [2]float32) *image.Gray {
	ni, nj := size[0], size[1]
	values := voxels[size[2]/2*nj*ni:][:nj*ni]
	img := image.NewGray(image.Rect(0, 0, ni, nj))
	for j := range nj {
		for i := range ni {
			v := (values[j*ni+i] - shown[0]) / (shown[1] - shown[0]) * 255
			img.SetGray(ni-1-i, nj-1-j, color.Gray{uint8(min(max(v, 0), 255))})
		}
	}
	return img
}
