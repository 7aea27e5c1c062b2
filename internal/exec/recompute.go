package exec

import (
	"cmp"
	"slices"
)

// Recompute says how much may be computed again instead of being kept.
type Recompute uint8

// A step is Never run twice, or may be where that is Cheap (a pass over memory), or even where it is Dear (a convolution).
const (
	Never Recompute = iota
	Cheap
	Dear
)

// repeat is a value that is computed again right before a step, for it and those after it: the memory is free in between. A set of repeats says everything:
// [schedule.with] makes the schedule of any set.
type repeat struct {
	value  Value
	before int // a step of the schedule without repeats
}

// expanded is a schedule with repeats.
type expanded struct {
	schedule
	origin []int   // of each step: the one of the schedule without repeats that it is or stands before
	names  []Value // of each value: the one that it repeats; itself if none
}

// with returns the schedule with values computed again.
func (s *schedule) with(again []repeat) *expanded {
	writer := s.writers()
	again = slices.Clone(again)
	slices.SortFunc(again, func(a, b repeat) int {
		return cmp.Or(cmp.Compare(a.before, b.before), cmp.Compare(writer[a.value], writer[b.value]))
	})
	e := &expanded{schedule: schedule{values: slices.Clone(s.values), steps: make([]Step, 0, len(s.steps)+len(again)), forward: s.forward}}
	now := make([]Value, len(s.values)) // which of its repeats a value is at the moment
	for v := range now {
		now[v] = Value(v)
	}
	e.names = slices.Clone(now)
	emit := func(step Step, origin int) {
		in := make([]Value, len(step.In))
		for k, v := range step.In {
			in[k] = now[v]
		}
		step.In = in
		e.steps, e.origin = append(e.steps, step), append(e.origin, origin)
	}
	for i, step := range s.steps {
		if i == s.forward {
			e.forward = len(e.steps)
		}
		for len(again) > 0 && again[0].before == i {
			v := again[0].value
			again = again[1:]
			twin := s.steps[writer[v]]
			out := make([]Value, len(twin.Out))
			for k, o := range twin.Out {
				out[k] = Value(len(e.values))
				e.values = append(e.values, value{size: s.values[o].size, alias: out[k]})
				e.names = append(e.names, o)
			}
			twin.Out = out
			emit(twin, i)
			now[v] = out[slices.Index(s.steps[writer[v]].Out, v)]
		}
		emit(step, i)
	}
	if s.forward == len(s.steps) {
		e.forward = len(e.steps)
	}
	return e
}

// height is the most that is alive at one time, and in how many steps that is so.
type height struct{ peak, steps int }

func (h height) less(o height) bool {
	return h.peak < o.peak || h.peak == o.peak && h.steps < o.steps
}

func heightOf(alive []int) height {
	h := height{}
	for _, n := range alive {
		switch {
		case n > h.peak:
			h = height{n, 1}
		case n == h.peak:
			h.steps++
		}
	}
	return h
}

// recomputer looks for values that are better computed again than kept.
type recomputer struct {
	base   *schedule
	level  Recompute
	writer []int
	writes [][]int // the steps that write each value
	again  []repeat
}

func newRecomputer(s *schedule) *recomputer {
	r := &recomputer{base: s, writer: s.writers(), writes: make([][]int, len(s.values))}
	for i, step := range s.steps {
		for _, v := range step.Out {
			r.writes[s.home(v)] = append(r.writes[s.home(v)], i)
		}
	}
	return r
}

// lower adds repeats of steps up to a level as long as they lower the peak, until it is low enough; then it drops those that turned out not to matter.
//
// It looks at the step where most is alive. Of the values that are alive there without being used, it takes the one that frees the most for the time that it costs,
// and computes it again before the next step that reads it.
func (r *recomputer) lower(level Recompute, enough int) {
	r.level = level
	start := len(r.again)
	now, l, h := r.try(r.again)
	for h.peak > enough {
		found := false
		for _, c := range r.candidates(now, l, h) {
			again := slices.Concat(r.again, c)
			if e, el, eh := r.try(again); eh.less(h) {
				r.again, now, l, h, found = again, e, el, eh, true
				break
			}
		}
		if !found {
			break
		}
	}
	for i := len(r.again) - 1; i >= start; i-- {
		again := slices.Delete(slices.Clone(r.again), i, i+1)
		if _, _, eh := r.try(again); eh.peak <= h.peak {
			r.again = again
		}
	}
}

