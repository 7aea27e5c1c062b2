package cpu

import (
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"
)

// at is p[i], p an array of unknown length: the generic kernels take what the assembly takes.
func at(p *float32, i int) *float32 { return (*float32)(unsafe.Add(unsafe.Pointer(p), 4*i)) }

// vector is the 16 elements from p[i].
func vector(p *float32, i int) *[block]float32 {
	return (*[block]float32)(unsafe.Add(unsafe.Pointer(p), 4*i))
}

// genericKernels is the table for machines without a faster one, and what the assembly is tested
// against. Its Winograd transforms take milliseconds of exact arithmetic, which is done once.
var genericKernels = sync.OnceValue(func() *kernels {
	ks := &kernels{name: "generic", rows: maxRows, vectors: 2, outerRows: maxOuterRows, outerTaps: genericOuterTaps,
		transpose: genericTranspose, add: genericAdd, fetch: func(*float32, int) {},
		peak: genericPeak, peakSums: 1,
		winograd: map[toomcook.Tile]*transforms{}}
	for vectors := 1; vectors <= 2; vectors++ {
		for rows := 1; rows <= maxRows; rows++ {
			ks.product[vectors][rows] = genericProduct(rows, vectors)
		}
		for rows := 1; rows <= maxOuterRows; rows++ {
			ks.outer[vectors][rows] = genericOuter(rows, vectors)
		}
	}
	for _, t := range toomcook.Tiles {
		ks.winograd[t] = genericTransforms(t)
	}
	return ks
})

// genericPeak multiplies 16 sums so many times, eight at once, as the portable products do.
func genericPeak(times int) {
	x, y := float32(times), float32(1)
	var a, b, c, d, e, f, g, h float32
	for range 2 * times {
		a += x * y
		b += x * y
		c += x * y
		d += x * y
		e += x * y
		f += x * y
		g += x * y
		h += x * y
		x = y
	}
	peakSink.Store(math.Float32bits(a + b + c + d + e + f + g + h))
}

// peakSink keeps the compiler from leaving genericPeak's sums out.
var peakSink atomic.Uint32

func genericProduct(rows, vectors int) productFunc {
	return func(a, b, c *float32, terms *term, nterms, k, as, bs, bv, cs, cv, count, an, bn, cn int, add bool,
		bias *float32) {
		for i := range count {
			a, b, c := at(a, i*an), at(b, i*bn), at(c, i*cn)
			for m := 0; m < rows; m += 2 {
				second := min(m+1, rows-1)
				for lane := 0; lane < vectors*block; lane += 4 {
					var sums [2][4]float32
					for _, t := range unsafe.Slice(terms, nterms) {
						multiply2x4(&sums, at(a, t[0]+m*as), at(a, t[0]+second*as),
							at(b, t[1]+lane/block*bv+lane%block), k, 1, bs)
					}
					if bias != nil && !add {
						for l, x := range (*[4]float32)(unsafe.Pointer(at(bias, lane))) {
							sums[0][l] += x
							sums[1][l] += x
						}
					}
					storeBoth(&sums, c, m, second, lane, cs, cv, add)
				}
			}
		}
	}
}

func genericOuter(rows, vectors int) outerFunc {
	return func(a, b, c *float32, terms *term, nterms, k, as, bs, bv, cs, cv, count, an, bn, cn int, add bool,
		_ *float32) {
		for i := range count {
			a, b, c := at(a, i*an), at(b, i*bn), at(c, i*cn)
			for m := 0; m < rows; m += 2 {
				second := min(m+1, rows-1)
				for lane := 0; lane < vectors*block; lane += 4 {
					var sums [2][4]float32
					for _, t := range unsafe.Slice(terms, nterms) {
						multiply2x4(&sums, at(a, t[0]+m), at(a, t[0]+second), at(b, t[1]+lane/block*bv+lane%block), k,
							as, bs)
					}
					storeBoth(&sums, c, m, second, lane, cs, cv, add)
				}
			}
		}
	}
}

// multiply2x4 holds eight sums in registers, which is what most machines have for them: sums[m] +=
// x[m][i*xs] * y[i*ys:][:4] for i < k.
func multiply2x4(sums *[2][4]float32, x0, x1, y *float32, k, xs, ys int) {
	a0, a1, a2, a3 := sums[0][0], sums[0][1], sums[0][2], sums[0][3]
	b0, b1, b2, b3 := sums[1][0], sums[1][1], sums[1][2], sums[1][3]
	for i := range k {
		p, q := *at(x0, i*xs), *at(x1, i*xs)
		v := (*[4]float32)(unsafe.Pointer(at(y, i*ys)))
		a0 += p * v[0]
		a1 += p * v[1]
		a2 += p * v[2]
		a3 += p * v[3]
		b0 += q * v[0]
		b1 += q * v[1]
		b2 += q * v[2]
		b3 += q * v[3]
	}
	sums[0], sums[1] = [4]float32{a0, a1, a2, a3}, [4]float32{b0, b1, b2, b3}
}

// storeBoth stores sums of four lanes of two rows, which may be one and the same.
func storeBoth(sums *[2][4]float32, c *float32, m, second, lane, cs, cv int, add bool) {
	to := lane/block*cv + lane%block
	store4(at(c, m*cs+to), &sums[0], add)
	if second > m {
		store4(at(c, second*cs+to), &sums[1], add)
	}
}

func store4(c *float32, sums *[4]float32, add bool) {
	to := (*[4]float32)(unsafe.Pointer(c))
	if !add {
		*to = *sums
		return
	}
	for i := range to {
		to[i] += sums[i]
	}
}

func genericOuterTaps(a, b, c *float32, k, as int) {
	for r := range 5 {
		for m := range 5 {
			for i := range k {
				multiplyAdd(vector(c, (5*r+m)*block), *at(a, r*as+i+m), vector(b, i*block))
			}
		}
	}
}

func genericTranspose(dst, src *float32, dstStep, srcStep int) {
	for i := range block {
		to := vector(dst, i*dstStep)
		for j := range to {
			to[j] = *at(src, j*srcStep+i)
		}
	}
}

func genericAdd(dst, src *float32, n int) {
	for i := range n * block {
		*at(dst, i) += *at(src, i)
	}
}

// multiplyAdd: sum += x * y
func multiplyAdd(sum *[block]float32, x float32, y *[block]float32) {
	sum[0] += x * y[0]
	sum[1] += x * y[1]
	sum[2] += x * y[2]
	sum[3] += x * y[3]
	sum[4] += x * y[4]
	sum[5] += x * y[5]
	sum[6] += x * y[6]
	sum[7] += x * y[7]
	sum[8] += x * y[8]
	sum[9] += x * y[9]
	sum[10] += x * y[10]
	sum[11] += x * y[11]
	sum[12] += x * y[12]
	sum[13] += x * y[13]
	sum[14] += x * y[14]
	sum[15] += x * y[15]
}
