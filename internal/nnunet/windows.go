package nnunet

import (
	"context"
	"math"

	"github.com/voxsaw/voxsaw/internal/half"
)

// starts are where windows begin along an axis: evenly spread, half a window apart at most.
func starts(n, patch int) []int {
	count := int(math.Ceil(float64(n-patch)/(float64(patch)*0.5))) + 1
	at := make([]int, count)
	for i := range at {
		if count > 1 {
			at[i] = int(math.RoundToEven(float64(n-patch) / float64(count-1) * float64(i)))
		}
	}
	return at
}

// gaussian is the weight of each voxel of a window: of a standard deviation of an eighth of its
// size, cut at four of them, 10 at its centre, in float16. Zeros, of what was cut and what rounds
// to it, become the least of the others.
func gaussian(patch [3]int) array[half.Float] {
	var axes [3][]float64
	peak := 1.0
	for a, n := range patch {
		sigma := float64(n) / 8
		reach := int(4*sigma + 0.5)
		highest := 0.0
		for i := range n {
			d := i - n/2
			w := 0.0
			if d <= reach && -d <= reach {
				w = math.Exp(-0.5 * float64(d*d) / (sigma * sigma))
			}
			axes[a] = append(axes[a], w)
			highest = max(highest, w)
		}
		peak *= highest
	}
	g := newArray[half.Float](patch)
	n := 0
	least := half.Float(0x7c00)
	for _, x := range axes[0] {
		for _, y := range axes[1] {
			for _, z := range axes[2] {
				g.values[n] = half.From64(x * y * z / (peak / 10))
				if g.values[n] > 0 {
					least = min(least, g.values[n])
				}
				n++
			}
		}
	}
	for i, w := range g.values {
		if w == 0 {
			g.values[i] = least
		}
	}
	return g
}

// window computes logits (heads, patch) of a window (channels, patch).
type window func(x []float32) ([]float32, error)

// sums are logits of each head, added up over windows, of the planes that windows still reach. They
// are float16 at every step as nnU-Net has them: where few windows reach, that rounding decides.
type sums struct {
	heads  []array[half.Float] // (depth of a window, padded height, padded width)
	weight array[half.Float]
	base   int // the first plane
}

func newSums(heads int, shape [3]int) *sums {
	s := &sums{heads: make([]array[half.Float], heads), weight: newArray[half.Float](shape)}
	for h := range s.heads {
		s.heads[h] = newArray[half.Float](shape)
	}
	return s
}

// forget makes a plane the first one: those before it are final and were taken.
func (s *sums) forget(before int) {
	plane := s.weight.shape[1] * s.weight.shape[2]
	drop := min(before-s.base, s.weight.shape[0]) * plane
	for _, x := range append([]array[half.Float]{s.weight}, s.heads...) {
		clear(x.values[copy(x.values, x.values[drop:]):])
	}
	s.base = before
}

// planes gives the final logits of each head in one plane of the padded scan, within a box of it.
func (s *sums) planes(at int, inside box, into [][]half.Float) {
	width := s.weight.shape[2]
	parallel(len(s.heads), func(h int) {
		n := 0
		for j := inside.from[1]; j < inside.to[1]; j++ {
			row := ((at-s.base)*s.weight.shape[1] + j) * width
			for k := row + inside.from[2]; k < row+inside.to[2]; k++ {
				into[h][n] = half.From(s.heads[h].values[k].Float32() / s.weight.values[k].Float32())
				n++
			}
		}
	})
}

// inference is one scan under the windows of all folds.
type inference struct {
	*Plan
	channels []array[float32]
	mirror   [][]int
	members  int
	use      func(member int) error // puts a fold's weights in place
	run      window
	progress func()
}

