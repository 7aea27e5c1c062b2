package structures

import (
	"math"
	"slices"
)

// This file finds contours of one structure that cross in part. A contour within another is a hole;
// what two that cross both enclose is a hole by the same rule, which is hardly what was meant.

// crossings are the outlines of each structure on each slice.
type crossings map[ofSlice]*outlines

type ofSlice struct{ number, slice int }

// outlines are those of one structure on one slice.
type outlines struct {
	all [][][2]float64 // columns and rows of each
}

// add takes note of an outline.
func (c *crossings) add(number, slice int, outline [][2]float64) {
	if *c == nil {
		*c = crossings{}
	}
	at := ofSlice{number, slice}
	if (*c)[at] == nil {
		(*c)[at] = &outlines{}
	}
	(*c)[at].all = append((*c)[at].all, outline)
}

// has reports whether the structure has that outline on that slice, wherever it begins and
// whichever way round it goes.
func (c crossings) has(number, slice int, outline [][2]float64) bool {
	o := c[ofSlice{number, slice}]
	if o == nil {
		return false
	}
	loop := closed(outline)
	back := slices.Clone(loop)
	slices.Reverse(back)
	middle := centre(loop)
	for _, other := range o.all {
		if other = closed(other); len(other) == len(loop) && near(centre(other), middle) &&
			(sameLoop(other, loop) || sameLoop(other, back)) {
			return true
		}
	}
	return false
}

// closed is an outline without a last point that is the first again.
func closed(outline [][2]float64) [][2]float64 {
	if last := len(outline) - 1; last > 0 && near(outline[0], outline[last]) {
		return outline[:last]
	}
	return outline
}

// centre is the mean of an outline's points.
func centre(outline [][2]float64) (mean [2]float64) {
	for _, p := range outline {
		for axis, x := range p {
			mean[axis] += x / float64(len(outline))
		}
	}
	return mean
}

// near reports whether two points are the same but for rounding.
func near(p, q [2]float64) bool {
	const rounding = 1e-3 // pixels
	return math.Abs(p[0]-q[0]) <= rounding && math.Abs(p[1]-q[1]) <= rounding
}

// sameLoop reports whether two outlines of as many points have the same ones in the same order, but
// for where they begin.
func sameLoop(a, b [][2]float64) bool {
	for first := range b {
		same := true
		for n := 0; n < len(a) && same; n++ {
			same = near(a[n], b[(first+n)%len(b)])
		}
		if same {
			return true
		}
	}
	return false
}

// budget bounds what is looked at on a slice, in pixels: files of strangers may have any number of
// contours.
const budget = 1 << 24

// count is, for each structure, the slices on which two of its contours cross in part.
func (c crossings) count(columns, rows int) map[int]int {
	found := map[int]int{}
	for at, o := range c {
		if o.cross(columns, rows) {
			found[at.number]++
		}
	}
	return found
}

// cross reports whether two outlines enclose pixels in common, and each others of its own.
func (o *outlines) cross(columns, rows int) bool {
	spent := 0
	boxes := make([]box, len(o.all))
	for n, outline := range o.all {
		boxes[n] = boxOf(outline, columns, rows)
	}
	for n, a := range boxes {
		for m := range n {
			b := boxes[m]
			if spent++; spent > budget {
				return false
			}
			if !a.meets(b) {
				continue
			}
			whole := a.with(b)
			size := whole.columns() * whole.rows()
			if spent += size; spent > budget {
				return false
			}
			first, second := make([]bool, size), make([]bool, size)
			whole.fill(first, o.all[n])
			whole.fill(second, o.all[m])
			var both, onlyFirst, onlySecond bool
			for pixel, in := range first {
				both = both || in && second[pixel]
				onlyFirst = onlyFirst || in && !second[pixel]
				onlySecond = onlySecond || second[pixel] && !in
			}
			if both && onlyFirst && onlySecond {
				return true
			}
		}
	}
	return false
}

// box is columns and rows, from low to below high.
type box struct{ low, high [2]int }

// boxOf is the box of an outline's pixels on a slice.
func boxOf(outline [][2]float64, columns, rows int) (b box) {
	for axis, n := range []int{columns, rows} {
		low, high := math.Inf(1), math.Inf(-1)
		for _, p := range outline {
			low, high = min(low, p[axis]), max(high, p[axis])
		}
		b.low[axis] = int(min(max(math.Floor(low), 0), float64(n)))
		b.high[axis] = int(min(max(math.Ceil(high)+1, 0), float64(n)))
	}
	return b
}

func (b box) columns() int { return b.high[0] - b.low[0] }

func (b box) rows() int { return b.high[1] - b.low[1] }

func (b box) meets(o box) bool {
	return b.low[0] < o.high[0] && o.low[0] < b.high[0] && b.low[1] < o.high[1] && o.low[1] < b.high[1]
}

func (b box) with(o box) box {
	for axis := range 2 {
		b.low[axis], b.high[axis] = min(b.low[axis], o.low[axis]), max(b.high[axis], o.high[axis])
	}
	return b
}

// fill sets the pixels of a box that an outline encloses.
func (b box) fill(mask []bool, outline [][2]float64) {
	moved := make([][2]float64, len(outline))
	for n, p := range outline {
		moved[n] = [2]float64{p[0] - float64(b.low[0]), p[1] - float64(b.low[1])}
	}
	invert(mask, b.columns(), b.rows(), moved)
}
