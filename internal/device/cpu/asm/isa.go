package main

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/voxsaw/voxsaw/internal/device/cpu/asm/vector"
)

// isa is what differs between the instruction sets. A block of 16 channels is one AVX-512 register,
// two parts of AVX2 or four of NEON. Kernels are described in amd64's instructions, for NEON in
// those on 16 bytes, which package vector translates.
type isa struct {
	name      string // also the suffix of the kernels
	parts     int    // registers that hold a block
	bytes     int    // of a register
	rows      int    // rows of the largest product kernel: what the registers hold
	vectors   int    // blocks of the widest product and outer kernels
	outerRows int    // rows of the largest outer kernel
	taps      int    // rows of taps that outerTaps sums at once
	embedded  bool   // instructions can broadcast an operand in memory
	indexed   bool   // addresses can have an index and a displacement
	roomy     bool   // there are registers for the constants of a transform
}

var (
	avx512 = isa{name: "avx512", parts: 1, bytes: 64, rows: 12, vectors: 2, outerRows: 12, taps: 5, embedded: true,
		indexed: true, roomy: true}
	avx2 = isa{name: "avx2", parts: 2, bytes: 32, rows: 6, vectors: 1, outerRows: 6, taps: 1, indexed: true}
	// 6 rows of 4 sums leave 8 of 32 registers, which two elements of each row and half a block of
	// weights take (see pairs). A tile of 8 x 12 would load less, but a block is no multiple of 12.
	// By llvm-mca (scripts/neon-cycles.py) two elements at a time are a tenth faster on Neoverse N1
	// than one, and half as fast again on V2; on V1 either takes all that its units multiply.
	neon = isa{name: "neon", parts: 4, bytes: 16, rows: 6, vectors: 1, outerRows: 6, taps: 1, roomy: true}
)

// sets are the instruction sets of each architecture, best first.
var sets = map[string][]isa{"amd64": {avx512, avx2}, "arm64": {neon}}

func (s isa) register() reg.VecVirtual {
	switch s.bytes {
	case 64:
		return ZMM()
	case 32:
		return YMM()
	}
	return XMM()
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
	if s.byLane() {
		LDR(4, m, x)
		s.multiplyLane(x, 0, factors, sums)
		return
	}
	VBROADCASTSS(m, x)
	for i := range sums {
		VFMADD231PS(x, factors[i], sums[i])
	}
}

// byLane says whether an instruction can multiply by one lane of a register.
func (s isa) byLane() bool { return s.bytes == 16 }

// multiplyLane: sums[i] += (one lane of x) * factors[i]
func (s isa) multiplyLane(x reg.VecVirtual, lane int, factors, sums []reg.VecVirtual) {
	for i := range sums {
		FMLA(x, lane, factors[i], sums[i])
	}
}

// multiplyNeighbours: sums[i][j] += (the float32 at m + 4 i) * factors[j]
func (s isa) multiplyNeighbours(m Mem, factors []reg.VecVirtual, sums [][]reg.VecVirtual) {
	for first := 0; first < len(sums); {
		n := 1 // lanes of a load
		for s.byLane() && n < 4 && first+2*n <= len(sums) {
			n *= 2
		}
		at := m.Offset(4 * first)
		if n == 1 {
			s.multiplyBroadcast(at, factors, sums[first])
		} else {
			x := s.register()
			LDR(4*n, at, x)
			for lane := range n {
				s.multiplyLane(x, lane, factors, sums[first+lane])
			}
		}
		first += n
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

// strided gives the addresses base + i*step for i < n, in bytes: where addresses can be indexed,
// three of four by the scale of an index, each fourth by a pointer of its own; else all by
// pointers.
type strided struct {
	pointers    []reg.GPVirtual
	each        int // rows of a pointer
	step, step3 reg.GPVirtual
}

func (s isa) newStrided(n int, step, step3 reg.GPVirtual) strided {
	p := strided{each: 1, step: step, step3: step3}
	if s.indexed {
		p.each = 4
	}
	for range (n + p.each - 1) / p.each {
		p.pointers = append(p.pointers, GP64())
	}
	return p
}

// start sets the pointers; the first one must hold the base already.
func (p strided) start() {
	for i := 1; i < len(p.pointers); i++ {
		LEAQ(Mem{Base: p.pointers[i-1], Index: p.step, Scale: uint8(p.each)}, p.pointers[i])
	}
}

func (p strided) at(i, displacement int) Mem {
	m := Mem{Base: p.pointers[i/p.each], Disp: displacement}
	switch i % p.each {
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
	name += map[string]string{"avx512": "AVX512", "avx2": "AVX2", "neon": "NEON"}[s.name]
	TEXT(name, 4, signature) // NOSPLIT
	Pragma("noescape")
	Doc(strings.Split(fmt.Sprintf(doc, name), "\n")...)
	return name
}

func end() {
	VZEROUPPER()
	RET()
}
