package report

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"

	"golang.org/x/image/draw"

	"github.com/voxsaw/voxsaw/volume"
)

// plane is the direction of a slice through a volume whose axes are RAS. Slices are seen as
// radiologists see them: both axes of the picture run against those of the volume, so that the
// patient's right is on the left of axial and coronal slices, the front on the left of sagittal
// ones and at the top of axial ones, the head at the top of the others.
type plane struct {
	name   string
	normal int // the axis that the slice cuts
	u, v   int // the axes of the volume along the picture's width and height
	left   string
}

var (
	axial    = plane{"axial", 2, 0, 1, "R"}
	coronal  = plane{"coronal", 1, 0, 2, "R"}
	sagittal = plane{"sagittal", 0, 1, 2, "A"}
)

// section is a slice and the part of it that is shown: voxels lo to hi (excluded) along u and v,
// which may reach beyond the volume.
type section struct {
	plane
	at      int
	lo, hi  [2]int
	spacing [2]float64 // mm along u and v
}

// box is a range of voxels along the three axes.
type box struct{ lo, hi [3]int }

// of cuts a slice of the box.
func (b box) of(p plane, at int, g volume.Grid) section {
	s := g.Spacing()
	return section{p, at, [2]int{b.lo[p.u], b.lo[p.v]}, [2]int{b.hi[p.u], b.hi[p.v]}, [2]float64{s[p.u], s[p.v]}}
}

// extent says where labels lie: in which box, and in how many voxels of each slice along each axis.
type extent struct {
	box
	areas [3][]int
	found bool // any voxel
}

// extentOf finds the labels. A prediction may be wrong anywhere: the first map that holds any of
// them, which is the reference, says where to look.
func extentOf(shape [3]int, maps []*volume.LabelMap, labels []uint16) (e extent) {
	for axis, n := range shape {
		e.areas[axis] = make([]int, n)
	}
	e.lo = shape
	among := setOf(labels)
	for _, m := range maps {
		n := 0
		for k := range shape[2] {
			for j := range shape[1] {
				for i := range shape[0] {
					if among[m.Labels[n]] {
						for axis, at := range [3]int{i, j, k} {
							e.lo[axis], e.hi[axis] = min(e.lo[axis], at), max(e.hi[axis], at+1)
							e.areas[axis][at]++
						}
						e.found = true
					}
					n++
				}
			}
		}
		if e.found {
			break
		}
	}
	return e
}

// setOf tells of each label whether it is one of these.
func setOf(labels []uint16) []bool {
	set := make([]bool, math.MaxUint16+1)
	for _, l := range labels {
		set[l] = l > 0
	}
	return set
}

// surroundings is a cube around the labels with a margin, or the whole volume.
func (e extent) surroundings(g volume.Grid, whole bool) box {
	if whole || !e.found {
		return box{hi: g.Shape}
	}
	b, s, side := e.box, g.Spacing(), 60.0 // mm
	for axis := range 3 {
		side = max(side, 1.5*float64(b.hi[axis]-b.lo[axis])*s[axis])
	}
	for axis := range 3 {
		middle, half := float64(b.lo[axis]+b.hi[axis])/2, side/2/s[axis]
		b.lo[axis], b.hi[axis] = int(math.Round(middle-half)), int(math.Round(middle+half))
		b.hi[axis] = max(b.hi[axis], b.lo[axis]+1)
	}
	return b
}

// chooseSlices finds the slices of a plane to show, by the voxels of labels in each: the one with
// most of them, and those that cut the rest into equal shares of voxels, in ascending order. With
// no label anywhere, slices at even distances.
func chooseSlices(area []int, n int) []int {
	area = slices.Clone(area)
	n = min(n, len(area))
	total := 0
	for _, a := range area {
		total += a
	}
	if total == 0 {
		total = len(area)
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
	if slices.Min(area) == slices.Max(area) { // none is the largest: the middle one
		largest = chosen[len(chosen)/2]
	}
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

// size is the section in pixels at a scale in pixels a millimetre.
func (c section) size(scale float64) image.Point {
	pixels := func(axis int) int {
		return max(int(math.Round(scale*float64(c.hi[axis]-c.lo[axis])*c.spacing[axis])), 1)
	}
	return image.Pt(pixels(0), pixels(1))
}

// label says which slice it is: the plane, and where it cuts its axis in mm.
func (c section) label(g volume.Grid) string {
	var at [3]float64
	at[c.normal] = float64(c.at)
	at[c.u], at[c.v] = float64(g.Shape[c.u]-1)/2, float64(g.Shape[c.v]-1)/2
	return fmt.Sprintf("%s, %.0f mm", c.name, g.World(at)[c.normal])
}

// each visits the section's voxels in the order of the picture. index is -1 outside the volume.
func (c section) each(shape [3]int, visit func(x, y, index int)) {
	stride := [3]int{1, shape[0], shape[0] * shape[1]}
	for y, v := 0, c.hi[1]-1; v >= c.lo[1]; y, v = y+1, v-1 {
		for x, u := 0, c.hi[0]-1; u >= c.lo[0]; x, u = x+1, u-1 {
			index := -1
			if u >= 0 && u < shape[c.u] && v >= 0 && v < shape[c.v] {
				index = c.at*stride[c.normal] + u*stride[c.u] + v*stride[c.v]
			}
			visit(x, y, index)
		}
	}
}

func (c section) bounds() image.Rectangle {
	return image.Rect(0, 0, c.hi[0]-c.lo[0], c.hi[1]-c.lo[1])
}

func (c section) drawScan(dst draw.Image, target image.Rectangle, v *volume.Volume, hu [2]float64) {
	src := image.NewGray(c.bounds())
	c.each(v.Shape, func(x, y, index int) {
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
func (c section) drawLabel(dst *image.RGBA, target image.Rectangle, l *volume.LabelMap, label uint16, ink color.RGBA,
	outline bool) {
	src := image.NewGray16(c.bounds())
	found := false
	c.each(l.Shape, func(x, y, index int) {
		if index >= 0 && l.Labels[index] == label {
			src.SetGray16(x, y, color.Gray16{math.MaxUint16})
			found = true
		}
	})
	if !found {
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
	{255, 112, 67, 255}, {66, 165, 245, 255}, {102, 220, 120, 255}, {240, 98, 200, 255}, {255, 213, 79, 255},
	{77, 208, 225, 255}, {179, 136, 255, 255}, {198, 226, 90, 255},
}

// inksOf are the colours of labels, by their numbers: a structure has the same in every picture,
// but where one of a smaller number has it there. It takes the next one then that is free.
func inksOf(labels []uint16) map[uint16]color.RGBA {
	inks, taken := map[uint16]color.RGBA{}, map[int]bool{}
	for _, label := range slices.Sorted(slices.Values(labels)) {
		at := (int(label) + len(labelColors) - 1) % len(labelColors)
		for tries := 0; taken[at] && tries < len(labelColors); tries++ {
			at = (at + 1) % len(labelColors)
		}
		inks[label], taken[at] = labelColors[at], true
	}
	return inks
}

var ivory = color.RGBA{225, 230, 236, 255}

// lighter is half way to white.
func lighter(c color.RGBA) color.RGBA {
	return color.RGBA{c.R/2 + 128, c.G/2 + 128, c.B/2 + 128, 255}
}
