package volume

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
)

// A Range is the smallest and the largest voxel size (mm) of some scans, along each axis. The zero
// value says that nothing is known.
type Range struct {
	Min [3]float64 `yaml:"min,flow"`
	Max [3]float64 `yaml:"max,flow"`
}

// RangeOf is the range of voxel sizes.
func RangeOf(spacings iter.Seq[[3]float64]) (r Range) {
	first := true
	for s := range spacings {
		for axis, size := range s {
			if first {
				r.Min[axis], r.Max[axis] = size, size
			}
			r.Min[axis], r.Max[axis] = min(r.Min[axis], size), max(r.Max[axis], size)
		}
		first = false
	}
	return r
}

// MedianSpacing is the median along each axis, the mean of the middle two where the number of voxel
// sizes is even, with as many digits as a header's float32 has.
func MedianSpacing(spacings [][3]float64) (median [3]float64) {
	sizes := make([]float64, len(spacings))
	for axis := range median {
		for n, s := range spacings {
			sizes[n] = s[axis]
		}
		slices.Sort(sizes)
		middle := (sizes[(len(sizes)-1)/2] + sizes[len(sizes)/2]) / 2
		median[axis], _ = strconv.ParseFloat(strconv.FormatFloat(middle, 'g', 7, 64), 64)
	}
	return median
}

// With is the range of scans that have this voxel size along some axes and, along those where it is
// 0, that of r. It is unknown where r is unknown along one of these.
func (r Range) With(spacing [3]float64) (all Range, known bool) {
	all, known = r, true
	for axis, s := range spacing {
		if s > 0 {
			all.Min[axis], all.Max[axis] = s, s
		} else if !r.Known() {
			known = false
		}
	}
	return all, known
}

// Known tells whether the range says anything.
func (r Range) Known() bool { return r != Range{} }

// SpacingTolerance is how many times smaller or larger than those of a range voxels may be to be
// held for like them: what a network sees of an organ then differs by a quarter, as much as it does
// between patients.
const SpacingTolerance = 1.25

// Outside lists the axes along which a voxel size is none of the range's, by more than
// [SpacingTolerance].
func (r Range) Outside(spacing [3]float64) (axes []int) {
	for axis, size := range spacing {
		if !(size >= r.Min[axis]/SpacingTolerance && size <= r.Max[axis]*SpacingTolerance) {
			axes = append(axes, axis)
		}
	}
	return axes
}

// Beyond lists the axes along which another range reaches beyond this one, by more than
// [SpacingTolerance].
func (r Range) Beyond(o Range) (axes []int) {
	axes = append(r.Outside(o.Min), r.Outside(o.Max)...)
	slices.Sort(axes)
	return slices.Compact(axes)
}

// String is the range for a person: "0.7 to 0.9 x 0.7 to 0.9 x 2.5 mm".
func (r Range) String() string {
	text := ""
	for axis := range 3 {
		if axis > 0 {
			text += " x "
		}
		text += r.Along(axis)
	}
	return text + " mm"
}

// Along is the range along an axis, in mm: "0.7 to 0.9".
func (r Range) Along(axis int) string {
	low, high := fmt.Sprintf("%.3g", r.Min[axis]), fmt.Sprintf("%.3g", r.Max[axis])
	if low == high {
		return low
	}
	return low + " to " + high
}

// Check says what is wrong with a range that was read.
func (r Range) Check() error {
	for axis := range 3 {
		if !(r.Min[axis] > 0) || !(r.Max[axis] >= r.Min[axis]) || math.IsInf(r.Max[axis], 0) {
			return fmt.Errorf("voxel sizes of %v make no sense", r)
		}
	}
	return nil
}
