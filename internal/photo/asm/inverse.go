package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/voxsaw/voxsaw/internal/photo/fixed"
)

// inverse is the inverse cosine transform of a block: a row a register, so that each pass
// transforms 8 columns at once, turned in between.
func inverse() {
	constants := map[int32]operand.Mem{}
	for _, v := range []int32{
		fixed.Fix0_298631336, -fixed.Fix0_390180644, fixed.Fix0_541196100, fixed.Fix0_765366865, -fixed.Fix0_899976223,
		fixed.Fix1_175875602,
		fixed.Fix1_501321110, -fixed.Fix1_847759065, -fixed.Fix1_961570560, fixed.Fix2_053119869, -fixed.Fix2_562915447,
		fixed.Fix3_072711026,
		1 << (fixed.ConstBits - fixed.Pass1Bits - 1), 1 << (fixed.ConstBits + fixed.Pass1Bits + 2),
	} {
		name := fmt.Sprintf("fix%d", v)
		if v < 0 {
			name = fmt.Sprintf("fixMinus%d", -v)
		}
		constants[v] = dwords(name, v)
	}
	middle := words("middle", 128)
	order := GLOBL("rowsOfBytes", 8|16)
	for n, v := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*n, operand.U32(v))
	}

	TEXT("inverseAVX2", 4, "func(dst *byte, stride int, b *[64]int32)")
	Doc("inverseAVX2 is inverse.")
	dst, stride, b := Load(Param("dst"), GP64()), Load(Param("stride"), GP64()), Load(Param("b"), GP64())
	var v [8]reg.VecVirtual
	for n := range v {
		v[n] = YMM()
		VMOVDQU(operand.Mem{Base: b, Disp: 32 * n}, v[n])
	}
	v = pass(v, constants, fixed.ConstBits-fixed.Pass1Bits)
	v = turn(v)
	v = pass(v, constants, fixed.ConstBits+fixed.Pass1Bits+3)
	v = turn(v)

	permutation := YMM()
	VMOVDQU(order, permutation)
	for n := 0; n < 8; n += 4 {
		VPACKSSDW(v[n+1], v[n], v[n])
		VPACKSSDW(v[n+3], v[n+2], v[n+2])
		VPADDSW(middle, v[n], v[n])
		VPADDSW(middle, v[n+2], v[n+2])
		VPACKUSWB(v[n+2], v[n], v[n])
		VPERMD(v[n], permutation, v[n])
		high := XMM()
		VEXTRACTI128(operand.Imm(1), v[n], high)
		for _, pair := range []reg.VecVirtual{v[n].AsX().(reg.VecVirtual), high} {
			VMOVQ(pair, operand.Mem{Base: dst})
			VPEXTRQ(operand.Imm(1), pair, operand.Mem{Base: dst, Index: stride, Scale: 1})
			LEAQ(operand.Mem{Base: dst, Index: stride, Scale: 2}, dst)
		}
	}
	VZEROUPPER()
	RET()
}

// pass emits transform of idct.go for 8 columns, rounded by so many binary digits.
func pass(v [8]reg.VecVirtual, constants map[int32]operand.Mem, digits uint64) [8]reg.VecVirtual {
	times := func(c int32, x reg.VecVirtual) reg.VecVirtual {
		m, ok := constants[c]
		if !ok {
			panic(fmt.Sprintf("no constant %d", c))
		}
		y := YMM()
		VPMULLD(m, x, y)
		return y
	}
	sum := func(x, y reg.VecVirtual) reg.VecVirtual {
		z := YMM()
		VPADDD(x, y, z)
		return z
	}
	less := func(x, y reg.VecVirtual) reg.VecVirtual {
		z := YMM()
		VPSUBD(y, x, z)
		return z
	}
	// the even half
	z1 := times(fixed.Fix0_541196100, sum(v[2], v[6]))
	t2 := sum(z1, times(-fixed.Fix1_847759065, v[6]))
	t3 := sum(z1, times(fixed.Fix0_765366865, v[2]))
	t0, t1 := sum(v[0], v[4]), less(v[0], v[4])
	round := constants[1<<(digits-1)]
	for _, t := range []reg.VecVirtual{t0, t1} {
		VPSLLD(operand.Imm(fixed.ConstBits), t, t)
		VPADDD(round, t, t)
	}
	e := [4]reg.VecVirtual{sum(t0, t3), sum(t1, t2), less(t1, t2), less(t0, t3)}
	// the odd half
	y1, y2, y3, y4 := sum(v[7], v[1]), sum(v[5], v[3]), sum(v[7], v[3]), sum(v[5], v[1])
	z5 := times(fixed.Fix1_175875602, sum(y3, y4))
	y1, y2 = times(-fixed.Fix0_899976223, y1), times(-fixed.Fix2_562915447, y2)
	y3, y4 = sum(z5, times(-fixed.Fix1_961570560, y3)), sum(z5, times(-fixed.Fix0_390180644, y4))
	odd := [4]reg.VecVirtual{
		sum(sum(times(fixed.Fix1_501321110, v[1]), y1), y4),
		sum(sum(times(fixed.Fix3_072711026, v[3]), y2), y3),
		sum(sum(times(fixed.Fix2_053119869, v[5]), y2), y4),
		sum(sum(times(fixed.Fix0_298631336, v[7]), y1), y3),
	}
	var out [8]reg.VecVirtual
	for n := range 4 {
		out[n], out[7-n] = sum(e[n], odd[n]), less(e[n], odd[n])
		VPSRAD(operand.Imm(digits), out[n], out[n])
		VPSRAD(operand.Imm(digits), out[7-n], out[7-n])
	}
	return out
}

// turn transposes 8 x 8 numbers.
func turn(r [8]reg.VecVirtual) [8]reg.VecVirtual {
	var t, u, out [8]reg.VecVirtual
	for n := 0; n < 8; n += 2 {
		t[n], t[n+1] = YMM(), YMM()
		VPUNPCKLDQ(r[n+1], r[n], t[n])
		VPUNPCKHDQ(r[n+1], r[n], t[n+1])
	}
	for n := 0; n < 8; n += 4 {
		for k := range 2 {
			u[n+2*k], u[n+2*k+1] = YMM(), YMM()
			VPUNPCKLQDQ(t[n+k+2], t[n+k], u[n+2*k])
			VPUNPCKHQDQ(t[n+k+2], t[n+k], u[n+2*k+1])
		}
	}
	for n := range 4 {
		out[n], out[n+4] = YMM(), YMM()
		VPERM2I128(operand.Imm(0x20), u[n+4], u[n], out[n])
		VPERM2I128(operand.Imm(0x31), u[n+4], u[n], out[n+4])
	}
	return out
}
