package devicetest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// normConvs checks convolutions that leave what the norm after them needs, where the device has
// such, against one after the other on the reference: of tiles of one image and of several.
func normConvs(t *testing.T, dev device.Device) {
	if _, ok := dev.(device.Normaliser); !ok {
		return
	}
	cube := func(n int) [3]int { return [3]int{n, n, n} }
	for _, c := range []device.ConvSpec{
		{N: 2, In: 16, Out: 16, Size: [3]int{2, 9, 32}, Kernel: cube(5)},
		{N: 2, In: 1, Out: 24, Size: [3]int{3, 9, 33}, Kernel: cube(5), Bias: true},
		{N: 3, In: 1, Out: 16, Size: [3]int{5, 6, 40}, Kernel: cube(5)},
		{N: 2, In: 8, Out: 12, Size: [3]int{4, 8, 8}, Kernel: cube(3), Bias: true},
		{N: 3, In: 32, Out: 32, Size: [3]int{3, 16, 16}, Kernel: cube(3), Bias: true},
		{N: 3, In: 8, Out: 16, Size: [3]int{2, 4, 4}, Kernel: cube(3)},
		{N: 1, In: 3, Out: 6, Size: [3]int{3, 5, 7}, Kernel: cube(1), Bias: true},
		{N: 2, In: 16, Out: 12, Size: [3]int{4, 8, 8}, Kernel: cube(1), Bias: true},
		{N: 2, In: 8, Out: 16, Size: [3]int{8, 16, 16}, Kernel: cube(2)},
		{N: 3, In: 16, Out: 32, Size: [3]int{8, 8, 16}, Kernel: cube(2), Bias: true},
		{N: 2, In: 32, Out: 64, Size: [3]int{8, 16, 16}, Kernel: cube(2), Bias: true},
		{N: 1, In: 16, Out: 32, Size: [3]int{6, 14, 10}, Kernel: cube(2)},
		// several units of a warp
		{N: 1, In: 16, Out: 32, Size: [3]int{16, 32, 40}, Kernel: cube(2)},
		{N: 1, In: 32, Out: 4, Size: [3]int{5, 6, 7}, Kernel: cube(1), Bias: true},
	} {
		c.Stride, c.Pad, c.Type = cube(1), cube(c.Kernel[0]/2), dev.Activations()
		if c.Kernel == cube(2) {
			c.Stride, c.Pad = cube(2), [3]int{}
		}
		for i, s := range []device.ActivateSpec{
			{Norm: device.InstanceNorm, Act: device.PReLU},
			{Norm: device.GroupNorm, Groups: c.Out / 2, Act: device.ReLU, Residual: device.TiledResidual},
			{Norm: device.BatchNorm, Training: true, Momentum: 0.1, Act: device.PReLU, Residual: device.FullResidual},
		} {
			s.Shape, s.Epsilon, s.Type = c.YShape(), 1e-5, dev.Activations()
			t.Run(fmt.Sprintf("%d to %d of %v, norm %d", c.In, c.Out, c.Size, s.Norm),
				func(t *testing.T) { normConv(t, dev, newRand(uint64(i)), c, s) })
		}
	}
}

func normConv(t *testing.T, dev device.Device, r *rand.Rand, c device.ConvSpec, s device.ActivateSpec) {
	x := []operand{random(r, c.XShape()...), weights(r, c.WShape()...)}
	if c.Bias {
		x = append(x, random(r, c.Out))
	}
	x, rest := rounded(dev, x), rounded(dev, activateOperandsOf(r, s)[1:])
	y, statistics := output(s.Shape...), output(s.StatisticsShape()...)

	reference, plain, plainNorm := NewReference(), c, s
	plain.Type, plainNorm.Type = device.Float32, device.Float32
	conv := prepare(t, reference, func(d device.Device) (device.Kernel, error) { return d.Conv(plain) }, []operand{y},
		x)
	activate := prepare(t, reference, forwardOf(plainNorm), []operand{y, statistics}, append([]operand{y}, rest...))
	activate.in[0] = conv.out[0]
	conv.run()
	activate.run()

	kernels, err := dev.(device.Normaliser).NormConv(c, s)
	if err != nil {
		t.Fatal(err)
	}
	if kernels == nil {
		// the CPU leaves moments of large results only
		if s.Norm == device.BatchNorm && dev.Name() != "cpu" {
			t.Error("a batch norm in training is refused")
		}
		return
	}
	is := func(k device.Kernel) maker { return func(device.Device) (device.Kernel, error) { return k, nil } }
	moments := operand{shape: device.Shape{int(kernels.Moments / 4)}}
	running, affine := []operand{}, rest
	if s.Norm == device.BatchNorm {
		running, affine = rest[2:4], append(append([]operand{}, rest[:2]...), rest[4:]...)
	}
	first := prepare(t, dev, is(kernels.Conv), []operand{y, moments}, x)
	then := prepare(t, dev, is(kernels.Statistics), []operand{statistics}, append([]operand{moments}, running...))
	last := prepare(t, dev, is(kernels.Apply), []operand{y}, append([]operand{y, statistics}, affine...))
	// z over y
	then.in[0], last.in[0], last.in[1], last.out[0] = first.out[1], first.out[0], then.out[0], first.out[0]
	for _, k := range []run{first, then, last} {
		k.run()
	}
	if err := dev.Sync(); err != nil {
		t.Fatal(err)
	}
	tolerance := allowed(dev, convTolerance)
	same := func(what string, b device.Buffer, want device.Buffer, o operand) {
		t.Helper()
		if e := relativeL2(download(t, dev, b, o), download(t, reference, want, o)); !(e <= tolerance) {
			t.Errorf("%s: relative error %.2g, want at most %.2g", what, e, tolerance)
		}
	}
	same("result", last.out[0], activate.out[0], y)
	same("statistics", then.out[0], activate.out[1], statistics)
	for i := range running {
		same("running statistics", then.in[1+i], activate.in[3+i], running[i])
	}
}
