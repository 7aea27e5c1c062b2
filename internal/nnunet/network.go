package nnunet

import (
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// network is a model's network on windows of its patch. Where it tells more classes apart than its
// last layer has channels to do so by, the logits of a whole window are never in memory
// ([nn.Apart]). That layer is linear, so that it may follow after the mean over mirror images, too.
type network struct {
	heads    int
	channels int // of what a window gives: all logits, or the features that they are made of

	whole *nn.Program // nil: apart
	apart *nn.Apart

	logits []float32 // of whole, of a window (heads, patch)
}

// newNetwork compiles the network of a model. partBytes says how much of the last layer's result is
// made at once; 0: all of it, but where that would take much memory.
func newNetwork(dev device.Device, params *nn.Params, m *Model, memory int64, partBytes int) (*network, error) {
	n := &network{heads: m.Heads(), channels: m.Heads()}
	g := nn.NewGraph(nn.Eval, dev.Activations())
	logits := m.Network.Logits(g, g.Input("image", 1, m.Network.In, m.Patch[0], m.Patch[1], m.Patch[2]))[0]
	if partBytes == 0 && nn.SavesApart(logits) {
		partBytes = nn.PartBytes
	}
	named := func(_ *nn.Graph, logits *nn.Node) map[string]*nn.Node { return map[string]*nn.Node{"logits": logits} }
	o := nn.Options{MemoryLimit: memory}
	var err error
	if partBytes > 0 {
		if n.apart, err = nn.CompileApart(dev, g, logits, params, partBytes, named, o); n.apart != nil {
			n.channels = n.apart.Channels
		}
		return n, err
	}
	o.Outputs = named(g, logits)
	n.whole, err = nn.Compile(dev, g, params, o)
	n.logits = make([]float32, n.heads*m.Patch[0]*m.Patch[1]*m.Patch[2])
	return n, err
}

func (n *network) close() {
	if n.apart != nil {
		n.apart.Close()
	}
	if n.whole != nil {
		n.whole.Close()
	}
}

// bytes is the memory of the programs, and of what they give.
func (n *network) bytes() int64 {
	if n.apart != nil {
		return n.apart.Bytes()
	}
	return n.whole.Bytes() + 4*int64(len(n.logits))
}

// run is the network on one window (In, patch), but perhaps for its last layer.
func (n *network) run(x []float32) ([]float32, error) {
	if n.apart != nil {
		return n.apart.Run("image", x)
	}
	if err := n.whole.Set("image", x); err != nil {
		return nil, err
	}
	if err := n.whole.Forward(); err != nil {
		return nil, err
	}
	return n.logits, n.whole.Read("logits", n.logits)
}

// each gives the logits (heads, planes, ..) of what run gave, or of a mean of it, a few planes of
// the window at a time, which begin with the plane of the given number.
func (n *network) each(values []float32, add func(logits []float32, plane int)) error {
	if n.apart == nil {
		add(values, 0)
		return nil
	}
	return n.apart.Each(values, func(plane int, outputs map[string][]float32) { add(outputs["logits"], plane) })
}
