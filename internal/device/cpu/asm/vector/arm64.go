package vector

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// arm64 prints a file of kernels, on virtual registers of 16 bytes, as assembly for arm64. Each
// instruction becomes one or a few of arm64's ([translation.instruction]); what belongs together
// there is joined ([function.join]); values get registers ([function.allot]). Go's assembler knows
// loads and stores of vectors, but hardly any of their arithmetic, which is written as words, with
// the instruction beside it.
type arm64 struct{}

// value is a register before it has a number, 0 none.
type value int

// kind is what join and allot must know of an instruction.
type kind int

const (
	other     kind = iota
	move           // from one vector register to another
	load           // of reg from disp(base)
	store          // of reg to disp(base)
	increment      // of base by disp
	label
	jump     // to target, or, where conditional, on to the next one
	comeback // RET
)

type instruction struct {
	kind        kind
	defs, uses  []value
	tied        bool // the first of defs is the first of uses, changed in place
	text        func(name func(value) string) string
	reg, base   value // of load, store and increment
	disp, bytes int
	target      string
	conditional bool
}

// function is one kernel.
type function struct {
	code   []instruction
	vector []bool // of each value: a vector register, else a general one
	labels map[string]int
}

func (f *function) newValue(vector bool) value {
	f.vector = append(f.vector, vector)
	return value(len(f.vector) - 1)
}

func (f *function) add(i instruction) { f.code = append(f.code, i) }

// Print implements [printer.Printer].
func (arm64) Print(file *ir.File) ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "// %s\n\n//go:build arm64\n\n#include \"textflag.h\"\n",
		printer.NewGoRunConfig().GeneratedWarning())
	pool := map[string]int{}
	for _, s := range file.Sections {
		if g, ok := s.(*ir.Global); ok { // copies of one number, four to a register
			pool[g.Symbol.Name] = 16 * len(pool)
			for i := range 4 {
				fmt.Fprintf(&b, "\nDATA constants<>+%d(SB)/4, $%#08x", pool[g.Symbol.Name]+4*i, g.Data[i].Value)
			}
		}
	}
	if len(pool) > 0 {
		fmt.Fprintf(&b, "\n\nGLOBL constants<>(SB), RODATA|NOPTR, $%d\n", 16*len(pool))
	}
	for _, fn := range file.Functions() {
		t := &translation{function: &function{vector: make([]bool, 1)}, pool: pool, values: map[reg.ID]value{}}
		for _, n := range fn.Nodes {
			switch n := n.(type) {
			case ir.Label:
				t.add(instruction{kind: label, target: string(n), text: fixed(string(n) + ":")})
			case *ir.Instruction:
				if err := t.instruction(n); err != nil {
					return nil, fmt.Errorf("%s: %w", fn.Name, err)
				}
			}
		}
		t.join()
		t.number()
		names, err := t.allot()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", fn.Name, err)
		}
		fmt.Fprintf(&b, "\n// %s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", fn.Stub(), fn.Name, fn.ArgumentBytes())
		for _, i := range t.code {
			if i.kind == label {
				b.WriteString("\n")
			} else {
				b.WriteString("\t")
			}
			b.WriteString(i.text(names) + "\n")
		}
	}
	return []byte(b.String()), nil
}

func fixed(text string) func(func(value) string) string {
	return func(func(value) string) string { return text }
}

// translation makes one kernel of arm64 from one of amd64's.
type translation struct {
	*function
	pool     map[string]int // where each constant lies
	poolBase value          // the register that points to constants, once one is needed
	values   map[reg.ID]value
	tested   value // what the last instruction left, for a jump on zero
}

func (t *translation) of(op operand.Op) value {
	r := op.(reg.Register)
	if v, ok := t.values[r.ID()]; ok {
		return v
	}
	v := t.newValue(r.Kind() == reg.KindVector)
	t.values[r.ID()] = v
	return v
}

