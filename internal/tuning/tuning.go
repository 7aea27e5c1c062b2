// Package tuning measures which algorithm computes each convolution of a network fastest on this
// machine, and keeps the answer in a file.
//
// Start at [Convolutions], which finds out what a network asks of a device, and [Measure]. Without
// a measurement a cost model chooses, which knows no particular machine. Another algorithm rounds
// differently: so nothing here happens on its own, and who trains with choices records them.
package tuning

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
)

// A Convolution is one of the kernels of a network.
type Convolution struct {
	Spec device.ConvSpec
	Kind cpu.ConvKind
}

// Key names it in choices.
func (c Convolution) Key() string { return cpu.ChoiceKey(c.Spec, c.Kind) }

// Convolutions lists the different convolutions that build asks its device for, in the order in
// which it does. The device takes no memory and computes nothing.
func Convolutions(dev *cpu.CPU, build func(device.Device) error) ([]Convolution, error) {
	r := &recorder{CPU: dev}
	if err := build(r); err != nil {
		return nil, err
	}
	return r.asked, nil
}

// recorder is a device that only notes which convolutions it is asked for.
type recorder struct {
	*cpu.CPU
	asked []Convolution
}

// ghost is a buffer without memory.
type ghost int64

// Bytes implements [device.Buffer].
func (g ghost) Bytes() int64 { return int64(g) }

func (r *recorder) note(s device.ConvSpec, kind cpu.ConvKind) {
	s.Bias = false // it changes neither the key nor the time
	if c := (Convolution{s, kind}); !slices.Contains(r.asked, c) {
		r.asked = append(r.asked, c)
	}
}

func (r *recorder) Alloc(bytes int64) (device.Buffer, error)               { return ghost(bytes), nil }
func (r *recorder) Free(device.Buffer)                                     {}
func (r *recorder) View(_ device.Buffer, _, bytes int64) device.Buffer     { return ghost(bytes) }
func (r *recorder) Upload(device.Buffer, device.Tensor, []float32) error   { return nil }
func (r *recorder) Download([]float32, device.Buffer, device.Tensor) error { return nil }
func (r *recorder) UploadPlain(device.Buffer, int, []float32) error        { return nil }
func (r *recorder) DownloadPlain([]float32, device.Buffer, int) error      { return nil }
func (r *recorder) UploadWeights(device.Buffer, device.Shape, int, []float32) error {
	return nil
}
func (r *recorder) DownloadWeights([]float32, device.Buffer, device.Shape, int) error {
	return nil
}
func (r *recorder) Conv(s device.ConvSpec) (device.Kernel, error) {
	r.note(s, cpu.Forward)
	return r.CPU.Conv(s)
}
func (r *recorder) ConvTransposed(s device.ConvSpec) (device.Kernel, error) {
	r.note(s, cpu.Transposed)
	return r.CPU.ConvTransposed(s)
}
func (r *recorder) ConvGradWeights(s device.ConvSpec) (device.Kernel, error) {
	r.note(s, cpu.Weights)
	return r.CPU.ConvGradWeights(s)
}

func (r *recorder) ConvGradWeightsSGD(s device.ConvSpec) (device.Kernel, error) {
	r.note(s, cpu.Weights)
	return r.CPU.ConvGradWeightsSGD(s)
}

// A Choice is what was measured for a convolution.
type Choice struct {
	Convolution
	Algorithm string
	Time      time.Duration // of a run, the fastest of several
	Model     string        // what the cost model would have chosen
	ModelTime time.Duration
}

// margin is by how much a measured algorithm must be faster than the model's to overrule it: less
// is noise.
const margin = 0.97

