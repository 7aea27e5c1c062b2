package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/voxsaw/voxsaw/internal/device/cpu/asm/vector"
)

// Kernels that look at several vectors for each of their results: pooling, and local response
// normalisation, whose windows lie along the channels of a voxel.

// number is a float32 parameter in all lanes.
func (s isa) number(name string) lanes {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return s.broadcast(b.Addr)
}

// windows is the geometry that a kernel of pooling takes, as package cpu declares it.
const windows = "*struct{ n, planes, rows, columns, planeStep, rowStep, next int }"

// Its fields, and the numbers of windows and steps in elements that they are.
const (
	fieldN = iota
	fieldPlanes
	fieldRows
	fieldColumns
	fieldPlaneStep
	fieldRowStep
	fieldNext
)

// window is the pointer to a geometry.
type window struct{ base reg.Register }

func loadWindow() window { return window{Load(Param("w"), GP64())} }

func (w window) field(i int) Mem { return Mem{Base: w.base, Disp: 8 * i} }

// count is a field in a register of its own, to be counted down.
func (w window) count(i int) reg.GPVirtual {
	r := GP64()
	MOVQ(w.field(i), r)
	return r
}

// step moves a pointer on by a field, which is a number of elements.
func (w window) step(p Mem, i int) { LEAQ(Mem{Base: p.Base, Index: w.count(i), Scale: 4}, p.Base) }

// each emits body for each vector of a window whose first one is at start.
func (w window) each(label string, start Mem, body func(at Mem)) {
	plane, row, at := Mem{Base: GP64()}, Mem{Base: GP64()}, Mem{Base: GP64()}
	MOVQ(start.Base, plane.Base)
	planes := w.count(fieldPlanes)
	Label(label + "Plane")
	MOVQ(plane.Base, row.Base)
	rows := w.count(fieldRows)
	Label(label + "Row")
	MOVQ(row.Base, at.Base)
	loop(label+"Column", w.count(fieldColumns), func() { body(at) }, at)
	w.step(row, fieldRowStep)
	DECQ(rows)
	JNZ(LabelRef(label + "Row"))
	w.step(plane, fieldPlaneStep)
	DECQ(planes)
	JNZ(LabelRef(label + "Plane"))
}

// replace puts values, and what goes with them, where a value takes the place of the best one so
// far: where it is greater, or NaN.
func (s isa) replace(value, best lanes, replaced ...[2]lanes) {
	for _, m := range []mask{s.compare(greater, value, best), s.compare(unordered, value, value)} {
		for _, pair := range append([][2]lanes{{value, best}}, replaced...) {
			for i, r := range s.choose(m, pair[0], pair[1]) {
				VMOVAPS(r, pair[1][i])
			}
		}
	}
}

func greatest(s isa) string {
	name := s.begin("greatest", "", "func(y, x *float32, w "+windows+")")
	y, x, w := pointer("y"), pointer("x"), loadWindow()
	loop("window", w.count(fieldN), func() {
		best := s.load(x) // once more below: nothing is greater than itself
		w.each("greatest", x, func(at Mem) { s.replace(s.load(at), best) })
		s.store(best, y)
		w.step(x, fieldNext)
	}, y)
	end()
	return name
}

func greatestGrad(s isa) string {
	name := s.begin("greatestGrad", "", "func(dx, x, dy *float32, w "+windows+")")
	dx, x, dy, w := pointer("dx"), pointer("x"), pointer("dy"), loadWindow()
	one := s.broadcast(constantAt(1))
	loop("window", w.count(fieldN), func() {
		best, where, count := s.load(x), s.zero(), s.zero()
		next := func() {
			for i := range count {
				VADDPS(one[i], count[i], count[i])
			}
		}
		w.each("greatest", x, func(at Mem) {
			s.replace(s.load(at), best, [2]lanes{count, where})
			next()
		})
		gradient := s.load(dy)
		count = s.zero()
		w.each("spread", dx, func(at Mem) {
			s.store(s.add(s.load(at), s.only(s.compare(equal, where, count), gradient)), at)
			next()
		})
		w.step(dx, fieldNext)
		w.step(x, fieldNext)
	}, dy)
	end()
	return name
}

