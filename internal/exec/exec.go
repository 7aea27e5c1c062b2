// Package exec runs programs: ordered steps over planned memory.
//
// Start at [Builder]: declare values, add steps, [Builder.Plan] them. The plan knows how much
// memory a run takes before any is taken; [Plan.Allocate] takes it, and the resulting [Program]
// runs without allocating. The planner finds when each value is alive (schedule.go) and gives
// values that are never alive together the same memory (place.go); a step may write its result over
// an operand that dies with it; scratch memory of a step is part of the plan. What is cheaper to
// compute again than to keep while memory is scarcest is computed again (recompute.go).
//
// The package knows devices and kernels. It knows no operators, no shapes and no gradients: those
// are package nn's.
package exec

import (
	"fmt"
	"time"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Value names memory that steps read and write.
type Value int

// Step is one kernel with its operands.
type Step struct {
	Name    string
	Kernel  device.Kernel
	Out, In []Value
	InPlace []Over  // which result may be written over which operand, the better choice first
	FLOPs   float64 // arithmetic, for profiles; 0 where nobody counted

	// Joins says that the kernel only copies. Either its one result consists of its operands, one
	// after the other, or its one operand consists of its results. Where the parts lie side by side
	// in the memory of the whole there is nothing to copy, and the step does not run.
	Joins bool
	// Recompute says at which price the step may run a second time instead of its results being
	// kept. A second run must give the same results, and write nothing but these.
	Recompute Recompute
}

// A Mover is a kernel that moves more memory than to read or write each operand once. MovesMore
// says how many bytes more.
type Mover interface{ MovesMore() int64 }

// Over says that a result may lie where an operand lies: indices into Out and In. Several of a step
// may be used at once, as long as no two share a result or an operand.
type Over struct{ Out, In int }

// StepTime is what a step took.
type StepTime struct {
	Name    string
	Calls   int
	Seconds float64 // of all calls
	FLOPs   float64 // of one call
	// that one call reads and writes: its operands, each once, and what a [Mover] adds
	Bytes float64
}

// MemoryError says that a program does not fit.
type MemoryError struct{ Need, Limit int64 }

func (e *MemoryError) Error() string {
	return fmt.Sprintf("the program needs %s of memory and may take %s", mebibytes(e.Need), mebibytes(e.Limit))
}

// ShortOfMemory marks the error for the command line, as [hint.ShortOfMemory] does.
func (e *MemoryError) ShortOfMemory() {}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Program is steps whose memory is there. Its methods are called from one goroutine at a time.
type Program struct {
	dev     device.Device
	parts   [2]part // forward, backward
	profile bool
	arena   *arena
	memory  []device.Buffer // by value
}

// arena is the memory that one program takes, or several that never run in the middle of one
// another. The last one that is closed gives it back.
type arena struct {
	dev    device.Device
	buffer device.Buffer
	users  int
}

func (a *arena) release() {
	if a.users--; a.users == 0 {
		a.dev.Free(a.buffer)
		a.buffer = nil
	}
}

// part is the steps of a forward or a backward run.
type part struct {
	steps     []bound
	runs      int              // so far
	recording device.Recording // nil: each step is started by itself
}

// bound is a step whose operands are memory.
type bound struct {
	kernel  device.Kernel
	out, in []device.Buffer
	scratch device.Buffer
	time    StepTime
}

func (s *bound) run() { s.kernel.Run(s.out, s.in, s.scratch) }

// Forward runs the steps up to the mark that [Builder.EndForward] set, all if it set none. On a
// device that works on its own it starts them; what fails then comes out at the device's Sync.
func (p *Program) Forward() error { return p.run(&p.parts[0]) }

// Backward runs, or starts, the steps after the mark.
func (p *Program) Backward() error { return p.run(&p.parts[1]) }

// run runs a part. The first run prepares what kernels prepare only once; the second is recorded,
// where the device can, and from then on the recording runs.
func (p *Program) run(part *part) error {
	if p.profile {
		return p.measure(part.steps)
	}
	if part.recording != nil {
		return part.recording.Run()
	}
	recorder, ok := p.dev.(device.Recorder)
	if part.runs++; ok && part.runs == 2 && len(part.steps) > 0 {
		var err error
		if part.recording, err = recorder.Record(part.start); err != nil {
			return fmt.Errorf("recording %d steps: %w", len(part.steps), err)
		}
		return part.recording.Run()
	}
	part.start()
	return nil
}

func (t *part) start() {
	for i := range t.steps {
		t.steps[i].run()
	}
}

// measure runs steps one by one, each timed: by the device where it works on its own.
func (p *Program) measure(steps []bound) error {
	timer, own := p.dev.(device.Timer)
	for i := range steps {
		s := &steps[i]
		seconds, err := 0.0, error(nil)
		if own {
			seconds, err = timer.Time(s.run)
		} else {
			start := time.Now()
			s.run()
			seconds = time.Since(start).Seconds()
		}
		if err != nil {
			return fmt.Errorf("timing %s: %w", s.time.Name, err)
		}
		s.time.Seconds += seconds
		s.time.Calls++
	}
	return nil
}

// Buffer is the memory of a value.
func (p *Program) Buffer(v Value) device.Buffer { return p.memory[v] }

// Bytes is the memory that the program lies in.
func (p *Program) Bytes() int64 { return p.arena.buffer.Bytes() }

// Close gives back what the program holds. It must not be used afterwards. Programs that share
// its memory keep it.
func (p *Program) Close() {
	if p.arena == nil {
		return
	}
	for k := range p.parts {
		if r := p.parts[k].recording; r != nil {
			r.Close()
		}
		for i := range p.parts[k].steps {
			if c, ok := p.parts[k].steps[i].kernel.(interface{ Close() }); ok {
				c.Close()
			}
		}
	}
	p.arena.release()
	*p = Program{}
}

// Profile switches the measurement of every step on or off, and forgets what was measured.
func (p *Program) Profile(on bool) {
	p.profile = on
	for k := range p.parts {
		for i := range p.parts[k].steps {
			t := &p.parts[k].steps[i].time
			t.Calls, t.Seconds = 0, 0
		}
	}
}

// Times is what was measured since Profile: one entry a step, in the order of a run.
func (p *Program) Times() []StepTime {
	var times []StepTime
	for k := range p.parts {
		for i := range p.parts[k].steps {
			times = append(times, p.parts[k].steps[i].time)
		}
	}
	return times
}
