package vector

import (
	"fmt"
	"slices"
)

// join drops what nothing needs, and joins what arm64 does in one instruction: two neighbours in
// memory are loaded or stored at once, and a pointer steps on as it is used.
func (f *function) join() {
	f.dropUnused()
	for i := 0; i+1 < len(f.code); i++ {
		a, b := f.code[i], f.code[i+1]
		if a.kind != b.kind || a.kind != load && a.kind != store || a.bytes != 16 || b.bytes != 16 ||
			!f.vector[a.reg] || a.base != b.base || a.disp+16 != b.disp || a.disp%16 != 0 || a.disp < -1024 ||
			a.disp > 1008 || a.kind == load && a.reg == b.reg {
			continue
		}
		pair := instruction{defs: append(append([]value(nil), a.defs...), b.defs...), uses: []value{a.base}}
		if a.kind == store {
			pair.uses = append(pair.uses, a.reg, b.reg)
		}
		pair.text = func(name func(value) string) string {
			at, registers := place(a.disp, name(a.base)), fmt.Sprintf("(%s, %s)", name(a.reg), name(b.reg))
			if a.kind == store {
				return fmt.Sprintf("FSTPQ %s, %s", registers, at)
			}
			return fmt.Sprintf("FLDPQ %s, %s", at, registers)
		}
		f.code = slices.Replace(f.code, i, i+2, pair)
	}
	for i := range f.code {
		a := f.code[i]
		if a.kind != load && a.kind != store || a.disp != 0 || !f.vector[a.reg] {
			continue
		}
		if j := f.nextOf(a.base, i+1); j > 0 && f.code[j].kind == increment && f.code[j].base == a.base &&
			f.code[j].disp < 256 {
			step := f.code[j].disp
			a.kind, a.tied = other, true
			a.defs = append([]value{a.base}, a.defs...)
			op := mnemonic(true, a.bytes) + ".P"
			isLoad := f.code[i].kind == load
			a.text = func(name func(value) string) string {
				if isLoad {
					return fmt.Sprintf("%s %d(%s), %s", op, step, name(a.base), name(a.reg))
				}
				return fmt.Sprintf("%s %s, %d(%s)", op, name(a.reg), step, name(a.base))
			}
			f.code[i] = a
			f.code[j] = instruction{}
		}
	}
	f.code = slices.DeleteFunc(f.code, func(i instruction) bool { return i.text == nil })
}

// nextOf is the first instruction from i on that touches a value, without a jump before it, or 0.
func (f *function) nextOf(v value, i int) int {
	for ; i < len(f.code); i++ {
		c := f.code[i]
		if slices.Contains(c.defs, v) || slices.Contains(c.uses, v) {
			return i
		}
		if c.kind == label || c.kind == jump || c.kind == comeback {
			return 0
		}
	}
	return 0
}

// dropUnused drops instructions whose only effect is a value in a general register that nothing
// uses. What a kernel computes in vectors it is meant to compute.
func (f *function) dropUnused() {
	for {
		used := map[value]bool{}
		for _, i := range f.code {
			for _, v := range i.uses {
				used[v] = used[v] || !slices.Contains(i.defs, v)
			}
		}
		before := len(f.code)
		f.code = slices.DeleteFunc(f.code, func(i instruction) bool {
			return len(i.defs) == 1 && !f.vector[i.defs[0]] && !used[i.defs[0]] && i.kind != store
		})
		if len(f.code) == before {
			return
		}
	}
}

func (f *function) findLabels() {
	f.labels = map[string]int{}
	for i, c := range f.code {
		if c.kind == label {
			f.labels[c.target] = i
		}
	}
}

// next are the instructions that may follow one.
func (f *function) next(i int) []int {
	switch c := f.code[i]; {
	case c.kind == comeback:
		return nil
	case c.kind == jump && c.conditional:
		return []int{f.labels[c.target], i + 1}
	case c.kind == jump:
		return []int{f.labels[c.target]}
	}
	return []int{i + 1}
}

