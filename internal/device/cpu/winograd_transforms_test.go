package cpu

import (
	"math/rand/v2"
	"testing"
)

func TestTransforms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	generic := genericKernels()
	src := normals(r, 40*16*8, 1)
	for _, ks := range availableKernels() {
		for _, tile := range winogradTiles {
			g, k := generic.winograd[tile], ks.winograd[tile]
			wrap := func(f outputFunc) transformFunc {
				return func(dst, src *float32, dstStep, srcStep, dstNext, srcNext, n int) {
					f(dst, src, dstStep, srcStep, dstNext, srcNext, n, &zeros[0])
				}
			}
			for name, p := range map[string][2]transformFunc{"data": {g.data, k.data}, "grad": {g.grad, k.grad}, "weights": {g.weights, k.weights}, "weightGrad": {g.weightGrad, k.weightGrad}, "output": {wrap(g.output), wrap(k.output)}} {
				a, b := make([]float32, 8*160), make([]float32, 8*160)
				p[0](&a[0], &src[0], 160, 480, 16, 32, 10)
				p[1](&b[0], &src[0], 160, 480, 16, 32, 10)
				want := make([]float64, len(a))
				for i := range a {
					want[i] = float64(a[i])
				}
				if e := relativeError(b, want); e > 1e-6 {
					t.Errorf("%s F(%d,%d) %s: %g", ks.name, tile.Outputs, tile.Taps, name, e)
				}
			}
		}
	}
}
