package exec

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/device"
)

// schedule is steps in the order in which they run, with the values that they use.
type schedule struct {
	values  []value
	steps   []Step
	forward int // steps before the mark, -1: no mark

	alignment int // of the device, in bytes
}

type value struct {
	size     int           // bytes
	external device.Buffer // memory of somebody else, or nil
	input    bool          // set from outside before the first step, alive in every step
	kept     bool          // read from outside after the last step
	alias    Value         // another name for this value; itself if none
}

func (s *schedule) home(v Value) Value { return s.values[v].alias }

// traffic is how many bytes a step reads and writes.
func (s *schedule) traffic(step Step) (bytes int64) {
	if m, ok := step.Kernel.(Mover); ok {
		bytes = m.MovesMore()
	}
	for _, v := range slices.Concat(step.Out, step.In) {
		bytes += int64(s.values[v].size)
	}
	return bytes
}

// block is memory that is alive from the step that first writes it to the last that reads it.
type block struct {
	size, first, last int
	offset            int
}

// unit is blocks that lie one after the other, each alive in its own time: the parts of one value.
type unit []*block

// layout is what needs memory, and when.
type layout struct {
	units []unit
	// by value; the first one, where it has several; nil where the memory is not the program's, or
	// no step uses the value
	of      []*block
	scratch []*block // by step; nil where it needs none
	// by step: there is nothing to run, for what it would copy is in its place already
	joined []bool
}

// layout finds when each value is alive, lets values share a block where a step may write over its
// operand, and puts the parts of a value side by side.
func (s *schedule) layout() (*layout, error) {
	first, last, err := s.lifetimes()
	if err != nil {
		return nil, err
	}
	joins := s.joins(first)
	merged := s.inPlace(first, last, joins)
	l := &layout{of: make([]*block, len(s.values)), scratch: make([]*block, len(s.steps)),
		joined: make([]bool, len(s.steps))}
	extend := func(m *block, v Value) {
		m.size, m.first, m.last = max(m.size, s.aligned(s.values[v].size)), min(m.first, first[v]), max(m.last, last[v])
	}
	for v, x := range s.values {
		if x.external != nil || s.home(Value(v)) != Value(v) || first[v] < 0 ||
			joins.step[v] >= 0 && joins.whole[joins.step[v]] == Value(v) {
			continue
		}
		m := l.of[merged[v]]
		if m == nil {
			m = &block{first: first[v], last: last[v]}
			l.of[merged[v]] = m
		}
		l.of[v] = m
		extend(m, Value(v))
	}
	inUnit := map[*block]bool{}
	for i, whole := range joins.whole {
		if whole < 0 {
			continue
		}
		var u unit
		for _, part := range joins.parts[i] {
			m := l.of[part]
			m.first, m.last = min(m.first, first[whole]), max(m.last, last[whole])
			u, inUnit[m] = append(u, m), true
		}
		l.of[whole], l.joined[i] = u[0], true
		l.units = append(l.units, u)
	}
	for v := range s.values {
		l.of[v] = l.of[s.home(Value(v))]
		if m := l.of[v]; m != nil && !inUnit[m] {
			l.units, inUnit[m] = append(l.units, unit{m}), true
		}
	}
	for i, step := range s.steps {
		if n := int(step.Kernel.Scratch()); n > 0 && !l.joined[i] {
			l.scratch[i] = &block{size: s.aligned(n), first: i, last: i}
			l.units = append(l.units, unit{l.scratch[i]})
		}
	}
	return l, nil
}

// joins says which steps need not run because the parts of a value can lie side by side, in the
// memory of the whole.
type joins struct {
	whole []Value   // by step; -1 where it has to run
	parts [][]Value // by step
	step  []int     // by value: the step that it is a part or the whole of; -1: none
}

// joins finds these steps. A value takes part in one of them only, and is written once: what is
// written again later would change the whole under those that read it.
func (s *schedule) joins(first []int) joins {
	writer := s.writers()
	j := joins{whole: slices.Repeat([]Value{-1}, len(s.steps)), parts: make([][]Value, len(s.steps)),
		step: slices.Repeat([]int{-1}, len(s.values))}
	for i, step := range s.steps {
		if !step.Joins {
			continue
		}
		whole, parts := step.Out, step.In
		if len(step.In) == 1 {
			whole, parts = step.In, step.Out
		}
		fits, sum := len(whole) == 1, 0
		for k, v := range slices.Concat(whole, parts) {
			x := s.values[v]
			fits = fits && s.home(v) == v && writer[v] >= 0 && x.external == nil && !x.input && j.step[v] < 0 &&
				x.size%s.alignment == 0 && first[v] >= 0
			if k > 0 {
				sum += x.size
				fits = fits && !slices.Contains(parts[:k-1], v)
			}
		}
		if !fits || sum != s.values[whole[0]].size {
			continue
		}
		j.whole[i], j.parts[i] = whole[0], parts
		for _, v := range slices.Concat(whole, parts) {
			j.step[v] = i
		}
	}
	return j
}

