package jpeg2000

import "slices"

// transform undoes the wavelet decomposition in place, from the lowest resolution to the highest
// (annex F). Data holds rows of width samples: at each level the low band in the upper left, HL to
// its right, LH below, HH between them. Line is memory to work in, which is returned for the next
// time.
func transform[T int32 | float32](data, line []T, width int, resolutions []*resolution, lift func(line []T, count, stride, odd int)) []T {
	const together = 16 // columns that are lifted side by side
	for r := 1; r < len(resolutions); r++ {
		low, area := resolutions[r-1].area, resolutions[r].area
		w, h := area.width(), area.height()
		if area.empty() {
			continue
		}
		line = slices.Grow(line[:0], max(w, h*together))[:max(w, h*together)]
		oddX, oddY := area.x0&1, area.y0&1
		for y := range h {
			row := data[y*width:][:w]
			interleave(line, row, low.width(), oddX)
			lift(line[:w], w, 1, oddX)
			copy(row, line[:w])
		}
		for x := 0; x < w; x += together {
			n := min(together, w-x)
			for y := range h {
				// where row y of the bands goes: low rows first, then high ones
				to := 2*y + oddY
				if y >= low.height() {
					to = 2*(y-low.height()) + 1 - oddY
				}
				copy(line[to*n:][:n], data[y*width+x:][:n])
			}
			lift(line[:h*n], h, n, oddY)
			for y := range h {
				copy(data[y*width+x:][:n], line[y*n:][:n])
			}
		}
	}
	return line
}

// interleave puts low samples at even and high ones at odd places, or the other way round where the
// line begins at an odd coordinate.
func interleave[T any](line, row []T, low, odd int) {
	for n, v := range row[:low] {
		line[2*n+odd] = v
	}
	for n, v := range row[low:] {
		line[2*n+1-odd] = v
	}
}

// lift53 undoes the reversible 5/3 filter (F.3.8.1) on count rows of stride samples, the first of
// which is a high one if odd.
func lift53(line []int32, count, stride, odd int) {
	if count == 1 {
		if odd == 1 {
			for n := range line {
				line[n] /= 2
			}
		}
		return
	}
	for _, step := range []struct {
		first int
		low   bool
	}{{odd, true}, {1 - odd, false}} {
		for n := step.first; n < count; n += 2 {
			before, after := neighbours(n, count)
			x, a, b := line[n*stride:][:stride], line[before*stride:][:stride], line[after*stride:][:stride]
			if step.low {
				for k := range x {
					x[k] -= (a[k] + b[k] + 2) >> 2
				}
			} else {
				for k := range x {
					x[k] += (a[k] + b[k]) >> 1
				}
			}
		}
	}
}

// neighbours returns the places before and after n, mirrored at the ends.
func neighbours(n, count int) (before, after int) {
	before, after = n-1, n+1
	if before < 0 {
		before = after
	}
	if after >= count {
		after = before
	}
	return before, after
}

// lift97 undoes the irreversible 9/7 filter (F.3.8.2) on count rows of stride samples, the first of
// which is a high one if odd.
func lift97(line []float32, count, stride, odd int) {
	const (
		alpha, beta, gamma, delta = -1.586134342059924, -0.052980118572961, 0.882911075530934, 0.443506852043971
		k                         = 1.230174104914001
	)
	if count == 1 {
		if odd == 1 {
			for n := range line {
				line[n] /= 2
			}
		}
		return
	}
	for n := range count {
		scale := float32(k)
		if n&1 != odd {
			scale = 1 / k
		}
		x := line[n*stride:][:stride]
		for m := range x {
			x[m] *= scale
		}
	}
	for _, step := range []struct {
		first  int
		factor float32
	}{{odd, delta}, {1 - odd, gamma}, {odd, beta}, {1 - odd, alpha}} {
		for n := step.first; n < count; n += 2 {
			before, after := neighbours(n, count)
			x, a, b := line[n*stride:][:stride], line[before*stride:][:stride], line[after*stride:][:stride]
			for m := range x {
				x[m] -= step.factor * (a[m] + b[m])
			}
		}
	}
}
