package report

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
)

// face is the font of the pictures, parsed once; it is embedded in the program, so failing to parse
// it is a mistake of ours.
var face = sync.OnceValue(func() font.Face {
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		panic(err)
	}
	f, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: 12, DPI: 72, Hinting: font.HintingFull})
	if err != nil {
		panic(err)
	}
	return f
})

// drawing guards face, which is not made for several goroutines.
var drawing sync.Mutex

// text writes a line that begins at x with its baseline at y, and returns where it ends.
func text(dst draw.Image, s string, x, y int, ink color.RGBA) int {
	drawing.Lock()
	defer drawing.Unlock()
	d := font.Drawer{Dst: dst, Src: image.NewUniform(ink), Face: face(), Dot: fixed.P(x, y)}
	d.DrawString(safetext.Text(s))
	return d.Dot.X.Ceil()
}

func width(s string) int {
	drawing.Lock()
	defer drawing.Unlock()
	return font.MeasureString(face(), safetext.Text(s)).Ceil()
}

// inWords is the name of a label as it stands alone: one that is its number says that it is one.
func inWords(name string) string {
	if _, err := strconv.Atoi(name); err == nil {
		return "label " + name
	}
	return name
}

// drawNames writes the names of the labels in their colours at the right end of a line, as many as
// fit.
func drawNames(dst draw.Image, labels []uint16, maps []*volume.LabelMap, y int) {
	x, inks := dst.Bounds().Max.X, inksOf(labels)
	for _, l := range slices.Backward(labels) {
		name := fmt.Sprintf("label %d", l)
		for _, m := range slices.Backward(maps) {
			name = cmp.Or(m.Names[l], name)
		}
		name = inWords(name)
		x -= width(name) + 12
		if x < dst.Bounds().Dx()/3 {
			return
		}
		text(dst, name, x, y, lighter(inks[l]))
	}
}
