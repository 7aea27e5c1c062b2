package cpu

import (
	"math"
	"unsafe"
)

// genericLanes is the table for machines without a faster one, and what the assembly is tested
// against.
var genericLanes = &laneKernels{
	activate: [2][3]func(y, x, r []float32, p *actParams, stream int){
		{activateGeneric(normed, linear), activateGeneric(normedFull, linear), activateGeneric(normedTiled, linear)},
		{activateGeneric(normed, elu), activateGeneric(normedFull, elu), activateGeneric(normedTiled, elu)},
	},
	gradient: [2][3]func(dz, dy, x, r []float32, p *actParams, s *actSums, stream int){
		{gradientGeneric(normed, linearGrad), gradientGeneric(normedFull, linearGrad),
			gradientGeneric(normedTiled, linearGrad)},
		{gradientGeneric(normed, eluGrad), gradientGeneric(normedFull, eluGrad), gradientGeneric(normedTiled, eluGrad)},
	},
	mix:          mixGeneric,
	sum:          sumGeneric,
	moments:      momentsGeneric,
	sumLanes:     sumLanesGeneric,
	softmax:      softmaxGeneric,
	softmaxGrad:  softmaxGradGeneric,
	loss:         lossGeneric,
	lossGrad:     lossGradGeneric,
	energy:       energyGeneric,
	sgd:          sgdGeneric,
	greatest:     greatestGeneric,
	greatestGrad: greatestGradGeneric,
	mean:         meanGeneric,
	meanGrad:     meanGradGeneric,
	lrnScale:     lrnScaleGeneric,
	lrnTerms:     lrnTermsGeneric,
	lrnSpread:    lrnSpreadGeneric,
	dots:         [maxDotRows + 1][2]func(a, b, c *float32, k, as, bs, cs, add int){1: {dotGeneric, dotsGeneric}},
	dotRows:      1,
}

// A preactivation is what is activated: element i, in lane l, which lies d beside the mean.
type preactivation func(d float32, r []float32, i, l int, p *actParams) float32

func normed(d float32, _ []float32, _, l int, p *actParams) float32 { return d*p.scale[l] + p.shift[l] }

// normedFull adds an element of the residual to each.
func normedFull(d float32, r []float32, i, l int, p *actParams) float32 {
	return d*p.scale[l] + p.shift[l] + r[i]*p.residual[l]
}

// normedTiled adds one element of the residual to all channels of a voxel.
func normedTiled(d float32, r []float32, i, l int, p *actParams) float32 {
	return d*p.scale[l] + p.shift[l] + r[i/block]*p.residual[l]
}

func linear(z, slope float32) float32 {
	if z > 0 {
		return z
	}
	return z * slope
}

func elu(z, _ float32) float32 {
	if z > 0 {
		return z
	}
	return exp(z) - 1
}

func activateGeneric(z preactivation, f func(z, slope float32) float32) func(y, x, r []float32, p *actParams, _ int) {
	return func(y, x, r []float32, p *actParams, _ int) {
		for i := range y {
			l := i % block
			y[i] = f(z(x[i]-p.mean[l], r, i, l, p), p.slope[l])
		}
	}
}

// linearGrad returns dz and adds to the slope's gradient.
func linearGrad(dy, z float32, l int, p *actParams, s *actSums) float32 {
	if !(z > 0) {
		s.dslope[l] += dy * z
		dy *= p.slope[l]
	}
	return dy
}

func eluGrad(dy, z float32, _ int, _ *actParams, _ *actSums) float32 {
	if !(z > 0) {
		dy *= exp(z)
	}
	return dy
}

// gradientGeneric adds each element of dz to the sums, too, and times d, which is x - mean.
func gradientGeneric(z preactivation, f func(dy, z float32, l int, p *actParams, s *actSums) float32) func(
	dz, dy, x, r []float32, p *actParams, s *actSums, _ int) {
	return func(dz, dy, x, r []float32, p *actParams, s *actSums, _ int) {
		for i := range dz {
			l := i % block
			d := x[i] - p.mean[l]
			dz[i] = f(dy[i], z(d, r, i, l, p), l, p, s)
			s.dz[l] += dz[i]
			s.dzx[l] += dz[i] * d
		}
	}
}

func mixGeneric(dx, dz, x []float32, p *mixParams, s *[block]float32, _ int) {
	for i := range dx {
		l := i % block
		dx[i] = p.a[l]*dz[i] + p.b[l]*(x[i]-p.mean[l]) + p.c[l]
		s[l] += dx[i]
	}
}

func sumGeneric(x []float32, s *[block]float32) {
	*s = [block]float32{}
	for i := range x {
		s[i%block] += x[i]
	}
}

func momentsGeneric(x []float32, mean, d, s *[block]float32) {
	*d, *s = [block]float32{}, [block]float32{}
	for i := range x {
		v := x[i] - mean[i%block]
		d[i%block] += v
		s[i%block] += v * v
	}
}

func sumLanesGeneric(r, x []float32, add int) {
	for v := range r {
		sum := float32(0)
		for _, y := range x[v*block:][:block] {
			sum += y
		}
		if add != 0 {
			sum += r[v]
		}
		r[v] = sum
	}
}

// voxel is the classes of one voxel: element c lies at block c/16, lane c%16.
type voxel struct {
	first *float32
	step  int // from one block to the next
}

func voxelAt(x *float32, v, step int) voxel { return voxel{at(x, v*block), step} }

