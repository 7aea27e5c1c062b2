// Package tuning measures which algorithm computes each convolution of a network fastest on this
// machine, and keeps the answer in a file.
//
// Start at [Convolutions], which finds out what a network asks of a device, and [Measure]. Without
// a measurement the device chooses by the shape, which knows no particular machine. Another
// algorithm rounds differently: so nothing here happens on its own, and who trains with choices
// records them.
package tuning

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/voxsaw/voxsaw/internal/device"
)

// A Convolution is one of the kernels of a network.
type Convolution struct {
	Spec device.ConvSpec
	Kind device.ConvKind
}

// Key names it in choices.
func (c Convolution) Key() string { return device.ChoiceKey(c.Spec, c.Kind) }

// Convolutions lists the different convolutions that build asks its device for, in the order in
// which it does. The device takes no memory and computes nothing.
func Convolutions(dev device.Device, build func(device.Device) error) ([]Convolution, error) {
	r := &recorder{Device: dev}
	if err := build(r); err != nil {
		return nil, err
	}
	return r.asked, nil
}

// recorder is a device that only notes which convolutions it is asked for.
type recorder struct {
	device.Device
	asked []Convolution
}

// ghost is a buffer without memory.
type ghost int64

// Bytes implements [device.Buffer].
func (g ghost) Bytes() int64 { return int64(g) }

func (r *recorder) note(s device.ConvSpec, kind device.ConvKind) {
	if kind == device.ConvWeights {
		s.Bias = false // nothing of it is computed
	}
	c := Convolution{s, kind}
	if !slices.ContainsFunc(r.asked, func(a Convolution) bool { return a.Key() == c.Key() }) {
		r.asked = append(r.asked, c)
	}
}

func (r *recorder) Alloc(bytes int64) (device.Buffer, error)                          { return ghost(bytes), nil }
func (r *recorder) Free(device.Buffer)                                                {}
func (r *recorder) View(_ device.Buffer, _, bytes int64) device.Buffer                { return ghost(bytes) }
func (r *recorder) Upload(device.Buffer, device.Tensor, []float32) error              { return nil }
func (r *recorder) Download([]float32, device.Buffer, device.Tensor) error            { return nil }
func (r *recorder) UploadPlain(device.Buffer, int, []float32) error                   { return nil }
func (r *recorder) DownloadPlain([]float32, device.Buffer, int) error                 { return nil }
func (r *recorder) UploadWeights(device.Buffer, device.Shape, int, []float32) error   { return nil }
func (r *recorder) DownloadWeights([]float32, device.Buffer, device.Shape, int) error { return nil }
func (r *recorder) Conv(s device.ConvSpec) (device.Kernel, error) {
	r.note(s, device.ConvForward)
	return r.Device.Conv(s)
}
func (r *recorder) ConvTransposed(s device.ConvSpec) (device.Kernel, error) {
	r.note(s, device.ConvTransposed)
	return r.Device.ConvTransposed(s)
}
func (r *recorder) ConvGradWeights(s device.ConvSpec) (device.Kernel, error) {
	r.note(s, device.ConvWeights)
	return r.Device.ConvGradWeights(s)
}

// A Choice is what was measured for a convolution.
type Choice struct {
	Convolution
	Algorithm string
	Time      time.Duration // of a run, the fastest of several
	Model     string        // what the device takes without a choice
	ModelTime time.Duration
}

// margin is by how much a measured algorithm must be faster than the model's to overrule it: less
// is noise.
const margin = 0.97

