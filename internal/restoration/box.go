package restoration

import "math/rand/v2"

// A box is a part of a crop: its first voxel and its size.
type box struct{ origin, size [3]int }

// rows calls f with the first voxel of each row along i, and with the row's length.
func (b box) rows(size [3]int, f func(first, n int)) {
	for k := b.origin[2]; k < b.origin[2]+b.size[2]; k++ {
		for j := b.origin[1]; j < b.origin[1]+b.size[1]; j++ {
			f(b.origin[0]+size[0]*(j+size[1]*k), b.size[0])
		}
	}
}

// drawBox draws a box inside a crop, of a size from least to most (both included).
func drawBox(r *rand.Rand, size, least, most [3]int) box {
	var b box
	for axis := range 3 {
		b.size[axis] = between(r, least[axis], most[axis])
	}
	for axis := range 3 {
		b.origin[axis] = between(r, 0, size[axis]-b.size[axis])
	}
	return b
}

// between draws a number from low to high, both included.
func between(r *rand.Rand, low, high int) int { return low + r.IntN(high-low+1) }
