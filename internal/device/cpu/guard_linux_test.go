package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"
	"github.com/voxsaw/voxsaw/internal/device/devicetest"
)

// Nothing checks the bounds of assembly. So here each operand ends, and in a second run begins, at
// a page of memory that may not be read or written: one element too far is a fault.

// guardedPages maps memory for at least n float32 between two such pages; free gives it back.
func guardedPages(t testing.TB, n int) (pages []float32, free func()) {
	t.Helper()
	page := os.Getpagesize()
	size := max(1, (4*n+page-1)/page) * page
	raw, err := unix.Mmap(-1, 0, size+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	for _, guard := range [][]byte{raw[:page], raw[page+size:]} {
		if err := unix.Mprotect(guard, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&raw[page])), size/4), func() {
		if err := unix.Munmap(raw); err != nil {
			t.Error(err)
		}
	}
}

// atEdge is n elements at the end of guarded pages, or at their beginning.
func atEdge(pages []float32, n int, end bool) Slice {
	if end {
		return pages[len(pages)-n:]
	}
	return pages[:n:n]
}

// guardedOperands hands out operands in the order in which they are asked for, the same values each
// time.
type guardedOperands struct {
	pages [][]float32
	end   bool
	r     *rand.Rand
	given []Slice
}

// of is n elements, all of the given value.
func (o *guardedOperands) of(n int, value float32) Slice {
	s := atEdge(o.pages[len(o.given)], n, o.end)
	for i := range s {
		s[i] = value
	}
	o.given = append(o.given, s)
	return s
}

// normals is n normal values.
func (o *guardedOperands) normals(n int) Slice {
	s := o.of(n, 0)
	for i := range s {
		s[i] = float32(o.r.NormFloat64())
	}
	return s
}

// sixteen is 16 normal values.
func (o *guardedOperands) sixteen() *[block]float32 { return (*[block]float32)(o.normals(block)) }

// scratch is n zeros, in which a kernel may leave anything.
func (o *guardedOperands) scratch(n int) Slice {
	s := o.of(n, 0)
	o.given[len(o.given)-1] = nil
	return s
}

// classes is the activations of n voxels, step elements from one block of classes to the next.
func (o *guardedOperands) classes(n, classes, step int) Slice {
	s := o.normals(extent(n*block, [2]int{(classes + block - 1) / block, step}))
	for v := range n {
		voxelAt(&s[0], v, step).clearFrom(classes)
	}
	return s
}

// bounds runs kernels on guarded operands.
type bounds struct {
	t     *testing.T
	r     *rand.Rand // of sizes
	pages [][]float32
}

// check runs a kernel of each instruction set, at both edges of pages, and compares all operands
// with what the generic kernel leaves.
func (b *bounds) check(what string, run func(ks *kernels, k *laneKernels, o *guardedOperands)) {
	b.t.Helper()
	for _, end := range []bool{true, false} {
		var want [][]float32
		for _, ks := range slices.Backward(availableKernels()) { // the generic one is last
			o := &guardedOperands{pages: b.pages, end: end, r: rand.New(rand.NewPCG(1, 1))}
			func() {
				defer func() {
					if err := recover(); err != nil {
						b.t.Fatalf("%s: %s, operands at the end of their pages %v: %v", ks.name, what, end, err)
					}
				}()
				run(ks, lanesOf(ks.name), o)
			}()
			for i, s := range o.given {
				if ks.name == "generic" {
					want = append(want, slices.Clone(s))
				} else if e := distance(s, want[i]); !(e <= 2e-6) {
					b.t.Fatalf("%s: %s, operand %d of %d elements: differs from the generic kernel's by %.2g", ks.name,
						what, i, len(s), e)
				}
			}
		}
	}
}

// distance is that of got from want, relative to want's norm; to a norm of at least 1 an element,
// for sums may cancel.
func distance(got, want []float32) float64 {
	squares, norm := 0.0, float64(len(want))
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		squares += d * d
		norm += float64(w) * float64(w)
	}
	return math.Sqrt(squares / max(1, norm))
}

// extent is the number of elements from the first to the last one of so many (a number, a step)
// along some axes, width elements at each place.
func extent(width int, axes ...[2]int) int {
	for _, a := range axes {
		width += (a[0] - 1) * a[1]
	}
	return width
}

