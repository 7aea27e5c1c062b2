package jpeg2000

import (
	"math"
	"math/rand/v2"
	"testing"
)

// analyse is the forward transform of a row or column of the standard (F.4.8), on a signal that is
// mirrored at its ends. The first sample has the parity of start.
func analyse(x []float64, start int, whole bool) []float64 {
	if len(x) == 1 {
		if start&1 == 1 {
			return []float64{2 * x[0]}
		}
		return x
	}
	at := func(n int) *float64 {
		last := len(x) - 1
		n = ((n % (2 * last)) + 2*last) % (2 * last)
		return &x[min(n, 2*last-n)]
	}
	step := func(first int, change func(sum float64) float64) {
		for n := (first + start) & 1; n < len(x); n += 2 {
			x[n] += change(*at(n - 1) + *at(n + 1))
		}
	}
	if whole {
		step(1, func(sum float64) float64 { return -math.Floor(sum / 2) })
		step(0, func(sum float64) float64 { return math.Floor((sum + 2) / 4) })
		return x
	}
	for n, factor := range []float64{alpha, beta, gamma, delta} {
		step(1-n&1, func(sum float64) float64 { return factor * sum })
	}
	for n := range x {
		if (n+start)&1 == 1 {
			x[n] *= k
		} else {
			x[n] /= k
		}
	}
	return x
}

// The inverse transform gives back what the forward transform was given, for tiles of any size and
// place and any number of levels.
func TestTransform(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 3000 {
		x0, y0 := r.IntN(9), r.IntN(9)
		area := rectangle{x0, y0, x0 + 1 + r.IntN(24), y0 + 1 + r.IntN(24)}
		width, height, levels := area.width(), area.height(), r.IntN(5)
		whole := r.IntN(2) == 0
		image := make([]float64, width*height)
		for n := range image {
			image[n] = float64(r.IntN(4096) - 2048)
		}
		var resolutions []*resolution
		for n := range levels + 1 {
			s := levels - n
			resolutions = append(resolutions,
				&resolution{area: rectangle{ceilShift(area.x0, s), ceilShift(area.y0, s), ceilShift(area.x1, s),
					ceilShift(area.y1, s)}})
		}
		bands := append([]float64(nil), image...)
		for n := levels; n > 0; n-- {
			a, lower := resolutions[n].area, resolutions[n-1].area
			w, h := a.width(), a.height()
			split := func(line []float64, start, low int, set func(n int, v float64)) {
				for n, v := range analyse(line, start, whole) {
					if (n+start)&1 == 0 {
						set(n/2, v)
					} else {
						set(low+n/2, v)
					}
				}
			}
			for x := range w {
				var line []float64
				for y := range h {
					line = append(line, bands[y*width+x])
				}
				split(line, a.y0, lower.height(), func(n int, v float64) { bands[n*width+x] = v })
			}
			for y := range h {
				line := append([]float64(nil), bands[y*width:][:w]...)
				split(line, a.x0, lower.width(), func(n int, v float64) { bands[y*width+n] = v })
			}
		}
		var got []float64
		if whole {
			got = inverseOf(&reversible, bands, width, resolutions)
		} else {
			got = inverseOf(&irreversible, bands, width, resolutions)
		}
		for n, want := range image {
			// float32 has 24 bits, and the samples 12
			if d := math.Abs(got[n] - want); d != 0 && (whole || d > 0.01) {
				t.Fatalf("%v, %d levels, reversible %v: sample %d is %v, want %v", area, levels, whole, n, got[n], want)
			}
		}
	}
}

func inverseOf[T int32 | float32](f *wavelet[T], bands []float64, width int, resolutions []*resolution) []float64 {
	in := make([]T, len(bands))
	for n, v := range bands {
		in[n] = T(v)
	}
	var out []float64
	for _, v := range f.transform(in, nil, width, resolutions) {
		out = append(out, float64(v))
	}
	return out
}
