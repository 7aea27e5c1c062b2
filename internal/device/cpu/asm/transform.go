package main

import (
	"fmt"
	"math/big"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/voxsaw/voxsaw/internal/device/cpu/asm/vector"

	"github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"
)

// kind is what a transform does with its results.
type kind int

const (
	plain  kind = iota // a transformFunc
	output             // an outputFunc
	past               // a pastFunc
)

// transform emits a transformFunc, an outputFunc or a pastFunc for a matrix.
//
// The points of a tile come in pairs p, -p. Where two rows of the matrix agree in the even columns
// and are opposite in the odd ones, their sum over even columns and that over odd ones are computed
// once; where two columns do so over the rows, their sum and difference are.
func transform(s isa, name string, m toomcook.Matrix, k kind) string {
	signature, what := "func(dst, src *float32, dstStep, srcStep, dstNext, srcNext, n int)", "a transformFunc"
	switch k {
	case output:
		signature, what = "func(dst, src *float32, dstStep, srcStep, dstNext, srcNext, n int, bias *float32)",
			"an outputFunc"
	case past:
		signature, what = "func(dst, src *float32, dstStep, srcStep, dstNext, srcNext, n int, bias, moments *float32)",
			"a pastFunc"
	}
	name = begin(s, name, signature, fmt.Sprintf("%%s is %s of the matrix\n\n%s", what, matrixText(m)))
	e := &emitter{isa: s, registers: map[string]reg.VecVirtual{}}
	rows, columns := len(m), len(m[0])
	dstStep, srcStep := loadBytes("dstStep"), loadBytes("srcStep")
	dst, src := s.newStrided(rows, dstStep, triple(dstStep)), s.newStrided(columns, srcStep, triple(srcStep))
	dstNext, srcNext := loadBytes("dstNext"), loadBytes("srcNext")
	Load(Param("dst"), dst.pointers[0])
	Load(Param("src"), src.pointers[0])
	dst.start()
	src.start()
	if s.roomy {
		e.loadConstants(m)
	}
	var offsets []reg.VecVirtual
	if k != plain {
		b := load("bias")
		offsets = s.registers(s.parts)
		for i, r := range offsets {
			VMOVUPS(Mem{Base: b, Disp: i * s.bytes}, r)
		}
	}
	var left reg.GPVirtual
	if k == past {
		left = load("moments")
	}
	loop("vector", argument("n"), func() {
		for part := range s.parts {
			sums := moments{isa: s, at: Mem{Base: left, Disp: part * s.bytes}}
			x := s.registers(columns)
			for q, r := range x {
				VMOVUPS(src.at(q, part*s.bytes), r)
			}
			write := func(row int, y reg.VecVirtual) {
				if k != plain {
					VADDPS(offsets[part], y, y)
				}
				if k != past {
					VMOVUPS(y, dst.at(row, part*s.bytes))
					return
				}
				VMOVNTPS(y, dst.at(row, part*s.bytes))
				sums.add(y)
			}
			if columns > 2 && paired(transposed(m), 1) {
				e.pairedColumns(m, x, write)
			} else {
				e.pairedRows(m, x, write)
			}
			if k == past {
				sums.keep()
			}
		}
		dst.advance(dstNext)
		src.advance(srcNext)
	})
	if k == past {
		SFENCE()
	}
	end()
	return name
}

// moments sums up the differences of a column's results from the mean at the given address, and
// their squares, in registers; keep adds both to what lies 64 and 128 bytes further on.
type moments struct {
	isa
	at                         Mem
	mean, differences, squares reg.VecVirtual
}

// add takes a result, which is used up.
func (m *moments) add(y reg.VecVirtual) {
	first := m.mean == nil
	if first {
		m.mean, m.squares = m.register(), m.register()
		VMOVUPS(m.at, m.mean)
	}
	VSUBPS(m.mean, y, y)
	if first {
		m.differences = y
		VMULPS(y, y, m.squares)
		return
	}
	VADDPS(y, m.differences, m.differences)
	VFMADD231PS(y, y, m.squares)
}

func (m *moments) keep() {
	for i, r := range []reg.VecVirtual{m.differences, m.squares} {
		to := m.at.Offset(64 * (i + 1))
		VADDPS(to, r, r)
		VMOVUPS(r, to)
	}
}

// paired says whether row i+1 is row i with the odd columns negated.
func paired(m toomcook.Matrix, i int) bool {
	if i+1 >= len(m) {
		return false
	}
	odd := false
	for q := range m[i] {
		want := new(big.Rat).Set(m[i][q])
		if q%2 == 1 {
			want.Neg(want)
			odd = odd || want.Sign() != 0
		}
		if want.Cmp(m[i+1][q]) != 0 {
			return false
		}
	}
	return odd
}

func transposed(m toomcook.Matrix) toomcook.Matrix {
	t := make(toomcook.Matrix, len(m[0]))
	for j := range t {
		for i := range m {
			t[j] = append(t[j], m[i][j])
		}
	}
	return t
}

