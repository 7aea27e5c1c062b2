package train

import (
	"encoding/binary"
	"math"
)

// A sum of gradients in bfloat16, the upper half of a float32: half the bytes go from rank to rank.
// Each rank is given one part of all ranks' values, adds them up in float32 in the order of the
// ranks, and hands its part of the sums round. So a value is rounded before the sum and after it,
// and however many ranks there are, not more often: a relative error of 2^-8 each time.

// mostBF16 is how many values are summed in bfloat16 at a time, at most.
const mostBF16 = 1 << 26

// sumGradient replaces values by their sums over the ranks, the same bits on every rank.
func (g Group) sumGradient(values []float32) error {
	if !g.bf16 {
		return g.AllReduce(values)
	}
	for len(values) > 0 {
		n := min(len(values), mostBF16)
		if err := g.sumBF16(values[:n]); err != nil {
			return err
		}
		values = values[n:]
	}
	return nil
}

func (g Group) sumBF16(values []float32) error {
	part := (len(values) + g.Size - 1) / g.Size // values that a rank sums up
	mine, theirs := make([]byte, 2*part*g.Size), make([]byte, 2*part*g.Size)
	for i, v := range values {
		putBF16(mine, i, v)
	}
	if err := g.ranks.Exchange(mine, theirs); err != nil {
		return err
	}
	sums := mine[:2*part]
	for i := range part {
		sum := float32(0)
		for rank := range g.Size {
			sum += atBF16(theirs, rank*part+i)
		}
		putBF16(sums, i, sum)
	}
	all, err := g.ranks.Gather(sums)
	if err != nil {
		return err
	}
	for i := range values {
		values[i] = atBF16(all[i/part], i%part)
	}
	return nil
}

// putBF16 writes element i, rounded to the nearest, ties to even.
func putBF16(data []byte, i int, v float32) {
	bits := math.Float32bits(v)
	if v != v {
		bits |= 1 << 22 // rounding must not make an infinity of it
	} else {
		bits += 0x7fff + bits>>16&1
	}
	binary.LittleEndian.PutUint16(data[2*i:], uint16(bits>>16))
}

// atBF16 is element i.
func atBF16(data []byte, i int) float32 {
	return math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*i:])) << 16)
}
