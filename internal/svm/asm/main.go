// Command asm generates the assembly of package svm: kernels_amd64.s and its Go declarations. Run
// it by go generate in package svm.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// parts is how many registers of four float64 a turn of a loop takes.
const parts = 4

func main() {
	ConstraintExpr("amd64")
	dot()
	axpy()
	Generate()
}

// features loads four features as float64.
func features(x Mem, part int) reg.VecVirtual {
	r := YMM()
	VCVTPS2PD(x.Offset(16*part), r)
	return r
}

// eachTurn emits body for each 16 features of n, at least 16.
func eachTurn(w, x Mem, n reg.GPVirtual, body func(part int)) {
	SHRQ(Imm(4), n)
	Label("turn")
	for part := range parts {
		body(part)
	}
	ADDQ(Imm(32*parts), w.Base)
	ADDQ(Imm(16*parts), x.Base)
	DECQ(n)
	JNZ(LabelRef("turn"))
}

func operands() (w, x Mem, n reg.GPVirtual) {
	return Mem{Base: Load(Param("w"), GP64())}, Mem{Base: Load(Param("x"), GP64())},
		Load(Param("n"), GP64()).(reg.GPVirtual)
}

func dot() {
	TEXT("dotAVX2", 4, "func(w *float64, x *float32, n int) float64")
	Pragma("noescape")
	Doc("dotAVX2 is the sum of w[i] x[i], for n a multiple of 16 and not 0.")
	w, x, n := operands()
	var sums []reg.VecVirtual
	for range parts {
		r := YMM()
		VXORPD(r, r, r)
		sums = append(sums, r)
	}
	eachTurn(w, x, n, func(part int) { VFMADD231PD(w.Offset(32*part), features(x, part), sums[part]) })
	VADDPD(sums[1], sums[0], sums[0])
	VADDPD(sums[3], sums[2], sums[2])
	VADDPD(sums[2], sums[0], sums[0])
	high := XMM()
	VEXTRACTF128(Imm(1), sums[0], high)
	low := sums[0].AsX()
	VADDPD(high, low, low)
	VUNPCKHPD(low, low, high)
	VADDSD(high, low, low)
	Store(low, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

func axpy() {
	TEXT("axpyAVX2", 4, "func(w *float64, x *float32, n int, step float64)")
	Pragma("noescape")
	Doc("axpyAVX2 adds step x[i] to w[i], for n a multiple of 16 and not 0.")
	w, x, n := operands()
	address, err := Param("step").Resolve()
	if err != nil {
		panic(err)
	}
	step := YMM()
	VBROADCASTSD(address.Addr, step)
	eachTurn(w, x, n, func(part int) {
		sum := YMM()
		VMOVUPD(w.Offset(32*part), sum)
		VFMADD231PD(features(x, part), step, sum)
		VMOVUPD(sum, w.Offset(32*part))
	})
	VZEROUPPER()
	RET()
}