type emitter struct {
	isa
	registers map[string]reg.VecVirtual // constants held in registers
}

// loadConstants broadcasts all the constants that the matrix needs.
func (e *emitter) loadConstants(m toomcook.Matrix) {
	for _, row := range m {
		for _, c := range row {
			a := new(big.Rat).Abs(c)
			if _, ok := e.registers[a.RatString()]; ok || c.Sign() == 0 || unit(c) {
				continue
			}
			r := e.register()
			VBROADCASTSS(constant(a), r)
			e.registers[a.RatString()] = r
		}
	}
}

func (e *emitter) constant(c *big.Rat) Op {
	a := new(big.Rat).Abs(c)
	if r, ok := e.registers[a.RatString()]; ok {
		return r
	}
	return constant(a)
}

func unit(c *big.Rat) bool {
	return c.IsInt() && c.Num().IsInt64() && (c.Num().Int64() == 1 || c.Num().Int64() == -1)
}

// combination is sum of c[i] * x[i] over the non-zero c, nil if there are none.
func (e *emitter) combination(c []*big.Rat, x []reg.VecVirtual) reg.VecVirtual {
	type part struct {
		c *big.Rat
		x reg.VecVirtual
	}
	var units, others []part // units with positive ones first
	for i := range c {
		switch {
		case c[i].Sign() == 0:
		case unit(c[i]) && c[i].Sign() > 0:
			units = append([]part{{c[i], x[i]}}, units...)
		case unit(c[i]):
			units = append(units, part{c[i], x[i]})
		default:
			others = append(others, part{c[i], x[i]})
		}
	}
	if len(units)+len(others) == 0 {
		return nil
	}
	y := e.register()
	switch {
	case len(units) >= 2 && units[0].c.Sign() > 0:
		if units[1].c.Sign() > 0 {
			VADDPS(units[1].x, units[0].x, y)
		} else {
			VSUBPS(units[1].x, units[0].x, y)
		}
		units = units[2:]
	case len(units) >= 1 && units[0].c.Sign() > 0:
		VMOVAPS(units[0].x, y)
		units = units[1:]
	case len(others) > 0 && others[0].c.Sign() > 0:
		VMULPS(e.constant(others[0].c), others[0].x, y)
		others = others[1:]
	default:
		e.zero(y)
	}
	for _, u := range units {
		if u.c.Sign() > 0 {
			VADDPS(u.x, y, y)
		} else {
			VSUBPS(u.x, y, y)
		}
	}
	for _, o := range others {
		if o.c.Sign() > 0 {
			VFMADD231PS(e.constant(o.c), o.x, y)
		} else {
			VFNMADD231PS(e.constant(o.c), o.x, y)
		}
	}
	return y
}

// pairedRows: rows p and -p are even + odd and even - odd.
func (e *emitter) pairedRows(m toomcook.Matrix, x []reg.VecVirtual, write func(row int, y reg.VecVirtual)) {
	zero := new(big.Rat)
	for i := 0; i < len(m); i++ {
		if i == 0 || !paired(m, i) {
			write(i, e.combination(m[i], x))
			continue
		}
		var even, odd []*big.Rat
		for q, c := range m[i] {
			if q%2 == 0 {
				even, odd = append(even, c), append(odd, zero)
			} else {
				even, odd = append(even, zero), append(odd, c)
			}
		}
		a, b := e.combination(even, x), e.combination(odd, x)
		sum := e.register()
		VADDPS(b, a, sum)
		write(i, sum)
		VSUBPS(b, a, a)
		write(i+1, a)
		i++
	}
}

// pairedColumns: even rows need the sums of the inputs of p and -p, odd rows their differences.
func (e *emitter) pairedColumns(m toomcook.Matrix, x []reg.VecVirtual, write func(row int, y reg.VecVirtual)) {
	sums, differences := append([]reg.VecVirtual(nil), x...), append([]reg.VecVirtual(nil), x...)
	zero := new(big.Rat)

	columns := transposed(m)
	for q := 0; q < len(x); q++ {
		if q == 0 || !paired(columns, q) {
			continue
		}
		sums[q], differences[q] = e.register(), x[q]
		VADDPS(x[q+1], x[q], sums[q])
		VSUBPS(x[q+1], x[q], differences[q])
		sums[q+1] = nil
		q++
	}
	for i, row := range m {
		inputs := sums
		if i%2 == 1 {
			inputs = differences
		}
		c := make([]*big.Rat, len(row))
		for q := range row {
			c[q] = row[q]
			if sums[q] == nil {
				c[q] = zero
			}
		}
		write(i, e.combination(c, inputs))
	}
}

func matrixText(m toomcook.Matrix) string {
	text := ""
	for i, row := range m {
		if i > 0 {
			text += "\n"
		}
		text += "\t"
		for _, c := range row {
			text += fmt.Sprintf("%8s", c.RatString())
		}
	}
	return text
}
