package volume

import (
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/ballot"
)

// This file: labels on another grid.
//
//   - A voxel gets the label that has the largest share of it. Up to twice the size of the source's
//     voxels, shares are what linear interpolation of each label's mask gives at its centre; larger
//     voxels take the average of the masks, over a box that is narrower than they are by one voxel
//     of the source, which the interpolation itself is wide.
//   - Ties go by the labels (package ballot), not by which voxel comes first. So labels do not move
//     against the image, the result does not depend on how voxels are stored, and the mirror image
//     of labels gets mirrored labels.
//   - A structure that is thin against the voxels has the largest share of few of them, or of none.
//     One that would lose a part of its volume takes the voxels that it has the largest shares of:
//     see thin.

// Resample returns the labels at another spacing (mm; 0 keeps an axis) over the same field of view,
// see [LabelMap.ResampleTo].
func (l *LabelMap) Resample(spacing [3]float64) (*LabelMap, error) {
	g, err := l.Resampled(spacing)
	if err != nil {
		return nil, fmt.Errorf("resampling: %w", err)
	}
	return l.ResampleTo(g)
}

// ResampleTo returns the labels at the voxels of g, each the label that has the largest share of
// the voxel. Thin structures keep about their volume. Voxels whose centres lie outside the field
// of view are background.
func (l *LabelMap) ResampleTo(g Grid) (*LabelMap, error) {
	m, err := between(l.Grid, g)
	if err != nil {
		return nil, fmt.Errorf("resampling labels: %w", err)
	}
	if m == identity && g.Shape == l.Shape {
		return l, nil
	}
	turned, err := l.Orient(g.Axcodes())
	if err != nil {
		return nil, fmt.Errorf("resampling labels: %w", err)
	}
	if m, err = between(turned.Grid, g); err != nil {
		return nil, fmt.Errorf("resampling labels: %w", err)
	}
	if origin, whole := shifted(m); whole {
		return &LabelMap{Grid: g, Labels: crop(turned.Labels, turned.Shape, origin, g.Shape, 0), Names: l.Names,
			Undrawn: l.Undrawn, Emptied: l.Emptied}, nil
	}
	s := newSampler(turned, g.Shape, m)
	labels := s.largest()
	s.thin(labels)
	return &LabelMap{Grid: g, Labels: labels, Names: l.Names, Undrawn: l.Undrawn, Emptied: l.Emptied}, nil
}

// shifted says whether m moves by whole voxels and does nothing else, and where it moves the first
// voxel.
func shifted(m Affine) (to [3]int, whole bool) {
	moved := identity
	for a := range 3 {
		moved[a][3] = math.Round(m[a][3])
		to[a] = int(moved[a][3])
	}
	return to, m == moved
}

// A sampler gives voxels the labels that have the largest shares of them.
type sampler struct {
	labels   []uint16
	from, to [3]int
	m        Affine     // from indices of the result to indices of labels
	width    [3]float64 // of boxes, in voxels of labels
	order    ballot.Order
	table    [3][]cover // of each index of the result; nil: axes are not parallel
}

func newSampler(l *LabelMap, to [3]int, m Affine) *sampler {
	return &sampler{labels: l.Labels, from: l.Shape, to: to, m: m, order: ballot.Rarest(l.Labels)}
}

// widen makes boxes as wide as voxels of the result less so many voxels of the source, and never
// narrower than one of these.
func (s *sampler) widen(less float64) {
	for a, row := range s.m[:3] {
		s.width[a] = max(1, math.Sqrt(row[0]*row[0]+row[1]*row[1]+row[2]*row[2])-less)
	}
	if !parallelAxes(s.m, s.to) {
		return
	}
	for a := range 3 {
		s.table[a] = make([]cover, s.to[a])
		for o := range s.table[a] {
			s.table[a][o].set(s.m[a][a]*float64(o)+s.m[a][3], s.width[a], s.from[a])
		}
	}
}