// emit adds an instruction of general registers: %s in format are defs, then uses, in the order in
// which they are listed in order (indices into defs followed by uses), or in that order.
func (t *translation) emit(format string, defs, uses []value, order ...int) {
	all := append(append([]value(nil), defs...), uses...)
	if order == nil {
		for i := range all {
			order = append(order, i)
		}
	}
	t.add(instruction{defs: defs, uses: uses, text: func(name func(value) string) string {
		var args []any
		for _, i := range order {
			args = append(args, name(all[i]))
		}
		return fmt.Sprintf(format, args...)
	}})
}

// address gives base and displacement of memory for a vector or a general register. An index is
// added first.
func (t *translation) address(m operand.Mem) (base value, disp int) {
	switch m.Base {
	case reg.StaticBase:
		if t.poolBase == 0 {
			t.poolBase = t.newValue(false)
			base := t.poolBase
			// before everything else, so that no loop repeats it
			t.code = append([]instruction{{defs: []value{base}, text: func(name func(value) string) string {
				return "MOVD $constants<>(SB), " + name(base)
			}}}, t.code...)
		}
		return t.poolBase, t.pool[m.Symbol.Name] + m.Disp%16
	default:
		base = t.of(m.Base)
	}
	if m.Index == nil {
		return base, m.Disp
	}
	sum := t.newValue(false)
	t.emit(fmt.Sprintf("ADD %%s<<%d, %%s, %%s", log2(int(m.Scale))), []value{sum}, []value{base, t.of(m.Index)},
		2, 1, 0)
	return sum, m.Disp
}

func log2(n int) int {
	l := 0
	for ; n > 1; n /= 2 {
		l++
	}
	return l
}

// Loads and stores by the bytes of a vector register, or 8 of a general one.
var vectorMove = map[int]string{4: "FMOVS", 8: "FMOVD", 16: "FMOVQ"}

func mnemonic(vector bool, bytes int) string {
	if vector {
		return vectorMove[bytes]
	}
	return map[int]string{1: "MOVBU", 8: "MOVD"}[bytes]
}

// loadTo loads bytes of memory into a value.
func (t *translation) loadTo(to value, m operand.Mem, bytes int) {
	op := mnemonic(t.vector[to], bytes)
	if m.Base == reg.FramePointer {
		t.emit(fmt.Sprintf("%s %s+%d(FP), %%s", op, m.Symbol.Name, m.Disp), []value{to}, nil)
		return
	}
	if m.Index != nil && m.Scale == 1 && m.Disp == 0 && bytes < 16 {
		t.emit(op+" (%s)(%s), %s", []value{to}, []value{t.of(m.Base), t.of(m.Index)}, 1, 2, 0)
		return
	}
	base, disp := t.address(m)
	t.add(instruction{kind: load, defs: []value{to}, uses: []value{base}, reg: to, base: base, disp: disp, bytes: bytes,
		text: func(name func(value) string) string {
			return fmt.Sprintf("%s %s, %s", op, place(disp, name(base)), name(to))
		}})
}

func (t *translation) storeFrom(from value, m operand.Mem, bytes int) {
	op := mnemonic(t.vector[from], bytes)
	if m.Base == reg.FramePointer {
		t.emit(fmt.Sprintf("%s %%s, %s+%d(FP)", op, m.Symbol.Name, m.Disp), nil, []value{from})
		return
	}
	base, disp := t.address(m)
	t.add(instruction{kind: store, uses: []value{base, from}, reg: from, base: base, disp: disp, bytes: bytes,
		text: func(name func(value) string) string {
			return fmt.Sprintf("%s %s, %s", op, name(from), place(disp, name(base)))
		}})
}

func place(disp int, base string) string {
	if disp == 0 {
		return "(" + base + ")"
	}
	return fmt.Sprintf("%d(%s)", disp, base)
}

// in is an operand in a register: its own, or a new one that memory is loaded into.
func (t *translation) in(op operand.Op, bytes int) value {
	m, ok := op.(operand.Mem)
	if !ok {
		return t.of(op)
	}
	v := t.newValue(true)
	t.loadTo(v, m, bytes)
	return v
}

