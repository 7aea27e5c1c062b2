package nnunet

import (
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// network is a model's network on windows of its patch. Where it tells more classes apart than its
// last layer has channels to do so by, that layer is a program of its own, which is given a few
// planes of a window at a time: the logits of a whole window are never in memory then. That layer
// is linear and looks at each voxel alone, so that it may follow after the mean over mirror images,
// too.
type network struct {
	patch    [3]int
	heads    int
	channels int // of what a window gives: all logits, or the features that they are made of

	body   *nn.Program
	head   *nn.Program // nil: body gives the logits
	planes int         // of a window that head takes

	values []float32 // of a window (channels, patch)
	part   []float32 // of it (channels, planes, ..), and the logits of these
	logits []float32
}

// partBytes is how large the logits are that the last layer makes at once, about.
const partBytes = 32 << 20

// newNetwork compiles the network of a model. apart says whether its last layer is a program of its
// own; nil: where that takes less memory.
func newNetwork(dev device.Device, params *nn.Params, m *Model, memory int64, apart *bool) (*network, error) {
	n := &network{patch: m.Patch, heads: m.Heads(), channels: m.Heads(), planes: m.Patch[0]}
	plane := m.Patch[1] * m.Patch[2]
	split := n.heads > m.Network.Features[0]
	if apart != nil {
		split = *apart
	}
	body, top := nn.NewGraph(nn.Eval, dev.Activations()), nn.NewGraph(nn.Eval, dev.Activations())
	x := body.Input("image", 1, m.Network.In, m.Patch[0], m.Patch[1], m.Patch[2])
	var values, logits *nn.Node
	if split {
		n.channels = m.Network.Features[0]
		for n.planes > 1 && (m.Patch[0]%n.planes != 0 || 4*n.heads*n.planes*plane > partBytes) {
			n.planes--
		}
		values = m.Network.Body(body, x)
		logits = m.Network.Head(top, top.Input("values", 1, n.channels, n.planes, m.Patch[1], m.Patch[2]))
	} else {
		values = m.Network.Logits(body, x)[0]
	}
	if err := params.Declare(body, top); err != nil {
		return nil, err
	}
	var err error
	if n.body, err = nn.Compile(dev, body, params, nn.Options{Outputs: map[string]*nn.Node{"values": values},
		MemoryLimit: memory}); err == nil && split {
		n.head, err = nn.Compile(dev, top, params, nn.Options{Outputs: map[string]*nn.Node{"logits": logits},
			MemoryLimit: memory})
	}
	if err != nil {
		n.close()
		return nil, err
	}
	n.values = make([]float32, n.channels*m.Patch[0]*plane)
	if split {
		n.part, n.logits = make([]float32, n.channels*n.planes*plane), make([]float32, n.heads*n.planes*plane)
	}
	return n, nil
}

func (n *network) close() {
	for _, p := range []*nn.Program{n.body, n.head} {
		if p != nil {
			p.Close()
		}
	}
}

// bytes is the memory of the programs, and of what they give.
func (n *network) bytes() int64 {
	all := n.body.Bytes() + 4*int64(len(n.values)+len(n.part)+len(n.logits))
	if n.head != nil {
		all += n.head.Bytes()
	}
	return all
}

// run is the network on one window (In, patch), but perhaps for its last layer.
func (n *network) run(x []float32) ([]float32, error) {
	if err := n.body.Set("image", x); err != nil {
		return nil, err
	}
	if err := n.body.Forward(); err != nil {
		return nil, err
	}
	return n.values, n.body.Read("values", n.values)
}

// each gives the logits (heads, planes, ..) of what run gave, or of a mean of it, a few planes of
// the window at a time, which begin with the plane of the given number.
func (n *network) each(values []float32, add func(logits []float32, plane int)) error {
	if n.head == nil {
		add(values, 0)
		return nil
	}
	plane := n.patch[1] * n.patch[2]
	window, part := n.patch[0]*plane, n.planes*plane
	for at := 0; at < n.patch[0]; at += n.planes {
		for c := range n.channels {
			copy(n.part[c*part:][:part], values[c*window+at*plane:])
		}
		if err := n.head.Set("values", n.part); err != nil {
			return err
		}
		if err := n.head.Forward(); err != nil {
			return err
		}
		if err := n.head.Read("logits", n.logits); err != nil {
			return err
		}
		add(n.logits, at)
	}
	return nil
}
