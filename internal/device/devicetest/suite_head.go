package devicetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// MatMul checks products of both factors as they are and transposed.
func MatMul(t *testing.T, dev device.Device) {
	for _, size := range [][3]int{{1, 1, 1}, {3, 5, 2}, {27, 64, 33}, {8, 8, 4100}, {13, 70, 1025}, {300, 40, 17},
		{54, 27, 128}, {5, 1000, 48}, {2, 2100, 40}, {90, 2070, 1}} {
		for kind := range 8 {
			s := device.MatMulSpec{M: size[0], N: size[1], K: size[2], TransA: kind&1 != 0, TransB: kind&2 != 0,
				Bias: kind&4 != 0}
			t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
				r := newRand(uint64(kind))
				a, b := random(r, s.M, s.K), random(r, s.K, s.N)
				if s.TransA {
					a.shape = device.Shape{s.K, s.M}
				}
				if s.TransB {
					b.shape = device.Shape{s.N, s.K}
				}
				in := []operand{a, b}
				if s.Bias {
					in = append(in, random(r, s.N))
				}
				compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.MatMul(s) },
					[]operand{output(s.M, s.N)}, in)
			})
		}
	}
	refuses(t, dev,
		func(d device.Device) (device.Kernel, error) { return d.MatMul(device.MatMulSpec{M: 1, N: 0, K: 1}) })
}

// Softmax checks Softmax and SoftmaxGrad.
func Softmax(t *testing.T, dev device.Device) {
	for _, s := range append(shapes, device.Shape{1, 1}, device.Shape{3, 5}, device.Shape{27, 32}, manyClasses) {
		t.Run(fmt.Sprint([]int(s)), func(t *testing.T) {
			r := newRand(1)
			x := random(r, s...)
			for i := range x.data {
				x.data[i] *= float32(int(1) << (i % 8)) // logits up to some hundreds
			}
			compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.Softmax(tensorOf(dev, s)) },
				[]operand{output(s...)}, []operand{x})
			compare(t, dev, tight,
				func(d device.Device) (device.Kernel, error) { return d.SoftmaxGrad(tensorOf(dev, s)) },
				[]operand{output(s...)}, []operand{positive(r, s...), random(r, s...)})
		})
	}
	t.Run("gradients", func(t *testing.T) {
		s := device.Shape{2, 3, 2, 1, 2}
		differentiable{
			forward:  func(d device.Device) (device.Kernel, error) { return d.Softmax(device.Tensor{Shape: s}) },
			backward: func(d device.Device) (device.Kernel, error) { return d.SoftmaxGrad(device.Tensor{Shape: s}) },
			out:      []operand{output(s...)}, in: []operand{random(newRand(4), s...)}, wrt: []int{0},
			gradients: func(out, in []values, dy values) (grads, operands []values) {
				return []values{like(in[0])}, []values{append(values{}, out[0]...), dy}
			},
		}.check(t)
	})
	refuses(t, dev, func(d device.Device) (device.Kernel, error) {
		return d.Softmax(device.Tensor{Shape: device.Shape{2, 3, 4}})
	})
}

// manyClasses is as many as TotalSegmentator tells apart.
var manyClasses = device.Shape{1, 105, 3, 5, 7}

