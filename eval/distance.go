package eval

import "math"

// surface marks the voxels of the label inside a box that touch something else with one of their
// six faces. The box, at lo, must hold every voxel of the label: what lies outside it is something
// else, as is what lies outside the image.
func surface(labels []uint16, shape, lo, size [3]int, label uint16) []bool {
	ni, nj, nk := size[0], size[1], size[2]
	inside := make([]bool, ni*nj*nk)
	for k := range nk {
		for j := range nj {
			row := labels[lo[0]+shape[0]*(lo[1]+j+shape[1]*(lo[2]+k)):][:ni]
			dst := inside[ni*(j+nj*k):][:ni]
			for i, l := range row {
				dst[i] = l == label
			}
		}
	}
	border := make([]bool, len(inside))
	n := 0
	for k := range nk {
		for j := range nj {
			edge := k == 0 || k == nk-1 || j == 0 || j == nj-1
			for i := range ni {
				if inside[n] {
					border[n] = edge || i == 0 || i == ni-1 ||
						!(inside[n-1] && inside[n+1] && inside[n-ni] && inside[n+ni] && inside[n-ni*nj] &&
							inside[n+ni*nj])
				}
				n++
			}
		}
	}
	return border
}

// distances lists how far every voxel of one surface is from the nearest voxel of the other, in
// millimetres.
func distances(from, to []bool, size [3]int, spacing [3]float64) []float64 {
	squared := squaredDistances(to, size, spacing)
	count := 0
	for _, on := range from {
		if on {
			count++
		}
	}
	d := make([]float64, 0, count)
	for n, on := range from {
		if on {
			d = append(d, math.Sqrt(float64(squared[n])))
		}
	}
	return d
}

// squaredDistances is the exact Euclidean distance transform of Felzenszwalb and Huttenlocher
// (Theory of Computing 8, 2012): for every voxel, the square of the distance in millimetres to the
// nearest one that is set, +Inf where none is. It goes axis by axis in linear time, in double
// precision; between the axes the squares are kept in single precision.
func squaredDistances(set []bool, size [3]int, spacing [3]float64) []float32 {
	ni, nj, nk := size[0], size[1], size[2]
	d := make([]float32, len(set))
	for n, on := range set {
		if !on {
			d[n] = float32(math.Inf(1))
		}
	}
	n := max(ni, nj, nk)
	e := &envelope{make([]float64, n), make([]int, n), make([]float64, n)}
	for row := range nj * nk {
		e.transform(d[row*ni:], 1, ni, spacing[0])
	}
	for k := range nk {
		for i := range ni {
			e.transform(d[i+k*ni*nj:], ni, nj, spacing[1])
		}
	}
	for column := range ni * nj {
		e.transform(d[column:], ni*nj, nk, spacing[2])
	}
	return d
}

// envelope is the lower envelope of the parabolas f(q) + (s (x - q))^2 over one line of voxels.
type envelope struct {
	f     []float64 // the line
	site  []int     // the parabolas that take part, by ascending q
	start []float64 // where each begins to be the lowest, in voxels
}

// transform replaces the n elements of line that are stride apart by min over q of f(q) + (s (x -
// q))^2.
func (e *envelope) transform(line []float32, stride, n int, s float64) {
	f := e.f[:n]
	finite := false
	for x := range n {
		f[x] = float64(line[x*stride])
		finite = finite || !math.IsInf(f[x], 1)
	}
	if !finite {
		return
	}
	s2, last := s*s, -1
	for q := range n {
		if math.IsInf(f[q], 1) {
			continue
		}
		begin := math.Inf(-1)
		for last >= 0 {
			v := e.site[last]
			// Where the parabolas of v and q meet: f(v) + s2 (x-v)^2 = f(q) + s2 (x-q)^2.
			begin = ((f[q]-f[v])/s2 + float64(q*q-v*v)) / float64(2*(q-v))
			if begin > e.start[last] {
				break
			}
			last--
			begin = math.Inf(-1)
		}
		last++
		e.site[last], e.start[last] = q, begin
	}
	for x, v := 0, 0; x < n; x++ {
		for v < last && e.start[v+1] < float64(x) {
			v++
		}
		q := e.site[v]
		line[x*stride] = float32(f[q] + s2*float64((x-q)*(x-q)))
	}
}
