package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/voxsaw/voxsaw/internal/device/cpu/asm/vector"
)

// classes emits kernels over the channels of 16 voxels at a time: transposed into rows of one class
// each, a voxel a lane, so that nothing has to be combined across lanes. There may be any number of
// classes; they come and go in quads, four to a voxel's 128 bits.
type classes struct {
	s      isa
	quads  reg.GPVirtual // ceil(classes / 4)
	toNext reg.GPVirtual // bytes from past the last quad of one block to the first of the next
}

const (
	rowBytes   = 64 // 16 voxels of a class
	quadBytes  = 16 // four classes of a voxel
	voxelBytes = 64 // 16 classes of a voxel
)

// newClasses loads what all kernels over classes take: their number and the elements from one block
// to the next.
func newClasses(s isa) classes {
	c := classes{s: s, quads: Load(Param("classes"), GP64()).(reg.GPVirtual),
		toNext: Load(Param("step"), GP64()).(reg.GPVirtual)}
	ADDQ(Imm(3), c.quads)
	SHRQ(Imm(2), c.quads)
	SHLQ(Imm(2), c.toNext)
	SUBQ(Imm(4*quadBytes), c.toNext)
	return c
}

// sixteens emits body for each 16 of n voxels.
func sixteens(n reg.GPVirtual, body func()) {
	SHRQ(Imm(4), n)
	JZ(LabelRef("done"))
	loop("sixteen", n, body)
	Label("done")
}

// transposed turns 4 x 4 matrices in the 128-bit parts of four registers.
func (s isa) transposed(r []reg.VecVirtual) []reg.VecVirtual {
	var t, c [4]reg.VecVirtual
	for i := range 4 {
		t[i], c[i] = s.register(), s.register()
	}
	VUNPCKLPS(r[1], r[0], t[0])
	VUNPCKHPS(r[1], r[0], t[1])
	VUNPCKLPS(r[3], r[2], t[2])
	VUNPCKHPS(r[3], r[2], t[3])
	VUNPCKLPD(t[2], t[0], c[0])
	VUNPCKHPD(t[2], t[0], c[1])
	VUNPCKLPD(t[3], t[1], c[2])
	VUNPCKHPD(t[3], t[1], c[3])
	return c[:]
}

// broadcastQuad fills all 128-bit parts of r: the assembler's register allocator takes a register
// that is written in part for one that was in use before.
func (s isa) broadcastQuad(m Mem, r reg.VecVirtual) {
	switch {
	case s.wide():
		VBROADCASTF32X4(m, r)
	case s.quarter():
		VMOVUPS(m, r)
	default:
		VBROADCASTF128(m, r)
	}
}

// voxel is the voxel whose quad is 128-bit part i of register j of a quad's four, in one part of
// the lanes.
func (s isa) voxel(part, i, j int) int { return part*s.bytes/4 + 4*i + j }

// gather: e[class][voxel] = m[voxel][class], quad by quad
func (c classes) gather(label string, m, e Mem) {
	quad, row, left, inBlock := copyOf(m), copyOf(e), GP64(), GP64()
	MOVQ(c.quads, left)
	MOVQ(U32(4), inBlock)
	Label(label)
	for part := range c.s.parts() {
		quads := make([]reg.VecVirtual, 4)
		// in the order of the voxels, as memory likes to be read
		for i := range c.s.bytes / quadBytes {
			for j := range quads {
				from := quad.Offset(c.s.voxel(part, i, j) * voxelBytes)
				switch {
				case i == 0:
					quads[j] = c.s.register()
					c.s.broadcastQuad(from, quads[j])
				case c.s.wide():
					VINSERTF32X4(Imm(uint64(i)), from, quads[j], quads[j])
				default:
					VINSERTF128(Imm(uint64(i)), from, quads[j], quads[j])
				}
			}
		}
		for class, r := range c.s.transposed(quads) {
			VMOVUPS(r, row.Offset(class*rowBytes+part*c.s.bytes))
		}
	}
	ADDQ(Imm(quadBytes), quad.Base)
	ADDQ(U32(4*rowBytes), row.Base)
	DECQ(inBlock)
	JNZ(LabelRef(label + "Same"))
	MOVQ(U32(4), inBlock)
	ADDQ(c.toNext, quad.Base)
	Label(label + "Same")
	DECQ(left)
	JNZ(LabelRef(label))
}

