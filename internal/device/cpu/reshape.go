package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// flatten is Flatten and Unflatten: packing between two buffers of the device.
type flatten struct {
	c *CPU
	packing
}

// Flatten implements [device.Device].
func (c *CPU) Flatten(s device.Shape) (device.Kernel, error) { return c.newFlatten(s, true) }

// Unflatten implements [device.Device].
func (c *CPU) Unflatten(s device.Shape) (device.Kernel, error) { return c.newFlatten(s, false) }

func (c *CPU) newFlatten(s device.Shape, back bool) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	return &flatten{c, packing{l: forRank(s), back: back}}, nil
}

func (k *flatten) Scratch() int { return 0 }

func (k *flatten) Run(out, in []device.Buffer, _ device.Buffer) {
	k.blocked, k.plain = out[0].(Slice), in[0].(Slice)
	if k.back {
		k.blocked, k.plain = k.plain, k.blocked
	}
	k.packing.run(k.c)
}
