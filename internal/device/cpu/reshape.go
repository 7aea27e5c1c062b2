package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// flatten is Flatten and Unflatten: packing between two buffers of the device.
type flatten struct {
	c *CPU
	packing
}

// Flatten implements [device.Device].
func (c *CPU) Flatten(t device.Tensor) (device.Kernel, error) { return c.newFlatten(t, true) }

// Unflatten implements [device.Device].
func (c *CPU) Unflatten(t device.Tensor) (device.Kernel, error) { return c.newFlatten(t, false) }

func (c *CPU) newFlatten(t device.Tensor, back bool) (device.Kernel, error) {
	if err := accept(t, t.Type); err != nil {
		return nil, err
	}
	return &flatten{c, packing{l: forRank(t.Shape), back: back}}, nil
}

func (k *flatten) Scratch() int64 { return 0 }

func (k *flatten) Run(out, in []device.Buffer, _ device.Buffer) {
	k.blocked, k.plain = out[0].(Slice), in[0].(Slice)
	if k.back {
		k.blocked, k.plain = k.plain, k.blocked
	}
	k.packing.run(k.c)
}
