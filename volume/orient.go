package volume

import "fmt"

// Orient returns the same voxels with the axes permuted and turned so that they grow along codes
// ("RAS", "LPS", ...). No value is interpolated; an oblique volume stays as oblique as it was.
func (v *Volume) Orient(codes string) (*Volume, error) {
	g, from, flip, err := v.Grid.orient(codes)
	if err != nil {
		return nil, fmt.Errorf("orienting to %s: %w", codes, err)
	}
	if same(from, flip) {
		return v, nil
	}
	o := &Volume{Grid: g}
	if v.Int16 != nil {
		o.Int16 = permute(v.Int16, v.Shape, from, flip)
	} else {
		o.Float32 = permute(v.Float32, v.Shape, from, flip)
	}
	return o, nil
}

// Orient returns the same labels with the axes permuted and turned so that they grow along codes.
func (l *LabelMap) Orient(codes string) (*LabelMap, error) {
	g, from, flip, err := l.Grid.orient(codes)
	if err != nil {
		return nil, fmt.Errorf("orienting to %s: %w", codes, err)
	}
	if same(from, flip) {
		return l, nil
	}
	return &LabelMap{Grid: g, Labels: permute(l.Labels, l.Shape, from, flip), Names: l.Names, Undrawn: l.Undrawn,
		Emptied: l.Emptied}, nil
}

func same(from [3]int, flip [3]bool) bool { return from == [3]int{0, 1, 2} && flip == [3]bool{} }

// permute copies src (of the given shape) so that axis a of the result is axis from[a] of src,
// backwards if flip[a].
func permute[T any](src []T, shape, from [3]int, flip [3]bool) []T {
	strides := [3]int{1, shape[0], shape[0] * shape[1]}
	var n, step [3]int // extents of the result, and what a step along each of its axes is in src
	first := 0
	for a := range 3 {
		n[a], step[a] = shape[from[a]], strides[from[a]]
		if flip[a] {
			first += step[a] * (n[a] - 1)
			step[a] = -step[a]
		}
	}
	dst := make([]T, len(src))
	if from[0] == 0 {
		parallel(n[2], func(k int) {
			for j := range n[1] {
				row := dst[n[0]*(j+n[1]*k):][:n[0]]
				s := first + j*step[1] + k*step[2]
				if step[0] == 1 {
					copy(row, src[s:])
					continue
				}
				for i := range row {
					row[i] = src[s-i]
				}
			}
		})
		return dst
	}
	// src runs fastest along axis q of the result, not along i. Square tiles in the plane of i and
	// q use each cache line fully, in src and in dst.
	const tile = 32
	q := 1
	if from[2] == 0 {
		q = 2
	}
	rest := 3 - q
	out := [3]int{1, n[0], n[0] * n[1]}
	tiles := (n[q] + tile - 1) / tile
	parallel(n[rest]*tiles, func(item int) {
		r, q0 := item/tiles, item%tiles*tile
		q1 := min(q0+tile, n[q])
		for i0 := 0; i0 < n[0]; i0 += tile {
			i1 := min(i0+tile, n[0])
			for b := q0; b < q1; b++ {
				d := b*out[q] + r*out[rest]
				s := first + i0*step[0] + b*step[q] + r*step[rest]
				for i := i0; i < i1; i++ {
					dst[d+i] = src[s]
					s += step[0]
				}
			}
		}
	})
	return dst
}
