package volume

import (
	"fmt"
	"math"
	"sync"
)

// This file: voxels on another grid.
//
//   - Voxel centres have whole indices, on both grids; the affines say where they are. Nothing is
//     shifted by half a voxel.
//   - A point within half a voxel of the outermost centres is inside the field of view; beyond the
//     last centre the edge's value holds.
//   - Grids that are parallel are interpolated axis by axis, linearly plane by plane; others voxel
//     by voxel. All give the same values.
//   - An int16 volume stays one: results are rounded to the nearest whole number and kept within
//     int16.
//   - Nothing is smoothed before it is sampled more coarsely.

// Resample returns the volume at another spacing (mm; 0 keeps an axis) over the same field of view,
// see [Grid.Resampled].
func (v *Volume) Resample(spacing [3]float64, method Interpolation) (*Volume, error) {
	g, err := v.Resampled(spacing)
	if err != nil {
		return nil, fmt.Errorf("resampling: %w", err)
	}
	return v.ResampleTo(g, method, 0)
}

// ResampleTo returns the volume's values at the voxels of g. Voxels of g that lie outside the field
// of view get the value outside.
func (v *Volume) ResampleTo(g Grid, method Interpolation, outside float32) (*Volume, error) {
	m, err := between(v.Grid, g)
	if err != nil {
		return nil, fmt.Errorf("resampling: %w", err)
	}
	if m == identity && g.Shape == v.Shape {
		return v, nil
	}
	o := &Volume{Grid: g}
	switch {
	case method == Nearest && v.Int16 != nil:
		o.Int16 = nearest(v.Int16, v.Shape, g.Shape, m, toInt16(outside))
		return o, nil
	case method == Nearest:
		o.Float32 = nearest(v.Float32, v.Shape, g.Shape, m, outside)
		return o, nil
	case method != Linear && method != Cubic:
		return nil, fmt.Errorf("resampling: unknown method %v", method)
	}
	switch parallel := parallelAxes(m, g.Shape); {
	case parallel && method == Linear && v.Int16 != nil:
		o.Int16 = linear(v.Int16, v.Shape, g.Shape, m, outside, toInt16)
		return o, nil
	case parallel && method == Linear:
		o.Float32 = linear(v.Float32, v.Shape, g.Shape, m, outside, func(x float32) float32 { return x })
		return o, nil
	case parallel:
		o.Float32 = separable(v.floats(), v.Shape, g.Shape, m, method, outside)
	default:
		o.Float32 = oblique(v.floats(), v.Shape, g.Shape, m, method, outside)
	}
	if v.Int16 != nil {
		o.Int16 = make([]int16, len(o.Float32))
		blocks(len(o.Int16), func(from, to int) {
			dst, src := o.Int16[from:to], o.Float32[from:to]
			for n, x := range src {
				dst[n] = toInt16(x)
			}
		})
		o.Float32 = nil
	}
	return o, nil
}

var identity = Scaling([3]float64{1, 1, 1})

// between returns the affine that takes voxel indices of dst to voxel indices of src.
func between(src, dst Grid) (Affine, error) {
	if err := src.Check(); err != nil {
		return Affine{}, err
	}
	if err := dst.Check(); err != nil {
		return Affine{}, err
	}
	if src.Affine == dst.Affine {
		return identity, nil // exactly, which the product below need not be
	}
	inv, err := src.Affine.Inverse()
	if err != nil {
		return Affine{}, err
	}
	m := inv.Mul(dst.Affine)
	for r := range 3 {
		for c := range 4 {
			// A number within 1e-9 of a whole one is taken for it. Otherwise grids that share
			// planes of voxels would mix in 1e-13 of their neighbours.
			if n := math.Round(m[r][c]); math.Abs(m[r][c]-n) < 1e-9 {
				m[r][c] = n
			}
		}
	}
	return m, nil
}

// parallelAxes says whether m leaves the axes in place, to a thousandth of a voxel over the whole
// extent.
func parallelAxes(m Affine, extent [3]int) bool {
	for r := range 3 {
		for c := range 3 {
			if r != c && math.Abs(m[r][c])*float64(extent[c]) > 1e-3 {
				return false
			}
		}
	}
	return true
}

