package cpu

import "unsafe"

//go:generate go run ./asm/lanes -pkg cpu -out lanes_kernels_amd64.s -stubs lanes_kernels_amd64.go -table lanes_tables_amd64.go
//go:generate go run ./asm/lanes -pkg cpu -out lanes_kernels_arm64.s -stubs lanes_kernels_arm64.go -table lanes_tables_arm64.go

// The kernels that stream through memory: what a network does between its convolutions. Each works
// on one chunk of a plane, voxel by voxel, all 16 lanes at once; element i belongs to lane i mod
// 16. Lengths are multiples of 16 for the assembly; the generic versions take any length, and
// finish what the assembly leaves over.

// The blocks of numbers below are aliases, not types of their own, because the assembler's
// declarations can only spell them out.

// actParams are the numbers of one plane, a lane each, in
//
//	z = (x - mean) scale + shift + r residual        act(z) = z where z > 0, else z slope (or exp(z) - 1)
type actParams = struct {
	mean, scale, shift, residual, slope [block]float32
}

// actSums are what a gradient kernel adds up over a chunk.
type actSums = struct {
	dz, dzx, dslope [block]float32 // sum of dz, of dz (x - mean), of dy z where z is not positive
}

// mixParams are the numbers of one plane in dx = a dz + b (x - mean) + c.
type mixParams = struct {
	a, b, c, mean [block]float32
}

// windows are n windows of planes times rows times columns vectors, with so many elements from
// plane to plane, from row to row and from window to window.
type windows = struct {
	n, planes, rows, columns, planeStep, rowStep, next int
}

// laneKernels is the table of one instruction set. Where stream is not 0, the first result is
// aligned, and stored past the caches.
type laneKernels struct {
	// activate: y[i] = act(z[i]), with r[i] (full residual), r[i/16] (tiled) or none. [1] is ELU,
	// [0] all others.
	activate [2][3]func(y, x, r []float32, p *actParams, stream int)
	// gradient: dz[i] = dy[i] act'(z[i]), and adds to the sums.
	gradient [2][3]func(dz, dy, x, r []float32, p *actParams, s *actSums, stream int)
	// mix: dx[i] = a dz[i] + b (x[i] - mean) + c, and s[lane] += sum of dx
	mix func(dx, dz, x []float32, p *mixParams, s *[block]float32, stream int)
	// sum: s[lane] = sum of x
	sum func(x []float32, s *[block]float32)
	// moments: d[lane] = sum of x - mean, s[lane] = sum of (x - mean)^2
	moments func(x []float32, mean, d, s *[block]float32)
	// sumLanes: r[v] = sum of the lanes of x[v], added to r[v] where add is not 0
	sumLanes func(r, x []float32, add int)
	// The kernels over classes take n voxels, a multiple of 16: class c of voxel v at x[v*16 +
	// c/16*step + c%16]. e is memory for the classes of 16 voxels, see classRows.
	//
	// softmax: y[v] = softmax over the classes of x[v]
	softmax func(y, x *float32, n, classes, step int, e *float32, stream int)
	// softmaxGrad: dx = y (dy - sum over the classes of y dy); e is twice as large
	softmaxGrad func(dx, y, dy *float32, n, classes, step int, e *float32, stream int)
	// loss, for the voxels v whose target t is not negative, p their softmax: adds to s[0] greatest
	// - x[t], to s[1] 1, to s[2+3c], s[3+3c] and s[4+3c] p[c] where c is t, p[c], and 1 where c is
	// t; products *= sum over c of exp(x[c] - greatest). Each s[i] and products are 16 partial
	// results, that of voxel v in lane v mod 16.
	loss func(x *float32, target []float32, classes, step int, e, s, products *float32)
	// lossGrad: dx[c] = p[c] (ce + g[c] - sum p g) - ce where c is t, 0 where t is negative; g[c] =
	// by[1+2c], + by[2+2c] where c is t; ce = by[0]. Adds dx[c] to s[c], which is 16 partial sums.
	lossGrad func(dx, x *float32, target []float32, classes, step int, e, by, s *float32, stream int)
	// energy: sum of x^2 in float64
	energy func(x []float32) float64
	// sgd: g = h[3] g + h[2] p; v = h[1] v + g; p -= h[0] v
	sgd func(p, v, g []float32, h *[4]float32)
	// The kernels of pooling take windows of vectors, one result each.
	//
	// greatest: y[i] = the greatest vector of window i, lane by lane; NaN is greater than all
	greatest func(y, x *float32, w *windows)
	// greatestGrad: dx[v] += dy[i] where v is the first greatest element of window i, or its last
	// NaN
	greatestGrad func(dx, x, dy *float32, w *windows)
	// mean: y[i] = factor times the sum of window i
	mean func(y, x *float32, w *windows, factor float32)
	// meanGrad: dx[v] += factor dy[i] for all vectors v of window i
	meanGrad func(dx, dy *float32, w *windows, factor float32)
	// The kernels of local response normalisation take n vectors of a voxel's channels.
	//
	// lrnScale: scale[c] = k + alpha sum over j < size of x[c+j]^2, power[c] = scale[c]^(-3/4)
	lrnScale func(power, scale, x *float32, n, size int, alpha, k float32)
	// lrnTerms: dy[c] *= power[c], term[c] = dy[c] x[c] / scale[c]
	lrnTerms func(dy, term, x, power, scale *float32, n int)
	// lrnSpread: x[c] = dy[c] - factor x[c] sum over j < size of term[c+j]
	lrnSpread func(x, dy, term *float32, n, size int, factor float32)
	// dots: c[i*cs+j] = sum over k of a[i*as+k] b[j*bs+k], added to c where add is not 0, for [i =
	// 1..dotRows rows] and [0: one, 1: four columns]; k is a multiple of 16
	dots    [maxDotRows + 1][2]func(a, b, c *float32, k, as, bs, cs, add int)
	dotRows int
}

