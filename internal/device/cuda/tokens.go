//go:build gpu

package cuda

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

// attention is tokens.cu's Tokens.
type attention struct {
	Groups, Rows, Columns, Heads int32
	Scale                        float32
	Transposed                   int32
}

func attentionOf(s device.AttentionSpec, scale float64, transposed bool) attention {
	return attention{int32(s.Groups), int32(s.Rows), int32(s.Columns), int32(s.Heads), float32(scale), flag(transposed)}
}

// scores appends p = scale a b^T of each head.
func (k *kernel) scores(s device.AttentionSpec, scale float64, p, a, b operand) {
	k.launch("attentionScores", grid{blocksOf(weightsOf(s), 256), 1, 1}, 256, 0, attentionOf(s, scale, false), p, a, b)
}

// values appends y = scale p v of each head, or scale p^T v.
func (k *kernel) values(s device.AttentionSpec, scale float64, transposed bool, y, p, v operand) {
	k.launch("attentionValues", grid{blocksOf(s.Groups*s.Rows*s.Columns, 256), 1, 1}, 256, 0,
		attentionOf(s, scale, transposed), y, p, v)
}

// weightsOf is how many weights there are: one for each pair of tokens of each head.
func weightsOf(s device.AttentionSpec) int { return s.Groups * s.Heads * s.Rows * s.Rows }

// rootOf is 1 / sqrt(columns of a head).
func rootOf(s device.AttentionSpec) float64 { return 1 / math.Sqrt(float64(s.Columns/s.Heads)) }

// Attention implements [device.TokenKernels].
func (d *Device) Attention(s device.AttentionSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k, y, p := d.newKernel(), out(0), out(1)
	k.scores(s, rootOf(s), p, in(0), in(1))
	k.softmaxRows("softmax_f32", weightsOf(s)/s.Rows, s.Rows, p, p)
	k.values(s, 1, false, y, p, in(2))
	return k.done()
}

// AttentionGrad implements [device.TokenKernels]: with ds = softmaxGrad(p, dy v^T), dq = ds k and
// dk = ds^T q, both scaled, and dv = p^T dy.
func (d *Device) AttentionGrad(s device.AttentionSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	q, key, v, p, dy := in(0), in(1), in(2), in(3), in(4)
	k := d.newKernel()
	ds := k.scratch(4 * int64(weightsOf(s)))
	k.scores(s, 1, ds, dy, v)
	k.softmaxRows("softmaxGrad_f32", weightsOf(s)/s.Rows, s.Rows, ds, p, ds)
	k.values(s, rootOf(s), false, out(0), ds, key)
	k.values(s, rootOf(s), true, out(1), ds, q)
	k.values(s, 1, true, out(2), p, dy)
	return k.done()
}

// choiceNumbers is tokens.cu's Choice.
type choiceNumbers struct{ Rows, Columns, Stats int32 }

func choiceOf(s device.ChoiceSpec) choiceNumbers {
	return choiceNumbers{int32(s.Rows), int32(s.Columns), int32(s.Stats())}
}

// ChoiceLoss implements [device.TokenKernels].
func (d *Device) ChoiceLoss(s device.ChoiceSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k := d.newKernel()
	k.launch("choiceLoss", grid{1, 1, 1}, 256, 4*256, choiceOf(s), out(0), out(1), in(0), in(1))
	return k.done()
}

// ChoiceLossGrad implements [device.TokenKernels].
func (d *Device) ChoiceLossGrad(s device.ChoiceSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k := d.newKernel()
	k.launch("choiceLossGrad", grid{blocksOf(s.Rows, 256), 1, 1}, 256, 0, choiceOf(s), out(0), in(0), in(1), in(2),
		in(3))
	return k.done()
}
