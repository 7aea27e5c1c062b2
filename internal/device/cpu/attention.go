package cpu

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Attention implements [device.TokenKernels]. A puzzle has some dozen tokens, so one head of one
// group is an item, and its matrices stay in the caches.
func (c *CPU) Attention(s device.AttentionSpec) (device.Kernel, error) {
	return &rowsFunc{c: c, items: s.Groups * s.Heads, f: func(out, in []device.Buffer, item int) {
		a := attention{s, item / s.Heads, item % s.Heads}
		for i := range s.Rows {
			p, q, y := a.weights(out[1], i), a.token(in[0], i), a.token(out[0], i)
			for j := range p {
				p[j] = a.scale() * dot(q, a.token(in[1], j))
			}
			softmaxRow(p, p)
			clear(y)
			for j, w := range p {
				addScaled(y, a.token(in[2], j), w)
			}
		}
	}}, s.Check()
}

// AttentionGrad implements [device.TokenKernels]: with ds = softmaxGrad(p, dy v^T),
//
//	dq = ds k / sqrt(d)        dk = ds^T q / sqrt(d)        dv = p^T dy
func (c *CPU) AttentionGrad(s device.AttentionSpec) (device.Kernel, error) {
	return &attentionGrad{rowsFunc: rowsFunc{c: c, items: s.Groups * s.Heads}, s: s}, s.Check()
}

// attentionGrad keeps ds of one row of tokens a worker in scratch memory.
type attentionGrad struct {
	rowsFunc
	s       device.AttentionSpec
	scratch Slice
}

func (k *attentionGrad) Scratch() int64 { return bytesOf(k.c.Threads() * aligned(k.s.Rows)) }

func (k *attentionGrad) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.out, k.in, k.scratch = out, in, scratch.(Slice)
	k.c.pool.run(k.items, k)
	k.out, k.in, k.scratch = nil, nil, nil
}

func (k *attentionGrad) do(worker, item int) {
	a := attention{k.s, item / k.s.Heads, item % k.s.Heads}
	ds := k.scratch[worker*aligned(k.s.Rows):][:k.s.Rows]
	for i := range k.s.Rows {
		clear(a.token(k.out[1], i))
		clear(a.token(k.out[2], i))
	}
	for i := range k.s.Rows {
		p, q, dy, dq := a.weights(k.in[3], i), a.token(k.in[0], i), a.token(k.in[4], i), a.token(k.out[0], i)
		for j := range ds {
			ds[j] = dot(dy, a.token(k.in[2], j))
		}
		softmaxGradRow(ds, p, ds)
		clear(dq)
		for j, d := range ds {
			d *= a.scale()
			addScaled(dq, a.token(k.in[1], j), d)
			addScaled(a.token(k.out[1], j), q, d)
			addScaled(a.token(k.out[2], j), dy, p[j])
		}
	}
}

// attention is one head of one group.
type attention struct {
	s           device.AttentionSpec
	group, head int
}

// token is the head's columns of a token of the group.
func (a attention) token(b device.Buffer, i int) []float32 {
	d := a.s.Columns / a.s.Heads
	return row(b, a.s.Columns, a.group*a.s.Rows+i)[a.head*d:][:d]
}

// weights are how much token i attends to each token of the group.
func (a attention) weights(b device.Buffer, i int) []float32 {
	return row(b, a.s.Rows, (a.group*a.s.Heads+a.head)*a.s.Rows+i)
}

func (a attention) scale() float32 { return float32(1 / math.Sqrt(float64(a.s.Columns/a.s.Heads))) }

// addScaled: y += factor x
func addScaled(y, x []float32, factor float32) {
	for i, v := range x {
		y[i] += factor * v
	}
}

// ChoiceLoss implements [device.TokenKernels].
func (c *CPU) ChoiceLoss(s device.ChoiceSpec) (device.Kernel, error) {
	return rowLoss(func(out, in []device.Buffer) {
		sum, count := 0.0, 0
		for i := range s.Rows {
			x, right := row(in[0], s.Columns, i), row(in[1], s.Columns, i)
			if among := logSum(x, right); !math.IsInf(among, -1) {
				sum += logSum(x, nil) - among
				count++
			}
		}
		stats := out[1].(Slice)[:s.Stats()]
		clear(stats)
		stats[0], stats[2] = float32(sum/float64(max(1, count))), float32(count)
		out[0].(Slice)[0] = stats[0]
	}), s.Check()
}

// ChoiceLossGrad implements [device.TokenKernels]: a row's gradient is its softmax over all answers
// minus that over the right ones alone.
func (c *CPU) ChoiceLossGrad(s device.ChoiceSpec) (device.Kernel, error) {
	return rowLoss(func(out, in []device.Buffer) {
		factor := float64(in[3].(Slice)[0]) / float64(max(1, in[2].(Slice)[2]))
		for i := range s.Rows {
			dx, x, right := row(out[0], s.Columns, i), row(in[0], s.Columns, i), row(in[1], s.Columns, i)
			clear(dx)
			among := logSum(x, right)
			if math.IsInf(among, -1) {
				continue
			}
			all := logSum(x, nil)
			for c, v := range x {
				d := math.Exp(float64(v) - all)
				if right[c] != 0 {
					d -= math.Exp(float64(v) - among)
				}
				dx[c] = float32(factor * d)
			}
		}
	}), s.Check()
}

// logSum is ln sum of exp(x) over the answers that are right, or over all if right is nil; -Inf
// where there is none. A NaN among them makes it NaN.
func logSum(x, right []float32) float64 {
	top, sum := math.Inf(-1), 0.0
	counts := func(c int) bool { return right == nil || right[c] != 0 }
	found := false
	for c, v := range x {
		if counts(c) {
			top, found = max(top, float64(v)), true
		}
	}
	if !found {
		return top
	}
	for c, v := range x {
		if counts(c) {
			sum += math.Exp(float64(v) - top)
		}
	}
	return top + math.Log(sum)
}
