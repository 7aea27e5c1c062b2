package cpu

import "github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"

// A transformFunc multiplies a matrix M with n columns of 16-channel vectors:
//
//	for i := range n {
//		for q := range columns(M) {
//			x[q] = src[i*srcNext+q*srcStep:][:16]
//		}
//		for p := range rows(M) {
//			var sum [16]float32
//			for q := range columns(M) {
//				sum += M[p][q] * x[q]
//			}
//			dst[i*dstNext+p*dstStep:][:16] = sum
//		}
//	}
//
// So dst may be src, where the steps are the same and M has no more rows than columns.
type transformFunc func(dst, src *float32, dstStep, srcStep, dstNext, srcNext, n int)

// An outputFunc is a transformFunc that adds the vector bias to each result.
type outputFunc func(dst, src *float32, dstStep, srcStep, dstNext, srcNext, n int, bias *float32)

// A pastFunc is an outputFunc that stores past the caches, for which dst and the steps are whole
// cache lines, and adds up its results: their differences from the mean that moments begins with,
// and the squares of these.
//
//	for each result y {
//		moments[16:32] += y - moments[:16]
//		moments[32:48] += (y - moments[:16])^2
//	}
type pastFunc func(dst, src *float32, dstStep, srcStep, dstNext, srcNext, n int, bias, moments *float32)

// transforms are the five matrices of one Winograd tile, see package toomcook.
type transforms struct {
	data       transformFunc // BT: inputs -> points
	grad       transformFunc // A: output gradients -> points; nil of a tile that doubles
	weights    transformFunc // G: weights -> points
	weightGrad transformFunc // GT: points -> weight gradients; nil of a tile that doubles
	output     outputFunc    // AT: points -> outputs
	past       pastFunc      // AT, too
}

func genericTransforms(t toomcook.Tile) *transforms {
	m := toomcook.New(t)
	f := &transforms{data: genericTransform(m.BT), weights: genericTransform(m.G), output: genericOutput(m.AT),
		past: genericPast(m.AT)}
	if !t.Doubling {
		f.grad, f.weightGrad = genericTransform(m.A), genericTransform(m.GT)
	}
	return f
}

func genericTransform(m toomcook.Matrix) transformFunc {
	output := genericOutput(m)
	return func(dst, src *float32, dstStep, srcStep, dstNext, srcNext, n int) {
		output(dst, src, dstStep, srcStep, dstNext, srcNext, n, &zeros[0])
	}
}

func genericPast(m toomcook.Matrix) pastFunc {
	output := genericOutput(m)
	return func(dst, src *float32, dstStep, srcStep, dstNext, srcNext, n int, bias, moments *float32) {
		output(dst, src, dstStep, srcStep, dstNext, srcNext, n, bias)
		mean, differences, squares := vector(moments, 0), vector(moments, block), vector(moments, 2*block)
		for i := range n {
			for p := range m {
				for l, y := range vector(dst, i*dstNext+p*dstStep) {
					d := y - mean[l]
					differences[l] += d
					squares[l] += d * d
				}
			}
		}
	}
}

func genericOutput(m toomcook.Matrix) outputFunc {
	coefficients := make([][]float32, len(m))
	for p, row := range m {
		for _, c := range row {
			f, _ := c.Float32()
			coefficients[p] = append(coefficients[p], f)
		}
	}
	return func(dst, src *float32, dstStep, srcStep, dstNext, srcNext, n int, bias *float32) {
		for i := range n {
			var x [9][block]float32
			for q := range coefficients[0] {
				x[q] = *vector(src, i*srcNext+q*srcStep)
			}
			for p, row := range coefficients {
				var sum [block]float32
				for q, c := range row {
					if c != 0 {
						multiplyAdd(&sum, c, &x[q])
					}
				}
				y, b := vector(dst, i*dstNext+p*dstStep), vector(bias, 0)
				for l := range y {
					y[l] = b[l] + sum[l]
				}
			}
		}
	}
}
