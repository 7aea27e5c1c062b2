package exec

import (
	"cmp"
	"slices"
	"sort"
)

// Recompute says how much may be computed again instead of being kept.
type Recompute uint8

// A step that is Never to be repeated runs once. A Cheap one (a pass over memory) may run again
// where that is worth its time, a Dear one (a convolution) where memory would not suffice
// otherwise.
const (
	Never Recompute = iota
	Cheap
	Dear
)

// repeat is a value that is computed again right before a step, for that step and later ones: its
// memory is free until then. A set of repeats says everything: [schedule.with] makes the schedule
// of any set.
type repeat struct {
	value  Value
	before int // a step of the schedule without repeats
}

// expanded is a schedule with repeats.
type expanded struct {
	schedule
	// of each step: the one of the schedule without repeats that it is or stands before
	origin []int
	again  []bool  // of each step: it has run before
	names  []Value // of each value: the one that it repeats; itself if none
}

// with returns the schedule with values computed again.
func (s *schedule) with(again []repeat) *expanded {
	writer := s.writers()
	again = slices.Clone(again)
	slices.SortFunc(again, func(a, b repeat) int {
		return cmp.Or(cmp.Compare(a.before, b.before), cmp.Compare(writer[a.value], writer[b.value]))
	})
	e := &expanded{schedule: schedule{values: slices.Clone(s.values), steps: make([]Step, 0, len(s.steps)+len(again)),
		forward: s.forward, alignment: s.alignment}}
	now := make([]Value, len(s.values)) // which of its repeats a value is at the moment
	for v := range now {
		now[v] = Value(v)
	}
	e.names = slices.Clone(now)
	emit := func(step Step, origin int, again bool) {
		in := make([]Value, len(step.In))
		for k, v := range step.In {
			in[k] = now[v]
		}
		step.In = in
		e.steps, e.origin, e.again = append(e.steps, step), append(e.origin, origin), append(e.again, again)
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
			emit(twin, i, true)
			now[v] = out[slices.Index(s.steps[writer[v]].Out, v)]
		}
		emit(step, i, false)
	}
	if s.forward == len(s.steps) {
		e.forward = len(e.steps)
	}
	return e
}

// height is the most that is alive at one time, and in how many steps that is so.
type height struct{ peak, times int }

func (h height) less(o height) bool {
	return h.peak < o.peak || h.peak == o.peak && h.times < o.times
}

func heightOf(alive []int) height {
	h := height{}
	for _, n := range alive {
		switch {
		case n > h.peak:
			h = height{n, 1}
		case n == h.peak:
			h.times++
		}
	}
	return h
}

// recomputer looks for values that are better computed again than kept.
type recomputer struct {
	base  *schedule
	level Recompute
	// flopsPerByte is the arithmetic that the device does in the time in which it moves a byte.
	flopsPerByte float64
	// price is how many bytes of memory a repeat must save for each byte of traffic that it costs.
	price  float64
	writer []int
	writes [][]int // the steps that write each value
	again  []repeat
	worth  int // how many of these, from the first on, are worth their time
}

// newRecomputer starts without repeats. arena is how many bytes the program takes then, held how
// many are in use beside it.
func newRecomputer(s *schedule, flopsPerByte float64, arena, held int64) *recomputer {
	r := &recomputer{base: s, flopsPerByte: flopsPerByte, writer: s.writers(), writes: make([][]int, len(s.values))}
	time := 0.0
	for i, step := range s.steps {
		for _, v := range step.Out {
			r.writes[s.home(v)] = append(r.writes[s.home(v)], i)
		}
		time += r.duration(s.traffic(step), step.FLOPs)
	}
	r.price = timeOverMemory * float64(held+arena) / max(time, 1)
	return r
}

// trial is the plan that follows from a set of repeats.
type trial struct {
	*expanded
	*layout
	height
	repeats Repeats
}

func (r *recomputer) try(again []repeat) trial {
	t := trial{expanded: r.base.with(again)}
	var err error
	// the base has a layout, and a repeat reads nothing that its step did not read
	if t.layout, err = t.schedule.layout(); err != nil {
		panic(err)
	}
	t.height = heightOf(t.alive())
	for i, step := range t.steps {
		if !t.expanded.again[i] || t.joined[i] {
			continue
		}
		t.repeats.Steps++
		t.repeats.FLOPs += step.FLOPs
		t.repeats.Bytes += t.traffic(step)
	}
	return t
}

// Time is weighed against memory by shares: a run may take one percent longer where that makes all
// the memory that is in use, not only the arena, smaller by timeOverMemory percent. So beside
// parameters that dwarf the arena, or in a program that does little with its memory, next to
// nothing is computed again.
const timeOverMemory = 7

// duration is about how long so much takes, in bytes that are read or written.
func (r *recomputer) duration(bytes int64, flops float64) float64 {
	return float64(bytes) + flops/r.flopsPerByte
}

// weight is what a trial takes, memory and time together, in bytes of memory.
func (r *recomputer) weight(t trial) float64 {
	return float64(t.peak) + r.price*r.duration(t.repeats.Bytes, t.repeats.FLOPs)
}

