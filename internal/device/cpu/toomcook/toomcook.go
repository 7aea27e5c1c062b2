// Package toomcook makes the matrices of Winograd's minimal filtering algorithm F(m, r): m outputs
// of a correlation with r taps from m+r-1 multiplications.
//
//	y = AT ((G w) * (BT x))        x (m+r-1) inputs, w (r) taps, y (m) outputs, * element by element
//
// They come from polynomial multiplication at the points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity
// (Toom-Cook), transposed. The adjoint in x is AT with BT transposed and so on; that in w is
//
//	dw = GT ((BT x) * (A dy))
//
// A correlation of stride 2 is the sum of two of stride 1: of the first, third, ... tap with every
// other input, and of the second, fourth, ... with those between. The gradient of its inputs is
// such a pair, too: that of every other input has the first, third, ... tap, that of the others the
// second, fourth, ....
//
// Start at [New]. Package cpu computes with these matrices, its assembly generator writes them out
// as instructions.
package toomcook

import (
	"fmt"
	"math/big"
)

// A Tile is F(m, r) along one axis.
type Tile struct {
	Outputs, Taps int
	Halving       bool // of stride 2
	Doubling      bool // of the gradient of its inputs, with a padding of 1: Outputs is even
}

// Tiles are those that package cpu has kernels for.
var Tiles = []Tile{{Outputs: 4, Taps: 5}, {Outputs: 3, Taps: 5}, {Outputs: 2, Taps: 5}, {Outputs: 6, Taps: 3},
	{Outputs: 4, Taps: 3}, {Outputs: 2, Taps: 3}, {Outputs: 3, Taps: 3}, {Outputs: 4, Taps: 3, Halving: true},
	{Outputs: 8, Taps: 3, Doubling: true}}

// Stride is that of the convolution.
func (t Tile) Stride() int {
	if t.Halving || t.Doubling {
		return 2
	}
	return 1
}

// each is how many outputs a tile has of each of the correlations of stride 1 that it consists of.
func (t Tile) each() int {
	if t.Doubling {
		return t.Outputs / 2
	}
	return t.Outputs
}

// Points is the number of multiplications: m+r-1, and with stride 2 those of both parts.
func (t Tile) Points() int { return t.Stride()*(t.each()-1) + t.Taps }

// Inputs is the number of inputs.
func (t Tile) Inputs() int {
	if t.Doubling {
		return t.each() + (t.Taps+1)/2 - 1
	}
	return t.Points()
}

// Step is how many inputs the next tile begins after this one.
func (t Tile) Step() int {
	if t.Halving {
		return 2 * t.Outputs
	}
	return t.each()
}

// Weights is how many of the points have weights of their own. Those after them have the last
// one's.
func (t Tile) Weights() int {
	if t.Stride() == 2 && t.Taps/2 == 1 {
		return t.Points() - t.each() + 1
	}
	return t.Points()
}

func (t Tile) String() string {
	switch {
	case t.Halving:
		return fmt.Sprintf("F(%d,%d)/2", t.Outputs, t.Taps)
	case t.Doubling:
		return fmt.Sprintf("F(%d,%d)*2", t.Outputs, t.Taps)
	}
	return fmt.Sprintf("F(%d,%d)", t.Outputs, t.Taps)
}

// A Matrix is a list of rows.
type Matrix [][]*big.Rat

// Matrices of one tile.
type Matrices struct {
	BT Matrix // (points, inputs): inputs -> points
	G  Matrix // (points that have weights of their own, taps): weights -> points
	AT Matrix // (outputs, points): points -> outputs
	A  Matrix // (points, outputs): output gradients -> points
	GT Matrix // (taps, points): points -> weight gradients
}

// finite points in the order of use: pairs of opposite sign share most of their arithmetic.
var finite = []*big.Rat{big.NewRat(0, 1), big.NewRat(1, 1), big.NewRat(-1, 1), big.NewRat(2, 1), big.NewRat(-2, 1),
	big.NewRat(1, 2), big.NewRat(-1, 2)}

