package cpu

import (
	"unsafe"

	"github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"
)

// at is p[i], p an array of unknown length: the generic kernels take what the assembly takes.
func at(p *float32, i int) *float32 {
	return (*float32)(unsafe.Add(unsafe.Pointer(p), 4*i))
}

// vector is the 16 elements from p[i].
func vector(p *float32, i int) *[block]float32 {
	return (*[block]float32)(unsafe.Add(unsafe.Pointer(p), 4*i))
}

// genericKernels is the table for machines without a faster one, and what the assembly is tested against.
func genericKernels() *kernels {
	ks := &kernels{name: "generic", rows: maxRows, vectors: 2, outerRows: maxOuterRows, outerTaps: genericOuterTaps, transpose: genericTranspose, add: genericAdd, winograd: map[toomcook.Tile]*transforms{}}
	for vectors := 1; vectors <= 2; vectors++ {
		for rows := 1; rows <= maxRows; rows++ {
			ks.product[vectors][rows] = genericProduct(rows, vectors)
		}
		for rows := 1; rows <= maxOuterRows; rows++ {
			ks.outer[vectors][rows] = genericOuter(rows, vectors)
		}
	}
	for _, t := range winogradTiles {
		ks.winograd[t] = genericTransforms(toomcook.New(t))
	}
	return ks
}

func genericProduct(rows, vectors int) productFunc {
	return func(a, b, c *float32, terms *term, nterms, k, as, bs, cs, cv, count int, add bool) {
		ts := unsafe.Slice(terms, nterms)
		for m := range count * rows {
			for v := range vectors {
				var sum [block]float32
				for _, t := range ts {
					for i := range k {
						multiplyAdd(&sum, *at(a, t[0]+m*as+i), vector(b, t[1]+i*bs+v*block))
					}
				}
				store(vector(c, m*cs+v*cv), &sum, add)
			}
		}
	}
}

func genericOuter(rows, vectors int) outerFunc {
	return func(a, b, c *float32, k, as, bs, bv, cs, count int, add bool) {
		for m := range count * rows {
			for v := range vectors {
				var sum [block]float32
				for i := range k {
					multiplyAdd(&sum, *at(a, i*as+m), vector(b, i*bs+v*bv))
				}
				store(vector(c, m*cs+v*block), &sum, add)
			}
		}
	}
}

func genericOuterTaps(a, b, c *float32, k, as int) {
	for r := range 5 {
		for m := range 5 {
			var sum [block]float32
			for i := range k {
				multiplyAdd(&sum, *at(a, r*as+i+m), vector(b, i*block))
			}
			store(vector(c, (5*r+m)*block), &sum, true)
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
	for i := range n {
		store(vector(dst, i*block), vector(src, i*block), true)
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

func store(c, sum *[block]float32, add bool) {
	if !add {
		*c = *sum
		return
	}
	for i := range c {
		c[i] += sum[i]
	}
}