// Loss checks cross-entropy and soft Dice, alone and together, with voxels that do not count,
// classes that do not occur, and none that counts.
func Loss(t *testing.T, dev device.Device) {
	for _, shape := range append(shapes, device.Shape{1, 2}, device.Shape{54, 27}, device.Shape{2, 2, 11, 13, 9},
		manyClasses) {
		for kind := range 6 {
			s := device.LossSpec{Shape: shape, CE: float32(1 - kind%3), Dice: float32(kind % 3), Smooth: 1e-5,
				Background: kind%2 == 0 || shape[1] == 1, PerImage: kind > 2, Type: tensorOf(dev, shape).Type}
			t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
				r := newRand(uint64(kind))
				x := random(r, shape...)
				for i := range x.data {
					x.data[i] *= 3
				}
				lossKernels(t, dev, s, x, whole(r, -1, shape[1], targetShape(shape)...))
				lossKernels(t, dev, s, x, whole(r, -2, -1, targetShape(shape)...)) // none counts
			})
		}
	}
	t.Run("what does not count may be anything", func(t *testing.T) {
		for _, classes := range []int{1, 3, 17} {
			s := device.LossSpec{Shape: device.Shape{1, classes, 2, 3, 5}, CE: 1, Dice: 1, Smooth: 1, Background: true,
				Type: dev.Activations()}
			x, target := random(newRand(1), s.Shape...), whole(newRand(2), -1, classes, targetShape(s.Shape)...)
			odd := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}
			for i := range x.data {
				if v := i % s.Shape.Voxels(); target.data[v] < 0 {
					x.data[i] = odd[v%len(odd)]
				}
			}
			lossKernels(t, dev, s, x, target)
		}
	})
	t.Run("no such class", func(t *testing.T) {
		for _, classes := range []int{3, 17} {
			s := device.LossSpec{Shape: device.Shape{1, classes, 2, 2, 2}, CE: 1, Dice: 1, Smooth: 1,
				Type: dev.Activations()}
			for _, none := range []float64{float64(classes), 1e30, math.Inf(1), math.NaN()} {
				target := whole(newRand(1), 0, 2, targetShape(s.Shape)...)
				target.data[3] = float32(none)
				k := prepare(t, dev, func(d device.Device) (device.Kernel, error) { return d.Loss(s) },
					[]operand{output(), output(s.Stats())}, []operand{random(newRand(2), s.Shape...), target})
				k.run()
				if loss := download(t, dev, k.out[0], output()); loss[0] == loss[0] {
					t.Errorf("target %v of %d classes: loss %v, want NaN", none, classes, loss[0])
				}
			}
		}
	})
	t.Run("gradients", func(t *testing.T) {
		for _, s := range []device.LossSpec{{CE: 1, Background: true}, {Dice: 1, Smooth: 1},
			{CE: 0.5, Dice: 2, Smooth: 1e-3, PerImage: true, Background: true}} {
			s.Shape = device.Shape{2, 3, 2, 2, 3}
			r := newRand(1)
			differentiable{
				forward:  func(d device.Device) (device.Kernel, error) { return d.Loss(s) },
				backward: func(d device.Device) (device.Kernel, error) { return d.LossGrad(s) },
				out:      []operand{output(), output(s.Stats())},
				in:       []operand{random(r, s.Shape...), whole(r, -1, 3, targetShape(s.Shape)...)}, wrt: []int{0},
				gradients: func(out, in []values, dy values) (grads, operands []values) {
					return []values{like(in[0]), make(values, 3)}, []values{in[0], in[1], append(values{}, out[1]...),
						dy}
				},
			}.check(t)
		}
	})
	refuses(t, dev, func(d device.Device) (device.Kernel, error) {
		return d.Loss(device.LossSpec{Shape: device.Shape{1, 1, 2, 2, 2}, Dice: 1})
	})
}

// targetShape is the shape of the logits without their channels.
func targetShape(s device.Shape) device.Shape { return append(device.Shape{s[0]}, s[2:]...) }

func lossKernels(t *testing.T, dev device.Device, s device.LossSpec, x, target operand) {
	t.Helper()
	forward := func(d device.Device) (device.Kernel, error) { return d.Loss(s) }
	out := []operand{output(), output(s.Stats())}
	compare(t, dev, lossyTolerance, forward, out, []operand{x, target})
	reference := NewReference()
	f := prepare(t, reference, forward, out, []operand{x, target})
	f.run()
	stats := output(s.Stats())
	stats.data = download(t, reference, f.out[1], stats)
	dloss := operand{shape: device.Shape{}, data: []float32{0.7}}
	compare(t, dev, lossyTolerance, func(d device.Device) (device.Kernel, error) { return d.LossGrad(s) },
		[]operand{output(x.shape...), output(x.shape[1])}, []operand{x, target, stats, dloss})
}