// edge is how far (voxels) beyond the field of view a point may lie, by rounding, and still count
// as inside.
const edge = 1e-4

// inside says whether index x is in the field of view of n voxels, and clamps it to their centres.
func inside(x float64, n int) (float64, bool) {
	if !(x >= -0.5-edge && x <= float64(n)-0.5+edge) {
		return 0, false
	}
	return min(max(x, 0), float64(n-1)), true
}

func (v *Volume) floats() []float32 {
	if v.Float32 != nil {
		return v.Float32
	}
	f := make([]float32, len(v.Int16))
	blocks(len(f), func(from, to int) {
		dst, src := f[from:to], v.Int16[from:to]
		for n, x := range src {
			dst[n] = float32(x)
		}
	})
	return f
}

// nearest gives each voxel of the result the value of the voxel of src that is nearest to it.
func nearest[T any](src []T, from, to [3]int, m Affine, outside T) []T {
	dst := make([]T, to[0]*to[1]*to[2])
	// voxel returns the nearest voxel along an axis, or -1 outside.
	voxel := func(x float64, n int) int {
		if _, ok := inside(x, n); !ok {
			return -1
		}
		return nearestIndex(x, n)
	}
	if parallelAxes(m, to) {
		var table [3][]int
		for a := range 3 {
			table[a] = make([]int, to[a])
			for o := range table[a] {
				table[a][o] = voxel(m[a][a]*float64(o)+m[a][3], from[a])
			}
		}
		parallel(to[2], func(k int) {
			for j := range to[1] {
				row := dst[to[0]*(j+to[1]*k):][:to[0]]
				sj, sk := table[1][j], table[2][k]
				if sj < 0 || sk < 0 {
					fillWith(row, outside)
					continue
				}
				line := src[from[0]*(sj+from[1]*sk):][:from[0]]
				for i, s := range table[0] {
					if s < 0 {
						row[i] = outside
					} else {
						row[i] = line[s]
					}
				}
			}
		})
		return dst
	}
	parallel(to[2], func(k int) {
		for j := range to[1] {
			row := dst[to[0]*(j+to[1]*k):][:to[0]]
			for i := range row {
				p := m.Apply([3]float64{float64(i), float64(j), float64(k)})
				x, y, z := voxel(p[0], from[0]), voxel(p[1], from[1]), voxel(p[2], from[2])
				if x < 0 || y < 0 || z < 0 {
					row[i] = outside
				} else {
					row[i] = src[x+from[0]*(y+from[1]*z)]
				}
			}
		}
	})
	return dst
}

func fillWith[T any](s []T, x T) {
	for n := range s {
		s[n] = x
	}
}

// separable interpolates along one axis after the other. m is diagonal but for its last column.
func separable(src []float32, from, to [3]int, m Affine, method Interpolation, outside float32) []float32 {
	shape := from
	var in [3][]bool
	// The passes along k and j go through memory row by row: they come first, and leave less for
	// the slower one along i.
	for _, a := range []int{2, 1, 0} {
		table := make([]tap, to[a])
		in[a] = make([]bool, to[a])
		for o := range table {
			var x float64
			x, in[a][o] = inside(m[a][a]*float64(o)+m[a][3], from[a])
			table[o] = taps(x, from[a], method)
		}
		if m[a][a] == 1 && m[a][3] == 0 && to[a] == from[a] {
			continue
		}
		coefficients := src
		if method == Cubic {
			coefficients = prefilter(src, shape, a)
		}
		next := shape
		next[a] = to[a]
		src = along(coefficients, shape, next, a, table)
		shape = next
	}
	parallel(to[2], func(k int) {
		for j := range to[1] {
			row := src[to[0]*(j+to[1]*k):][:to[0]]
			if !in[1][j] || !in[2][k] {
				fillWith(row, outside)
				continue
			}
			for i, ok := range in[0] {
				if !ok {
					row[i] = outside
				}
			}
		}
	})
	return src
}