// scatter is the inverse of gather, a block of 16 rows at a time, so that memory is written in
// whole cache lines; rows past the last class are zero. It takes the kernel's parameter "stream".
func (c classes) scatter(m, e Mem) {
	if c.s.quarter() {
		c.scatterTo("scatter", m, e, false)
		return
	}
	stream := Load(Param("stream"), GP64())
	TESTQ(stream, stream)
	JNZ(LabelRef("streamed"))
	c.scatterTo("scatter", m, e, false)
	JMP(LabelRef("scattered"))
	Label("streamed")
	c.scatterTo("stream", m, e, true)
	SFENCE()
	Label("scattered")
}

func (c classes) scatterTo(label string, m, e Mem, stream bool) {
	block, row, left := copyOf(m), copyOf(e), GP64()
	MOVQ(c.quads, left)
	Label(label)
	for part := range c.s.parts() {
		switch {
		case c.s.wide():
			c.s.scatterBlock(block, row, stream)
		case c.s.quarter():
			c.s.scatterQuads(part, block, row)
		default:
			c.s.scatterHalves(part, block, row, stream)
		}
	}
	ADDQ(U32(16*rowBytes), row.Base)
	ADDQ(c.toNext, block.Base)
	ADDQ(Imm(4*quadBytes), block.Base)
	SUBQ(Imm(4), left)
	JG(LabelRef(label))
}

// quadsOf loads four rows and transposes them: 128-bit part i of register j is the quad of
// voxel(part, i, j).
func (s isa) quadsOf(part int, e Mem) []reg.VecVirtual {
	rows := make([]reg.VecVirtual, 4)
	for class := range rows {
		rows[class] = s.register()
		VMOVUPS(e.Offset(class*rowBytes+part*s.bytes), rows[class])
	}
	return s.transposed(rows)
}

// scatterBlock puts the four quads of each voxel next to each other: a transposition of 4 x 4 parts
// of 128 bits.
func (s isa) scatterBlock(m, e Mem, stream bool) {
	var quads [4][]reg.VecVirtual
	for g := range quads {
		quads[g] = s.quadsOf(0, e.Offset(4*g*rowBytes))
	}
	// [j][parts 0 and 2, parts 1 and 3][first two quads, last two]
	var pairs [4][2][2]reg.VecVirtual
	for j := range pairs {
		for half := range 2 {
			for odd, selector := range []uint64{0x88, 0xdd} {
				r := s.register()
				VSHUFF32X4(Imm(selector), quads[2*half+1][j], quads[2*half][j], r)
				pairs[j][odd][half] = r
			}
		}
	}
	for i := range 4 { // in the order of the voxels
		for j, p := range pairs {
			r := s.register()
			VSHUFF32X4(Imm([]uint64{0x88, 0xdd}[i/2]), p[i%2][1], p[i%2][0], r)
			s.put(stream, lanes{r}, m.Offset(s.voxel(0, i, j)*voxelBytes))
		}
	}
}

// scatterHalves is scatterBlock for 8 voxels, the halves of a cache line one after the other.
func (s isa) scatterHalves(part int, m, e Mem, stream bool) {
	for half := range 2 {
		first, second := s.quadsOf(part, e.Offset(8*half*rowBytes)), s.quadsOf(part, e.Offset((8*half+4)*rowBytes))
		for j := range 4 {
			for i, selector := range []uint64{0x20, 0x31} {
				r := s.register()
				VPERM2F128(Imm(selector), second[j], first[j], r)
				s.put(stream, lanes{r}, m.Offset(s.voxel(part, i, j)*voxelBytes+half*s.bytes))
			}
		}
	}
}

// scatterQuads is scatterBlock for 4 voxels.
func (s isa) scatterQuads(part int, m, e Mem) {
	for g := range 4 {
		for j, r := range s.quadsOf(part, e.Offset(4*g*rowBytes)) {
			VMOVUPS(r, m.Offset(s.voxel(part, 0, j)*voxelBytes+g*quadBytes))
		}
	}
}

