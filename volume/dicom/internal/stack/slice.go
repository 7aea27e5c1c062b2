package stack

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
)

// This file: where single slices lie, and what several of them have in common.
//
// DICOM's coordinates are LPS, those of package volume RAS: x and y change sign, at the very end.

// Vector is a place or a direction in DICOM's coordinates, in mm.
type Vector [3]float64

func (a Vector) Dot(b Vector) float64   { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }
func (a Vector) Plus(b Vector) Vector   { return Vector{a[0] + b[0], a[1] + b[1], a[2] + b[2]} }
func (a Vector) Minus(b Vector) Vector  { return Vector{a[0] - b[0], a[1] - b[1], a[2] - b[2]} }
func (a Vector) Times(s float64) Vector { return Vector{a[0] * s, a[1] * s, a[2] * s} }
func (a Vector) Length() float64        { return math.Sqrt(a.Dot(a)) }
func (a Vector) Cross(b Vector) Vector {
	return Vector{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}

// Slice is one frame of one file.
type Slice struct {
	Image *Image
	Frame int
	Info  Info
	At    float64 // mm along the normal
}

// Located reports whether the slice says where it lies.
func (s *Slice) Located() bool {
	return s.Info.Position != nil && s.Info.Orientation != nil && s.Info.Spacing != nil
}

// Axes returns the unit vectors along a row, along a column, and their normal.
func (s *Slice) Axes() (row, column, normal Vector, err error) {
	o := s.Info.Orientation
	row, column = Vector(o[:3]), Vector(o[3:])
	lr, lc := row.Length(), column.Length()
	// Directions are written with about four digits or more. Two of them that miss a right angle by
	// this much are no axes of an image.
	if math.Abs(lr-1) > 0.01 || math.Abs(lc-1) > 0.01 || math.Abs(row.Dot(column)) > 0.01 {
		return row, column, normal, fmt.Errorf("ImageOrientationPatient %v is not two unit vectors at right angles",
			numbers.List(o))
	}
	if x := s.Info.Spacing; !(x[0] > 0 && x[1] > 0 && x[0] <= maxPlace && x[1] <= maxPlace) {
		return row, column, normal, fmt.Errorf("PixelSpacing %v must be positive and no more than %.0f mm",
			numbers.List(x), float64(maxPlace))
	}
	row, column = row.Times(1/lr), column.Times(1/lc)
	normal = row.Cross(column)
	return row, column, normal.Times(1 / normal.Length()), nil
}

// Localizer reports whether the slice is a scout view, by its ImageType.
func (s *Slice) Localizer() bool {
	return slices.ContainsFunc(s.Info.ImageType, func(t string) bool { return strings.EqualFold(t, "LOCALIZER") })
}

// Axcodes returns where the image's columns, rows (from the last to the first) and normal grow to,
// nearest, or "" where the slice does not say.
func (s *Slice) Axcodes() string {
	if !s.Located() {
		return ""
	}
	row, column, normal, err := s.Axes()
	if err != nil {
		return ""
	}
	return world(row, column.Times(-1), normal, Vector{}).Axcodes()
}

// world turns the columns of an affine from LPS to RAS.
func world(columns ...Vector) (a volume.Affine) {
	for w := range 3 {
		sign := -1.0
		if w == 2 {
			sign = 1
		}
		for c := range columns {
			a[w][c] = sign*columns[c][w] + 0 // + 0 turns -0 into 0
		}
	}
	a[3][3] = 1
	return a
}

// Tolerance is how far (mm) a slice may lie off its place in an evenly spaced stack: 2 % of the
// distance between slices, or what rounding to a tenth of a millimetre does. A missing slice moves
// its neighbours off by a sixth of the distance at least.
func Tolerance(distance float64) float64 { return min(max(0.02*distance, 0.051), distance/7) }

// Evenly returns the evenly spaced stack that sorted positions are nearest to, start + k x
// distance, and whether all of them lie within the tolerance of their places in it. A stack from
// the first position to the last would not do: these two are rounded as well.
func Evenly(at []float64) (even bool, start, distance float64) {
	if len(at) < 2 {
		return true, at[0], 0
	}
	// How far positions spread about their places is a convex function of the distance, whose
	// minimum lies between the smallest and the largest distance of neighbours: ternary search.
	spread := func(distance float64) (low, high float64) {
		low, high = at[0], at[0]
		for k, x := range at {
			x -= float64(k) * distance
			low, high = min(low, x), max(high, x)
		}
		return low, high
	}
	least, most := math.Inf(1), 0.0
	for k := 1; k < len(at); k++ {
		least, most = min(least, at[k]-at[k-1]), max(most, at[k]-at[k-1])
	}
	if most-least > 4*Tolerance(most) { // no even stack is near to both
		return false, at[0], least
	}
	for range 64 {
		a, b := least+(most-least)/3, most-(most-least)/3
		lowA, highA := spread(a)
		lowB, highB := spread(b)
		if highA-lowA <= highB-lowB {
			most = b
		} else {
			least = a
		}
	}
	distance = least + (most-least)/2
	low, high := spread(distance)
	return (high-low)/2 <= Tolerance(distance), low + (high-low)/2, distance
}

// GapIn finds the distance between neighbours that differs most from the median one. Gap is the
// number of the position that it begins at.
func GapIn(at []float64) (gap int, median float64) {
	if len(at) < 2 {
		return 0, 0
	}
	distances := make([]float64, len(at)-1)
	for k := range distances {
		distances[k] = at[k+1] - at[k]
	}
	median = slices.Sorted(slices.Values(distances))[len(distances)/2]
	for k, d := range distances {
		if math.Abs(d-median) > math.Abs(distances[gap]-median) {
			gap = k
		}
	}
	return gap, median
}

// twoFiles names the files of two slices that contradict each other.
func twoFiles(a, b string) string {
	if a == b {
		return "two frames of " + filepath.Base(a)
	}
	if x, y := filepath.Base(a), filepath.Base(b); x != y {
		return x + " and " + y
	}
	return a + " and " + b
}

// tilt returns the angle between the way from the first slice to the last and their normal, in
// degrees.
func TiltOf(all []Slice) float64 {
	first, last := &all[0], &all[len(all)-1]
	if !first.Located() || !last.Located() || len(all) < 2 {
		return 0
	}
	_, _, normal, err := first.Axes()
	way := Vector(last.Info.Position).Minus(Vector(first.Info.Position))
	if err != nil || way.Length() == 0 {
		return 0
	}
	return math.Acos(min(way.Dot(normal)/way.Length(), 1)) * 180 / math.Pi
}

// Crowded counts the sorted slices that lie in the place of another.
func Crowded(all []Slice) (count int) {
	for n := 1; n < len(all); n++ {
		if all[n].At-all[n-1].At < SamePlace {
			count++
		}
	}
	return count
}

// Regular reports whether sorted slices are evenly spaced, none in the place of another.
func Regular(all []Slice) bool {
	at := make([]float64, len(all))
	for n := range all {
		at[n] = all[n].At
	}
	even, _, _ := Evenly(at)
	return even && Crowded(all) == 0
}

// Slices returns the frames of an image, each as a slice.
func (im *Image) Slices() []Slice {
	out := make([]Slice, im.Frames)
	for n := range out {
		out[n] = Slice{Image: im, Frame: n, Info: im.Shared}
		if n < len(im.perFrame) {
			out[n].Info = im.perFrame[n]
			out[n].Info.under(im.Shared)
		}
	}
	if im.Frames > 1 && len(im.perFrame) != im.Frames {
		// Positions are those of the first frame at best.
		for n := range out {
			out[n].Info.Position = nil
		}
	}
	return out
}

// Alike reports whether two slices can be of one volume by their orientation and spacing, which
// must be the same as far as their digits tell.
func Alike(a, b *Slice) bool {
	if a.Located() != b.Located() {
		return false
	}
	if !a.Located() {
		return a.Image == b.Image || a.Image.Frames == 1 && b.Image.Frames == 1
	}
	for n := range a.Info.Orientation {
		if math.Abs(a.Info.Orientation[n]-b.Info.Orientation[n]) > 1e-3 {
			return false
		}
	}
	for n := range a.Info.Spacing {
		if math.Abs(a.Info.Spacing[n]-b.Info.Spacing[n]) > 1e-3*a.Info.Spacing[n] {
			return false
		}
	}
	return true
}

// Grid returns the grid of a slice alone: i along its rows, j along its columns, k along the
// normal.
func (s *Slice) Grid(distance float64) (volume.Grid, error) {
	row, column, normal, err := s.Axes()
	if err != nil {
		return volume.Grid{}, err
	}
	g := volume.Grid{Shape: [3]int{s.Image.Columns, s.Image.Rows, 1}}
	for c, v := range [4]Vector{row.Times(s.Info.Spacing[1]), column.Times(s.Info.Spacing[0]), normal.Times(distance),
		Vector(s.Info.Position)} {
		g.Affine[0][c], g.Affine[1][c], g.Affine[2][c] = -v[0], -v[1], v[2] // LPS to RAS
	}
	g.Affine[3][3] = 1
	return g, nil
}