// linear gives the values of separable's linear interpolation, to the bit, plane by plane of the
// result: beside the two grids, only a few planes are in memory. m is diagonal but for its last
// column.
func linear[T int16 | float32](src []T, from, to [3]int, m Affine, outside float32, voxel func(float32) T) []T {
	var table [3][]tap
	var in [3][]bool
	var whole [3]bool // axes that keep their voxels
	for a := range 3 {
		table[a], in[a] = make([]tap, to[a]), make([]bool, to[a])
		for o := range table[a] {
			var x float64
			x, in[a][o] = inside(m[a][a]*float64(o)+m[a][3], from[a])
			table[a][o] = taps(x, from[a], Linear)
		}
		whole[a] = m[a][a] == 1 && m[a][3] == 0 && to[a] == from[a]
	}
	dst := make([]T, to[0]*to[1]*to[2])
	area := from[0] * from[1]
	scratch := sync.Pool{
		New: func() any { return &planes{make([]float32, area), make([]float32, from[0]), make([]float32, to[0])} },
	}
	parallel(to[2], func(k int) {
		p := scratch.Get().(*planes)
		defer scratch.Put(p)
		if t := &table[2][k]; whole[2] {
			for n, x := range src[k*area:][:area] {
				p.plane[n] = float32(x)
			}
		} else {
			r0, r1, w0, w1 := src[t.index[0]*area:][:area], src[t.index[1]*area:][:area], t.weight[0], t.weight[1]
			for n := range p.plane {
				p.plane[n] = w0*float32(r0[n]) + w1*float32(r1[n])
			}
		}
		for j := range to[1] {
			out := dst[to[0]*(j+to[1]*k):][:to[0]]
			if !in[1][j] || !in[2][k] {
				fillWith(out, voxel(outside))
				continue
			}
			line := p.line
			if t := &table[1][j]; whole[1] {
				line = p.plane[j*from[0]:][:from[0]]
			} else {
				r0, r1, w0, w1 := p.plane[t.index[0]*from[0]:][:from[0]], p.plane[t.index[1]*from[0]:][:from[0]],
					t.weight[0], t.weight[1]
				for n := range line {
					line[n] = w0*r0[n] + w1*r1[n]
				}
			}
			values := line
			if !whole[0] {
				values = p.out
				for i := range values {
					t := &table[0][i]
					values[i] = t.weight[0]*line[t.index[0]] + t.weight[1]*line[t.index[1]] +
						t.weight[2]*line[t.index[2]] + t.weight[3]*line[t.index[3]]
				}
			}
			for i, ok := range in[0] {
				if ok {
					out[i] = voxel(values[i])
				} else {
					out[i] = voxel(outside)
				}
			}
		}
	})
	return dst
}

// planes is the memory of one goroutine of linear: a plane between two of the scan's, a row between
// two of that plane's, and a row of the result.
type planes struct{ plane, line, out []float32 }

// along applies one tap for each index of axis a of the result.
func along(src []float32, from, to [3]int, a int, table []tap) []float32 {
	dst := make([]float32, to[0]*to[1]*to[2])
	if a == 0 {
		parallel(to[1]*to[2], func(row int) {
			in, out := src[row*from[0]:][:from[0]], dst[row*to[0]:][:to[0]]
			for i := range out {
				t := &table[i]
				out[i] = t.weight[0]*in[t.index[0]] + t.weight[1]*in[t.index[1]] + t.weight[2]*in[t.index[2]] +
					t.weight[3]*in[t.index[3]]
			}
		})
		return dst
	}
	inner := from[0] // contiguous elements that share their taps
	if a == 2 {
		inner *= from[1]
	}
	parallel(len(dst)/inner, func(item int) {
		slab, o := item/to[a], item%to[a]
		out, t := dst[item*inner:][:inner], &table[o]
		row := func(n int) []float32 { return src[(slab*from[a]+t.index[n])*inner:][:inner] }
		if t.weight[2] == 0 && t.weight[3] == 0 {
			r0, r1, w0, w1 := row(0), row(1), t.weight[0], t.weight[1]
			for n := range out {
				out[n] = w0*r0[n] + w1*r1[n]
			}
			return
		}
		r0, r1, r2, r3 := row(0), row(1), row(2), row(3)
		w0, w1, w2, w3 := t.weight[0], t.weight[1], t.weight[2], t.weight[3]
		for n := range out {
			out[n] = w0*r0[n] + w1*r1[n] + w2*r2[n] + w3*r3[n]
		}
	})
	return dst
}

