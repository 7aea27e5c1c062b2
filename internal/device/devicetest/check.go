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

// size is the number of elements that an operand takes on a device.
func (o operand) size(dev device.Device) int {
	if o.weight {
		return dev.WeightsSize(o.shape)
	}
	return dev.Size(o.shape)
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
	n := o.size(dev)
	b, err := dev.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case o.data == nil:
		err = dev.UploadPlain(b, 0, slices.Repeat([]float32{float32(math.NaN())}, n))
	case o.weight:
		err = dev.UploadWeights(b, o.shape, 0, o.data)
	default:
		err = dev.Upload(b, o.shape, o.data)
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
		err = dev.Download(values, b, o.shape)
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
	r := run{kernel: k, scratch: alloc(t, dev, output(k.Scratch()))}
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
	want, got := prepare(t, reference, make, out, in), prepare(t, dev, make, out, in)
	want.run()
	got.run()
	if err := dev.Sync(); err != nil {
		t.Fatal(err)
	}
	for i, o := range out {
		if err := relativeTo(o.norm, download(t, dev, got.out[i], o), download(t, reference, want.out[i], o)); !(err <= tolerance) {
			t.Errorf("output %d %v: relative error %.2g, want at most %.2g", i, []int(o.shape), err, tolerance)
		}
		checkPadding(t, dev, got.out[i], o)
	}
	for i, o := range in {
		if err := relativeL2(download(t, dev, got.in[i], o), download(t, reference, want.in[i], o)); !(err <= tolerance) {
			t.Errorf("input %d %v: relative error %.2g after the run, want at most %.2g", i, []int(o.shape), err, tolerance)
		}
	}
	// the average: waking a goroutine makes the runtime allocate now and then
	if n := testing.AllocsPerRun(4, got.run); n > 0 {
		t.Errorf("a run allocates %v times", n)
	}
}

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
			t.Errorf("output %d %v: relative error %.2g when results are written over operands: %v", i, []int(o.shape), err, over)
		}
	}
}

// checkPadding: what a kernel leaves must be what uploading the same values leaves, so that padding
// stays as the device's other kernels want it.
func checkPadding(t *testing.T, dev device.Device, b device.Buffer, o operand) {
	t.Helper()
	raw, fresh := make([]float32, b.Len()), make([]float32, b.Len())
	again := alloc(t, dev, operand{shape: o.shape, weight: o.weight, data: download(t, dev, b, o)})
	if err := dev.DownloadPlain(raw, b, 0); err != nil {
		t.Fatal(err)
	}
	if err := dev.DownloadPlain(fresh, again, 0); err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		if raw[i] != fresh[i] && (raw[i] == raw[i] || fresh[i] == fresh[i]) {
			t.Errorf("%v: element %d of the buffer is %v, after an upload of the same values %v", []int(o.shape), i, raw[i], fresh[i])
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
	dy := make(values, f.out[0].Len())
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
			t.Errorf("gradient by input %d %v: relative distance from central differences %.2g, want at most %.2g", input, []int(d.in[input].shape), err, tolerance)
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
