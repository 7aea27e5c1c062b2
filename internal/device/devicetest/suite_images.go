package devicetest

import (
	"fmt"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Images checks what networks on photographs need.
func Images(t *testing.T, dev device.Device) {
	t.Run("Groups", func(t *testing.T) { groups(t, dev) })
	t.Run("Ceil", func(t *testing.T) { ceil(t, dev) })
	t.Run("LRN", func(t *testing.T) { lrn(t, dev) })
	t.Run("RoI", func(t *testing.T) { regions(t, dev) })
	t.Run("Losses", func(t *testing.T) { imageLosses(t, dev) })
}

func groups(t *testing.T, dev device.Device) {
	flat := func(k int) [3]int { return [3]int{1, k, k} }
	unit := [3]int{1, 1, 1}
	specs := []device.ConvSpec{
		{N: 2, In: 64, Out: 96, Groups: 2, Size: [3]int{1, 13, 11}, Kernel: flat(5), Stride: unit, Pad: [3]int{0, 2, 2},
			Bias: true},
		{N: 3, In: 32, Out: 32, Groups: 2, Size: flat(6), Kernel: flat(3), Stride: unit, Pad: [3]int{0, 1, 1},
			Bias: true},
		{N: 2, In: 96, Out: 48, Groups: 3, Size: flat(9), Kernel: flat(3), Stride: flat(2), Pad: [3]int{0, 1, 1}},
		{N: 2, In: 48, Out: 16, Groups: 1, Size: flat(5), Kernel: flat(1), Stride: unit},
		{N: 2, In: 24, Out: 40, Groups: 2, Size: flat(7), Kernel: flat(3), Stride: unit, Pad: [3]int{0, 1, 1},
			Bias: true},
		{N: 1, In: 6, Out: 9, Groups: 3, Size: [3]int{3, 4, 5}, Kernel: [3]int{3, 2, 1}, Stride: unit,
			Pad: [3]int{1, 0, 0}, Bias: true},
		{N: 2, In: 5, Out: 5, Groups: 5, Size: flat(4), Kernel: flat(3), Stride: unit, Pad: [3]int{0, 1, 1},
			Bias: true},
		{N: 1, In: 64, Out: 64, Groups: 4, Size: [3]int{4, 6, 5}, Kernel: [3]int{3, 3, 3}, Stride: unit, Pad: unit},
	}
	for i, s := range specs {
		s.Type = dev.Activations()
		t.Run(fmt.Sprintf("%dx%d-%d/%d@%v", s.N, s.In, s.Out, s.Groups, s.Size), func(t *testing.T) {
			forward := func(d device.Device) (device.Kernel, error) { return d.Conv(s) }
			r := newRand(uint64(i))
			x, y, w := random(r, s.XShape()...), random(r, s.YShape()...), weights(r, s.WShape()...)
			in, transposed := []operand{x, w}, []operand{y, w}
			if s.Bias {
				in, transposed = append(in, random(r, s.Out)), append(transposed, random(r, s.In))
			}
			compare(t, dev, convTolerance, forward, []operand{output(s.YShape()...)}, in)
			compare(t, dev, convTolerance, func(d device.Device) (device.Kernel, error) { return d.ConvTransposed(s) },
				[]operand{output(s.XShape()...)}, transposed)
			compare(t, dev, convTolerance, func(d device.Device) (device.Kernel, error) { return d.ConvGradWeights(s) },
				[]operand{{shape: s.WShape(), weight: true}}, []operand{x, y})
		})
	}
	t.Run("gradients", func(t *testing.T) {
		s := device.ConvSpec{N: 2, In: 4, Out: 6, Groups: 2, Size: [3]int{1, 4, 3}, Kernel: [3]int{1, 2, 3},
			Stride: [3]int{1, 2, 1}, Pad: [3]int{0, 0, 1}}
		r := newRand(9)
		d := differentiable{
			forward:  func(d device.Device) (device.Kernel, error) { return d.Conv(s) },
			backward: func(d device.Device) (device.Kernel, error) { return d.ConvTransposed(s) },
			out:      []operand{output(s.YShape()...)},
			in:       []operand{random(r, s.XShape()...), weights(r, s.WShape()...)}, wrt: []int{0},
			gradients: func(out, in []values, dy values) (grads, operands []values) {
				return []values{like(in[0])}, []values{dy, in[1]}
			},
		}
		d.check(t)
		d.backward, d.wrt = func(d device.Device) (device.Kernel, error) { return d.ConvGradWeights(s) }, []int{1}
		d.gradients = func(out, in []values, dy values) (grads, operands []values) {
			return []values{like(in[1])}, []values{in[0], dy}
		}
		d.check(t)
	})
	for _, bad := range [][3]int{{4, 6, 3}, {3, 6, 2}, {4, 4, -1}} {
		refuses(t, dev, func(d device.Device) (device.Kernel, error) {
			return d.Conv(device.ConvSpec{N: 1, In: bad[0], Out: bad[1], Groups: bad[2], Size: flat(3), Kernel: unit,
				Stride: unit})
		})
	}
}

func ceil(t *testing.T, dev device.Device) {
	specs := []device.PoolSpec{
		// 3x3, 2x2 without
		{Shape: device.Shape{2, 17, 1, 6, 6}, Kernel: [3]int{1, 3, 3}, Stride: [3]int{1, 2, 2}},
		// cut along one axis
		{Shape: device.Shape{1, 3, 1, 13, 7}, Kernel: [3]int{1, 2, 3}, Stride: [3]int{1, 2, 2}},
		// with padding
		{Shape: device.Shape{1, 1, 4, 5, 6}, Kernel: [3]int{3, 3, 2}, Stride: [3]int{2, 3, 3}, Pad: [3]int{1, 1, 1}},
		// the last window would start in the padding
		{Shape: device.Shape{1, 2, 1, 5, 5}, Kernel: [3]int{1, 2, 2}, Stride: [3]int{1, 4, 4}, Pad: [3]int{0, 1, 1}},
		// nothing to round
		{Shape: device.Shape{1, 32, 1, 27, 27}, Kernel: [3]int{1, 3, 3}, Stride: [3]int{1, 2, 2}, Pad: [3]int{0, 0, 0}},
	}
	for _, s := range specs {
		for _, average := range []bool{false, true} {
			s.Average, s.Ceil, s.Type = average, true, dev.Activations()
			t.Run(fmt.Sprint(s), func(t *testing.T) {
				pool := func(d device.Device) (device.Kernel, error) { return d.Pool(s) }
				r := newRand(1)
				x := random(r, s.Shape...)
				compare(t, dev, tight, pool, []operand{output(s.OutShape()...)}, []operand{x})
				compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.PoolGrad(s) },
					[]operand{output(s.Shape...)},
					[]operand{x, random(r, s.OutShape()...), random(r, s.OutShape()...)})
				if s.Shape.Elements() > 300 {
					return
				}
				differentiable{
					forward:  pool,
					backward: func(d device.Device) (device.Kernel, error) { return d.PoolGrad(s) },
					out:      []operand{output(s.OutShape()...)}, in: []operand{random(r, s.Shape...)}, wrt: []int{0},
					gradients: func(out, in []values, dy values) (grads, operands []values) {
						return []values{like(in[0])}, []values{in[0], out[0], dy}
					},
				}.check(t)
			})
		}
	}
	want := []device.Shape{{2, 17, 1, 3, 3}, {1, 3, 1, 7, 3}, {1, 1, 3, 2, 3}, {1, 2, 1, 2, 2}, {1, 32, 1, 13, 13}}
	for i, s := range specs { // torch.nn.MaxPool3d(..., ceil_mode=True)
		if s.Ceil = true; !s.OutShape().Equal(want[i]) {
			t.Errorf("%+v makes %v, want %v", s, s.OutShape(), want[i])
		}
	}
}