func TestBounds(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	b := &bounds{t: t}
	for range 8 {
		pages, free := guardedPages(t, 1<<15)
		defer free()
		b.pages = append(b.pages, pages)
	}
	for round := range 20 {
		if !devicetest.InTurn(t, round, 4) {
			continue
		}
		b.r = rand.New(rand.NewPCG(3, uint64(round)))
		for vectors := 1; vectors <= 2; vectors++ {
			for rows := 1; rows <= maxRows; rows++ {
				b.products(rows, vectors)
			}
		}
		b.packing()
		for _, tile := range toomcook.Tiles {
			b.transforms(tile)
		}
		b.streams()
		b.neighbours()
		b.classes()
		b.dots()
	}
}

// products checks a kernel of each kind of product.
func (b *bounds) products(rows, vectors int) {
	terms := make([]term, 1+b.r.IntN(3))
	var ta, tb int
	for i := range terms {
		terms[i] = term{b.r.IntN(40), block * b.r.IntN(5)}
		ta, tb = max(ta, terms[i][0]), max(tb, terms[i][1])
	}
	k, count, add, biased := 1+b.r.IntN(20), 1+b.r.IntN(4), b.r.IntN(2) == 0, b.r.IntN(2) == 0
	as, bs, cs := k+b.r.IntN(9), block*(vectors+b.r.IntN(2)), block*(vectors+b.r.IntN(3))
	an, bn, cn := b.r.IntN(200), block*b.r.IntN(9), rows*cs
	bv, cv := block*(1+b.r.IntN(40)), block
	if vectors == 2 && b.r.IntN(2) == 0 {
		cv = count * cn
	}
	b.check(fmt.Sprintf("product of %d rows, %d vectors, %d terms of %d, %d times", rows, vectors, len(terms), k,
		count), func(ks *kernels, _ *laneKernels, o *guardedOperands) {
		x, y := o.normals(ta+extent(k, [2]int{rows, as}, [2]int{count, an})),
			o.normals(tb+extent(block, [2]int{vectors, bv}, [2]int{k, bs}, [2]int{count, bn}))
		z := o.normals(extent(block, [2]int{rows, cs}, [2]int{vectors, cv}, [2]int{count, cn}))
		var bias *float32
		if biased {
			bias = &o.normals(vectors * block)[0]
		}
		if f := ks.product[vectors][rows]; f != nil {
			f(&x[0], &y[0], &z[0], &terms[0], len(terms), k, as, bs, bv, cs, cv, count, an, bn, cn, add, bias)
			return
		}
		for i := range count {
			ks.rowsProduct(&product{rows: rows, vectors: vectors, k: k, as: as, bs: bs, bv: bv, cs: cs, cv: cv,
				add: add, bias: bias}, x[i*an:], y[i*bn:], z[i*cn:], terms)
		}
	})
	as = rows + b.r.IntN(30)
	b.check(fmt.Sprintf("outer product of %d rows, %d vectors, %d terms of %d, %d times", rows, vectors, len(terms), k,
		count), func(ks *kernels, _ *laneKernels, o *guardedOperands) {
		x, y := o.normals(ta+extent(rows, [2]int{k, as}, [2]int{count, an})),
			o.normals(tb+extent(block, [2]int{vectors, bv}, [2]int{k, bs}, [2]int{count, bn}))
		z := o.normals(extent(block, [2]int{rows, cs}, [2]int{vectors, cv}, [2]int{count, cn}))
		ks.pointsOuter(&product{rows: rows, vectors: vectors, k: k, as: as, bs: bs, bv: bv, cs: cs, cv: cv, add: add},
			repeats{count, an, bn, cn}, x, y, z, terms)
	})
}

// packing checks what moves and adds vectors.
func (b *bounds) packing() {
	from, to, n, k := block+b.r.IntN(40), block+b.r.IntN(40), 1+b.r.IntN(9), 1+b.r.IntN(40)
	b.check(fmt.Sprintf("transpose, steps %d and %d", from, to), func(ks *kernels, _ *laneKernels, o *guardedOperands) {
		dst, src := o.normals(extent(block, [2]int{block, to})), o.normals(extent(block, [2]int{block, from}))
		ks.transpose(&dst[0], &src[0], to, from)
		ks.transpose(&dst[15*to], &src[0], -to, from)
	})
	b.check(fmt.Sprintf("sum of %d vectors", n), func(ks *kernels, _ *laneKernels, o *guardedOperands) {
		ks.addVectors(o.normals(n*block), o.normals(n*block))
	})
	b.check(fmt.Sprintf("outer product of taps, %d voxels", k), func(ks *kernels, _ *laneKernels, o *guardedOperands) {
		as := k + 4 + n
		x, y, z := o.normals(extent(k+4, [2]int{5, as})), o.normals(k*block), o.normals(25*block)
		ks.outerTaps(&x[0], &y[0], &z[0], k, as)
	})
}

