package device

import "fmt"

// TokenKernels are what a head over the tokens of patches needs.
type TokenKernels interface {
	// Attention is y (Groups*Rows, Columns), p (Groups*Heads*Rows, Rows) <- q, k, v, all of y's
	// shape: see AttentionSpec.
	Attention(AttentionSpec) (Kernel, error)
	// AttentionGrad is dq, dk, dv <- q, k, v, p, dy.
	AttentionGrad(AttentionSpec) (Kernel, error)
	// ChoiceLoss is loss (), stats (ChoiceSpec.Stats()) <- logits (Rows, Columns), right (Rows,
	// Columns): see ChoiceSpec.
	ChoiceLoss(ChoiceSpec) (Kernel, error)
	// ChoiceLossGrad is dlogits <- logits, right, stats, dloss ().
	ChoiceLossGrad(ChoiceSpec) (Kernel, error)
}

// AttentionSpec is scaled dot-product attention (Vaswani et al. 2017, section 3.2) within each of
// Groups groups of Rows tokens. The Columns of a token are divided over Heads, which know nothing
// of one another. For the columns of one head of one group, with d = Columns / Heads,
//
//	p = softmax(q k^T / sqrt(d))        y = p v
//
// softmax over the rows of the matrix. Tokens have no order: permuting those of a group permutes y.
type AttentionSpec struct{ Groups, Rows, Columns, Heads int }

// Check says what is wrong with the spec, nil if nothing is.
func (s AttentionSpec) Check() error {
	if min(s.Groups, s.Rows, s.Columns, s.Heads) < 1 || s.Columns%s.Heads != 0 {
		return fmt.Errorf("attention over %d groups of %d tokens of %d columns with %d heads: all must be at "+
			"least 1, and heads must divide the columns", s.Groups, s.Rows, s.Columns, s.Heads)
	}
	return nil
}

// ChoiceSpec is the cross-entropy of rows of logits that may have several right answers: right is 1
// for those, 0 for the others. A row without a right answer does not count. The loss is the mean
// over the rows that count, 0 where none does, of
//
//	-ln sum over the right answers c of softmax(logits)[c]
//
// With one right answer a row it is the cross-entropy of [LossSpec].
type ChoiceSpec struct{ Rows, Columns int }

// Check says what is wrong with the spec, nil if nothing is.
func (s ChoiceSpec) Check() error { return Shape{s.Rows, s.Columns}.CheckMatrix() }

// Loss is the loss whose statistics those of a choice are: the cross-entropy and the rows that
// count, and no sums of classes.
func (s ChoiceSpec) Loss() LossSpec { return LossSpec{Shape: Shape{1, 1}, CE: 1, Smooth: 1} }

// Stats is the number of float32 that the forward kernel leaves for the backward one, as
// [LossSpec.Stats] says: the loss, 0, the count of rows, zeros.
func (s ChoiceSpec) Stats() int { return s.Loss().Stats() }