// A cover is the voxels of an axis that lie in an interval, and the share of the interval that each
// has: shares sum to 1. It has none where the interval's middle lies outside the field of view.
type cover struct {
	first  int
	shares []float64
}

// set finds the voxels of an axis, n of them, in the interval of the given width around index x.
func (c *cover) set(x, width float64, n int) {
	c.shares = c.shares[:0]
	if _, ok := inside(x, n); !ok {
		return
	}
	const rounding = 1e-6 // voxels
	low, high := max(x-width/2, -0.5), min(x+width/2, float64(n)-0.5)
	first := min(int(math.Floor(low+0.5+rounding)), n-1)
	last := max(int(math.Ceil(high-0.5-rounding)), first)
	c.first = first
	sum := 0.0
	for at := first; at <= min(last, n-1); at++ {
		part := min(high, float64(at)+0.5) - max(low, float64(at)-0.5)
		c.shares = append(c.shares, part)
		sum += part
	}
	for k := range c.shares {
		c.shares[k] /= sum
	}
}

// each calls visit for each voxel of the result that is not background alone, with the shares of
// labels in it. Planes are visited at the same time, the voxels of one in their order.
func (s *sampler) each(visit func(plane, voxel int, b *ballot.Ballot)) {
	parallel(s.to[2], func(k int) {
		var b ballot.Ballot
		var own [3]cover
		var runs runs
		for j := range s.to[1] {
			row := s.to[0] * (j + s.to[1]*k)
			if s.table[0] != nil {
				y, z := &s.table[1][j], &s.table[2][k]
				if len(y.shares) == 0 || len(z.shares) == 0 {
					continue
				}
				runs.find(s, y, z)
				for i := range s.to[0] {
					x := &s.table[0][i]
					if len(x.shares) == 0 {
						continue
					}
					if runs.end[x.first] < x.first+len(x.shares) {
						s.count(&b, x, y, z)
					} else if label := s.labels[runs.start+x.first]; label != 0 {
						b.Clear()
						b.Add(label, 1)
					} else {
						continue
					}
					visit(k, row+i, &b)
				}
				continue
			}
			for i := range s.to[0] {
				p := s.m.Apply([3]float64{float64(i), float64(j), float64(k)})
				there := true
				for a := range 3 {
					own[a].set(p[a], s.width[a], s.from[a])
					there = there && len(own[a].shares) > 0
				}
				if there {
					s.count(&b, &own[0], &own[1], &own[2])
					visit(k, row+i, &b)
				}
			}
		}
	})
}

// runs are the stretches along i on which some lines of labels hold one label alone: most voxels
// lie within such a stretch.
type runs struct {
	y, z  cover // of which lines
	start int   // of the first line
	// for each index, where its stretch ends; it is the index itself where the lines differ
	end []int
}

// find looks at the lines of two covers, unless it has done so just now.
func (r *runs) find(s *sampler, y, z *cover) {
	if r.end != nil && r.y.first == y.first && r.z.first == z.first && len(r.y.shares) == len(y.shares) &&
		len(r.z.shares) == len(z.shares) {
		return
	}
	r.y, r.z = *y, *z
	n := s.from[0]
	r.start = n * (y.first + s.from[1]*z.first)
	if r.end == nil {
		r.end = make([]int, n)
	}
	clear(r.end)
	first := s.labels[r.start:][:n]
	const differ = 1
	for k := range z.shares {
		for j := range y.shares {
			line := s.labels[r.start+n*(j+s.from[1]*k):][:n]
			if j+k == 0 || slices.Equal(line, first) {
				continue
			}
			for i, label := range line {
				if label != first[i] {
					r.end[i] = differ
				}
			}
		}
	}
	for i := n - 1; i >= 0; i-- {
		switch {
		case r.end[i] == differ:
			r.end[i] = i
		case i+1 < n && r.end[i+1] > i+1 && first[i+1] == first[i]:
			r.end[i] = r.end[i+1]
		default:
			r.end[i] = i + 1
		}
	}
}

