package devicetest

import (
	"fmt"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Tokens checks attention and the loss with several right answers.
func Tokens(t *testing.T, dev device.Device) {
	for _, size := range [][4]int{{1, 1, 1, 1}, {2, 3, 4, 2}, {1, 27, 32, 1}, {3, 19, 24, 4}, {2, 64, 16, 16}} {
		s := device.AttentionSpec{Groups: size[0], Rows: size[1], Columns: size[2], Heads: size[3]}
		t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) { attentionKernels(t, dev, s) })
	}
	for _, s := range []device.ChoiceSpec{{Rows: 1, Columns: 1}, {Rows: 3, Columns: 5}, {Rows: 54, Columns: 27}} {
		t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) { choiceKernels(t, dev, s) })
	}
	t.Run("gradients", tokenGradients)
	refuses(t, dev, func(d device.Device) (device.Kernel, error) {
		return d.Attention(device.AttentionSpec{Groups: 1, Rows: 2, Columns: 5, Heads: 2})
	})
	refuses(t, dev, func(d device.Device) (device.Kernel, error) {
		return d.ChoiceLoss(device.ChoiceSpec{Rows: 3})
	})
}

func attentionKernels(t *testing.T, dev device.Device, s device.AttentionSpec) {
	r := newRand(1)
	shape := device.Shape{s.Groups * s.Rows, s.Columns}
	q, k, v := random(r, shape...), random(r, shape...), random(r, shape...)
	for i := range q.data {
		q.data[i] *= 4 // some weights near 1
	}
	weights := output(s.Groups*s.Heads*s.Rows, s.Rows)
	forward := func(d device.Device) (device.Kernel, error) { return d.Attention(s) }
	compare(t, dev, lossyTolerance, forward, []operand{output(shape...), weights}, []operand{q, k, v})
	reference := NewReference()
	f := prepare(t, reference, forward, []operand{output(shape...), weights}, []operand{q, k, v})
	f.run()
	p := output(weights.shape...)
	p.data = download(t, reference, f.out[1], p)
	backward := func(d device.Device) (device.Kernel, error) { return d.AttentionGrad(s) }
	compare(t, dev, lossyTolerance, backward, []operand{output(shape...), output(shape...), output(shape...)},
		[]operand{q, k, v, p, random(r, shape...)})
}

func choiceKernels(t *testing.T, dev device.Device, s device.ChoiceSpec) {
	r := newRand(2)
	x := random(r, s.Rows, s.Columns)
	for _, right := range []operand{whole(r, 0, 2, s.Rows, s.Columns), whole(r, 1, 2, s.Rows, s.Columns),
		whole(r, 0, 1, s.Rows, s.Columns)} {
		forward := func(d device.Device) (device.Kernel, error) { return d.ChoiceLoss(s) }
		out := []operand{output(), output(s.Stats())}
		compare(t, dev, lossyTolerance, forward, out, []operand{x, right})
		reference := NewReference()
		f := prepare(t, reference, forward, out, []operand{x, right})
		f.run()
		stats := output(s.Stats())
		stats.data = download(t, reference, f.out[1], stats)
		backward := func(d device.Device) (device.Kernel, error) { return d.ChoiceLossGrad(s) }
		compare(t, dev, lossyTolerance, backward, []operand{output(s.Rows, s.Columns)},
			[]operand{x, right, stats, random(r)})
	}
}

// tokenGradients holds the naive loops against difference quotients.
func tokenGradients(t *testing.T) {
	r := newRand(3)
	a, c := device.AttentionSpec{Groups: 2, Rows: 3, Columns: 4, Heads: 2}, device.ChoiceSpec{Rows: 4, Columns: 5}
	differentiable{
		forward:  func(d device.Device) (device.Kernel, error) { return d.Attention(a) },
		backward: func(d device.Device) (device.Kernel, error) { return d.AttentionGrad(a) },
		out:      []operand{output(6, 4), output(12, 3)}, in: []operand{random(r, 6, 4), random(r, 6, 4),
			random(r, 6, 4)}, wrt: []int{0, 1, 2},
		gradients: func(out, in []values, dy values) (grads, operands []values) {
			return []values{like(in[0]), like(in[1]), like(in[2])}, []values{in[0], in[1], in[2],
				append(values{}, out[1]...), dy}
		},
	}.check(t)
	differentiable{
		forward:  func(d device.Device) (device.Kernel, error) { return d.ChoiceLoss(c) },
		backward: func(d device.Device) (device.Kernel, error) { return d.ChoiceLossGrad(c) },
		out:      []operand{output(), output(c.Stats())}, in: []operand{random(r, 4, 5), whole(r, 0, 2, 4, 5)},
		wrt: []int{0},
		gradients: func(out, in []values, dy values) (grads, operands []values) {
			return []values{like(in[0])}, []values{in[0], in[1], append(values{}, out[1]...), dy}
		},
	}.check(t)
}
