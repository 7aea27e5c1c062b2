package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// flatten is Flatten and Unflatten: one item a block of one image.
type flatten struct {
	c    *CPU
	l    layout
	back bool
	x, y Slice // blocked, plain
}

// Flatten implements [device.Device].
func (c *CPU) Flatten(s device.Shape) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	return &flatten{c: c, l: forRank(s)}, nil
}

// Unflatten implements [device.Device].
func (c *CPU) Unflatten(s device.Shape) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	return &flatten{c: c, l: forRank(s), back: true}, nil
}

func (k *flatten) Scratch() int { return 0 }

func (k *flatten) Run(out, in []device.Buffer, _ device.Buffer) {
	k.y, k.x = out[0].(Slice), in[0].(Slice)
	if k.back {
		k.y, k.x = k.x, k.y
	}
	if k.l.lanes == 1 {
		copy(out[0].(Slice)[:k.l.elements()], in[0].(Slice))
		return
	}
	k.c.pool.run(k.l.n*k.l.blocks, k)
}

func (k *flatten) do(_, item int) {
	n, b := item/k.l.blocks, item%k.l.blocks
	one := layout{n: 1, channels: k.l.liveLanes(b), blocks: 1, lanes: k.l.lanes, size: k.l.size, voxels: k.l.voxels}
	x := k.x[k.l.plane(n, b):]
	y := k.y[(n*k.l.channels+b*k.l.lanes)*k.l.voxels:]
	if k.back {
		packChannels(x, y, one)
	} else {
		unpackChannels(y, x, one)
	}
}