func mean(s isa) string {
	name := s.begin("mean", "", "func(y, x *float32, w "+windows+", factor float32)")
	y, x, w, factor := pointer("y"), pointer("x"), loadWindow(), s.number("factor")
	loop("window", w.count(fieldN), func() {
		sum := s.zero()
		w.each("sum", x, func(at Mem) {
			for i := range sum {
				VADDPS(s.at(at, i), sum[i], sum[i])
			}
		})
		s.store(s.mul(sum, factor), y)
		w.step(x, fieldNext)
	}, y)
	end()
	return name
}

func meanGrad(s isa) string {
	name := s.begin("meanGrad", "", "func(dx, dy *float32, w "+windows+", factor float32)")
	dx, dy, w, factor := pointer("dx"), pointer("dy"), loadWindow(), s.number("factor")
	loop("window", w.count(fieldN), func() {
		gradient := s.mul(s.load(dy), factor)
		w.each("spread", dx, func(at Mem) { s.store(s.add(s.memory(at), gradient), at) })
		w.step(dx, fieldNext)
	}, dy)
	end()
	return name
}

// slide emits body for each of size neighbours of the vector at start, one element further on each
// time.
func slide(label string, size Op, start Mem, body func(at Mem)) {
	at, i := Mem{Base: GP64()}, GP64()
	MOVQ(start.Base, at.Base)
	MOVQ(size, i)
	Label(label)
	body(at)
	ADDQ(Imm(4), at.Base)
	DECQ(i)
	JNZ(LabelRef(label))
}

func lrnScale(s isa) string {
	name := s.begin("lrnScale", "", "func(power, scale, x *float32, n, size int, alpha, k float32)")
	power, scale, x, n, size := pointer("power"), pointer("scale"), pointer("x"),
		Load(Param("n"), GP64()).(reg.GPVirtual), Load(Param("size"), GP64())
	alpha, k, one := s.number("alpha"), s.number("k"), s.broadcast(constantAt(1))
	loop("vector", n, func() {
		sum := s.zero()
		slide("square", size, x, func(at Mem) {
			e := s.load(at)
			s.addMul(sum, e, e)
		})
		total := s.copy(k)
		s.addMul(total, alpha, sum)
		s.store(total, scale)
		root := s.each(func(i int, r reg.VecVirtual) { VSQRTPS(total[i], r) })
		fourth := s.each(func(i int, r reg.VecVirtual) { VSQRTPS(root[i], r) })
		s.store(s.div(one, s.mul(root, fourth)), power)
	}, power, scale, x)
	end()
	return name
}

func lrnTerms(s isa) string {
	name := s.begin("lrnTerms", "", "func(dy, term, x, power, scale *float32, n int)")
	dy, term, x, power, scale, n := pointer("dy"), pointer("term"), pointer("x"), pointer("power"), pointer("scale"),
		Load(Param("n"), GP64()).(reg.GPVirtual)
	loop("vector", n, func() {
		d := s.mul(s.load(power), s.load(dy))
		s.store(d, dy)
		s.store(s.div(s.mul(s.load(x), d), s.load(scale)), term)
	}, dy, term, x, power, scale)
	end()
	return name
}

func lrnSpread(s isa) string {
	name := s.begin("lrnSpread", "", "func(x, dy, term *float32, n, size int, factor float32)")
	x, dy, term, n, size := pointer("x"), pointer("dy"), pointer("term"), Load(Param("n"), GP64()).(reg.GPVirtual),
		Load(Param("size"), GP64())
	factor := s.number("factor")
	loop("vector", n, func() {
		sum := s.zero()
		slide("term", size, term, func(at Mem) {
			for i := range sum {
				VADDPS(s.at(at, i), sum[i], sum[i])
			}
		})
		product := s.mul(s.load(x), factor)
		out := s.load(dy)
		for i := range out {
			VFNMADD231PS(product[i], sum[i], out[i])
		}
		s.store(out, x)
	}, x, dy, term)
	end()
	return name
}
