package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"
)

// Outputs that go past the caches are the same to the bit, whoever asks for them. The moments are
// those of the outputs, although biases are a hundred deviations from zero. Buffers begin at a
// cache line, or not.
func TestNormConv(t *testing.T) {
	for _, ks := range availableKernels() {
		for _, tile := range toomcook.Tiles {
			t.Run(fmt.Sprint(ks.name, " ", tile), func(t *testing.T) {
				for i, s := range winogradCases {
					if ks.name == "generic" && i%4 != 0 {
						continue // slow, and the rest is the same code
					}
					if has(tile, s) && !tile.Doubling && !(isFlat(s) && s.Size[0] == 1) {
						s.Bias = true
						testNormConv(t, ks, tile, s, i)
					}
				}
			})
		}
	}
}

func testNormConv(t *testing.T, ks *kernels, tile toomcook.Tile, s device.ConvSpec, i int) {
	choice := map[string]string{
		ChoiceKey(s, Forward): fmt.Sprintf("Winograd %v by tiles", tile)}
	c := newTestCPU(t, Options{Threads: 1 + i%3, Choices: choice}, ks)
	r := rand.New(rand.NewPCG(4, uint64(i)))
	shape := s.YShape()
	x, w := alignedSlice(elementsOf(s.XShape())), alignedSlice(weightElements(s.WShape()))
	bias := Slice(normals(r, s.Out, 100))
	scale := math.Sqrt(1 / float64(s.In*s.Kernel[0]*s.Kernel[1]*s.Kernel[2]))
	if err := c.Upload(x, device.Tensor{Shape: s.XShape()}, normals(r, s.XShape().Elements(), 1)); err != nil {
		t.Fatal(err)
	}
	if err := c.UploadWeights(w, s.WShape(), 0, normals(r, s.WShape().Elements(), scale)); err != nil {
		t.Fatal(err)
	}
	want := noise(elementsOf(shape))
	plain, err := c.Conv(s)
	if err != nil {
		t.Fatal(err)
	}
	run := func(k device.Kernel, out, in []device.Buffer) {
		t.Helper()
		k.Run(out, in, noise(int(k.Scratch()/4)))
	}
	in := []device.Buffer{x, w, bias}
	run(plain, []device.Buffer{want}, in)
	same := func(what string, got Slice) {
		t.Helper()
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%+v: %s: element %d is %v, want %v", s, what, i, got[i], want[i])
			}
		}
	}
	c.large = 0
	got := noise(len(want))
	run(plain, []device.Buffer{got}, in)
	same("past the caches", got)

	for j, n := range []device.ActivateSpec{
		{Norm: device.InstanceNorm, Act: device.PReLU},
		{Norm: device.GroupNorm, Groups: 1, Act: device.ReLU, Residual: device.FullResidual},
		{Norm: device.BatchNorm, Training: true, Momentum: 0.1, Act: device.PReLU},
	} {
		n.Shape, n.Epsilon = shape, 1e-5
		kernels, err := c.NormConv(s, n)
		if err != nil || kernels == nil {
			t.Fatalf("%+v, norm %d: %v, %v", s, n.Norm, kernels, err)
		}
		shift := (i + j) % 2 // of the first output in its cache line
		y, moments := noise(len(want) + shift)[shift:], noise(int(kernels.Moments/4))
		run(kernels.Conv, []device.Buffer{y, moments}, in)
		same("for a norm", y)

		groups := n.StatisticsShape()[1]
		statistics, reference, result, expected := noise(2*groups), noise(2*groups), noise(len(want)), noise(len(want))
		running := func() []device.Buffer {
			if n.Norm != device.BatchNorm {
				return nil
			}
			return []device.Buffer{Slice(normals(rand.New(rand.NewPCG(1, 1)), s.Out, 1)),
				Slice(normals(rand.New(rand.NewPCG(2, 1)), s.Out, 1))}
		}
		affine := []device.Buffer{Slice(normals(r, s.Out, 1)), Slice(normals(r, s.Out, 1))}
		ran, kept := running(), running()
		var rest []device.Buffer
		if n.Residual != device.NoResidual {
			rest = append(rest, want)
		}
		if n.Act == device.PReLU {
			rest = append(rest, Slice(normals(r, s.Out, 1)))
		}
		list := func(groups ...[]device.Buffer) (all []device.Buffer) {
			for _, g := range groups {
				all = append(all, g...)
			}
			return all
		}
		run(kernels.Statistics, []device.Buffer{statistics}, list([]device.Buffer{moments}, ran))
		run(kernels.Apply, []device.Buffer{result}, list([]device.Buffer{y, statistics}, affine, rest))

		whole, err := c.Activate(n)
		if err != nil {
			t.Fatal(err)
		}
		run(whole, []device.Buffer{expected, reference}, list([]device.Buffer{want}, affine, kept, rest))
		close := func(what string, got, want Slice) {
			t.Helper()
			exact := make([]float64, len(want))
			for i := range want {
				exact[i] = float64(want[i])
			}
			if e := relativeError(got, exact); !(e <= 1e-5) {
				t.Errorf("%+v, norm %d: %s: relative error %.2g", s, n.Norm, what, e)
			}
		}
		close("statistics", statistics, reference)
		close("result", result, expected)
		for i := range ran {
			close("running statistics", ran[i].(Slice), kept[i].(Slice))
		}
		if n.Norm == device.InstanceNorm {
			checkStatistics(t, statistics, want, layoutOf(shape), float64(n.Epsilon))
		}
	}
}

