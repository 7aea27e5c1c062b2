package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/turns"
)

// All runs the whole suite on a device.
func All(t *testing.T, dev device.Device) {
	type family struct {
		name string
		test func(*testing.T, device.Device)
	}
	families := []family{
		{"Memory", Memory}, {"Weights", Weights}, {"Conv", Conv}, {"Activate", Activate}, {"Elementwise", Elementwise},
		{"Concat", Concat}, {"Reshape", Reshape}, {"Pool", Pool},
		{"MatMul", MatMul}, {"Softmax", Softmax}, {"Loss", Loss}, {"Rows", Rows}, {"Tokens", Tokens}, {"Merge", Merge},
		{"Images", Images}, {"Optimiser", Optimiser},
	}
	if _, ok := dev.(device.Blender); ok {
		families = append(families, family{"Blend", Blend})
	}
	for _, family := range families {
		t.Run(family.name, func(t *testing.T) { family.test(t, dev) })
	}
}

// shapes are activations of every kind of channel count (one; part of a block; whole blocks; more
// than a block) and odd sizes; the last ones are of more than one piece of work.
var shapes = []device.Shape{
	{1, 1, 3, 5, 7}, {2, 1, 17, 19, 61}, {2, 2, 4, 4, 4}, {1, 3, 5, 3, 1}, {3, 8, 3, 3, 3}, {2, 16, 3, 4, 5},
	{1, 17, 2, 3, 5}, {2, 32, 4, 4, 4}, {1, 48, 1, 1, 1},
	{2, 24, 11, 13, 9}, {1, 16, 13, 14, 15},
}

var matrices = []device.Shape{{1, 1}, {3, 5}, {27, 32}}

