//go:build gpu

package cuda

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"

	"gorgonia.org/cu"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// No plan of cuDNN is used before it has made what our own kernel makes, of random numbers. Its 3D
// convolutions have been silently wrong before, see flaws.

// A brokenError says that nothing works any more on the GPU: no other kernel would.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

// A problem is a kernel of a convolution with random operands, and what our own kernel makes of
// them.
type problem struct {
	name   string
	in     []device.Buffer
	to     device.Buffer
	result device.Tensor
	plain  bool // the result is weights
	want   []float32
}

// verify says what is wrong with a variant; nil if nothing is. It asks only once.
func (d *Device) verify(s device.ConvSpec, kind device.ConvKind, v variant) error {
	key := fmt.Sprintf("%s %v %s", device.ChoiceKey(s, kind), s.Bias, v.name)
	if err, ok := d.cudnn.checked[key]; ok {
		return err
	}
	err := d.compare(s, kind, v)
	if d.err != nil {
		return &brokenError{d.err}
	}
	d.cudnn.checked[key] = err
	return err
}

// compare runs a variant, and a recording of it, and compares.
func (d *Device) compare(s device.ConvSpec, kind device.ConvKind, v variant) error {
	p, err := d.problemFor(s, kind)
	if err != nil {
		return err
	}
	k, memory, err := d.trial(s, v)
	if err != nil {
		return err
	}
	defer d.Free(memory)
	got, err := p.solve(d, func() error { return d.tried(func() { k.Run([]device.Buffer{p.to}, p.in, memory) }) })
	if err != nil {
		return err
	}
	if err := d.close(got, p.want); err != nil {
		return err
	}
	var r device.Recording
	err = d.tried(func() { r, err = d.Record(func() { k.Run([]device.Buffer{p.to}, p.in, memory) }) })
	if err != nil || r == nil {
		return fmt.Errorf("it cannot be part of a CUDA graph: %w", err)
	}
	defer r.Close()
	again, err := p.solve(d, r.Run)
	if err == nil && !slices.Equal(got, again) {
		err = errors.New("it does not give the same result twice")
	}
	return err
}

// trial is a kernel of one variant, and scratch memory that holds anything.
func (d *Device) trial(s device.ConvSpec, v variant) (*kernel, *Buffer, error) {
	k, o := d.newKernel(), convOperands{to: out(0), a: in(0), b: in(1)}
	if s.Bias {
		o.bias = in(2)
	}
	v.append(k, o)
	if k.err != nil {
		return nil, nil, k.err
	}
	memory, err := d.alloc(max(alignment, k.bytes))
	return k, memory, err
}

// tried is what went wrong with a trial. What cuDNN itself refuses to do leaves the GPU as it was.
func (d *Device) tried(start func()) error {
	start()
	err := d.err
	if errors.As(err, new(*cudnnFailure)) {
		d.err = nil
	}
	return err
}

// solve lets something write the result, over NaN, and downloads it.
func (p *problem) solve(d *Device, start func() error) ([]float32, error) {
	got := make([]float32, p.result.Shape.Elements())
	for i := range got {
		got[i] = float32(math.NaN())
	}
	transfer := func(up bool) error {
		switch {
		case p.plain && up:
			return d.UploadWeights(p.to, p.result.Shape, 0, got)
		case p.plain:
			return d.DownloadWeights(got, p.to, p.result.Shape, 0)
		case up:
			return d.Upload(p.to, p.result, got)
		}
		return d.Download(got, p.to, p.result)
	}
	if err := transfer(true); err != nil {
		return nil, err
	}
	if err := start(); err != nil {
		return nil, err
	}
	return got, transfer(false)
}

