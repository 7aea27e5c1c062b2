package devicetest

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

func (reference) MatMul(s device.MatMulSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		for i := range s.M {
			for j := range s.N {
				sum := 0.0
				if s.Bias {
					sum = in[2][j]
				}
				for k := range s.K {
					a, b := i*s.K+k, k*s.N+j
					if s.TransA {
						a = k*s.M + i
					}
					if s.TransB {
						b = j*s.K + k
					}
					sum += in[0][a] * in[1][b]
				}
				out[0][i*s.N+j] = sum
			}
		}
	}), s.Check()
}

// softmax returns the probabilities of voxel v of image n of x.
func softmax(x values, s device.Shape, n, v int) values {
	p := make(values, s[1])
	top, sum := math.Inf(-1), 0.0
	for c := range p {
		p[c] = x[(n*s[1]+c)*s.Voxels()+v]
		top = max(top, p[c])
	}
	for c := range p {
		p[c] = math.Exp(p[c] - top)
		sum += p[c]
	}
	for c := range p {
		p[c] /= sum
	}
	return p
}

// softmaxGrad turns the gradient of the probabilities p into that of the logits: p (dp - sum dp p).
func softmaxGrad(p, dp values) values {
	dot := 0.0
	for c := range p {
		dot += p[c] * dp[c]
	}
	dx := make(values, len(p))
	for c := range p {
		dx[c] = p[c] * (dp[c] - dot)
	}
	return dx
}

func (reference) Softmax(t device.Tensor) (device.Kernel, error) {
	s := t.Shape
	return kernel(func(out, in []values) {
		for n := range s[0] {
			for v := range s.Voxels() {
				for c, p := range softmax(in[0], s, n, v) {
					out[0][(n*s[1]+c)*s.Voxels()+v] = p
				}
			}
		}
	}), t.Check()
}

func (reference) SoftmaxGrad(t device.Tensor) (device.Kernel, error) {
	s := t.Shape
	return kernel(func(out, in []values) {
		p, dp := make(values, s[1]), make(values, s[1])
		for n := range s[0] {
			for v := range s.Voxels() {
				for c := range p {
					i := (n*s[1]+c)*s.Voxels() + v
					p[c], dp[c] = in[0][i], in[1][i]
				}
				for c, dx := range softmaxGrad(p, dp) {
					out[0][(n*s[1]+c)*s.Voxels()+v] = dx
				}
			}
		}
	}), t.Check()
}

func (reference) GatherRows(s device.RowsSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		for i := range s.Out {
			copy(out[0][i*s.Columns:][:s.Columns], in[0][int(in[1][i])*s.Columns:])
		}
	}), s.Check()
}

func (reference) ScatterRows(s device.RowsSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		clear(out[0])
		for i := range s.Out {
			for j := range s.Columns {
				out[0][int(in[1][i])*s.Columns+j] += in[0][i*s.Columns+j]
			}
		}
	}), s.Check()
}

func (reference) MeanOfOthers(s device.GroupSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		clear(out[0])
		for g := range s.Groups {
			for a := range s.Rows {
				for b := range s.Rows {
					for j := range s.Columns {
						if a != b {
							out[0][(g*s.Rows+a)*s.Columns+j] += in[0][(g*s.Rows+b)*s.Columns+j] / float64(s.Rows-1)
						}
					}
				}
			}
		}
	}), s.Check()
}

// eachPair calls f with the indices of the elements of y, a and b in y[g,i,j] = a[g,i] + b[g,j].
func eachPair(s device.GroupSpec, f func(iy, ia, ib int)) {
	iy := 0
	for g := range s.Groups {
		for i := range s.Rows {
			for j := range s.Rows {
				for k := range s.Columns {
					f(iy, (g*s.Rows+i)*s.Columns+k, (g*s.Rows+j)*s.Columns+k)
					iy++
				}
			}
		}
	}
}

func (reference) PairSum(s device.GroupSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		eachPair(s, func(iy, ia, ib int) { out[0][iy] = in[0][ia] + in[1][ib] })
	}), s.Check()
}

func (reference) PairSumGrad(s device.GroupSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		clear(out[0])
		clear(out[1])
		eachPair(s, func(iy, ia, ib int) {
			out[0][ia] += in[0][iy]
			out[1][ib] += in[0][iy]
		})
	}), s.Check()
}

// columnSums returns the softmax of every row of u and, for each group, the sums of its columns.
func columnSums(s device.GroupSpec, u values) (p []values, sums []values) {
	for row := range s.Groups * s.Rows {
		p = append(p, softmax(u, device.Shape{s.Groups * s.Rows, s.Columns}, row, 0))
		if row%s.Rows == 0 {
			sums = append(sums, make(values, s.Columns))
		}
		for c, x := range p[row] {
			sums[row/s.Rows][c] += x
		}
	}
	return p, sums
}

// shares are weights divided by their sum, zeros if that is zero.
func shares(weights values) values {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	s := make(values, len(weights))
	for i, w := range weights {
		if total > 0 {
			s[i] = w / total
		}
	}
	return s
}

func (reference) ColumnSumLoss(s device.GroupSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		out[0][0] = 0
		_, sums := columnSums(s, in[0])
		for g, share := range shares(in[1]) {
			for _, sum := range sums[g] {
				out[0][0] += math.Abs(sum-1) * share
			}
		}
	}), s.Check()
}

func (reference) ColumnSumLossGrad(s device.GroupSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		p, sums := columnSums(s, in[0])
		dp, share := make(values, s.Columns), shares(in[1])
		for row := range p {
			for c, sum := range sums[row/s.Rows] {
				dp[c] = in[2][0] * share[row/s.Rows]
				if sum < 1 {
					dp[c] = -dp[c]
				}
			}
			copy(out[0][row*s.Columns:], softmaxGrad(p[row], dp))
		}
	}), s.Check()
}