// Measure times the algorithms for a convolution on the device, which was made with the map
// choices. The map is left as it was.
func Measure(dev *cpu.CPU, choices map[string]string, c Convolution) (Choice, error) {
	key := c.Key()
	names, err := dev.Candidates(c.Spec, c.Kind)
	if err != nil {
		return Choice{}, err
	}
	out := Choice{Convolution: c, Algorithm: names[0], Model: names[0]}
	if len(names) == 1 {
		return out, nil
	}
	before, had := choices[key]
	defer func() {
		if delete(choices, key); had {
			choices[key] = before
		}
	}()
	operands, result, err := c.operands(dev)
	if err != nil {
		return out, err
	}
	kernels, times := make([]device.Kernel, len(names)), make([]time.Duration, len(names))
	scratch := int64(0)
	for i, name := range names {
		choices[key] = name
		if kernels[i], err = c.kernel(dev); err != nil {
			return out, err
		}
		scratch = max(scratch, kernels[i].Scratch())
	}
	room, err := dev.Alloc(scratch)
	if err != nil {
		return out, err
	}
	clear(room.(cpu.Slice)) // memory that nobody has touched yet is slow the first time
	// In turns, so that a slow minute of the machine hits all of them. The first one does not
	// count; those that are far behind leave the race.
	best := forever
	for i, k := range kernels {
		times[i] = once(k, result, operands, room, dev)
		best = min(best, times[i])
	}
	behind := 8 * best
	best = forever
	start := time.Now()
	for round := range rounds {
		if round >= fewRounds && time.Since(start) > enough {
			break
		}
		for i, k := range kernels {
			if times[i] > behind {
				continue
			}
			if d := once(k, result, operands, room, dev); round == 0 || d < times[i] {
				times[i] = d
			}
			best = min(best, times[i])
		}
		behind = 3 * best / 2
	}
	out.Time, out.ModelTime = times[0], times[0]
	for i, d := range times {
		if d < out.Time && float64(d) < margin*float64(out.ModelTime) {
			out.Algorithm, out.Time = names[i], d
		}
	}
	return out, nil
}

// How often the algorithms for a convolution are run, and for how long once they have run a few
// times.
const (
	rounds    = 12
	fewRounds = 4
	enough    = 300 * time.Millisecond
	forever   = time.Duration(1<<63 - 1)
)

// once times a run.
func once(k device.Kernel, result device.Buffer, operands []device.Buffer, scratch device.Buffer, dev device.Device) time.Duration {
	start := time.Now()
	k.Run([]device.Buffer{result}, operands, dev.View(scratch, 0, k.Scratch()))
	return time.Since(start)
}

// Time is how long the kernel for a convolution takes on a device: the fastest run of several.
func Time(dev *cpu.CPU, c Convolution) (time.Duration, error) {
	operands, result, err := c.operands(dev)
	if err != nil {
		return 0, err
	}
	k, err := c.kernel(dev)
	if err != nil {
		return 0, err
	}
	room, err := dev.Alloc(k.Scratch())
	if err != nil {
		return 0, err
	}
	once(k, result, operands, room, dev)
	best := forever
	for start, round := time.Now(), 0; round < fewRounds || round < 5*rounds && time.Since(start) < enough; round++ {
		best = min(best, once(k, result, operands, room, dev))
	}
	return best, nil
}

// kernel makes the kernel.
func (c Convolution) kernel(dev device.Device) (device.Kernel, error) {
	switch c.Kind {
	case cpu.Transposed:
		return dev.ConvTransposed(c.Spec)
	case cpu.Weights:
		return dev.ConvGradWeights(c.Spec)
	}
	return dev.Conv(c.Spec)
}

// operands are what the kernel reads, and where it writes.
func (c Convolution) operands(dev *cpu.CPU) (in []device.Buffer, out device.Buffer, err error) {
	x, errX := filled(dev, dev.Size(device.Tensor{Shape: c.Spec.XShape()}))
	y, errY := filled(dev, dev.Size(device.Tensor{Shape: c.Spec.YShape()}))
	w, errW := filled(dev, dev.WeightsSize(c.Spec.WShape()))
	err = errors.Join(errX, errY, errW)
	switch c.Kind {
	case cpu.Transposed:
		return []device.Buffer{y, w}, x, err
	case cpu.Weights:
		return []device.Buffer{x, y}, w, err
	}
	return []device.Buffer{x, w}, y, err
}

// filled is a buffer of numbers around zero.
func filled(dev *cpu.CPU, bytes int64) (device.Buffer, error) {
	b, err := dev.Alloc(bytes)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, uint64(bytes/4)))
	values := make([]float32, bytes/4)
	for i := range values {
		values[i] = r.Float32() - 0.5
	}
	return b, dev.UploadPlain(b, 0, values)
}