// Measure times the algorithms for a convolution on the device, which was made with the map
// choices. The map is left as it was.
func Measure(dev device.Chooser, choices map[string]string, c Convolution) (Choice, error) {
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
	kernels, times := make([]device.Kernel, len(names)), make([]time.Duration, len(names))
	for i, name := range names {
		choices[key] = name
		if kernels[i], err = c.kernel(dev); err != nil {
			return out, err
		}
	}
	b, err := c.bench(dev, kernels...)
	if err != nil {
		return out, err
	}
	defer b.close()
	// In turns, so that a slow minute of the machine hits all of them. The first one does not
	// count; those that are far behind leave the race.
	best := forever
	for i, k := range kernels {
		if times[i], err = b.once(k); err != nil {
			return out, err
		}
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
			d, err := b.once(k)
			if err != nil {
				return out, err
			}
			if round == 0 || d < times[i] {
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

// Time is how long the kernel for a convolution takes on a device: the fastest run of several.
func Time(dev device.Device, c Convolution) (time.Duration, error) {
	k, err := c.kernel(dev)
	if err != nil {
		return 0, err
	}
	b, err := c.bench(dev, k)
	if err != nil {
		return 0, err
	}
	defer b.close()
	if _, err := b.once(k); err != nil {
		return 0, err
	}
	best := forever
	for start, round := time.Now(), 0; round < fewRounds || round < 5*rounds && time.Since(start) < enough; round++ {
		d, err := b.once(k)
		if err != nil {
			return 0, err
		}
		best = min(best, d)
	}
	return best, nil
}

// kernel makes the kernel.
func (c Convolution) kernel(dev device.Device) (device.Kernel, error) {
	switch c.Kind {
	case device.ConvTransposed:
		return dev.ConvTransposed(c.Spec)
	case device.ConvWeights:
		return dev.ConvGradWeights(c.Spec)
	}
	return dev.Conv(c.Spec)
}

// A bench is where kernels of a convolution run.
type bench struct {
	dev     device.Device
	in      []device.Buffer
	out     device.Buffer
	scratch device.Buffer
}

// bench has room for any one of the kernels.
func (c Convolution) bench(dev device.Device, kernels ...device.Kernel) (*bench, error) {
	b := &bench{dev: dev}
	scratch := int64(0)
	for _, k := range kernels {
		scratch = max(scratch, k.Scratch())
	}
	err := b.operands(c)
	if err == nil {
		b.scratch, err = dev.Alloc(scratch)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	if h, ok := dev.(device.HostMemory); ok {
		clear(h.Host(b.scratch)) // memory that nobody has touched yet is slow the first time
	}
	return b, nil
}

// operands are what the kernel reads, and where it writes.
func (b *bench) operands(c Convolution) error {
	x, errX := b.activations(device.Tensor{Shape: c.Spec.XShape(), Type: c.Spec.Type})
	y, errY := b.activations(device.Tensor{Shape: c.Spec.YShape(), Type: c.Spec.Type})
	w, errW := b.weights(c.Spec.WShape())
	err := errors.Join(errX, errY, errW)
	channels := c.Spec.Out
	switch c.Kind {
	case device.ConvTransposed:
		b.in, b.out, channels = []device.Buffer{y, w}, x, c.Spec.In
	case device.ConvWeights:
		b.in, b.out = []device.Buffer{x, y}, w
		return err
	default:
		b.in, b.out = []device.Buffer{x, w}, y
	}
	if c.Spec.Bias && err == nil {
		var bias device.Buffer
		if bias, err = b.activations(device.Tensor{Shape: device.Shape{channels}}); err == nil {
			b.in = append(b.in, bias)
		}
	}
	return err
}

// random are numbers around zero.
func random(n int) []float32 {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	values := make([]float32, n)
	for i := range values {
		values[i] = r.Float32() - 0.5
	}
	return values
}

// activations is a tensor of random numbers.
func (b *bench) activations(t device.Tensor) (device.Buffer, error) {
	to, err := b.dev.Alloc(b.dev.Size(t))
	if err != nil {
		return nil, err
	}
	return to, b.dev.Upload(to, t, random(t.Shape.Elements()))
}

func (b *bench) weights(s device.Shape) (device.Buffer, error) {
	to, err := b.dev.Alloc(b.dev.WeightsSize(s))
	if err != nil {
		return nil, err
	}
	return to, b.dev.UploadWeights(to, s, 0, random(s.Elements()))
}

// once times a run: by the device's own clock, where it has one.
func (b *bench) once(k device.Kernel) (time.Duration, error) {
	start := func() { k.Run([]device.Buffer{b.out}, b.in, b.dev.View(b.scratch, 0, k.Scratch())) }
	if t, ok := b.dev.(device.Timer); ok {
		seconds, err := t.Time(start)
		return time.Duration(seconds * float64(time.Second)), err
	}
	before := time.Now()
	start()
	return time.Since(before), nil
}

// close gives the memory back.
func (b *bench) close() {
	for _, m := range append(b.in, b.out, b.scratch) {
		if m != nil {
			b.dev.Free(m)
		}
	}
}
