package volume

import "math"

// This file: labels on a part of a scan's voxels.

// mostMiss is how far (voxels) a voxel of labels may lie off the voxel of the scan that it is for:
// what rounding in headers does, and no more.
const mostMiss = 0.25

// Shares reports whether the voxels of l are voxels of g's lattice, perhaps with axes permuted or
// flipped, and lie on g in part at least. They may reach beyond g, which beyond says.
func (g Grid) Shares(l Grid) (beyond, ok bool) {
	turned, err := l.Oriented(g.Axcodes())
	if err != nil {
		return false, false
	}
	origin, _, ok := g.offset(turned)
	if !ok {
		return false, false
	}
	for a := range 3 {
		first, last := origin[a], origin[a]+turned.Shape[a]-1
		if last < 0 || first >= g.Shape[a] {
			return false, false
		}
		beyond = beyond || first < 0 || last >= g.Shape[a]
	}
	return beyond, true
}

// Beside is how far the voxels of l lie off those of g that they are for, see [Grid.Shares], at
// most: along one axis, in voxels. It is 0 where they are for none.
func (g Grid) Beside(l Grid) float64 {
	turned, err := l.Oriented(g.Axcodes())
	if err != nil {
		return 0
	}
	_, beside, ok := g.offset(turned)
	if !ok {
		return 0
	}
	return beside
}

// offset is the voxel of g's lattice that the first voxel of l lies on, where all lie on voxels of
// it, axis by axis, and how far off these they lie, at most.
func (g Grid) offset(l Grid) (origin [3]int, beside float64, ok bool) {
	m, err := between(g, l)
	if err != nil {
		return origin, 0, false
	}
	for a := range 3 {
		if first := math.Round(m[a][3]); math.Abs(first) < MaxVoxels {
			origin[a] = int(first)
		} else {
			return origin, 0, false
		}
	}
	for corner := range 8 {
		var at [3]float64
		for a := range at {
			at[a] = float64((corner >> a & 1) * (l.Shape[a] - 1))
		}
		for a, x := range m.Apply(at) {
			miss := math.Abs(x - at[a] - float64(origin[a]))
			if !(miss <= mostMiss) {
				return origin, 0, false
			}
			beside = max(beside, miss)
		}
	}
	// A single slice says nothing of the distance of slices, but its header does.
	for a := range 3 {
		if math.Abs(m[a][a]-1) > mostMiss {
			return origin, 0, false
		}
	}
	return origin, beside, true
}

// shifted says how far between g's voxels those of l lie, along each axis of g and in voxels, where
// l has the axes and voxel size of g, another shape, and lies on a part of it.
func (g Grid) shifted(l Grid) (by [3]float64, ok bool) {
	turned, err := l.Oriented(g.Axcodes())
	if err != nil || turned.Shape == g.Shape {
		return by, false
	}
	m, err := between(g, turned)
	if err != nil {
		return by, false
	}
	for a := range 3 {
		first := math.Round(m[a][3])
		if by[a] = m[a][3] - first; !(first < float64(g.Shape[a]) && first+float64(turned.Shape[a]) > 0) {
			return by, false
		}
	}
	moved := turned
	for r := range 3 {
		for a := range 3 {
			moved.Affine[r][3] -= g.Affine[r][a] * by[a]
		}
	}
	_, ok = g.Shares(moved)
	return by, ok
}

// Place returns labels that lie on a part of g's voxels, see [Grid.Shares], on all of g: the rest
// is background. Of labels that reach beyond g, lost voxels that are no background lie there. It
// returns nil where the labels do not lie on voxels of g.
func (l *LabelMap) Place(g Grid) (placed *LabelMap, lost int) {
	if _, ok := g.Shares(l.Grid); !ok {
		return nil, 0
	}
	turned, err := l.Orient(g.Axcodes())
	if err != nil {
		return nil, 0
	}
	origin, _, _ := g.offset(turned.Grid)
	for a := range origin {
		origin[a] = -origin[a]
	}
	placed = &LabelMap{Grid: g, Labels: crop(turned.Labels, turned.Shape, origin, g.Shape, 0), Names: l.Names,
		Undrawn: l.Undrawn, Emptied: l.Emptied}
	return placed, drawn(l.Labels) - drawn(placed.Labels)
}

// drawn is the number of voxels that are no background.
func drawn(labels []uint16) (n int) {
	for _, label := range labels {
		if label != 0 {
			n++
		}
	}
	return n
}
