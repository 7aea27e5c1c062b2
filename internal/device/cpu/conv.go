package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// Conv implements [device.Device].
func (c *CPU) Conv(s device.ConvSpec) (device.Kernel, error) { return c.choose(s, Forward) }

// ConvTransposed implements [device.Device].
func (c *CPU) ConvTransposed(s device.ConvSpec) (device.Kernel, error) {
	return c.choose(s, Transposed)
}

// ConvGradWeights implements [device.Device].
func (c *CPU) ConvGradWeights(s device.ConvSpec) (device.Kernel, error) { return c.choose(s, Weights) }

// A convolver is a kernel of a convolution. It takes its operands as they lie, too: out <- a, b,
// bias, in the order in which the device's interface lists them.
type convolver interface {
	device.Kernel
	convolve(out, a, b, bias, scratch Slice)
}

// runConvolver is Run of a convolver that has nothing but these operands.
func runConvolver(k convolver, out, in []device.Buffer, scratch device.Buffer) {
	var bias Slice
	if len(in) > 2 {
		bias = in[2].(Slice)
	}
	k.convolve(out[0].(Slice), in[0].(Slice), in[1].(Slice), bias, scratch.(Slice))
}

// inputsOf, outputsOf and weightsOfGroup are how the operands of a convolution lie; of one in
// groups those of a group, among the channels of all.
func inputsOf(s device.ConvSpec) layout  { return groupLayout(s.XShape(), s.OfGroup().XShape()) }
func outputsOf(s device.ConvSpec) layout { return groupLayout(s.YShape(), s.OfGroup().YShape()) }

func groupLayout(all, group device.Shape) layout {
	l := layoutOf(group)
	l.between = layoutOf(all).blocks
	return l
}

func weightsOfGroup(s device.ConvSpec) weightLayout { return weightsOf(s.OfGroup().WShape()) }

// geometry describes a convolution and its adjoint in one way: as sums over taps, for each phase of
// the output.
//
//	out[origin + step i] = bias + sum over taps of in[stride i + tap.d] * w[tap]      for i in [0, count) along each axis
//
// A forward convolution has one phase, of step 1. The adjoint of one with stride s has s^3 phases
// of step s, each with the taps that reach it, and a stride of 1.
type geometry struct {
	in, out layout
	stride  [3]int
	step    [3]int
	phases  []phase
	lo, hi  [3]int // least and greatest tap offset
	bias    bool
	weights weightLayout // from in to out
	// the operand is the weights from out to in: its pairs of blocks have to be turned round, see
	// [kernels.exchange]
	exchanged bool
}

type phase struct {
	origin, count [3]int
	taps          []tap // by d, last axis fastest: along the last axis they are neighbours
}

type tap struct {
	d [3]int // offset in the input
	w int    // its number in the weights as they are multiplied
}

func forwardGeometry(s device.ConvSpec) geometry {
	g := geometry{in: inputsOf(s), out: outputsOf(s), stride: s.Stride, step: [3]int{1, 1, 1}, bias: s.Bias,
		weights: weightsOfGroup(s)}
	p := phase{count: s.OutSize()}
	for z := range s.Kernel[0] {
		for y := range s.Kernel[1] {
			for x := range s.Kernel[2] {
				p.taps = append(p.taps, tap{d: [3]int{z - s.Pad[0], y - s.Pad[1], x - s.Pad[2]},
					w: (z*s.Kernel[1]+y)*s.Kernel[2] + x})
			}
		}
	}
	g.phases = []phase{p}
	g.bounds()
	return g
}

// transposedGeometry: x[i] = sum over k, o with o*stride + k - pad = i. With i = step*j + origin
// the taps are k = r, r+stride, ... for r = (origin + pad) mod stride, and o = j +
// (origin+pad-k)/stride.
func transposedGeometry(s device.ConvSpec) geometry {
	g := geometry{in: outputsOf(s), out: inputsOf(s), stride: [3]int{1, 1, 1}, step: s.Stride, bias: s.Bias,
		weights: weightsOfGroup(s).swapped(), exchanged: true}
	for z := range min(s.Stride[0], s.Size[0]) {
		for y := range min(s.Stride[1], s.Size[1]) {
			for x := range min(s.Stride[2], s.Size[2]) {
				p := phase{origin: [3]int{z, y, x}}
				// taps of each axis, by growing offset in the input: from the last one to the first
				var ks [3][]int
				for i, o := range p.origin {
					p.count[i] = (s.Size[i] - o + s.Stride[i] - 1) / s.Stride[i]
					for k := s.Kernel[i] - 1; k >= 0; k-- {
						if (o+s.Pad[i]-k)%s.Stride[i] == 0 {
							ks[i] = append(ks[i], k)
						}
					}
				}
				for _, kz := range ks[0] {
					for _, ky := range ks[1] {
						for _, kx := range ks[2] {
							p.taps = append(p.taps, tap{
								d: [3]int{(z + s.Pad[0] - kz) / s.Stride[0], (y + s.Pad[1] - ky) / s.Stride[1],
									(x + s.Pad[2] - kx) / s.Stride[2]},
								w: g.weights.taps - 1 - ((kz*s.Kernel[1]+ky)*s.Kernel[2] + kx),
							})
						}
					}
				}
				g.phases = append(g.phases, p)
			}
		}
	}
	g.bounds()
	return g
}

func (g *geometry) bounds() {
	first := true
	for _, p := range g.phases {
		for _, t := range p.taps {
			for i := range 3 {
				if first || t.d[i] < g.lo[i] {
					g.lo[i] = t.d[i]
				}
				if first || t.d[i] > g.hi[i] {
					g.hi[i] = t.d[i]
				}
			}
			first = false
		}
	}
}

// inside says whether no tap ever reads outside the input.
func (g *geometry) inside() bool {
	for _, p := range g.phases {
		for i := range 3 {
			if g.lo[i] < 0 || g.stride[i]*(p.count[i]-1)+g.hi[i] >= g.in.size[i] {
				return false
			}
		}
	}
	return true
}

// groups is the number of groups of up to two output channel blocks.
func (g *geometry) groups() int { return (g.out.blocks + 1) / 2 }

// vectors is the number of output channel blocks in a group.
func (g *geometry) vectors(group int) int { return min(2, g.out.blocks-2*group) }

// aligned rounds up to whole cache lines.
func aligned(n int) int { return (n + line - 1) / line * line }