// checkStatistics compares means and inverse deviations with sums in float64.
func checkStatistics(t *testing.T, statistics, y Slice, l layout, epsilon float64) {
	t.Helper()
	for n := range l.n {
		for ch := range l.channels {
			values := y[l.plane(n, ch/l.lanes)+ch%l.lanes:]
			mean, square := 0.0, 0.0
			for v := range l.voxels {
				mean += float64(values[v*l.lanes]) / float64(l.voxels)
			}
			for v := range l.voxels {
				d := float64(values[v*l.lanes]) - mean
				square += d * d / float64(l.voxels)
			}
			at := n*l.channels + ch
			inverse := 1 / math.Sqrt(square+epsilon)
			if got := float64(statistics[at]); math.Abs(got-mean) > 1e-6*(math.Abs(mean)+1) {
				t.Fatalf("channel %d of image %d: mean %v, want %v", ch, n, got, mean)
			}
			if got := float64(statistics[l.n*l.channels+at]); math.Abs(got/inverse-1) > 1e-5 {
				t.Fatalf("channel %d of image %d: inverse deviation %v, want %v", ch, n, got, inverse)
			}
		}
	}
}

// Small results leave nothing: they are still in the caches when the norm reads them.
func TestNormConvOfLargeResultsOnly(t *testing.T) {
	c := newTestCPU(t, Options{Threads: 1}, genericKernels())
	for _, test := range []struct {
		s    device.ConvSpec
		want bool
	}{
		{cube(1, 32, 32, 128, 3, 1, 1), true},
		{cube(1, 32, 32, 32, 3, 1, 1), false},
		{cube(1, 1, 32, 128, 3, 1, 1), false}, // no Winograd
		{cube(1, 32, 64, 128, 3, 2, 1), true},
		{cube(1, 32, 64, 128, 2, 2, 0), false}, // no Winograd
	} {
		n := device.ActivateSpec{Shape: test.s.YShape(), Norm: device.InstanceNorm, Epsilon: 1e-5}
		if kernels, err := c.NormConv(test.s, n); err != nil || (kernels != nil) != test.want {
			t.Errorf("%+v: %v, %v", test.s, kernels, err)
		}
	}
}

// A norm of air: values that are all alike but at the border, whose deviation is small beside them,
// as of a window or a slice beside the patient. Sums of so many equal values must not round to the
// same side again and again. The statistics are held against float64; PyTorch's deviate as little.
func TestNormOfAir(t *testing.T) {
	const most = 2e-6 // of a mean, in standard deviations; long sums were off by up to 1.2e-5
	s := device.ConvSpec{N: 1, In: 16, Out: 16, Size: [3]int{12, 48, 96}, Kernel: [3]int{3, 3, 3},
		Stride: [3]int{1, 1, 1}, Pad: [3]int{1, 1, 1}, Bias: true}
	for _, ks := range availableKernels() {
		c := newTestCPU(t, Options{Choices: map[string]string{ChoiceKey(s, Forward): "Winograd F(4,3) by tiles"}}, ks)
		r := rand.New(rand.NewPCG(5, 5))
		shape := s.YShape()
		x, w, bias := alignedSlice(elementsOf(s.XShape())), alignedSlice(weightElements(s.WShape())),
			Slice(normals(r, s.Out, 3))
		for i := range x {
			x[i] = -2.4
		}
		if err := c.UploadWeights(w, s.WShape(), 0, normals(r, s.WShape().Elements(), 0.05)); err != nil {
			t.Fatal(err)
		}
		c.large = 0
		n := device.ActivateSpec{Shape: shape, Norm: device.InstanceNorm, Epsilon: 1e-5}
		kernels, err := c.NormConv(s, n)
		if err != nil || kernels == nil {
			t.Fatalf("%v, %v", kernels, err)
		}
		y, moments := alignedSlice(elementsOf(shape)), noise(int(kernels.Moments/4))
		left, whole := noise(2*s.Out), noise(2*s.Out)
		kernels.Conv.Run([]device.Buffer{y, moments}, []device.Buffer{x, w, bias},
			noise(int(kernels.Conv.Scratch()/4)))
		kernels.Statistics.Run([]device.Buffer{left}, []device.Buffer{moments}, nil)
		k, err := c.Activate(n)
		if err != nil {
			t.Fatal(err)
		}
		affine := Slice(normals(r, s.Out, 1))
		k.Run([]device.Buffer{noise(len(y)), whole}, []device.Buffer{y, affine, affine}, noise(int(k.Scratch()/4)))
		l := layoutOf(shape)
		for channel := range s.Out {
			var sum, squares float64
			at := func(v int) float64 { return float64(y[v*block+channel]) }
			for v := range l.voxels {
				sum += at(v)
			}
			mean := sum / float64(l.voxels)
			for v := range l.voxels {
				squares += (at(v) - mean) * (at(v) - mean)
			}
			sd := math.Sqrt(squares/float64(l.voxels) + 1e-5)
			for what, got := range map[string]Slice{"a convolution's moments": left, "all of it": whole} {
				if e := math.Abs(float64(got[channel])-mean) / sd; !(e <= most) {
					t.Errorf("%s, %s: the mean of channel %d, %v, is off by %.2g deviations", ks.name, what, channel,
						mean, e)
				}
				if e := math.Abs(float64(got[s.Out+channel])*sd - 1); !(e <= most) {
					t.Errorf("%s, %s: the deviation of channel %d is off by %.2g of it", ks.name, what, channel, e)
				}
			}
		}
	}
}
