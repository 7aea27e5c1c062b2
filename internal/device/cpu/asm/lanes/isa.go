package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/voxsaw/voxsaw/internal/device/cpu/asm/vector"
)

// isa is what differs between the instruction sets: the 16 lanes of a voxel are one register of
// AVX-512, two parts of AVX2 or four of NEON. AVX-512 has registers for all that a loop keeps; AVX2
// leaves what does not change in memory, as operands, and so does NEON with what differs from lane
// to lane, which would take four registers. Kernels for NEON are described in amd64's instructions
// on 16 bytes, which package vector translates.
type isa struct {
	name    string // suffix of the kernels
	bytes   int    // of a register
	first   int    // part that is worked on
	count   int    // of parts
	dotRows int    // rows of the largest dots kernel
}

var (
	avx512 = isa{name: "AVX512", bytes: 64, count: 1, dotRows: 6}
	avx2   = isa{name: "AVX2", bytes: 32, count: 2, dotRows: 2}
	// 4 x 4 sums leave registers for the factors
	neon = isa{name: "NEON", bytes: 16, count: 4, dotRows: 4}
)

// sets are the instruction sets of each architecture, best first.
var sets = map[string][]isa{"amd64": {avx512, avx2}, "arm64": {neon}}

func (s isa) parts() int    { return s.count }
func (s isa) wide() bool    { return s.bytes == 64 }
func (s isa) quarter() bool { return s.bytes == 16 }

// part works on one part only.
func (s isa) part(i int) isa {
	s.first, s.count = i, 1
	return s
}

// A lanes is 16 float32: registers, or operands in memory.
type lanes []Op

func (s isa) register() reg.VecVirtual {
	switch {
	case s.wide():
		return ZMM()
	case s.quarter():
		return XMM()
	}
	return YMM()
}

// each calls f for every part of new registers, and returns them.
func (s isa) each(f func(part int, r reg.VecVirtual)) lanes {
	var l lanes
	for i := range s.parts() {
		r := s.register()
		f(i, r)
		l = append(l, r)
	}
	return l
}

func (l lanes) register(part int) reg.VecVirtual { return l[part].(reg.VecVirtual) }

// at is the memory of part i of the 16 elements at m.
func (s isa) at(m Mem, part int) Mem { return m.Offset((s.first + part) * s.bytes) }

func (s isa) load(m Mem) lanes {
	return s.each(func(i int, r reg.VecVirtual) { VMOVUPS(s.at(m, i), r) })
}

func (s isa) store(l lanes, m Mem) {
	for i := range l {
		VMOVUPS(l[i], s.at(m, i))
	}
}

// put stores; past the caches where stream is set, which spares reading memory before it is
// written. m is aligned then.
func (s isa) put(stream bool, l lanes, m Mem) {
	if !stream {
		s.store(l, m)
		return
	}
	for i := range l {
		VMOVNTPS(l[i], s.at(m, i))
	}
}

// memory leaves the 16 elements at m where they are, as operands.
func (s isa) memory(m Mem) lanes {
	var l lanes
	for i := range s.parts() {
		l = append(l, s.at(m, i))
	}
	return l
}

// keep loads what does not change in a loop, or leaves it where it is.
func (s isa) keep(m Mem) lanes {
	if s.wide() {
		return s.load(m)
	}
	return s.memory(m)
}

func (s isa) zero() lanes {
	return s.each(func(_ int, r reg.VecVirtual) {
		if s.wide() {
			VPXORD(r, r, r) // VXORPS of this length is an extension
		} else {
			VXORPS(r, r, r)
		}
	})
}

// registers loads what constant left in memory.
func (s isa) registers(l lanes) lanes {
	if s.wide() || s.quarter() {
		return l
	}
	return s.copy(l)
}

func (s isa) copy(l lanes) lanes {
	return s.each(func(i int, r reg.VecVirtual) { VMOVUPS(l[i], r) })
}

// broadcast fills all lanes with the float32 at m; the parts share a register.
func (s isa) broadcast(m Op) lanes {
	r := s.register()
	VBROADCASTSS(m, r)
	l := make(lanes, s.parts())
	for i := range l {
		l[i] = r
	}
	return l
}

// binary emits r = b op a for every part; b must be registers, a may be memory.
func (s isa) binary(op func(ops ...Op), a, b lanes) lanes {
	return s.each(func(i int, r reg.VecVirtual) { op(a[i], b[i], r) })
}