// along is memory that a loop over the classes steps through.
type along struct {
	m     Mem
	bytes int // a class
}

// eachClass emits body for each class and its row at e.
func (c classes) eachClass(label string, e Mem, body func(row Mem), more ...along) {
	n, row := Load(Param("classes"), GP64()), Mem{Base: GP64()}
	MOVQ(e.Base, row.Base)
	Label(label)
	body(row)
	for _, a := range append(more, along{row, rowBytes}) {
		ADDQ(U32(a.bytes), a.m.Base)
	}
	DECQ(n)
	JNZ(LabelRef(label))
}

// greatest is the greatest of each column of e.
func (c classes) greatest(e Mem) lanes {
	top := c.s.load(e)
	c.eachClass("greatest", e, func(row Mem) {
		for i := range top {
			VMAXPS(c.s.at(row, i), top[i], top[i])
		}
	})
	return top
}

// exponentials: e = exp(e - greatest of its column), of which it returns the sum and its inverse;
// before sees each row as it was.
func (c classes) exponentials(e Mem, exp exponential, before func(x, top lanes)) (inverse, total lanes) {
	top := c.greatest(e)
	total = c.s.zero()
	c.eachClass("exponentials", e, func(row Mem) {
		x := c.s.load(row)
		if before != nil {
			before(x, top)
		}
		y := exp.of(c.s.sub(x, top))
		c.s.store(y, row)
		for i := range total {
			VADDPS(y[i], total[i], total[i])
		}
	})
	return c.s.div(c.s.registers(c.s.constant(1)), total), total
}

// counter is the number of a class in all lanes: one register.
type counter struct {
	lanes lanes
	one   Op
}

func newCounter(s isa) counter {
	r := s.part(0).zero()[0]
	c := counter{one: s.constant(1)[0]}
	for range s.parts() {
		c.lanes = append(c.lanes, r)
	}
	return c
}

func (c counter) next() { VADDPS(c.one, c.lanes[0], c.lanes[0]) }

func softmax(s isa) string {
	name := s.begin("softmax", "", "func(y, x *float32, n, classes, step int, e *float32, stream int)")
	y, x, e, n := pointer("y"), pointer("x"), pointer("e"), Load(Param("n"), GP64()).(reg.GPVirtual)
	c, exp := newClasses(s), s.thriftyExponential()
	sixteens(n, func() {
		c.gather("gather", x, e)
		inverse, _ := c.exponentials(e, exp, nil)
		c.eachClass("scale", e, func(row Mem) { s.store(s.mul(s.memory(row), inverse), row) })
		c.scatter(y, e)
		ADDQ(U32(16*voxelBytes), x.Base)
		ADDQ(U32(16*voxelBytes), y.Base)
	})
	end()
	return name
}

func softmaxGrad(s isa) string {
	name := s.begin("softmaxGrad", "", "func(dx, y, dy *float32, n, classes, step int, e *float32, stream int)")
	dx, y, dy, e, n := pointer("dx"), pointer("y"), pointer("dy"), pointer("e"),
		Load(Param("n"), GP64()).(reg.GPVirtual)
	c := newClasses(s)
	second := Mem{Base: GP64()} // the rows of dy, after those of y
	MOVQ(c.quads, second.Base)
	ADDQ(Imm(3), second.Base)
	SHRQ(Imm(2), second.Base)
	SHLQ(Imm(10), second.Base)
	ADDQ(e.Base, second.Base)
	sixteens(n, func() {
		c.gather("gather", y, e)
		c.gather("gatherGradient", dy, second)
		dot := s.zero()
		other := copyOf(second)
		c.eachClass("dot", e, func(row Mem) { s.addMul(dot, s.memory(row), s.load(other)) }, along{other, rowBytes})
		other = copyOf(second)
		c.eachClass("gradient", e, func(row Mem) {
			s.store(s.mul(s.memory(row), s.sub(s.load(other), dot)), row)
		}, along{other, rowBytes})
		c.scatter(dx, e)
		for _, m := range []Mem{dx, y, dy} {
			ADDQ(U32(16*voxelBytes), m.Base)
		}
	})
	end()
	return name
}

