package main

import (
	"math"
	"sync"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// The parameter blocks of package cpu, as the assembler sees them.
const (
	lossSums   = "*struct{ hit, p, truth, margin [16]float32 }"
	lossParams = "*struct{ live, byP, byHit, ce [16]float32 }"
)

// classes emits exponentials over the lanes that are a class.
type classes struct {
	s    isa
	exp  exponential
	bias lanes // 0 where a lane is a class, else so low that its exponential is 0

	numbers lanes // 0, 1, ..., 15: a class each
}

func newClasses(s isa, live Mem) classes {
	c := classes{s: s, exp: s.exponential()}
	c.bias = s.mul(s.constant(1e30), s.sub(s.load(live), s.constant(1)))
	c.numbers = s.keep(laneNumbers())
	return c
}

// exponentials is exp(x - greatest) of the voxel at m, their sum, the logits and the greatest.
func (c classes) exponentials(m Mem) (e, total, x, greatest lanes) {
	x = c.s.add(c.s.memory(m), c.bias)
	greatest = c.s.across(VMAXPS, x)
	e = c.exp.of(c.s.sub(x, greatest))
	return e, c.s.across(VADDPS, e), x, greatest
}

func softmax(s isa) string {
	name := s.begin("softmax", "", "func(p, x []float32, live "+sixteen+")")
	p, x, n := slice("p"), slice("x"), length("p")
	c := newClasses(s, pointer("live"))
	voxels(n, func() {
		e, total, _, _ := c.exponentials(x)
		s.store(s.div(e, total), p)
	}, p, x)
	end()
	return name
}

// lanesOfClass is where the target at m is the lane's own class.
func (c classes) lanesOfClass(m Mem) mask {
	return c.s.compare(equal, c.s.broadcast(m), c.numbers)
}

// laneNumbers is 0, 1, ..., 15 in read-only memory.
var laneNumbers = sync.OnceValue(func() Mem {
	m := GLOBL("laneNumbers", 8|16) // RODATA|NOPTR
	for i := range 16 {
		DATA(4*i, U32(math.Float32bits(float32(i))))
	}
	return m
})

// ifCounts emits yes where the target at m is not negative, else no.
func ifCounts(m Mem, yes, no func()) {
	zero, target := XMM(), XMM()
	VXORPS(zero, zero, zero)
	VMOVSS(m, target)
	VUCOMISS(zero, target)
	JCS(LabelRef("uncounted"))
	yes()
	JMP(LabelRef("next"))
	Label("uncounted")
	no()
	Label("next")
}

func loss(s isa) string {
	name := s.begin("loss", "", "func(x, target, total []float32, live "+sixteen+", s "+lossSums+")")
	x, target, totals, n, sums := slice("x"), slice("target"), slice("total"), length("x"), pointer("s")
	c := newClasses(s, pointer("live"))
	hit, all, truth, margin := sums, sums.Offset(64), sums.Offset(128), sums.Offset(192)
	one := s.constant(1)
	voxels(n, func() {
		ifCounts(target, func() {
			e, total, logits, greatest := c.exponentials(x)
			VMOVSS(total.register(0).AsX(), totals)
			p := s.div(e, total)
			s.store(s.add(s.memory(all), p), all)
			m := c.lanesOfClass(target)
			s.store(s.add(s.memory(hit), s.only(m, p)), hit)
			s.store(s.add(s.memory(truth), s.only(m, s.registers(one))), truth)
			s.store(s.add(s.memory(margin), s.only(m, s.sub(greatest, logits))), margin)
		}, func() {
			r := XMM()
			VMOVSS(constantAt(1), r)
			VMOVSS(r, totals)
		})
		ADDQ(Imm(4), target.Base)
		ADDQ(Imm(4), totals.Base)
	}, x)
	end()
	return name
}

func lossGrad(s isa) string {
	name := s.begin("lossGrad", "", "func(dx, x, target []float32, p "+lossParams+")")
	dx, x, target, n, params := slice("dx"), slice("x"), slice("target"), length("dx"), pointer("p")
	c := newClasses(s, params)
	byP, byHit, ce := s.keep(params.Offset(64)), s.keep(params.Offset(128)), s.keep(params.Offset(192))
	voxels(n, func() {
		ifCounts(target, func() {
			e, total, _, _ := c.exponentials(x)
			p := s.div(e, total)
			m := c.lanesOfClass(target)
			g := s.add(byP, s.only(m, s.registers(byHit)))
			dot := s.across(VADDPS, s.mul(p, g))
			out := s.mul(p, s.sub(s.add(ce, g), dot))
			s.store(s.sub(out, s.only(m, s.registers(ce))), dx)
		}, func() {
			s.store(s.zero(), dx)
		})
		ADDQ(Imm(4), target.Base)
	}, dx, x)
	end()
	return name
}
