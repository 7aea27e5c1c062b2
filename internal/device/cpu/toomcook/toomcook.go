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
// other input, and of the second, fourth, ... with those between.
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
}

// Tiles are those that package cpu has kernels for.
var Tiles = []Tile{{Outputs: 4, Taps: 5}, {Outputs: 3, Taps: 5}, {Outputs: 2, Taps: 5}, {Outputs: 6, Taps: 3},
	{Outputs: 4, Taps: 3}, {Outputs: 2, Taps: 3}, {Outputs: 3, Taps: 3}, {Outputs: 4, Taps: 3, Halving: true}}

// Points is the number of multiplications, m+r-1 (2m+r-2 with stride 2), which is also the number
// of inputs.
func (t Tile) Points() int {
	if t.Halving {
		return 2*t.Outputs + t.Taps - 2
	}
	return t.Outputs + t.Taps - 1
}

// Step is how many inputs the next tile begins after this one.
func (t Tile) Step() int {
	if t.Halving {
		return 2 * t.Outputs
	}
	return t.Outputs
}

// Weights is how many of the points have weights of their own. Those after them have the last
// one's.
func (t Tile) Weights() int {
	if t.Halving && t.Taps/2 == 1 {
		return t.Points() - t.Outputs + 1
	}
	return t.Points()
}

func (t Tile) String() string {
	if t.Halving {
		return fmt.Sprintf("F(%d,%d)/2", t.Outputs, t.Taps)
	}
	return fmt.Sprintf("F(%d,%d)", t.Outputs, t.Taps)
}

// A Matrix is a list of rows.
type Matrix [][]*big.Rat

// Matrices of one tile.
type Matrices struct {
	BT Matrix // (points, points): inputs -> points
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
	if t.Halving {
		return halving(t)
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

// halving makes the matrices of a stride of 2: first the points of the first, third, ... tap, then
// those of the others. Where these are one tap, they are the inputs themselves.
func halving(t Tile) Matrices {
	at, g, bt := zeros(t.Outputs, t.Points()), zeros(t.Points(), t.Taps), zeros(t.Points(), t.Points())
	first := 0 // point
	for parity := range 2 {
		part := Tile{Outputs: t.Outputs, Taps: (t.Taps + 1 - parity) / 2}
		m := Matrices{BT: unit(t.Outputs), AT: unit(t.Outputs), G: zeros(t.Outputs, 1)}
		for _, row := range m.G {
			row[0].SetInt64(1)
		}
		if part.Taps > 1 {
			m = New(part)
		}
		for p := range part.Points() {
			for q, c := range m.BT[p] {
				bt[first+p][2*q+parity] = c
			}
			for k, c := range m.G[p] {
				g[first+p][2*k+parity] = c
			}
			for i := range m.AT {
				at[i][first+p] = m.AT[i][p]
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