// problemFor makes the problem of a kernel of a convolution. The last one is kept: plans of the
// same kernel are tried one after the other.
func (d *Device) problemFor(s device.ConvSpec, kind device.ConvKind) (*problem, error) {
	name := fmt.Sprintf("%s %v", device.ChoiceKey(s, kind), s.Bias)
	if d.problem != nil && d.problem.name == name {
		return d.problem, nil
	}
	d.forgetProblem()
	p := &problem{name: name}
	d.problem = p
	x, y := device.Tensor{Shape: s.XShape(), Type: s.Type}, device.Tensor{Shape: s.YShape(), Type: s.Type}
	operands, bias := []device.Tensor{x}, s.Out
	p.result = y
	switch kind {
	case device.ConvTransposed:
		operands, p.result, bias = []device.Tensor{y}, x, s.In
	case device.ConvWeights:
		operands, p.result, p.plain = []device.Tensor{x, y}, device.Tensor{Shape: s.WShape()}, true
	}
	r := rand.New(rand.NewPCG(1, uint64(len(name))))
	err := p.fill(d, r, operands,
		func(b device.Buffer, t device.Tensor, values []float32) error { return d.Upload(b, t, values) })
	if kind != device.ConvWeights {
		weights := []device.Tensor{{Shape: s.WShape()}}
		if s.Bias {
			weights = append(weights, device.Tensor{Shape: device.Shape{bias}})
		}
		err = errors.Join(err, p.fill(d, r, weights,
			func(b device.Buffer, _ device.Tensor, values []float32) error { return d.UploadPlain(b, 0, values) }))
	}
	if err == nil {
		p.to, err = d.alloc(d.Size(p.result))
	}
	if err == nil {
		p.want, err = d.expected(s, kind, p)
	}
	if err != nil {
		d.forgetProblem()
		return nil, fmt.Errorf("no room for its check: %w", err)
	}
	return p, nil
}

// fill makes operands of random numbers.
func (p *problem) fill(d *Device, r *rand.Rand, tensors []device.Tensor, upload func(device.Buffer, device.Tensor,
	[]float32) error) error {
	for _, t := range tensors {
		b, err := d.alloc(d.Size(t))
		if err != nil {
			return err
		}
		p.in = append(p.in, b)
		values := make([]float32, t.Shape.Elements())
		for i := range values {
			values[i] = 2*r.Float32() - 1
		}
		if err := upload(b, t, values); err != nil {
			return err
		}
	}
	return nil
}

// expected is what our own kernel makes of a problem.
func (d *Device) expected(s device.ConvSpec, kind device.ConvKind, p *problem) ([]float32, error) {
	k, memory, err := d.trial(s, d.reference(s, kind))
	if err != nil {
		return nil, err
	}
	defer d.Free(memory)
	return p.solve(d, func() error {
		k.Run([]device.Buffer{p.to}, p.in, memory)
		return d.err
	})
}

// forgetProblem gives back its memory.
func (d *Device) forgetProblem() {
	if d.problem == nil {
		return
	}
	for _, b := range append(d.problem.in, d.problem.to) {
		if b != nil {
			d.Free(b)
		}
	}
	d.problem = nil
}

// closeEnough is by how much two kernels of the same precision may differ: all elements together
// (relative L2), and any one of them, as a share of the elements' root mean square. Both round
// their results to bfloat16, a cuDNN gradient of weights in bf16 too; tf32 rounds operands to ten
// bits.
var closeEnough = map[precision]struct{ all, one float64 }{bf16: {1e-2, 0.1}, tf32: {4e-3, 0.05}, fp32: {1e-4, 2e-3}}

// close says by how much a result differs from what it should be, if that is too much.
func (d *Device) close(got, want []float32) error {
	var square, difference, most float64
	at := 0
	for i, w := range want {
		e := float64(got[i]) - float64(w)
		square += float64(w) * float64(w)
		difference += e * e
		if e = math.Abs(e); e > most || e != e {
			most, at = e, i
			if e != e {
				break
			}
		}
	}
	rms := math.Sqrt(square / float64(len(want)))
	all, one := math.Sqrt(difference/square), most/rms
	if limit := closeEnough[d.precision]; !(all <= limit.all && one <= limit.one) {
		return fmt.Errorf("it is wrong: on random numbers it differs from our kernel by %.2g (%.2g is allowed), in "+
			"one element by %.2g (%.2g), %g instead of %g", all, limit.all, one, limit.one, got[at], want[at])
	}
	return nil
}

var moduleVersion = regexp.MustCompile(`(?m)^NVRM version:.*?\s(\d+\.[\d.]+)\s`)

// driverVersion is the driver's, as nvidia-smi has it where the system tells it, and that of CUDA.
func driverVersion() string {
	v := cu.Version()
	text := fmt.Sprintf("of CUDA %d.%d", v/1000, v%1000/10)
	file, _ := smallfile.Read("/proc/driver/nvidia/version", smallfile.Settings)
	if m := moduleVersion.FindSubmatch(file); m != nil {
		text = fmt.Sprintf("%s %s", m[1], text)
	}
	return text
}
