package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// grouped is a convolution in groups: that of one group, run for each of them. Where the channels
// of a group are whole blocks, it runs on the tensors as they lie. Otherwise the channels of a
// group are copied into scratch memory and its results back, which costs little beside the
// products: it reads and writes every channel once.
type grouped struct {
	cpu    *CPU
	k      convolver
	groups int
	bias   int // channels of a bias in a group, 0 where there is none

	out, a, b groupOperand
	rest      int // elements of scratch before that of k: copies of out, a and b
}

// A groupOperand is a tensor with the channels of all groups, and its part for each of them.
type groupOperand struct {
	stride int // elements from one group to the next, where a part lies in place
	copy   groupCopy
}

// groupCopy moves a part: elements of it, their number.
type groupCopy interface {
	elements() int
	move(c *CPU, all, part Slice, group int, back bool)
}

// wholeBlocks says whether the channels of each group are whole blocks.
func wholeBlocks(s device.ConvSpec) bool {
	g := s.OfGroup()
	return g.In%block == 0 && g.Out%block == 0
}

// perGroup is the spec that the kernel of one group is made for: that of all, where it runs in
// place.
func perGroup(s device.ConvSpec) device.ConvSpec {
	if s.Grouped() && !wholeBlocks(s) {
		return s.OfGroup()
	}
	return s
}

func newGrouped(c *CPU, s device.ConvSpec, kind ConvKind, k convolver) *grouped {
	g := &grouped{cpu: c, k: k, groups: s.Groups}
	o := s.OfGroup()
	x := groupOperand{inputsOf(s).plane(0, o.In/block),
		&channelCopy{all: layoutOf(s.XShape()), part: layoutOf(o.XShape())}}
	y := groupOperand{outputsOf(s).plane(0, o.Out/block),
		&channelCopy{all: layoutOf(s.YShape()), part: layoutOf(o.YShape())}}
	w := groupOperand{weightsOf(o.WShape()).elements(),
		&weightCopy{all: weightsOf(s.WShape()), part: weightsOf(o.WShape())}}
	switch kind {
	case Forward:
		g.out, g.a, g.b = y, x, w
		g.bias = o.Out
	case Transposed:
		g.out, g.a, g.b = x, y, w
		g.bias = o.In
	case Weights:
		g.out, g.a, g.b = w, x, y
	}
	if !s.Bias {
		g.bias = 0
	}
	for _, p := range []*groupOperand{&g.out, &g.a, &g.b} {
		if wholeBlocks(s) {
			p.copy = nil
		} else {
			g.rest += aligned(p.copy.elements())
		}
	}
	return g
}

// Scratch implements [device.Kernel].
func (g *grouped) Scratch() int64 { return bytesOf(g.rest) + g.k.Scratch() }

// Run implements [device.Kernel].
func (g *grouped) Run(out, in []device.Buffer, scratch device.Buffer) {
	y, a, b, s := out[0].(Slice), in[0].(Slice), in[1].(Slice), scratch.(Slice)
	var bias Slice
	if g.bias > 0 {
		bias = in[2].(Slice)
	}
	if _, weights := g.out.copy.(*weightCopy); weights {
		clear(y) // no group writes the lanes past the last channel
	}
	for i := range g.groups {
		rest := s
		part := func(p *groupOperand, all Slice, fill bool) Slice {
			if p.copy == nil {
				return all[i*p.stride:]
			}
			own := rest[:p.copy.elements()]
			rest = rest[aligned(len(own)):]
			if fill {
				p.copy.move(g.cpu, all, own, i, false)
			}
			return own
		}
		partOut, partA, partB := part(&g.out, y, false), part(&g.a, a, true), part(&g.b, b, true)
		g.k.convolve(partOut, partA, partB, bias[i*g.bias:], rest)
		if g.out.copy != nil {
			g.out.copy.move(g.cpu, y, partOut, i, true)
		}
	}
}

// channelCopy copies the channels of a group between activations, an image an item. Lanes past the
// last channel are set to zero.
type channelCopy struct {
	all, part layout

	whole, own Slice
	group      int
	back       bool
}

func (k *channelCopy) elements() int { return k.part.elements() }

func (k *channelCopy) move(c *CPU, all, part Slice, group int, back bool) {
	k.whole, k.own, k.group, k.back = all, part, group, back
	c.pool.run(k.all.n, k)
	k.whole, k.own = nil, nil
}

func (k *channelCopy) do(_, n int) {
	switch {
	case !k.back:
		clearPadding(k.part, k.own, n)
	case k.group == 0:
		clearPadding(k.all, k.whole, n)
	}
	for i := range k.part.channels {
		c := k.group*k.part.channels + i
		whole := k.whole[k.all.plane(n, c/k.all.lanes)+c%k.all.lanes:]
		own := k.own[k.part.plane(n, i/k.part.lanes)+i%k.part.lanes:]
		for v := range k.all.voxels {
			if k.back {
				whole[v*k.all.lanes] = own[v*k.part.lanes]
			} else {
				own[v*k.part.lanes] = whole[v*k.all.lanes]
			}
		}
	}
}

// clearPadding clears the last block of an image, if it has lanes past the last channel.
func clearPadding(l layout, x Slice, n int) {
	if l.liveLanes(l.blocks-1) < l.lanes {
		clear(x[l.plane(n, l.blocks-1):][:l.voxels*l.lanes])
	}
}

// weightCopy copies the weights of a group.
type weightCopy struct{ all, part weightLayout }

func (k *weightCopy) elements() int { return k.part.elements() }

func (k *weightCopy) move(_ *CPU, all, part Slice, group int, back bool) {
	if !back {
		clear(part[:k.part.elements()])
	}
	for i := range k.part.out {
		o := group*k.part.out + i
		for in := range k.part.in {
			ib, tap := in/block, k.all.tap(in/block)
			whole := all[k.all.at(o/block, ib)+in%block*block+o%block:]
			own := part[k.part.at(i/block, ib)+in%block*block+i%block:]
			for t := range k.part.taps {
				if back {
					whole[t*tap] = own[t*tap]
				} else {
					own[t*tap] = whole[t*tap]
				}
			}
		}
	}
}
