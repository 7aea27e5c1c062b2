package nn

import (
	"fmt"
	"slices"
	"time"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/exec"
	"github.com/voxsaw/voxsaw/internal/seed"
)

// Program is a compiled graph. It shares its [Params] with other programs; everything else it owns.
// Its methods are called from one goroutine at a time.
//
// A run is: [Program.SetStep] where there is dropout, [Program.Set] for every input,
// [Program.Forward], then, where a gradient was asked for, Set for the gradients that come from
// outside and [Program.Backward]. Outputs stay valid until the next Forward.
type Program struct {
	dev     device.Device
	run     *exec.Program
	inputs  map[string]port
	outputs map[string]port
	masks   []maskPort
	losses  []lossStatistics
	alone   error           // why it cannot be one of several ranks, nil if it can
	own     []device.Buffer // memory beside the arena
	feeds   map[string]*feed
	params  *Params
	taken   int64 // bytes that the program counts for among its parameters' programs
	summary Summary

	gradients []gradient // of the parameters, where Backward leaves them

	profile bool
	// what moving inputs and outputs took, by name, while the program is profiled
	host []exec.StepTime
}

// port is a tensor that the host reads or writes.
type port struct {
	buffer  device.Buffer
	tensor  device.Tensor
	weights bool
}

type maskPort struct {
	port
	name   string
	rate   float64
	values []float32
}

// gradient is where the gradient of a parameter lies after Backward; nil where Backward uses it up.
type gradient struct {
	slot   *slot
	buffer device.Buffer
}

// Summary is what a program takes.
type Summary struct {
	Steps        int // kernels a run
	ForwardSteps int // of these before Backward
	// memory of the program: inputs, activations, scratch; the parameters are not in it
	Bytes int64
	// what it would be if every tensor had memory of its own, beside one scratch for all steps
	Unshared   int64
	Repeats    exec.Repeats // what is computed again instead of being kept
	Recomputed []string     // the steps that are, by name
	Peak       exec.Peak    // when it is fullest
	ParamBytes int64        // memory of the parameters and states, shared with other programs
	// arithmetic of direct convolutions and matrix products, a multiplication and an addition
	// counted as two
	FLOPs float64
}

// String is one line for a log.
func (s Summary) String() string {
	again := ""
	if s.Repeats.Steps > 0 {
		again = fmt.Sprintf(", %d of them again to save memory", s.Repeats.Steps)
	}
	return fmt.Sprintf("%d steps%s, %.1f GFLOP, %.1f MiB of memory (%.1f without sharing), %.1f MiB of parameters",
		s.Steps, again, s.FLOPs/1e9, mebibytes(s.Bytes), mebibytes(s.Unshared), mebibytes(s.ParamBytes))
}

// FLOPs are the summary's, of Forward and of both parts.
func (p *Program) FLOPs() (forward, both float64) { return p.ForwardFLOPs(), p.Summary().FLOPs }

// ForwardFLOPs is the part of the summary's FLOPs that Forward computes.
func (p *Program) ForwardFLOPs() (flops float64) {
	for _, step := range p.Times()[:p.Summary().ForwardSteps] {
		flops += step.FLOPs
	}
	return flops
}

// Set uploads an input, row-major.
func (p *Program) Set(input string, values []float32) error {
	in, err := p.input(input, values)
	if err != nil {
		return err
	}
	return p.timed("set "+input, len(values), func() error {
		if f := p.feeds[input]; f != nil {
			return f.set(in.buffer, values)
		}
		return p.upload(in, values)
	})
}

// input is an input that so many values fit.
func (p *Program) input(name string, values []float32) (port, error) {
	in, ok := p.inputs[name]
	if !ok {
		return in, fmt.Errorf("the program has no input %q", name)
	}
	if len(values) != in.tensor.Shape.Elements() {
		return in, fmt.Errorf("input %q has shape %v, not %d values", name, []int(in.tensor.Shape), len(values))
	}
	return in, nil
}

func (p *Program) upload(to port, values []float32) error {
	if to.weights {
		return p.dev.UploadWeights(to.buffer, to.tensor.Shape, 0, values)
	}
	return p.dev.Upload(to.buffer, to.tensor, values)
}

