package puzzle3d

import (
	"fmt"
	"image"
	"image/color"
	"slices"

	"golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"github.com/voxsaw/voxsaw/internal/puzzle"
)

// The picture of a puzzle: a column for each arrangement, from the shuffled one to the truth; in a
// column the slabs of the grid along k, the highest on top; in a slab a tile for each cell, which
// shows the middle slice of the patch that lies there. Patches that lie where they do not belong
// have a red frame; a thin one if the patch that belongs there is the same voxel for voxel, such as
// air. Tiles and slices are turned as radiologists look at a case in RAS: the patient's right is on
// the left, the front on top.

// Sizes in pixels.
const (
	tileSize  = 64 // the longer side of a tile
	tileGap   = 3
	slabGap   = 14
	columnGap = 30
	margin    = 24
	titleRoom = 50
	frame     = 3
	// maxColumns bounds the picture's width: of a longer iteration the first rounds and the last
	// are drawn.
	maxColumns = 7
)

var (
	paper  = color.RGBA{255, 255, 255, 255}
	ink    = color.RGBA{32, 36, 42, 255}
	faint  = color.RGBA{110, 117, 127, 255}
	wrong  = color.RGBA{229, 57, 53, 255}
	pale   = color.RGBA{239, 154, 154, 255}
	solved = color.RGBA{46, 125, 50, 255}
)

// A column is one arrangement with its titles.
type column struct {
	title, count string
	patches      puzzle.Configuration
}

// columns lists what is drawn.
func (p Play) columns() []column {
	n := p.Grid[0] * p.Grid[1] * p.Grid[2]
	last := len(p.Arrangements) - 1
	var list []column
	for r, patches := range p.Arrangements {
		if r >= maxColumns-2 && r < last {
			continue
		}
		title := fmt.Sprintf("after round %d", r)
		if r == 0 {
			title = "shuffled"
		}
		list = append(list, column{title, fmt.Sprintf("%d of %d in place", n-p.Misplaced(r), n), patches})
	}
	if p.Misplaced(last) > 0 {
		list = append(list, column{"truth", fmt.Sprintf("%d of %d in place", n, n), puzzle.Identity(n)})
	}
	return list
}

// Picture draws the play, rounds side by side.
func (p Play) Picture() image.Image {
	grid := puzzle.Grid(p.Grid[:])
	columns := p.columns()
	scale := float64(tileSize) / float64(max(p.Patch[0], p.Patch[1]))
	tile := image.Pt(int(float64(p.Patch[0])*scale), int(float64(p.Patch[1])*scale))
	slab := image.Pt(p.Grid[0]*(tile.X+tileGap)-tileGap, p.Grid[1]*(tile.Y+tileGap)-tileGap)
	slab.X = max(slab.X, 130) // room for the title
	size := image.Pt(2*margin+len(columns)*(slab.X+columnGap)-columnGap, 2*margin+titleRoom+p.Grid[2]*(slab.Y+slabGap)-slabGap)
	img := image.NewRGBA(image.Rectangle{Max: size})
	draw.Draw(img, img.Bounds(), image.NewUniform(paper), image.Point{}, draw.Src)

	titles, counts := face(17), face(14)
	var at [3]int
	for x, c := range columns {
		corner := image.Pt(margin+x*(slab.X+columnGap), margin)
		write(img, titles, ink, corner.Add(image.Pt(0, 16)), c.title)
		tint := faint
		if c.patches.Solved() && c.title != "truth" {
			tint = solved
		}
		write(img, counts, tint, corner.Add(image.Pt(0, 36)), c.count)
		corner.Y += titleRoom
		for slot, patch := range c.patches {
			grid.Coordinates(at[:], slot)
			place := image.Rectangle{Max: tile}.Add(corner).Add(image.Pt(
				(p.Grid[0]-1-at[0])*(tile.X+tileGap),
				(p.Grid[2]-1-at[2])*(slab.Y+slabGap)+(p.Grid[1]-1-at[1])*(tile.Y+tileGap)))
			slice := p.slice(patch)
			draw.CatmullRom.Scale(img, place, slice, slice.Bounds(), draw.Src, nil)
			switch {
			case patch == slot:
			case p.same(patch, slot):
				outline(img, place, 1, pale)
			default:
				outline(img, place, frame, wrong)
			}
		}
	}
	return img
}

// slice is the middle slice of a patch along k.
func (p Play) slice(patch int) *image.Gray {
	ni, nj, nk := p.Patch[0], p.Patch[1], p.Patch[2]
	values := p.Patches[(patch*nk+nk/2)*nj*ni:][:nj*ni]
	img := image.NewGray(image.Rect(0, 0, ni, nj))
	for j := range nj {
		for i := range ni {
			v := (values[j*ni+i] + 1) / 2 * 255
			img.SetGray(ni-1-i, nj-1-j, color.Gray{uint8(min(max(v, 0), 255))})
		}
	}
	return img
}

// same says whether two patches have the same voxels.
func (p Play) same(a, b int) bool {
	n := p.Patch[0] * p.Patch[1] * p.Patch[2]
	return slices.Equal(p.Patches[a*n:(a+1)*n], p.Patches[b*n:(b+1)*n])
}

// outline frames a tile, from the gap around it inwards.
func outline(img *image.RGBA, r image.Rectangle, width int, tint color.Color) {
	r = r.Inset(-1)
	for _, side := range []image.Rectangle{
		{r.Min, image.Pt(r.Max.X, r.Min.Y+width)}, {image.Pt(r.Min.X, r.Max.Y-width), r.Max},
		{r.Min, image.Pt(r.Min.X+width, r.Max.Y)}, {image.Pt(r.Max.X-width, r.Min.Y), r.Max},
	} {
		draw.Draw(img, side, image.NewUniform(tint), image.Point{}, draw.Src)
	}
}

// face is the Go font, which is compiled in, at a size in pixels.
func face(size float64) font.Face {
	f, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return basicfont.Face7x13
	}
	face, err := opentype.NewFace(f, &opentype.FaceOptions{Size: size, DPI: 72, Hinting: font.HintingFull})
	if err != nil {
		return basicfont.Face7x13
	}
	return face
}

func write(img *image.RGBA, f font.Face, c color.Color, at image.Point, text string) {
	d := font.Drawer{Dst: img, Src: image.NewUniform(c), Face: f, Dot: fixed.P(at.X, at.Y)}
	d.DrawString(text)
}