func lrn(t *testing.T, dev device.Device) {
	check := func(s device.LRNSpec) {
		forward := func(d device.Device) (device.Kernel, error) { return d.LRN(s) }
		backward := func(d device.Device) (device.Kernel, error) { return d.LRNGrad(s) }
		r := newRand(2)
		x, dy := random(r, s.Shape...), random(r, s.Shape...)
		compare(t, dev, tight, forward, []operand{output(s.Shape...)}, []operand{x})
		compare(t, dev, tight, backward, []operand{output(s.Shape...)}, []operand{x, dy})
		inPlace(t, dev, backward, []operand{output(s.Shape...)}, []operand{x, dy}, [2]int{0, 1})
		if s.Shape.Elements() < 500 {
			differentiable{
				forward: forward, backward: backward, out: []operand{output(s.Shape...)}, in: []operand{x},
				wrt: []int{0},
				gradients: func(out, in []values, dy values) (grads, operands []values) {
					return []values{like(in[0])}, []values{in[0], dy}
				},
			}.check(t)
		}
	}
	for _, shape := range []device.Shape{{2, 96, 1, 5, 7}, {1, 17, 1, 3, 3}, {2, 4, 2, 3, 2}, {3, 1, 1, 2, 5},
		{1, 32, 1, 33, 35}} {
		for _, s := range []device.LRNSpec{{Size: 5, Alpha: 1e-4, Beta: 0.75, K: 1},
			{Size: 5, Alpha: 2, Beta: 0.75, K: 2}, {Size: 4, Alpha: 1, Beta: 0.6, K: 1},
			{Size: 1, Alpha: 1, Beta: 0.5, K: 0.5}} {
			s.Shape, s.Type = shape, dev.Activations()
			t.Run(fmt.Sprint(s), func(*testing.T) { check(s) })
		}
	}
	refuses(t, dev, func(d device.Device) (device.Kernel, error) { return d.LRN(device.LRNSpec{}) })
}

