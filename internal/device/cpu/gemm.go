package cpu

import "github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"

//go:generate go run ./asm -pkg cpu -out kernels_amd64.s -stubs kernels_amd64.go -table tables_amd64.go
//go:generate go run ./asm -pkg cpu -out kernels_arm64.s -stubs kernels_arm64.go -table tables_arm64.go

// The two matrix products that every convolution of this package is made of. Both work on
// 16-channel vectors and take offsets and strides in float32 elements, so that neither activations
// nor weights have to be moved before they are multiplied.
//
//	forward and data gradient: outputs (rows x channels) from broadcast inputs and weights             [kernels.product]
//	weight gradient: weights (channels x channels) summed over voxels, images or tiles                 [kernels.outer]

// A term is one matrix product in a sum of products: where its two factors start in a and b.
type term = [2]int

// A productFunc computes a fixed number of rows (R) and vectors (V, 1 or 2), count times over, each
// time an, bn and cn further on:
//
//	for i := range count {
//		for m := range R {
//			for v := range V {
//				var sum [16]float32
//				for _, t := range terms[:nterms] {
//					for j := range k {
//						sum += a[i*an+t[0]+m*as+j] * b[i*bn+t[1]+j*bs+v*bv:][:16]
//					}
//				}
//				c[i*cn+m*cs+v*cv:][:16] = sum + bias[16*v:][:16] // or += sum where add
//			}
//		}
//	}
type productFunc func(a, b, c *float32, terms *term, nterms, k, as, bs, bv, cs, cv, count, an, bn, cn int, add bool,
	bias *float32)

// An outerFunc is a productFunc whose first factor is transposed:
//
//	for i := range count {
//		for m := range R {
//			for v := range V {
//				var sum [16]float32
//				for _, t := range terms[:nterms] {
//					for j := range k {
//						sum += a[i*an+t[0]+j*as+m] * b[i*bn+t[1]+j*bs+v*bv:][:16]
//					}
//				}
//				c[i*cn+m*cs+v*cv:][:16] = sum // or += where add
//			}
//		}
//	}
type outerFunc = productFunc

// An outerTapsFunc is the weight gradient of a one-channel convolution for 5 x 5 taps and one row
// of voxels, a row of taps as elements after the other:
//
//	for r := range 5 {
//		for m := range 5 {
//			for i := range k {
//				c[(5*r+m)*16:][:16] += a[r*as+i+m] * b[i*16:][:16]
//			}
//		}
//	}
type outerTapsFunc func(a, b, c *float32, k, as int)

// A transposeFunc computes
//
//	for i := range 16 {
//		for j := range 16 {
//			dst[i*dstStep+j] = src[j*srcStep+i]
//		}
//	}
type transposeFunc func(dst, src *float32, dstStep, srcStep int)

// An addFunc computes
//
//	for i := range 16 * n {
//		dst[i] += src[i]
//	}
type addFunc func(dst, src *float32, n int)

// A fetchFunc asks for cache lines that will be needed soon, to be in a second-level cache by then.
// It changes nothing; any of them may be past the end of an operand.
type fetchFunc func(p *float32, lines int)

const (
	// rows of a product kernel: 12 x 2 accumulators leave registers for the weights
	maxRows      = 12
	maxOuterRows = 12 // rows of an outer kernel
)

// kernels is the table of one instruction set.
type kernels struct {
	name      string
	product   [3][maxRows + 1]productFunc    // [vectors][rows]
	outer     [3][maxOuterRows + 1]outerFunc // [vectors][rows]
	outerTaps outerTapsFunc
	transpose transposeFunc
	add       addFunc
	fetch     fetchFunc
	peak      func(times int) // multiply-adds on registers, peakSums of 16 lanes so many times
	peakSums  int
	winograd  map[toomcook.Tile]*transforms

	rows, vectors, outerRows int // the largest that there are
}

// A product says how large a matrix product is and where its parts lie, as [productFunc] takes
// them. It has any number of rows. It is passed by pointer: a copy costs small products a few per
// cent.
type product struct {
	rows, vectors int
	k             int // elements of a term's sum
	as            int // of a: from one row to the next; of an outer product from one j to the next
	bs, bv        int // of b: from one j to the next, and from one vector
	cs, cv        int // of c: from one row to the next, and from one vector
	add           bool
	bias          *float32 // of each vector, for all rows, if not add; nil for outer products
}

