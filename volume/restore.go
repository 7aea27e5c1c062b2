package volume

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// This file: the way back, from the grid that a scan was prepared to onto the scan's own voxels.

// A Restoration says where each voxel of a scan takes its value from on the grid that the scan was
// prepared to. A preparation turns and scales axes and does nothing else, so a table for each axis
// says it all: values are interpolated linearly, axis by axis.
//
// Voxel centres lie where the affines put them, as everywhere in this package. A voxel of the scan
// beyond the outermost prepared centre takes that one's value: extents are rounded to whole voxels,
// so the prepared box may end up to half a prepared voxel before the scan's.
//
// Where a box of the scan was prepared, the rest of it takes no value from anywhere: it is
// background.
type Restoration struct {
	Prepared Grid
	Bounds   // of the scan that was prepared
	// Axis[a] is the axis of the scan that the prepared axis a lies along.
	Axis [3]int
	// Taps[a] holds, for each voxel of the box along Axis[a], where it lies on the prepared axis
	// a.
	Taps [3][]Tap
}

// A Tap is the two voxels of an axis that a point lies between, and how much each of them counts.
// Weights sum to 1; a point at a voxel's centre has that voxel twice, and weights 1 and 0.
type Tap struct {
	Index  [2]int // ascending
	Weight [2]float32
}

// Restoration returns the way back from the grid that a box of a scan is prepared to.
func (p Preparation) Restoration(bounds Bounds) (*Restoration, error) {
	if err := bounds.Check(); err != nil {
		return nil, err
	}
	prepared, err := p.Grid(bounds.Grid())
	if err != nil {
		return nil, err
	}
	return restoration(prepared, bounds)
}

// Stay is the restoration that leaves everything where it is: results lie on the prepared grid.
func Stay(prepared Grid) (*Restoration, error) { return restoration(prepared, prepared.Whole()) }

func restoration(prepared Grid, bounds Bounds) (*Restoration, error) {
	grid := bounds.Grid()
	m, err := between(prepared, grid)
	if err != nil {
		return nil, fmt.Errorf("the way back from the prepared grid: %w", err)
	}
	r := &Restoration{Prepared: prepared, Bounds: bounds}
	var taken [3]bool
	for a := range 3 {
		for b := range 3 {
			if math.Abs(m[a][b]) > math.Abs(m[a][r.Axis[a]]) {
				r.Axis[a] = b
			}
		}
		b := r.Axis[a]
		if taken[b] {
			return nil, errors.New("the way back from the prepared grid: its axes are not those of the scan")
		}
		taken[b] = true
		r.Taps[a] = make([]Tap, grid.Shape[b])
		for n := range r.Taps[a] {
			r.Taps[a][n] = linearTap(m[a][b]*float64(n)+m[a][3], prepared.Shape[a])
		}
	}
	return r, nil
}

// linearTap is the tap at index x of n voxels; beyond the ends it is the outermost voxel.
func linearTap(x float64, n int) Tap {
	const whole = 1e-6 // of a voxel: what headers round off
	x = min(max(x, 0), float64(n-1))
	if nearest := math.Round(x); math.Abs(x-nearest) < whole {
		return Tap{Index: [2]int{int(nearest), int(nearest)}, Weight: [2]float32{1, 0}}
	}
	low := int(x)
	f := x - float64(low)
	return Tap{Index: [2]int{low, low + 1}, Weight: [2]float32{float32(1 - f), float32(f)}}
}

// Exact reports whether every voxel of the box takes its value from one prepared voxel along
// prepared axis a, so that nothing is interpolated.
func (r *Restoration) Exact(a int) bool {
	return !slices.ContainsFunc(r.Taps[a], func(t Tap) bool { return t.Weight[1] != 0 })
}
