package vector

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// result runs a program in which each instruction makes its result of its name and its operands,
// with registers told apart by key, and says what it stores. Conditional jumps go as they are told,
// then on.
func result(code []instruction, key func(value) string, decisions []bool) []string {
	registers := map[string]string{}
	labels := map[string]int{}
	for i, c := range code {
		if c.kind == label {
			labels[c.target] = i
		}
	}
	var stored []string
	for pc := 0; pc < len(code); pc++ {
		c := code[pc]
		text := ""
		if c.kind != label && c.kind != jump {
			text = c.text(func(value) string { return "" })
		}
		h := fnv.New64a()
		fmt.Fprint(h, text)
		for _, v := range c.uses {
			fmt.Fprint(h, " ", registers[key(v)])
		}
		switch {
		case c.kind == jump && len(decisions) > 0:
			if decisions[0] {
				pc = labels[c.target]
			}
			decisions = decisions[1:]
		case c.kind == move:
			registers[key(c.defs[0])] = registers[key(c.uses[0])]
		case c.kind == store:
			stored = append(stored, fmt.Sprint(h.Sum64()))
		}
		if c.kind == other {
			for i, v := range c.defs {
				registers[key(v)] = fmt.Sprint(h.Sum64(), i)
			}
		}
	}
	return stored
}

// TestAllot: programs at random, with loops, store the same with the registers that they are given
// as with one for each value.
func TestAllot(t *testing.T) {
	dropped := 0 // programs of which a copy was
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(1, seed))
		f := &function{vector: []bool{false}}
		var values []value
		for range 6 + r.IntN(30) {
			values = append(values, f.newValue(r.IntN(3) > 0))
		}
		names := 0
		add := func(c instruction) {
			names++
			c.text = fixed(fmt.Sprint("i", names))
			f.add(c)
		}
		one := func() value { return values[r.IntN(len(values))] }
		for _, v := range values {
			add(instruction{defs: []value{v}})
		}
		var open []string
		for n := range 60 {
			switch k := r.IntN(12); {
			case k == 0:
				open = append(open, fmt.Sprint("l", n))
				f.add(instruction{kind: label, target: open[len(open)-1], text: fixed("")})
			case k == 1 && len(open) > 0:
				f.add(instruction{kind: jump, target: open[r.IntN(len(open))], conditional: true, uses: []value{one()},
					text: fixed("")})
			case k == 2:
				add(instruction{kind: store, uses: []value{one(), one()}})
			case k < 5:
				d, s := one(), one()
				if f.vector[d] && f.vector[s] && d != s {
					add(instruction{kind: move, defs: []value{d}, uses: []value{s}})
				}
			case k < 7:
				d := one()
				add(instruction{defs: []value{d}, uses: []value{d, one()}, tied: true})
			default:
				add(instruction{defs: []value{one()}, uses: []value{one(), one()}})
			}
		}
		for _, v := range values {
			add(instruction{kind: store, uses: []value{v}})
		}
		decisions := make([]bool, 40)
		for i := range decisions {
			decisions[i] = r.IntN(2) == 0
		}
		before := slices.Clone(f.code)
		want := result(before, func(v value) string { return fmt.Sprint(v) }, decisions)
		f.number()
		registers, err := f.allot()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got := result(f.code, registers, decisions); !slices.Equal(got, want) {
			t.Fatalf("seed %d: stores differ", seed)
		}
		if len(f.code) < len(before) {
			dropped++
		}
	}
	if dropped == 0 {
		t.Error("no copy was ever dropped")
	}
}

// TestTooMany: a kernel that needs more registers than there are is refused.
func TestTooMany(t *testing.T) {
	f := &function{vector: []bool{false}}
	var values []value
	for range len(vectorNames) + 1 {
		values = append(values, f.newValue(true))
		f.add(instruction{defs: values[len(values)-1:], text: fixed("zero")})
	}
	f.add(instruction{kind: store, uses: values, text: fixed("")})
	f.number()
	if _, err := f.allot(); err == nil || !strings.Contains(err.Error(), "more than 32") {
		t.Errorf("33 values at once: %v", err)
	}
}

// TestJoin: neighbours are loaded at once, and a pointer steps on with the last load from it, but
// not past a jump or another use.
func TestJoin(t *testing.T) {
	f := &translation{function: &function{vector: []bool{false}}}
	p, q := f.newValue(false), f.newValue(false)
	a, b, c := f.newValue(true), f.newValue(true), f.newValue(true)
	at := func(kind kind, v, base value, disp, bytes int) {
		i := instruction{kind: kind, uses: []value{base}, reg: v, base: base, disp: disp, bytes: bytes,
			text: fixed("alone")}
		if kind == load {
			i.defs = []value{v}
		} else {
			i.uses = append(i.uses, v)
		}
		f.add(i)
	}
	step := func(base value, n int) {
		f.add(instruction{kind: increment, defs: []value{base}, uses: []value{base}, base: base, disp: n,
			text: fixed("step")})
	}
	at(load, a, p, 16, 16)
	at(load, b, p, 32, 16)
	at(load, c, q, 0, 4)
	step(q, 4)
	at(store, a, q, 16, 16)
	at(store, b, q, 48, 16) // no neighbour
	at(store, c, p, 0, 4)
	at(load, a, p, 0, 16) // p is used before it steps on
	step(p, 16)
	at(load, b, q, 0, 16)
	f.add(instruction{kind: label, target: "label", text: fixed("label")})
	step(q, 16)
	f.join()
	var got []string
	for _, i := range f.code {
		got = append(got, i.text(func(v value) string { return fmt.Sprint([]string{"", "P", "Q", "A", "B", "C"}[v]) }))
	}
	want := []string{"FLDPQ 16(P), (A, B)", "FMOVS.P 4(Q), C", "alone", "alone", "alone", "FMOVQ.P 16(P), A",
		"alone", "label", "step"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReserved: R18 is the system's on macOS and Windows, R16 and R17 the linker's, R27 and R28
// Go's, R29 and R30 frame and link.
func TestReserved(t *testing.T) {
	for _, n := range []int{16, 17, 18, 27, 28, 29, 30, 31} {
		if slices.Contains(generalNames, fmt.Sprint("R", n)) {
			t.Errorf("kernels may use R%d", n)
		}
	}
}
