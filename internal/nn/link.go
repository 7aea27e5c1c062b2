package nn

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// A Link is memory on a device that one program writes and others read: see [Options].Links. What
// passes between them so does not visit the host.
type Link struct {
	dev    device.Device
	params *Params
	buffer device.Buffer
	tensor device.Tensor
}

// Link takes memory for a tensor of any rank but 5, of float32. It counts among the programs'
// memory.
func (p *Params) Link(shape ...int) (*Link, error) {
	if len(shape) == 5 {
		return nil, fmt.Errorf("a link of shape %v: want another rank than that of activations", shape)
	}
	if err := checkShape(shape); err != nil {
		return nil, fmt.Errorf("a link: %w", err)
	}
	t := device.Tensor{Shape: append(device.Shape{}, shape...)}
	b, err := p.dev.Alloc(p.dev.Size(t))
	if err != nil {
		return nil, fmt.Errorf("a link of shape %v: %w", shape, err)
	}
	p.programs += b.Bytes()
	return &Link{dev: p.dev, params: p, buffer: b, tensor: t}, nil
}

// fits says whether an input or output can lie in the link.
func (l *Link) fits(name string, n *Node) error {
	if !l.tensor.Shape.Equal(n.shape) || l.tensor.Type != n.typ {
		return fmt.Errorf("link %q: it has shape %v, the program wants %v of %v", name, []int(l.tensor.Shape),
			[]int(n.shape), n.typ)
	}
	return nil
}

// Read downloads the tensor, row-major.
func (l *Link) Read(dst []float32) error { return l.dev.Download(dst, l.buffer, l.tensor) }

// Write uploads the tensor, row-major.
func (l *Link) Write(values []float32) error { return l.dev.Upload(l.buffer, l.tensor, values) }

// Close gives the memory back. The programs that use it must be closed before.
func (l *Link) Close() {
	if l.buffer != nil {
		l.params.programs -= l.buffer.Bytes()
		l.dev.Free(l.buffer)
		l.buffer = nil
	}
}
