package nnunet

// array is three-dimensional, its last axis the fastest, as numpy has it: element (a, b, c) of
// shape (A, B, C) is values[(a B + b) C + c].
type array[T any] struct {
	shape  [3]int
	values []T
}

func newArray[T any](shape [3]int) array[T] {
	return array[T]{shape, make([]T, shape[0]*shape[1]*shape[2])}
}

// box is a part of an array: from an index to before another, along each axis.
type box struct{ from, to [3]int }

func (b box) size() (s [3]int) {
	for a := range s {
		s[a] = b.to[a] - b.from[a]
	}
	return s
}

// crop copies a box of an array.
func crop[T any](x array[T], b box) array[T] {
	y := newArray[T](b.size())
	n := y.shape[2]
	for i := range y.shape[0] {
		for j := range y.shape[1] {
			from := ((b.from[0]+i)*x.shape[1]+b.from[1]+j)*x.shape[2] + b.from[2]
			copy(y.values[(i*y.shape[1]+j)*n:][:n], x.values[from:])
		}
	}
	return y
}

// transpose gives an array whose axis a is axis axes[a] of x.
func transpose[T any](x array[T], axes [3]int) array[T] {
	if axes == [3]int{0, 1, 2} {
		return x
	}
	strides := [3]int{x.shape[1] * x.shape[2], x.shape[2], 1}
	var shape, stride [3]int
	for a, from := range axes {
		shape[a], stride[a] = x.shape[from], strides[from]
	}
	y := newArray[T](shape)
	n := 0
	for i := range shape[0] {
		for j := range shape[1] {
			at := i*stride[0] + j*stride[1]
			for range shape[2] {
				y.values[n] = x.values[at]
				n++
				at += stride[2]
			}
		}
	}
	return y
}

// inverse is the transposition that undoes one.
func inverse(axes [3]int) (back [3]int) {
	for a, from := range axes {
		back[from] = a
	}
	return back
}

// permuted takes the values of the axes that a transposition names.
func permuted[T any](v [3]T, axes [3]int) (p [3]T) {
	for a, from := range axes {
		p[a] = v[from]
	}
	return p
}
