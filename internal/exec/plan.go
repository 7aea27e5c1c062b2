package exec

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Builder collects the values and steps of a program.
type Builder struct {
	dev     device.Device
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

// NewBuilder starts an empty program for a device.
func NewBuilder(dev device.Device) *Builder { return &Builder{dev: dev, forward: -1} }

func (b *Builder) add(v value) Value {
	id := Value(len(b.values))
	if v.alias < 0 {
		v.alias = id
	}
	b.values = append(b.values, v)
	return id
}

// External declares memory that is there already, such as parameters.
func (b *Builder) External(m device.Buffer) Value {
	return b.add(value{size: m.Len(), external: m, alias: -1})
}

// Planned declares a value of n float32 elements that a step writes.
func (b *Builder) Planned(n int) Value { return b.add(value{size: n, alias: -1}) }

// Input declares a value of n float32 elements that is set from outside: it is alive all the time.
func (b *Builder) Input(n int) Value { return b.add(value{size: n, input: true, alias: -1}) }

// Keep makes a value live to the end: an output that is read from outside.
func (b *Builder) Keep(v Value) { b.values[b.home(v)].kept = true }

// Alias declares another name for a value.
func (b *Builder) Alias(of Value) Value {
	return b.add(value{size: b.values[of].size, alias: b.home(of)})
}

func (b *Builder) home(v Value) Value { return b.values[v].alias }

// Step appends a step.
func (b *Builder) Step(s Step) { b.steps = append(b.steps, s) }

// EndForward marks the end of the forward part: the steps after it run in Backward.
func (b *Builder) EndForward() { b.forward = len(b.steps) }

// Plan is a program whose memory is decided but not taken.
type Plan struct {
	b        *Builder
	offsets  []int // of each planned value in the arena
	scratch  []int // of each step's scratch
	arena    int   // float32 elements
	unshared int
}

// Bytes is the memory that the program takes.
func (p *Plan) Bytes() int64 { return 4 * int64(p.arena) }

// Unshared is the memory that it would take if every value had its own, and all steps shared one scratch.
func (p *Plan) Unshared() int64 { return 4 * int64(p.unshared) }

// Steps is the number of steps, and of those of the forward part.
func (p *Plan) Steps() (all, forward int) {
	all = len(p.b.steps)
	if p.b.forward < 0 {
		return all, all
	}
	return all, p.b.forward
}

// block is memory that is alive from the step that first writes it to the last that reads it.
type block struct {
	size, first, last int
	offset            int
}

// Plan decides where everything lies.
func (b *Builder) Plan() (*Plan, error) {
	first, last, err := b.lifetimes()
	if err != nil {
		return nil, err
	}
	merged := b.inPlace(first, last)

	p := &Plan{b: b, offsets: make([]int, len(b.values)), scratch: make([]int, len(b.steps))}
	blocks := map[Value]*block{}
	var list []*block
	for v := range b.values {
		id := merged[v]
		if b.values[v].external != nil || b.home(Value(v)) != Value(v) || first[v] < 0 {
			continue
		}
		p.unshared += aligned(b.values[v].size)
		m, ok := blocks[id]
		if !ok {
			m = &block{size: aligned(b.values[v].size), first: first[v], last: last[v]}
			blocks[id] = m
			list = append(list, m)
			continue
		}
		m.size, m.first, m.last = max(m.size, aligned(b.values[v].size)), min(m.first, first[v]), max(m.last, last[v])
	}
	scratch, largest := make([]*block, len(b.steps)), 0
	for i, s := range b.steps {
		if n := s.Kernel.Scratch(); n > 0 {
			scratch[i] = &block{size: aligned(n), first: i, last: i}
			list = append(list, scratch[i])
			largest = max(largest, aligned(n))
		}
	}
	p.unshared += largest
	p.arena = place(list)
	for v := range b.values {
		if m, ok := blocks[merged[b.home(Value(v))]]; ok {
			p.offsets[v] = m.offset
		}
	}
	for i, m := range scratch {
		if m != nil {
			p.scratch[i] = m.offset
		}
	}
	return p, nil
}

func aligned(n int) int { return (n + device.Alignment - 1) / device.Alignment * device.Alignment }

// lifetimes returns the first and the last step in which each value is alive, by its home; -1 where no step uses it.
func (b *Builder) lifetimes() (first, last []int, err error) {
	first, last = make([]int, len(b.values)), make([]int, len(b.values))
	for v := range first {
		first[v], last[v] = -1, -1
	}
	touch := func(v Value, step int) {
		if first[v] < 0 {
			first[v] = step
		}
		last[v] = step
	}
	written := make([]bool, len(b.values))
	for i, s := range b.steps {
		for _, v := range s.In {
			h := b.home(v)
			if x := b.values[h]; !written[h] && !x.input && x.external == nil {
				return nil, nil, fmt.Errorf("step %d (%s) reads a value that no step before it writes", i, s.Name)
			}
			touch(h, i)
		}
		for _, v := range s.Out {
			touch(b.home(v), i)
			written[b.home(v)] = true
		}
	}
	for v, x := range b.values {
		if x.input {
			first[v] = 0
		}
		if x.input || x.kept {
			last[v] = len(b.steps)
		}
	}
	return first, last, nil
}

// inPlace lets a step's first result take the memory of an operand that dies in the step, where the step allows it. It returns for each value the one whose memory it takes.
func (b *Builder) inPlace(first, last []int) []Value {
	merged := make([]Value, len(b.values))
	for v := range merged {
		merged[v] = Value(v)
	}
	for i, s := range b.steps {
		if len(s.Out) == 0 {
			continue
		}
		out := b.home(s.Out[0])
		o := b.values[out]
		if o.external != nil || o.input || first[out] != i {
			continue
		}
		for _, k := range s.InPlace {
			in := b.home(s.In[k])
			x := b.values[in]
			if x.external != nil || last[in] != i || aligned(x.size) != aligned(o.size) || readTwice(b, s, in) {
				continue
			}
			merged[out] = merged[in]
			break
		}
	}
	return merged
}

// readTwice says whether a step reads a value as more than one operand: then it must not be written over.
func readTwice(b *Builder, s Step, v Value) bool {
	n := 0
	for _, in := range s.In {
		if b.home(in) == v {
			n++
		}
	}
	return n > 1
}

// place gives every block an offset such that blocks that are alive together do not overlap, and returns the size of the arena. Greedy by size: large
// blocks first, each into the smallest gap between the blocks already placed that are alive with it.
func place(list []*block) int {
	order := slices.Clone(list)
	slices.SortStableFunc(order, func(a, b *block) int { return cmp.Compare(b.size, a.size) })
	var placed []*block // by offset
	arena := 0
	for _, m := range order {
		best, bestGap, end := -1, 0, 0
		for _, q := range placed {
			if q.last < m.first || m.last < q.first {
				continue
			}
			if gap := q.offset - end; gap >= m.size && (best < 0 || gap < bestGap) {
				best, bestGap = end, gap
			}
			end = max(end, q.offset+q.size)
		}
		if best < 0 {
			best = end
		}
		m.offset = best
		arena = max(arena, best+m.size)
		i, _ := slices.BinarySearchFunc(placed, m, func(a, b *block) int { return cmp.Compare(a.offset, b.offset) })
		placed = slices.Insert(placed, i, m)
	}
	return arena
}

// Allocate takes the memory, unless it is more than limit bytes (0: no limit): then the error is a [*MemoryError].
func (p *Plan) Allocate(limit int64) (*Program, error) {
	if limit > 0 && p.Bytes() > limit {
		return nil, &MemoryError{Need: p.Bytes(), Limit: limit}
	}
	b := p.b
	arena, err := b.dev.Alloc(p.arena)
	if err != nil {
		return nil, fmt.Errorf("allocating %s for a program: %w", mebibytes(p.Bytes()), err)
	}
	_, forward := p.Steps()
	prog := &Program{forward: forward, memory: make([]device.Buffer, len(b.values))}
	for v, x := range b.values {
		switch home := b.values[x.alias]; {
		case home.external != nil:
			prog.memory[v] = home.external
		default:
			prog.memory[v] = b.dev.View(arena, p.offsets[v], x.size)
		}
	}
	buffers := func(vs []Value) []device.Buffer {
		list := make([]device.Buffer, len(vs))
		for i, v := range vs {
			list[i] = prog.memory[v]
		}
		return list
	}
	for i, s := range b.steps {
		prog.steps = append(prog.steps, bound{
			kernel: s.Kernel, out: buffers(s.Out), in: buffers(s.In), scratch: b.dev.View(arena, p.scratch[i], s.Kernel.Scratch()),
			time: StepTime{Name: s.Name, FLOPs: s.FLOPs},
		})
		for _, v := range slices.Concat(s.Out, s.In) {
			prog.steps[i].time.Bytes += 4 * float64(prog.memory[v].Len())
		}
	}
	return prog, nil
}