func (s isa) add(a, b lanes) lanes { return s.binary(VADDPS, a, b) }
func (s isa) sub(b, a lanes) lanes { return s.binary(VSUBPS, a, b) } // b - a
func (s isa) mul(a, b lanes) lanes { return s.binary(VMULPS, a, b) }
func (s isa) div(b, a lanes) lanes { return s.binary(VDIVPS, a, b) } // b / a

// addMul: l += a b; a may be memory.
func (s isa) addMul(l, a, b lanes) {
	for i := range l {
		VFMADD231PS(a[i], b[i], l[i])
	}
}

// Comparisons, as VCMPPS numbers them; unordered says what NaN gives.
const (
	equal      = 0x00
	notGreater = 0x1a // or unordered
	less       = 0x11
	notLess    = 0x15 // or unordered
	greater    = 0x1e
	unordered  = 0x03
)

// mask is where a comparison holds: mask registers, or all bits of a lane.
type mask []Op

// compare emits a op b; b may be memory.
func (s isa) compare(op uint64, a, b lanes) mask {
	var m mask
	for i := range a {
		if s.wide() {
			k := K()
			VCMPPS(Imm(op), b[i], a[i], k)
			m = append(m, k)
		} else {
			r := s.register()
			VCMPPS(Imm(op), b[i], a[i], r)
			m = append(m, r)
		}
	}
	return m
}

// choose is yes where m holds, else no; no must be registers.
func (s isa) choose(m mask, yes, no lanes) lanes {
	return s.each(func(i int, r reg.VecVirtual) {
		if s.wide() {
			VBLENDMPS(yes[i], no[i], m[i], r)
		} else {
			VBLENDVPS(m[i], yes[i], no[i], r)
		}
	})
}

// only is l where m holds, else 0.
func (s isa) only(m mask, l lanes) lanes {
	return s.each(func(i int, r reg.VecVirtual) {
		if s.wide() {
			VMOVAPS_Z(l[i], m[i], r)
		} else {
			VANDPS(l[i], m[i], r)
		}
	})
}

// across combines the 16 lanes by an operation; all lanes of the result hold it, and the parts
// share a register.
func (s isa) across(op func(ops ...Op), l lanes) lanes {
	r, t := s.register(), s.register()
	if s.wide() {
		VSHUFF32X4(Imm(0x4e), l[0], l[0], t)
		op(t, l[0], r)
		VSHUFF32X4(Imm(0xb1), r, r, t)
		op(t, r, r)
	} else {
		op(l[0], l[1], r)
		if s.quarter() {
			op(l[2], l[3], t)
		} else {
			VPERM2F128(Imm(1), r, r, t)
		}
		op(t, r, r)
	}
	VPERMILPS(Imm(0x4e), r, t)
	op(t, r, r)
	VPERMILPS(Imm(0xb1), r, t)
	op(t, r, r)
	all := make(lanes, s.parts())
	for i := range all {
		all[i] = r
	}
	return all
}

// upperHalf copies the upper half of a register of 32 bytes.
func (s isa) upperHalf(from, to reg.VecVirtual) {
	if s.wide() {
		// VEXTRACTF128 reaches only half of the registers
		VEXTRACTF32X4(Imm(1), from.AsY(), to.AsX())
	} else {
		VEXTRACTF128(Imm(1), from.AsY(), to.AsX())
	}
}

// constants are kept once each in read-only memory, 16 copies: an operand for both instruction
// sets.
var constants = map[float32]Mem{}

func (s isa) constant(c float32) lanes {
	if s.quarter() {
		return s.broadcast(constantAt(c))
	}
	return s.keep(constantAt(c))
}

func constantAt(c float32) Mem {
	m, ok := constants[c]
	if !ok {
		m = GLOBL(fmt.Sprintf("lanes%d", len(constants)), 8|16) // RODATA|NOPTR
		for i := range 16 {
			DATA(4*i, U32(math.Float32bits(c)))
		}
		constants[c] = m
	}
	return m
}

// exponential is what exp needs: the constants of package cpu's exp.
type exponential struct {
	s                        isa
	lowest, log2e, high, low lanes
	poly                     []lanes
}

func (s isa) exponential() exponential { return s.exponentialOf(s.constant) }

// thriftyExponential leaves its constants in memory.
func (s isa) thriftyExponential() exponential {
	e := s.exponentialOf(func(c float32) lanes { return s.memory(constantAt(c)) })
	e.lowest = s.constant(expLowest)
	return e
}

