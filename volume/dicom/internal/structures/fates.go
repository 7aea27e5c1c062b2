package structures

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
)

// This file says where contours lie on the scan, and tells of those that do not.

// fate counts what became of a structure's contours.
type fate struct {
	all, open, outside, gap int     // gap: too far from the slices on both sides
	foreign                 int     // in another frame of reference than the scan's
	doubtful                int     // drawn, though it says another frame of reference
	renamed                 int     // likewise, but it names slices of the scan
	cut                     int     // drawn, but partly outside the slice
	crossed                 int     // slices on which two cross in part
	twice                   int     // that cross themselves and go round something twice
	repeated                int     // drawn before, on the same slice
	strange                 int     // drawn, but they name slices of another scan
	empty                   bool    // some are drawn, and there is no pixel within them
	between                 int     // drawn on the nearest slice, though they lie between two
	farthest                float64 // mm from these to their slice
}

// drawn reports whether a contour lies on the scan.
func (f *fate) drawn() bool { return f.all > f.open+f.outside+f.gap+f.foreign }

// add counts a contour that is drawn, away mm from its slice.
func (f *fate) add(away float64, cut bool, distance float64) {
	if cut {
		f.cut++
	}
	if away > distance/4 {
		f.between++
		f.farthest = max(f.farthest, away)
	}
}

// place says where a contour lies along the slices.
type place int

const (
	onSlice place = iota
	inGap
	beyondSlices
)

// fate is what became of the contours of a structure so far.
func (c *canvas) fate(number int) *fate {
	if c.fates[number] == nil {
		c.fates[number] = &fate{}
	}
	return c.fates[number]
}

// nearest is the slice nearest to a place along the normal, and how far (mm) it is away. Half-way
// between two slices, the second is nearest: contours that all lie so keep to a slice each.
func (c *canvas) nearest(at float64) (k int, away float64, there place) {
	tolerance := stack.Tolerance(c.distance)
	k, _ = slices.BinarySearch(c.plan.At, at)
	if k > 0 && (k == len(c.plan.At) || at-c.plan.At[k-1] < c.plan.At[k]-at-tolerance) {
		k--
	}
	away = math.Abs(at - c.plan.At[k])
	half := c.distance / 2
	switch last := len(c.plan.At) - 1; {
	case at > c.plan.At[last]+half-tolerance || at < c.plan.At[0]-half-tolerance:
		return k, away, beyondSlices
	case away > half+tolerance:
		return k, away, inGap
	}
	return k, away, onSlice
}

// pixels is a contour in columns and rows of a slice.
func (c *canvas) pixels(line contour, k int) ([][2]float64, error) {
	grid, err := c.stack.Slices[k].Grid(c.distance)
	if err != nil {
		return nil, err
	}
	inverse, err := grid.Affine.Inverse()
	if err != nil {
		return nil, err
	}
	outline := make([][2]float64, len(line.points))
	for n, p := range line.points {
		pixel := inverse.Apply([3]float64{-p[0], -p[1], p[2]})
		outline[n] = [2]float64{pixel[0], pixel[1]}
	}
	return outline, nil
}

// within says whether some of a contour's box lies on the slice, and whether it is cut: whether
// some lies more than a pixel outside.
func (c *canvas) within(outline [][2]float64) (inside, cut bool) {
	inside = true
	for axis, size := range []int{c.columns, c.rows} {
		low, high := math.Inf(1), math.Inf(-1)
		for _, p := range outline {
			low, high = min(low, p[axis]), max(high, p[axis])
		}
		const edge = 0.5 // pixels from the outermost centres
		last := float64(size-1) + edge
		inside = inside && high > -edge && low < last
		cut = cut || low < -edge-1 || high > last+1
	}
	return inside, cut
}

// checkAnyOnScan refuses a set of which nothing lies on the scan, but something elsewhere.
func (c *canvas) checkAnyOnScan() error {
	elsewhere := false
	for _, f := range c.fates {
		if f.drawn() {
			return nil
		}
		elsewhere = elsewhere || f.outside+f.gap+f.foreign > 0
	}
	if !elsewhere {
		return nil
	}
	lost := c.list(func(f *fate) string {
		if f.foreign > 0 {
			return f.lost()
		}
		return fmt.Sprintf(" (%s)", numbers.Count(f.all, "contour"))
	})
	return &volume.UnsupportedError{Path: c.set.Path, Problem: "no contour lies on the scan: " + safetext.List(lost) +
		". It was drawn on another scan: take the structure set of this one, or use the scan without"}
}

