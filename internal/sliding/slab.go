package sliding

import (
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// slab is the sums of weighted class probabilities for the voxels that windows are still to come
// to: planes across one axis, which move through the scan. What they leave behind is decided.
type slab struct {
	shape [3]int // of the scan
	// the axes j and k: the planes follow one another along the first, and hold rows of i across
	// the other
	along, across int
	classes       int
	depth         int       // planes that are held
	base          int       // the first of them, in the scan
	sums          []float32 // (class, depth, across, i)
}

// newSlab chooses the axis along which planes are smaller: windows of the given size reach through
// fewer voxels at a time. It takes no memory yet.
func newSlab(shape, size [3]int, classes int) *slab {
	s := &slab{shape: shape, along: 2, across: 1, classes: classes}
	depth := func(axis int) int { return min(size[axis], shape[axis]) }
	if depth(1)*shape[2] < depth(2)*shape[1] {
		s.along, s.across = 1, 2
	}
	s.depth = depth(s.along)
	return s
}

func (s *slab) plane() int { return s.shape[0] * s.shape[s.across] }

// bytes is the memory that the sums take.
func (s *slab) bytes() int64 {
	return 4 * int64(s.classes) * int64(s.depth) * int64(s.plane())
}

func (s *slab) allocate() { s.sums = make([]float32, s.classes*s.depth*s.plane()) }

// add adds the probabilities (class, k, j, i) of a window of the given size, as far as it lies in
// the scan, times the weights along each axis.
func (s *slab) add(probability []float32, origin, size [3]int, weights *[3][]float32) {
	var from, to [3]int // of the window, in the scan
	for axis := range 3 {
		from[axis], to[axis] = max(-origin[axis], 0), min(size[axis], s.shape[axis]-origin[axis])
	}
	bell := weights[0][from[0]:to[0]]
	share(to[2]-from[2], func(lo, hi int) {
		for class := range s.classes {
			for k := from[2] + lo; k < from[2]+hi; k++ {
				for j := from[1]; j < to[1]; j++ {
					w := weights[2][k] * weights[1][j]
					p := probability[size[0]*(j+size[1]*(k+size[2]*class))+from[0]:][:len(bell)]
					at := [3]int{origin[0] + from[0], origin[1] + j, origin[2] + k}
					sums := s.sums[(class*s.depth+at[s.along]-s.base)*s.plane()+at[s.across]*s.shape[0]+at[0]:][:len(bell)]
					for i, b := range bell {
						sums[i] += w * b * p[i]
					}
				}
			}
		}
	})
}

var errNotFinite = errors.New("the network's output is not a number: were the weights damaged in training?")

// settle decides the planes before the given one, which no window comes to any more, and moves on
// to it: voxels get the class with the highest sum, the lowest of equals.
func (s *slab) settle(classes []uint16, to int) error {
	var failed atomic.Bool
	stride := s.depth * s.plane()
	share((to-s.base)*s.shape[s.across], func(lo, hi int) {
		for row := lo; row < hi; row++ {
			var at [3]int
			at[s.along], at[s.across] = s.base+row/s.shape[s.across], row%s.shape[s.across]
			sums := s.sums[row*s.shape[0]:]
			if !decide(classes[s.shape[0]*(at[1]+s.shape[1]*at[2]):][:s.shape[0]], sums, s.classes, stride) {
				failed.Store(true)
				return
			}
		}
	})
	if failed.Load() {
		return errNotFinite
	}
	for class := range s.classes {
		of := s.sums[class*stride:][:stride]
		kept := copy(of, of[min((to-s.base)*s.plane(), stride):])
		clear(of[kept:])
	}
	s.base = to
	return nil
}

// decide writes the class of each voxel of a row, given its sums and how far those of the next
// class are. It returns false where they are no numbers.
func decide(classes []uint16, sums []float32, n, stride int) bool {
	for v := range classes {
		best, of := sums[v], 0
		for class := 1; class < n; class++ {
			if sum := sums[class*stride+v]; sum > best {
				best, of = sum, class
			}
		}
		if !(best > 0) { // probabilities and weights are positive; a NaN never is
			return false
		}
		classes[v] = uint16(of)
	}
	return true
}

// share runs do on all cores for parts of [0, n).
func share(n int, do func(lo, hi int)) {
	parts := min(runtime.GOMAXPROCS(0), n)
	var all sync.WaitGroup
	for p := range parts {
		all.Go(func() { do(p*n/parts, (p+1)*n/parts) })
	}
	all.Wait()
}

// gaussian is a bell over n voxels, 1 at its centre, with a standard deviation of n/8.
func gaussian(n int) []float32 {
	w := make([]float32, n)
	for i := range w {
		d := (float64(i) - float64(n-1)/2) / (float64(n) / 8)
		w[i] = float32(math.Exp(-d * d / 2))
	}
	return w
}
