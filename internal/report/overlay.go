package report

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"
	"strings"
	"sync"

	"golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"github.com/voxsaw/voxsaw/volume"
)

// Segmented is a row of an [Overlay]: a label map and what it is.
type Segmented struct {
	Title  string
	Labels *volume.LabelMap
}

// OverlayOptions say how an [Overlay] looks. The zero value is fit for abdominal CT.
type OverlayOptions struct {
	Slices int        // axial slices a row; 0: 4
	Size   int        // pixels of a panel's side; 0: 240
	Window [2]float64 // HU from black to white; both 0: -160 to 240
	Labels []uint16   // to draw; all when empty
	Whole  bool       // the whole slice instead of the surroundings of the labels
}

// Overlay is a picture of a segmentation: axial slices through a scan, the prediction filled in
// colour, the reference as an outline; a row for every prediction, the same slices in all of them,
// so that two networks can be compared. The slices are those where the reference is largest and the
// ones that divide the rest of it evenly; without a reference (nil), of the predictions. The
// patient's right is on the left of the picture, the front at the top. Scan and label maps must lie
// on the same grid.
func Overlay(scan *volume.Volume, reference *volume.LabelMap, rows []Segmented, o OverlayOptions) (image.Image, error) {
	o.Slices, o.Size = cmp.Or(max(o.Slices, 0), 4), cmp.Or(max(o.Size, 0), 240)
	if o.Window == [2]float64{} {
		o.Window = [2]float64{-160, 240}
	}
	if !(o.Window[1] > o.Window[0]) {
		return nil, fmt.Errorf("drawing slices: the window %v HU is empty", o.Window)
	}
	if o.Slices > 64 || o.Size > 4096 || len(rows) > 64 {
		return nil, fmt.Errorf("drawing slices: %d rows of %d slices of %d pixels is too large a picture", len(rows), o.Slices, o.Size)
	}
	view, err := scan.Orient("RAS")
	if err != nil {
		return nil, fmt.Errorf("drawing slices: %w", err)
	}
	oriented := func(l *volume.LabelMap) (*volume.LabelMap, error) {
		if l == nil {
			return nil, nil
		}
		if !l.Same(scan.Grid, 0.05*min(scan.Spacing()[0], scan.Spacing()[1], scan.Spacing()[2])) {
			return nil, fmt.Errorf("drawing slices: scan and label map are on different grids, %v and %v voxels", scan.Shape, l.Shape)
		}
		return l.Orient("RAS")
	}
	outline, err := oriented(reference)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		rows = []Segmented{{}}
	}
	fills := make([]*volume.LabelMap, len(rows))
	shown := []*volume.LabelMap{}
	for n, r := range rows {
		if fills[n], err = oriented(r.Labels); err != nil {
			return nil, err
		}
		if fills[n] != nil {
			shown = append(shown, fills[n])
		}
	}
	if outline != nil {
		shown = append([]*volume.LabelMap{outline}, shown...)
	}
	labels := o.Labels
	if len(labels) == 0 {
		labels = occurring(shown)
	}
	slicesAt := chooseSlices(view.Shape, shown, labels, o.Slices)
	box := surroundings(view.Grid, shown, labels, o.Whole)

	const gap = 4
	caption := 0
	if rows[0].Title != "" || len(rows) > 1 || len(labels) > 1 {
		caption = 22
	}
	panel := image.Pt(o.Size, box.height(o.Size))
	picture := image.NewRGBA(image.Rect(0, 0, len(slicesAt)*(panel.X+gap)-gap, len(rows)*(panel.Y+caption+gap)-gap))
	draw.Draw(picture, picture.Bounds(), image.Black, image.Point{}, draw.Src)
	for row, r := range rows {
		top := row * (panel.Y + caption + gap)
		if caption > 0 {
			text(picture, r.Title, 6, top+15, ivory)
		}
		if row == 0 && len(labels) > 1 {
			drawNames(picture, labels, shown, top+15)
		}
		for column, k := range slicesAt {
			at := image.Pt(column*(panel.X+gap), top+caption)
			target := image.Rectangle{at, at.Add(panel)}
			box.drawScan(picture, target, view, k, o.Window)
			for n, l := range labels {
				ink := labelColor(n)
				if fills[row] != nil {
					box.drawLabel(picture, target, fills[row], k, l, ink, false)
				}
				if outline != nil {
					box.drawLabel(picture, target, outline, k, l, lighter(ink), true)
				}
			}
			text(picture, fmt.Sprintf("%.0f mm", view.World([3]float64{0, 0, float64(k)})[2]), at.X+6, at.Y+panel.Y-7, ivory)
			if column == 0 {
				text(picture, "R", at.X+6, at.Y+panel.Y/2, ivory)
			}
		}
	}
	return picture, nil
}

