package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// rowsFunc is a kernel on matrices, one item a row of the result (or a group).
type rowsFunc struct {
	c     *CPU
	items int
	f     func(out, in []device.Buffer, item int)

	out, in []device.Buffer
}

func (k *rowsFunc) Scratch() int64 { return 0 }

func (k *rowsFunc) Run(out, in []device.Buffer, _ device.Buffer) {
	k.out, k.in = out, in
	k.c.pool.run(k.items, k)
	k.out, k.in = nil, nil
}

func (k *rowsFunc) do(_, item int) { k.f(k.out, k.in, item) }

// row is row i of a matrix.
func row(b device.Buffer, columns, i int) []float32 { return b.(Slice)[i*columns:][:columns] }

// addRow: y += x
func addRow(y, x []float32) {
	for i, v := range x {
		y[i] += v
	}
}

// GatherRows implements [device.Device].
func (c *CPU) GatherRows(s device.RowsSpec) (device.Kernel, error) {
	return &rowsFunc{c: c, items: s.Out, f: func(out, in []device.Buffer, i int) {
		copy(row(out[0], s.Columns, i), row(in[0], s.Columns, int(in[1].(Slice)[i])))
	}}, s.Check()
}

// ScatterRows implements [device.Device].
func (c *CPU) ScatterRows(s device.RowsSpec) (device.Kernel, error) {
	return &rowsFunc{c: c, items: s.In, f: func(out, in []device.Buffer, i int) {
		dx := row(out[0], s.Columns, i)
		clear(dx)
		for j, target := range in[1].(Slice)[:s.Out] {
			if int(target) == i {
				addRow(dx, row(in[0], s.Columns, j))
			}
		}
	}}, s.Check()
}

// MeanOfOthers implements [device.PuzzleKernels]. One row alone in its group gets zeros.
func (c *CPU) MeanOfOthers(s device.GroupSpec) (device.Kernel, error) {
	factor := 1 / float32(max(1, s.Rows-1))
	return &rowsFunc{c: c, items: s.Groups, f: func(out, in []device.Buffer, g int) {
		// The rows before a are summed on the way down, those after it on the way up: no row is
		// ever subtracted, so nothing cancels.
		first, last := g*s.Rows, (g+1)*s.Rows-1
		clear(row(out[0], s.Columns, first))
		for a := first; a < last; a++ {
			y, before, x := row(out[0], s.Columns, a+1), row(out[0], s.Columns, a), row(in[0], s.Columns, a)
			for j := range y {
				y[j] = before[j] + x[j]
			}
		}
		for j := range s.Columns {
			after := float32(0)
			for a := last; a >= first; a-- {
				y := &out[0].(Slice)[a*s.Columns+j]
				*y = (*y + after) * factor
				after += in[0].(Slice)[a*s.Columns+j]
			}
		}
	}}, s.Check()
}

// PairSum implements [device.PuzzleKernels].
func (c *CPU) PairSum(s device.GroupSpec) (device.Kernel, error) {
	return &rowsFunc{c: c, items: s.Groups * s.Rows, f: func(out, in []device.Buffer, i int) {
		a := row(in[0], s.Columns, i)
		for j := range s.Rows {
			y, b := row(out[0], s.Columns, i*s.Rows+j), row(in[1], s.Columns, i/s.Rows*s.Rows+j)
			for k := range y {
				y[k] = a[k] + b[k]
			}
		}
	}}, s.Check()
}

// PairSumGrad implements [device.PuzzleKernels].
func (c *CPU) PairSumGrad(s device.GroupSpec) (device.Kernel, error) {
	return &rowsFunc{c: c, items: s.Groups * s.Rows, f: func(out, in []device.Buffer, i int) {
		da, db := row(out[0], s.Columns, i), row(out[1], s.Columns, i)
		clear(da)
		clear(db)
		g, member := i/s.Rows, i%s.Rows
		for j := range s.Rows {
			addRow(da, row(in[0], s.Columns, i*s.Rows+j))
			addRow(db, row(in[0], s.Columns, (g*s.Rows+j)*s.Rows+member))
		}
	}}, s.Check()
}

// ColumnSumLoss implements [device.PuzzleKernels].
func (c *CPU) ColumnSumLoss(s device.GroupSpec) (device.Kernel, error) {
	return newColumnSum(s, false)
}

// ColumnSumLossGrad implements [device.PuzzleKernels].
func (c *CPU) ColumnSumLossGrad(s device.GroupSpec) (device.Kernel, error) {
	return newColumnSum(s, true)
}

// columnSum works on matrices of a few hundred elements.
type columnSum struct {
	s        device.GroupSpec
	backward bool
	p, sums  []float32
}

func newColumnSum(s device.GroupSpec, backward bool) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	return &columnSum{s: s, p: make([]float32, s.Rows*s.Columns), sums: make([]float32, s.Columns), backward: backward},
		nil
}

func (k *columnSum) Scratch() int64 { return 0 }

func (k *columnSum) Run(out, in []device.Buffer, _ device.Buffer) {
	weights, total := in[1].(Slice)[:k.s.Groups], float32(0)
	for _, w := range weights {
		total += w
	}
	loss := 0.0
	for g, w := range weights {
		if w == 0 { // total may be 0 too
			if k.backward {
				clear(out[0].(Slice)[g*k.s.Rows*k.s.Columns:][:k.s.Rows*k.s.Columns])
			}
			continue
		}
		clear(k.sums)
		for a := range k.s.Rows {
			p := k.p[a*k.s.Columns:][:k.s.Columns]
			softmaxRow(p, row(in[0], k.s.Columns, g*k.s.Rows+a))
			addRow(k.sums, p)
		}
		for _, sum := range k.sums {
			loss += float64(w/total) * float64(abs(sum-1))
		}
		if !k.backward {
			continue
		}
		for j, sum := range k.sums { // from here on the derivative by each sum
			k.sums[j] = in[2].(Slice)[0] * w / total
			if sum < 1 {
				k.sums[j] = -k.sums[j]
			}
		}
		for a := range k.s.Rows {
			softmaxGradRow(row(out[0], k.s.Columns, g*k.s.Rows+a), k.p[a*k.s.Columns:][:k.s.Columns], k.sums)
		}
	}
	if !k.backward {
		out[0].(Slice)[0] = float32(loss)
	}
}

func abs(x float32) float32 { return max(x, -x) }

// softmaxRow: p = softmax(x)
func softmaxRow(p, x []float32) {
	top := x[0]
	for _, v := range x {
		top = max(top, v)
	}
	total := float32(0)
	for i, v := range x {
		p[i] = exp(v - top)
		total += p[i]
	}
	for i := range p {
		p[i] /= total
	}
}

// softmaxGradRow: dx = p (dp - sum p dp)
func softmaxGradRow(dx, p, dp []float32) {
	dot := float32(0)
	for i, v := range p {
		dot += v * dp[i]
	}
	for i, v := range p {
		dx[i] = v * (dp[i] - dot)
	}
}
