package exec

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Builder collects the values and steps of a program.
type Builder struct {
	dev device.Device
	schedule
	finish []Step
}

// NewBuilder starts an empty program for a device.
func NewBuilder(dev device.Device) *Builder {
	return &Builder{dev: dev, schedule: schedule{forward: -1, alignment: int(dev.Alignment())}}
}

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
	return b.add(value{size: int(m.Bytes()), external: m, alias: -1})
}

// Planned declares a value of so many bytes that a step writes.
func (b *Builder) Planned(bytes int64) Value { return b.add(value{size: int(bytes), alias: -1}) }

// Input declares a value of so many bytes that is set from outside: it is alive all the time.
func (b *Builder) Input(bytes int64) Value {
	return b.add(value{size: int(bytes), input: true, alias: -1})
}

// Keep makes a value live to the end: an output that is read from outside.
func (b *Builder) Keep(v Value) { b.values[b.home(v)].kept = true }

// Alias declares another name for a value.
func (b *Builder) Alias(of Value) Value {
	return b.add(value{size: b.values[of].size, alias: b.home(of)})
}

// Step appends a step.
func (b *Builder) Step(s Step) { b.steps = append(b.steps, s) }

// Finish adds a step that changes what others read: it runs as soon as its operands are there and
// no step will use what it writes.
func (b *Builder) Finish(s Step) { b.finish = append(b.finish, s) }

// finished is the schedule with the steps of Finish in their places.
func (b *Builder) finished() schedule {
	s := b.schedule
	// the last step that uses a value, or writes it
	used, written := slices.Repeat([]int{-1}, len(s.values)), slices.Repeat([]int{-1}, len(s.values))
	for i, step := range s.steps {
		for _, v := range slices.Concat(step.In, step.Out) {
			used[s.home(v)] = i
		}
		for _, v := range step.Out {
			written[s.home(v)] = i
		}
	}
	after := map[int][]Step{}
	for _, f := range b.finish {
		at := -1
		for _, v := range f.In {
			at = max(at, written[s.home(v)])
		}
		for _, v := range f.Out {
			at = max(at, used[s.home(v)])
		}
		after[at] = append(after[at], f)
	}
	steps := after[-1]
	for i, step := range s.steps {
		if i == b.forward {
			s.forward = len(steps)
		}
		steps = append(append(steps, step), after[i]...)
	}
	if b.forward == len(s.steps) {
		s.forward = len(steps)
	}
	s.steps = steps
	return s
}

// EndForward marks the end of the forward part: the steps after it run in Backward.
func (b *Builder) EndForward() { b.forward = len(b.steps) }

// Plan is a program whose memory is decided but not taken.
type Plan struct {
	dev      device.Device
	schedule *schedule
	layout   *layout
	arena    int // bytes
	unshared int
	repeats  Repeats
	again    []bool // by step; nil: none has run before
}

// Repeats is what is computed again instead of being kept.
type Repeats struct {
	Steps int
	Bytes int64   // that these steps read and write
	FLOPs float64 // that they compute
}

// PlanOptions say what a plan may do to make the arena smaller.
type PlanOptions struct {
	Recompute Recompute // what may be computed again instead of being kept
	// bytes that are in use beside the arena: the more, the less it is worth to make it smaller
	Held int64
	// Target is how many bytes the arena may take; 0: as many as it likes. Then only what is cheap
	// is computed again, and only where that is worth its time. As long as the arena is larger than
	// the target, time does not count.
	Target int64
}

// Plan decides what is kept and where everything lies.
func (b *Builder) Plan(o PlanOptions) (*Plan, error) {
	s := b.finished()
	p := &Plan{dev: b.dev, schedule: &s}
	var err error
	if p.layout, err = s.layout(); err != nil {
		return nil, err
	}
	p.arena, p.unshared = p.layout.place(0), s.unshared(p.layout)
	if o.Recompute == Never {
		return p, nil
	}
	r := newRecomputer(&s, device.FLOPsPerByte(b.dev), p.Bytes(), o.Held)
	lower := func(level Recompute, target int) {
		r.lower(level, target)
		t := r.try(r.again)
		if arena := t.place(target); arena < p.arena {
			p.schedule, p.layout, p.arena, p.repeats, p.again = &t.schedule, t.layout, arena, t.repeats,
				t.expanded.again
		}
	}
	lower(Cheap, 0)
	for level := Cheap; level <= o.Recompute && o.Target > 0 && p.Bytes() > o.Target; level++ {
		lower(level, max(1, int(o.Target)))
	}
	return p, nil
}

// Bytes is the memory that the program takes.
func (p *Plan) Bytes() int64 { return int64(p.arena) }

