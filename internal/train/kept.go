package train

import "github.com/voxsaw/voxsaw/internal/device"

// kept is a copy of a model's states as they were before a step. The forward pass moves states,
// such as batch norm's running statistics, before anybody knows whether the step is finite; where
// it is not, the copy goes back.
type kept struct {
	dev          device.Device
	states, copy device.Buffer // nil: the model has no states
	kernel       device.Kernel
	scratch      device.Buffer
}

// newKept takes the memory.
func newKept(params Params) (*kept, error) {
	k := &kept{dev: params.Device()}
	states, err := params.States()
	if err != nil || states == nil || states.Bytes() == 0 {
		return k, err
	}
	// a product with 1 is a copy, to the bit
	if k.kernel, err = k.dev.Scale(device.Tensor{Shape: device.Shape{1, int(states.Bytes() / 4)}}, 1); err != nil {
		return k, err
	}
	if k.copy, err = k.dev.Alloc(states.Bytes()); err != nil {
		return k, err
	}
	k.states = states
	k.scratch, err = k.dev.Alloc(k.kernel.Scratch())
	return k, err
}

// keep copies the states.
func (k *kept) keep() {
	if k.states != nil {
		k.kernel.Run([]device.Buffer{k.copy}, []device.Buffer{k.states}, k.scratch)
	}
}

// restore puts the states back as they were when keep was called last.
func (k *kept) restore() {
	if k.states != nil {
		k.kernel.Run([]device.Buffer{k.states}, []device.Buffer{k.copy}, k.scratch)
	}
}

// buffers are what is to be given back.
func (k *kept) buffers() []device.Buffer {
	if k == nil {
		return nil
	}
	return []device.Buffer{k.copy, k.scratch}
}