// New makes the matrices of F(t.Outputs, t.Taps). With points p[j], and infinity as the last one:
//
//	AT[i][j] = p[j]^i    G[j][k] = p[j]^k / prod over l != j of (p[j] - p[l])    BT[j] = coefficients of prod over l != j of (x - p[l])
func New(t Tile) Matrices {
	if t.Stride() == 2 {
		return strided(t)
	}
	points := t.Points()
	p := finite[:points-1]
	at, g, bt := zeros(t.Outputs, points), zeros(points, t.Taps), zeros(points, points)
	for j := range p {
		n := big.NewRat(1, 1)
		for l := range p {
			if l != j {
				n.Mul(n, new(big.Rat).Sub(p[j], p[l]))
			}
		}
		power := big.NewRat(1, 1)
		for i := range max(t.Outputs, t.Taps) {
			if i < t.Outputs {
				at[i][j].Set(power)
			}
			if i < t.Taps {
				g[j][i].Quo(power, n)
			}
			power.Mul(power, p[j])
		}
		copyPolynomial(bt[j], p, j)
	}
	at[t.Outputs-1][points-1].SetInt64(1)
	g[points-1][t.Taps-1].SetInt64(1)
	copyPolynomial(bt[points-1], p, -1)
	return Matrices{BT: bt, G: g, AT: at, A: transpose(at), GT: transpose(g)}
}

// strided makes the matrices of a stride of 2: first the points of the first, third, ... tap, then
// those of the others. Where these are one tap, they are the inputs themselves.
func strided(t Tile) Matrices {
	at, g, bt := zeros(t.Outputs, t.Points()), zeros(t.Points(), t.Taps), zeros(t.Points(), t.Inputs())
	first := 0 // point
	for parity := range 2 {
		part := Tile{Outputs: t.each(), Taps: (t.Taps + 1 - parity) / 2}
		m := Matrices{BT: unit(t.each()), AT: unit(t.each()), G: zeros(t.each(), 1)}
		for _, row := range m.G {
			row[0].SetInt64(1)
		}
		if part.Taps > 1 {
			m = New(part)
		}
		for p := range part.Points() {
			for q, c := range m.BT[p] {
				if t.Halving {
					q = 2*q + parity
				}
				bt[first+p][q] = c
			}
			for k, c := range m.G[p] {
				g[first+p][2*k+parity] = c
			}
			for i, row := range m.AT {
				if t.Doubling {
					i = 2*i + 1 - parity
				}
				at[i][first+p] = row[p]
			}
		}
		first += part.Points()
	}
	g = g[:t.Weights()]
	return Matrices{BT: bt, G: g, AT: at, A: transpose(at), GT: transpose(g)}
}

func unit(n int) Matrix {
	m := zeros(n, n)
	for i := range m {
		m[i][i].SetInt64(1)
	}
	return m
}

// copyPolynomial sets row to the coefficients of the product of (x - p[l]), l != without, lowest
// first.
func copyPolynomial(row []*big.Rat, p []*big.Rat, without int) {
	row[0].SetInt64(1)
	degree := 0
	for l := range p {
		if l == without {
			continue
		}
		for i := degree + 1; i >= 0; i-- { // times (x - p[l])
			c := new(big.Rat).Mul(row[i], new(big.Rat).Neg(p[l]))
			if i > 0 {
				c.Add(c, row[i-1])
			}
			row[i].Set(c)
		}
		degree++
	}
}

func zeros(rows, columns int) Matrix {
	m := make(Matrix, rows)
	for i := range m {
		m[i] = make([]*big.Rat, columns)
		for j := range m[i] {
			m[i][j] = new(big.Rat)
		}
	}
	return m
}

func transpose(a Matrix) Matrix {
	t := zeros(len(a[0]), len(a))
	for i := range a {
		for j := range a[i] {
			t[j][i].Set(a[i][j])
		}
	}
	return t
}