// transforms checks the transforms of a tile, vectors or points next to each other.
func (b *bounds) transforms(tile toomcook.Tile) {
	m := toomcook.New(tile)
	n, gap := 1+b.r.IntN(12), block*b.r.IntN(4)
	for name, f := range map[string]struct {
		m  toomcook.Matrix
		of func(*transforms) transformFunc
	}{
		"data":       {m.BT, func(f *transforms) transformFunc { return f.data }},
		"grad":       {m.A, func(f *transforms) transformFunc { return f.grad }},
		"weights":    {m.G, func(f *transforms) transformFunc { return f.weights }},
		"weightGrad": {m.GT, func(f *transforms) transformFunc { return f.weightGrad }},
		"output":     {m.AT, nil},
		"past":       {m.AT, nil},
	} {
		rows, columns := len(f.m), len(f.m[0])
		if f.of != nil && f.of(genericKernels().winograd[tile]) == nil {
			continue
		}
		for _, nextTo := range []bool{true, false} {
			dstStep, dstNext, srcStep, srcNext := n*block+gap, block, n*block+gap, block
			if nextTo {
				dstStep, dstNext, srcStep, srcNext = block, rows*block+gap, block, columns*block+gap
			}
			what := fmt.Sprintf("%s of %v, %d vectors, points next to each other %v", name, tile, n, nextTo)
			b.check(what, func(ks *kernels, _ *laneKernels, o *guardedOperands) {
				dst, src := o.normals(extent(block, [2]int{rows, dstStep}, [2]int{n, dstNext})),
					o.normals(extent(block, [2]int{columns, srcStep}, [2]int{n, srcNext}))
				if f.of != nil {
					f.of(ks.winograd[tile])(&dst[0], &src[0], dstStep, srcStep, dstNext, srcNext, n)
				} else if name == "past" {
					ks.winograd[tile].past(&dst[0], &src[0], dstStep, srcStep, dstNext, srcNext, n, &o.sixteen()[0],
						&o.normals(momentsPiece)[0])
				} else {
					ks.winograd[tile].output(&dst[0], &src[0], dstStep, srcStep, dstNext, srcNext, n, &o.sixteen()[0])
				}
			})
		}
	}
}

// neighbours checks the kernels that look at several vectors for each result.
func (b *bounds) neighbours() {
	w := windows{n: 1 + b.r.IntN(5), planes: 1 + b.r.IntN(3), rows: 1 + b.r.IntN(4), columns: 1 + b.r.IntN(4),
		next: block * (1 + b.r.IntN(3))}
	w.rowStep = block * (w.columns + b.r.IntN(9))
	w.planeStep = w.rowStep * (w.rows + b.r.IntN(3))
	n := w.n
	size := extent(block, [2]int{n, w.next}, [2]int{w.planes, w.planeStep}, [2]int{w.rows, w.rowStep},
		[2]int{w.columns, block})
	check := func(what string, run func(k *laneKernels, o *guardedOperands)) {
		b.check(fmt.Sprintf("%s of windows %+v", what, w),
			func(_ *kernels, k *laneKernels, o *guardedOperands) { run(k, o) })
	}
	check("greatest", func(k *laneKernels, o *guardedOperands) {
		y, x := o.of(n*block, 0), o.normals(size)
		k.greatest(&y[0], &x[0], &w)
	})
	check("gradient of the greatest", func(k *laneKernels, o *guardedOperands) {
		dx, x, dy := o.normals(size), o.normals(size), o.normals(n*block)
		k.greatestGrad(&dx[0], &x[0], &dy[0], &w)
	})
	check("mean", func(k *laneKernels, o *guardedOperands) {
		y, x := o.of(n*block, 0), o.normals(size)
		k.mean(&y[0], &x[0], &w, 0.3)
	})
	check("gradient of the mean", func(k *laneKernels, o *guardedOperands) {
		dx, dy := o.normals(size), o.normals(n*block)
		k.meanGrad(&dx[0], &dy[0], &w, 0.3)
	})
	window := 1 + b.r.IntN(7)
	b.check(fmt.Sprintf("normalisation of %d vectors over %d channels", n, window),
		func(_ *kernels, k *laneKernels, o *guardedOperands) {
			power, scale, x := o.of(n*block, 0), o.of(n*block, 0), o.normals(n*block+window-1)
			k.lrnScale(&power[0], &scale[0], &x[0], n, window, 0.3, 1)
		})
	b.check(fmt.Sprintf("terms of %d vectors", n), func(_ *kernels, k *laneKernels, o *guardedOperands) {
		dy, term, x, power, scale := o.normals(n*block), o.of(n*block, 0), o.normals(n*block), o.normals(n*block),
			o.of(n*block, 2)
		k.lrnTerms(&dy[0], &term[0], &x[0], &power[0], &scale[0], n)
	})
	b.check(fmt.Sprintf("spreading %d vectors over %d channels", n, window),
		func(_ *kernels, k *laneKernels, o *guardedOperands) {
			x, dy, term := o.normals(n*block), o.normals(n*block), o.normals(n*block+window-1)
			k.lrnSpread(&x[0], &dy[0], &term[0], n, window, 0.3)
		})
}