// repeats are how often a product is computed, and how much further on a, b and c are each time.
type repeats struct{ count, a, b, c int }

// run calls a kernel of p.rows rows and p.vectors vectors.
func (p *product) run(f productFunc, n repeats, a, b, c []float32, terms []term) {
	f(&a[0], &b[0], &c[0], &terms[0], len(terms), p.k, p.as, p.bs, p.bv, p.cs, p.cv, n.count, n.a, n.b, n.c, p.add,
		p.bias)
}

// rowsProduct runs product kernels over any number of rows, split as evenly as they go.
func (ks *kernels) rowsProduct(p *product, a, b, c []float32, terms []term) {
	if p.vectors > ks.vectors {
		single := *p
		single.vectors = 1
		for v := range p.vectors {
			if p.bias != nil {
				single.bias = at(p.bias, v*block)
			}
			ks.rowsProduct(&single, a, b[v*p.bv:], c[v*p.cv:], terms)
		}
		return
	}
	chunks := (p.rows + ks.rows - 1) / ks.rows
	small, larger := p.rows/chunks, p.rows%chunks
	if larger > 0 {
		r := small + 1
		p.run(ks.product[p.vectors][r], repeats{larger, r * p.as, 0, r * p.cs}, a, b, c, terms)
	}
	if chunks > larger {
		m := larger * (small + 1)
		p.run(ks.product[p.vectors][small], repeats{chunks - larger, small * p.as, 0, small * p.cs}, a[m*p.as:], b,
			c[m*p.cs:], terms)
	}
}

// pointsProduct is rowsProduct for several points. If there is a kernel of that many rows, one call
// computes all points.
func (ks *kernels) pointsProduct(p *product, n repeats, a, b, c []float32, terms []term) {
	if p.rows <= ks.rows && p.vectors <= ks.vectors {
		p.run(ks.product[p.vectors][p.rows], n, a, b, c, terms)
		return
	}
	for i := range n.count {
		ks.rowsProduct(p, a[i*n.a:], b[i*n.b:], c[i*n.c:], terms)
	}
}

// rowsOuter runs outer kernels over any number of rows.
func (ks *kernels) rowsOuter(p *product, a, b, c []float32, terms []term) {
	if p.vectors > ks.vectors {
		single := *p
		single.vectors = 1
		for v := range p.vectors {
			ks.rowsOuter(&single, a, b[v*p.bv:], c[v*p.cv:], terms)
		}
		return
	}
	chunks := (p.rows + ks.outerRows - 1) / ks.outerRows
	small, larger := p.rows/chunks, p.rows%chunks
	if larger > 0 {
		r := small + 1
		p.run(ks.outer[p.vectors][r], repeats{larger, r, 0, r * p.cs}, a, b, c, terms)
	}
	if chunks > larger {
		m := larger * (small + 1)
		p.run(ks.outer[p.vectors][small], repeats{chunks - larger, small, 0, small * p.cs}, a[m:], b, c[m*p.cs:], terms)
	}
}

// pointsOuter is rowsOuter for several points: one call of a kernel for each chunk of rows.
func (ks *kernels) pointsOuter(p *product, n repeats, a, b, c []float32, terms []term) {
	if p.vectors > ks.vectors {
		single := *p
		single.vectors = 1
		for v := range p.vectors {
			ks.pointsOuter(&single, n, a, b[v*p.bv:], c[v*p.cv:], terms)
		}
		return
	}
	rows := p.rows
	for chunks := (rows + ks.outerRows - 1) / ks.outerRows; chunks > 0; chunks-- {
		r := (rows + chunks - 1) / chunks
		p.run(ks.outer[p.vectors][r], n, a, b, c, terms)
		if rows -= r; rows > 0 {
			a, c = a[r:], c[r*p.cs:]
		}
	}
}

// addVectors: dst += src. The length of dst is a multiple of 16, and not 0.
func (ks *kernels) addVectors(dst, src []float32) { ks.add(&dst[0], &src[0], len(dst)/block) }
