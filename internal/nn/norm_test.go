package nn

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// plainDevice is a device without what only some can do.
type plainDevice struct{ device.Device }

// A norm of a large result takes its statistics from what the CPU's convolution leaves; the step is
// that of a norm which computes them itself.
func TestNormOfLargeConvolution(t *testing.T) {
	if testing.Short() {
		t.Skip("a network of 300 MiB")
	}
	const side = 84
	step := func(dev device.Device) (p *Params, loss []float32, left bool) {
		g, p := NewGraph(Train, device.Float32), NewParams(dev, 1)
		x := g.Conv("first", g.Input("x", 1, 1, side, side, side), 16, Cube(3, 1, 1), true)
		y := g.Activate("second", g.Conv("second", x, 16, Cube(3, 1, 1), true),
			Activation{Norm: device.InstanceNorm, Act: device.PReLU, Slope: 0.01})
		total, _ := g.Loss(g.Conv("head", y, 2, Cube(1, 1, 0), true), g.Input("target", 1, side, side, side),
			LossOptions{CE: 1, Dice: 1})
		prog, err := Compile(dev, g, p, Options{Loss: total})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { prog.Close() })
		r := rand.New(rand.NewPCG(1, 1))
		target := make([]float32, side*side*side)
		for i := range target {
			target[i] = float32(r.IntN(2))
		}
		if err := errors.Join(prog.Set("x", random(r, len(target))), prog.Set("target", target)); err != nil {
			t.Fatal(err)
		}
		run(t, prog)
		value, _, err := prog.Output("loss")
		if err != nil {
			t.Fatal(err)
		}
		loss = make([]float32, 1)
		if err := dev.DownloadPlain(loss, value, 0); err != nil {
			t.Fatal(err)
		}
		for _, s := range prog.Times() {
			left = left || strings.HasPrefix(s.Name, "statistics")
		}
		return p, loss, left
	}
	dev := newCPU(t)
	got, loss, left := step(dev)
	want, wantLoss, _ := step(plainDevice{dev})
	if !left {
		t.Error("no convolution leaves moments")
	}
	if math.Abs(float64(loss[0]-wantLoss[0])) > 1e-5 {
		t.Errorf("a loss of %v, want %v", loss[0], wantLoss[0])
	}
	for _, name := range got.Names() {
		a, b := mustGrad(t, got, name), mustGrad(t, want, name)
		difference, norm := 0.0, 0.0
		for i := range b {
			difference += math.Pow(float64(a[i]-b[i]), 2)
			norm += math.Pow(float64(b[i]), 2)
		}
		// the gradient of a bias before a norm is a sum that cancels
		if difference > 1e-8*norm && !strings.HasSuffix(name, "second.bias") && !strings.HasSuffix(name, "first.bias") {
			t.Errorf("%s: gradient differs by %.2g of its norm", name, math.Sqrt(difference/norm))
		}
	}
}