// streams checks the kernels over elements: of whole vectors and of what is left over, stored past
// the caches or not.
func (b *bounds) streams() {
	for _, n := range []int{0, 1, 15, 16, 17, 31, 32, 33, b.r.IntN(500), block * b.r.IntN(40)} {
		for _, stream := range []bool{false, true} {
			check := func(what string, run func(k *laneKernels, o *guardedOperands)) {
				b.check(fmt.Sprintf("%s of %d elements, past the caches %v", what, n, stream),
					func(_ *kernels, k *laneKernels, o *guardedOperands) { run(k, o) })
			}
			params := func(o *guardedOperands) *actParams {
				return (*actParams)(unsafe.Pointer(&o.normals(int(unsafe.Sizeof(actParams{})) / 4)[0]))
			}
			for elu := range 2 {
				for residual := range 3 {
					rest := []int{0, n, n / block}[residual]
					if residual == int(device.TiledResidual) && n%block != 0 {
						continue
					}
					check(fmt.Sprintf("activation %d with residual %d", elu, residual),
						func(k *laneKernels, o *guardedOperands) {
							k.runActivate(elu, residual, o.of(n, 0), o.normals(n), o.normals(rest), params(o), stream)
						})
					check(fmt.Sprintf("gradient %d with residual %d", elu, residual),
						func(k *laneKernels, o *guardedOperands) {
							sums := (*actSums)(unsafe.Pointer(&o.of(sumsLen, 0)[0]))
							k.runGradient(elu, residual, o.of(n, 0), o.normals(n), o.normals(n), o.normals(rest),
								params(o), sums, stream)
						})
				}
			}
			check("mix", func(k *laneKernels, o *guardedOperands) {
				p := (*mixParams)(unsafe.Pointer(&o.normals(int(unsafe.Sizeof(mixParams{})) / 4)[0]))
				k.runMix(o.of(n, 0), o.normals(n), o.normals(n), p, o.sixteen(), stream)
			})
			check("sum", func(k *laneKernels, o *guardedOperands) { k.runSum(o.normals(n), o.sixteen()) })
			check("moments", func(k *laneKernels, o *guardedOperands) {
				k.runMoments(o.normals(n), o.sixteen(), o.sixteen(), o.sixteen())
			})
			check("sum of lanes", func(k *laneKernels, o *guardedOperands) {
				k.sumLanes(o.normals(n/block), o.normals(whole(n)), n%2)
			})
			check(
				"energy",
				func(k *laneKernels, o *guardedOperands) { o.of(1, 0)[0] = float32(k.runEnergy(o.normals(n))) },
			)
			check("SGD", func(k *laneKernels, o *guardedOperands) {
				k.runSGD(o.normals(n), o.normals(n), o.normals(n), (*[4]float32)(o.normals(4)))
			})
		}
	}
}

// classes checks the kernels over the classes of voxels.
func (b *bounds) classes() {
	for _, n := range []int{1, 15, 16, 17, 1 + b.r.IntN(100)} {
		classes := 1 + b.r.IntN(40)
		step, stream := block*(n+b.r.IntN(9)), b.r.IntN(2) == 0
		check := func(what string, run func(k *laneKernels, o *guardedOperands)) {
			b.check(fmt.Sprintf("%s of %d voxels, %d classes, past the caches %v", what, n, classes, stream),
				func(_ *kernels, k *laneKernels, o *guardedOperands) { run(k, o) })
		}
		targets := func(o *guardedOperands) Slice {
			s := o.of(n, 0)
			for i := range s {
				s[i] = float32(o.r.IntN(classes+1) - 1)
			}
			return s
		}
		check("softmax", func(k *laneKernels, o *guardedOperands) {
			k.runSoftmax(o.classes(n, classes, step), o.classes(n, classes, step), n, classes, step,
				o.scratch(classRows(classes)), stream)
		})
		check("softmax gradient", func(k *laneKernels, o *guardedOperands) {
			k.runSoftmaxGrad(o.classes(n, classes, step), o.classes(n, classes, step), o.classes(n, classes, step), n,
				classes, step, o.scratch(2*classRows(classes)), stream)
		})
		check("loss", func(k *laneKernels, o *guardedOperands) {
			k.runLoss(o.classes(n, classes, step), targets(o), classes, step, o.scratch(classRows(classes)),
				o.normals((2+3*classes)*block), o.of(block, 1))
		})
		check("loss gradient", func(k *laneKernels, o *guardedOperands) {
			k.runLossGrad(o.classes(n, classes, step), o.classes(n, classes, step), targets(o), classes, step,
				o.scratch(classRows(classes)), o.normals(1+2*classes), o.normals(classes*block), stream)
		})
	}
}