// occurring lists the labels above 0 of all maps, in ascending order.
func occurring(maps []*volume.LabelMap) []uint16 {
	var labels []uint16
	for _, m := range maps {
		for l := range m.Counts() {
			if l > 0 {
				labels = append(labels, l)
			}
		}
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

// chooseSlices finds the axial slices to show: of the first map that holds any of the labels, the
// slice with most of them, and those that cut the rest into equal shares of voxels, from the feet
// to the head. With no label anywhere, slices at even distances.
func chooseSlices(shape [3]int, maps []*volume.LabelMap, labels []uint16, n int) []int {
	n = min(n, shape[2])
	area, total := make([]int, shape[2]), 0
	for _, m := range maps {
		for k := range area {
			for _, l := range m.Labels[k*shape[0]*shape[1]:][:shape[0]*shape[1]] {
				if l > 0 && slices.Contains(labels, l) {
					area[k]++
					total++
				}
			}
		}
		if total > 0 {
			break
		}
	}
	if total == 0 {
		total = shape[2]
		for k := range area {
			area[k] = 1
		}
	}
	var chosen []int
	sum, next := 0, 0
	for k, a := range area {
		sum += a
		for next < n && float64(sum) >= (float64(next)+0.5)/float64(n)*float64(total) {
			chosen = append(chosen, k)
			next++
		}
	}
	largest := slices.Index(area, slices.Max(area))
	closest := 0
	for m, k := range chosen {
		if abs(k-largest) < abs(chosen[closest]-largest) {
			closest = m
		}
	}
	chosen[closest] = largest
	slices.Sort(chosen)
	return slices.Compact(chosen)
}

func abs(n int) int { return max(n, -n) }

// window is the part of an axial slice that is shown: voxels lo to hi (excluded) along i and j, and
// their size in mm.
type window struct {
	lo, hi  [2]int
	spacing [2]float64
}

// surroundings is a square around the labels with a margin, or around the whole slice.
func surroundings(g volume.Grid, maps []*volume.LabelMap, labels []uint16, whole bool) window {
	w := window{[2]int{0, 0}, [2]int{g.Shape[0], g.Shape[1]}, [2]float64{g.Spacing()[0], g.Spacing()[1]}}
	lo, hi, found := [2]int{g.Shape[0], g.Shape[1]}, [2]int{}, false
	for _, m := range maps {
		for n, l := range m.Labels {
			if l > 0 && slices.Contains(labels, l) {
				i, j := n%g.Shape[0], n/g.Shape[0]%g.Shape[1]
				lo, hi = [2]int{min(lo[0], i), min(lo[1], j)}, [2]int{max(hi[0], i+1), max(hi[1], j+1)}
				found = true
			}
		}
		if found { // a prediction may be wrong anywhere: the reference says where to look
			break
		}
	}
	if whole || !found {
		return w
	}
	side := 0.0 // mm
	for axis := range 2 {
		side = max(side, float64(hi[axis]-lo[axis])*w.spacing[axis])
	}
	side = max(1.5*side, 60)
	for axis := range 2 {
		middle := float64(lo[axis]+hi[axis]) / 2
		half := side / 2 / w.spacing[axis]
		w.lo[axis], w.hi[axis] = int(math.Round(middle-half)), int(math.Round(middle+half))
		w.hi[axis] = max(w.hi[axis], w.lo[axis]+1)
	}
	return w
}

// height is the number of rows of pixels that keeps the proportions at a width.
func (w window) height(width int) int {
	x, y := float64(w.hi[0]-w.lo[0])*w.spacing[0], float64(w.hi[1]-w.lo[1])*w.spacing[1]
	return min(max(int(math.Round(float64(width)*y/x)), 1), 4*width)
}

// each visits the window's voxels of an axial slice in the order of the picture: the patient's
// right on the left, the front at the top. index is -1 outside the slice.
func (w window) each(shape [3]int, k int, visit func(x, y, index int)) {
	for y, j := 0, w.hi[1]-1; j >= w.lo[1]; y, j = y+1, j-1 {
		for x, i := 0, w.hi[0]-1; i >= w.lo[0]; x, i = x+1, i-1 {
			index := -1
			if i >= 0 && i < shape[0] && j >= 0 && j < shape[1] {
				index = i + shape[0]*(j+shape[1]*k)
			}
			visit(x, y, index)
		}
	}
}

func (w window) bounds() image.Rectangle { return image.Rect(0, 0, w.hi[0]-w.lo[0], w.hi[1]-w.lo[1]) }

func (w window) drawScan(dst draw.Image, target image.Rectangle, v *volume.Volume, k int, hu [2]float64) {
	src := image.NewGray(w.bounds())
	w.each(v.Shape, k, func(x, y, index int) {
		if index < 0 {
			return
		}
		value := 0.0
		if v.Int16 != nil {
			value = float64(v.Int16[index])
		} else {
			value = float64(v.Float32[index])
		}
		src.Pix[y*src.Stride+x] = uint8(255*min(max((value-hu[0])/(hu[1]-hu[0]), 0), 1) + 0.5)
	})
	draw.CatmullRom.Scale(dst, target, src, src.Bounds(), draw.Src, nil)
}

// drawLabel fills or outlines a label. The mask is enlarged like the scan, and its border is where
// the result crosses one half; how far a pixel is from it, in pixels, is the difference to one half
// over the length of the gradient, which makes smooth edges of voxels of any size.
func (w window) drawLabel(dst *image.RGBA, target image.Rectangle, l *volume.LabelMap, k int, label uint16, ink color.RGBA, outline bool) {
	src := image.NewGray16(w.bounds())
	any := false
	w.each(l.Shape, k, func(x, y, index int) {
		if index >= 0 && l.Labels[index] == label {
			src.SetGray16(x, y, color.Gray16{math.MaxUint16})
			any = true
		}
	})
	if !any {
		return
	}
	size := target.Size()
	mask := image.NewGray16(image.Rectangle{Max: size})
	draw.CatmullRom.Scale(mask, mask.Bounds(), src, src.Bounds(), draw.Src, nil)
	value := func(x, y int) float64 {
		return float64(mask.Gray16At(min(max(x, 0), size.X-1), min(max(y, 0), size.Y-1)).Y) / math.MaxUint16
	}
	for y := range size.Y {
		for x := range size.X {
			v := value(x, y) - 0.5
			gradient := math.Hypot(value(x+1, y)-value(x-1, y), value(x, y+1)-value(x, y-1)) / 2
			distance := math.Copysign(math.Inf(1), v) // inside where positive
			if gradient > 1e-3 {
				distance = v / gradient
			}
			alpha := 0.4 * min(max(distance+0.5, 0), 1)
			if outline {
				alpha = min(max(1.4-math.Abs(distance), 0), 1)
			}
			if alpha > 0 {
				blend(dst, target.Min.X+x, target.Min.Y+y, ink, alpha)
			}
		}
	}
}

func blend(dst *image.RGBA, x, y int, ink color.RGBA, alpha float64) {
	p := dst.Pix[dst.PixOffset(x, y):][:3]
	for n, c := range []uint8{ink.R, ink.G, ink.B} {
		p[n] = uint8(float64(p[n])*(1-alpha) + float64(c)*alpha + 0.5)
	}
}

// labelColors stand out on grey.
var labelColors = []color.RGBA{
	{255, 112, 67, 255}, {66, 165, 245, 255}, {102, 220, 120, 255}, {240, 98, 200, 255}, {255, 213, 79, 255}, {77, 208, 225, 255}, {179, 136, 255, 255}, {198, 226, 90, 255},
}

func labelColor(n int) color.RGBA { return labelColors[n%len(labelColors)] }

var ivory = color.RGBA{225, 230, 236, 255}

// lighter is half way to white.
func lighter(c color.RGBA) color.RGBA {
	return color.RGBA{c.R/2 + 128, c.G/2 + 128, c.B/2 + 128, 255}
}

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
	d.DrawString(printable(s))
	return d.Dot.X.Ceil()
}

func width(s string) int {
	drawing.Lock()
	defer drawing.Unlock()
	return font.MeasureString(face(), printable(s)).Ceil()
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, s)
}

// drawNames writes the names of the labels in their colours at the right end of a line, as many as
// fit.
func drawNames(dst draw.Image, labels []uint16, maps []*volume.LabelMap, y int) {
	x := dst.Bounds().Max.X
	for n, l := range slices.Backward(labels) {
		name := fmt.Sprintf("label %d", l)
		for _, m := range slices.Backward(maps) {
			name = cmp.Or(m.Names[l], name)
		}
		x -= width(name) + 12
		if x < dst.Bounds().Dx()/3 {
			return
		}
		text(dst, name, x, y, lighter(labelColor(n)))
	}
}