// count finds the shares of labels in a box.
func (s *sampler) count(b *ballot.Ballot, x, y, z *cover) {
	b.Clear()
	start := x.first + s.from[0]*(y.first+s.from[1]*z.first)
	for kk, depth := range z.shares {
		for jj, height := range y.shares {
			line := s.labels[start+s.from[0]*(jj+s.from[1]*kk):][:len(x.shares)]
			for ii, width := range x.shares {
				b.Add(line[ii], width*height*depth)
			}
		}
	}
}

// largest gives each voxel the label that has the largest share of it.
func (s *sampler) largest() []uint16 {
	dst := make([]uint16, s.to[0]*s.to[1]*s.to[2])
	s.widen(1)
	s.each(func(_, voxel int, b *ballot.Ballot) { dst[voxel] = b.Winner(s.order) })
	return dst
}

const (
	// mostLost is the share of its volume that a structure may lose.
	mostLost = 0.1
	// steps is how finely shares are counted.
	steps = 1 << 8
)

// step is a share in whole steps.
func step(share float64) int { return min(int(share*steps+0.5), steps) }

// A histogram is how many voxels hold how large a share of a structure.
type histogram struct {
	volume float64 // sum of the shares: in voxels
	counts [steps + 1]uint32
}

// thin gives structures their volume back that have lost much of it: each gets the voxels that
// hold at least a certain share of it, the one for which their number is nearest to its volume,
// and never none.
func (s *sampler) thin(dst []uint16) {
	size, voxels := math.Abs(s.m.Det()), ballot.Rarest(dst)
	var suspects []uint16 // the field of view may lack what is lost
	for label := 1; label < len(voxels); label++ {
		if float64(voxels[label])*size < (1-mostLost)*float64(s.order[label]) {
			suspects = append(suspects, uint16(label))
		}
	}
	if suspects == nil {
		return
	}
	s.widen(0)
	least := map[uint16]int{} // step from which on a voxel is the structure's
	for label, h := range s.histograms(suspects) {
		if float64(voxels[label]) < (1-mostLost)*h.volume {
			least[label] = h.threshold()
		}
	}
	if len(least) == 0 {
		return
	}
	s.each(func(_, voxel int, b *ballot.Ballot) {
		for n, label := range b.Labels {
			if from, is := least[label]; !is || step(b.Shares[n]) < from {
				b.Shares[n] = 0
			}
		}
		if slices.Max(b.Shares) > 0 {
			dst[voxel] = b.Winner(s.order)
		}
	})
}

// histograms counts the shares of structures, of those that have any.
func (s *sampler) histograms(labels []uint16) map[uint16]*histogram {
	planes := make([]map[uint16]*histogram, s.to[2])
	s.each(func(plane, _ int, b *ballot.Ballot) {
		for n, label := range b.Labels {
			if _, is := slices.BinarySearch(labels, label); !is {
				continue
			}
			if planes[plane] == nil {
				planes[plane] = map[uint16]*histogram{}
			}
			if planes[plane][label] == nil {
				planes[plane][label] = &histogram{}
			}
			h := planes[plane][label]
			h.volume += b.Shares[n]
			h.counts[step(b.Shares[n])]++
		}
	})
	all := map[uint16]*histogram{}
	for _, plane := range planes { // in their order, so that sums are the same on every machine
		for label, h := range plane {
			if all[label] == nil {
				all[label] = &histogram{}
			}
			all[label].volume += h.volume
			for n, count := range h.counts {
				all[label].counts[n] += count
			}
		}
	}
	return all
}

// threshold is the step from which on there are as many voxels as the structure's volume, in ratio
// as near as can be.
func (h *histogram) threshold() int {
	best, nearest, count := 1, math.Inf(1), uint64(0)
	for n := steps; n > 0; n-- {
		if h.counts[n] == 0 {
			continue
		}
		count += uint64(h.counts[n])
		if away := math.Abs(math.Log(float64(count) / h.volume)); away < nearest {
			best, nearest = n, away
		}
	}
	return best
}
