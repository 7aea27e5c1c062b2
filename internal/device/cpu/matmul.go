package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// The matrix products of heads: one factor is large and seen once (weights of 1024 x 27648 are 113
// MB), the other has some tens of rows. So the large one streams through the caches once, and the
// small one waits in L2:
//
//	b not transposed: columns of b are copied into panels of 32, as the product kernel of the convolutions wants them      [panelProduct]
//	b transposed:     rows of a and of b are multiplied as they lie, sums along the rows                                    [dotProduct]
//	a few rows, or a sum of a few terms: rows of b, times a number, are added to rows of c                                  [rowProduct]
//
// The small factor a is first copied into scratch memory, turned around if it is transposed, its
// rows an odd number of cache lines apart: rows of 1024 or 27648 would all fall on the same lines
// of L1.
type matMul struct {
	c     *CPU
	lanes *laneKernels
	s     device.MatMulSpec

	rows, columns int // of c, one item
	depth         int // of a and b at a time
	stride        int // from one row of a's copy to the next

	terms []term // one term: the product kernel's list
	// a worker each: what a row of b is multiplied by, in a kernel that does z = x scale + r
	factors       []actParams
	a, b, y, bias Slice
	rowsOfA       Slice
	scratch       Slice
}

const (
	panel         = 2 * block
	panelRows     = 192     // rows of c while a panel is in L2
	panelElements = 1 << 17 // elements of b in panels at a time: half of an L2
	maxDepth      = 1024
	fewRows       = 4
	rowColumns    = 4096 // of c at a time
	dotDepth      = 2048 // of rows of a and b that are multiplied: 54 such rows are 432 KiB
)

// MatMul implements [device.Device].
func (c *CPU) MatMul(s device.MatMulSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k := &matMul{c: c, lanes: lanesOf(c.kernels.name), s: s, terms: []term{{}}, stride: aligned(s.K)}
	if k.stride/block%2 == 0 {
		k.stride += block
	}
	if s.TransB {
		k.rows, k.columns, k.depth = s.M, 4*dotColumns, min(s.K, dotDepth)
		if s.N < 4*k.columns*c.Threads() {
			k.columns = dotColumns
		}
		return k, nil
	}
	if min(s.M, s.K) <= fewRows {
		k.rows, k.columns = min(s.M, block), min(s.N, rowColumns)
		k.factors = make([]actParams, c.Threads())
		for w := range k.factors {
			p := &k.factors[w]
			for i := range block {
				p.residual[i], p.slope[i] = 1, 1
			}
		}
		return k, nil
	}
	k.rows, k.depth = min(s.M, panelRows), min(s.K, maxDepth)
	k.columns = min(max(panel, panelElements/k.depth), 2048, s.N) + panel - 1
	k.columns -= k.columns % panel
	for k.columns > panel && k.items() < 4*c.Threads() {
		k.columns -= panel
	}
	return k, nil
}

func (k *matMul) itemsPerRow() int { return (k.s.N + k.columns - 1) / k.columns }
func (k *matMul) items() int       { return k.itemsPerRow() * ((k.s.M + k.rows - 1) / k.rows) }

// packed is the scratch of one worker: the panels of b and one tile of c, for columns that are no
// whole vectors.
func (k *matMul) packed() int { return k.depth*k.columns + k.rows*panel }

// Scratch holds the copy of a, and what each worker packs.
func (k *matMul) Scratch() int64 {
	n := k.s.M * k.stride
	if !k.s.TransB && k.factors == nil {
		n += aligned(k.packed()) * k.c.Threads()
	}
	return bytesOf(n)
}

func (k *matMul) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.y, k.a, k.b = out[0].(Slice), in[0].(Slice), in[1].(Slice)
	if k.s.Bias {
		k.bias = in[2].(Slice)
	}
	copied := scratch.(Slice)
	k.scratch = copied[k.s.M*k.stride:]
	k.rowsOfA = copied[:k.s.M*k.stride]
	k.c.pool.run((k.s.M+block-1)/block, (*copyRows)(k))
	switch {
	case k.s.TransB:
		k.c.pool.run(k.items(), (*dotProduct)(k))
	case k.factors != nil:
		k.c.pool.run(k.items(), (*rowProduct)(k))
	default:
		k.c.pool.run(k.items(), (*panelProduct)(k))
	}
}

// copyRows: rowsOfA[m] = a[m], or a[:, m], 16 rows an item.
type copyRows matMul

func (k *copyRows) do(_, item int) {
	first := item * block
	end := min(first+block, k.s.M)
	if !k.s.TransA {
		for m := first; m < end; m++ {
			copy(k.rowsOfA[m*k.stride:], k.a[m*k.s.K:(m+1)*k.s.K])
		}
		return
	}
	for i := range k.s.K {
		for m, x := range k.a[i*k.s.M+first : i*k.s.M+end] {
			k.rowsOfA[(first+m)*k.stride+i] = x
		}
	}
}

