package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/voxsaw/voxsaw/internal/device/cpu/asm/vector"
)

const productSignature = "func(a, b, c *float32, terms *[2]int, nterms, k, as, bs, bv, cs, cv, count, " +
	"an, bn, cn int, add bool, bias *float32)"

// product emits a productFunc of rows x vectors: the sums stay in registers over all terms.
func product(s isa, rows, vectors int) string {
	name := begin(s, fmt.Sprintf("product%dx%d", rows, vectors),
		productSignature,
		fmt.Sprintf("%%s is a productFunc of %d rows and %d vectors of 16.", rows, vectors))
	a, b, c := load("a"), load("b"), load("c")
	as, bs := loadBytes("as"), loadBytes("bs")
	var bv reg.GPVirtual
	if vectors == 2 {
		bv = loadBytes("bv")
	}
	in := s.newStrided(rows, as, triple(as))
	sums := make([][]reg.VecVirtual, rows)
	for m := range sums {
		sums[m] = s.registers(vectors * s.parts)
	}

	loop("rows", argument("count"), func() {
		for _, row := range sums {
			for _, r := range row {
				s.zero(r)
			}
		}
		terms, nterms := load("terms"), load("nterms")
		TESTQ(nterms, nterms)
		JZ(LabelRef("sums"))
		loop("term", nterms, func() {
			weights, k := GP64(), load("k")
			offset := GP64()
			MOVQ(Mem{Base: terms}, offset)
			LEAQ(Mem{Base: a, Index: offset, Scale: 4}, in.pointers[0])
			in.start()
			MOVQ(Mem{Base: terms, Disp: 8}, offset)
			LEAQ(Mem{Base: b, Index: offset, Scale: 4}, weights)
			ADDQ(Imm(16), terms)
			// The next rows follow, as a rule, so one of their cache lines is fetched at each turn.
			ahead := GP64()
			IMUL3Q(Imm(uint64(rows)), as, ahead)
			ADDQ(in.pointers[0], ahead)
			if s.byLane() {
				s.pairs(in, sums, weights, bs, k, ahead)
				return
			}
			loop("k", k, func() {
				PREFETCHT0(Mem{Base: ahead})
				ADDQ(Imm(64), ahead)
				factors := s.registers(vectors * s.parts)
				s.loadVectors(factors, weights, bv)
				for m, row := range sums {
					s.multiplyBroadcast(in.at(m, 0), factors, row)
				}
				in.advance(Imm(4))
				ADDQ(bs, weights)
			})
		})
		Label("sums")
		storeRows(s, sums, vectors, c, true)
		advance(a, b, c)
	})
	end()
	return name
}

// pairs is the loop of product over k, two elements of each row at a time, which are lanes of one
// register. Half of the weights of an element are loaded at a time: 24 sums, 6 factors and those
// two are 32 registers.
func (s isa) pairs(in strided, sums [][]reg.VecVirtual, weights, bs, k, ahead reg.GPVirtual) {
	offset, left := GP64(), GP64() // in bytes, of the elements from the rows' first ones
	MOVQ(U32(0), offset)
	element := func(x []reg.VecVirtual, lane int) {
		for half := 0; half < s.parts; half += 2 {
			factors := s.registers(2)
			for i, r := range factors {
				VMOVUPS(Mem{Base: weights, Disp: (half + i) * s.bytes}, r)
			}
			for m, row := range sums {
				s.multiplyLane(x[m], lane, factors, row[half:half+2])
			}
		}
		ADDQ(bs, weights)
	}
	elements := func(bytes int) []reg.VecVirtual {
		x := s.registers(len(sums))
		for m, p := range in.pointers {
			LDR(bytes, Mem{Base: p, Index: offset, Scale: 1}, x[m])
		}
		return x
	}
	MOVQ(k, left)
	SHRQ(Imm(1), left)
	JZ(LabelRef("last"))
	loop("k", left, func() {
		PREFETCHT0(Mem{Base: ahead})
		ADDQ(Imm(64), ahead)
		x := elements(8)
		ADDQ(Imm(8), offset)
		element(x, 0)
		element(x, 1)
	})
	Label("last") // of an odd number
	ANDQ(Imm(1), k)
	JZ(LabelRef("summed"))
	element(elements(4), 0)
	Label("summed")
}

// loadVectors loads one vector from p, or two, bv bytes apart.
func (s isa) loadVectors(registers []reg.VecVirtual, p, bv reg.GPVirtual) {
	for i, r := range registers {
		m := Mem{Base: p, Disp: i % s.parts * s.bytes}
		if i >= s.parts {
			m.Index, m.Scale = bv, 1
		}
		VMOVUPS(m, r)
	}
}

// storeRows stores the sums, or adds them where the argument add is true: rows cs apart, of one
// vector or two, cv apart. Where they are stored, biased says that the argument bias, if it is not
// nil, is added to each row.
func storeRows(s isa, sums [][]reg.VecVirtual, vectors int, c reg.GPVirtual, biased bool) {
	first, second, cs := GP64(), GP64(), loadBytes("cs")
	MOVQ(c, first)
	if vectors == 2 {
		MOVQ(argument("cv"), second)
		LEAQ(Mem{Base: c, Index: second, Scale: 4}, second)
	}
	at := func(i int) Mem {
		if i < s.parts {
			return Mem{Base: first, Disp: i * s.bytes}
		}
		return Mem{Base: second, Disp: (i - s.parts) * s.bytes}
	}
	store := func(added func(i int) Mem) {
		for _, row := range sums {
			for i, r := range row {
				if added != nil {
					VADDPS(added(i), r, r)
				}
				VMOVUPS(r, at(i))
			}
			ADDQ(cs, first)
			if vectors == 2 {
				ADDQ(cs, second)
			}
		}
	}
	CMPB(argument("add"), Imm(0))
	JEQ(LabelRef("first"))
	store(at)
	JMP(LabelRef("stored"))
	Label("first")
	if biased {
		bias := load("bias")
		TESTQ(bias, bias)
		JZ(LabelRef("store"))
		store(func(i int) Mem { return Mem{Base: bias, Disp: i * s.bytes} })
		JMP(LabelRef("stored"))
		Label("store")
	}
	store(nil)
	Label("stored")
}