// encoding is a vector instruction: its bits without registers, and how it is written.
type encoding struct {
	bits uint32
	name string
	// form is the arrangement of the registers, s or d if they are scalars, s[i] or d[i] if of the
	// last one lane i alone is read, # and a number if that follows registers of 4s
	form string
}

// of d, n, m: bits 0, 5 and 16
var (
	fadd   = encoding{0x4e20d400, "fadd", "4s"}
	fsub   = encoding{0x4ea0d400, "fsub", "4s"}
	fmul   = encoding{0x6e20dc00, "fmul", "4s"}
	fdiv   = encoding{0x6e20fc00, "fdiv", "4s"}
	fmax   = encoding{0x4e20f400, "fmax", "4s"}
	fmla   = encoding{0x4e20cc00, "fmla", "4s"}
	fmls   = encoding{0x4ea0cc00, "fmls", "4s"}
	fcmeq  = encoding{0x4e20e400, "fcmeq", "4s"}
	fcmgt  = encoding{0x6ea0e400, "fcmgt", "4s"}
	add4s  = encoding{0x4ea08400, "add", "4s"}
	and    = encoding{0x4e201c00, "and", "16b"}
	bic    = encoding{0x4e601c00, "bic", "16b"}
	bsl    = encoding{0x6e601c00, "bsl", "16b"}
	zip1   = encoding{0x4e803800, "zip1", "4s"}
	zip2   = encoding{0x4e807800, "zip2", "4s"}
	zip1d  = encoding{0x4ec03800, "zip1", "2d"}
	zip2d  = encoding{0x4ec07800, "zip2", "2d"}
	fadd2d = encoding{0x4e60d400, "fadd", "2d"}
	fmla2d = encoding{0x4e60cc00, "fmla", "2d"}
	faddS  = encoding{0x1e202800, "fadd", "s"}
	faddD  = encoding{0x1e602800, "fadd", "d"}
	ext8   = encoding{0x6e004000, "ext", "ext8"} // n from its second half on, then m
)

// of d, n
var (
	mov    = encoding{0x4ea01c00, "mov", "16b"} // n is also m
	not    = encoding{0x6e205800, "mvn", "16b"}
	fsqrt  = encoding{0x6ea1f800, "fsqrt", "4s"}
	frintn = encoding{0x4e218800, "frintn", "4s"}
	fcvtns = encoding{0x4e21a800, "fcvtns", "4s"}
	rev64  = encoding{0x4ea00800, "rev64", "4s"}
	fcvtl  = encoding{0x0e617800, "fcvtl", "2d2s"}
	dup    = encoding{0x4e040400, "dup", "s[0]"}
	dup2d  = encoding{0x4e080400, "dup", "d[0]"}
	movi0  = encoding{0x6f00e400, "movi", "zero"} // of d alone
)

// word is the instruction in Go's assembler, with its registers' numbers (F12 and the like).
func (e encoding) word(registers ...string) string {
	bits := e.bits
	var names []string
	for i, r := range registers {
		n := r[1:]
		var number uint32
		fmt.Sscan(n, &number)
		bits |= number << [...]int{0, 5, 16}[i]
		switch {
		case e.form == "s" || e.form == "d":
			names = append(names, e.form+n)
		case strings.HasSuffix(e.form, "]") && i == len(registers)-1:
			names = append(names, "v"+n+"."+e.form)
		case strings.HasSuffix(e.form, "]"):
			names = append(names, "v"+n+"."+map[byte]string{'s': "4s", 'd': "2d"}[e.form[0]])
		case e.form == "ext8":
			names = append(names, "v"+n+".16b")
		case e.form == "zero":
			names = append(names, "v"+n+".2d", "#0")
		case e.form[0] == '#':
			names = append(names, "v"+n+".4s")
		case e.form == "2d2s":
			names = append(names, "v"+n+"."+[]string{"2d", "2s"}[i])
		default:
			names = append(names, "v"+n+"."+e.form)
		}
	}
	switch {
	case e.form == "ext8":
		names = append(names, "#8")
	case e.form[0] == '#':
		names = append(names, e.form)
	}
	if e == mov {
		bits |= bits >> 5 & 31 << 16
	}
	return fmt.Sprintf("WORD $0x%08x // %s %s", bits, e.name, strings.Join(names, ", "))
}