// over slides the network over a prepared scan: the windows of a plane with one fold after the
// other, then the next. Planes that no window reaches any more are handed to emit in their order,
// averaged over the folds: the float16 sum, divided by how many they are.
func (f *inference) over(ctx context.Context, heads int, emit func(plane int, logits [][]half.Float)) error {
	shape := f.channels[0].shape
	padded, inside := shape, box{} // a scan smaller than a window is centred in it
	for a, n := range shape {
		if missing := f.Patch[a] - n; missing > 0 {
			padded[a], inside.from[a] = f.Patch[a], missing/2
		}
		inside.to[a] = inside.from[a] + n
	}
	weights := gaussian(f.Patch)
	bell := make([]float32, len(weights.values))
	for i, w := range weights.values {
		bell[i] = w.Float32()
	}
	members := make([]*sums, f.members)
	for m := range members {
		members[m] = newSums(heads, [3]int{f.Patch[0], padded[1], padded[2]})
	}
	voxels := len(bell)
	x := make([]float32, len(f.channels)*voxels)
	var total, turned []float32
	if len(f.mirror) > 1 {
		total, turned = make([]float32, heads*voxels), make([]float32, len(x))
	}
	layers := starts(padded[0], f.Patch[0])
	logits, one := make([][]half.Float, heads), make([][]half.Float, heads)
	for h := range logits {
		logits[h], one[h] = make([]half.Float, shape[1]*shape[2]), make([]half.Float, shape[1]*shape[2])
	}
	for n, i := range layers {
		for m, s := range members {
			if len(members) > 1 {
				if err := f.use(m); err != nil {
					return err
				}
			}
			for _, j := range starts(padded[1], f.Patch[1]) {
				for _, k := range starts(padded[2], f.Patch[2]) {
					if err := ctx.Err(); err != nil {
						return err
					}
					corner := [3]int{i, j, k}
					for c, channel := range f.channels {
						cut(x[c*voxels:][:voxels], channel, corner, inside.from, f.Patch)
					}
					logits, err := mirrored(x, turned, total, f.Patch, f.mirror, f.run)
					if err != nil {
						return err
					}
					s.add(logits, bell, weights.values, corner, f.Patch)
					f.progress()
				}
			}
		}
		final := padded[0] // planes before it are final now
		if n+1 < len(layers) {
			final = layers[n+1]
		}
		for plane := max(i, inside.from[0]); plane < min(final, inside.to[0]); plane++ {
			members[0].planes(plane, inside, logits)
			for _, s := range members[1:] {
				s.planes(plane, inside, one)
				for h := range logits {
					for v, x := range one[h] {
						logits[h][v] = half.From(logits[h][v].Float32() + x.Float32())
					}
				}
			}
			if count := float32(len(members)); count > 1 {
				for h := range logits {
					for v, x := range logits[h] {
						logits[h][v] = half.From(x.Float32() / count)
					}
				}
			}
			emit(plane-inside.from[0], logits)
		}
		for _, s := range members {
			s.forget(final)
		}
	}
	return nil
}

// cut copies a window of a channel; outside of the channel it is 0.
func cut(dst []float32, x array[float32], corner, before, patch [3]int) {
	clear(dst)
	from := max(corner[2]-before[2], 0)
	to := min(corner[2]-before[2]+patch[2], x.shape[2])
	for i := range patch[0] {
		a := corner[0] - before[0] + i
		if a < 0 || a >= x.shape[0] {
			continue
		}
		for j := range patch[1] {
			b := corner[1] - before[1] + j
			if b < 0 || b >= x.shape[1] {
				continue
			}
			row := x.values[(a*x.shape[1]+b)*x.shape[2]:]
			copy(dst[(i*patch[1]+j)*patch[2]+from-(corner[2]-before[2]):], row[from:to])
		}
	}
}

