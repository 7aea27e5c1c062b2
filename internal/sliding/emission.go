package sliding

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/voxsaw/voxsaw/volume"
)

// An emission takes what the sums say to the voxels of a grid: the class of each voxel, or the
// numbers themselves. Between prepared voxels it interpolates the mean over windows linearly.
type emission struct {
	*volume.Restoration
	// classes of the scan's voxels, (K, J, I); nil if they are not wanted
	classes []uint16
	// for each channel of the sums its mean, (K, J, I); nil for those that are not wanted
	maps [][]float32

	exact    [3]bool // nothing is interpolated along a prepared axis
	straight bool    // along prepared axis i, the scan's voxels are the prepared ones
	// taps along each prepared axis. Where values are interpolated, the taps' weights are divided
	// by the sum of the windows' weights, so that voxels in more windows do not count more. Where
	// nothing is interpolated, that division is left to scale: it is the same for all classes of a
	// voxel, so the highest class does not change.
	taps [3][]volume.Tap
	// for each voxel of the scan along an axis: the factor that is left to apply to maps
	scale [3][]float32
	next  int   // planes that have been emitted
	lines []int // across the planes, that are emitted
}

// newEmission takes the sums of the windows' weights along each prepared axis, and how many
// networks are averaged.
func newEmission(to *volume.Restoration, weights [3][]float32, members int) *emission {
	e := &emission{Restoration: to}
	for a, taps := range to.Taps {
		e.exact[a] = to.Exact(a)
		e.taps[a], e.scale[a] = slices.Clone(taps), make([]float32, len(taps))
		for n := range taps {
			t := &e.taps[a][n]
			if e.exact[a] {
				e.scale[a][n] = 1 / weights[a][t.Index[0]]
				continue
			}
			e.scale[a][n] = 1
			t.Weight[0] /= weights[a][t.Index[0]]
			t.Weight[1] /= weights[a][t.Index[1]]
		}
	}
	e.straight = e.exact[0]
	for n, t := range to.Taps[0] {
		e.straight = e.straight && t.Index[0] == n
	}
	for n := range e.scale[0] {
		e.scale[0][n] /= float32(members)
	}
	return e
}

// ready lists the planes of the scan across prepared axis a, of those that are still to come, which
// lie between prepared planes before the given one.
func (e *emission) ready(a, before int) (planes []int) {
	taps := e.taps[a]
	for ; e.next < len(taps); e.next++ {
		plane := e.next
		if taps[0].Index[0] > taps[len(taps)-1].Index[1] { // the scan's axis runs the other way
			plane = len(taps) - 1 - e.next
		}
		if taps[plane].Index[1] >= before {
			break
		}
		planes = append(planes, plane)
	}
	return planes
}

var errNotFinite = errors.New("the network's output is not a number: were the weights damaged in training?")

// emit writes all voxels of the scan that lie between planes of the slab before the given one.
func (e *emission) emit(s *slab, before int) error {
	planes := e.ready(s.along, before)
	lines := len(e.lines)
	var failed atomic.Bool
	share(len(planes)*lines, func(lo, hi int) {
		row := newRow(e, s)
		for n := lo; n < hi; n++ {
			if !row.emit(planes[n/lines], e.lines[n%lines]) {
				failed.Store(true)
				return
			}
		}
	})
	if failed.Load() {
		return errNotFinite
	}
	return nil
}

// A row is the memory of one goroutine that emits lines of voxels along prepared axis i.
type row struct {
	*emission
	slab  *slab
	line  []float32 // of prepared voxels
	value []float32 // of voxels of the scan
	best  []float32
	class []uint16
}

func newRow(e *emission, s *slab) *row {
	n := len(e.taps[0])
	return &row{e, s, make([]float32, s.shape[0]), make([]float32, n), make([]float32, n), make([]uint16, n)}
}

// emit writes one line of voxels: number plane of the scan along the slab's planes, number across
// across them. It returns false where the sums are no numbers.
func (r *row) emit(plane, across int) bool {
	strides := [3]int{1, r.Scan.Shape[0], r.Scan.Shape[0] * r.Scan.Shape[1]}
	first, step := plane*strides[r.Axis[r.slab.along]]+across*strides[r.Axis[r.slab.across]], strides[r.Axis[0]]
	first += r.firstVoxel()
	scale := r.scale[r.slab.along][plane] * r.scale[r.slab.across][across]
	clear(r.best)
	for channel := range r.slab.channels {
		decides := r.classes != nil && channel < r.slab.classes
		wanted := channel < len(r.maps) && r.maps[channel] != nil
		if !decides && !wanted {
			continue
		}
		values := r.interpolate(channel, plane, across)
		if decides {
			for n, x := range values {
				if x > r.best[n] { // the first of equals stays
					r.best[n], r.class[n] = x, uint16(channel)
				} else if x != x {
					return false
				}
			}
		}
		if wanted {
			for n, x := range values {
				r.maps[channel][first+n*step] = x * scale * r.scale[0][n]
			}
		}
	}
	if r.classes == nil {
		return true
	}
	for n, class := range r.class {
		if !(r.best[n] > 0) { // probabilities and weights are positive
			return false
		}
		r.classes[first+n*step] = class
	}
	return true
}

// firstVoxel is where the part of the scan that was prepared begins.
func (e *emission) firstVoxel() int { return e.Scan.Index(e.Origin[0], e.Origin[1], e.Origin[2]) }

// interpolate gives the values of a channel along a line of the scan's voxels.
func (r *row) interpolate(channel, plane, across int) []float32 {
	line := r.blend(channel, r.taps[r.slab.along][plane], r.taps[r.slab.across][across])
	if r.straight {
		return line[:len(r.value)]
	}
	if r.exact[0] {
		for n, t := range r.taps[0] {
			r.value[n] = line[t.Index[0]]
		}
		return r.value
	}
	for n, t := range r.taps[0] {
		r.value[n] = t.Weight[0]*line[t.Index[0]] + t.Weight[1]*line[t.Index[1]]
	}
	return r.value
}

// blend gives the prepared line of a channel between the four that a point lies between, across the
// planes and along them.
func (r *row) blend(channel int, p, c volume.Tap) []float32 {
	if p.Weight == [2]float32{1} && c.Weight == [2]float32{1} {
		return r.slab.line(channel, p.Index[0], c.Index[0])
	}
	written := false
	for a, wa := range p.Weight {
		for b, wb := range c.Weight {
			w := wa * wb
			if w == 0 {
				continue
			}
			sums := r.slab.line(channel, p.Index[a], c.Index[b])
			if !written {
				for i, x := range sums {
					r.line[i] = w * x
				}
				written = true
				continue
			}
			for i, x := range sums {
				r.line[i] += w * x
			}
		}
	}
	return r.line
}