// Rows checks what moves and mixes rows of features.
func Rows(t *testing.T, dev device.Device) {
	r := newRand(1)
	for _, s := range []device.RowsSpec{{In: 1, Out: 1, Columns: 1}, {In: 27, Out: 27, Columns: 33},
		{In: 5, Out: 12, Columns: 16}, {In: 9, Out: 3, Columns: 100},
		{In: 9, Out: 1030, Columns: 12}} {
		index := whole(r, 0, s.In, s.Out)
		compare(t, dev, 0, func(d device.Device) (device.Kernel, error) { return d.GatherRows(s) },
			[]operand{output(s.Out, s.Columns)}, []operand{random(r, s.In, s.Columns), index})
		compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.ScatterRows(s) },
			[]operand{output(s.In, s.Columns)}, []operand{random(r, s.Out, s.Columns), index})
	}
	for _, s := range []device.GroupSpec{{Groups: 1, Rows: 1, Columns: 3}, {Groups: 1, Rows: 2, Columns: 1},
		{Groups: 3, Rows: 8, Columns: 33}, {Groups: 2, Rows: 27, Columns: 27}} {
		n := s.Groups * s.Rows
		x, pairs := random(r, n, s.Columns), random(r, n*s.Rows, s.Columns)
		compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.MeanOfOthers(s) },
			[]operand{output(n, s.Columns)}, []operand{x})
		compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.PairSum(s) },
			[]operand{output(n*s.Rows, s.Columns)}, []operand{x, random(r, n, s.Columns)})
		compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.PairSumGrad(s) },
			[]operand{output(n, s.Columns), output(n, s.Columns)}, []operand{pairs})
	}
	// as many rows as columns: some sums are above 1, some below
	for _, s := range []device.GroupSpec{{Groups: 1, Rows: 2, Columns: 2}, {Groups: 3, Rows: 8, Columns: 8},
		{Groups: 2, Rows: 27, Columns: 27}} {
		n := s.Groups * s.Rows
		x := random(r, n, s.Columns)
		// groups of weight 0 do not count, and where none does the loss is 0
		none, some := whole(r, 0, 1, s.Groups), positive(r, s.Groups)
		some.data[0] = 0
		for _, w := range []operand{none, whole(r, 1, 2, s.Groups), some} {
			compare(t, dev, lossyTolerance,
				func(d device.Device) (device.Kernel, error) { return d.ColumnSumLoss(s) },
				[]operand{output()}, []operand{x, w})
			compare(t, dev, lossyTolerance,
				func(d device.Device) (device.Kernel, error) { return d.ColumnSumLossGrad(s) },
				[]operand{output(n, s.Columns)}, []operand{x, w, random(r)})
		}
	}
	t.Run("gradients", func(t *testing.T) {
		rows, s := device.RowsSpec{In: 4, Out: 6, Columns: 3}, device.GroupSpec{Groups: 2, Rows: 3, Columns: 4}
		differentiable{
			forward:  func(d device.Device) (device.Kernel, error) { return d.GatherRows(rows) },
			backward: func(d device.Device) (device.Kernel, error) { return d.ScatterRows(rows) },
			out:      []operand{output(6, 3)}, in: []operand{random(r, 4, 3), whole(r, 0, 4, 6)}, wrt: []int{0},
			gradients: func(out, in []values, dy values) (grads, operands []values) {
				return []values{like(in[0])}, []values{dy, in[1]}
			},
		}.check(t)
		differentiable{
			forward:  func(d device.Device) (device.Kernel, error) { return d.MeanOfOthers(s) },
			backward: func(d device.Device) (device.Kernel, error) { return d.MeanOfOthers(s) },
			out:      []operand{output(6, 4)}, in: []operand{random(r, 6, 4)}, wrt: []int{0},
			gradients: func(out, in []values, dy values) (grads, operands []values) {
				return []values{like(in[0])}, []values{dy}
			},
		}.check(t)
		differentiable{
			forward:  func(d device.Device) (device.Kernel, error) { return d.PairSum(s) },
			backward: func(d device.Device) (device.Kernel, error) { return d.PairSumGrad(s) },
			out:      []operand{output(18, 4)}, in: []operand{random(r, 6, 4), random(r, 6, 4)}, wrt: []int{0, 1},
			gradients: func(out, in []values, dy values) (grads, operands []values) {
				return []values{like(in[0]), like(in[1])}, []values{dy}
			},
		}.check(t)
		differentiable{
			forward: func(d device.Device) (device.Kernel, error) { return d.ColumnSumLoss(s) },
			backward: func(d device.Device) (device.Kernel, error) {
				return d.ColumnSumLossGrad(s)
			},
			out: []operand{output()}, in: []operand{random(r, 6, 4), positive(r, 2)}, wrt: []int{0},
			gradients: func(out, in []values, dy values) (grads, operands []values) {
				return []values{like(in[0])}, []values{in[0], in[1], dy}
			},
		}.check(t)
	})
	refuses(t, dev, func(d device.Device) (device.Kernel, error) { return d.GatherRows(device.RowsSpec{}) })
	refuses(t, dev, func(d device.Device) (device.Kernel, error) {
		return d.ColumnSumLoss(device.GroupSpec{Rows: -1})
	})
}

