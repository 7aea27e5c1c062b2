// Package fingerprint looks at a set of scans before anything is planned: the box of the body in
// each, what values lie under the labels, how large each structure is.
//
// Start at [OfScans], which reads scans, and at [OfPrepared], which reads cases that are prepared.
// Both give a [planning.Fingerprint], by which package planning decides. [Look] is what nnU-Net's
// fingerprint has of a scan: package nnplan makes plans.json of it.
package fingerprint

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/volume"
)

// A Look is what is seen of a scan.
type Look struct {
	Nonzero volume.Bounds // the box of what is not zero in any channel
	// Values are those of the labelled voxels in that box, of each channel; empty without labels
	Values []Values
	Counts map[uint16]int // voxels of each label but 0
}

// LookAt looks at the channels of a scan and at its labels, all on the same voxels; labels may be
// nil. A scan of zeros is an error.
func LookAt(channels []*volume.Volume, labels *volume.LabelMap) (Look, error) {
	look := Look{Values: make([]Values, len(channels)), Counts: map[uint16]int{}}
	if labels != nil && labels.Shape != channels[0].Shape {
		return look, fmt.Errorf("its labels have %s voxels, the scan %s", numbers.Extents(labels.Shape[:]),
			numbers.Extents(channels[0].Shape[:]))
	}
	look.Nonzero = channels[0].Nonzero(channels[1:]...)
	if look.Nonzero.IsWhole() && !slices.ContainsFunc(channels, hasSignal) {
		return look, errors.New("all of its voxels are zero")
	}
	b := look.Nonzero.Box
	if labels == nil {
		return look, nil
	}
	under := make([][]float32, len(channels))
	last := [3]int{b.Origin[0] + b.Size[0], b.Origin[1] + b.Size[1], b.Origin[2] + b.Size[2]}
	for k := b.Origin[2]; k < last[2]; k++ {
		for j := b.Origin[1]; j < last[1]; j++ {
			row := labels.Index(0, j, k)
			for at := row + b.Origin[0]; at < row+last[0]; at++ {
				if labels.Labels[at] == 0 {
					continue
				}
				look.Counts[labels.Labels[at]]++
				for n, v := range channels {
					under[n] = append(under[n], value(v, at))
				}
			}
		}
	}
	for n, values := range under {
		look.Values[n] = valuesOf(values)
	}
	return look, nil
}

// hasSignal reports whether a voxel is not zero.
func hasSignal(v *volume.Volume) bool {
	return slices.ContainsFunc(v.Int16, func(x int16) bool { return x != 0 }) ||
		slices.ContainsFunc(v.Float32, func(x float32) bool { return x != 0 })
}

// value is a voxel's.
func value(v *volume.Volume, at int) float32 {
	if v.Float32 != nil {
		return v.Float32[at]
	}
	return float32(v.Int16[at])
}

// Values are those of some voxels of a scan, in order, and what is to be known of all of them.
type Values struct {
	mean, square float64 // of the values, and of their squares
	least, most  float32
	some         []float32 // evenly spaced in their order
}

// How many values of a case, and of all together, are kept at most.
const (
	keptOfCase = 1 << 19
	keptOfAll  = 1 << 23
)

// valuesOf sorts the values, those that are no number left out.
func valuesOf(values []float32) (v Values) {
	values = slices.DeleteFunc(values, func(x float32) bool { return x-x != 0 })
	if len(values) == 0 {
		return v
	}
	slices.Sort(values)
	for _, x := range values {
		v.mean += float64(x)
		v.square += float64(x) * float64(x)
	}
	n := float64(len(values))
	v.mean, v.square, v.least, v.most = v.mean/n, v.square/n, values[0], values[len(values)-1]
	v.some = spaced(values, keptOfCase)
	return v
}

// spaced are at most so many of the values, evenly spaced in their order.
func spaced(values []float32, most int) []float32 {
	if len(values) <= most {
		return values
	}
	count := min(len(values), most)
	some := make([]float32, count)
	for k := range some {
		some[k] = values[(2*k+1)*len(values)/(2*count)]
	}
	return some
}

// Foreground is the values under the labels of a channel. nnU-Net draws as many values of each
// case, with replacement; here each case counts alike, and nothing is drawn.
type Foreground struct {
	cases       []Values
	kept        int // values of all cases
	most, limit int // of them, and of a case; 0: as many as usual
}

// Add adds those of a case. A case without any does not count.
func (f *Foreground) Add(v Values) {
	if len(v.some) == 0 {
		return
	}
	f.most, f.limit = cmp.Or(f.most, keptOfAll), cmp.Or(f.limit, keptOfCase)
	v.some = spaced(v.some, f.limit)
	f.cases, f.kept = append(f.cases, v), f.kept+len(v.some)
	for f.kept > f.most && f.limit > 1 {
		f.limit, f.kept = f.limit/2, 0
		for n, c := range f.cases {
			f.cases[n].some = spaced(c.some, f.limit)
			f.kept += len(f.cases[n].some)
		}
	}
}

// Intensities are the statistics of all cases. Without a labelled voxel there are none.
func (f *Foreground) Intensities() (i planning.Intensities, err error) {
	if len(f.cases) == 0 {
		return i, errors.New("no voxel of any scan is labelled")
	}
	type weighted struct {
		value  float32
		weight float64
	}
	var all []weighted
	mean, square := 0.0, 0.0
	i.Min, i.Max = math.Inf(1), math.Inf(-1)
	for _, c := range f.cases {
		mean, square = mean+c.mean, square+c.square
		i.Min, i.Max = min(i.Min, float64(c.least)), max(i.Max, float64(c.most))
		for _, x := range c.some {
			all = append(all, weighted{x, 1 / float64(len(c.some))})
		}
	}
	slices.SortFunc(all, func(a, b weighted) int { return cmp.Compare(a.value, b.value) })
	n := float64(len(f.cases))
	percentile := func(p float64) float64 {
		wanted, sum := p/100*n, 0.0
		for _, x := range all {
			if sum += x.weight; sum >= wanted {
				return float64(x.value)
			}
		}
		return i.Max
	}
	i.Mean = mean / n
	i.SD = math.Sqrt(max(square/n-i.Mean*i.Mean, 0))
	i.Median, i.Low, i.High = percentile(50), percentile(0.5), percentile(99.5)
	return i, nil
}

// Share is the share of the values strictly between two others, each case counted alike.
func (f *Foreground) Share(low, high float64) float64 {
	sum := 0.0
	for _, c := range f.cases {
		within := 0
		for _, x := range c.some {
			if float64(x) > low && float64(x) < high {
				within++
			}
		}
		sum += float64(within) / float64(len(c.some))
	}
	return sum / max(float64(len(f.cases)), 1)
}