// dots checks products along rows.
func (b *bounds) dots() {
	for rows := 1; rows <= maxDotRows; rows++ {
		for kind, columns := range []int{1, dotColumns} {
			k, add := block*(1+b.r.IntN(20)), b.r.IntN(2)
			as, bs, cs := k+b.r.IntN(50), k+b.r.IntN(50), columns+b.r.IntN(9)
			b.check(fmt.Sprintf("%d rows by %d columns of %d", rows, columns, k),
				func(_ *kernels, lanes *laneKernels, o *guardedOperands) {
					x, y, z := o.normals(extent(k, [2]int{rows, as})), o.normals(extent(k, [2]int{columns, bs})),
						o.normals(extent(columns, [2]int{rows, cs}))
					for m := 0; m < rows; {
						n := min(rows-m, lanes.dotRows)
						lanes.dots[n][kind](&x[m*as], &y[0], &z[m*cs], k, as, bs, cs, add)
						m += n
					}
				})
		}
	}
}

// guardedCPU is a CPU whose buffers end at such pages, even if then they begin at no cache line.
type guardedCPU struct {
	*CPU
	t testing.TB
}

func (c guardedCPU) Alloc(bytes int64) (device.Buffer, error) {
	if bytes < 0 {
		return c.CPU.Alloc(bytes)
	}
	pages, free := guardedPages(c.t, int(bytes/4))
	c.t.Cleanup(free)
	return atEdge(pages, int(bytes/4), true), nil
}

// guarded is the device for tests that touch no memory of their own.
func guarded(t testing.TB, c *CPU) device.Device { return guardedCPU{c, t} }

// TestConvBounds: every algorithm that could be chosen, with no more scratch than it asks for. A
// fault in a worker ends the test with its stack. A third of the convolutions has its turn.
func TestConvBounds(t *testing.T) {
	for _, ks := range availableKernels() {
		if ks.name == "generic" {
			continue // it has the same bounds, and is slow
		}
		t.Run(ks.name, func(t *testing.T) {
			c := newTestCPU(t, Options{Threads: 2}, ks)
			for i, s := range slices.Concat(convCases, winogradCases, pointwiseCases, fewChannelsCases,
				oneChannelCases) {
				if !devicetest.InTurn(t, i, 3) {
					continue
				}
				x, y, w := s.XShape(), s.YShape(), weightElements(s.WShape())
				for _, kernel := range []struct {
					kind    ConvKind
					make    func(device.ConvSpec) (device.Kernel, error)
					out, in []int
				}{
					{Forward, c.Conv, []int{elementsOf(y)}, []int{elementsOf(x), w, s.Out}},
					{Transposed, c.ConvTransposed, []int{elementsOf(x)}, []int{elementsOf(y), w, s.In}},
					{Weights, c.ConvGradWeights, []int{w}, []int{elementsOf(x), elementsOf(y)}},
					{Weights, c.ConvGradWeightsSGD, []int{w, w, 1}, []int{elementsOf(x), elementsOf(y), 4}},
				} {
					s.Bias = kernel.kind != Weights
					names, err := c.Candidates(s, kernel.kind)
					if err != nil {
						t.Fatal(err)
					}
					for _, name := range names {
						c.opt.Choices = map[string]string{ChoiceKey(s, kernel.kind): name}
						k, err := kernel.make(s)
						if err != nil {
							t.Fatal(err)
						}
						for _, end := range []bool{true, false} {
							var free []func()
							buffers := func(sizes ...int) (list []device.Buffer) {
								for _, n := range sizes {
									pages, f := guardedPages(t, n)
									list, free = append(list, atEdge(pages, n, end)), append(free, f)
								}
								return list
							}
							k.Run(buffers(kernel.out...), buffers(kernel.in...), buffers(int(k.Scratch() / 4))[0])
							for _, f := range free {
								f()
							}
						}
					}
				}
			}
		})
	}
}
