package devicetest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Bench times the kernels at the sizes of a VNet step, full resolution first. What streams through
// memory reports bytes that must be read and written at least, so that GB/s compares with the
// memory's rate.
func Bench(b *testing.B, dev device.Device) {
	full := device.Shape{1, 32, 64, 64, 64} // the last decoder stage of a 64^3 crop
	deep := device.Shape{27, 64, 8, 8, 8}   // a middle encoder stage of 27 patches of 32^3
	for _, s := range []device.Shape{full, deep} {
		size := 4 * s.Elements()
		x := []operand{output(s...), output(s...), output(s...)}
		benchmark(b, dev, "Add", s, 3*size,
			func(d device.Device) (device.Kernel, error) { return d.Add(tensorOf(dev, s)) }, x[:1], x[1:])
		benchmark(b, dev, "Scale", s, 2*size,
			func(d device.Device) (device.Kernel, error) { return d.Scale(tensorOf(dev, s), 2) }, x[:1], x[1:2])
		benchmark(b, dev, "SumChannels", s, size,
			func(d device.Device) (device.Kernel, error) { return d.SumChannels(tensorOf(dev, s)) },
			[]operand{output(s[1])}, x[:1])
		join := device.ConcatSpec{N: s[0], Channels: []int{s[1] / 2, s[1] / 2}, Size: [3]int(s[2:]),
			Type: dev.Activations()}
		benchmark(b, dev, "Concat", s, 2*size, func(d device.Device) (device.Kernel, error) { return d.Concat(join) },
			x[:1], []operand{output(join.Operand(0)...), output(join.Operand(1)...)})
		for _, a := range []struct {
			name              string
			spec              device.ActivateSpec
			forward, backward int // tensors read and written at least
		}{
			{"PReLU", device.ActivateSpec{Act: device.PReLU}, 2, 3},
			{"ELU", device.ActivateSpec{Act: device.ELU}, 2, 3},
			{"PReLU+residual", device.ActivateSpec{Act: device.PReLU, Residual: device.FullResidual}, 3, 4},
			{"PReLU+tiled", device.ActivateSpec{Act: device.PReLU, Residual: device.TiledResidual}, 2, 3},
			{"instance+PReLU", device.ActivateSpec{Norm: device.InstanceNorm, Act: device.PReLU}, 3, 5},
			{"instance+PReLU+residual", device.ActivateSpec{Norm: device.InstanceNorm, Act: device.PReLU,
				Residual: device.FullResidual}, 4, 7},
			{"batch+ELU+residual", device.ActivateSpec{Norm: device.BatchNorm, Training: true, Act: device.ELU,
				Residual: device.FullResidual}, 4, 7},
		} {
			a.spec.Shape, a.spec.Epsilon, a.spec.Type = s, 1e-5, dev.Activations()
			in := activateOperandsOf(newRand(1), a.spec)
			out := []operand{output(s...)}
			if a.spec.Norm != device.NoNorm {
				out = append(out, output(a.spec.StatisticsShape()...))
			}
			benchmark(b, dev, "Activate/"+a.name, s, a.forward*size, forwardOf(a.spec), out, in)
			backOut, backIn := backwardOperands(newRand(1), a.spec, in,
				make([]float32, a.spec.StatisticsShape().Elements()))
			benchmark(b, dev, "ActivateGrad/"+a.name, s, a.backward*size, backwardOf(a.spec), backOut, backIn)
		}
	}
	for _, classes := range []int{2, 9, 105} {
		side := 96
		if classes > 16 {
			side = 48
		}
		s := device.LossSpec{Shape: device.Shape{1, classes, side, side, side}, CE: 1, Dice: 1, Smooth: 1e-5,
			Type: dev.Activations()}
		r := newRand(1)
		logits, target := random(r, s.Shape...), whole(r, 0, classes, targetShape(s.Shape)...)
		size := int(dev.Size(tensorOf(dev, s.Shape)))
		benchmark(b, dev, "Softmax", s.Shape, 2*size,
			func(d device.Device) (device.Kernel, error) { return d.Softmax(tensorOf(dev, s.Shape)) },
			[]operand{output(s.Shape...)}, []operand{logits})
		benchmark(b, dev, "Loss", s.Shape, size+4*len(target.data),
			func(d device.Device) (device.Kernel, error) { return d.Loss(s) }, []operand{output(), output(s.Stats())},
			[]operand{logits, target})
		benchmark(b, dev, "LossGrad", s.Shape, 2*size+4*len(target.data),
			func(d device.Device) (device.Kernel, error) { return d.LossGrad(s) },
			[]operand{output(s.Shape...), output(classes)},
			[]operand{logits, target, positive(r, s.Stats()), positive(r)})
	}
	n := 16 << 20
	parameters := output(n)
	benchmark(b, dev, "SumSquares", parameters.shape, 4*n,
		func(d device.Device) (device.Kernel, error) { return d.SumSquares(n) }, []operand{output()},
		[]operand{positive(newRand(1), n)})
	benchmark(b, dev, "SGD", parameters.shape, 20*n, func(d device.Device) (device.Kernel, error) { return d.SGD(n) },
		[]operand{positive(newRand(1), n), positive(newRand(2), n)},
		[]operand{positive(newRand(3), n), {shape: device.Shape{4}, data: []float32{1e-3, 0.9, 1e-4, 1}}})
	// The paper's head on 2 puzzles of 27 patches, features of 1024: forward, by features, by
	// weights, with weights (out, in).
	for _, s := range []device.MatMulSpec{{M: 54, N: 1024, K: 27648, TransB: true}, {M: 54, N: 27648, K: 1024},
		{M: 1024, N: 27648, K: 54, TransA: true}, {M: 54, N: 1024, K: 2048, TransB: true}} {
		a, w := positive(newRand(1), s.M, s.K), positive(newRand(2), s.K, s.N)
		benchmark(b, dev, "MatMul", device.Shape{s.M, s.N, s.K}, 4*(s.M*s.N+s.K*s.N+s.M*s.K),
			func(d device.Device) (device.Kernel, error) { return d.MatMul(s) }, []operand{output(s.M, s.N)},
			[]operand{a, w})
	}
}

// benchmark times one kernel; beside Go's mean it reports the fastest run, which other processes
// disturb least, and the bytes that this one moved. Outputs start as NaN, inputs without data as
// well: no kernel here is slower for that.
func benchmark(b *testing.B, dev device.Device, name string, s device.Shape, bytes int, make maker, out, in []operand) {
	b.Run(fmt.Sprintf("%s/%v", name, []int(s)), func(b *testing.B) {
		r := prepare(b, dev, make, out, in)
		r.run()
		best := time.Duration(math.MaxInt64)
		for b.Loop() {
			start := time.Now()
			r.run()
			if err := dev.Sync(); err != nil {
				b.Fatal(err)
			}
			best = min(best, time.Since(start))
		}
		b.ReportMetric(best.Seconds()*1e3, "best-ms")
		b.ReportMetric(float64(bytes)/best.Seconds()/1e9, "best-GB/s")
	})
}
