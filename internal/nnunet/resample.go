package nnunet

import (
	"math"
	"slices"
)

// Resampling as nnU-Net does it by skimage's resize, which is scipy's zoom with grid_mode: the
// boxes of both grids coincide, so that index i of m samples lies at (i + 0.5) n/m - 0.5 of n; edge
// values go on outside. All of it is computed in float64.

// taps are where the samples of one axis take their values from: width of them each.
type taps struct {
	width  int
	index  []int
	weight []float64
}

// splinePad is for how many samples an edge's value is repeated before cubic coefficients are
// computed, as scipy does.
const splinePad = 12

// tapsOf are the taps of m samples made of n by B-splines of order 0, 1 or 3. Those of order 3
// count in coefficients, of which splinePad come before the first sample.
func tapsOf(n, m, order int) taps {
	t := taps{width: order + 1}
	for i := range m {
		x := (float64(i)+0.5)*(float64(n)/float64(m)) - 0.5
		if order < 3 {
			x = min(max(x, 0), float64(n-1))
		}
		switch order {
		case 0:
			t.index, t.weight = append(t.index, int(math.Floor(x+0.5))), append(t.weight, 1)
		case 1:
			low := min(int(math.Floor(x)), max(n-2, 0))
			f := x - float64(low)
			t.index, t.weight = append(t.index, low, min(low+1, n-1)), append(t.weight, 1-f, f)
		default:
			low := math.Floor(x)
			f := x - low
			for k, w := range [4]float64{(1 - f) * (1 - f) * (1 - f), 3*f*f*f - 6*f*f + 4, -3*f*f*f + 3*f*f + 3*f + 1,
				f * f * f} {
				t.index, t.weight = append(t.index, int(low)+splinePad-1+k), append(t.weight, w/6)
			}
		}
	}
	return t
}

