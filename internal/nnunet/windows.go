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
// size, cut at four of them, 10 at its centre, in float16. Zeros, of what was cut and what rounds to it, become the
// least of the others.
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

// infer slides the network over a prepared scan. The result has the logits of each head, summed
// over windows and divided by the sums of weights, in float16 at every step as nnU-Net has them:
// where few windows reach, that rounding decides.
func (p *Plan) infer(ctx context.Context, channels []array[float32], heads int, mirror [][]int, run window, progress func()) ([]array[half.Float], error) {
	shape := channels[0].shape
	padded, before := shape, [3]int{} // a scan smaller than a window is centred in it
	for a, n := range shape {
		if missing := p.Patch[a] - n; missing > 0 {
			padded[a], before[a] = p.Patch[a], missing/2
		}
	}
	weights := gaussian(p.Patch)
	bell := make([]float32, len(weights.values))
	for i, w := range weights.values {
		bell[i] = w.Float32()
	}
	sums, weight := make([]array[half.Float], heads), newArray[half.Float](padded)
	for h := range sums {
		sums[h] = newArray[half.Float](padded)
	}
	voxels := len(bell)
	x, total := make([]float32, len(channels)*voxels), make([]float32, heads*voxels)
	turned := make([]float32, len(x))
	for _, i := range starts(padded[0], p.Patch[0]) {
		for _, j := range starts(padded[1], p.Patch[1]) {
			for _, k := range starts(padded[2], p.Patch[2]) {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				corner := [3]int{i, j, k}
				for c, channel := range channels {
					cut(x[c*voxels:][:voxels], channel, corner, before, p.Patch)
				}
				if err := mirrored(x, turned, total, p.Patch, mirror, run); err != nil {
					return nil, err
				}
				add(sums, weight, total, bell, weights.values, corner, p.Patch)
				progress()
			}
		}
	}
	// back to the scan's part, divided
	part := box{from: before, to: before}
	for a := range part.to {
		part.to[a] += shape[a]
	}
	weight = crop(weight, part)
	for h := range sums {
		sums[h] = crop(sums[h], part)
		for n, w := range weight.values {
			sums[h].values[n] = half.From(sums[h].values[n].Float32() / w.Float32())
		}
	}
	return sums, nil
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

// mirrored computes the logits of a window: the mean over its mirror images along the given sets of
// axes, of which the first has none, turned back and summed in float32.
func mirrored(x, turned, total []float32, patch [3]int, mirror [][]int, run window) error {
	for n, axes := range mirror {
		in := x
		if len(axes) > 0 {
			flip(turned, x, patch, axes)
			in = turned
		}
		y, err := run(in)
		if err != nil {
			return err
		}
		if n == 0 {
			copy(total, y)
		} else {
			addFlipped(total, y, patch, axes)
		}
	}
	if count := float32(len(mirror)); count > 1 {
		for i := range total {
			total[i] /= count
		}
	}
	return nil
}

// mirrorSets are the sets of axes that nnU-Net mirrors along: none, single axes, pairs, all.
func mirrorSets(axes []int) [][]int {
	sets := [][]int{nil}
	for size := 1; size <= len(axes); size++ {
		for mask := range 1 << len(axes) {
			var set []int
			for n := range axes {
				// ascending masks are in the order of itertools.combinations where the first axis has the highest bit
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
func add(sums []array[half.Float], weight array[half.Float], logits, bell []float32, weights []half.Float, corner, patch [3]int) {
	voxels := len(bell)
	for i := range patch[0] {
		for j := range patch[1] {
			row := (i*patch[1] + j) * patch[2]
			at := ((corner[0]+i)*weight.shape[1]+corner[1]+j)*weight.shape[2] + corner[2]
			to := weight.values[at:][:patch[2]]
			for k := range to {
				to[k] = half.From(to[k].Float32() + weights[row+k].Float32())
			}
			for h := range sums {
				to, y := sums[h].values[at:][:patch[2]], logits[h*voxels+row:][:patch[2]]
				for k := range to {
					to[k] = half.From(to[k].Float32() + y[k]*bell[row+k])
				}
			}
		}
	}
}