// vectors adds an instruction that writes d.
func (t *translation) vectors(e encoding, d value, sources ...value) {
	t.add(instruction{defs: []value{d}, uses: sources, text: func(name func(value) string) string {
		registers := []string{name(d)}
		for _, s := range sources {
			registers = append(registers, name(s))
		}
		return e.word(registers...)
	}})
}

// change adds an instruction that reads d too, and changes it.
func (t *translation) change(e encoding, d value, sources ...value) {
	t.vectors(e, d, sources...)
	last := &t.code[len(t.code)-1]
	last.uses, last.tied = append([]value{d}, sources...), true
}

func (t *translation) copyTo(d, s value) {
	t.vectors(mov, d, s)
	t.code[len(t.code)-1].kind = move
}

// simple are the instructions of two sources: b op a, in the order of amd64's operands a, b, d.
var simple = map[string]encoding{"VADDPS": fadd, "VSUBPS": fsub, "VMULPS": fmul, "VDIVPS": fdiv, "VMAXPS": fmax,
	"VANDPS": and, "VPADDD": add4s, "VADDPD": fadd2d, "VUNPCKLPS": zip1, "VUNPCKHPS": zip2, "VUNPCKLPD": zip1d,
	"VUNPCKHPD": zip2d, "VADDSD": faddD}

// single are those of one.
var single = map[string]encoding{"VSQRTPS": fsqrt, "VCVTPS2DQ": fcvtns}

