package nifti

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sync/errgroup"

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
	values := newLabelValues()
	defer values.release()
	convert := converter[uint16](h)
	err = eachPiece(h, index, func(_ int64, src []byte) bool { // no voxel is kept
		var some [1 << 14]uint16
		for len(src) > 0 {
			part := some[:min(len(some), len(src)/h.size)]
			if !convert(part, src[:len(part)*h.size]) || !values.add(part) {
				return false
			}
			src = src[len(part)*h.size:]
		}
		return true
	})
	if errors.Is(err, errRange) {
		return false, nil
	}
	// or numbers so near to 0 that a label would be taken for it
	if err == nil && values.background() {
		v, err := ReadWith(path, o)
		return err == nil && isZero(v), err
	}
	return values.labels(), err
}

// isZero says whether every voxel is 0, to the bit.
func isZero(v *volume.Volume) bool {
	return !slices.ContainsFunc(v.Int16, func(x int16) bool { return x != 0 }) &&
		!slices.ContainsFunc(v.Float32, func(x float32) bool { return x != 0 })
}

// VolumeMayBeLabels is [MayBeLabels] of a volume that has been read.
func VolumeMayBeLabels(v *volume.Volume) bool {
	const begin, block = 1 << 16, 1 << 20 // voxels
	values := newLabelValues()
	defer values.release()
	var next atomic.Int64
	// Of a CT, the first voxels tell. The rest is for all cores.
	if !values.addVoxels(v, 0, min(begin, v.Len())) {
		return false
	}
	next.Store(begin)
	var g errgroup.Group
	for range min(runtime.GOMAXPROCS(0), (v.Len()-begin+block-1)/block) {
		g.Go(func() error {
			for from := int(next.Add(block)) - block; from < v.Len(); from = int(next.Add(block)) - block {
				if !values.addVoxels(v, from, min(from+block, v.Len())) {
					next.Store(int64(v.Len()))
					return errRange
				}
			}
			return nil
		})
	}
	if g.Wait() != nil {
		return false
	}
	if values.background() {
		return isZero(v)
	}
	return values.labels()
}

// addVoxels adds voxels of a volume, from one to below another.
func (l *labelValues) addVoxels(v *volume.Volume, from, to int) bool {
	t := newTally()
	defer t.release()
	if v.Int16 != nil {
		return count(t, v.Int16[from:to]) && l.merge(t)
	}
	var piece [1 << 12]uint16
	for ; from < to; from += len(piece) {
		part := piece[:min(len(piece), to-from)]
		for n := range part {
			label, ok := fit[uint16](float64(v.Float32[from+n]))
			if !ok {
				return false
			}
			part[n] = label
		}
		count(t, part)
	}
	return l.merge(t)
}

const (
	fewLabels     = 128 // different values
	handfulLabels = 8   // so few that no scan has them, whatever their neighbours are
)

// labelValues is what tells labels from a scan. Pieces may be added at the same time.
type labelValues struct {
	mutex sync.Mutex
	*tally
}

func newLabelValues() *labelValues { return &labelValues{tally: newTally()} }

// tally is what tells labels from a scan, of some voxels.
type tally struct {
	seen        [1 << 16]bool // values
	end         int           // all that were seen are below
	above, like int           // voxels above 0; of these, those like the one before
}

// tallies are empty: of a hundred thousand small files, each would be garbage.
var tallies = sync.Pool{New: func() any { return new(tally) }}

func newTally() *tally { return tallies.Get().(*tally) }

// release gives a tally back that is not used any more.
func (t *tally) release() {
	clear(t.seen[:t.end])
	t.end, t.above, t.like = 0, 0, 0
	tallies.Put(t)
}

// add counts a piece, and reports whether all that was added may still be labels.
func (l *labelValues) add(piece []uint16) bool {
	t := newTally()
	defer t.release()
	return count(t, piece) && l.merge(t)
}

// merge adds voxels that were counted, and reports whether all that was added may still be labels.
func (l *labelValues) merge(t *tally) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for value, seen := range t.seen[:t.end] {
		l.seen[value] = l.seen[value] || seen
	}
	l.end = max(l.end, t.end)
	l.above, l.like = l.above+t.above, l.like+t.like
	return l.values() <= fewLabels
}

// count counts voxels, and reports whether none is below 0. Most voxels of labels, and the air of a
// scan, are like the one before: four of them at a time.
func count[T int16 | uint16](t *tally, piece []T) bool {
	var before, all T
	above, like, seen := 0, 0, &t.seen
	if len(piece) > 0 && piece[0] == 0 {
		seen[0] = true
	}
	run := uint64(0) // four voxels like the one before
	for n := 0; n < len(piece); {
		if n+4 <= len(piece) && *(*uint64)(unsafe.Pointer(&piece[n])) == run {
			if before > 0 {
				above, like = above+4, like+4
			}
			n += 4
			continue
		}
		for end := min(n+4, len(piece)); n < end; n++ {
			x := piece[n]
			seen[uint16(x)] = true
			positive, same := 0, 0
			if x > 0 {
				positive = 1
			}
			if x == before {
				same = 1
			}
			above += positive
			like += positive & same
			before = x
			all |= x
		}
		run = uint64(uint16(before)) * 0x0001_0001_0001_0001
	}
	t.end = max(t.end, int(uint16(all))+1)
	t.above, t.like = t.above+above, t.like+like
	return all >= 0 // one sign bit is enough
}

// values returns how many different ones were seen.
func (t *tally) values() int {
	n := 0
	for _, seen := range t.seen[:t.end] {
		if seen {
			n++
		}
	}
	return n
}

// background reports whether all that was added rounds to 0, as the values of a PET in the unit of
// another do.
func (l *labelValues) background() bool { return l.seen[0] && l.end == 1 }

// labels reports whether all that was added looks like labels.
func (l *labelValues) labels() bool {
	return l.seen[0] && (l.values() <= handfulLabels || 2*l.like >= l.above)
}
