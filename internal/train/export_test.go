package train

// SumInBF16 sums as the gradients of a run with reduce: bf16 are summed.
func (g Group) SumInBF16(values []float32) error {
	g.bf16 = true
	return g.sumGradient(values)
}