func (s *schedule) aligned(n int) int { return (n + s.alignment - 1) / s.alignment * s.alignment }

// lifetimes returns the first and the last step in which each value is alive, by its home; -1 where
// no step uses it.
func (s *schedule) lifetimes() (first, last []int, err error) {
	first, last = make([]int, len(s.values)), make([]int, len(s.values))
	for v := range first {
		first[v], last[v] = -1, -1
	}
	touch := func(v Value, step int) {
		if first[v] < 0 {
			first[v] = step
		}
		last[v] = step
	}
	written := make([]bool, len(s.values))
	for i, step := range s.steps {
		for _, v := range step.In {
			h := s.home(v)
			if x := s.values[h]; !written[h] && !x.input && x.external == nil {
				return nil, nil, fmt.Errorf("step %d (%s) reads a value that no step before it writes", i, step.Name)
			}
			touch(h, i)
		}
		for _, v := range step.Out {
			touch(s.home(v), i)
			written[s.home(v)] = true
		}
	}
	for v, x := range s.values {
		if x.input {
			first[v] = 0
		}
		if x.input || x.kept {
			last[v] = len(s.steps)
		}
	}
	return first, last, nil
}

// inPlace lets results take the memory of operands that die in the step, where the step allows it.
// It returns for each value the one whose memory it takes. A value that lies in parts neither takes
// another's memory nor gives its own away; a part gives its own once the whole is not read any
// more.
func (s *schedule) inPlace(first, last []int, joins joins) []Value {
	merged := make([]Value, len(s.values))
	for v := range merged {
		merged[v] = Value(v)
	}
	inParts := func(v Value) bool { return joins.step[v] >= 0 && joins.whole[joins.step[v]] == v }
	for i, step := range s.steps {
		taken := make([]bool, len(step.In))
		for _, over := range step.InPlace {
			out, in := s.home(step.Out[over.Out]), s.home(step.In[over.In])
			o, x := s.values[out], s.values[in]
			if o.external != nil || o.input || first[out] != i || merged[out] != out || inParts(out) {
				continue
			}
			if x.external != nil || last[in] != i || s.aligned(x.size) != s.aligned(o.size) || s.readTwice(step, in) ||
				inParts(in) || taken[over.In] {
				continue
			}
			// What has been in the operand's memory so far may be a part of something that is still
			// alive.
			shared := false
			for part := range merged {
				if merged[part] == merged[in] && joins.step[part] >= 0 {
					shared = shared || joins.step[out] >= 0 || last[joins.whole[joins.step[part]]] >= i
				}
			}
			if !shared {
				merged[out], taken[over.In] = merged[in], true
			}
		}
	}
	return merged
}

// readTwice says whether a step reads a value as more than one operand: then it must not be written
// over.
func (s *schedule) readTwice(step Step, v Value) bool {
	n := 0
	for _, in := range step.In {
		if s.home(in) == v {
			n++
		}
	}
	return n > 1
}

// alive is how many bytes are alive in each step.
func (l *layout) alive() []int {
	n := len(l.scratch)
	change := make([]int, n+2)
	for _, u := range l.units {
		for _, m := range u {
			change[m.first] += m.size
			change[m.last+1] -= m.size
		}
	}
	sum := 0
	for i, c := range change {
		sum += c
		change[i] = sum
	}
	return change[:n]
}

// unshared is what it would take if every value had its own memory, and all steps shared one
// scratch.
func (s *schedule) unshared(l *layout) int {
	sum, largest := 0, 0
	for v, m := range l.of {
		if m != nil && s.home(Value(v)) == Value(v) {
			sum += s.aligned(s.values[v].size)
		}
	}
	for _, m := range l.scratch {
		if m != nil {
			largest = max(largest, m.size)
		}
	}
	return sum + largest
}

// writers is the one step that writes each value; -1 where there is none or more than one.
func (s *schedule) writers() []int {
	w := slices.Repeat([]int{-1}, len(s.values))
	many := make([]bool, len(s.values))
	for i, step := range s.steps {
		for _, v := range step.Out {
			h := s.home(v)
			many[h] = many[h] || w[h] >= 0
			w[h] = i
		}
	}
	for v := range w {
		if many[v] {
			w[v] = -1
		}
	}
	return w
}
