package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/voxsaw/voxsaw/internal/device/cpu/asm/vector"
)

// residual is what is added before an activation.
type residual string

const (
	none  residual = ""
	full  residual = "Full"
	tiled residual = "Tiled"
)

// The parameter blocks of package cpu, as the assembler sees them.
const (
	actParams = "*struct{ mean, scale, shift, residual, slope [16]float32 }"
	actSums   = "*struct{ dz, dzx, dslope [16]float32 }"
	mixParams = "*struct{ a, b, c, mean [16]float32 }"
	sixteen   = "*[16]float32"
)

// argumentOf emits z = (x - mean) scale + shift + residual r and returns d = x - mean with it.
type argumentOf struct {
	s                            isa
	kind                         residual
	mean, scale, shift, residual lanes
	r                            Mem
}

func newArgument(s isa, kind residual, p Mem) argumentOf {
	a := argumentOf{s: s, kind: kind, mean: s.keep(p), scale: s.keep(p.Offset(64)), shift: s.keep(p.Offset(128))}
	if kind != none {
		a.residual = s.keep(p.Offset(192))
		a.r = slice("r")
	}
	return a
}

func (a argumentOf) emit(x Mem) (z, d lanes) {
	d = a.s.sub(a.s.load(x), a.mean)
	z = a.s.copy(a.shift)
	a.s.addMul(z, a.scale, d)
	switch a.kind {
	case full:
		a.s.addMul(z, a.residual, a.s.load(a.r))
		ADDQ(Imm(64), a.r.Base)
	case tiled:
		a.s.addMul(z, a.residual, a.s.broadcast(a.r))
		ADDQ(Imm(4), a.r.Base)
	}
	return z, d
}

func suffix(elu bool, r residual) string {
	if elu {
		return "ELU" + string(r)
	}
	return string(r)
}

func activate(s isa, elu bool, kind residual) string {
	name := s.begin("activate", suffix(elu, kind), "func(y, x, r []float32, p "+actParams+", stream int)")
	y, x, p, n := slice("y"), slice("x"), pointer("p"), length("y")
	argument := newArgument(s, kind, p)
	zero := s.zero()
	var slope, one lanes
	var exp exponential
	if elu {
		exp, one = s.exponential(), s.constant(1)
	} else {
		slope = s.keep(p.Offset(256))
	}
	s.streamedVoxels(n, func(stream bool) {
		z, _ := argument.emit(x)
		var negative lanes
		if elu {
			negative = s.sub(exp.of(z), one)
		} else {
			negative = s.mul(slope, z)
		}
		s.put(stream, s.choose(s.compare(notGreater, z, zero), negative, z), y)
	}, y, x)
	end()
	return name
}

func gradient(s isa, elu bool, kind residual) string {
	name := s.begin("gradient", suffix(elu, kind), "func(dz, dy, x, r []float32, p "+actParams+", s "+actSums+
		", stream int)")
	out, dy, x, p, sums, n := slice("dz"), slice("dy"), slice("x"), pointer("p"), pointer("s"), length("dz")
	argument := newArgument(s, kind, p)
	var exp exponential
	var slope, sumSlope lanes
	if elu {
		exp = s.exponential()
	} else {
		slope, sumSlope = s.keep(p.Offset(256)), s.load(sums.Offset(128))
	}
	sum, sumX := s.load(sums), s.load(sums.Offset(64))
	s.streamedVoxels(n, func(stream bool) {
		z, d := argument.emit(x)
		for i := range s.parts() { // one after the other: AVX2 is short of registers
			s, z, d := s.part(i), z[i:i+1], d[i:i+1]
			var gradient lanes
			if elu {
				gradient = s.mul(s.memory(dy), exp.part(i).of(z))
				gradient = s.choose(s.compare(notGreater, z, s.zero()), gradient, s.load(dy))
			} else {
				gradient = s.load(dy)
				negative := s.compare(notGreater, z, s.zero())
				s.addMul(sumSlope[i:i+1], s.only(negative, gradient), z)
				gradient = s.choose(negative, s.mul(slope[i:i+1], gradient), gradient)
			}
			s.put(stream, gradient, out)
			VADDPS(gradient[0], sum[i], sum[i])
			s.addMul(sumX[i:i+1], d, gradient)
		}
	}, out, dy, x)
	s.store(sum, sums)
	s.store(sumX, sums.Offset(64))
	if !elu {
		s.store(sumSlope, sums.Offset(128))
	}
	end()
	return name
}