func (r *recomputer) try(again []repeat) (*expanded, *layout, height) {
	e := r.base.with(again)
	l, err := e.layout()
	if err != nil { // the base has a layout, and a repeat reads nothing that its step did not read
		panic(err)
	}
	return e, l, heightOf(l.alive())
}

// candidates are sets of repeats that would free memory in the highest step, those that free the most for their time first.
func (r *recomputer) candidates(e *expanded, l *layout, h height) [][]repeat {
	top := slices.Index(l.alive(), h.peak)
	first, last, _ := e.lifetimes() // there is a layout
	// next is the step after the top that uses a value, by value; values that the top itself uses have none.
	next := make([]int, len(e.values))
	for i := len(e.steps) - 1; i >= top; i-- {
		for _, v := range slices.Concat(e.steps[i].In, e.steps[i].Out) {
			next[e.home(v)] = i
		}
	}
	type candidate struct {
		again []repeat
		gain  float64
	}
	var list []candidate
	for v := range e.values {
		if first[v] < 0 || first[v] >= top || next[v] <= top || e.values[v].input || e.values[v].kept || e.values[v].external != nil {
			continue
		}
		before := e.origin[next[v]]
		alive := func(name Value) bool { // at the top and up to the repeat, in whatever incarnation
			for w, n := range e.names {
				if n == name && first[w] >= 0 && first[w] <= top && last[w] >= top {
					return true
				}
			}
			return false
		}
		if again, cost, ok := r.chain(e.names[v], before, alive); ok {
			list = append(list, candidate{again, float64(e.values[v].size) / cost})
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.gain, a.gain) })
	out := make([][]repeat, len(list))
	for i, c := range list {
		out[i] = c.again
	}
	return out
}

// chain is what has to be computed again so that a value is there before a step: the value, and those of its operands that are neither alive nor can only be kept.
func (r *recomputer) chain(v Value, before int, alive func(Value) bool) (again []repeat, cost float64, ok bool) {
	w := r.writer[v]
	if w < 0 || w >= before || r.base.steps[w].Again == Never || r.base.steps[w].Again > r.level || slices.Contains(r.again, repeat{v, before}) {
		return nil, 0, false
	}
	step := r.base.steps[w]
	for _, o := range step.Out {
		x := r.base.values[r.base.home(o)]
		if r.base.home(o) != o || x.external != nil || x.kept && o == v {
			return nil, 0, false
		}
		cost += float64(x.size)
	}
	for _, in := range step.In {
		h := r.base.home(in)
		if slices.ContainsFunc(r.writes[h], func(i int) bool { return i > w && i < before }) {
			return nil, 0, false // the operand is not what it was
		}
		cost += float64(r.base.values[h].size)
		if x := r.base.values[h]; x.external != nil || x.input || x.kept || h != in || alive(h) {
			continue
		}
		if more, c, ok := r.chain(h, before, alive); ok {
			for _, m := range more {
				if !slices.Contains(again, m) {
					again = append(again, m)
				}
			}
			cost += c
		}
	}
	const flopsAnElement = 200 // that a processor computes while it reads or writes one float32
	return append(again, repeat{v, before}), cost + step.FLOPs/flopsAnElement, true
}

// cost is what the repeats take.
func (r *recomputer) cost() Repeats {
	var c Repeats
	for _, a := range r.again {
		step := r.base.steps[r.writer[a.value]]
		c.Steps++
		c.FLOPs += step.FLOPs
		for _, v := range slices.Concat(step.Out, step.In) {
			c.Bytes += 4 * int64(r.base.values[v].size)
		}
	}
	return c
}