const expLowest = -87.33654

func (s isa) exponentialOf(constant func(float32) lanes) exponential {
	e := exponential{s: s, lowest: constant(expLowest), log2e: constant(1.44269504088896), high: constant(0.693359375),
		low: constant(-2.12194440e-4)}
	if s.quarter() { // a multiply-add replaces what it adds to, so that is loaded each time
		constant = func(c float32) lanes { return s.memory(constantAt(c)) }
	}
	for _, c := range []float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
		5.0000001201e-1, 1, 1} {
		e.poly = append(e.poly, constant(c))
	}
	return e
}

// part works on one part only; all parts of a constant are the same.
func (e exponential) part(i int) exponential {
	e.s = e.s.part(i)
	return e
}

// of is e^x, for x up to 88: 2^n times a polynomial of x - n ln 2. One part after the other: AVX2
// is short of registers.
func (e exponential) of(x lanes) lanes {
	s := e.s
	return s.each(func(i int, p reg.VecVirtual) {
		lowest, f, n := e.lowest[i], s.register(), s.register()
		if !s.wide() {
			VMOVUPS(lowest, n)
			lowest = n
		}
		VMAXPS(x[i], lowest, f) // in this order NaN stays
		VMULPS(e.log2e[i], f, n)
		if s.wide() {
			VRNDSCALEPS(Imm(8), n, n)
		} else {
			VROUNDPS(Imm(8), n, n)
		}
		VFNMADD231PS(e.high[i], n, f)
		VFNMADD231PS(e.low[i], n, f)
		VMOVUPS(e.poly[0][i], p)
		for _, c := range e.poly[1:] {
			VFMADD213PS(c[i], f, p)
		}
		if s.wide() {
			VSCALEFPS(n, p, p)
			k := K()
			VCMPPS(Imm(notLess), e.lowest[i], x[i], k) // below the lowest: 0
			VMOVAPS_Z(p, k, p)
			return
		}
		VCVTPS2DQ(n, n)
		VPSLLD(Imm(23), n, n)
		VPADDD(n, p, p)
		VCMPPS(Imm(less), e.lowest[i], x[i], n) // below the lowest: 0
		VANDNPS(p, n, p)
	})
}

// pointer loads the first element's address of a slice parameter, or a pointer.
func pointer(name string) Mem { return Mem{Base: Load(Param(name), GP64())} }
func slice(name string) Mem   { return Mem{Base: Load(Param(name).Base(), GP64())} }

func length(name string) reg.GPVirtual { return Load(Param(name).Len(), GP64()).(reg.GPVirtual) }

// voxels emits body for each 16 elements of n; the pointers then step to the next ones.
func voxels(n reg.GPVirtual, body func(), pointers ...Mem) {
	SHRQ(Imm(4), n)
	JZ(LabelRef("done"))
	loop("voxel", n, body, pointers...)
	Label("done")
}

// loop emits body n times, n at least 1; the pointers step on by 16 elements each time.
func loop(label string, n reg.GPVirtual, body func(), pointers ...Mem) {
	Label(label)
	body()
	for _, p := range pointers {
		ADDQ(Imm(64), p.Base)
	}
	DECQ(n)
	JNZ(LabelRef(label))
}

// streamedVoxels is voxels for a kernel with a parameter "stream"; where that is not 0, body is to
// put past the caches. NEON has no store that does so for a whole cache line.
func (s isa) streamedVoxels(n reg.GPVirtual, body func(stream bool), pointers ...Mem) {
	if s.quarter() {
		voxels(n, func() { body(false) }, pointers...)
		return
	}
	stream := Load(Param("stream"), GP64())
	SHRQ(Imm(4), n)
	JZ(LabelRef("done"))
	TESTQ(stream, stream)
	JNZ(LabelRef("streamed"))
	loop("voxel", n, func() { body(false) }, pointers...)
	JMP(LabelRef("done"))
	Label("streamed")
	loop("streamedVoxel", n, func() { body(true) }, pointers...)
	SFENCE()
	Label("done")
}

// begin starts a kernel, one of a field of laneKernels, and returns its name.
func (s isa) begin(field, variant, signature string) string {
	name := field + variant + s.name
	TEXT(name, 4, signature) // NOSPLIT
	Pragma("noescape")
	Doc(fmt.Sprintf("%s is for laneKernels.%s.", name, field))
	return name
}

func end() {
	VZEROUPPER()
	RET()
}
