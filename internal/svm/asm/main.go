// Command asm generates the assembly of package svm: kernels_amd64.s, kernels_arm64.s and their Go
// declarations. Run it by go generate in package svm.
package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/voxsaw/voxsaw/internal/device/cpu/asm/vector"
)

// isa is an instruction set: AVX2, or NEON, described in amd64's instructions on 16 bytes.
type isa struct {
	name  string // suffix of the kernels
	bytes int    // of a register
}

// parts is how many registers a turn of a loop takes: those of 16 float64.
func (s isa) parts() int { return 128 / s.bytes }

func (s isa) register() reg.VecVirtual {
	if s.bytes == 16 {
		return XMM()
	}
	return YMM()
}

func main() {
	options := ParseOptions()
	s := map[string]isa{"amd64": {"AVX2", 32}, "arm64": {"NEON", 16}}[options.Architecture()]
	s.dot()
	s.axpy()
	options.Generate("")
}

// features loads as many features as a register holds, as float64.
func (s isa) features(x Mem, part int) reg.VecVirtual {
	r := s.register()
	VCVTPS2PD(x.Offset(s.bytes/2*part), r)
	return r
}

// eachTurn emits body for each 16 features of n, at least 16.
func (s isa) eachTurn(w, x Mem, n reg.GPVirtual, body func(part int)) {
	SHRQ(Imm(4), n)
	Label("turn")
	for part := range s.parts() {
		body(part)
	}
	ADDQ(Imm(128), w.Base)
	ADDQ(Imm(64), x.Base)
	DECQ(n)
	JNZ(LabelRef("turn"))
}

func operands() (w, x Mem, n reg.GPVirtual) {
	return Mem{Base: Load(Param("w"), GP64())}, Mem{Base: Load(Param("x"), GP64())},
		Load(Param("n"), GP64()).(reg.GPVirtual)
}

func (s isa) dot() {
	TEXT("dot"+s.name, 4, "func(w *float64, x *float32, n int) float64")
	Pragma("noescape")
	Doc("dot" + s.name + " is the sum of w[i] x[i], for n a multiple of 16 and not 0.")
	w, x, n := operands()
	var sums []reg.VecVirtual
	for range s.parts() {
		r := s.register()
		VXORPD(r, r, r)
		sums = append(sums, r)
	}
	s.eachTurn(w, x, n, func(part int) { VFMADD231PD(w.Offset(s.bytes*part), s.features(x, part), sums[part]) })
	for step := 1; step < len(sums); step *= 2 {
		for i := 0; i < len(sums); i += 2 * step {
			VADDPD(sums[i+step], sums[i], sums[i])
		}
	}
	high := XMM()
	low := sums[0].AsX()
	if s.bytes == 32 {
		VEXTRACTF128(Imm(1), sums[0], high)
		VADDPD(high, low, low)
	}
	VUNPCKHPD(low, low, high)
	VADDSD(high, low, low)
	Store(low, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

func (s isa) axpy() {
	TEXT("axpy"+s.name, 4, "func(w *float64, x *float32, n int, step float64)")
	Pragma("noescape")
	Doc("axpy" + s.name + " adds step x[i] to w[i], for n a multiple of 16 and not 0.")
	w, x, n := operands()
	address, err := Param("step").Resolve()
	if err != nil {
		panic(err)
	}
	step := s.register()
	if s.bytes == 16 {
		VMOVDDUP(address.Addr, step)
	} else {
		VBROADCASTSD(address.Addr, step)
	}
	s.eachTurn(w, x, n, func(part int) {
		sum := s.register()
		VMOVUPD(w.Offset(s.bytes*part), sum)
		VFMADD231PD(s.features(x, part), step, sum)
		VMOVUPD(sum, w.Offset(s.bytes*part))
	})
	VZEROUPPER()
	RET()
}
