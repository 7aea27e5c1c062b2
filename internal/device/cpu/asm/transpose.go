package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/voxsaw/voxsaw/internal/device/cpu/asm/vector"
)

// transpose emits a transposeFunc: in registers, by interleaving pairs of rows, then pairs of
// pairs, then the parts of 128 bits.
func transpose(s isa) string {
	name := begin(s, "transpose", "func(dst, src *float32, dstStep, srcStep int)", "%s is a transposeFunc.")
	dstStep, srcStep := loadBytes("dstStep"), loadBytes("srcStep")
	from, to := load("src"), load("dst")
	if s.bytes == 64 {
		rows := make([]reg.VecVirtual, 16)
		for i := range rows {
			rows[i] = s.register()
			VMOVUPS(Mem{Base: from}, rows[i])
			ADDQ(srcStep, from)
		}
		var quads [4][]reg.VecVirtual // [rows 4g to 4g+3][column of a 128-bit part]
		for g := range quads {
			quads[g] = s.interleave(rows[4*g : 4*g+4])
		}
		columns := make([]reg.VecVirtual, 16)
		for c := range 4 { // column c + 4 l is part l of the four quads
			even, odd := s.registers(2), s.registers(2)
			for half := range 2 {
				VSHUFF32X4(Imm(0x88), quads[2*half+1][c], quads[2*half][c], even[half])
				VSHUFF32X4(Imm(0xdd), quads[2*half+1][c], quads[2*half][c], odd[half])
			}
			for i, selector := range []uint64{0x88, 0xdd} {
				columns[c+8*i], columns[c+8*i+4] = s.register(), s.register()
				VSHUFF32X4(Imm(selector), even[1], even[0], columns[c+8*i])
				VSHUFF32X4(Imm(selector), odd[1], odd[0], columns[c+8*i+4])
			}
		}
		for _, r := range columns {
			VMOVUPS(r, Mem{Base: to})
			ADDQ(dstStep, to)
		}
		end()
		return name
	}
	if s.bytes == 16 { // 16 squares of 4 x 4, rows of squares become columns
		for below := range 4 {
			in := s.newStrided(4, srcStep, srcStep)
			MOVQ(from, in.pointers[0])
			in.start()
			column := GP64()
			MOVQ(to, column)
			for right := range 4 {
				rows := s.registers(4)
				for i, r := range rows {
					VMOVUPS(in.at(i, 16*right), r)
				}
				for _, r := range s.interleave(rows) {
					VMOVUPS(r, Mem{Base: column})
					ADDQ(dstStep, column)
				}
			}
			if below < 3 {
				LEAQ(Mem{Base: from, Index: srcStep, Scale: 4}, from)
				ADDQ(Imm(16), to)
			}
		}
		end()
		return name
	}
	// Four quarters of 8 x 8: rows above (below) become columns on the left (right).
	top, left := GP64(), GP64()
	MOVQ(to, left)
	for below := range 2 {
		MOVQ(from, top)
		for right := range 2 {
			rows := make([]reg.VecVirtual, 8)
			row := GP64()
			MOVQ(top, row)
			for i := range rows {
				rows[i] = s.register()
				VMOVUPS(Mem{Base: row}, rows[i])
				ADDQ(srcStep, row)
			}
			upper, lower := s.interleave(rows[:4]), s.interleave(rows[4:])
			column := GP64()
			MOVQ(left, column)
			if right == 1 {
				LEAQ(Mem{Base: column, Index: dstStep, Scale: 8}, column)
			}
			for _, selector := range []uint64{0x20, 0x31} {
				for c := range 4 {
					r := s.register()
					VPERM2F128(Imm(selector), lower[c], upper[c], r)
					VMOVUPS(r, Mem{Base: column})
					ADDQ(dstStep, column)
				}
			}
			ADDQ(Imm(32), top)
		}
		if below == 0 {
			LEAQ(Mem{Base: from, Index: srcStep, Scale: 8}, from)
			ADDQ(Imm(32), left)
		}
	}
	end()
	return name
}

// interleave transposes 4 x 4 elements in each 128-bit part of four rows.
func (s isa) interleave(r []reg.VecVirtual) []reg.VecVirtual {
	t, u := s.registers(4), s.registers(4)
	for i := range 2 {
		VUNPCKLPS(r[2*i+1], r[2*i], t[2*i])
		VUNPCKHPS(r[2*i+1], r[2*i], t[2*i+1])
	}
	for i := range 2 {
		VUNPCKLPD(t[2+i], t[i], u[2*i])
		VUNPCKHPD(t[2+i], t[i], u[2*i+1])
	}
	return u
}