// SetStep draws the masks of all dropouts, from the run's seed and the step alone.
func (p *Program) SetStep(runSeed, step uint64) error { return p.SetMicroBatch(runSeed, step, 0) }

// SetMicroBatch is SetStep for a program that sees one of several micro-batches, from 0: it draws
// the rows that this one has in the masks of the whole batch.
func (p *Program) SetMicroBatch(runSeed, step uint64, n int) error {
	for _, m := range p.masks {
		r := seed.Rand(runSeed, "dropout/"+m.name, step)
		for range n * len(m.values) {
			r.Float64()
		}
		keep := float32(1 / (1 - m.rate))
		for i := range m.values {
			m.values[i] = keep
			if r.Float64() < m.rate {
				m.values[i] = 0
			}
		}
		if err := p.upload(m.port, m.values); err != nil {
			return err
		}
	}
	return nil
}

// Forward computes the outputs and the loss. On a device that works on its own it starts to: Read
// waits for the result, and says what has failed.
func (p *Program) Forward() error { return p.run.Forward() }

// Backward, after Forward, computes the gradients of the parameters and of the inputs that want
// one, and updates the parameters where [Options.Update] says so.
func (p *Program) Backward() error {
	for _, g := range p.gradients {
		g.slot.gradient = g.buffer
	}
	return p.run.Backward()
}

// Close gives back what the program holds. It must not be used afterwards.
func (p *Program) Close() {
	if p.run == nil {
		return
	}
	p.params.programs -= p.taken
	for _, g := range p.gradients {
		g.slot.gradient = nil
	}
	p.run.Close()
	for _, f := range p.feeds {
		f.way.Close()
	}
	for _, b := range p.own {
		p.dev.Free(b)
	}
	*p = Program{}
}

// Read downloads an output, row-major: one of [Options.Outputs], "loss", or "grad:<input>".
func (p *Program) Read(output string, dst []float32) error {
	out, ok := p.outputs[output]
	if !ok {
		return fmt.Errorf("the program has no output %q", output)
	}
	if len(dst) != out.tensor.Shape.Elements() {
		return fmt.Errorf("output %q has shape %v, not %d values", output, []int(out.tensor.Shape), len(dst))
	}
	return p.timed("read "+output, len(dst), func() error {
		if out.weights {
			return p.dev.DownloadWeights(dst, out.buffer, out.tensor.Shape, 0)
		}
		return p.dev.Download(dst, out.buffer, out.tensor)
	})
}

// Output is where an output lies on the device until the next Forward, and as what: for what reads
// it there.
func (p *Program) Output(name string) (device.Buffer, device.Tensor, error) {
	out, ok := p.outputs[name]
	if !ok || out.weights {
		return nil, device.Tensor{}, fmt.Errorf("the program has no output %q", name)
	}
	return out.buffer, out.tensor, nil
}

// Shape is the shape of an input or an output, nil if there is none of that name.
func (p *Program) Shape(name string) device.Shape {
	if t, ok := p.inputs[name]; ok {
		return t.tensor.Shape
	}
	return p.outputs[name].tensor.Shape
}

// Bytes is the memory that the program itself takes.
func (p *Program) Bytes() int64 { return p.summary.Bytes }

// Summary says what the program takes.
func (p *Program) Summary() Summary { return p.summary }

// Profile switches the measurement of every step on or off, and forgets what was measured.
func (p *Program) Profile(on bool) {
	p.profile, p.host = on, nil
	p.run.Profile(on)
}

// Times is what was measured since Profile: one entry a step, in the order of a run, then one for
// each input that was set and each output that was read.
func (p *Program) Times() []exec.StepTime { return append(p.run.Times(), p.host...) }

// timed moves n elements between host and device, and measures that while the program is profiled.
func (p *Program) timed(name string, n int, move func() error) error {
	if !p.profile {
		return move()
	}
	i := slices.IndexFunc(p.host, func(t exec.StepTime) bool { return t.Name == name })
	if i < 0 {
		i = len(p.host)
		p.host = append(p.host, exec.StepTime{Name: name, Bytes: 8 * float64(n)})
	}
	start := time.Now()
	err := move()
	p.host[i].Seconds += time.Since(start).Seconds()
	p.host[i].Calls++
	return err
}