func (v voxel) at(c int) *float32 { return at(v.first, c/block*v.step+c%block) }

// clearFrom clears the lanes past the last class.
func (v voxel) clearFrom(classes int) {
	for c := classes; c%block != 0; c++ {
		*v.at(c) = 0
	}
}

// exponentials sets e to exp(x - greatest) and returns their sum and the greatest.
func (v voxel) exponentials(e []float32) (total, greatest float32) {
	for c := range e {
		e[c] = *v.at(c)
	}
	greatest, total = exponentials(e)
	return total, greatest
}

func softmaxGeneric(y, x *float32, n, classes, step int, e *float32, _ int) {
	p := unsafe.Slice(e, classes)
	for i := range n {
		total, _ := voxelAt(x, i, step).exponentials(p)
		out := voxelAt(y, i, step)
		for c, v := range p {
			*out.at(c) = v / total
		}
		out.clearFrom(classes)
	}
}

func softmaxGradGeneric(dx, y, dy *float32, n, classes, step int, _ *float32, _ int) {
	for i := range n {
		p, d, out := voxelAt(y, i, step), voxelAt(dy, i, step), voxelAt(dx, i, step)
		dot := float32(0)
		for c := range classes {
			dot += *p.at(c) * *d.at(c)
		}
		for c := range classes {
			*out.at(c) = *p.at(c) * (*d.at(c) - dot)
		}
		out.clearFrom(classes)
	}
}

func lossGeneric(x *float32, target []float32, classes, step int, e, s, products *float32) {
	p := unsafe.Slice(e, classes)
	for i, t := range target {
		if t < 0 {
			continue
		}
		v, sums := voxelAt(x, i, step), unsafe.Slice(at(s, i%block), (1+3*classes)*block+1)
		total, greatest := v.exponentials(p)
		*at(products, i%block) *= total
		sums[block]++
		for c := range p {
			of := sums[(2+3*c)*block:]
			of[block] += p[c] / total
			if float32(c) == t {
				sums[0] += greatest - *v.at(c)
				of[0] += p[c] / total
				of[2*block]++
			}
		}
	}
}

func lossGradGeneric(dx, x *float32, target []float32, classes, step int, e, by, s *float32, _ int) {
	p, g := unsafe.Slice(e, classes), unsafe.Slice(by, 1+2*classes)
	for i, t := range target {
		out := voxelAt(dx, i, step)
		if t < 0 {
			clear(p)
		} else {
			total, _ := voxelAt(x, i, step).exponentials(p)
			dot := float32(0)
			for c := range p {
				p[c] /= total
				dot += p[c] * g[1+2*c]
				if float32(c) == t {
					dot += p[c] * g[2+2*c]
				}
			}
			for c := range p {
				slope := g[0] + g[1+2*c] - dot
				if float32(c) == t {
					slope += g[2+2*c]
				}
				p[c] *= slope
				if float32(c) == t {
					p[c] -= g[0]
				}
			}
		}
		for c, d := range p {
			*out.at(c) = d
			*at(s, c*block+i%block) += d
		}
		out.clearFrom(classes)
	}
}

func energyGeneric(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return sum
}

func sgdGeneric(p, v, g []float32, h *[4]float32) {
	for i := range p {
		v[i] = h[1]*v[i] + (h[3]*g[i] + h[2]*p[i])
		p[i] -= h[0] * v[i]
	}
}

func dotGeneric(a, b, c *float32, k, _, _, _, add int) {
	sum := dot(unsafe.Slice(a, k), unsafe.Slice(b, k))
	if add != 0 {
		sum += *c
	}
	*c = sum
}

func dotsGeneric(a, b, c *float32, k, as, bs, cs, add int) {
	for j := range dotColumns {
		dotGeneric(a, at(b, j*bs), at(c, j), k, as, bs, cs, add)
	}
}

// dot is the sum of x y, in four partial sums.
func dot(x, y []float32) float32 {
	var s [4]float32
	n := len(x) &^ 3
	for i := 0; i < n; i += 4 {
		x, y := x[i:][:4], y[i:][:4]
		s[0] += x[0] * y[0]
		s[1] += x[1] * y[1]
		s[2] += x[2] * y[2]
		s[3] += x[3] * y[3]
	}
	for i := n; i < len(x); i++ {
		s[0] += x[i] * y[i]
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

// exp is e^x to about one unit in the last place: 2^n e^f with n the nearest integer to x / ln 2
// and a polynomial for e^f on |f| <= ln(2)/2. It is the arithmetic of the assembly.
func exp(x float32) float32 {
	switch {
	case x < expLowest:
		return 0
	case x > expHighest:
		return float32(math.Inf(1))
	case x != x:
		return x
	}
	n := float32(math.RoundToEven(float64(x * log2e)))
	f := x - n*ln2High
	f -= n * ln2Low
	p := float32(expPoly[0])
	for _, c := range expPoly[1:] {
		p = p*f + c
	}
	return p * math.Float32frombits(uint32(int32(n)+127)<<23)
}

const (
	expLowest  = -87.33654 // e^x is the smallest normal number
	expHighest = 88.02969  // 2^127: the last power that one shift of the exponent makes
	log2e      = 1.44269504088896
	ln2High    = 0.693359375 // few enough bits that n*ln2High is exact
	ln2Low     = -2.12194440e-4
)

// expPoly is e^f's Taylor-like minimax polynomial, highest power first (Cephes, expf), with its
// last two terms.
var expPoly = [...]float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
	5.0000001201e-1, 1, 1}
