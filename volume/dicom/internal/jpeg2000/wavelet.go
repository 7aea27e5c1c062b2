package jpeg2000

// This file: the inverse wavelet transform (annex F).

// wavelet tells how to undo a wavelet filter.
type wavelet[T int32 | float32] struct {
	// dequantize turns a row of values of code-blocks, which are doubled, into coefficients.
	dequantize func(to []T, values []int32, step float32)
	// row undoes the filter on the low and the high samples of a row, which has at least two
	// samples. The first is a high one if odd is 1. Line is memory for eight samples more than the
	// row has.
	row func(row, low, high, line []T, odd int)
	// scale multiplies a row before the first step. If it is nil, rows are not multiplied.
	scale func(row []T, high bool)
	// steps undo the filter on columns. The first changes all low rows, the second all high rows,
	// and so on. A step changes a row by the rows before and after it.
	steps []func(row, before, after []T)
}

var (
	reversible = wavelet[int32]{
		dequantize: halve, row: row53,
		steps: []func(row, before, after []int32){low53, high53},
	}
	irreversible = wavelet[float32]{
		dequantize: multiply, row: row97, scale: scale97,
		steps: []func(row, before, after []float32){step97(delta), step97(gamma), step97(beta), step97(alpha)},
	}
)

// halve drops the half that stands for bits that are not coded (E.1.2.1).
func halve(to, values []int32, _ float32) {
	for n, v := range values[:len(to)] {
		to[n] = v / 2
	}
}

func multiply(to []float32, values []int32, step float32) {
	step /= 2
	for n, v := range values[:len(to)] {
		to[n] = float32(v) * step
	}
}

// transform undoes the decomposition of a tile and returns its samples, in the memory of out if it
// is large enough. Bands holds rows of width coefficients. The bands of each level are side by
// side: LL, or the levels below, in the upper left, HL on the right, LH below, and HH in the lower
// right. Bands is used as memory.
func (f *wavelet[T]) transform(bands, out []T, width int, resolutions []*resolution) []T {
	if cap(out) < len(bands) {
		out = make([]T, len(bands))
	}
	out = out[:len(bands)]
	line := make([]T, width+8)
	first := resolutions[0].area
	for y := range first.height() {
		copy(out[y*width:][:first.width()], bands[y*width:])
	}
	for r := 1; r < len(resolutions); r++ {
		lower, area := resolutions[r-1].area, resolutions[r].area
		if area.empty() {
			continue
		}
		w, h, oddX, oddY := area.width(), area.height(), area.x0&1, area.y0&1
		// The low rows are 2y+oddY, the high rows are between them. The samples of the levels below
		// are in out, where they are overwritten from the last row to the first.
		row := func(to int, low, high []T) {
			to = to * width
			if w > 1 {
				f.row(out[to:][:w], low, high, line, oddX)
			} else {
				out[to] = single(low, high)
			}
		}
		for y := lower.height() - 1; y >= 0; y-- {
			band := bands[y*width:][:w]
			low := band[:lower.width()]
			copy(low, out[y*width:])
			row(2*y+oddY, low, band[len(low):])
		}
		for y := lower.height(); y < h; y++ {
			band := bands[y*width:][:w]
			row(2*(y-lower.height())+1-oddY, band[:lower.width()], band[lower.width():])
		}
		f.columns(out, width, w, h, oddY)
	}
	return out
}

// single undoes a filter on a row of one sample, which is in either band.
func single[T int32 | float32](low, high []T) T {
	if len(low) > 0 {
		return low[0]
	}
	return high[0] / 2
}