// Memory checks allocation, views, uploads and downloads.
func Memory(t *testing.T, dev device.Device) {
	r := newRand(1)
	for _, shape := range append(shapes, matrices...) {
		x := rounded(dev, []operand{random(r, shape...)})[0]
		b := alloc(t, dev, x)
		if err := relativeL2(download(t, dev, b, x), x.data); err != 0 {
			t.Errorf("%v: up and down again: relative error %g", []int(shape), err)
		}
		if dev.Upload(b, x.tensor(dev), x.data[1:]) == nil || dev.Download(x.data[1:], b, x.tensor(dev)) == nil {
			t.Errorf("%v: copying one element too few was accepted", []int(shape))
		}
	}
	b := alloc(t, dev, random(r, int(dev.Alignment())))
	if err := dev.UploadPlain(dev.View(b, 2*dev.Alignment(), 64), 4, []float32{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 3)
	if err := dev.DownloadPlain(got, b, int(dev.Alignment()/2)+4); err != nil || got[0] != 1 || got[2] != 3 {
		t.Errorf("a write to a view: %v, %v in the buffer", got, err)
	}
	if last := int(dev.Alignment()) - 2; dev.UploadPlain(b, last, got) == nil ||
		dev.DownloadPlain(got, b, last) == nil {
		t.Error("copying past a buffer's end was accepted")
	}
	zeros, err := dev.Alloc(20)
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.DownloadPlain(got, zeros, 2); err != nil || got[0] != 0 || got[2] != 0 {
		t.Errorf("fresh memory: %v, %v", got, err)
	}
	if _, err := dev.Alloc(-4); err == nil {
		t.Error("allocating -4 bytes was accepted")
	}
	if dev.Name() == "" || dev.Describe() == "" {
		t.Error("the device has no name or description")
	}
}

// Weights checks that parameters of any rank go up and down again, whole and in pieces, and that
// what a layout adds to them is zero.
func Weights(t *testing.T, dev device.Device) {
	r := newRand(2)
	for _, shape := range []device.Shape{{}, {5}, {3, 40}, {1, 1, 1, 1, 1}, {16, 1, 5, 5, 5}, {2, 32, 1, 1, 1},
		{40, 17, 3, 2, 1}, {33, 8, 2, 2, 2}} {
		w := weights(r, shape...)
		b := alloc(t, dev, w)
		if err := relativeL2(download(t, dev, b, w), w.data); err != 0 {
			t.Errorf("%v: up and down again: relative error %g", []int(shape), err)
		}
		raw := make([]float32, dev.WeightsSize(shape)/4)
		if err := dev.DownloadPlain(raw, b, 0); err != nil {
			t.Fatal(err)
		}
		values := 0
		for _, x := range raw {
			if x != 0 {
				values++
			}
		}
		if values != shape.Elements() { // no value drawn from a normal distribution is zero
			t.Errorf("%v: %d elements that are not zero, want %d", []int(shape), values, shape.Elements())
		}

		pieces, got := alloc(t, dev, operand{shape: shape, weight: true}), make([]float32, len(w.data))
		for row := 0; row < shape.Rows(); row += device.RowBlock {
			from, to := row*shape.Row(), min(row+device.RowBlock, shape.Rows())*shape.Row()
			if err := dev.UploadWeights(pieces, shape, row, w.data[from:to]); err != nil {
				t.Fatal(err)
			}
			if err := dev.DownloadWeights(got[from:to], pieces, shape, row); err != nil {
				t.Fatal(err)
			}
		}
		if err := relativeL2(got, w.data); err != 0 {
			t.Errorf("%v: up and down again in pieces: relative error %g", []int(shape), err)
		}
		checkPadding(t, dev, pieces, w)
	}
	shape := device.Shape{40, 2, 1, 1, 1}
	w := weights(r, shape...)
	b := alloc(t, dev, w)
	for _, piece := range []struct{ row, elements int }{{0, 3}, {0, 20}, {8, 32}, {-16, 32}, {32, 32}, {48, 0}} {
		if dev.UploadWeights(b, shape, piece.row, w.data[:piece.elements]) == nil ||
			dev.DownloadWeights(w.data[:piece.elements], b, shape, piece.row) == nil {
			t.Errorf("moving %d elements from row %d of %v was accepted", piece.elements, piece.row, []int(shape))
		}
	}
}

// Tolerances of the device against float64, relative L2. Sums of float32 of some thousand terms err
// by some 1e-7; a fast algorithm for convolutions by what the second one allows.
const (
	tight          = 2e-6
	convTolerance  = 6e-5
	lossyTolerance = 2e-5 // differences of sums of many terms: gradients through a norm
)

// Turn is a number that changes with what is tested, VOXSAW_TEST_TURN: where the cases are too many
// for every run, a test takes those of its turn. With VOXSAW_TEST_LONG=1 it takes all.
func Turn(t testing.TB) int {
	t.Helper()
	n, _ := turns.Number(t, "VOXSAW_TEST_TURN")
	return n
}

// InTurn says whether the nth part of several has its turn.
func InTurn(t testing.TB, n, parts int) bool {
	t.Helper()
	return os.Getenv("VOXSAW_TEST_LONG") != "" || n%parts == Turn(t)%parts
}

// A Chooser is a device that says which of the convolutions that cost most it takes, by their
// number. Others take every fourth, by turns.
type Chooser interface{ Takes(i int) bool }

// manyProducts are those of a convolution that costs much: a dozen of the suite's do, and most of
// its time is theirs. Each kind of convolution has smaller ones, with odd sizes.
const manyProducts = 10e6

// products are those of a convolution, with what lies outside of the image.
func products(s device.ConvSpec) int {
	return s.YShape().Elements() * s.OfGroup().In * s.Kernel[0] * s.Kernel[1] * s.Kernel[2]
}

// Conv checks the three convolutions.
func Conv(t *testing.T, dev device.Device) {
	cube := func(n int) [3]int { return [3]int{n, n, n} }
	specs := []device.ConvSpec{
		{N: 1, In: 1, Out: 1, Size: cube(4), Kernel: cube(1), Stride: cube(1)},
		{N: 2, In: 1, Out: 16, Size: [3]int{7, 6, 9}, Kernel: cube(5), Stride: cube(1), Pad: cube(2), Bias: true},
		{N: 1, In: 1, Out: 3, Size: [3]int{5, 6, 5}, Kernel: cube(3), Stride: cube(1), Pad: cube(1), Bias: true},
		{N: 1, In: 2, Out: 3, Size: [3]int{5, 7, 6}, Kernel: cube(3), Stride: cube(1), Pad: cube(1)},
		{N: 2, In: 8, Out: 8, Size: [3]int{6, 5, 7}, Kernel: cube(5), Stride: cube(1), Pad: cube(2), Bias: true},
		{N: 1, In: 16, Out: 16, Size: cube(12), Kernel: cube(5), Stride: cube(1), Pad: cube(2), Bias: true},
		{N: 3, In: 16, Out: 32, Size: cube(2), Kernel: cube(5), Stride: cube(1), Pad: cube(2)},
		{N: 2, In: 32, Out: 16, Size: cube(4), Kernel: cube(5), Stride: cube(1), Pad: cube(2), Bias: true},
		{N: 1, In: 17, Out: 33, Size: [3]int{5, 4, 6}, Kernel: cube(5), Stride: cube(1), Pad: cube(2), Bias: true},
		{N: 1, In: 48, Out: 17, Size: [3]int{3, 9, 5}, Kernel: cube(3), Stride: cube(1), Pad: cube(1)},
		{N: 2, In: 32, Out: 32, Size: [3]int{9, 8, 7}, Kernel: cube(3), Stride: cube(1), Pad: cube(1), Bias: true},
		{N: 1, In: 32, Out: 32, Size: [3]int{2, 9, 18}, Kernel: cube(5), Stride: cube(1), Pad: cube(2)},
		{N: 2, In: 64, Out: 32, Size: [3]int{3, 6, 7}, Kernel: cube(3), Stride: cube(1), Pad: cube(1)},
		{N: 1, In: 32, Out: 32, Size: [3]int{2, 20, 40}, Kernel: cube(3), Stride: cube(1), Pad: cube(1)},
		{N: 9, In: 32, Out: 64, Size: cube(4), Kernel: cube(5), Stride: cube(1), Pad: cube(2), Bias: true},
		// several small images together, as many as fill a tile of their planes or fewer
		{N: 5, In: 32, Out: 32, Size: cube(4), Kernel: cube(5), Stride: cube(1), Pad: cube(2)},
		{N: 9, In: 32, Out: 32, Size: cube(2), Kernel: cube(5), Stride: cube(1), Pad: cube(2)},
		{N: 6, In: 64, Out: 32, Size: cube(3), Kernel: cube(3), Stride: cube(1), Pad: cube(1)},
		{N: 3, In: 32, Out: 64, Size: [3]int{5, 4, 3}, Kernel: cube(5), Stride: cube(1), Pad: cube(2)},
		{N: 1, In: 32, Out: 32, Size: [3]int{8, 9, 5}, Kernel: cube(5), Stride: cube(1), Pad: cube(2)},
		{N: 1, In: 32, Out: 32, Size: [3]int{8, 5, 17}, Kernel: cube(5), Stride: cube(1), Pad: cube(2)},
		{N: 1, In: 32, Out: 32, Size: [3]int{8, 13, 18}, Kernel: cube(3), Stride: cube(1), Pad: cube(1)},
		{N: 1, In: 1, Out: 32, Size: [3]int{9, 5, 18}, Kernel: cube(5), Stride: cube(1), Pad: cube(2)},
		{N: 1, In: 1, Out: 20, Size: [3]int{5, 33, 8}, Kernel: cube(5), Stride: cube(1), Pad: cube(2), Bias: true},
		{N: 2, In: 1, Out: 6, Size: [3]int{2, 3, 7}, Kernel: cube(5), Stride: cube(1), Pad: cube(2)},
		{N: 2, In: 16, Out: 32, Size: [3]int{6, 8, 4}, Kernel: cube(2), Stride: cube(2), Bias: true},
		{N: 1, In: 8, Out: 3, Size: [3]int{7, 5, 6}, Kernel: cube(2), Stride: cube(2), Bias: true},
		{N: 1, In: 32, Out: 2, Size: [3]int{5, 6, 7}, Kernel: cube(1), Stride: cube(1), Bias: true},
		{N: 1, In: 32, Out: 1, Size: [3]int{5, 6, 7}, Kernel: cube(1), Stride: cube(1), Bias: true},
		{N: 1, In: 3, Out: 16, Size: [3]int{1, 13, 11}, Kernel: [3]int{1, 7, 7}, Stride: [3]int{1, 2, 2},
			Pad: [3]int{0, 3, 3}, Bias: true},
		{N: 2, In: 3, Out: 20, Size: [3]int{1, 15, 14}, Kernel: [3]int{1, 11, 11}, Stride: [3]int{1, 2, 2}},
		{N: 20, In: 40, Out: 33, Size: [3]int{1, 2, 2}, Kernel: cube(1), Stride: cube(1), Bias: true},
		{N: 3, In: 18, Out: 32, Size: [3]int{1, 9, 8}, Kernel: cube(1), Stride: cube(1)},
		{N: 3, In: 32, Out: 40, Size: [3]int{1, 5, 4}, Kernel: cube(1), Stride: [3]int{1, 2, 2}, Bias: true},
		{N: 2, In: 5, Out: 7, Size: [3]int{6, 9, 5}, Kernel: [3]int{3, 4, 2}, Stride: [3]int{2, 3, 1},
			Pad: [3]int{1, 0, 1}, Bias: true},
		{N: 1, In: 16, Out: 16, Size: [3]int{5, 7, 9}, Kernel: cube(3), Stride: cube(2), Pad: cube(1)},
		// taps that do not overlap
		{N: 3, In: 24, Out: 20, Size: [3]int{8, 12, 10}, Kernel: cube(2), Stride: cube(2), Bias: true},
		{N: 2, In: 16, Out: 48, Size: [3]int{6, 8, 12}, Kernel: cube(2), Stride: cube(2)},
		{N: 1, In: 3, Out: 16, Size: cube(4), Kernel: cube(2), Stride: cube(2), Bias: true},
		{N: 3, In: 8, Out: 16, Size: [3]int{1, 12, 16}, Kernel: [3]int{1, 2, 2}, Stride: [3]int{1, 2, 2}, Bias: true},
		{N: 2, In: 8, Out: 8, Size: [3]int{6, 6, 8}, Kernel: [3]int{3, 2, 4}, Stride: [3]int{3, 2, 4}},
		{N: 2, In: 32, Out: 9, Size: [3]int{6, 7, 9}, Kernel: cube(1), Stride: cube(1), Bias: true},
		{N: 1, In: 40, Out: 16, Size: [3]int{5, 8, 9}, Kernel: cube(1), Stride: cube(1)},
		// rows that go to the tensor cores directly: one piece and several, two groups, odd sizes,
		// several units
		{N: 3, In: 16, Out: 32, Size: [3]int{10, 8, 16}, Kernel: cube(2), Stride: cube(2), Bias: true},
		{N: 2, In: 16, Out: 64, Size: [3]int{7, 9, 5}, Kernel: cube(2), Stride: cube(2)},
		{N: 2, In: 16, Out: 32, Size: [3]int{22, 20, 24}, Kernel: cube(2), Stride: cube(2), Bias: true},
		{N: 1, In: 32, Out: 32, Size: [3]int{13, 16, 16}, Kernel: cube(1), Stride: cube(1)},
		{N: 2, In: 32, Out: 64, Size: [3]int{6, 8, 10}, Kernel: cube(2), Stride: cube(2), Bias: true},
		{N: 2, In: 32, Out: 128, Size: [3]int{8, 4, 6}, Kernel: cube(2), Stride: cube(2), Bias: true},
		{N: 1, In: 64, Out: 32, Size: [3]int{3, 7, 8}, Kernel: cube(1), Stride: cube(1), Bias: true},
		{N: 3, In: 32, Out: 32, Size: [3]int{5, 7, 8}, Kernel: cube(1), Stride: cube(1)},
		{N: 1, In: 32, Out: 2, Size: [3]int{9, 16, 17}, Kernel: cube(1), Stride: cube(1), Bias: true},
		{N: 2, In: 32, Out: 4, Size: [3]int{9, 6, 7}, Kernel: cube(1), Stride: cube(1), Bias: true},
		// many parts of its weights
		{N: 1, In: 8, Out: 3, Size: [3]int{31, 16, 18}, Kernel: cube(1), Stride: cube(1)},
		// taps that reach no voxel
		{N: 2, In: 16, Out: 24, Size: [3]int{1, 2, 6}, Kernel: cube(5), Stride: cube(1), Pad: cube(2), Bias: true},
		{N: 3, In: 16, Out: 16, Size: cube(1), Kernel: cube(5), Stride: cube(1), Pad: cube(2)},
		{N: 1, In: 6, Out: 8, Size: [3]int{2, 1, 3}, Kernel: [3]int{5, 4, 3}, Stride: [3]int{2, 1, 3},
			Pad: [3]int{2, 2, 1}, Bias: true},
	}
	takes := func(i int) bool { return InTurn(t, i, 4) }
	if c, ok := dev.(Chooser); ok {
		takes = c.Takes
	}
	for i, s := range specs {
		s.Type = dev.Activations()
		if products(s) >= manyProducts && !takes(i) {
			continue
		}
		t.Run(fmt.Sprintf("%dx%d-%d@%v/%v:%v", s.N, s.In, s.Out, s.Size, s.Kernel, s.Stride), func(t *testing.T) {
			r := newRand(uint64(i))
			x, y := random(r, s.XShape()...), random(r, s.YShape()...)
			w := weights(r, s.WShape()...)
			in := []operand{x, w}
			transposed := []operand{y, w}
			if s.Bias {
				in, transposed = append(in, random(r, s.Out)), append(transposed, random(r, s.In))
			}
			forward := func(d device.Device) (device.Kernel, error) { return d.Conv(s) }
			adjoint := func(d device.Device) (device.Kernel, error) { return d.ConvTransposed(s) }
			byWeights := func(d device.Device) (device.Kernel, error) { return d.ConvGradWeights(s) }
			compare(t, dev, convTolerance, forward, []operand{output(s.YShape()...)}, in)
			compare(t, dev, convTolerance, adjoint, []operand{output(s.XShape()...)}, transposed)
			compare(t, dev, convTolerance, byWeights, []operand{{shape: s.WShape(), weight: true}}, []operand{x, y})
			gradWeightsSGD(t, dev, s, x, y, w)
		})
	}
	t.Run("gradients", func(t *testing.T) {
		s := device.ConvSpec{N: 2, In: 2, Out: 3, Size: [3]int{3, 4, 3}, Kernel: [3]int{3, 2, 3},
			Stride: [3]int{1, 2, 2}, Pad: [3]int{1, 0, 2}, Bias: true}
		plain := s
		plain.Bias = false
		r := newRand(9)
		d := differentiable{
			forward: func(d device.Device) (device.Kernel, error) { return d.Conv(s) },
			out:     []operand{output(s.YShape()...)},
			in:      []operand{random(r, s.XShape()...), weights(r, s.WShape()...), random(r, s.Out)},
		}
		d.backward = func(d device.Device) (device.Kernel, error) { return d.ConvTransposed(plain) }
		d.wrt = []int{0}
		d.gradients = func(out, in []values, dy values) (grads, operands []values) {
			return []values{like(in[0])}, []values{dy, in[1]}
		}
		d.check(t)
		d.backward = func(d device.Device) (device.Kernel, error) { return d.ConvGradWeights(plain) }
		d.wrt = []int{1}
		d.gradients = func(out, in []values, dy values) (grads, operands []values) {
			return []values{like(in[1])}, []values{in[0], dy}
		}
		d.check(t)
		d.backward = func(d device.Device) (device.Kernel, error) {
			return d.SumChannels(device.Tensor{Shape: s.YShape()})
		}
		d.wrt = []int{2}
		d.gradients = func(out, in []values, dy values) (grads, operands []values) {
			return []values{like(in[2])}, []values{dy}
		}
		d.check(t)
	})
	refuses(t, dev, func(d device.Device) (device.Kernel, error) { return d.Conv(device.ConvSpec{}) })
	if stepper, ok := dev.(device.WeightStepper); ok {
		refuses(t, dev,
			func(device.Device) (device.Kernel, error) { return stepper.ConvGradWeightsSGD(device.ConvSpec{}) })
	}
}

// gradWeightsSGD compares a step with the reference, and to the bit with the device's own gradient
// and step, where the device has such a kernel.
func gradWeightsSGD(t *testing.T, dev device.Device, s device.ConvSpec, x, dy, w operand) {
	t.Helper()
	if _, ok := dev.(device.WeightStepper); !ok {
		return
	}
	velocity, hyper := weights(newRand(8), s.WShape()...), operand{shape: device.Shape{4},
		data: []float32{0.01, 0.9, 1e-2, 0.5}}
	fused := func(d device.Device) (device.Kernel, error) { return d.(device.WeightStepper).ConvGradWeightsSGD(s) }
	gradient := func(d device.Device) (device.Kernel, error) { return d.ConvGradWeights(s) }
	sgd := func(d device.Device) (device.Kernel, error) { return d.SGD(int(dev.WeightsSize(s.WShape()) / 4)) }
	out, in := []operand{w, velocity, output()}, []operand{x, dy, hyper}
	compare(t, dev, convTolerance, fused, out, in)

	together, first := prepare(t, dev, fused, out, in), prepare(t, dev, gradient,
		[]operand{{shape: s.WShape(), weight: true}}, in[:2])
	then := prepare(t, dev, sgd, out[:2], []operand{{shape: s.WShape(), weight: true}, hyper})
	then.in[0] = first.out[0]
	together.run()
	first.run()
	then.run()
	for i, o := range out[:2] {
		if !slices.Equal(download(t, dev, together.out[i], o), download(t, dev, then.out[i], o)) {
			t.Errorf("output %d of a gradient with its step %v: differs from one after the other", i, []int(o.shape))
		}
	}
}

func like(v values) values { return make(values, len(v)) }

// Activate checks normalisation, residual and activation in all their combinations.
func Activate(t *testing.T, dev device.Device) {
	for i, shape := range append(shapes, matrices...) {
		for norm := device.NoNorm; norm <= device.GroupNorm; norm++ {
			if norm != device.NoNorm && len(shape) == 2 {
				continue
			}
			for act := device.Identity; act <= device.ELU; act++ {
				for residual := device.NoResidual; residual <= device.TiledResidual; residual++ {
					s := device.ActivateSpec{Shape: shape, Norm: norm, Groups: groupsOf(shape[1]), Epsilon: 1e-5,
						Momentum: 0.1, Training: true, Act: act, Residual: residual}
					if norm != device.NoNorm && shape.Voxels() < 4 {
						continue // hardly a variance: gradients are differences of large numbers
					}
					if i != 0 && i != 5 && (i+int(norm)+int(act)+int(residual))%3 != 0 {
						// a third of the combinations is enough for most shapes, not the same for
						// all
						continue
					}
					t.Run(fmt.Sprintf("%v norm %d act %d residual %d", []int(shape), norm, act, residual),
						func(t *testing.T) { activate(t, dev, s) })
				}
			}
		}
	}
	t.Run("running statistics", func(t *testing.T) {
		activate(t, dev, device.ActivateSpec{Shape: device.Shape{2, 17, 3, 4, 5}, Norm: device.BatchNorm, Epsilon: 1e-5,
			Act: device.PReLU, Residual: device.FullResidual})
	})
	t.Run("far from zero", func(t *testing.T) {
		s := device.ActivateSpec{Shape: device.Shape{1, 16, 13, 14, 15}, Norm: device.InstanceNorm, Epsilon: 1e-5,
			Type: dev.Activations()}
		in := activateOperandsOf(newRand(3), s)
		for i := range in[0].data {
			in[0].data[i] = 1000 + in[0].data[i]
		}
		// float32 at 1000 has steps of 6e-5: the mean among the statistics is right to half of
		// that, and so is the result.
		compare(t, dev, 5e-5, forwardOf(s), []operand{output(s.Shape...), output(s.StatisticsShape()...)}, in)
	})
	t.Run("many images", func(t *testing.T) {
		// small ones, and some whose channels are shared out among blocks; residuals whose channels
		// are of several owners
		for i, shape := range []device.Shape{{5, 64, 3, 3, 3}, {3, 128, 5, 8, 8}, {4, 2056, 2, 2, 1}, {3, 4, 4, 4, 4}} {
			for residual := device.NoResidual; residual <= device.TiledResidual; residual++ {
				if i != 1 || residual == device.FullResidual {
					activate(t, dev, device.ActivateSpec{Shape: shape, Norm: device.InstanceNorm, Epsilon: 1e-5,
						Act: device.PReLU, Residual: residual})
				}
			}
		}
	})
	t.Run("after a convolution", func(t *testing.T) { normConvs(t, dev) })
	t.Run("gradients", func(t *testing.T) {
		for _, s := range []device.ActivateSpec{
			{Act: device.PReLU}, {Act: device.ELU, Residual: device.FullResidual},
			{Act: device.PReLU, Residual: device.TiledResidual}, {Act: device.ReLU},
			{Norm: device.InstanceNorm, Act: device.PReLU, Residual: device.FullResidual},
			{Norm: device.BatchNorm, Training: true, Act: device.ELU, Residual: device.TiledResidual},
			{Norm: device.BatchNorm, Act: device.PReLU}, {Norm: device.GroupNorm, Groups: 2, Act: device.PReLU},
		} {
			// momentum 0: central differences must not move the running statistics
			s.Shape, s.Epsilon, s.Momentum = device.Shape{2, 4, 2, 3, 2}, 1e-5, 0
			activateGradients(t, s)
		}
	})
	refuses(t, dev, forwardOf(device.ActivateSpec{Shape: device.Shape{1, 2, 3}}))
	refuses(t, dev, forwardOf(device.ActivateSpec{Shape: device.Shape{1, 3, 2, 2, 2}, Norm: device.GroupNorm, Groups: 2,
		Epsilon: 1}))
}

// groupsOf is the largest proper divisor of a number of channels.
func groupsOf(channels int) int {
	for g := channels / 2; g > 1; g-- {
		if channels%g == 0 {
			return g
		}
	}
	return 1
}

func forwardOf(s device.ActivateSpec) maker {
	return func(d device.Device) (device.Kernel, error) { return d.Activate(s) }
}

func backwardOf(s device.ActivateSpec) maker {
	return func(d device.Device) (device.Kernel, error) { return d.ActivateGrad(s) }
}

// residualOf is the shape of the residual.
func residualShape(s device.ActivateSpec) device.Shape {
	shape := append(device.Shape{}, s.Shape...)
	if s.Residual == device.TiledResidual {
		shape[1] = 1
	}
	return shape
}

// activateOperandsOf makes the inputs of Activate.
func activateOperandsOf(r *rand.Rand, s device.ActivateSpec) []operand {
	in := []operand{random(r, s.Shape...)}
	if s.Norm != device.NoNorm {
		in = append(in, positive(r, s.Shape[1]), random(r, s.Shape[1]))
		if s.Norm == device.BatchNorm {
			in = append(in, random(r, s.Shape[1]), positive(r, s.Shape[1]))
		}
	}
	if s.Residual != device.NoResidual {
		in = append(in, random(r, residualShape(s)...))
	}
	if s.Act == device.PReLU {
		in = append(in, random(r, s.Shape[1]))
	}
	return in
}

// activate compares both kernels with the reference; the statistics that the backward one gets are
// the reference's.
func activate(t *testing.T, dev device.Device, s device.ActivateSpec) {
	if s.Type = device.Float32; len(s.Shape) == 5 {
		s.Type = dev.Activations()
	}
	r := newRand(uint64(s.Shape.Elements()))
	in := activateOperandsOf(r, s)
	out := []operand{output(s.Shape...)}
	if s.Norm != device.NoNorm {
		out = append(out, output(s.StatisticsShape()...))
	}
	compare(t, dev, tight, forwardOf(s), out, in)

	reference := NewReference()
	f := prepare(t, reference, forwardOf(s), out, in)
	f.run()
	var statistics []float32
	if s.Norm != device.NoNorm {
		statistics = download(t, reference, f.out[1], out[1])
	}
	backOut, backIn := backwardOperands(r, s, in, statistics)
	compare(t, dev, lossyTolerance, backwardOf(s), backOut, backIn)

	inPlace(t, dev, backwardOf(s), backOut, backIn, [2]int{0, 0})
	inPlace(t, dev, forwardOf(s), out, in, [2]int{0, 0})
	if s.Residual == device.FullResidual {
		r := len(in) - 1
		if s.Act == device.PReLU {
			r--
		}
		inPlace(t, dev, forwardOf(s), out, in, [2]int{0, r})
	}
	switch {
	case s.Norm == device.NoNorm:
		inPlace(t, dev, backwardOf(s), backOut, backIn, [2]int{0, 1})
	case s.Residual == device.FullResidual:
		const dx, dr, dy, x, r = 0, 3, 0, 1, 5
		inPlace(t, dev, backwardOf(s), backOut, backIn, [2]int{dx, x}, [2]int{dr, r})
		inPlace(t, dev, backwardOf(s), backOut, backIn, [2]int{dx, x}, [2]int{dr, dy})
		inPlace(t, dev, backwardOf(s), backOut, backIn, [2]int{dx, dy}, [2]int{dr, r})
	}
}

// backwardOperands makes the operands of ActivateGrad from the inputs of Activate and its
// statistics.
func backwardOperands(r *rand.Rand, s device.ActivateSpec, forward []operand, statistics []float32) (out,
	in []operand) {
	dy := random(r, s.Shape...)
	for i := range dy.data {
		dy.data[i]++ // so that no sum of it is near zero by chance
	}
	in = []operand{dy, forward[0]}
	out = []operand{output(s.Shape...)}
	if s.Norm != device.NoNorm {
		in = append(in, forward[1], forward[2], operand{shape: s.StatisticsShape(), data: statistics})
		out = append(out, output(s.Shape[1]), output(s.Shape[1]))
	}
	rest := forward[1:]
	if s.Norm != device.NoNorm {
		rest = forward[3:]
	}
	if s.Norm == device.BatchNorm {
		rest = forward[5:]
	}
	if s.Residual != device.NoResidual {
		in = append(in, rest[0])
		if !s.ResidualGradIsDX() {
			out = append(out, output(residualShape(s)...))
		}
		rest = rest[1:]
	}
	if s.Act == device.PReLU {
		in, out = append(in, rest[0]), append(out, output(s.Shape[1]))
	}
	// nothing is left of it after most norms: its error is relative to the sum of its terms'
	// magnitudes
	sum := output(s.Shape[1])
	sum.norm = float64(s.Shape.Elements()) / math.Sqrt(float64(s.Shape[1]))
	return append(out, sum), in
}

// activateGradients checks the reference's backward kernel against central differences by all
// inputs.
func activateGradients(t *testing.T, s device.ActivateSpec) {
	t.Helper()
	d := differentiable{forward: forwardOf(s), backward: backwardOf(s), in: activateOperandsOf(newRand(5), s),
		out: []operand{output(s.Shape...)}, wrt: []int{0}}
	rest := 1
	if s.Norm != device.NoNorm {
		d.out = append(d.out, output(s.StatisticsShape()...))
		d.wrt = append(d.wrt, 1, 2)
		rest = 3
	}
	if s.Norm == device.BatchNorm {
		rest = 5
	}
	for i := rest; i < len(d.in); i++ {
		if i > rest || !s.ResidualGradIsDX() {
			d.wrt = append(d.wrt, i)
		}
	}
	written := d.wrt
	d.gradients = func(out, in []values, dy values) (grads, operands []values) {
		operands = []values{dy, in[0]}
		if s.Norm != device.NoNorm {
			operands = append(operands, in[1], in[2], append(values{}, out[1]...))
		}
		operands = append(operands, in[rest:]...)
		for _, i := range written {
			grads = append(grads, like(in[i]))
		}
		return append(grads, make(values, s.Shape[1])), operands
	}
	d.check(t)
	if s.ResidualGradIsDX() {
		d.wrt = []int{rest} // dx, the first result, is the residual's gradient too
		d.check(t)
	}
}
