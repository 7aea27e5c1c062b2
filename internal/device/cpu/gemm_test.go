package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"
)

// checkKernel compares what a kernel of each instruction set leaves in c with what the generic one
// does. Sums are taken in the same order; what differs is that a fused multiply-add rounds once.
func checkKernel(t *testing.T, what string, n int, run func(ks *kernels, c []float32)) {
	t.Helper()
	start := normals(rand.New(rand.NewPCG(1, 1)), n, 1)
	want := append([]float32(nil), start...)
	run(genericKernels(), want)
	exact := make([]float64, n)
	for i, x := range want {
		exact[i] = float64(x)
	}
	for _, ks := range availableKernels() {
		got := append(alignedSlice(n)[:0], start...) // some kernels store whole cache lines
		run(ks, got)
		if e := relativeError(got, exact); e > 1e-6 {
			t.Errorf("%s: %s differs from the generic kernel by %.2g", ks.name, what, e)
		}
	}
}

func TestProduct(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	a, b := normals(r, 4096, 1), normals(r, 4096, 1)
	terms := []term{{3, 0}, {200, 640}, {77, 320}}
	const bv = 2048 // from one vector to the next
	for rows := 1; rows <= 30; rows++ {
		for vectors := 1; vectors <= 2; vectors++ {
			for _, add := range []bool{false, true} {
				checkKernel(t, fmt.Sprintf("product of %d rows and %d vectors", rows, vectors), 30*16+16*512,
					func(ks *kernels, c []float32) {
						ks.rowsProduct(&product{rows: rows, vectors: vectors, k: 9, as: 11, bs: 16, bv: bv, cs: 16,
							cv: 16 * 512, add: add}, a, b, c, terms)
					})
				checkKernel(t, fmt.Sprintf("product of %d rows and %d vectors with a bias", rows, vectors),
					30*16+16*512, func(ks *kernels, c []float32) {
						ks.rowsProduct(&product{rows: rows, vectors: vectors, k: 9, as: 11, bs: 16, bv: bv, cs: 16,
							cv: 16 * 512, add: add, bias: &a[5]}, a, b, c, terms)
						if add {
							return // to what is there, and no bias
						}
						// it is what products without it give, and the bias
						plain := make([]float32, len(c))
						ks.rowsProduct(&product{rows: rows, vectors: vectors, k: 9, as: 11, bs: 16, bv: bv, cs: 16,
							cv: 16 * 512}, a, b, plain, terms)
						for i := range rows * vectors * 16 {
							v := i / (rows * 16)
							at := v*16*512 + i%(rows*16)
							if want := plain[at] + a[5+16*v+i%16]; c[at] != want {
								t.Fatalf("%s: %d rows, vector %d: %v, want %v", ks.name, rows, v, c[at], want)
							}
						}
					})
				checkKernel(t, fmt.Sprintf("products of %d rows and %d vectors at 3 points", rows, vectors),
					3*30*16+16*512, func(ks *kernels, c []float32) {
						ks.pointsProduct(&product{rows: rows, vectors: vectors, k: 9, as: 11, bs: 16, bv: bv, cs: 16,
							cv: 16 * 512, add: add}, repeats{3, 100, 50, 30 * 16}, a, b, c, terms)
					})
				checkKernel(t, fmt.Sprintf("outer products of %d rows and %d vectors at 3 points", rows, vectors),
					3*30*32, func(ks *kernels, c []float32) {
						ks.pointsOuter(&product{rows: rows, vectors: vectors, k: 13, as: 37, bs: 16, bv: 1024,
							cs: 16 * vectors, cv: 16, add: add}, repeats{3, 100, 50, 30 * 32}, a, b, c, terms)
					})
				checkKernel(t, fmt.Sprintf("outer product of %d rows and %d vectors", rows, vectors), 30*32,
					func(ks *kernels, c []float32) {
						ks.rowsOuter(&product{rows: rows, vectors: vectors, k: 13, as: 37, bs: 16, bv: 1024, cs: 16,
							cv: 30 * 16, add: add}, a, b, c, terms)
					})
			}
		}
	}
}