// together checks what is done for many parameters at once, where the device has it: more than a
// launch holds, of one element to several blocks, and each to the bit as apart.
func together(t *testing.T, dev device.Device) {
	grouper, ok := dev.(device.StepGrouper)
	if !ok {
		return
	}
	n := []int{1, 5, 4096, 4097, 16, 3, 20000, 1, 2, 8192, 8193, 64, 7, 1000, 33, 4095, 9001, 12, 1, 5000}
	r := newRand(2)
	var sums, steps, gradients, in []operand
	for i, size := range n {
		g := random(r, size)
		hyper := operand{shape: device.Shape{4}, data: []float32{0.01, 0.9, 1e-4, float32(i) / 10}}
		sums, steps = append(sums, output()), append(steps, random(r, size), random(r, size))
		gradients, in = append(gradients, g), append(in, g, hyper)
	}
	squares := prepare(t, dev, func(device.Device) (device.Kernel, error) { return grouper.SumSquaresOfAll(n) }, sums,
		gradients)
	squares.run()
	all := prepare(t, dev, func(device.Device) (device.Kernel, error) { return grouper.SGDOfAll(n) }, steps, in)
	all.run()
	for i, size := range n {
		one := prepare(t, dev, func(device.Device) (device.Kernel, error) { return dev.SumSquares(size) }, sums[i:i+1],
			gradients[i:i+1])
		one.run()
		if !slices.Equal(download(t, dev, one.out[0], sums[i]), download(t, dev, squares.out[i], sums[i])) {
			t.Errorf("tensor %d of many: another sum of squares than alone", i)
		}
		step := prepare(t, dev, func(device.Device) (device.Kernel, error) { return dev.SGD(size) }, steps[2*i:2*i+2],
			in[2*i:2*i+2])
		step.run()
		for k, o := range steps[2*i : 2*i+2] {
			if !slices.Equal(download(t, dev, step.out[k], o), download(t, dev, all.out[2*i+k], o)) {
				t.Errorf("tensor %d of many: another step than alone", i)
			}
		}
	}
}

// Optimiser checks the steps of the optimisers and what they need.
func Optimiser(t *testing.T, dev device.Device) {
	r := newRand(1)
	decisions(t, dev)
	together(t, dev)
	for _, n := range []int{1, 16, 1000, 40000} {
		x := random(r, n)
		compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.SumSquares(n) },
			[]operand{output()}, []operand{x})
		hyper := operand{shape: device.Shape{4}, data: []float32{0.01, 0.9, 1e-4, 0.5}}
		sgd := func(d device.Device) (device.Kernel, error) { return d.SGD(n) }
		compare(t, dev, tight, sgd, []operand{random(r, n), random(r, n)}, []operand{x, hyper})
		nothing := operand{shape: device.Shape{4}, data: []float32{0, 1, 0, 0}}
		// the gradient is NaN
		compare(t, dev, 0, sgd, []operand{random(r, n), random(r, n)}, []operand{{shape: device.Shape{n}}, nothing})

		adamW := func(d device.Device) (device.Kernel, error) { return d.AdamW(n) }
		hyper = operand{shape: device.Shape{8}, data: []float32{0.01, 0.1, 0.001, 1e-8, 0.05, 0.5, 1 - 0.9*0.9,
			1 - 0.999*0.999}}
		compare(t, dev, tight, adamW, []operand{random(r, n), random(r, n), positive(r, n)}, []operand{x, hyper})
		frozen := operand{shape: device.Shape{8}, data: []float32{0, 0.1, 0.001, 1e-8, 0.05, 0.5, 0.1, 0.001}}
		compare(t, dev, 0, adamW, []operand{random(r, n), random(r, n), positive(r, n)},
			[]operand{{shape: device.Shape{n}}, frozen})

		compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.Average(n) },
			[]operand{random(r, n)}, []operand{x, {shape: device.Shape{1}, data: []float32{0.01}}})
		compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.AddWeights(n) },
			[]operand{output(n)}, []operand{x, random(r, n)})
	}
}