// mirrored computes the logits of a window: the mean over its mirror images, which are turned back
// and summed in float32. mirror has the axes of each image; the first is the window itself. Where
// it is alone, its logits are what run gives, and nothing else is written to.
func mirrored(x, turned, total []float32, patch [3]int, mirror [][]int, run window) ([]float32, error) {
	if len(mirror) == 1 {
		return run(x)
	}
	for n, axes := range mirror {
		in := x
		if len(axes) > 0 {
			flip(turned, x, patch, axes)
			in = turned
		}
		y, err := run(in)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			copy(total, y)
		} else {
			addFlipped(total, y, patch, axes)
		}
	}
	count := float32(len(mirror))
	for i := range total {
		total[i] /= count
	}
	return total, nil
}

// mirrorSets are the sets of axes that nnU-Net mirrors along: none, single axes, pairs, all.
func mirrorSets(axes []int) [][]int {
	sets := [][]int{nil}
	for size := 1; size <= len(axes); size++ {
		for mask := range 1 << len(axes) {
			var set []int
			for n := range axes {
				// ascending masks are in the order of itertools.combinations where the first axis
				// has the highest bit
				if mask>>(len(axes)-1-n)&1 == 1 {
					set = append(set, axes[n])
				}
			}
			if len(set) == size {
				sets = append(sets, set)
			}
		}
		// combinations come with the first axis first
		from := len(sets)
		for from > 0 && len(sets[from-1]) == size {
			from--
		}
		for i, j := from, len(sets)-1; i < j; i, j = i+1, j-1 {
			sets[i], sets[j] = sets[j], sets[i]
		}
	}
	return sets
}

// flipped calls do with the index of each voxel of a window and of its mirror image, row by row.
func flipped(patch [3]int, axes []int, do func(row, mirrorRow int, reversed bool)) {
	var on [3]bool
	for _, a := range axes {
		on[a] = true
	}
	for i := range patch[0] {
		mi := i
		if on[0] {
			mi = patch[0] - 1 - i
		}
		for j := range patch[1] {
			mj := j
			if on[1] {
				mj = patch[1] - 1 - j
			}
			do((i*patch[1]+j)*patch[2], (mi*patch[1]+mj)*patch[2], on[2])
		}
	}
}

// flip mirrors all channels of x.
func flip(dst, x []float32, patch [3]int, axes []int) {
	n := patch[0] * patch[1] * patch[2]
	for c := 0; c < len(x); c += n {
		flipped(patch, axes, func(row, mirrorRow int, reversed bool) {
			to, from := dst[c+row:][:patch[2]], x[c+mirrorRow:][:patch[2]]
			if !reversed {
				copy(to, from)
				return
			}
			for k := range to {
				to[k] = from[len(from)-1-k]
			}
		})
	}
}

// addFlipped adds the mirror image of all channels of y.
func addFlipped(total, y []float32, patch [3]int, axes []int) {
	n := patch[0] * patch[1] * patch[2]
	for c := 0; c < len(y); c += n {
		flipped(patch, axes, func(row, mirrorRow int, reversed bool) {
			to, from := total[c+row:][:patch[2]], y[c+mirrorRow:][:patch[2]]
			for k := range to {
				if reversed {
					to[k] += from[len(from)-1-k]
				} else {
					to[k] += from[k]
				}
			}
		})
	}
}

// add adds the logits of a window, weighted.
func (s *sums) add(logits, bell []float32, weights []half.Float, corner, patch [3]int) {
	voxels := len(bell)
	parallel(len(s.heads)+1, func(h int) {
		to := s.weight.values
		if h < len(s.heads) {
			to = s.heads[h].values
		}
		for i := range patch[0] {
			for j := range patch[1] {
				row := (i*patch[1] + j) * patch[2]
				to := to[((corner[0]-s.base+i)*s.weight.shape[1]+corner[1]+j)*s.weight.shape[2]+corner[2]:][:patch[2]]
				if h == len(s.heads) {
					for k := range to {
						to[k] = half.From(to[k].Float32() + weights[row+k].Float32())
					}
					continue
				}
				y := logits[h*voxels+row:][:patch[2]]
				for k := range to {
					to[k] = half.From(to[k].Float32() + y[k]*bell[row+k])
				}
			}
		}
	})
}
