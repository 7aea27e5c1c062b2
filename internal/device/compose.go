package device

import "math"

// composed computes what only puzzles need by the kernels that every device has. It takes several
// passes over memory where a kernel of the device's own takes one.
type composed struct{ d Device }

// IsComposed says whether a kernel is composed of others: then a run allocates a little.
func IsComposed(k Kernel) bool {
	switch k.(type) {
	case *chain, *hostColumnSum:
		return true
	}
	return false
}

// A chain is a kernel of several others, which hand each other their results in scratch memory.
type chain struct {
	d       Device
	links   []link
	sizes   []int64 // of the intermediate tensors
	own     []Buffer
	scratch int64 // of the links, after the intermediate tensors
}

// A link is one kernel of a chain. Operands are numbered: from 0 on the chain's own operands; from
// inner on the intermediate tensors; from constant on the chain's constants.
type link struct {
	kernel  Kernel
	out, in []int
}

const inner, constant = 100, 200

// newChain sums up the memory that the links need. Constants are uploaded once.
func newChain(d Device, links []link, sizes []int64, constants ...[]float32) (Kernel, error) {
	c := &chain{d: d, links: links, sizes: sizes}
	for _, l := range links {
		c.scratch = max(c.scratch, l.kernel.Scratch())
	}
	for _, values := range constants {
		b, err := d.Alloc(4 * int64(len(values)))
		if err == nil {
			err = d.UploadPlain(b, 0, values)
		}
		if err != nil {
			return nil, err
		}
		c.own = append(c.own, b)
	}
	return c, nil
}

// aligned is the next multiple of the device's alignment.
func (c *chain) aligned(bytes int64) int64 {
	a := c.d.Alignment()
	return (bytes + a - 1) / a * a
}

// Scratch implements [Kernel].
func (c *chain) Scratch() int64 {
	n := c.scratch
	for _, size := range c.sizes {
		n += c.aligned(size)
	}
	return n
}

// Run implements [Kernel].
func (c *chain) Run(out, in []Buffer, scratch Buffer) {
	offset := int64(0)
	between := make([]Buffer, len(c.sizes))
	for i, size := range c.sizes {
		between[i] = c.d.View(scratch, offset, size)
		offset += c.aligned(size)
	}
	rest := c.d.View(scratch, offset, c.scratch)
	pick := func(own []Buffer, numbers []int) []Buffer {
		list := make([]Buffer, len(numbers))
		for i, n := range numbers {
			switch {
			case n >= constant:
				list[i] = c.own[n-constant]
			case n >= inner:
				list[i] = between[n-inner]
			default:
				list[i] = own[n]
			}
		}
		return list
	}
	for _, l := range c.links {
		l.kernel.Run(pick(out, l.out), pick(in, l.in), rest)
	}
}

// Close gives the constants back.
func (c *chain) Close() {
	for _, b := range c.own {
		c.d.Free(b)
	}
	c.own = nil
}

// makers makes several kernels and keeps the first error.
type makers struct{ err error }

func (m *makers) make(k Kernel, err error) Kernel {
	if m.err == nil {
		m.err = err
	}
	return k
}

// numbers is f(0), f(1), ..., f(n-1).
func numbers(n int, f func(i int) int) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(f(i))
	}
	return list
}

// MeanOfOthers implements [PuzzleKernels]: (sum of the group - x) / (rows - 1).
func (c composed) MeanOfOthers(s GroupSpec) (Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	rows := s.Groups * s.Rows
	all := Tensor{Shape: Shape{rows, s.Columns}}
	var m makers
	sum := m.make(c.d.ScatterRows(RowsSpec{In: s.Groups, Out: rows, Columns: s.Columns}))
	spread := m.make(c.d.GatherRows(RowsSpec{In: s.Groups, Out: rows, Columns: s.Columns}))
	negative := m.make(c.d.Scale(all, -1))
	add := m.make(c.d.Add(all))
	mean := m.make(c.d.Scale(all, 1/float32(max(1, s.Rows-1))))
	if m.err != nil {
		return nil, m.err
	}
	sums, size := c.d.Size(Tensor{Shape: Shape{s.Groups, s.Columns}}), c.d.Size(all)
	return newChain(c.d, []link{
		{sum, []int{inner}, []int{0, constant}},
		{spread, []int{inner + 1}, []int{inner, constant}},
		{negative, []int{inner + 2}, []int{0}},
		{add, []int{inner + 1}, []int{inner + 1, inner + 2}},
		{mean, []int{0}, []int{inner + 1}},
	}, []int64{sums, size, size}, numbers(rows, func(i int) int { return i / s.Rows }))
}

// pairIndices are the row of a, and that of b, of every row of a pair sum.
func (s GroupSpec) pairIndices() (a, b []float32) {
	n := s.Groups * s.Rows * s.Rows
	a = numbers(n, func(i int) int { return i / s.Rows })
	b = numbers(n, func(i int) int { return i/(s.Rows*s.Rows)*s.Rows + i%s.Rows })
	return a, b
}

