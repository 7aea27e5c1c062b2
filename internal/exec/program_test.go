package exec

import (
	"errors"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// counting is a host that counts what is taken and given back, and records runs.
type counting struct {
	host
	taken, given *int
	recorded     *[]*recording
	fail         error // of Record
}

func newCounting() counting {
	return counting{taken: new(int), given: new(int), recorded: new([]*recording)}
}

func (c counting) Alloc(size int64) (device.Buffer, error) {
	*c.taken++
	return c.host.Alloc(size)
}
func (c counting) Free(device.Buffer) { *c.given++ }

// recording stands for a CUDA graph: it starts the same kernels again.
type recording struct {
	start        func()
	runs, closed int
}

func (r *recording) Run() error { r.runs++; r.start(); return nil }
func (r *recording) Close()     { r.closed++ }

func (c counting) Record(start func()) (device.Recording, error) {
	if c.fail != nil {
		return nil, c.fail
	}
	r := &recording{start: start}
	*c.recorded = append(*c.recorded, r)
	return r, nil
}

// closing is a kernel that has something to give back.
type closing struct {
	mix
	closed *int
}

func (c closing) Close() { *c.closed++ }

// program is one step forward and one backward, from x to y.
func program(t *testing.T, dev device.Device, kernel device.Kernel) (p *Plan, x, y Value) {
	t.Helper()
	b := NewBuilder(dev)
	x, y = b.Input(bytes(16)), b.Planned(bytes(16))
	b.Step(Step{Name: "forward", Kernel: kernel, In: []Value{x}, Out: []Value{y}})
	b.EndForward()
	z := b.Planned(bytes(16))
	b.Step(Step{Name: "backward", Kernel: kernel, In: []Value{y}, Out: []Value{z}})
	b.Keep(y)
	plan, err := b.Plan(PlanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return plan, x, y
}

// The memory that programs share is given back once, when the last of them is closed.
func TestCloseGivesMemoryBackOnce(t *testing.T) {
	dev, closed := newCounting(), 0
	plan, _, _ := program(t, dev, closing{closed: &closed})
	first, err := plan.Allocate(0)
	if err != nil {
		t.Fatal(err)
	}
	second := plan.Share(first)
	first.Close()
	if *dev.given != 0 || closed != 2 {
		t.Errorf("one of two programs is closed: %d buffers were given back, %d kernels closed", *dev.given, closed)
	}
	if err := second.Forward(); err != nil {
		t.Error(err)
	}
	second.Close()
	second.Close() // does nothing
	if *dev.taken != 1 || *dev.given != 1 || closed != 4 {
		t.Errorf("%d buffers were taken, %d given back, %d kernels closed", *dev.taken, *dev.given, closed)
	}
}

// On a device that can, a run is recorded the second time, and the recording gives the direct run's
// results.
func TestRunsAreRecorded(t *testing.T) {
	dev := newCounting()
	plan, x, y := program(t, dev, mix{})
	p, err := plan.Allocate(0)
	if err != nil {
		t.Fatal(err)
	}
	var want memory
	for run := range 5 {
		copy(p.Buffer(x).(memory), memory{1, 2, 3})
		clear(p.Buffer(y).(memory))
		if err := errors.Join(p.Forward(), p.Backward()); err != nil {
			t.Fatal(err)
		}
		if got := p.Buffer(y).(memory); run == 0 {
			want = slices.Clone(got)
		} else if !slices.Equal(got, want) {
			t.Errorf("run %d: got %v, want %v", run, got, want)
		}
	}
	if len(*dev.recorded) != 2 || (*dev.recorded)[0].runs != 4 || (*dev.recorded)[1].runs != 4 {
		t.Fatalf("%d recordings", len(*dev.recorded))
	}
	// A profile looks at each step, and leaves the recordings as they are.
	p.Profile(true)
	if err := p.Forward(); err != nil {
		t.Fatal(err)
	}
	if (*dev.recorded)[0].runs != 4 || p.Times()[0].Calls != 1 {
		t.Errorf("a profiled run: %d runs of the recording, %d calls", (*dev.recorded)[0].runs, p.Times()[0].Calls)
	}
	p.Close()
	if (*dev.recorded)[0].closed != 1 || (*dev.recorded)[1].closed != 1 {
		t.Error("recordings were not closed")
	}
}

func TestRecordingThatFails(t *testing.T) {
	dev := newCounting()
	dev.fail = errors.New("out of graphs")
	plan, _, _ := program(t, dev, mix{})
	p, err := plan.Allocate(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Forward(); err != nil {
		t.Errorf("the first run is not recorded: %v", err)
	}
	if err := p.Forward(); !errors.Is(err, dev.fail) {
		t.Errorf("got %v", err)
	}
}
