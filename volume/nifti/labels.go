package nifti

import (
	"errors"
	"sync/atomic"

	"github.com/voxsaw/voxsaw/volume"
)

// MayBeLabels reports whether a file holds what label maps hold and scans do not: few different
// whole numbers, 0 among them and none below, and more than a handful only where most voxels are
// like their neighbours. Reading stops at the first voxels that tell otherwise: in a CT, these are
// near the beginning.
func MayBeLabels(path string, o Options) (bool, error) {
	h, index, err := prepare(path, o)
	if err != nil {
		return false, err
	}
	var values labelValues
	convert := converter[uint16](h)
	_, err = readConverted(h, index, o.MaxBytes, func(dst []uint16, src []byte) bool { return convert(dst, src) && values.add(dst) })
	if errors.Is(err, errRange) {
		return false, nil
	}
	return values.labels(), err
}

// VolumeMayBeLabels is [MayBeLabels] of a volume that has been read.
func VolumeMayBeLabels(v *volume.Volume) bool {
	var values labelValues
	var piece [1 << 12]uint16
	for from := 0; from < v.Len(); from += len(piece) {
		part := piece[:min(len(piece), v.Len()-from)]
		for n := range part {
			if v.Int16 != nil {
				if v.Int16[from+n] < 0 {
					return false
				}
				part[n] = uint16(v.Int16[from+n])
				continue
			}
			label, ok := fit[uint16](float64(v.Float32[from+n]))
			if !ok {
				return false
			}
			part[n] = label
		}
		if !values.add(part) {
			return false
		}
	}
	return values.labels()
}

const (
	fewLabels     = 128 // different values
	handfulLabels = 8   // so few that no scan has them, whatever their neighbours are
)

// labelValues counts what tells labels from a scan. Pieces may be added side by side.
type labelValues struct {
	seen [1 << 16]atomic.Bool
	// different ones; voxels above 0; of these, those like the one before
	values, above, like atomic.Int64
}

// add reports whether all that was added may still be labels.
func (l *labelValues) add(piece []uint16) bool {
	var before uint16
	var positive, same int64
	for _, x := range piece {
		if x > 0 {
			positive++
			if x == before {
				same++
			}
		}
		before = x
		if !l.seen[x].Load() && !l.seen[x].Swap(true) && l.values.Add(1) > fewLabels {
			return false
		}
	}
	l.above.Add(positive)
	l.like.Add(same)
	return true
}

// labels reports whether all that was added looks like labels.
func (l *labelValues) labels() bool {
	return l.seen[0].Load() && (l.values.Load() <= handfulLabels || 2*l.like.Load() >= l.above.Load())
}
