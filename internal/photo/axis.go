package photo

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/photo/fixed"
)

// axis says how samples along one axis of a plane make those of the result: result x is the sum of
// weights[x*taps+t] times sample starts[x]+t.
type axis struct {
	starts  []int32
	weights []int16
	taps    int
}

// resampling is a change of length along one axis; only a part of the result is wanted.
type resampling struct {
	samples  int  // of the plane
	spread   int  // pixels a sample
	smooth   bool // pixels between samples are interpolated, not repeated
	from, to int  // pixels before, and after
	first, n int  // the results that are wanted
}

// sum is a weighted sum of neighbouring samples.
type sum struct {
	start   int
	weights []float64
}

// bilinear is the sum that makes result x, in pixels: a triangle as wide as two pixels of the
// longer grid, which is what Pillow's BILINEAR is (Pillow, Resample.c: precompute_coeffs).
func (r resampling) bilinear(x int) sum {
	scale := float64(r.from) / float64(r.to)
	support := max(scale, 1)
	centre := (float64(x) + 0.5) * scale
	start := max(int(centre-support+0.5), 0)
	end := min(int(centre+support+0.5), r.from)
	s := sum{start, make([]float64, end-start)}
	total := 0.0
	for t := range s.weights {
		s.weights[t] = max(1-math.Abs((float64(start+t)-centre+0.5)/support), 0)
		total += s.weights[t]
	}
	for t := range s.weights {
		s.weights[t] /= total
	}
	return s
}

// ofSamples turns a sum of pixels into one of samples. Where there are fewer of these, a pixel is
// three quarters the sample that covers it and one quarter the neighbour on its side, as in
// libjpeg's "fancy upsampling" (jdsample.c), or the sample that covers it.
func (r resampling) ofSamples(pixels sum) sum {
	if r.spread == 1 {
		return pixels
	}
	first := max(pixels.start/r.spread-1, 0)
	last := min((pixels.start+len(pixels.weights)-1)/r.spread+1, r.samples-1)
	s := sum{first, make([]float64, last-first+1)}
	for t, w := range pixels.weights {
		pixel := pixels.start + t
		at := min(pixel/r.spread, r.samples-1)
		if !r.smooth {
			s.weights[at-first] += w
			continue
		}
		beside := min(max(at-1+2*(pixel%2), 0), r.samples-1)
		s.weights[at-first] += 0.75 * w
		s.weights[beside-first] += 0.25 * w
	}
	return s
}

// axis computes the sums in fixed point, each with a multiple of taps samples, for a multiple of
// results; those that nobody asked for are zero. They reach beyond the last sample if they may.
func (r resampling) axis(taps, results int, mayReach bool) *axis {
	sums := make([]sum, r.n)
	longest := 0
	for x := range sums {
		sums[x] = r.ofSamples(r.bilinear(r.first + x))
		longest = max(longest, len(sums[x].weights))
	}
	a := &axis{taps: roundUp(longest, taps)}
	if !mayReach {
		a.taps = min(a.taps, r.samples)
	}
	n := roundUp(r.n, results)
	a.starts, a.weights = make([]int32, n), make([]int16, n*a.taps)
	for x, s := range sums {
		start := s.start
		if !mayReach {
			start = min(start, r.samples-a.taps)
		}
		a.starts[x] = int32(start)
		quantise(a.weights[x*a.taps+s.start-start:], s.weights)
	}
	return a
}

// quantise rounds weights such that they still add up to one. The largest takes what is left over.
func quantise(dst []int16, weights []float64) {
	const one = 1 << fixed.WeightBits
	left, largest := one, 0
	for t, w := range weights {
		dst[t] = int16(math.Round(w * one))
		left -= int(dst[t])
		if w > weights[largest] {
			largest = t
		}
	}
	dst[largest] += int16(left)
}

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }
