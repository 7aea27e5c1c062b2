package volume

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// MaxVoxels bounds every volume: 2^33 voxels are 16 GiB of int16, more than any scanner writes in
// one series. A header that claims more is refused.
const MaxVoxels = 1 << 33

// Check says whether the grid can be one of a volume: positive extents, not absurdly many voxels,
// an affine that is finite and not singular.
func (g Grid) Check() error {
	n := int64(1)
	for a, s := range g.Shape {
		if s < 1 {
			return fmt.Errorf("shape %v: extent %d of axis %c must be at least 1", numbers.Extents(g.Shape[:]), s,
				"ijk"[a])
		}
		if int64(s) > MaxVoxels/n {
			return fmt.Errorf("shape %v: more than %d voxels", numbers.Extents(g.Shape[:]), int64(MaxVoxels))
		}
		n *= int64(s)
	}
	return g.Affine.Check()
}

// Len returns the number of voxels.
func (g Grid) Len() int { return g.Shape[0] * g.Shape[1] * g.Shape[2] }

// Index returns the element that holds voxel (i, j, k): i + Shape[0]*(j + Shape[1]*k).
func (g Grid) Index(i, j, k int) int { return i + g.Shape[0]*(j+g.Shape[1]*k) }

// Spacing returns the distance (mm) between neighbouring voxels along i, j and k.
func (g Grid) Spacing() [3]float64 { return g.Affine.Spacing() }

// Axcodes returns where i, j and k grow to, see [Affine.Axcodes].
func (g Grid) Axcodes() string { return g.Affine.Axcodes() }

// World returns the position (mm, RAS+) of a voxel index, which may be fractional. Voxel centres
// have whole indices.
func (g Grid) World(voxel [3]float64) [3]float64 { return g.Affine.Apply(voxel) }

// Voxel returns the fractional index at a position (mm, RAS+). It fails where the affine is
// singular.
func (g Grid) Voxel(world [3]float64) ([3]float64, error) {
	inv, err := g.Affine.Inverse()
	if err != nil {
		return [3]float64{}, err
	}
	return inv.Apply(world), nil
}

// Corners returns the world positions (mm) of the eight corners of the box that the voxels fill:
// indices -1/2 and extent - 1/2.
func (g Grid) Corners() [8][3]float64 {
	var c [8][3]float64
	for n := range c {
		var p [3]float64
		for a := range p {
			p[a] = -0.5 + float64((n>>a&1)*g.Shape[a])
		}
		c[n] = g.World(p)
	}
	return c
}

// Same reports whether both grids have the same shape and no voxel of one lies farther than
// tolerance (mm) from the same voxel of the other.
func (g Grid) Same(o Grid, tolerance float64) bool {
	if g.Shape != o.Shape {
		return false
	}
	// The distance is a convex function of the index, so it is greatest at a corner.
	a, b := g.Corners(), o.Corners()
	return slices.EqualFunc(a[:], b[:], func(p, q [3]float64) bool { return distance(p, q) <= tolerance })
}

func distance(p, q [3]float64) float64 {
	return math.Sqrt((p[0]-q[0])*(p[0]-q[0]) + (p[1]-q[1])*(p[1]-q[1]) + (p[2]-q[2])*(p[2]-q[2]))
}

// ofFile turns codes of a grid's own axes, such as "jik", into letters of the patient.
func (g Grid) ofFile(codes string) string {
	if !isFile(codes) {
		return codes
	}
	own := g.Axcodes()
	return string([]byte{own[codes[0]-'i'], own[codes[1]-'i'], own[codes[2]-'i']})
}

// isFile says whether codes are an order of the axes i, j and k.
func isFile(codes string) bool {
	return len(codes) == 3 && strings.Contains(codes, "i") && strings.Contains(codes, "j") &&
		strings.Contains(codes, "k")
}

// Oriented returns the grid of the same voxels with the axes permuted and turned to grow along
// codes, such as "RAS", or permuted alone as in "kji".
func (g Grid) Oriented(codes string) (Grid, error) {
	o, _, _, err := g.orient(codes)
	return o, err
}

// orient also says where the voxels come from: axis a of the result is axis from[a] of g, backwards
// if flip[a].
func (g Grid) orient(codes string) (o Grid, from [3]int, flip [3]bool, err error) {
	if err := g.Check(); err != nil {
		return o, from, flip, err
	}
	wantAxis, wantSign, err := parseAxcodes(g.ofFile(codes))
	if err != nil {
		return o, from, flip, err
	}
	axis, sign, err := g.Affine.orientation()
	if err != nil {
		return o, from, flip, err
	}
	o.Affine[3][3] = 1
	for w := range 3 {
		o.Affine[w][3] = g.Affine[w][3]
	}
	for a := range 3 {
		for b := range 3 {
			if axis[b] == wantAxis[a] {
				from[a], flip[a] = b, sign[b] != wantSign[a]
			}
		}
		o.Shape[a] = g.Shape[from[a]]
		for w := range 3 {
			step := g.Affine[w][from[a]]
			if flip[a] {
				o.Affine[w][3] += step * float64(o.Shape[a]-1)
				step = -step
			}
			o.Affine[w][a] = step + 0 // + 0 turns -0 into 0
		}
	}
	return o, from, flip, nil
}

