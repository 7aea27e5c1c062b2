package nnunet

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/half"
)

// Resampling as nnU-Net does it by skimage's resize, which is scipy's zoom with grid_mode: the
// boxes of both grids coincide, so that index i of m samples lies at (i + 0.5) n/m - 0.5 of n; edge
// values go on outside. All of it is computed in float64.

// tap is where one output sample takes its value from.
type tap struct {
	index  []int
	weight []float64
}

// splinePad is for how many samples an edge's value is repeated before cubic coefficients are
// computed, as scipy does.
const splinePad = 12

// tapsOf are the taps of m samples made of n by B-splines of order 0, 1 or 3. Those of order 3 count
// in coefficients, of which splinePad come before the first sample.
func tapsOf(n, m, order int) []tap {
	taps := make([]tap, m)
	for i := range taps {
		x := (float64(i)+0.5)*(float64(n)/float64(m)) - 0.5
		switch order {
		case 0:
			x = min(max(x, 0), float64(n-1))
			taps[i] = tap{[]int{int(math.Floor(x + 0.5))}, []float64{1}}
		case 1:
			x = min(max(x, 0), float64(n-1))
			low := min(int(math.Floor(x)), max(n-2, 0))
			t := x - float64(low)
			taps[i] = tap{[]int{low, min(low+1, n-1)}, []float64{1 - t, t}}
		default:
			low := math.Floor(x)
			t := x - low
			w := []float64{(1 - t) * (1 - t) * (1 - t), 3*t*t*t - 6*t*t + 4, -3*t*t*t + 3*t*t + 3*t + 1, t * t * t}
			at := int(low) + splinePad
			for k := range w {
				w[k] /= 6
			}
			taps[i] = tap{[]int{at - 1, at, at + 1, at + 2}, w}
		}
	}
	return taps
}

// lines calls do with each line of an array along an axis: its first element's index and the
// distance between elements.
func lines(shape [3]int, axis int, do func(first, stride int)) {
	strides := [3]int{shape[1] * shape[2], shape[2], 1}
	shape[axis] = 1
	for i := range shape[0] {
		for j := range shape[1] {
			for k := range shape[2] {
				do(i*strides[0]+j*strides[1]+k*strides[2], strides[axis])
			}
		}
	}
}

// coefficients replaces a line, with its edges repeated, by the coefficients of cubic B-splines
// whose sum passes through it: two recursions with pole sqrt(3) - 2 (Unser, Splines: a perfect fit,
// 1999), which start from the half-sample mirror image.
func coefficients(line []float64) {
	pole := math.Sqrt(3) - 2
	n := len(line)
	for i := range line {
		line[i] *= 6
	}
	first, power := line[0], 1.0
	for k := range 30 {
		power *= pole
		first += power * line[min(k, n-1)]
	}
	line[0] = first
	for i := 1; i < n; i++ {
		line[i] += pole * line[i-1]
	}
	line[n-1] *= pole / (pole - 1)
	for i := n - 2; i >= 0; i-- {
		line[i] = pole * (line[i+1] - line[i])
	}
}

// along resamples an array along one axis.
func along(x array[float64], axis, m, order int) array[float64] {
	n := x.shape[axis]
	shape := x.shape
	shape[axis] = m
	y := newArray[float64](shape)
	taps := tapsOf(n, m, order)
	pad := 0
	if order == 3 {
		pad = splinePad
	}
	line := make([]float64, n+2*pad)
	var firsts []int // of the lines of y
	lines(shape, axis, func(first, _ int) { firsts = append(firsts, first) })
	at := 0
	lines(x.shape, axis, func(first, stride int) {
		for i := range line {
			line[i] = x.values[first+stride*min(max(i-pad, 0), n-1)]
		}
		if order == 3 {
			coefficients(line)
		}
		for i, t := range taps {
			var sum float64
			for k, index := range t.index {
				sum += t.weight[k] * line[index]
			}
			y.values[firsts[at]+strideOf(shape, axis)*i] = sum
		}
		at++
	})
	return y
}

func strideOf(shape [3]int, axis int) int {
	return [3]int{shape[1] * shape[2], shape[2], 1}[axis]
}

// bounds are the least and the largest value.
func bounds(values []float64) (low, high float64) {
	low, high = values[0], values[0]
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	return low, high
}

// clip brings values into a range. skimage does so with what it interpolated: cubic splines
// overshoot.
func clip(values []float64, low, high float64) {
	for i, v := range values {
		values[i] = min(max(v, low), high)
	}
}

// resize resamples an array along all axes, and keeps to the range of its values.
func resize(x array[float64], shape [3]int, order int) array[float64] {
	low, high := bounds(x.values)
	for axis, m := range shape {
		x = along(x, axis, m, order)
	}
	clip(x.values, low, high)
	return x
}

// coarseAxis is the axis that is resampled apart, as slices thicker than three times their pixels
// are; -1: none. One of the two grids decides, the present one first.
func coarseAxis(spacing, other [3]float64, force *bool) int {
	grids := [][3]float64{spacing, other}
	if force != nil {
		if !*force {
			return -1
		}
		grids = grids[:1]
	}
	for _, s := range grids {
		most := max(s[0], s[1], s[2])
		if force == nil && !(most/min(s[0], s[1], s[2]) > 3) {
			continue
		}
		axis := -1
		for a := range s {
			if most/s[a] == 1 {
				if axis >= 0 {
					return -1 // two equal ones
				}
				axis = a
			}
		}
		return axis
	}
	return -1
}

// resampled brings one channel from a grid of a spacing to another.
func (r resampling) resampled(x array[float64], shape [3]int, spacing, other [3]float64) array[float64] {
	if x.shape == shape {
		return x
	}
	axis := coarseAxis(spacing, other, r.Separate)
	if axis < 0 {
		return resize(x, shape, r.Order)
	}
	// each slice in its plane, and kept to its own range; then across the slices
	flat := shape
	flat[axis] = x.shape[axis]
	y := newArray[float64](flat)
	for n := range x.shape[axis] {
		b := box{to: x.shape}
		b.from[axis], b.to[axis] = n, n+1
		one := shape
		one[axis] = 1
		slice := crop(x, b)
		low, high := bounds(slice.values)
		for a, m := range one {
			if a != axis {
				slice = along(slice, a, m, r.Order)
			}
		}
		clip(slice.values, low, high)
		into := box{to: flat}
		into.from[axis], into.to[axis] = n, n+1
		place(y, into, slice)
	}
	if flat[axis] != shape[axis] {
		y = along(y, axis, shape[axis], r.OrderZ)
	}
	return y
}

// place copies a part into an array.
func place[T any](x array[T], b box, part array[T]) {
	n := part.shape[2]
	for i := range part.shape[0] {
		for j := range part.shape[1] {
			to := ((b.from[0]+i)*x.shape[1]+b.from[1]+j)*x.shape[2] + b.from[2]
			copy(x.values[to:][:n], part.values[(i*part.shape[1]+j)*n:][:n])
		}
	}
}

// fromHalf and toHalf convert arrays.
func fromHalf(x array[half.Float]) array[float64] {
	y := newArray[float64](x.shape)
	for i, v := range x.values {
		y.values[i] = float64(v.Float32())
	}
	return y
}

func toHalf(x array[float64]) array[half.Float] {
	y := newArray[half.Float](x.shape)
	for i, v := range x.values {
		y.values[i] = half.From64(v)
	}
	return y
}
