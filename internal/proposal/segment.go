package proposal

import (
	"math"
	"slices"
)

// A picture is three planes of values from 0 to 255, one behind the other, rows of width.
type picture struct {
	width, height int
	planes        []float32
}

func (p picture) area() int { return p.width * p.height }

func (p picture) plane(c int) []float32 { return p.planes[c*p.area():][:p.area()] }

// hsv is hue from 0 to 180, saturation and value from 0 to 255.
func hsv(pixels []byte) []float32 {
	n := len(pixels) / 3
	out := make([]float32, 3*n)
	for i := range n {
		r, g, b := float32(pixels[3*i]), float32(pixels[3*i+1]), float32(pixels[3*i+2])
		high, low := max(r, g, b), min(r, g, b)
		var hue float32
		if span := high - low; span > 0 {
			switch high {
			case r:
				hue = (g - b) / span
			case g:
				hue = 2 + (b-r)/span
			default:
				hue = 4 + (r-g)/span
			}
			if hue < 0 {
				hue += 6
			}
			out[n+i] = 255 * span / high
		}
		out[i], out[2*n+i] = 30*hue, high
	}
	return out
}

// lab is CIE L*a*b* of sRGB under D65: L* times 2.55, a* and b* plus 128.
func lab(pixels []byte) []float32 {
	var linear [256]float64
	for v := range linear {
		x := float64(v) / 255
		if linear[v] = x / 12.92; x > 0.04045 {
			linear[v] = math.Pow((x+0.055)/1.055, 2.4)
		}
	}
	f := func(t float64) float64 {
		if t > 216.0/24389 {
			return math.Cbrt(t)
		}
		return (24389.0/27*t + 16) / 116
	}
	n := len(pixels) / 3
	out := make([]float32, 3*n)
	for i := range n {
		r, g, b := linear[pixels[3*i]], linear[pixels[3*i+1]], linear[pixels[3*i+2]]
		x := f((0.412453*r + 0.357580*g + 0.180423*b) / 0.950456)
		y := f(0.212671*r + 0.715160*g + 0.072169*b)
		z := f((0.019334*r + 0.119193*g + 0.950227*b) / 1.088754)
		out[i] = float32(2.55 * (116*y - 16))
		out[n+i], out[2*n+i] = float32(500*(x-y)+128), float32(200*(y-z)+128)
	}
	return out
}

// mirrored is a place beyond an edge: the pixel as far inside as it is outside.
func mirrored(i, n int) int {
	if n == 1 {
		return 0
	}
	for i < 0 || i >= n {
		if i < 0 {
			i = -i
		} else {
			i = 2*(n-1) - i
		}
	}
	return i
}

// blur is a Gaussian blur.
func (p picture) blur(sigma float64) picture {
	radius := int(math.Round(4 * sigma))
	kernel, sum := make([]float64, 2*radius+1), 0.0
	for i := range kernel {
		d := float64(i - radius)
		kernel[i] = math.Exp(-d * d / (2 * sigma * sigma))
		sum += kernel[i]
	}
	for i := range kernel {
		kernel[i] /= sum
	}
	across, out := make([]float32, len(p.planes)), make([]float32, len(p.planes))
	for c := range 3 {
		from, mid, to := p.plane(c), across[c*p.area():], out[c*p.area():]
		for y := range p.height {
			row := from[y*p.width:][:p.width]
			for x := range p.width {
				v := 0.0
				for i, k := range kernel {
					v += k * float64(row[mirrored(x+i-radius, p.width)])
				}
				mid[y*p.width+x] = float32(v)
			}
		}
		for y := range p.height {
			for x := range p.width {
				v := 0.0
				for i, k := range kernel {
					v += k * float64(mid[mirrored(y+i-radius, p.height)*p.width+x])
				}
				to[y*p.width+x] = float32(v)
			}
		}
	}
	return picture{p.width, p.height, out}
}

// forest is disjoint sets of pixels.
type forest struct{ parent, size []int32 }

func newForest(n int) forest {
	f := forest{make([]int32, n), make([]int32, n)}
	for i := range n {
		f.parent[i], f.size[i] = int32(i), 1
	}
	return f
}

func (f forest) root(i int32) int32 {
	for f.parent[i] != i {
		f.parent[i] = f.parent[f.parent[i]]
		i = f.parent[i]
	}
	return i
}

// join makes one set of two, given their roots, and returns its root.
func (f forest) join(a, b int32) int32 {
	if f.size[a] < f.size[b] {
		a, b = b, a
	}
	f.parent[b] = a
	f.size[a] += f.size[b]
	return a
}

// segment divides the picture (Felzenszwalb and Huttenlocher 2004): edges between neighbouring
// pixels, of which each has four, weigh the distance of their colours; taken from the lightest to
// the heaviest, an edge joins two regions if it weighs at most what the heaviest edge within either
// does, plus k over the region's area. Regions of less than an area are then joined to a neighbour.
// labels (height, width) are numbers from 0 to n - 1.
func (p picture) segment(k float64, least int) (labels []int32, n int) {
	area := p.area()
	type edge struct{ a, b int32 }
	edges, order := make([]edge, 0, 2*area), make([]uint64, 0, 2*area)
	add := func(i, j int) {
		sum := 0.0
		for c := range 3 {
			d := float64(p.planes[c*area+i] - p.planes[c*area+j])
			sum += d * d
		}
		// weights are not negative, so that their bits are in their order
		order = append(order, uint64(math.Float32bits(float32(math.Sqrt(sum))))<<32|uint64(len(edges)))
		edges = append(edges, edge{int32(i), int32(j)})
	}
	for y := range p.height {
		for x := range p.width {
			i := y*p.width + x
			if x+1 < p.width {
				add(i, i+1)
			}
			if y+1 < p.height {
				add(i, i+p.width)
			}
		}
	}
	slices.Sort(order)
	f, threshold := newForest(area), make([]float64, area)
	for i := range threshold {
		threshold[i] = k
	}
	for _, o := range order {
		e, weight := edges[uint32(o)], float64(math.Float32frombits(uint32(o>>32)))
		a, b := f.root(e.a), f.root(e.b)
		if a != b && weight <= threshold[a] && weight <= threshold[b] {
			a = f.join(a, b)
			threshold[a] = weight + k/float64(f.size[a])
		}
	}
	for _, o := range order {
		e := edges[uint32(o)]
		if a, b := f.root(e.a), f.root(e.b); a != b && (int(f.size[a]) < least || int(f.size[b]) < least) {
			f.join(a, b)
		}
	}
	labels = make([]int32, area)
	number := make(map[int32]int32)
	for i := range labels {
		root := f.root(int32(i))
		label, known := number[root]
		if !known {
			label = int32(len(number))
			number[root] = label
		}
		labels[i] = label
	}
	return labels, len(number)
}