// tile is the range of rows and columns of c of an item.
func (k *matMul) tile(item int) (m0, m1, n0, n1 int) {
	m0, n0 = item/k.itemsPerRow()*k.rows, item%k.itemsPerRow()*k.columns
	return m0, min(m0+k.rows, k.s.M), n0, min(n0+k.columns, k.s.N)
}

func (k *matMul) addBias(m0, m1, n0, n1 int) {
	if k.s.Bias {
		for m := m0; m < m1; m++ {
			addRow(k.y[m*k.s.N+n0:m*k.s.N+n1], k.bias[n0:n1])
		}
	}
}

type dotProduct matMul

func (k *dotProduct) do(_, item int) {
	m0, m1, n0, n1 := (*matMul)(k).tile(item)
	for first := 0; first < k.s.K; first += k.depth {
		depth := min(k.depth, k.s.K-first)
		add := min(first, 1)
		for n := n0; n < n1; {
			columns, kind := 1, 0
			if n+dotColumns <= n1 {
				columns, kind = dotColumns, 1
			}
			for m := m0; m < m1; {
				rows := min(m1-m, k.lanes.dotRows)
				k.dots(rows, kind, m, n, first, depth, add)
				m += rows
			}
			n += columns
		}
	}
	(*matMul)(k).addBias(m0, m1, n0, n1)
}

// dots multiplies some rows by one or four columns, and adds what is no whole vector.
func (k *dotProduct) dots(rows, kind, m, n, first, depth, add int) {
	vectors := whole(depth)
	if vectors > 0 {
		k.lanes.dots[rows][kind](&k.rowsOfA[m*k.stride+first], &k.b[n*k.s.K+first], &k.y[m*k.s.N+n], vectors, k.stride,
			k.s.K, k.s.N, add)
	}
	if vectors == depth {
		return
	}
	for i := m; i < m+rows; i++ {
		for j := n; j < n+1+kind*(dotColumns-1); j++ {
			sum := dot(k.rowsOfA[i*k.stride+first+vectors:i*k.stride+first+depth],
				k.b[j*k.s.K+first+vectors:j*k.s.K+first+depth])
			if vectors > 0 || add != 0 {
				sum += k.y[i*k.s.N+j]
			}
			k.y[i*k.s.N+j] = sum
		}
	}
}

type rowProduct matMul

func (k *rowProduct) do(worker, item int) {
	m0, m1, n0, n1 := (*matMul)(k).tile(item)
	p := &k.factors[worker]
	for i := range k.s.K {
		b := k.b[i*k.s.N+n0 : i*k.s.N+n1]
		for m := m0; m < m1; m++ {
			factor := k.rowsOfA[m*k.stride+i]
			for lane := range p.scale {
				p.scale[lane] = factor
			}
			y := k.y[m*k.s.N+n0 : m*k.s.N+n1]
			kind, r := device.FullResidual, y
			if i == 0 {
				kind, r = device.NoResidual, nil
			}
			k.lanes.runActivate(0, int(kind), y, b, r, p, false)
		}
	}
	(*matMul)(k).addBias(m0, m1, n0, n1)
}

type panelProduct matMul

func (k *panelProduct) do(worker, item int) {
	m0, m1, n0, n1 := (*matMul)(k).tile(item)
	packed := k.scratch[worker*aligned((*matMul)(k).packed()):]
	edge := packed[k.depth*k.columns:]
	for first := 0; first < k.s.K; first += k.depth {
		depth := min(k.depth, k.s.K-first)
		k.pack(packed, first, depth, n0, n1)
		for n := n0; n < n1; n += panel {
			a, b := k.rowsOfA[m0*k.stride+first:], packed[(n-n0)*depth:]
			by := product{rows: m1 - m0, vectors: 2, k: depth, as: k.stride, bs: panel, bv: block, cs: k.s.N, cv: block,
				add: first > 0}
			switch width := n1 - n; {
			case width >= panel:
				k.c.kernels.rowsProduct(&by, a, b, k.y[m0*k.s.N+n:], k.terms)
			default:
				by.cs, by.add = panel, false
				k.c.kernels.rowsProduct(&by, a, b, edge, k.terms)
				for m := m0; m < m1; m++ {
					y, x := k.y[m*k.s.N+n:][:width], edge[(m-m0)*panel:][:width]
					if first > 0 {
						addRow(y, x)
					} else {
						copy(y, x)
					}
				}
			}
		}
	}
	(*matMul)(k).addBias(m0, m1, n0, n1)
}

// pack copies columns n0..n1 of some rows of b into panels of 32 columns, zero past the last one.
func (k *panelProduct) pack(packed []float32, first, depth, n0, n1 int) {
	for i := range depth {
		src := k.b[(first+i)*k.s.N+n0 : (first+i)*k.s.N+n1]
		at := i * panel
		for ; len(src) >= panel; src = src[panel:] {
			*(*[panel]float32)(packed[at:]) = *(*[panel]float32)(src)
			at += depth * panel
		}
		if len(src) > 0 {
			dst := packed[at:][:panel]
			clear(dst[copy(dst, src):])
		}
	}
}