// PairSum implements [PuzzleKernels].
func (c composed) PairSum(s GroupSpec) (Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	rows := RowsSpec{In: s.Groups * s.Rows, Out: s.Groups * s.Rows * s.Rows, Columns: s.Columns}
	y := Tensor{Shape: Shape{rows.Out, s.Columns}}
	var m makers
	first, second := m.make(c.d.GatherRows(rows)), m.make(c.d.GatherRows(rows))
	add := m.make(c.d.Add(y))
	if m.err != nil {
		return nil, m.err
	}
	a, b := s.pairIndices()
	return newChain(c.d, []link{
		{first, []int{inner}, []int{0, constant}},
		{second, []int{inner + 1}, []int{1, constant + 1}},
		{add, []int{0}, []int{inner, inner + 1}},
	}, []int64{c.d.Size(y), c.d.Size(y)}, a, b)
}

// PairSumGrad implements [PuzzleKernels].
func (c composed) PairSumGrad(s GroupSpec) (Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	rows := RowsSpec{In: s.Groups * s.Rows, Out: s.Groups * s.Rows * s.Rows, Columns: s.Columns}
	var m makers
	first, second := m.make(c.d.ScatterRows(rows)), m.make(c.d.ScatterRows(rows))
	if m.err != nil {
		return nil, m.err
	}
	a, b := s.pairIndices()
	return newChain(c.d, []link{{first, []int{0}, []int{0, constant}}, {second, []int{1}, []int{0, constant + 1}}}, nil,
		a, b)
}

// ColumnSumLoss implements [PuzzleKernels].
func (c composed) ColumnSumLoss(s GroupSpec) (Kernel, error) {
	return &hostColumnSum{d: c.d, s: s}, s.Check()
}

// ColumnSumLossGrad implements [PuzzleKernels].
func (c composed) ColumnSumLossGrad(s GroupSpec) (Kernel, error) {
	return &hostColumnSum{d: c.d, s: s, backward: true}, s.Check()
}

// hostColumnSum computes the column-sum loss on the host: its division by a sum of weights is
// nothing that the other kernels have, and its matrices are small.
type hostColumnSum struct {
	d        Device
	s        GroupSpec
	backward bool
	failed   error // kept for the next run: it leaves NaN, which nobody takes for a result
}

// Scratch implements [Kernel].
func (k *hostColumnSum) Scratch() int64 { return 0 }

// Run implements [Kernel].
func (k *hostColumnSum) Run(out, in []Buffer, _ Buffer) {
	u, w, scale := make([]float32, k.s.Groups*k.s.Rows*k.s.Columns), make([]float32, k.s.Groups), make([]float32, 1)
	load := func(dst []float32, b Buffer) {
		if k.failed == nil {
			k.failed = k.d.DownloadPlain(dst, b, 0)
		}
	}
	load(u, in[0])
	load(w, in[1])
	result := make([]float32, 1)
	if k.backward {
		load(scale, in[2])
		result = make([]float32, len(u))
	}
	if k.failed == nil {
		k.compute(result, u, w, scale[0])
	} else {
		for i := range result {
			result[i] = float32(math.NaN())
		}
	}
	if err := k.d.UploadPlain(out[0], 0, result); err != nil {
		k.failed = err
	}
}

// compute writes the loss, or, backward, its gradient by u.
func (k *hostColumnSum) compute(result, u, w []float32, dloss float32) {
	total, loss := 0.0, 0.0
	for _, x := range w {
		total += float64(x)
	}
	p := make([]float64, k.s.Rows*k.s.Columns)
	for g := range k.s.Groups {
		if w[g] == 0 { // the total may be 0, too
			continue
		}
		share := float64(w[g]) / total
		part := u[g*len(p):][:len(p)]
		sums := columnSums(p, part, k.s.Columns)
		if !k.backward {
			for _, sum := range sums {
				loss += share * math.Abs(sum-1)
			}
			continue
		}
		for a := range k.s.Rows {
			row, dot := p[a*k.s.Columns:][:k.s.Columns], 0.0
			slope := func(c int) float64 { return float64(dloss) * share * math.Copysign(1, sums[c]-1) }
			for c, x := range row {
				dot += x * slope(c)
			}
			for c, x := range row {
				result[(g*k.s.Rows+a)*k.s.Columns+c] = float32(x * (slope(c) - dot))
			}
		}
	}
	if !k.backward {
		result[0] = float32(loss)
	}
}

// columnSums writes the softmax of every row of u into p, and returns the sums of p's columns.
func columnSums(p []float64, u []float32, columns int) []float64 {
	sums := make([]float64, columns)
	for at := 0; at < len(u); at += columns {
		top, total := math.Inf(-1), 0.0
		for _, x := range u[at : at+columns] {
			top = math.Max(top, float64(x))
		}
		for c, x := range u[at : at+columns] {
			p[at+c] = math.Exp(float64(x) - top)
			total += p[at+c]
		}
		for c := range columns {
			p[at+c] /= total
			sums[c] += p[at+c]
		}
	}
	return sums
}