// columns undoes the filter on h rows of w samples. The first is a high row if odd is 1. Each step
// is done on a row as soon as the rows around it have had the step before, while they are in the
// cache.
func (f *wavelet[T]) columns(data []T, width, w, h, odd int) {
	row := func(y int) []T { return data[y*width:][:w] }
	if h == 1 {
		if odd == 1 {
			for x, v := range row(0) {
				data[x] = v / 2
			}
		}
		return
	}
	for y := range h + len(f.steps) {
		if f.scale != nil && y < h {
			f.scale(row(y), y&1 != odd)
		}
		for n, step := range f.steps {
			at := y - 1 - n
			if at < 0 || at >= h || (at^odd^n)&1 != 0 {
				continue
			}
			before, after := neighbours(at, h)
			step(row(at), row(before), row(after))
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

// row53 undoes the reversible 5/3 filter (F.3.8.1). It does on a row what low53 and high53 do on
// columns.
func row53(row, low, high, _ []int32, odd int) {
	before := high[0] // the high sample before a low one; rows are mirrored at their ends
	first := row
	if odd == 1 {
		row, high = row[1:], high[1:]
	}
	after := before
	if len(high) > 0 {
		after = high[0]
	}
	even := low[0] - (before+after+2)>>2
	if odd == 1 {
		first[0] = before + even
	}
	// From here on, row begins with a low sample.
	for n := 1; n < min(len(low), len(high)); n++ {
		before, after = after, high[n]
		next := low[n] - (before+after+2)>>2
		pair := row[2*n-2 : 2*n]
		pair[0], pair[1] = even, before+(even+next)>>1
		even = next
	}
	at := 2 * max(len(high)-1, 0)
	switch {
	case len(low) > len(high) && len(high) > 0:
		next := low[len(high)] - (2*after+2)>>2
		row[at], row[at+1] = even, after+(even+next)>>1
		at, even = at+2, next
	case len(low) == len(high):
		row[at+1] = after + even
	}
	row[at] = even
}

func low53(row, before, after []int32) {
	before, after = before[:len(row)], after[:len(row)]
	for n := range row {
		row[n] -= (before[n] + after[n] + 2) >> 2
	}
}

func high53(row, before, after []int32) {
	before, after = before[:len(row)], after[:len(row)]
	for n := range row {
		row[n] += (before[n] + after[n]) >> 1
	}
}

// The irreversible 9/7 filter (F.3.8.2). Its products are converted to float32, which they are
// already: so no compiler fuses them with a subtraction, and samples are the same on all machines.
const (
	alpha, beta, gamma, delta = -1.586134342059924, -0.052980118572961, 0.882911075530934, 0.443506852043971
	k                         = 1.230174104914001
)

// row97 undoes the filter on a row. It does what scale97 and step97 do on columns.
func row97(row, low, high, line []float32, odd int) {
	// line is the row with four more samples on each side, mirrored.
	const margin = 4
	line = line[:len(row)+2*margin]
	for n, v := range low {
		line[margin+2*n+odd] = v * k
	}
	for n, v := range high {
		line[margin+2*n+1-odd] = v * (1 / float32(k))
	}
	last := len(row) - 1
	for n := 1; n <= margin; n++ {
		at := n % (2 * last)
		at = min(at, 2*last-at)
		line[margin-n], line[margin+last+n] = line[margin+at], line[margin+last-at]
	}
	// first, second and third are samples after that many steps. A sample has its step as soon as
	// the two beside it have had the step before.
	at := 2 - odd // of a low sample
	first := line[at] - float32(delta*(line[at-1]+line[at+1]))
	next := line[at+2] - float32(delta*(line[at+1]+line[at+3]))
	second, third := line[at+1]-float32(gamma*(first+next)), float32(0)
	first = next
	for at += 4; at+1 < len(line); at += 2 {
		here := line[at-3 : at+2]
		next := here[3] - float32(delta*(here[2]+here[4]))
		nextSecond := here[2] - float32(gamma*(first+next))
		nextThird := first - float32(beta*(second+nextSecond))
		here[0], here[1] = second-float32(alpha*(third+nextThird)), nextThird
		first, second, third = next, nextSecond, nextThird
	}
	copy(row, line[margin:])
}

func scale97(row []float32, high bool) {
	scale := float32(k)
	if high {
		scale = 1 / scale
	}
	for n := range row {
		row[n] *= scale
	}
}

func step97(factor float32) func(row, before, after []float32) {
	return func(row, before, after []float32) {
		before, after = before[:len(row)], after[:len(row)]
		for n := range row {
			row[n] -= float32(factor * (before[n] + after[n]))
		}
	}
}