func TestOuterTaps(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	a, b := normals(r, 400, 1), normals(r, 50*16, 1)
	checkKernel(t, "outer product of taps", 25*16,
		func(ks *kernels, c []float32) { ks.outerTaps(&a[0], &b[0], &c[0], 50, 60) })
}

func TestTranspose(t *testing.T) {
	src := normals(rand.New(rand.NewPCG(4, 4)), 16*20, 1)
	for _, step := range []int{17, -17} {
		checkKernel(t, "transpose", 32*17,
			func(ks *kernels, c []float32) { ks.transpose(&c[16*17], &src[0], step, 20) })
	}
}

func TestAddVectors(t *testing.T) {
	src := normals(rand.New(rand.NewPCG(5, 5)), 48, 1)
	checkKernel(t, "sum", 48, func(ks *kernels, c []float32) { ks.addVectors(c, src) })
}

func TestTransforms(t *testing.T) {
	src := normals(rand.New(rand.NewPCG(6, 6)), 9*480, 1)
	bias := normals(rand.New(rand.NewPCG(7, 7)), 16, 1)
	for _, tile := range toomcook.Tiles {
		for name, of := range map[string]func(*transforms) transformFunc{
			"data":       func(f *transforms) transformFunc { return f.data },
			"grad":       func(f *transforms) transformFunc { return f.grad },
			"weights":    func(f *transforms) transformFunc { return f.weights },
			"weightGrad": func(f *transforms) transformFunc { return f.weightGrad },
			"output": func(f *transforms) transformFunc {
				return func(dst, src *float32, dstStep, srcStep, dstNext, srcNext, n int) {
					f.output(dst, src, dstStep, srcStep, dstNext, srcNext, n, &bias[0])
				}
			},
			"past": func(f *transforms) transformFunc {
				return func(dst, src *float32, dstStep, srcStep, dstNext, srcNext, n int) {
					f.past(dst, src, dstStep, srcStep, dstNext, srcNext, n, &bias[0], &vector(dst, 9*160)[0])
				}
			},
		} {
			if of(genericKernels().winograd[tile]) == nil {
				continue
			}
			checkKernel(t, fmt.Sprintf("%s of %v", name, tile), 9*160+momentsPiece,
				func(ks *kernels, c []float32) {
					of(ks.winograd[tile])(&c[0], &src[0], 160, 480, 16, 32, 10)
				})
		}
	}
}

// BenchmarkProduct shows what the matrix products reach where everything lies in the first-level
// cache.
func BenchmarkProduct(b *testing.B) {
	const k = 128
	x, w, c := alignedSlice(maxRows*k), alignedSlice(k*2*block), alignedSlice(maxRows*2*block)
	for _, ks := range availableKernels() {
		for _, shape := range [][2]int{{12, 2}, {12, 1}, {8, 2}, {4, 1}} {
			rows, vectors := shape[0], shape[1]
			rate := func(name string, run func()) {
				b.Run(fmt.Sprintf("%s/%s%dx%d", ks.name, name, rows, vectors), func(b *testing.B) {
					for b.Loop() {
						run()
					}
					b.ReportMetric(2*float64(rows*vectors*block*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
			rate("product", func() {
				ks.rowsProduct(&product{rows: rows, vectors: vectors, k: k, as: k, bs: vectors * block, bv: block,
					cs: 2 * block, cv: block}, x, w, c, oneTerm)
			})
			rate("outer", func() {
				ks.rowsOuter(&product{rows: rows, vectors: vectors, k: k, as: rows, bs: 2 * block, bv: block,
					cs: 2 * block, cv: block, add: true}, x, w, c, oneTerm)
			})
		}
	}
}