func regions(t *testing.T, dev device.Device) {
	s := device.RoISpec{Shape: device.Shape{2, 17, 1, 9, 12}, Regions: 6, OutSize: [2]int{3, 2}, Scale: 0.25,
		Type: dev.Activations()}
	boxes := operand{shape: device.Shape{6, 5}, data: []float32{
		0, 0, 0, 47, 35, // all of it
		1, 7.9, 3, 22, 30, // edges between elements
		1, 8, 8, 8, 8, // one element for six bins
		0, 40, 20, 200, 300, // past the far edges
		1, -30, -9, 10, 10, // past the near ones
		0, 300, 300, 310, 310, // outside
	}}
	forward := func(d device.Device) (device.Kernel, error) { return d.RoIPool(s) }
	backward := func(d device.Device) (device.Kernel, error) { return d.RoIPoolGrad(s) }
	r := newRand(3)
	// whole numbers tie
	for _, x := range []operand{random(r, s.Shape...), whole(r, 0, 3, s.Shape...)} {
		compare(t, dev, 0, forward, []operand{output(s.OutShape()...)}, []operand{x, boxes})
		compare(t, dev, tight, backward, []operand{output(s.Shape...)}, []operand{x, boxes, random(r, s.OutShape()...)})
	}
	s.Shape = device.Shape{2, 1, 1, 9, 12}
	differentiable{
		forward: forward, backward: backward, out: []operand{output(s.OutShape()...)},
		in: []operand{random(r, s.Shape...), boxes}, wrt: []int{0},
		gradients: func(out, in []values, dy values) (grads, operands []values) {
			return []values{like(in[0])}, []values{in[0], in[1], dy}
		},
	}.check(t)
	compare(t, dev, 0, forward, []operand{output(s.OutShape()...)}, []operand{random(r, s.Shape...), boxes})
	refuses(t, dev, func(d device.Device) (device.Kernel, error) { return d.RoIPool(device.RoISpec{}) })
}

func imageLosses(t *testing.T, dev device.Device) {
	r := newRand(4)
	for _, s := range []device.Shape{{1, 1}, {7, 20}, {64, 84}} {
		x, dloss := random(r, s...), random(r)
		for i := range x.data {
			x.data[i] *= 20 // some beyond what exp takes in float32
		}
		target := whole(r, -1, 2, s...)
		label := func(d device.Device) (device.Kernel, error) { return d.LabelLoss(s) }
		labelGrad := func(d device.Device) (device.Kernel, error) { return d.LabelLossGrad(s) }
		for _, target := range []operand{target, whole(r, 0, 2, s...)} {
			compare(t, dev, tight, label, []operand{output(), output()}, []operand{x, target})
			count := operand{shape: device.Shape{}, data: []float32{0}}
			for _, v := range target.data {
				if v >= 0 {
					count.data[0]++
				}
			}
			compare(t, dev, tight, labelGrad, []operand{output(s...)}, []operand{x, target, count, dloss})
		}
		l1 := device.SmoothL1Spec{Rows: s[0], Columns: s[1], Beta: 1. / 9}
		compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.SmoothL1(l1) },
			[]operand{output()}, []operand{random(r, s...), random(r, s...), positive(r, s...)})
		compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.SmoothL1Grad(l1) },
			[]operand{output(s...)}, []operand{random(r, s...), random(r, s...), positive(r, s...), dloss})
	}
	none := operand{shape: device.Shape{1, 2}, data: []float32{-1, -1}}
	compare(t, dev, 0, func(d device.Device) (device.Kernel, error) { return d.LabelLoss(none.shape) },
		[]operand{output(), output()}, []operand{random(r, 1, 2), none})

	s := device.Shape{3, 4}
	differentiable{
		forward:  func(d device.Device) (device.Kernel, error) { return d.LabelLoss(s) },
		backward: func(d device.Device) (device.Kernel, error) { return d.LabelLossGrad(s) },
		out:      []operand{output(), output()}, in: []operand{random(r, s...), whole(r, -1, 2, s...)}, wrt: []int{0},
		gradients: func(out, in []values, dy values) (grads, operands []values) {
			return []values{like(in[0])}, []values{in[0], in[1], append(values{}, out[1]...), dy}
		},
	}.check(t)
	l1 := device.SmoothL1Spec{Rows: 3, Columns: 4, Beta: 0.7}
	differentiable{
		forward:  func(d device.Device) (device.Kernel, error) { return d.SmoothL1(l1) },
		backward: func(d device.Device) (device.Kernel, error) { return d.SmoothL1Grad(l1) },
		out:      []operand{output()}, in: []operand{random(r, s...), random(r, s...), positive(r, s...)},
		wrt: []int{0},
		gradients: func(out, in []values, dy values) (grads, operands []values) {
			return []values{like(in[0])}, []values{in[0], in[1], in[2], dy}
		},
	}.check(t)
	refuses(t, dev, func(d device.Device) (device.Kernel, error) { return d.LabelLoss(device.Shape{3}) })
	refuses(t, dev, func(d device.Device) (device.Kernel, error) { return d.SmoothL1(device.SmoothL1Spec{}) })
}