// prefilter returns the B-spline coefficients along axis a: the weights of cubic B-splines whose
// sum passes through the values, mirrored at the edges (Unser, Splines: a perfect fit, 1999: a
// causal and an anti-causal recursion with pole sqrt(3) - 2).
func prefilter(src []float32, shape [3]int, a int) []float32 {
	n := shape[a]
	if n == 1 {
		return src
	}
	stride := 1
	for b := range a {
		stride *= shape[b]
	}
	pole := math.Sqrt(3) - 2
	dst := make([]float32, len(src))
	// The first causal coefficient is a sum over the mirrored line; pole^24 < 2e-14 is beyond
	// float32.
	horizon := min(n-1, 24)
	const width = 64 // lines that are filtered side by side
	lines := len(src) / n
	parallel((lines+width-1)/width, func(item int) {
		var buffer []float64 // n x width
		l0 := item * width
		w := min(width, lines-l0)
		buffer = make([]float64, n*w)
		offset := make([]int, w)
		for l := range w {
			line := l0 + l
			offset[l] = line/stride*stride*n + line%stride
		}
		for i := range n {
			for l := range w {
				buffer[i*w+l] = 6 * float64(src[offset[l]+i*stride])
			}
		}
		// c[0] = sum over i of pole^i s[i], s mirrored with period 2n-2
		first := make([]float64, w)
		if horizon < n-1 {
			p := 1.0
			for i := range horizon {
				for l := range w {
					first[l] += p * buffer[i*w+l]
				}
				p *= pole
			}
		} else {
			period := 2*n - 2
			scale := 1 / (1 - math.Pow(pole, float64(period)))
			for i := range period {
				p := math.Pow(pole, float64(i)) * scale
				for l := range w {
					first[l] += p * buffer[mirror(i, n)*w+l]
				}
			}
		}
		copy(buffer, first)
		for i := 1; i < n; i++ {
			for l := range w {
				buffer[i*w+l] += pole * buffer[(i-1)*w+l]
			}
		}
		for l := range w {
			last := (n - 1) * w
			buffer[last+l] = pole / (pole*pole - 1) * (buffer[last+l] + pole*buffer[last-w+l])
		}
		for i := n - 2; i >= 0; i-- {
			for l := range w {
				buffer[i*w+l] = pole * (buffer[(i+1)*w+l] - buffer[i*w+l])
			}
		}
		for i := range n {
			for l := range w {
				dst[offset[l]+i*stride] = float32(buffer[i*w+l])
			}
		}
	})
	return dst
}

// oblique interpolates voxel by voxel, for grids whose axes are not parallel.
func oblique(src []float32, from, to [3]int, m Affine, method Interpolation, outside float32) []float32 {
	width := 2
	if method == Cubic {
		width = 4
		for a := range 3 {
			src = prefilter(src, from, a)
		}
	}
	dst := make([]float32, to[0]*to[1]*to[2])
	parallel(to[1]*to[2], func(row int) {
		out := dst[row*to[0]:][:to[0]]
		p := m.Apply([3]float64{0, float64(row % to[1]), float64(row / to[1])})
		for i := range out {
			var t [3]tap
			ok := true
			for a := range 3 {
				x, in := inside(p[a]+float64(i)*m[a][0], from[a])
				ok = ok && in
				if !ok {
					break
				}
				t[a] = taps(x, from[a], method)
			}
			if !ok {
				out[i] = outside
				continue
			}
			var sum float32
			for c := range width {
				for b := range width {
					line := src[from[0]*(t[1].index[b]+from[1]*t[2].index[c]):][:from[0]]
					var s float32
					for a := range width {
						s += t[0].weight[a] * line[t[0].index[a]]
					}
					sum += t[2].weight[c] * t[1].weight[b] * s
				}
			}
			out[i] = sum
		}
	})
	return dst
}
