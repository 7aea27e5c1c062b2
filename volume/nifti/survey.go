package nifti

import (
	"errors"
	"sync"

	"github.com/voxsaw/voxsaw/volume"
)

// A Survey says what the voxels of a volume are. Only a few of them are in memory at a time.
type Survey struct {
	volume.Statistics
	// Counts says how many voxels have each value, from 0 to the largest, where all values are
	// whole numbers from 0 to 32767; nil otherwise.
	Counts []int
	Labels bool // whether they may be labels: see [VolumeMayBeLabels]
}

// Survey looks at a volume of the file whose header this is, as [Header.Read] reads it but for
// shear.
func (h *Header) Survey(o Options) (Survey, error) {
	index, err := h.prepare(o)
	if err != nil {
		return Survey{}, err
	}
	err = errRange
	var s *surveyor
	if h.wholeNumbers() {
		s = newSurveyor(h.Len())
		defer s.values.release()
		err = eachBlock(h, index, func(block int, voxels []int16) {
			s.tally.AddInt16(block, voxels)
			s.look(&volume.Volume{Int16: voxels, Grid: line(len(voxels))})
			s.count(voxels)
		})
	}
	if errors.Is(err, errRange) {
		s = newSurveyor(h.Len())
		defer s.values.release()
		s.notWhole = true
		err = eachBlock(h, index, func(block int, voxels []float32) {
			s.tally.AddFloat32(block, voxels)
			s.look(&volume.Volume{Float32: voxels, Grid: line(len(voxels))})
		})
	}
	if err != nil {
		return Survey{}, err
	}
	o.noteBehind(h)
	found := Survey{Statistics: s.tally.Statistics(), Labels: !s.noLabels && s.values.labels()}
	if !s.notWhole {
		found.Counts = s.counts
	}
	return found, nil
}

// line is the grid of voxels of which nothing else matters.
func line(voxels int) volume.Grid { return volume.Grid{Shape: [3]int{voxels, 1, 1}} }

// surveyor takes blocks of voxels, from several goroutines.
type surveyor struct {
	tally    *volume.Tally
	values   *labelValues
	mutex    sync.Mutex
	noLabels bool
	counts   []int
	notWhole bool
}

func newSurveyor(voxels int) *surveyor {
	return &surveyor{tally: volume.NewTally(voxels), values: newLabelValues()}
}

// look looks whether voxels may be labels.
func (s *surveyor) look(v *volume.Volume) {
	s.mutex.Lock()
	no := s.noLabels
	s.mutex.Unlock()
	if !no && !s.values.addVoxels(v, 0, v.Len()) {
		s.mutex.Lock()
		s.noLabels = true
		s.mutex.Unlock()
	}
}

// count counts the voxels of each value.
func (s *surveyor) count(voxels []int16) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, x := range voxels {
		if s.notWhole = s.notWhole || x < 0; s.notWhole {
			return
		}
		if grow := int(x) + 1 - len(s.counts); grow > 0 {
			s.counts = append(s.counts, make([]int, grow)...)
		}
		s.counts[x]++
	}
}

// eachBlock calls take with each block of a volume's voxels, of volume.TallyBlock but the last, in
// any order and on several goroutines.
func eachBlock[T voxel](h *Header, index int, take func(block int, voxels []T)) error {
	const block = volume.TallyBlock
	convert := converter[T](h)
	spare := sync.Pool{New: func() any { s := make([]T, block); return &s }}
	return eachPiece(h, index, func(first int64, src []byte) bool {
		for block := int(first / block); len(src) > 0; block++ {
			whole := spare.Get().(*[]T)
			n := min(len(src)/h.size, len(*whole))
			if !convert((*whole)[:n], src[:n*h.size]) {
				return false
			}
			take(block, (*whole)[:n])
			spare.Put(whole)
			src = src[n*h.size:]
		}
		return true
	})
}
