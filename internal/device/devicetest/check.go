package devicetest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// An operand is what a kernel reads or writes.
type operand struct {
	shape  device.Shape
	weight bool      // of a convolution: they have a layout of their own
	data   []float32 // what it holds before the run; nil: NaN, for outputs must be overwritten
	norm   float64   // the least that errors of an output are relative to: for sums that cancel
}

// tensor is what an operand is on a device: activations are of the device's type.
func (o operand) tensor(dev device.Device) device.Tensor {
	t := device.Tensor{Shape: o.shape}
	if len(o.shape) == 5 && !o.weight {
		t.Type = dev.Activations()
	}
	return t
}

// tensorOf is the tensor of an activation, or of a matrix, on a device.
func tensorOf(dev device.Device, s device.Shape) device.Tensor { return operand{shape: s}.tensor(dev) }

// size is the number of bytes that an operand takes on a device.
func (o operand) size(dev device.Device) int64 {
	if o.weight {
		return dev.WeightsSize(o.shape)
	}
	return dev.Size(o.tensor(dev))
}

// rounded are operands whose activations have values that the device can store: then the reference
// computes from the same numbers.
func rounded(dev device.Device, list []operand) []operand {
	if dev.Activations() != device.BFloat16 {
		return list
	}
	list = slices.Clone(list)
	for i, o := range list {
		if o.tensor(dev).Type != device.BFloat16 || o.data == nil {
			continue
		}
		list[i].data = make([]float32, len(o.data))
		for k, x := range o.data {
			list[i].data[k] = toBFloat16(x)
		}
	}
	return list
}

// toBFloat16 rounds to the nearest number with eight bits of significand, ties to even.
func toBFloat16(x float32) float32 {
	b := math.Float32bits(x)
	if x != x {
		return x
	}
	return math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff)
}

// A Rounder is a device whose arithmetic is coarser than float32. RelativeError is what its kernels
// may err by, relative L2, where the suite asks for less.
type Rounder interface{ RelativeError() float64 }

// allowed is a tolerance on a device. What must be exact stays so: copies round nothing.
func allowed(dev device.Device, tolerance float64) float64 {
	if r, ok := dev.(Rounder); ok && tolerance > 0 {
		return max(tolerance, r.RelativeError())
	}
	return tolerance
}

// A maker makes a kernel on a device.
type maker func(device.Device) (device.Kernel, error)

// random makes an operand of standard normal values.
func random(r *rand.Rand, shape ...int) operand {
	o := operand{shape: shape, data: make([]float32, device.Shape(shape).Elements())}
	for i := range o.data {
		o.data[i] = float32(r.NormFloat64())
	}
	return o
}

// positive makes an operand of values between 1/2 and 3/2: variances, scales.
func positive(r *rand.Rand, shape ...int) operand {
	o := random(r, shape...)
	for i := range o.data {
		o.data[i] = 0.5 + r.Float32()
	}
	return o
}

// whole makes an operand of random whole numbers low..n-1.
func whole(r *rand.Rand, low, n int, shape ...int) operand {
	o := random(r, shape...)
	for i := range o.data {
		o.data[i] = float32(low + r.IntN(n-low))
	}
	return o
}

// weights makes an operand of the weights of a convolution.
func weights(r *rand.Rand, shape ...int) operand {
	o := random(r, shape...)
	o.weight = true
	return o
}

func output(shape ...int) operand { return operand{shape: shape} }

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// alloc makes a buffer for an operand, with its data or NaN in it.
func alloc(t testing.TB, dev device.Device, o operand) device.Buffer {
	t.Helper()
	return allocIn(t, dev, o, o.size(dev))
}