// outer emits an outerFunc of rows x vectors: the sums stay in registers over all terms.
func outer(s isa, rows, vectors int) string {
	name := begin(s, fmt.Sprintf("outer%dx%d", rows, vectors),
		productSignature,
		fmt.Sprintf("%%s is an outerFunc of %d rows and %d vectors of 16.", rows, vectors))
	firstA, firstB, c := load("a"), load("b"), load("c")
	as, bs := loadBytes("as"), loadBytes("bs")
	var bv reg.GPVirtual
	if vectors == 2 {
		bv = loadBytes("bv")
	}
	sums := make([][]reg.VecVirtual, rows)
	for m := range sums {
		sums[m] = s.registers(vectors * s.parts)
	}
	loop("rows", argument("count"), func() {
		for _, row := range sums {
			for _, r := range row {
				s.zero(r)
			}
		}
		terms, nterms := load("terms"), load("nterms")
		loop("term", nterms, func() {
			a, b, k := GP64(), GP64(), load("k")
			offset := GP64()
			MOVQ(Mem{Base: terms}, offset)
			LEAQ(Mem{Base: firstA, Index: offset, Scale: 4}, a)
			MOVQ(Mem{Base: terms, Disp: 8}, offset)
			LEAQ(Mem{Base: firstB, Index: offset, Scale: 4}, b)
			ADDQ(Imm(16), terms)
			loop("k", k, func() {
				factors := s.registers(vectors * s.parts)
				s.loadVectors(factors, b, bv)
				s.multiplyNeighbours(Mem{Base: a}, factors, sums)
				ADDQ(as, a)
				ADDQ(bs, b)
			})
		})
		storeRows(s, sums, vectors, c, false)
		advance(firstA, firstB, c)
	})
	end()
	return name
}

// advance moves on to the next of count products.
func advance(a, b, c reg.GPVirtual) {
	for i, p := range []reg.GPVirtual{a, b, c} {
		LEAQ(Mem{Base: p, Index: load([]string{"an", "bn", "cn"}[i]), Scale: 4}, p)
	}
}

// outerTaps emits an outerTapsFunc. AVX-512 holds the sums of all 25 taps in registers; AVX2 and
// NEON those of 5, and pass over the voxels five times.
func outerTaps(s isa) string {
	name := begin(s, "outerTaps", "func(a, b, c *float32, k, as int)", "%s is an outerTapsFunc.")
	a, c := load("a"), load("c")
	as := loadBytes("as")
	as3 := triple(as)
	passes := GP64()
	MOVQ(U64(uint64(5/s.taps)), passes)
	loop("pass", passes, func() {
		sums := make([][]reg.VecVirtual, 5*s.taps)
		for m := range sums {
			sums[m] = s.registers(s.parts)
			for _, r := range sums[m] {
				s.zero(r)
			}
		}
		b, k := load("b"), load("k")
		in := s.newStrided(s.taps, as, as3)
		MOVQ(a, in.pointers[0])
		in.start()
		loop("k", k, func() {
			factors := s.registers(s.parts)
			for i, r := range factors {
				VMOVUPS(Mem{Base: b, Disp: i * s.bytes}, r)
			}
			for r := range s.taps {
				s.multiplyNeighbours(in.at(r, 0), factors, sums[5*r:5*r+5])
			}
			in.advance(Imm(4))
			ADDQ(Imm(64), b)
		})
		for _, row := range sums {
			for i, r := range row {
				VADDPS(Mem{Base: c, Disp: i * s.bytes}, r, r)
				VMOVUPS(r, Mem{Base: c, Disp: i * s.bytes})
			}
			ADDQ(Imm(64), c)
		}
		ADDQ(as, a)
	})
	end()
	return name
}

// fetch emits a fetchFunc.
func fetch(s isa) string {
	name := begin(s, "fetch", "func(p *float32, lines int)", "%s is a fetchFunc.")
	p := load("p")
	loop("line", argument("lines"), func() {
		PREFETCHT1(Mem{Base: p})
		ADDQ(Imm(64), p)
	})
	RET()
	return name
}

// add emits an addFunc.
func add(s isa) string {
	name := begin(s, "add", "func(dst, src *float32, n int)", "%s is an addFunc.")
	dst, src := load("dst"), load("src")
	loop("vector", argument("n"), func() {
		for part := range s.parts {
			r := s.register()
			VMOVUPS(Mem{Base: dst, Disp: part * s.bytes}, r)
			VADDPS(Mem{Base: src, Disp: part * s.bytes}, r, r)
			VMOVUPS(r, Mem{Base: dst, Disp: part * s.bytes})
		}
		ADDQ(Imm(64), dst)
		ADDQ(Imm(64), src)
	})
	end()
	return name
}
