package nifti

import (
	"errors"
	"sync/atomic"
)

// MayBeLabels says whether a file holds what label maps hold and scans do not: few different whole numbers, 0 among them and none below, and more than a handful
// only where most voxels are like their neighbours. Reading stops at the first voxels that are otherwise: of a CT, these are near the beginning.
func MayBeLabels(path string, o Options) (bool, error) {
	const (
		few     = 128 // different values
		handful = 8   // of which no scan is made, whatever its neighbours
	)
	h, index, err := prepare(path, o)
	if err != nil {
		return false, err
	}
	var seen [1 << 16]atomic.Bool
	var values, above, like atomic.Int64 // different ones; voxels above 0; of these, those like the one before
	convert := converter[uint16](h)
	_, err = readConverted(h, index, o.MaxBytes, func(dst []uint16, src []byte) bool {
		if !convert(dst, src) {
			return false
		}
		var before uint16
		var positive, same int64
		for _, x := range dst {
			if x > 0 {
				positive++
				if x == before {
					same++
				}
			}
			before = x
			if !seen[x].Load() && !seen[x].Swap(true) && values.Add(1) > few {
				return false
			}
		}
		above.Add(positive)
		like.Add(same)
		return true
	})
	if errors.Is(err, errRange) {
		return false, nil
	}
	return seen[0].Load() && (values.Load() <= handful || 2*like.Load() >= above.Load()), err
}
