package nnunet

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// array is three-dimensional, its last axis the fastest, as numpy has it: element (a, b, c) of
// shape (A, B, C) is values[(a B + b) C + c].
type array[T any] struct {
	shape  [3]int
	values []T
}

func newArray[T any](shape [3]int) array[T] {
	return array[T]{shape, make([]T, shape[0]*shape[1]*shape[2])}
}

// view is a part of an array, with its axes in another order: its element (a, b, c) is values[first
// + a strides[0] + b strides[1] + c strides[2]].
type view[T any] struct {
	shape, strides [3]int
	first          int
	values         []T
}

func (x array[T]) view() view[T] {
	return view[T]{shape: x.shape, strides: [3]int{x.shape[1] * x.shape[2], x.shape[2], 1}, values: x.values}
}

// transposed is the view whose axis a is axis axes[a] of x.
func (x view[T]) transposed(axes [3]int) view[T] {
	y := x
	y.shape, y.strides = permuted(x.shape, axes), permuted(x.strides, axes)
	return y
}

// part is what of a view lies in a box.
func (x view[T]) part(b box) view[T] {
	y := x
	for a := range 3 {
		y.first += b.from[a] * x.strides[a]
	}
	y.shape = b.size()
	return y
}

// index is where an element lies among the values.
func (x view[T]) index(a, b, c int) int {
	return x.first + a*x.strides[0] + b*x.strides[1] + c*x.strides[2]
}

// copied is a view as an array of its own.
func (x view[T]) copied() array[T] {
	y := newArray[T](x.shape)
	parallel(x.shape[0], func(i int) {
		n := i * x.shape[1] * x.shape[2]
		for j := range x.shape[1] {
			at := x.first + i*x.strides[0] + j*x.strides[1]
			for range x.shape[2] {
				y.values[n] = x.values[at]
				n++
				at += x.strides[2]
			}
		}
	})
	return y
}

// box is a part of an array: from an index to before another, along each axis.
type box struct{ from, to [3]int }

func (b box) size() (s [3]int) {
	for a := range s {
		s[a] = b.to[a] - b.from[a]
	}
	return s
}

// has says whether an element lies in a box.
func (b box) has(i, j, k int) bool {
	return i >= b.from[0] && i < b.to[0] && j >= b.from[1] && j < b.to[1] && k >= b.from[2] && k < b.to[2]
}

// permuted takes the values of the axes that a transposition names.
func permuted[T any](v [3]T, axes [3]int) (p [3]T) {
	for a, from := range axes {
		p[a] = v[from]
	}
	return p
}

// parallel calls f(0) ... f(n-1), in any order, on every core that Go may use.
func parallel(n int, f func(item int)) {
	workers(n, func() func(item int) { return f })
}

// workers is parallel where each core has an f of its own, with the memory that it works in: what
// is made for every item is garbage, for which a limit of memory would have to leave room.
func workers(n int, own func() (f func(item int))) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		wg.Go(func() {
			f := own()
			for item := int(next.Add(1)) - 1; item < n; item = int(next.Add(1)) - 1 {
				f(item)
			}
		})
	}
	wg.Wait()
}