// list names structures, each with what is to be said of its contours; "" leaves it out.
func (c *canvas) list(say func(*fate) string) (list []string) {
	for _, structure := range c.set.Structures {
		if f := c.fates[structure.Number]; f != nil {
			if text := say(f); text != "" {
				list = append(list, structure.Name+text)
			}
		}
	}
	return list
}

// notes tells what is odd about the contours, with the names of the structures.
func (c *canvas) notes() (notes []string) {
	of := func(count func(*fate) int) func(*fate) string {
		return func(f *fate) string {
			if n := count(f); n > 0 && f.drawn() {
				return fmt.Sprintf(" (%d of %d)", n, f.all)
			}
			return ""
		}
	}
	for _, about := range []struct {
		what string
		say  func(*fate) string
	}{
		{"WARNING: no contour lies on the scan, which counts as not drawn", func(f *fate) string {
			if f.drawn() {
				return ""
			}
			return f.lost()
		}},
		{"contours outside the scan, which are passed over", of(func(f *fate) int { return f.outside })},
		{"WARNING: contours in another frame of reference (ReferencedFrameOfReferenceUID) than the scan's, " +
			"which are passed over", of(func(f *fate) int { return f.foreign })},
		{"WARNING: contours that say another frame of reference (ReferencedFrameOfReferenceUID) than the scan's, " +
			"and are drawn where they lie", of(func(f *fate) int { return f.doubtful })},
		{"contours that say another frame of reference (ReferencedFrameOfReferenceUID) than the scan's, " +
			"but name its slices, and are drawn there", of(func(f *fate) int { return f.renamed })},
		{"contours in a gap between slices, which are passed over", of(func(f *fate) int { return f.gap })},
		{"contours that enclose nothing, such as points and open lines, which are passed over",
			of(func(f *fate) int { return f.open })},
		{"contours that are drawn twice, which count once", of(func(f *fate) int { return f.repeated })},
		{"WARNING: contours that name slices which the scan does not have, and are drawn where they lie",
			of(func(f *fate) int { return f.strange })},
		{"WARNING: contours that enclose the centre of no voxel, so that nothing is left", func(f *fate) string {
			if !f.empty {
				return ""
			}
			return fmt.Sprintf(" (%s)", numbers.Count(f.all, "contour"))
		}},
		{"contours partly outside the scan, which are cut there", of(func(f *fate) int { return f.cut })},
		{"contours between slices, which are taken for contours of the nearest", func(f *fate) string {
			if f.between == 0 {
				return ""
			}
			return fmt.Sprintf(" (%d of %d, up to %.3g mm away)", f.between, f.all, f.farthest)
		}},
	} {
		if list := c.list(about.say); list != nil {
			notes = append(notes, about.what+": "+safetext.List(list))
		}
	}
	if list := c.list(func(f *fate) string {
		if f.crossed == 0 {
			return ""
		}
		return fmt.Sprintf(" (%s)", numbers.Count(f.crossed, "slice"))
	}); list != nil {
		notes = append(notes,
			"WARNING: contours of one structure that cross in part, of which what both enclose is left out: "+
				safetext.List(list))
	}
	if list := c.list(func(f *fate) string {
		if f.twice == 0 {
			return ""
		}
		return fmt.Sprintf(" (%s)", numbers.Count(f.twice, "contour"))
	}); list != nil {
		notes = append(notes,
			"WARNING: contours that cross themselves, of which what they go round twice is left out: "+
				safetext.List(list))
	}
	return notes
}

// lost says where the contours are of a structure that has none on the scan.
func (f *fate) lost() string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{f.outside, "outside the scan"}, {f.gap, "in a gap between slices"},
		{f.foreign, "in another frame of reference"}, {f.open, "that enclose nothing"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", numbers.Count(part.n, "contour"), part.what))
		}
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// undrawn are the labels of structures that have contours, but none on the scan, in ascending
// order.
func (c *canvas) undrawn(labels map[int]uint16) []uint16 {
	drawn := map[uint16]bool{}
	for number, f := range c.fates {
		drawn[labels[number]] = drawn[labels[number]] || f.drawn()
	}
	maps.DeleteFunc(drawn, func(_ uint16, drawn bool) bool { return drawn })
	return slices.Sorted(maps.Keys(drawn))
}