// instruction translates one. What a kernel of this repository does not use is an error.
func (t *translation) instruction(i *ir.Instruction) error {
	ops := i.Operands
	tested := t.tested
	t.tested = 0
	unknown := fmt.Errorf("no translation of %s %v", i.Opcode, ops)
	last := len(ops) - 1
	var d value
	if last >= 0 {
		if r, ok := ops[last].(reg.Register); ok {
			d = t.of(r)
		}
	}
	if e, ok := simple[i.Opcode]; ok {
		a := t.in(ops[0], 16)
		t.vectors(e, d, t.of(ops[1]), a)
		return nil
	}
	if e, ok := single[i.Opcode]; ok {
		t.vectors(e, d, t.in(ops[0], 16))
		return nil
	}
	switch i.Opcode {
	case "VZEROUPPER", "SFENCE": // stores past the caches are plain ones here
	case "RET":
		t.add(instruction{kind: comeback, text: fixed("RET")})
	case "VMOVUPS", "VMOVUPD", "VMOVAPS", "VMOVNTPS", "VMOVSS", "MOVSD":
		bytes := map[string]int{"VMOVSS": 4, "MOVSD": 8}[i.Opcode]
		bytes = cmp.Or(bytes, 16)
		if m, ok := ops[1].(operand.Mem); ok {
			t.storeFrom(t.of(ops[0]), m, bytes)
		} else if m, ok := ops[0].(operand.Mem); ok {
			t.loadTo(d, m, bytes)
		} else {
			t.copyTo(d, t.of(ops[0]))
		}
	case "VBROADCASTSS":
		m := ops[0].(operand.Mem)
		if m.Base == reg.StaticBase {
			t.loadTo(d, m, 16)
			break
		}
		one := t.newValue(true)
		t.loadTo(one, m, 4)
		t.vectors(dup, d, one)
	case "VMOVDDUP":
		one := t.newValue(true)
		t.loadTo(one, ops[0].(operand.Mem), 8)
		t.vectors(dup2d, d, one)
	case "LDR":
		t.loadTo(d, ops[1].(operand.Mem), int(constantOf(ops[0])))
	case "FMLA": // lane, x, y, d: bits 21 and 11 are the lane's
		lane := uint32(constantOf(ops[0]))
		t.change(encoding{0x4f801000 | lane&1<<21 | lane>>1<<11, "fmla", fmt.Sprintf("s[%d]", lane)}, d, t.of(ops[2]),
			t.of(ops[1]))
	case "VXORPS", "VXORPD":
		if ops[0] != ops[1] || ops[0] != ops[2] {
			return unknown
		}
		t.vectors(movi0, d)
	case "VFMADD231PS", "VFNMADD231PS", "VFMADD231PD":
		e := map[string]encoding{"VFMADD231PS": fmla, "VFNMADD231PS": fmls, "VFMADD231PD": fmla2d}[i.Opcode]
		a := t.in(ops[0], 16)
		t.change(e, d, t.of(ops[1]), a)
	case "VFMADD213PS": // d = b d + a
		sum := t.newValue(true)
		if m, ok := ops[0].(operand.Mem); ok {
			t.loadTo(sum, m, 16)
		} else {
			t.copyTo(sum, t.of(ops[0]))
		}
		t.change(fmla, sum, t.of(ops[1]), d)
		t.copyTo(d, sum)
	case "VANDNPS": // a and not b
		a := t.in(ops[0], 16)
		t.vectors(bic, d, a, t.of(ops[1]))
	case "VADDSS":
		a := t.in(ops[0], 4)
		t.vectors(faddS, d, t.of(ops[1]), a)
	case "VCVTPS2PD":
		t.vectors(fcvtl, d, t.in(ops[0], 8))
	case "VROUNDPS":
		if ops[0].(operand.Constant) != operand.U8(8) {
			return unknown
		}
		t.vectors(frintn, d, t.in(ops[1], 16))
	case "VPSLLD":
		s, n := t.of(ops[1]), constantOf(ops[0])
		t.vectors(encoding{0x4f205400 | uint32(n)<<16, "shl", fmt.Sprint("#", n)}, d, s)
	case "VPERMILPS", "VPERMILPD":
		s := t.of(ops[1])
		switch fmt.Sprint(i.Opcode, constantOf(ops[0])) {
		case "VPERMILPS78", "VPERMILPD1": // the halves exchanged
			t.vectors(ext8, d, s, s)
		case "VPERMILPS177": // neighbours exchanged
			t.vectors(rev64, d, s)
		default:
			return unknown
		}
	case "VBLENDVPS": // mask, yes, no, d
		mask, yes, no := t.of(ops[0]), t.in(ops[1], 16), t.of(ops[2])
		result := t.newValue(true) // d may be yes or no
		t.copyTo(result, mask)
		t.change(bsl, result, yes, no)
		t.copyTo(d, result)
	case "VCMPPS":
		return t.compare(constantOf(ops[0]), t.of(ops[2]), t.in(ops[1], 16), d)
	case "PREFETCHT0", "PREFETCHT1":
		base, disp := t.address(ops[0].(operand.Mem))
		level := map[string]string{"PREFETCHT0": "PLDL1KEEP", "PREFETCHT1": "PLDL2KEEP"}[i.Opcode]
		t.emit(fmt.Sprintf("PRFM %d(%%s), %s", disp, level), nil, []value{base})
	default:
		return t.general(i, d, tested, unknown)
	}
	return nil
}

func constantOf(op operand.Op) uint64 {
	switch c := op.(type) {
	case operand.U8:
		return uint64(c)
	case operand.U32:
		return uint64(c)
	case operand.U64:
		return uint64(c)
	}
	panic(fmt.Sprintf("%v is no constant", op))
}

// compare emits VCMPPS: d = a op b.
func (t *translation) compare(op uint64, a, b, d value) error {
	e, negated := fcmgt, false
	switch op {
	case 0x00: // equal
		e = fcmeq
	case 0x1e: // greater
	case 0x1a: // not greater, or unordered
		negated = true
	case 0x11: // less
		a, b = b, a
	case 0x15: // not less, or unordered
		a, b, negated = b, a, true
	case 0x03: // unordered
		if a != b {
			return fmt.Errorf("no translation of an unordered comparison of two registers")
		}
		e, negated = fcmeq, true
	default:
		return fmt.Errorf("no translation of comparison %#x", op)
	}
	if !negated {
		t.vectors(e, d, a, b)
		return nil
	}
	holds := t.newValue(true)
	t.vectors(e, holds, a, b)
	t.vectors(not, d, holds)
	return nil
}

