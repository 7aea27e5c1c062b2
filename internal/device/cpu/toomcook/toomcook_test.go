package toomcook

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

func (m Matrix) times(x []*big.Rat) []*big.Rat {
	y := make([]*big.Rat, len(m))
	for i := range m {
		y[i] = new(big.Rat)
		for j := range x {
			y[i].Add(y[i], new(big.Rat).Mul(m[i][j], x[j]))
		}
	}
	return y
}

func integers(r *rand.Rand, n int) []*big.Rat {
	v := make([]*big.Rat, n)
	for i := range v {
		v[i] = big.NewRat(int64(r.IntN(19)-9), 1)
	}
	return v
}

func product(a, b []*big.Rat) []*big.Rat {
	for i := range a {
		a[i].Mul(a[i], b[i])
	}
	return a
}

// shared sums up what belongs to the same weight.
func shared(points []*big.Rat, weights int) []*big.Rat {
	for _, p := range points[weights:] {
		points[weights-1].Add(points[weights-1], p)
	}
	return points[:weights]
}

// seen is the input that a tap of an output sees.
func seen(tile Tile, x []*big.Rat, output, tap int) *big.Rat {
	at := tile.Step()/tile.each()*output + tap
	if tile.Doubling {
		if at = output + tap - 1; at%2 != 0 {
			return new(big.Rat)
		}
		at /= 2
	}
	return x[at]
}

// In rational arithmetic the algorithm is exact.
func TestExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, tile := range []Tile{{Outputs: 4, Taps: 5}, {Outputs: 2, Taps: 5}, {Outputs: 4, Taps: 3},
		{Outputs: 2, Taps: 3}, {Outputs: 6, Taps: 3}, {Outputs: 4, Taps: 3, Halving: true},
		{Outputs: 2, Taps: 5, Halving: true}, {Outputs: 8, Taps: 3, Doubling: true},
		{Outputs: 4, Taps: 5, Doubling: true}} {
		m := New(tile)
		x, w, dy := integers(r, tile.Inputs()), integers(r, tile.Taps), integers(r, tile.Outputs)
		points := m.BT.times(x)
		gw := m.G.times(w)
		for len(gw) < len(points) {
			gw = append(gw, new(big.Rat).Set(gw[len(gw)-1]))
		}
		y := m.AT.times(product(gw, points))
		dw := m.GT.times(shared(product(m.BT.times(x), m.A.times(dy)), tile.Weights()))
		for i := range y {
			want := new(big.Rat)
			for k := range w {
				want.Add(want, new(big.Rat).Mul(w[k], seen(tile, x, i, k)))
			}
			if y[i].Cmp(want) != 0 {
				t.Errorf("F%v: output %d is %v, want %v", tile, i, y[i], want)
			}
		}
		for k := range dw {
			if tile.Doubling {
				break // it has no gradient
			}
			want := new(big.Rat)
			for i := range dy {
				want.Add(want, new(big.Rat).Mul(dy[i], seen(tile, x, i, k)))
			}
			if dw[k].Cmp(want) != 0 {
				t.Errorf("F%v: weight gradient %d is %v, want %v", tile, k, dw[k], want)
			}
		}
	}
}
