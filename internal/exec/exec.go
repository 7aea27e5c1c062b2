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

	// Joins says that the kernel only copies operands into a result that is they one after the
	// other, or an operand into results that are its parts one after the other: it need not run
	// where they lie so.
	Joins bool
	// Again says at which price the step may run a second time. That must give the same results,
	// and it must write nothing but these.
	Again Recompute
}

// A Mover is a kernel that reads and writes more than its operands, each of them once: it knows how
// many bytes more.
type Mover interface{ MovesMore() int64 }

// Over says that a result may lie where an operand lies: indices into Out and In. All that are said
// may be so at once, as long as no two share a result or an operand.
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

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Program is steps whose memory is there.
type Program struct {
	steps   []bound
	forward int // steps before Backward
	profile bool
	arena   device.Buffer
	memory  []device.Buffer // by value
}

// bound is a step whose operands are memory.
type bound struct {
	kernel  device.Kernel
	out, in []device.Buffer
	scratch device.Buffer
	time    StepTime
}

// Forward runs the steps up to the mark that [Builder.EndForward] set, all if it set none.
func (p *Program) Forward() { p.run(p.steps[:p.forward]) }

// Backward runs the steps after the mark.
func (p *Program) Backward() { p.run(p.steps[p.forward:]) }

func (p *Program) run(steps []bound) {
	if !p.profile {
		for i := range steps {
			s := &steps[i]
			s.kernel.Run(s.out, s.in, s.scratch)
		}
		return
	}
	for i := range steps {
		s := &steps[i]
		start := time.Now()
		s.kernel.Run(s.out, s.in, s.scratch)
		s.time.Seconds += time.Since(start).Seconds()
		s.time.Calls++
	}
}

// Buffer is the memory of a value.
func (p *Program) Buffer(v Value) device.Buffer { return p.memory[v] }

// Profile switches the measurement of every step on or off, and forgets what was measured.
func (p *Program) Profile(on bool) {
	p.profile = on
	for i := range p.steps {
		p.steps[i].time.Calls, p.steps[i].time.Seconds = 0, 0
	}
}

// Times is what was measured since Profile: one entry a step, in the order of a run. On a device
// that works on its own, a step's time is that of starting it.
func (p *Program) Times() []StepTime {
	t := make([]StepTime, len(p.steps))
	for i := range p.steps {
		t[i] = p.steps[i].time
	}
	return t
}