// lower lowers the peak of memory by repeating steps, up to a level.
//
//   - With target 0 it adds repeats as long as they lower the peak. Then it removes those that cost
//     more time than their memory is worth.
//   - With a target in bytes it adds repeats until the arena is that small, whatever they cost.
//     Then it removes those that are not needed for that, the most expensive first.
//
// It looks at the step where most is alive. Of the values that are alive there, it takes the one
// that frees the most for the time that it costs, and computes it again before the next step that
// reads it, or a little earlier.
func (r *recomputer) lower(level Recompute, target int) {
	r.level = level
	now := r.try(r.again)
	again, best := r.again, now
	for target == 0 || !best.fits(target) {
		found := false
		for _, c := range r.candidates(now, again) {
			more := slices.Concat(again, c)
			if t := r.try(more); t.height.less(now.height) {
				again, now, found = more, t, true
				break
			}
		}
		if !found {
			break
		}
		if target > 0 || r.weight(now) < r.weight(best) {
			r.again, best = again, now
		}
	}
	if r.again = r.needed(best, target); target == 0 {
		r.worth = len(r.again)
	}
}

// needed takes repeats back, the dearest first, and returns the rest. It takes back those that
// neither lower the peak below the best one found nor are worth their time.
func (r *recomputer) needed(best trial, target int) []repeat {
	fits, low := target > 0 && best.fits(target), best.peak
	if fits {
		low = target
	}
	dearest := slices.Clone(r.again[r.worth:])
	slices.SortStableFunc(dearest, func(a, b repeat) int { return cmp.Compare(r.cost(b), r.cost(a)) })
	fewer := [][]repeat{r.again}
	for _, c := range dearest {
		again := slices.DeleteFunc(slices.Clone(fewer[len(fewer)-1]), func(a repeat) bool { return a == c })
		switch t := r.try(again); {
		case target > 0 && t.peak <= low:
			fewer = append(fewer, again)
		case target == 0 && r.weight(t) <= r.weight(best):
			fewer, best = append(fewer, again), t
		}
	}
	most := len(fewer) - 1
	// A peak within the target may still not fit: units leave gaps between them.
	if fits {
		most = sort.Search(most, func(i int) bool { return !r.try(fewer[i+1]).fits(target) })
	}
	return fewer[most]
}

// cost is about how long a repeat takes.
func (r *recomputer) cost(a repeat) float64 {
	step := r.base.steps[r.writer[a.value]]
	return r.duration(r.base.traffic(step), step.FLOPs)
}

// candidates are sets of repeats that would free memory in the highest step, those that free the
// most for their time first.
func (r *recomputer) candidates(t trial, chosen []repeat) [][]repeat {
	top := slices.Index(t.alive(), t.peak)
	first, last, _ := t.lifetimes() // there is a layout
	// next is the first step from the top on that uses a value, by value.
	next := make([]int, len(t.values))
	for i := len(t.steps) - 1; i >= top; i-- {
		for _, v := range slices.Concat(t.steps[i].In, t.steps[i].Out) {
			next[t.home(v)] = i
		}
	}
	type candidate struct {
		again []repeat
		gain  float64
	}
	var list []candidate
	for v, x := range t.values {
		if first[v] < 0 || first[v] >= top || next[v] < top || x.input || x.kept || x.external != nil {
			continue
		}
		alive := func(name Value) bool { // at the top, in whatever incarnation
			for w, n := range t.names {
				if n == name && first[w] >= 0 && first[w] <= top && last[w] >= top {
					return true
				}
			}
			return false
		}
		// Right before it is read is best, unless that step is high itself: then earlier. What the
		// highest step reads itself may be worth it, too: there it gets another place.
		read := t.origin[next[v]]
		for before := read; before == read || before > t.origin[top] && before > read-4; before-- {
			if again, cost, ok := r.chain(t.names[v], before, alive, chosen); ok {
				list = append(list, candidate{again, float64(x.size) / cost})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.gain, a.gain) })
	out := make([][]repeat, len(list))
	for i, c := range list {
		out[i] = c.again
	}
	return out
}

// chain is what has to be computed again so that a value is there before a step: the value, and
// those of its operands that are not alive anyway.
func (r *recomputer) chain(v Value, before int, alive func(Value) bool, chosen []repeat) (again []repeat, cost float64,
	ok bool) {
	w := r.writer[v]
	if w < 0 || w >= before || r.base.steps[w].Recompute == Never || r.base.steps[w].Recompute > r.level ||
		slices.Contains(chosen, repeat{v, before}) {
		return nil, 0, false
	}
	step := r.base.steps[w]
	for _, o := range step.Out {
		x := r.base.values[o]
		if r.base.home(o) != o || x.external != nil || x.kept && o == v {
			return nil, 0, false
		}
		cost += float64(x.size)
	}
	for _, in := range step.In {
		h := r.base.home(in)
		if slices.ContainsFunc(r.writes[h], func(i int) bool { return i > w && i < before }) {
			return nil, 0, false // the operand was written over in between
		}
		x := r.base.values[h]
		cost += float64(x.size)
		if x.external != nil || x.input || x.kept || h != in || alive(h) {
			continue
		}
		if more, c, ok := r.chain(h, before, alive, chosen); ok {
			for _, m := range more {
				if !slices.Contains(again, m) {
					again = append(again, m)
				}
			}
			cost += c
		}
	}
	return append(again, repeat{v, before}), cost + step.FLOPs/r.flopsPerByte, true
}
