package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Kernels that look at several vectors for each of their results: maximum pooling, and local
// response normalisation, whose windows lie along the channels of a voxel.

// bytesOf loads a number of float32 elements as a number of bytes.
func bytesOf(name string) reg.GPVirtual {
	r := Load(Param(name), GP64()).(reg.GPVirtual)
	SHLQ(Imm(2), r)
	return r
}

// number is a float32 parameter in all lanes.
func (s isa) number(name string) lanes {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return s.broadcast(b.Addr)
}

// window emits body for each vector of a window of rows and columns, whose first one is at start.
type window struct{ rows, columns, rowStep reg.GPVirtual }

func loadWindow() window {
	return window{Load(Param("rows"), GP64()).(reg.GPVirtual), Load(Param("columns"), GP64()).(reg.GPVirtual), bytesOf("rowStep")}
}

// each makes pointers of its own, a pair where two tensors are walked through.
func (w window) each(label string, body func(at []Mem), starts ...Mem) {
	var rows, at []Mem
	for _, m := range starts {
		row := Mem{Base: GP64()}
		MOVQ(m.Base, row.Base)
		rows, at = append(rows, row), append(at, Mem{Base: GP64()})
	}
	i := GP64()
	MOVQ(w.rows, i)
	Label(label + "Row")
	for k, row := range rows {
		MOVQ(row.Base, at[k].Base)
	}
	j := GP64()
	MOVQ(w.columns, j)
	Label(label + "Column")
	body(at)
	for _, m := range at {
		ADDQ(Imm(64), m.Base)
	}
	DECQ(j)
	JNZ(LabelRef(label + "Column"))
	for _, row := range rows {
		ADDQ(w.rowStep, row.Base)
	}
	DECQ(i)
	JNZ(LabelRef(label + "Row"))
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
	name := s.begin("greatest", "", "func(y, x *float32, n, rows, columns, rowStep, next int)")
	y, x, n, next, w := pointer("y"), pointer("x"), Load(Param("n"), GP64()), bytesOf("next"), loadWindow()
	Label("window")
	best := s.load(x) // once more below: nothing is greater than itself
	w.each("greatest", func(at []Mem) { s.replace(s.load(at[0]), best) }, x)
	s.store(best, y)
	ADDQ(Imm(64), y.Base)
	ADDQ(next, x.Base)
	DECQ(n)
	JNZ(LabelRef("window"))
	end()
	return name
}

func greatestGrad(s isa) string {
	name := s.begin("greatestGrad", "", "func(dx, x, dy *float32, n, rows, columns, rowStep, next int)")
	dx, x, dy, n, next, w := pointer("dx"), pointer("x"), pointer("dy"), Load(Param("n"), GP64()), bytesOf("next"), loadWindow()
	one := s.broadcast(constantAt(1))
	Label("window")
	best, where, count := s.load(x), s.zero(), s.zero()
	next1 := func() {
		for i := range count {
			VADDPS(one[i], count[i], count[i])
		}
	}
	w.each("greatest", func(at []Mem) {
		s.replace(s.load(at[0]), best, [2]lanes{count, where})
		next1()
	}, x)
	gradient, k := s.load(dy), s.zero()
	count = k
	w.each("spread", func(at []Mem) {
		s.store(s.add(s.load(at[0]), s.only(s.compare(equal, where, count), gradient)), at[0])
		next1()
	}, dx)
	ADDQ(Imm(64), dy.Base)
	ADDQ(next, dx.Base)
	ADDQ(next, x.Base)
	DECQ(n)
	JNZ(LabelRef("window"))
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
	power, scale, x, n, size := pointer("power"), pointer("scale"), pointer("x"), Load(Param("n"), GP64()).(reg.GPVirtual), Load(Param("size"), GP64())
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
	dy, term, x, power, scale, n := pointer("dy"), pointer("term"), pointer("x"), pointer("power"), pointer("scale"), Load(Param("n"), GP64()).(reg.GPVirtual)
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
	x, dy, term, n, size := pointer("x"), pointer("dy"), pointer("term"), Load(Param("n"), GP64()).(reg.GPVirtual), Load(Param("size"), GP64())
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