// at is one sample of a line.
func (t taps) at(i int, line []float64) (sum float64) {
	for k := i * t.width; k < (i+1)*t.width; k++ {
		sum += t.weight[k] * line[t.index[k]]
	}
	return sum
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

// along resamples along one axis, into memory that is given where that is enough.
func along[T float32 | float64](x view[T], axis, m, order int, into []float64) array[float64] {
	n, shape := x.shape[axis], x.shape
	shape[axis] = m
	y := array[float64]{shape, nil}
	if all := shape[0] * shape[1] * shape[2]; all <= cap(into) {
		y.values = into[:all]
	} else {
		y.values = make([]float64, all)
	}
	to := y.view()
	t, pad := tapsOf(n, m, order), 0
	if order == 3 {
		pad = splinePad
	}
	// lines lie along the axis; they are counted by the two others
	a, b := (axis+1)%3, (axis+2)%3
	if a > b {
		a, b = b, a
	}
	workers(x.shape[a], func() func(i int) {
		line := make([]float64, n+2*pad)
		return func(i int) {
			for j := range x.shape[b] {
				from := x.first + i*x.strides[a] + j*x.strides[b]
				for k := range line {
					line[k] = float64(x.values[from+x.strides[axis]*min(max(k-pad, 0), n-1)])
				}
				if order == 3 {
					coefficients(line)
				}
				at := i*to.strides[a] + j*to.strides[b]
				for k := range m {
					y.values[at] = t.at(k, line)
					at += to.strides[axis]
				}
			}
		}
	})
	return y
}

// bounds are the least and the largest value.
func (x view[T]) bounds(less func(a, b T) bool) (low, high T) {
	low, high = x.values[x.first], x.values[x.first]
	for i := range x.shape[0] {
		for j := range x.shape[1] {
			at := x.first + i*x.strides[0] + j*x.strides[1]
			for range x.shape[2] {
				v := x.values[at]
				if less(v, low) {
					low = v
				}
				if less(high, v) {
					high = v
				}
				at += x.strides[2]
			}
		}
	}
	return low, high
}

// clip brings values into a range. skimage does so with what it interpolated: cubic splines
// overshoot.
func clip(x view[float64], low, high float64) {
	for i := range x.shape[0] {
		for j := range x.shape[1] {
			at := x.first + i*x.strides[0] + j*x.strides[1]
			for range x.shape[2] {
				x.values[at] = min(max(x.values[at], low), high)
				at += x.strides[2]
			}
		}
	}
}

// coarseAxis is the axis that is resampled apart: across slices that are thicker than their pixels
// by more than a ratio, the threshold; -1: none. One of the two grids decides, the present one
// first.
func coarseAxis(spacing, other [3]float64, force *bool, threshold float64) int {
	grids := [][3]float64{spacing, other}
	if force != nil {
		if !*force {
			return -1
		}
		grids = grids[:1]
	}
	for _, s := range grids {
		most := max(s[0], s[1], s[2])
		if force == nil && !(most/min(s[0], s[1], s[2]) > threshold) {
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

// orders are the orders of interpolation along each axis between grids of two spacings, and the
// axis that is resampled apart.
func (r resampling) orders(spacing, other [3]float64) (orders [3]int, coarse int) {
	coarse = coarseAxis(spacing, other, r.Separate, r.Threshold)
	for a := range orders {
		orders[a] = r.Order
		if a == coarse {
			orders[a] = r.OrderZ
		}
	}
	return orders, coarse
}

// resampled brings one channel from a grid of a spacing to another, of another shape.
func (r resampling) resampled(x view[float32], shape [3]int, spacing, other [3]float64) array[float32] {
	orders, coarse := r.orders(spacing, other)
	less := func(a, b float32) bool { return a < b }
	if coarse < 0 {
		low, high := x.bounds(less)
		return onto(x, shape, r.Order, float64(low), float64(high))
	}
	// what is interpolated keeps to the range of what it was made of: of each slice in its plane
	var y array[float64]
	for axis, m := range shape {
		switch {
		case axis == coarse:
		case y.values == nil:
			y = along(x, axis, m, orders[axis], nil)
		default:
			y = along(y.view(), axis, m, orders[axis], nil)
		}
	}
	for n := range x.shape[coarse] {
		from, to := box{to: x.shape}, box{to: y.shape}
		from.from[coarse], from.to[coarse], to.from[coarse], to.to[coarse] = n, n+1, n, n+1
		low, high := x.part(from).bounds(less)
		clip(y.view().part(to), float64(low), float64(high))
	}
	if y.shape[coarse] != shape[coarse] {
		y = along(y.view(), coarse, shape[coarse], orders[coarse], nil)
	}
	out := newArray[float32](shape)
	for i, v := range y.values {
		out.values[i] = float32(v)
	}
	return out
}

// blockColumns is how many columns are resampled along the first two axes at once.
const blockColumns = 16

// onto resamples along the three axes, one after the other, and clips. Along the first two it goes
// block of columns by block, so that little more than what the third is made of is held.
func onto(x view[float32], shape [3]int, order int, low, high float64) array[float32] {
	n := x.shape[2]
	between := newArray[float64]([3]int{shape[0], shape[1], n})
	var first, second array[float64] // of a block, in the memory of the one before
	for from := 0; from < n; from += blockColumns {
		b := box{to: x.shape}
		b.from[2], b.to[2] = from, min(from+blockColumns, n)
		first = along(x.part(b), 0, shape[0], order, first.values)
		second = along(first.view(), 1, shape[1], order, second.values)
		width := second.shape[2]
		for line := range shape[0] * shape[1] {
			copy(between.values[line*n+from:], second.values[line*width:][:width])
		}
	}
	out := newArray[float32](shape)
	workers(shape[0], func() func(i int) {
		var y array[float64]
		return func(i int) {
			b := box{to: between.shape}
			b.from[0], b.to[0] = i, i+1
			y = along(between.view().part(b), 2, shape[2], order, y.values)
			for k, v := range y.values {
				out.values[i*len(y.values)+k] = float32(min(max(v, low), high))
			}
		}
	})
	return out
}

// between is the memory in bytes that [resampling.resampled] takes beside a channel and its result.
func (r resampling) between(own, shape [3]int, spacing, other [3]float64) int64 {
	if own == shape {
		return 0
	}
	product := func(a, b, c int) int64 { return 8 * int64(a) * int64(b) * int64(c) }
	_, coarse := r.orders(spacing, other)
	if coarse < 0 {
		block := min(blockColumns, own[2])
		return product(shape[0], shape[1], own[2]) +
			product(shape[0], own[1], block) + product(shape[0], shape[1], block)
	}
	steps := []int{0, 1, 2}
	steps = append(slices.DeleteFunc(steps, func(axis int) bool { return axis == coarse }), coarse)
	var last, most int64 // of a step, and of two that follow one another
	for _, axis := range steps {
		own[axis] = shape[axis]
		next := product(own[0], own[1], own[2])
		most, last = max(most, last+next), next
	}
	return most
}