// Unshared is the memory that it would take if every value had its own, and all steps shared one
// scratch.
func (p *Plan) Unshared() int64 { return int64(p.unshared) }

// Repeats is what the plan computes again.
func (p *Plan) Repeats() Repeats { return p.repeats }

// Recomputed names the steps that Repeats counts, in the order of a run.
func (p *Plan) Recomputed() (names []string) {
	for i, again := range p.again {
		if again && !p.layout.joined[i] {
			names = append(names, p.schedule.steps[i].Name)
		}
	}
	return names
}

// A Peak is the step in which most memory is alive: what decides how large the arena is.
type Peak struct {
	Step  string   `json:"step"`
	Bytes int64    `json:"bytes"` // alive in it: no arrangement makes the arena smaller
	Alive []Tenant `json:"alive"` // the largest first
}

// A Tenant is memory that is alive in a step.
type Tenant struct {
	Name  string `json:"name"` // of the step that wrote it last, or "input", or "scratch"
	Bytes int64  `json:"bytes"`
}

// Peak says what is in memory when most is.
func (p *Plan) Peak() Peak {
	alive := p.layout.alive()
	h := heightOf(alive)
	top := slices.Index(alive, h.peak)
	if top < 0 {
		return Peak{}
	}
	wrote := map[*block]string{}
	for i, step := range p.schedule.steps[:top+1] {
		for _, v := range step.Out {
			wrote[p.layout.of[v]] = step.Name
		}
		wrote[p.layout.scratch[i]] = "scratch"
	}
	peak := Peak{Step: p.schedule.steps[top].Name, Bytes: int64(h.peak)}
	for _, m := range slices.Concat(p.layout.units...) {
		if m.first <= top && top <= m.last {
			name, written := wrote[m]
			if !written {
				name = "input"
			}
			peak.Alive = append(peak.Alive, Tenant{name, int64(m.size)})
		}
	}
	slices.SortStableFunc(peak.Alive, func(a, b Tenant) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return peak
}

// Steps is the number of steps, and of those of the forward part.
func (p *Plan) Steps() (all, forward int) {
	all = len(p.schedule.steps)
	if p.schedule.forward < 0 {
		return all, all
	}
	return all, p.schedule.forward
}

// Allocate takes the memory, unless it is more than limit bytes (0: no limit): then the error is a
// [*MemoryError].
func (p *Plan) Allocate(limit int64) (*Program, error) {
	if limit > 0 && p.Bytes() > limit {
		return nil, &MemoryError{Need: p.Bytes(), Limit: limit}
	}
	buffer, err := p.dev.Alloc(int64(p.arena))
	if err != nil {
		return nil, fmt.Errorf("allocating %s for a program: %w", mebibytes(p.Bytes()), err)
	}
	return p.bind(&arena{dev: p.dev, buffer: buffer}), nil
}

// Share makes a program that lies in the memory of another one, which must be at least as large.
// When one of them runs, the values of the other are lost.
func (p *Plan) Share(other *Program) *Program { return p.bind(other.arena) }

// bind makes the program, given its memory.
func (p *Plan) bind(a *arena) *Program {
	a.users++
	s := p.schedule
	_, forward := p.Steps()
	prog := &Program{dev: p.dev, arena: a, memory: make([]device.Buffer, len(s.values))}
	for v, x := range s.values {
		switch home := s.values[x.alias]; {
		case home.external != nil:
			prog.memory[v] = home.external
		case p.layout.of[v] != nil:
			prog.memory[v] = p.dev.View(a.buffer, int64(p.layout.of[v].offset), int64(x.size))
		}
	}
	buffers := func(vs []Value) []device.Buffer {
		list := make([]device.Buffer, len(vs))
		for i, v := range vs {
			list[i] = prog.memory[v]
		}
		return list
	}
	for i, step := range s.steps {
		bytes := s.traffic(step)
		if p.layout.joined[i] {
			step.Kernel, bytes = nothing{}, 0
		}
		offset := 0
		if m := p.layout.scratch[i]; m != nil {
			offset = m.offset
		}
		part := &prog.parts[0]
		if i >= forward {
			part = &prog.parts[1]
		}
		part.steps = append(part.steps, bound{
			kernel: step.Kernel, out: buffers(step.Out), in: buffers(step.In),
			scratch: p.dev.View(a.buffer, int64(offset), step.Kernel.Scratch()),
			time:    StepTime{Name: step.Name, FLOPs: step.FLOPs, Bytes: float64(bytes)},
		})
	}
	return prog
}

// nothing is the kernel of a step that has nothing to do.
type nothing struct{}

func (nothing) Scratch() int64                            { return 0 }
func (nothing) Run(_, _ []device.Buffer, _ device.Buffer) {}