func copyOf(m Mem) Mem {
	r := GP64()
	MOVQ(m.Base, r)
	return Mem{Base: r}
}

func loss(s isa) string {
	name := s.begin("loss", "", "func(x *float32, target []float32, classes, step int, e, s, products *float32)")
	x, target, e, n := pointer("x"), slice("target"), pointer("e"), length("target")
	c, exp := newClasses(s), s.thriftyExponential()
	one := s.constant(1)
	sixteens(n, func() {
		c.gather("gather", x, e)
		total := pointer("s")
		class := newCounter(s)
		inverse, sum := c.exponentials(e, exp, func(x, top lanes) {
			m := s.compare(equal, class.lanes, s.memory(target))
			s.store(s.add(s.memory(total), s.only(m, s.sub(top, x))), total)
			class.next()
		})
		counts := s.compare(notLess, s.load(target), s.zero())
		s.store(s.add(s.memory(total.Offset(rowBytes)), s.only(counts, s.registers(one))), total.Offset(rowBytes))
		products := pointer("products")
		s.store(s.mul(s.memory(products), s.choose(counts, sum, s.registers(one))), products)
		ADDQ(U32(2*rowBytes), total.Base)
		class = newCounter(s)
		c.eachClass("sums", e, func(row Mem) {
			// not by an inverse of 0: what does not count may be infinite
			p := s.only(counts, s.mul(s.memory(row), inverse))
			m := s.compare(equal, class.lanes, s.memory(target))
			s.store(s.add(s.memory(total), s.only(m, p)), total)
			s.store(s.add(s.memory(total.Offset(rowBytes)), p), total.Offset(rowBytes))
			s.store(s.add(s.memory(total.Offset(2*rowBytes)), s.only(m, s.registers(one))), total.Offset(2*rowBytes))
			class.next()
		}, along{total, 3 * rowBytes})
		ADDQ(U32(16*voxelBytes), x.Base)
		ADDQ(Imm(64), target.Base)
	})
	end()
	return name
}

func lossGrad(s isa) string {
	name := s.begin("lossGrad", "",
		"func(dx, x *float32, target []float32, classes, step int, e, by, s *float32, stream int)")
	dx, x, target, e, n := pointer("dx"), pointer("x"), slice("target"), pointer("e"), length("target")
	c, exp := newClasses(s), s.thriftyExponential()
	sixteens(n, func() {
		c.gather("gather", x, e)
		inverse, _ := c.exponentials(e, exp, nil)
		counts := s.compare(notLess, s.load(target), s.zero())
		class, dot := newCounter(s), s.zero()
		by := pointer("by")
		ADDQ(Imm(4), by.Base)
		c.eachClass("dot", e, func(row Mem) {
			p := s.only(counts, s.mul(s.memory(row), inverse))
			s.store(p, row)
			m := s.compare(equal, class.lanes, s.memory(target))
			s.addMul(dot, p, s.add(s.only(m, s.broadcast(by.Offset(4))), s.broadcast(by)))
			class.next()
		}, along{by, 8})
		by = pointer("by")
		ce := s.broadcast(by)
		ADDQ(Imm(4), by.Base)
		rest := s.sub(ce, dot)
		class = newCounter(s)
		sums := pointer("s")
		c.eachClass("gradient", e, func(row Mem) {
			m := s.compare(equal, class.lanes, s.memory(target))
			g := s.add(s.add(s.only(m, s.broadcast(by.Offset(4))), s.broadcast(by)), rest)
			out := s.sub(s.mul(s.memory(row), g), s.only(m, ce))
			s.store(out, row)
			s.store(s.add(s.memory(sums), out), sums)
			class.next()
		}, along{by, 8}, along{sums, rowBytes})
		c.scatter(dx, e)
		ADDQ(U32(16*voxelBytes), dx.Base)
		ADDQ(U32(16*voxelBytes), x.Base)
		ADDQ(Imm(64), target.Base)
	})
	end()
	return name
}