func mix(s isa) string {
	name := s.begin("mix", "", "func(dx, dz, x []float32, p "+mixParams+", s "+sixteen+", stream int)")
	dx, dz, x, p, sums, n := slice("dx"), slice("dz"), slice("x"), pointer("p"), pointer("s"), length("dx")
	a, b, c, mean := s.keep(p), s.keep(p.Offset(64)), s.keep(p.Offset(128)), s.keep(p.Offset(192))
	sum := s.load(sums)
	s.streamedVoxels(n, func(stream bool) {
		out := s.copy(c)
		s.addMul(out, b, s.sub(s.load(x), mean))
		s.addMul(out, a, s.load(dz))
		s.put(stream, out, dx)
		for i := range sum {
			VADDPS(out[i], sum[i], sum[i])
		}
	}, dx, dz, x)
	s.store(sum, sums)
	end()
	return name
}

func sum(s isa) string {
	name := s.begin("sum", "", "func(x []float32, s "+sixteen+")")
	x, out, n := slice("x"), pointer("s"), length("x")
	total := s.zero()
	voxels(n, func() {
		for i := range total {
			VADDPS(s.at(x, i), total[i], total[i])
		}
	}, x)
	s.store(total, out)
	end()
	return name
}

func moments(s isa) string {
	name := s.begin("moments", "", "func(x []float32, mean, d, s "+sixteen+")")
	x, n := slice("x"), length("x")
	mean, differences, squares := s.keep(pointer("mean")), s.zero(), s.zero()
	voxels(n, func() {
		d := s.sub(s.load(x), mean)
		for i := range d {
			VADDPS(d[i], differences[i], differences[i])
		}
		s.addMul(squares, d, d)
	}, x)
	s.store(differences, pointer("d"))
	s.store(squares, pointer("s"))
	end()
	return name
}

func sumLanes(s isa) string {
	name := s.begin("sumLanes", "", "func(r, x []float32, add int)")
	r, x, n, adding := slice("r"), slice("x"), length("x"), Load(Param("add"), GP64())
	voxels(n, func() {
		total := s.across(VADDPS, s.load(x)).register(0).AsX()
		TESTQ(adding, adding)
		JZ(LabelRef("first"))
		VADDSS(r, total, total)
		Label("first")
		VMOVSS(total, r)
		ADDQ(Imm(4), r.Base)
	}, x)
	end()
	return name
}

// energy converts to float64: 16 elements are two registers of AVX-512, four of AVX2, eight of
// NEON, with a sum each.
func energy(s isa) string {
	name := s.begin("energy", "", "func(x []float32) float64")
	x, n := slice("x"), length("x")
	var sums []reg.VecVirtual
	for range 2 * s.parts() {
		sums = append(sums, s.zero().register(0))
	}
	voxels(n, func() {
		for i, sum := range sums {
			d := s.register()
			VCVTPS2PD(x.Offset(i*s.bytes/2), d)
			VFMADD231PD(d, d, sum)
		}
	}, x)
	for _, r := range sums[1:] {
		VADDPD(r, sums[0], sums[0])
	}
	total, half := sums[0], s.register()
	if s.wide() {
		VEXTRACTF64X4(Imm(1), total, half.AsY())
		VADDPD(half.AsY(), total.AsY(), total.AsY())
	}
	if !s.quarter() {
		s.upperHalf(total, half)
		VADDPD(half.AsX(), total.AsX(), total.AsX())
	}
	VPERMILPD(Imm(1), total.AsX(), half.AsX())
	VADDSD(half.AsX(), total.AsX(), total.AsX())
	Store(total.AsX(), ReturnIndex(0))
	end()
	return name
}

func sgd(s isa) string {
	name := s.begin("sgd", "", "func(p, v, g []float32, h *[4]float32)")
	p, v, g, h, n := slice("p"), slice("v"), slice("g"), pointer("h"), length("p")
	rate, momentum, decay, factor := s.broadcast(h), s.broadcast(h.Offset(4)), s.broadcast(h.Offset(8)),
		s.broadcast(h.Offset(12))
	voxels(n, func() {
		parameter := s.load(p)
		gradient := s.mul(s.load(g), factor)
		s.addMul(gradient, decay, parameter)
		s.addMul(gradient, momentum, s.load(v))
		s.store(gradient, v)
		for i := range parameter {
			VFNMADD231PS(rate[i], gradient[i], parameter[i])
		}
		s.store(parameter, p)
	}, p, v, g)
	end()
	return name
}