// number gives each independent use of a value a value of its own: a kernel's author writes a
// register anew for another purpose, and a register that is free in between may serve a third.
func (f *function) number() {
	f.findLabels()
	type site struct {
		at int // instruction
		v  value
	}
	sites := map[site]int{} // where a value is written
	var parent []int
	for i, c := range f.code {
		for _, v := range c.defs {
			if _, ok := sites[site{i, v}]; !ok {
				sites[site{i, v}] = len(parent)
				parent = append(parent, len(parent))
			}
		}
	}
	find := func(n int) int {
		for parent[n] != n {
			n = parent[n]
		}
		return n
	}
	reaching := map[site]int{} // for each use, one of the sites whose value it reads
	for i, c := range f.code {
		for _, v := range c.defs {
			definition := sites[site{i, v}]
			seen := map[int]bool{}
			left := f.next(i)
			for len(left) > 0 {
				at := left[len(left)-1]
				left = left[:len(left)-1]
				if seen[at] || at >= len(f.code) {
					continue
				}
				seen[at] = true
				if slices.Contains(f.code[at].uses, v) {
					if other, ok := reaching[site{at, v}]; ok {
						parent[find(definition)] = find(other)
					} else {
						reaching[site{at, v}] = definition
					}
				}
				if !slices.Contains(f.code[at].defs, v) {
					left = append(left, f.next(at)...)
				}
			}
		}
	}
	for i, c := range f.code {
		for _, v := range c.defs { // changed in place, or at least named once in the text
			if slices.Contains(c.uses, v) {
				if from, ok := reaching[site{i, v}]; ok {
					parent[find(sites[site{i, v}])] = find(from)
				}
			}
		}
	}
	fresh := map[int]value{}
	of := func(v value, definition int) value {
		root := find(definition)
		if _, ok := fresh[root]; !ok {
			fresh[root] = f.newValue(f.vector[v])
		}
		return fresh[root]
	}
	for i := range f.code {
		c := &f.code[i]
		renamed := map[value]value{}
		for _, v := range c.uses {
			if definition, ok := reaching[site{i, v}]; ok {
				renamed[v] = of(v, definition)
			}
		}
		for _, v := range c.defs {
			renamed[v] = of(v, sites[site{i, v}])
		}
		rename := func(v value) value {
			if w, ok := renamed[v]; ok {
				return w
			}
			return v
		}
		for _, list := range []*[]value{&c.defs, &c.uses} {
			*list = slices.Clone(*list)
			for n, v := range *list {
				(*list)[n] = rename(v)
			}
		}
		text := c.text
		c.text = func(name func(value) string) string {
			return text(func(v value) string { return name(rename(v)) })
		}
	}
}

// Registers that a kernel may use: of the general ones not R16 and R17 (linkers'), R18 (Apple's),
// R27 and R28 (Go's), R29 and R30 (frame and link).
var (
	generalNames = append(names("R", 0, 15), names("R", 19, 26)...)
	vectorNames  = names("F", 0, 31)
)

func names(prefix string, first, last int) []string {
	var s []string
	for n := first; n <= last; n++ {
		s = append(s, fmt.Sprint(prefix, n))
	}
	return s
}

// live finds for each instruction the values that are needed after it.
func (f *function) live() []map[value]bool {
	f.findLabels()
	in, out := make([]map[value]bool, len(f.code)+1), make([]map[value]bool, len(f.code))
	in[len(f.code)] = map[value]bool{}
	for i := range f.code {
		in[i], out[i] = map[value]bool{}, map[value]bool{}
	}
	for changed := true; changed; {
		changed = false
		for i := len(f.code) - 1; i >= 0; i-- {
			c := f.code[i]
			for _, n := range f.next(i) {
				for v := range in[n] {
					out[i][v] = true
				}
			}
			before := len(in[i])
			for v := range out[i] {
				if !slices.Contains(c.defs, v) {
					in[i][v] = true
				}
			}
			for _, v := range c.uses {
				in[i][v] = true
			}
			changed = changed || len(in[i]) != before
		}
	}
	return out
}

// allot gives values registers, so that no two that are needed at once share one, after Chaitin and
// Briggs: what has the fewest such neighbours is coloured last. Copies whose ends can share one are
// dropped.
func (f *function) allot() (func(value) string, error) {
	neighbours := make([]map[value]bool, len(f.vector))
	for v := range neighbours {
		neighbours[v] = map[value]bool{}
	}
	present := map[value]bool{}
	meet := func(a, b value) {
		if a != b && f.vector[a] == f.vector[b] {
			neighbours[a][b], neighbours[b][a] = true, true
		}
	}
	out := f.live()
	copies := map[value][]value{}
	for i, c := range f.code {
		for _, v := range c.uses {
			present[v] = true
		}
		for _, d := range c.defs {
			present[d] = true
			for v := range out[i] {
				if c.kind != move || v != c.uses[0] {
					meet(d, v)
				}
			}
			for _, v := range c.defs {
				meet(d, v)
			}
		}
		if c.kind == move {
			copies[c.defs[0]] = append(copies[c.defs[0]], c.uses[0])
			copies[c.uses[0]] = append(copies[c.uses[0]], c.defs[0])
		}
	}
	left := make([]int, len(f.vector)) // neighbours that are not taken off yet
	var order, stack []value
	for v := range left {
		left[v] = len(neighbours[v])
		if present[value(v)] {
			order = append(order, value(v))
		}
	}
	for len(order) > 0 {
		least := 0
		for n, v := range order {
			if left[v] < left[order[least]] {
				least = n
			}
		}
		v := order[least]
		order = slices.Delete(order, least, least+1)
		stack = append(stack, v)
		for n := range neighbours[v] {
			left[n]--
		}
	}
	colours := map[value]string{}
	for _, v := range slices.Backward(stack) {
		names := generalNames
		if f.vector[v] {
			names = vectorNames
		}
		taken := map[string]bool{}
		for n := range neighbours[v] {
			taken[colours[n]] = true
		}
		for _, other := range copies[v] {
			if c := colours[other]; c != "" && !taken[c] {
				colours[v] = c
				break
			}
		}
		if colours[v] != "" {
			continue
		}
		free := slices.IndexFunc(names, func(name string) bool { return !taken[name] })
		if free < 0 {
			return nil, fmt.Errorf("more than %d registers are needed at once", len(names))
		}
		colours[v] = names[free]
	}
	f.code = slices.DeleteFunc(f.code, func(i instruction) bool {
		return i.kind == move && colours[i.defs[0]] == colours[i.uses[0]]
	})
	return func(v value) string { return colours[v] }, nil
}