// general translates an instruction of general registers, or a jump. A jump follows what it tests
// at once, so flags are not needed: it looks at the register.
func (t *translation) general(i *ir.Instruction, d, tested value, unknown error) error {
	ops := i.Operands
	three := map[string]string{"ADDQ": "ADD", "SUBQ": "SUB", "SHLQ": "LSL", "SHRQ": "LSR", "ANDQ": "AND"}
	switch i.Opcode {
	case "ADDQ", "SUBQ", "SHLQ", "SHRQ", "ANDQ", "DECQ":
		if i.Opcode == "DECQ" {
			m, ok := ops[0].(operand.Mem)
			if ok {
				d = t.newValue(false)
				t.loadTo(d, m, 8)
			}
			t.emit("SUB $1, %s, %s", []value{d}, []value{d})
			if ok {
				t.storeFrom(d, m, 8)
			}
			t.tested = d
			return nil
		}
		t.tested = d
		if r, ok := ops[0].(reg.Register); ok {
			t.emit(three[i.Opcode]+" %s, %s, %s", []value{d}, []value{d, t.of(r)}, 2, 1, 0)
			return nil
		}
		n := int(constantOf(ops[0]))
		t.emit(fmt.Sprintf("%s $%d, %%s, %%s", three[i.Opcode], n), []value{d}, []value{d})
		if i.Opcode == "ADDQ" {
			last := &t.code[len(t.code)-1]
			last.kind, last.base, last.disp = increment, d, n
		}
	case "IMUL3Q":
		factor := t.newValue(false)
		t.emit(fmt.Sprintf("MOVD $%d, %%s", constantOf(ops[0])), []value{factor}, nil)
		t.emit("MUL %s, %s, %s", []value{d}, []value{t.of(ops[1]), factor}, 2, 1, 0)
	case "MOVQ":
		switch from := ops[0].(type) {
		case operand.Mem:
			t.loadTo(d, from, 8)
		case reg.Register:
			t.emit("MOVD %s, %s", []value{d}, []value{t.of(from)}, 1, 0)
		default:
			t.emit(fmt.Sprintf("MOVD $%d, %%s", constantOf(from)), []value{d}, nil)
		}
	case "LEAQ":
		m := ops[0].(operand.Mem)
		base := t.of(m.Base)
		switch {
		case m.Disp != 0:
			return unknown
		case m.Index == nil:
			t.emit("MOVD %s, %s", []value{d}, []value{base}, 1, 0)
		default:
			t.emit(fmt.Sprintf("ADD %%s<<%d, %%s, %%s", log2(int(m.Scale))), []value{d}, []value{base, t.of(m.Index)},
				2, 1, 0)
		}
	case "TESTQ":
		if ops[0] != ops[1] {
			return unknown
		}
		t.tested = d
	case "CMPB":
		m, ok := ops[0].(operand.Mem)
		if !ok || constantOf(ops[1]) != 0 {
			return unknown
		}
		t.tested = t.newValue(false)
		t.loadTo(t.tested, m, 1)
	case "JMP", "JZ", "JEQ", "JNZ", "JG":
		target := string(ops[0].(operand.LabelRef))
		j := instruction{kind: jump, target: target, text: fixed("JMP " + target)}
		if i.Opcode != "JMP" {
			if tested == 0 {
				return unknown
			}
			if i.Opcode == "JG" {
				t.emit("CMP $0, %s", nil, []value{tested})
				j.text = fixed("BGT " + target)
			} else {
				op := map[string]string{"JZ": "CBZ", "JEQ": "CBZ", "JNZ": "CBNZ"}[i.Opcode]
				j.uses = []value{tested}
				j.text = func(name func(value) string) string { return op + " " + name(tested) + ", " + target }
			}
			j.conditional = true
		}
		t.add(j)
	default:
		return unknown
	}
	return nil
}