const (
	maxDotRows = 6 // 6 x 4 accumulators leave registers for the factors
	dotColumns = 4
)

// lanesOf returns the table that goes with an instruction set's name.
func lanesOf(name string) *laneKernels {
	if k, ok := laneTables()[name]; ok {
		return k
	}
	return genericLanes
}

// whole is the number of elements in whole vectors: what the assembly takes.
func whole(n int) int { return n &^ (block - 1) }

// The methods below run the table's kernel, and the generic one on what is left over.

func (k *laneKernels) runActivate(elu, residual int, y, x, r []float32, p *actParams, stream bool) {
	n := whole(len(y))
	if n > 0 {
		k.activate[elu][residual](y[:n], x[:n], r, p, past(stream, y))
	}
	if n < len(y) {
		genericLanes.activate[elu][residual](y[n:], x[n:], tail(r, n, len(y)), p, 0)
	}
}

func (k *laneKernels) runGradient(elu, residual int, dz, dy, x, r []float32, p *actParams, s *actSums, stream bool) {
	n := whole(len(dz))
	if n > 0 {
		k.gradient[elu][residual](dz[:n], dy[:n], x[:n], r, p, s, past(stream, dz))
	}
	if n < len(dz) {
		genericLanes.gradient[elu][residual](dz[n:], dy[n:], x[n:], tail(r, n, len(dz)), p, s, 0)
	}
}

// past is what a kernel takes as "stream": storing past the caches needs whole cache lines.
func past(stream bool, y []float32) int {
	if stream && uintptr(unsafe.Pointer(&y[0]))%(4*line) == 0 {
		return 1
	}
	return 0
}

// tail is what belongs to elements n.. of a residual of as many elements as x; a tiled one is never
// left over.
func tail(r []float32, n, length int) []float32 {
	if len(r) < length {
		return nil
	}
	return r[n:length]
}

func (k *laneKernels) runMix(dx, dz, x []float32, p *mixParams, s *[block]float32, stream bool) {
	n := whole(len(dx))
	if n > 0 {
		k.mix(dx[:n], dz[:n], x[:n], p, s, past(stream, dx))
	}
	if n < len(dx) {
		genericLanes.mix(dx[n:], dz[n:], x[n:], p, s, 0)
	}
}

func (k *laneKernels) runSum(x []float32, s *[block]float32) {
	n := whole(len(x))
	k.sum(x[:n], s)
	for i, v := range x[n:] {
		s[i] += v
	}
}

func (k *laneKernels) runMoments(x []float32, mean, d, s *[block]float32) {
	n := whole(len(x))
	k.moments(x[:n], mean, d, s)
	for i, v := range x[n:] {
		v -= mean[i]
		d[i] += v
		s[i] += v * v
	}
}

// classRows is the number of float32 that the classes of 16 voxels take, transposed: a row of 16
// each, for whole blocks of classes. Rows past the last class are zero before and after.
func classRows(classes int) int { return (classes + block - 1) / block * block * block }

func (k *laneKernels) runSoftmax(y, x []float32, n, classes, step int, e []float32, stream bool) {
	m := whole(n)
	if m > 0 {
		k.softmax(&y[0], &x[0], m, classes, step, &e[0], past(stream, y))
	}
	if m < n {
		genericLanes.softmax(&y[m*block], &x[m*block], n-m, classes, step, &e[0], 0)
	}
}

func (k *laneKernels) runSoftmaxGrad(dx, y, dy []float32, n, classes, step int, e []float32, stream bool) {
	m := whole(n)
	if m > 0 {
		k.softmaxGrad(&dx[0], &y[0], &dy[0], m, classes, step, &e[0], past(stream, dx))
	}
	if m < n {
		genericLanes.softmaxGrad(&dx[m*block], &y[m*block], &dy[m*block], n-m, classes, step, &e[0], 0)
	}
}

func (k *laneKernels) runLoss(x, target []float32, classes, step int, e, s, products []float32) {
	m := whole(len(target))
	if m > 0 {
		k.loss(&x[0], target[:m], classes, step, &e[0], &s[0], &products[0])
	}
	if m < len(target) {
		genericLanes.loss(&x[m*block], target[m:], classes, step, &e[0], &s[0], &products[0])
	}
}

func (k *laneKernels) runLossGrad(dx, x, target []float32, classes, step int, e, by, s []float32, stream bool) {
	m := whole(len(target))
	if m > 0 {
		k.lossGrad(&dx[0], &x[0], target[:m], classes, step, &e[0], &by[0], &s[0], past(stream, dx))
	}
	if m < len(target) {
		genericLanes.lossGrad(&dx[m*block], &x[m*block], target[m:], classes, step, &e[0], &by[0], &s[0], 0)
	}
}

func (k *laneKernels) runEnergy(x []float32) float64 {
	n := whole(len(x))
	return k.energy(x[:n]) + genericLanes.energy(x[n:])
}

func (k *laneKernels) runSGD(p, v, g []float32, h *[4]float32) {
	n := whole(len(p))
	k.sgd(p[:n], v[:n], g[:n], h)
	genericLanes.sgd(p[n:], v[n:], g[n:], h)
}
