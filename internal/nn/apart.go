package nn

import (
	"strings"

	"github.com/voxsaw/voxsaw/internal/device"
)

// PartBytes is how large the result of the last layer is at most, about, that is made at once where
// that layer is a program of its own.
const PartBytes = 32 << 20

// Apart is a network whose last layer is a program of its own, which is given a few planes at a
// time: what it makes of a whole image is never in memory then. The layer is a convolution of 1x1x1
// voxels, which looks at each voxel alone.
type Apart struct {
	Channels int // of what Run gives, which the last layer is given
	Planes   int // that the last layer takes at once
	Parts    int // that it takes an image in

	body, head *Program
	shape      device.Shape // (N, Channels, D, H, W)
	features   []float32
	part       []float32
	outputs    map[string][]float32 // of a part (C, Planes, H, W)
}

// CompileApart makes two programs of a graph whose result is logits (N, C, D, H, W) of an input:
// all but the last layer, and that layer with what finish adds to its result, whose outputs are
// named. The last layer makes partBytes of logits at once, about. It returns nil where the layer is
// no convolution that looks at each voxel alone.
func CompileApart(dev device.Device, g *Graph, logits *Node, params *Params, partBytes int,
	finish func(g *Graph, logits *Node) map[string]*Node, o Options) (*Apart, error) {
	last, ok := logits.pointwise()
	if g.err != nil || !ok {
		return nil, g.err
	}
	a := &Apart{Channels: last.spec.In, shape: last.spec.XShape(), outputs: map[string][]float32{}}
	plane := a.shape[3] * a.shape[4]
	a.Planes = last.planes(partBytes)
	a.Parts = a.shape[2] / a.Planes
	top := NewGraph(g.mode, g.typ)
	o.Outputs = finish(top, last.of(top, top.Input("features", 1, a.Channels, a.Planes, a.shape[3], a.shape[4])))
	for name, n := range o.Outputs {
		a.outputs[name] = make([]float32, n.shape.Elements())
	}
	err := params.Declare(g, top) // all, so that the first program is compiled with what both need
	if err == nil {
		a.head, err = Compile(dev, top, params, o)
	}
	if err == nil {
		o.Outputs = map[string]*Node{"features": last.x}
		a.body, err = Compile(dev, g, params, o)
	}
	if err != nil {
		a.Close()
		return nil, err
	}
	a.features, a.part = make([]float32, a.shape.Elements()), make([]float32, a.Channels*a.Planes*plane)
	return a, nil
}

// Close gives the memory back.
func (a *Apart) Close() {
	for _, p := range []*Program{a.body, a.head} {
		if p != nil {
			p.Close()
		}
	}
}

// Bytes is the memory of the programs, and of [Apart.HostBytes].
func (a *Apart) Bytes() int64 { return a.body.Bytes() + a.head.Bytes() + a.HostBytes() }

// HostBytes is the memory of what the programs are given and give on the host.
func (a *Apart) HostBytes() int64 {
	all := 4 * int64(len(a.features)+len(a.part))
	for _, values := range a.outputs {
		all += 4 * int64(len(values))
	}
	return all
}

// FLOPs is the arithmetic of the network on its N images.
func (a *Apart) FLOPs() float64 {
	return a.body.ForwardFLOPs() + float64(a.Parts*a.shape[0])*a.head.ForwardFLOPs()
}

// Run is the network up to its last layer. The features (N, Channels, D, H, W) are valid until it
// is called again, and the caller may change them.
func (a *Apart) Run(input string, x []float32) ([]float32, error) {
	if err := a.body.Set(input, x); err != nil {
		return nil, err
	}
	if err := a.body.Forward(); err != nil {
		return nil, err
	}
	return a.features, a.body.Read("features", a.features)
}

// Each is the last layer on the features (Channels, D, H, W) of one image, a few planes at a time:
// do is told the first of them, and what the outputs are there (C, Planes, H, W).
func (a *Apart) Each(features []float32, do func(plane int, outputs map[string][]float32)) error {
	plane := a.shape[3] * a.shape[4]
	whole, part := a.shape[2]*plane, a.Planes*plane
	for at := 0; at < a.shape[2]; at += a.Planes {
		for c := range a.Channels {
			copy(a.part[c*part:][:part], features[c*whole+at*plane:])
		}
		if err := a.head.Set("features", a.part); err != nil {
			return err
		}
		if err := a.head.Forward(); err != nil {
			return err
		}
		for name, values := range a.outputs {
			if err := a.head.Read(name, values); err != nil {
				return err
			}
		}
		do(at, a.outputs)
	}
	return nil
}

// SavesApart says whether it takes much less memory to make logits (N, C, D, H, W) a part at a time
// ([CompileApart]): they have more channels than what they are made of, and are large.
func SavesApart(logits *Node) bool {
	last, ok := logits.pointwise()
	return ok && last.spec.Out > last.spec.In && 4*logits.shape[1:].Elements() > PartBytes
}

// ApartBytes is the memory that [Apart.HostBytes] will be of logits that are made about partBytes
// at once, and of which so many outputs are finished.
func ApartBytes(logits *Node, partBytes, outputs int) int64 {
	last, ok := logits.pointwise()
	if !ok {
		return 0
	}
	shape := last.spec.XShape()
	part := last.planes(partBytes) * shape[3] * shape[4]
	return 4 * int64(shape.Elements()+(last.spec.In+outputs*last.spec.Out)*part)
}

// planes is how many planes of a layer's result are made at once: of partBytes, about.
func (l layer) planes(partBytes int) int {
	shape := l.spec.XShape()
	depth, plane := shape[2], shape[3]*shape[4]
	n := depth
	for n > 1 && (depth%n != 0 || 4*l.spec.Out*n*plane > partBytes) {
		n--
	}
	return n
}

// A layer is a convolution of x that looks at each voxel alone.
type layer struct {
	x    *Node
	name string // that its parameters begin with
	spec device.ConvSpec
}

// of is the layer, with the same parameters, of another node.
func (l layer) of(g *Graph, x *Node) *Node {
	return g.Conv(l.name, x, l.spec.Out, Cube(1, 1, 0), l.spec.Bias)
}

// pointwise says of which layer a node is the result, false where it is not that of a convolution
// that looks at each voxel alone.
func (n *Node) pointwise() (l layer, ok bool) {
	if n.n == nil {
		return l, false
	}
	op, ok := n.n.Op().(gorgoniaOp)
	if !ok {
		return l, false
	}
	c, ok := op.operator.(conv)
	one := [3]int{1, 1, 1}
	if !ok || c.Kernel != one || c.Stride != one || c.Pad != [3]int{} || c.Grouped() {
		return l, false
	}
	in := childrenOf(n.n)
	weights, ok := n.g.leaves[in[1]]
	if !ok || weights.kind != parameter {
		return l, false
	}
	return layer{x: &Node{g: n.g, n: in[0], shape: c.XShape(), typ: c.Type},
		name: strings.TrimSuffix(weights.name, ".weight"), spec: c.ConvSpec}, true
}