// SameSpacing tells whether two voxel sizes are the same to what headers can tell, which round them
// to as few as three digits: a thousandth apart at most.
func SameSpacing(a, b float64) bool { return math.Abs(a-b) <= 1e-3*min(a, b) }

// Resampled returns the grid of the given spacing (mm; 0 keeps an axis as it is) that fills the
// same box. An axis that has it to what headers can tell (see [SameSpacing]) is kept as it is, too.
// Of others the extents are rounded to whole voxels and the centres of both boxes coincide, so that
// voxel o lies at (o - (n'-1)/2) * s'/s + (n-1)/2 of the original. There is no half-voxel shift.
func (g Grid) Resampled(spacing [3]float64) (Grid, error) {
	if err := g.Check(); err != nil {
		return Grid{}, err
	}
	o := g
	old := g.Spacing()
	for a := range 3 {
		s := spacing[a]
		if s == 0 {
			continue
		}
		if !(s > 0) || math.IsInf(s, 0) {
			return Grid{}, fmt.Errorf("spacing %v mm: must be positive", numbers.Extents(spacing[:]))
		}
		n := float64(g.Shape[a]) * old[a] / s
		if n > MaxVoxels {
			return Grid{}, fmt.Errorf("spacing %v mm: more than %d voxels", numbers.Extents(spacing[:]),
				int64(MaxVoxels))
		}
		o.Shape[a] = max(1, int(math.Round(n)))
		ratio := s / old[a]
		if SameSpacing(s, old[a]) && o.Shape[a] == g.Shape[a] {
			continue // the same to what a header can tell: keep the axis to the bit
		}
		shift := (float64(g.Shape[a]-1) - ratio*float64(o.Shape[a]-1)) / 2
		for w := range 3 {
			o.Affine[w][3] += g.Affine[w][a] * shift
			o.Affine[w][a] = g.Affine[w][a] * ratio
		}
	}
	return o, o.Check()
}

// Sized is the grid with voxels of other sizes (mm; 0 keeps an axis as it is), from the same first
// voxel on.
func (g Grid) Sized(sizes [3]float64) Grid {
	for a, own := range g.Spacing() {
		for w := range 3 {
			if sizes[a] > 0 {
				g.Affine[w][a] *= sizes[a] / own
			}
		}
	}
	return g
}

// Covers is the share of the box of a grid that another's box covers, along the axes of that grid.
func (g Grid) Covers(of Grid) (share float64, err error) {
	low, high := [3]float64{math.Inf(1), math.Inf(1), math.Inf(1)}, [3]float64{math.Inf(-1), math.Inf(-1), math.Inf(-1)}
	for _, corner := range g.Corners() {
		p, err := of.Voxel(corner)
		if err != nil {
			return 0, err
		}
		for axis, x := range p {
			low[axis], high[axis] = min(low[axis], x), max(high[axis], x)
		}
	}
	share = 1
	for axis, n := range of.Shape {
		share *= max(min(high[axis], float64(n)-0.5)-max(low[axis], -0.5), 0) / float64(n)
	}
	return share, nil
}

// Cropped returns the grid of size voxels whose first voxel is voxel origin of g. It may reach
// beyond g on every side.
func (g Grid) Cropped(origin, size [3]int) Grid {
	p := g.World([3]float64{float64(origin[0]), float64(origin[1]), float64(origin[2])})
	o := Grid{Shape: size, Affine: g.Affine}
	for w := range 3 {
		o.Affine[w][3] = p[w]
	}
	return o
}

// Straightened returns a grid without shear that covers g: axes at right angles, as near to g's as
// can be, and of the same spacing.
func (g Grid) Straightened() (Grid, error) {
	r, err := g.Affine.rotation()
	if err != nil {
		return Grid{}, err
	}
	back, err := r.Inverse()
	if err != nil {
		return Grid{}, err
	}
	corners := g.Corners()
	low, high := back.Apply(corners[0]), back.Apply(corners[0])
	for _, c := range corners {
		for a, x := range back.Apply(c) {
			low[a], high[a] = min(low[a], x), max(high[a], x)
		}
	}
	spacing := g.Spacing()
	o := Grid{Affine: r.Mul(Scaling(spacing))}
	var first [3]float64 // the first voxel's centre, along r's axes
	for a := range 3 {
		o.Shape[a] = max(1, int(math.Ceil((high[a]-low[a])/spacing[a]-1e-6)))
		first[a] = low[a] + spacing[a]/2
	}
	origin := r.Apply(first)
	for w := range 3 {
		o.Affine[w][3] = origin[w]
	}
	return o, o.Check()
}
