package tiles

import (
	"image"
	"image/color"
	"strconv"

	"golang.org/x/image/draw"
	"golang.org/x/image/font"
)

// A Heading is what stands above and below one drawing of a strip.
type Heading struct {
	Title, Count string
	Good         bool     // the count is one to be glad of
	Under        []string // lines below the drawing
}

// Sizes of a strip in pixels.
const (
	Margin    = 24
	ColumnGap = 30
	TitleRoom = 50
	leastWide = 130 // room for the title
	lineRoom  = 20
	underGap  = 4
)

// Strip is a page of drawings of one size side by side, with their headings, and the upper left
// corner of each drawing, which is still to be drawn.
func Strip(drawing image.Point, headings []Heading) (Page, []image.Point) {
	wide, lines := max(drawing.X, leastWide), 0
	for _, h := range headings {
		lines = max(lines, len(h.Under))
	}
	page := NewPage(2*Margin+len(headings)*(wide+ColumnGap)-ColumnGap,
		2*Margin+TitleRoom+drawing.Y+lines*lineRoom+underGap*min(lines, 1))
	titles, counts := NewFace(17), NewFace(14)
	var corners []image.Point
	for x, h := range headings {
		corner := image.Pt(Margin+x*(wide+ColumnGap), Margin)
		page.Write(titles, Ink, corner.Add(image.Pt(0, 16)), h.Title)
		tint := Faint
		if h.Good {
			tint = Right
		}
		page.Write(counts, tint, corner.Add(image.Pt(0, 36)), h.Count)
		corner.Y += TitleRoom
		for k, line := range h.Under {
			page.Write(counts, Ink, corner.Add(image.Pt(0, drawing.Y+(k+1)*lineRoom+underGap)), line)
		}
		corners = append(corners, corner)
	}
	return page, corners
}

// Number writes a small number into the lower left corner of a tile.
func (p Page) Number(f Face, tile image.Rectangle, number int) {
	text := strconv.Itoa(number)
	metrics := f.face.Metrics()
	wide, high := font.MeasureString(f.face, text).Ceil()+4, metrics.Ascent.Ceil()+1
	box := image.Rect(0, 0, wide, high).Add(image.Pt(tile.Min.X+numberInset, tile.Max.Y-numberInset-high))
	draw.Draw(p, box.Intersect(tile), image.NewUniform(color.RGBA{0, 0, 0, 160}), image.Point{}, draw.Over)
	p.Write(f, Paper, image.Pt(box.Min.X+2, box.Max.Y-2), text)
}

const numberInset = 3 // within a frame