// allocIn is alloc of so many bytes.
func allocIn(t testing.TB, dev device.Device, o operand, bytes int64) device.Buffer {
	t.Helper()
	bytes = (bytes + 3) / 4 * 4
	b, err := dev.Alloc(bytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Free(b) })
	switch {
	case o.data == nil: // every bit set is NaN in each type
		err = dev.UploadPlain(b, 0, slices.Repeat([]float32{math.Float32frombits(math.MaxUint32)}, int(bytes/4)))
	case o.weight:
		err = dev.UploadWeights(b, o.shape, 0, o.data)
	default:
		err = dev.Upload(b, o.tensor(dev), o.data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func download(t testing.TB, dev device.Device, b device.Buffer, o operand) []float32 {
	t.Helper()
	values := make([]float32, o.shape.Elements())
	var err error
	if o.weight {
		err = dev.DownloadWeights(values, b, o.shape, 0)
	} else {
		err = dev.Download(values, b, o.tensor(dev))
	}
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// A run is a kernel with its operands on a device.
type run struct {
	kernel  device.Kernel
	out, in []device.Buffer
	scratch device.Buffer
}

func prepare(t testing.TB, dev device.Device, make maker, out, in []operand) run {
	t.Helper()
	k, err := make(dev)
	if err != nil {
		t.Fatalf("making the kernel: %v", err)
	}
	// NaN: what was in scratch must not matter
	r := run{kernel: k, scratch: allocIn(t, dev, operand{}, k.Scratch())}
	for _, o := range out {
		r.out = append(r.out, alloc(t, dev, o))
	}
	for _, o := range in {
		r.in = append(r.in, alloc(t, dev, o))
	}
	return r
}

func (r run) run() { r.kernel.Run(r.out, r.in, r.scratch) }

// compare runs a kernel on the device and on the reference. Every operand, inputs too, must then
// agree to the tolerance (relative L2), every output must keep to the device's layout, and running
// must not allocate.
func compare(t *testing.T, dev device.Device, tolerance float64, make maker, out, in []operand) {
	t.Helper()
	reference := NewReference()
	out, in, tolerance = rounded(dev, out), rounded(dev, in), allowed(dev, tolerance)
	want, got := prepare(t, reference, make, out, in), prepare(t, dev, make, out, in)
	want.run()
	got.run()
	if err := dev.Sync(); err != nil {
		t.Fatal(err)
	}
	for i, o := range out {
		if err := relativeTo(o.norm, download(t, dev, got.out[i], o),
			download(t, reference, want.out[i], o)); !(err <= tolerance) {
			t.Errorf("output %d %v: relative error %.2g, want at most %.2g", i, []int(o.shape), err, tolerance)
		}
		checkPadding(t, dev, got.out[i], o)
	}
	for i, o := range in {
		if err := relativeL2(download(t, dev, got.in[i], o),
			download(t, reference, want.in[i], o)); !(err <= tolerance) {
			t.Errorf("input %d %v: relative error %.2g after the run, want at most %.2g", i, []int(o.shape), err,
				tolerance)
		}
	}
	_, naive := dev.(naive)
	if n := allocations(t, dev, got); n > 0 && !naive {
		t.Errorf("a run allocates %v times", n)
	}
}

// allocations is how often the host allocates in a run, on average: waking a goroutine makes the
// runtime allocate now and then. A device that records need not compute for that.
func allocations(t *testing.T, dev device.Device, r run) (n float64) {
	count := func() { n = testing.AllocsPerRun(4, r.run) }
	recorder, ok := dev.(device.Recorder)
	if !ok {
		count()
		return n
	}
	recording, err := recorder.Record(count)
	if err != nil {
		t.Fatal(err)
	}
	recording.Close()
	return n
}

// naive is a device whose kernels may allocate: one that is made of the reference.
type naive interface{ Naive() }

// inPlace checks that a kernel computes the same when results are written over operands: pairs of a
// result and an operand.
func inPlace(t *testing.T, dev device.Device, make maker, out, in []operand, over ...[2]int) {
	t.Helper()
	apart, together := prepare(t, dev, make, out, in), prepare(t, dev, make, out, in)
	for _, pair := range over {
		together.out[pair[0]] = together.in[pair[1]]
	}
	apart.run()
	together.run()
	for i, o := range out {
		if err := relativeL2(download(t, dev, together.out[i], o), download(t, dev, apart.out[i], o)); err != 0 {
			t.Errorf("output %d %v: relative error %.2g when results are written over operands: %v", i, []int(o.shape),
				err, over)
		}
	}
}

// checkPadding: what a kernel leaves must be what uploading the same values leaves, so that padding
// stays as the device's other kernels want it.
func checkPadding(t *testing.T, dev device.Device, b device.Buffer, o operand) {
	t.Helper()
	words := o.size(dev) / 4 // half a word at the end is nobody's
	raw, fresh := make([]float32, words), make([]float32, words)
	again := alloc(t, dev, operand{shape: o.shape, weight: o.weight, data: download(t, dev, b, o)})
	if err := dev.DownloadPlain(raw, b, 0); err != nil {
		t.Fatal(err)
	}
	if err := dev.DownloadPlain(fresh, again, 0); err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		if raw[i] != fresh[i] && (raw[i] == raw[i] || fresh[i] == fresh[i]) {
			t.Errorf("%v: element %d of the buffer is %v, after an upload of the same values %v", []int(o.shape), i,
				raw[i], fresh[i])
			return
		}
	}
}

// relativeL2 is |got - want| / |want|; the norm of got where want is zero. NaN agrees with NaN.
func relativeL2(got, want []float32) float64 { return relativeTo(0, got, want) }

// relativeTo is relativeL2 with at least the given norm.
func relativeTo(least float64, got, want []float32) float64 {
	var difference, norm float64
	for i := range want {
		g, w := float64(got[i]), float64(want[i])
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			g, w = 0, 0
		}
		difference += (g - w) * (g - w)
		norm += float64(want[i]) * float64(want[i])
	}
	norm = max(norm, least*least)
	if norm == 0 || math.IsNaN(norm) {
		norm = 1
	}
	return math.Sqrt(difference / norm)
}

// differentiable is a forward kernel of the reference with the backward kernel that claims to be
// its gradient.
type differentiable struct {
	forward  maker
	out, in  []operand
	backward maker
	// gradients makes the operands of the backward kernel from those of the forward one, after its
	// run, and dy. The gradients that it writes belong to the inputs wrt.
	gradients func(out, in []values, dy values) (grads, operands []values)
	wrt       []int
}

// check compares the gradients of sum(dy y), y the first output, with central differences. They are
// in float64: with a step of 1e-5 their error is of the order of 1e-9 for smooth functions.
func (d differentiable) check(t *testing.T) {
	t.Helper()
	const step, tolerance = 1e-5, 1e-6
	reference := NewReference()
	f := prepare(t, reference, d.forward, d.out, d.in)
	f.run()
	r := newRand(7)
	dy := make(values, len(f.out[0].(values)))
	for i := range dy {
		dy[i] = r.NormFloat64()
	}
	b, err := d.backward(reference)
	if err != nil {
		t.Fatal(err)
	}
	grads, operands := d.gradients(ofBuffers(f.out), ofBuffers(f.in), dy)
	b.(kernel)(grads, operands)
	objective := func() float64 {
		f.run()
		sum := 0.0
		for i, y := range f.out[0].(values) {
			sum += dy[i] * y
		}
		return sum
	}
	for g, input := range d.wrt {
		x := f.in[input].(values)
		var difference, norm float64
		for i := range x {
			before := x[i]
			x[i] = before + step
			up := objective()
			x[i] = before - step
			down := objective()
			x[i] = before
			slope := (up - down) / (2 * step)
			difference += (slope - grads[g][i]) * (slope - grads[g][i])
			norm += slope * slope
		}
		if err := math.Sqrt(difference / (norm + 1e-6)); !(err <= tolerance) {
			t.Errorf("gradient by input %d %v: relative distance from central differences %.2g, want at most %.2g",
				input, []int(d.in[input].shape), err, tolerance)
		}
	}
}

// refuses checks that a device answers a spec that makes no sense with an error.
func refuses(t *testing.T, dev device.Device, make maker) {
	t.Helper()
	if _, err := make(dev); err == nil {
		t.Error("a spec that makes no sense was accepted")
	}
}
