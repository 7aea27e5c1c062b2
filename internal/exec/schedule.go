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
}

type value struct {
	size     int           // float32 elements
	external device.Buffer // memory of somebody else, or nil
	input    bool          // set from outside before the first step, alive in every step
	kept     bool          // read from outside after the last step
	alias    Value         // another name for this value; itself if none
}

func (s *schedule) home(v Value) Value { return s.values[v].alias }

// block is memory that is alive from the step that first writes it to the last that reads it.
type block struct {
	size, first, last int
	offset            int
	values            []Value // that lie in it, one after the other in time; none in a step's scratch
}

// layout is what needs memory, and when.
type layout struct {
	blocks  []*block
	of      []*block // by value; nil where memory is somebody else's or nobody uses it
	scratch []*block // by step; nil where it needs none
}

// layout finds when each value is alive, and lets values share a block where a step may write over its operand.
func (s *schedule) layout() (*layout, error) {
	first, last, err := s.lifetimes()
	if err != nil {
		return nil, err
	}
	merged := s.inPlace(first, last)
	l := &layout{of: make([]*block, len(s.values)), scratch: make([]*block, len(s.steps))}
	for v, x := range s.values {
		if x.external != nil || s.home(Value(v)) != Value(v) || first[v] < 0 {
			continue
		}
		m := l.of[merged[v]] // an operand is declared before the result that takes its place
		if m == nil {
			m = &block{first: first[v], last: last[v]}
			l.blocks, l.of[merged[v]] = append(l.blocks, m), m
		}
		l.of[v] = m
		m.size, m.first, m.last = max(m.size, aligned(x.size)), min(m.first, first[v]), max(m.last, last[v])
		m.values = append(m.values, Value(v))
	}
	for v := range s.values {
		l.of[v] = l.of[s.home(Value(v))]
	}
	for i, step := range s.steps {
		if n := step.Kernel.Scratch(); n > 0 {
			l.scratch[i] = &block{size: aligned(n), first: i, last: i}
			l.blocks = append(l.blocks, l.scratch[i])
		}
	}
	return l, nil
}

func aligned(n int) int { return (n + device.Alignment - 1) / device.Alignment * device.Alignment }

// lifetimes returns the first and the last step in which each value is alive, by its home; -1 where no step uses it.
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

// inPlace lets a step's first result take the memory of an operand that dies in the step, where the step allows it. It returns for each value the one whose memory it takes.
func (s *schedule) inPlace(first, last []int) []Value {
	merged := make([]Value, len(s.values))
	for v := range merged {
		merged[v] = Value(v)
	}
	for i, step := range s.steps {
		if len(step.Out) == 0 {
			continue
		}
		out := s.home(step.Out[0])
		o := s.values[out]
		if o.external != nil || o.input || first[out] != i {
			continue
		}
		for _, k := range step.InPlace {
			in := s.home(step.In[k])
			x := s.values[in]
			if x.external != nil || last[in] != i || aligned(x.size) != aligned(o.size) || s.readTwice(step, in) {
				continue
			}
			merged[out] = merged[in]
			break
		}
	}
	return merged
}

// readTwice says whether a step reads a value as more than one operand: then it must not be written over.
func (s *schedule) readTwice(step Step, v Value) bool {
	n := 0
	for _, in := range step.In {
		if s.home(in) == v {
			n++
		}
	}
	return n > 1
}

// alive is how many float32 elements are alive in each step.
func (l *layout) alive() []int {
	n := len(l.scratch)
	change := make([]int, n+2)
	for _, m := range l.blocks {
		change[m.first] += m.size
		change[m.last+1] -= m.size
	}
	sum := 0
	for i, c := range change {
		sum += c
		change[i] = sum
	}
	return change[:n]
}

// unshared is what it would take if every value had its own memory, and all steps shared one scratch.
func (s *schedule) unshared(l *layout) int {
	sum, largest := 0, 0
	for v, m := range l.of {
		if m != nil && s.home(Value(v)) == Value(v) {
			sum += aligned(s.values[v].size)
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
