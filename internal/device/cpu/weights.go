package cpu

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// weightLayout is how the weights (Out, In, kernel) of a convolution lie in memory, and their
// gradients:
//
//	[output block][input block][tap][input channel of the block][16 output channels]
//
// The last input block has only the channels that there are; lanes past the last output channel are
// zero. So a forward convolution multiplies the weights where they lie, a pair of blocks with all
// its taps is one stretch of memory (128 KiB for 5^3 taps), and only the adjoint has to turn pairs
// round: see [kernels.exchange].
type weightLayout struct {
	out, in, taps int
}

func weightsOf(s device.Shape) weightLayout {
	return weightLayout{out: s[0], in: s[1], taps: s[2:].Elements()}
}

func (l weightLayout) outBlocks() int { return (l.out + block - 1) / block }
func (l weightLayout) inBlocks() int  { return (l.in + block - 1) / block }
func (l weightLayout) pairs() int     { return l.outBlocks() * l.inBlocks() }
func (l weightLayout) elements() int  { return l.outBlocks() * l.group() }

// group is the distance from one output block to the next.
func (l weightLayout) group() int { return l.in * l.taps * block }

// inputs is the number of channels of an input block.
func (l weightLayout) inputs(ib int) int { return min(block, l.in-ib*block) }

// outputs is the number of channels of an output block.
func (l weightLayout) outputs(ob int) int { return min(block, l.out-ob*block) }

// tap is the distance from one tap to the next within a pair of blocks.
func (l weightLayout) tap(ib int) int { return l.inputs(ib) * block }

// at is where a pair of blocks starts.
func (l weightLayout) at(ob, ib int) int { return ob*l.group() + ib*block*l.taps*block }

// pair is the part of w that belongs to a pair of blocks.
func (l weightLayout) pair(w []float32, ob, ib int) []float32 {
	return w[l.at(ob, ib):][:l.taps*l.tap(ib)]
}

// swapped is the layout with the roles of input and output exchanged.
func (l weightLayout) swapped() weightLayout { return weightLayout{out: l.in, in: l.out, taps: l.taps} }

// exchange turns a pair of blocks round: input channels become outputs, and the last tap the first,
// as the adjoint multiplies them.
//
//	dst[t][o][i] = src[taps-1-t][i][o]      for t < taps, o < out, i < in; zero for in <= i < 16
func (ks *kernels) exchange(dst, src []float32, taps, in, out int) {
	for t := range taps {
		from, to := src[(taps-1-t)*in*block:][:in*block], dst[t*out*block:][:out*block]
		if in == block && out == block {
			ks.transpose(&to[0], &from[0], block, block)
			continue
		}
		for o := range out {
			row := to[o*block:][:block]
			for i := range in {
				row[i] = from[i*block+o]
			}
			clear(row[in:])
		}
	}
}

// exchangePair turns one pair of blocks of src round. l is the layout of dst, and i the number of
// the pair there.
func (ks *kernels) exchangePair(l weightLayout, dst, src []float32, i int) {
	ob, ib := i/l.inBlocks(), i%l.inBlocks()
	ks.exchange(l.pair(dst, ob, ib), l.swapped().pair(src, ib, ob), l.taps, l.outputs(ob), l.inputs(ib))
}

// WeightsSize implements [device.Device].
func (c *CPU) WeightsSize(s device.Shape) int64 { return bytesOf(weightElements(s)) }

// weightElements is how many float32 elements weights take, those of the padding among them.
func weightElements(s device.Shape) int {
	if len(s) != 5 {
		return s.Elements()
	}
	return weightsOf(s).elements()
}

// UploadWeights implements [device.Device].
func (c *CPU) UploadWeights(dst device.Buffer, s device.Shape, first int, src []float32) error {
	return c.moveWeights(dst.(Slice), s, first, src, false)
}

// DownloadWeights implements [device.Device].
func (c *CPU) DownloadWeights(dst []float32, src device.Buffer, s device.Shape, first int) error {
	return c.moveWeights(src.(Slice), s, first, dst, true)
}

func (c *CPU) moveWeights(b Slice, s device.Shape, first int, plain []float32, back bool) error {
	if err := s.CheckRows(first, len(plain)); err != nil {
		return err
	}
	if len(b) < weightElements(s) {
		return fmt.Errorf("weights %v in a buffer of %d elements", []int(s), len(b))
	}
	switch {
	case len(s) == 5:
		k := &weightMove{l: weightsOf(s), blocked: b, plain: plain, back: back, first: first / block}
		rows := len(plain) / (k.l.in * k.l.taps)
		c.pool.run((rows+block-1)/block*k.l.inBlocks(), k)
	case back:
		copy(plain, b[first*s.Row():])
	default:
		copy(b[first*s.Row():], plain)
	}
	return nil
}

// weightMove moves weights from row-major order to the device's layout, or back: one item a pair of
// blocks.
type weightMove struct {
	l              weightLayout
	first          int // output block that plain starts with
	blocked, plain []float32
	back           bool
}

func (k *weightMove) do(_, item int) {
	ob, ib := item/k.l.inBlocks(), item%k.l.inBlocks()
	pair, tap := k.l.pair(k.blocked, k.first+ob, ib), k.l.tap(ib)
	if !k.back {
		clear(pair)
	}
	for o := range k.l.outputs(k.first + ob) {
		for i := range k.l.inputs(ib) {
			row := k.plain[((ob*block+o)*k.l.in+ib*block+i)*k.l.taps:][:k.l.taps]
			for t := range row {
				if x := &pair[t*tap+i*block+o]; k.back {
					row[t] = *x
				} else {
					*x = row[t]
				}
			}
		}
	}
}

// ahead has memory fetched into a core's cache, a piece at a time between other work, so that it is
// there when its turn comes. Processors read ahead by themselves, but within a page.
type ahead struct {
	fetch  fetchFunc
	wanted [2][]float32
	piece  int // elements of each at a time
}

// add wants w, in so many pieces.
func (a *ahead) add(i int, w []float32, pieces int) {
	a.wanted[i], a.piece = w, max(a.piece, aligned(len(w)/max(1, pieces)+1))
}

// next fetches the next piece of each.
func (a *ahead) next() {
	for i, w := range a.wanted {
		if n := min(a.piece, len(w)); n > 0 {
			a.fetch(&w[0], n/block)
			a.wanted[i] = w[n:]
		}
	}
}
