package main

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is what differs between the instruction sets. A block of 16 channels is one AVX-512 register,
// or two parts of AVX2.
type isa struct {
	name      string // also the suffix of the kernels
	parts     int    // registers that hold a block
	bytes     int    // of a register
	rows      int    // rows of the largest product kernel: what the registers hold
	vectors   int    // blocks of the widest product and outer kernels
	outerRows int    // rows of the largest outer kernel
	taps      int    // rows of taps that outerTaps sums at once
	embedded  bool   // instructions can broadcast an operand in memory
}

var (
	avx512 = isa{name: "avx512", parts: 1, bytes: 64, rows: 12, vectors: 2, outerRows: 12, taps: 5, embedded: true}
	avx2   = isa{name: "avx2", parts: 2, bytes: 32, rows: 6, vectors: 1, outerRows: 6, taps: 1}
)

func (s isa) register() reg.VecVirtual {
	if s.bytes == 64 {
		return ZMM()
	}
	return YMM()
}

func (s isa) registers(n int) []reg.VecVirtual {
	r := make([]reg.VecVirtual, n)
	for i := range r {
		r[i] = s.register()
	}
	return r
}

func (s isa) zero(r reg.VecVirtual) {
	if s.bytes == 64 {
		VPXORD(r, r, r)
	} else {
		VXORPS(r, r, r)
	}
}

// multiplyBroadcast: sums[i] += (the float32 at m) * factors[i]. An operand in memory would be
// loaded again by each instruction, and two loads a cycle are as scarce as two multiplications.
func (s isa) multiplyBroadcast(m Mem, factors, sums []reg.VecVirtual) {
	if s.embedded && len(sums) == 1 {
		VFMADD231PS_BCST(m, factors[0], sums[0])
		return
	}
	x := s.register()
	VBROADCASTSS(m, x)
	for i := range sums {
		VFMADD231PS(x, factors[i], sums[i])
	}
}

// loop emits body, which runs while counter, decremented after each turn, is not zero.
func loop(label string, counter Op, body func()) {
	Label(label)
	body()
	DECQ(counter)
	JNZ(LabelRef(label))
}

// argument is the memory of a parameter.
func argument(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

func load(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// loadBytes loads a number of float32 elements as a number of bytes.
func loadBytes(name string) reg.GPVirtual {
	r := load(name)
	SHLQ(Imm(2), r)
	return r
}

// strided gives the addresses base + i*step for i < n, in bytes: three of four by the scale of an
// index, each fourth by a pointer of its own.
type strided struct {
	pointers    []reg.GPVirtual
	step, step3 reg.GPVirtual
}

func newStrided(n int, step, step3 reg.GPVirtual) strided {
	p := strided{step: step, step3: step3}
	for range (n + 3) / 4 {
		p.pointers = append(p.pointers, GP64())
	}
	return p
}

// start sets the pointers; the first one must hold the base already.
func (p strided) start() {
	for i := 1; i < len(p.pointers); i++ {
		LEAQ(Mem{Base: p.pointers[i-1], Index: p.step, Scale: 4}, p.pointers[i])
	}
}

func (p strided) at(i, displacement int) Mem {
	m := Mem{Base: p.pointers[i/4], Disp: displacement}
	switch i % 4 {
	case 1:
		m.Index, m.Scale = p.step, 1
	case 2:
		m.Index, m.Scale = p.step, 2
	case 3:
		m.Index, m.Scale = p.step3, 1
	}
	return m
}

func (p strided) advance(bytes Op) {
	for _, r := range p.pointers {
		ADDQ(bytes, r)
	}
}

func triple(step reg.GPVirtual) reg.GPVirtual {
	r := GP64()
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, r)
	return r
}

var constants = map[string]Mem{}

// constant is eight copies of a number in read-only memory.
func constant(c *big.Rat) Mem {
	name := "c" + strings.NewReplacer("/", "over").Replace(c.RatString())
	if m, ok := constants[name]; ok {
		return m
	}
	f, _ := c.Float32()
	m := GLOBL(name, 8|16) // RODATA|NOPTR
	for i := range 8 {
		// as bits: an integral F32 would be written, and stored, as an integer
		DATA(4*i, U32(math.Float32bits(f)))
	}
	constants[name] = m
	return m
}

// begin starts a kernel and returns its name.
func begin(s isa, name, signature, doc string) string {
	name += map[string]string{"avx512": "AVX512", "avx2": "AVX2"}[s.name]
	TEXT(name, 4, signature) // NOSPLIT
	Pragma("noescape")
	Doc(strings.Split(fmt.Sprintf(doc, name), "\n")...)
	return name
}

func end() {
	VZEROUPPER()
	RET()
}
