package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/voxsaw/voxsaw/internal/device/cpu/asm/vector"
)

// dots keeps rows x columns sums in registers, 16 (or 8, or 4) partial sums each, over k; then adds
// those up.
func dots(s isa, rows, columns int) string {
	name := s.begin("dots", fmt.Sprintf("%dx%d", rows, columns), "func(a, b, c *float32, k, as, bs, cs, add int)")
	stride := func(name string) reg.Register {
		r := Load(Param(name), GP64())
		SHLQ(Imm(2), r)
		return r
	}
	a, b, k, as, bs := pointer("a"), pointer("b"), Load(Param("k"), GP64()), stride("as"), stride("bs")
	// Rows of a: three of a pointer, by the scale of an index; columns of b likewise, the fourth by
	// three times its stride.
	second := Mem{Base: GP64()}
	if rows > 3 && !s.quarter() {
		LEAQ(Mem{Base: a.Base, Index: as, Scale: 2}, second.Base)
		ADDQ(as, second.Base)
	}
	bs3 := GP64()
	if columns == 4 {
		LEAQ(Mem{Base: bs, Index: bs, Scale: 2}, bs3)
	}
	var rowPointers, columnPointers []Mem // NEON's addresses have no index
	if s.quarter() {
		rowPointers, columnPointers = pointersFrom(a, as, rows), pointersFrom(b, bs, columns)
	}
	row := func(i int) Mem {
		if s.quarter() {
			return rowPointers[i]
		}
		m := a
		if i >= 3 {
			m = second
		}
		if i%3 > 0 {
			m.Index, m.Scale = as, uint8(i%3)
		}
		return m
	}
	column := func(j int) Mem {
		if s.quarter() {
			return columnPointers[j]
		}
		m := b
		switch j {
		case 1, 2:
			m.Index, m.Scale = bs, uint8(j)
		case 3:
			m.Index, m.Scale = bs3, 1
		}
		return m
	}
	sums := make([][]reg.VecVirtual, rows)
	for i := range sums {
		for range columns {
			sums[i] = append(sums[i], s.zeroRegister())
		}
	}
	SHRQ(Imm(uint64(2+log2(s.bytes/16))), k)
	Label("k")
	var right []reg.VecVirtual
	for j := range columns {
		r := s.register()
		VMOVUPS(column(j), r)
		right = append(right, r)
	}
	for i := range rows {
		left := s.register()
		VMOVUPS(row(i), left)
		for j := range columns {
			VFMADD231PS(right[j], left, sums[i][j])
		}
	}
	stepping := []Mem{a, b}
	switch {
	case s.quarter():
		stepping = append(rowPointers, columnPointers...)
	case rows > 3:
		stepping = append(stepping, second)
	}
	for _, p := range stepping {
		ADDQ(Imm(uint64(s.bytes)), p.Base)
	}
	DECQ(k)
	JNZ(LabelRef("k"))

	c, cs, add := pointer("c"), stride("cs"), Load(Param("add"), GP64())
	for i := range rows {
		for j := range columns {
			total := s.total(sums[i][j])
			skip := fmt.Sprintf("store%d_%d", i, j)
			TESTQ(add, add)
			JZ(LabelRef(skip))
			VADDSS(c.Offset(4*j), total, total)
			Label(skip)
			VMOVSS(total, c.Offset(4*j))
		}
		ADDQ(cs, c.Base)
	}
	end()
	return name
}

// pointersFrom gives n pointers, the first one p, a step apart.
func pointersFrom(p Mem, step reg.Register, n int) []Mem {
	all := []Mem{p}
	for len(all) < n {
		next := Mem{Base: GP64()}
		LEAQ(Mem{Base: all[len(all)-1].Base, Index: step, Scale: 1}, next.Base)
		all = append(all, next)
	}
	return all
}

func log2(n int) int {
	l := 0
	for ; n > 1; n /= 2 {
		l++
	}
	return l
}

func (s isa) zeroRegister() reg.VecVirtual {
	r := s.register()
	VXORPS(r.AsX(), r.AsX(), r.AsX())
	return r
}

// total is the sum of a register's elements.
func (s isa) total(r reg.VecVirtual) reg.VecVirtual {
	t := s.register()
	if s.wide() {
		VEXTRACTF64X4(Imm(1), r, t.AsY())
		VADDPS(t.AsY(), r.AsY(), r.AsY())
	}
	if !s.quarter() {
		s.upperHalf(r, t)
		VADDPS(t.AsX(), r.AsX(), r.AsX())
	}
	VPERMILPS(Imm(0x4e), r.AsX(), t.AsX())
	VADDPS(t.AsX(), r.AsX(), r.AsX())
	VPERMILPS(Imm(0xb1), r.AsX(), t.AsX())
	VADDPS(t.AsX(), r.AsX(), r.AsX())
	return r.AsX().(reg.VecVirtual)
}
