package sliding

import (
	"math"
	"runtime"
	"slices"
	"sync"
)

// slab is the sums of weighted channels for the voxels that windows are still to come to: planes
// across one axis, which move through the scan. What they leave behind is emitted.
type slab struct {
	shape [3]int // of the prepared scan
	// the axes j and k: the planes follow one another along the first, and hold rows of i across
	// the other
	along, across     int
	classes, channels int // of the channels, the first are the probabilities of the classes
	depth             int // planes that are held
	base              int // the first of them, in the scan
	// planes that are kept below those that windows have yet to reach
	kept int
	// lines across the planes that are held, and the first of them
	lines, first int
	sums         []float32 // (channel, depth, lines, i)
	all          []float32 // the memory of the sums of the band with most lines
	to           []*emission
}

// newSlab chooses the axis along which planes are smaller: windows of the given size reach through
// fewer voxels at a time. Interpolation along it needs one plane more. It takes no memory yet.
func newSlab(shape, size [3]int, classes, channels int, interpolated [3]bool) *slab {
	s := &slab{shape: shape, along: 2, across: 1, classes: classes, channels: channels}
	depth := func(axis int) int { return min(size[axis], shape[axis]) }
	if depth(1)*shape[2] < depth(2)*shape[1] {
		s.along, s.across = 1, 2
	}
	if interpolated[s.along] {
		s.kept = 1
	}
	s.depth = min(depth(s.along)+s.kept, shape[s.along])
	s.lines = shape[s.across]
	return s
}

func (s *slab) plane() int { return s.shape[0] * s.lines }

// bytes is the memory that the sums take.
func (s *slab) bytes() int64 { return 4 * int64(s.channels) * int64(s.depth) * int64(s.plane()) }

// allocate takes the memory of the largest of bands.
func (s *slab) allocate(bands []band) {
	s.lines = slices.MaxFunc(bands, func(a, b band) int { return a.lines - b.lines }).lines
	s.all = make([]float32, s.channels*s.depth*s.plane())
}

// line is the sums of a channel along a line of voxels.
func (s *slab) line(channel, along, across int) []float32 {
	return s.sums[(channel*s.depth+along-s.base)*s.plane()+(across-s.first)*s.shape[0]:][:s.shape[0]]
}

// add adds values (channel, k, j, i) of a window of the given size, as far as it lies in
// the scan, times the weights along each axis, to the channels from the given one on.
func (s *slab) add(values []float32, first int, origin, size [3]int, weights *[3][]float32) {
	channels := len(values) / (size[0] * size[1] * size[2])
	var from, to [3]int // of the window, in the scan
	for axis := range 3 {
		from[axis], to[axis] = max(-origin[axis], 0), min(size[axis], s.shape[axis]-origin[axis])
	}
	from[s.across] = max(from[s.across], s.first-origin[s.across])
	to[s.across] = min(to[s.across], s.first+s.lines-origin[s.across])
	bell := weights[0][from[0]:to[0]]
	share(to[2]-from[2], func(lo, hi int) {
		for channel := range channels {
			for k := from[2] + lo; k < from[2]+hi; k++ {
				for j := from[1]; j < to[1]; j++ {
					w := weights[2][k] * weights[1][j]
					v := values[size[0]*(j+size[1]*(k+size[2]*channel))+from[0]:][:len(bell)]
					at := [3]int{origin[0] + from[0], origin[1] + j, origin[2] + k}
					sums := s.line(first+channel, at[s.along], at[s.across])[at[0]:][:len(bell)]
					for i, b := range bell {
						sums[i] += w * b * v[i]
					}
				}
			}
		}
	})
}

// settle emits what lies before the given plane, which no window comes to any more, and moves on to
// it.
func (s *slab) settle(to int) error {
	for _, e := range s.to {
		if err := e.emit(s, to); err != nil {
			return err
		}
	}
	base, stride := to-s.kept, s.depth*s.plane()
	for channel := range s.channels {
		of := s.sums[channel*stride:][:stride]
		kept := copy(of, of[min((base-s.base)*s.plane(), stride):])
		clear(of[kept:])
	}
	s.base = base
	return nil
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

// sumOfWeights is the sum of the weights of all windows along an axis of n voxels. The windows are
// all combinations of the starts along the three axes, so the sum at a voxel is the product of the
// sums along its axes.
func sumOfWeights(starts []int, bell []float32, n int) []float32 {
	exact := make([]float64, n)
	for _, start := range starts {
		for i, w := range bell {
			if at := start + i; at >= 0 && at < n {
				exact[at] += float64(w)
			}
		}
	}
	sums := make([]float32, n)
	for at, w := range exact {
		sums[at] = float32(w)
	}
	return sums
}
