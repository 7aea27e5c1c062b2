package nn

import (
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/exec"
)

// normed is what a convolution has left for the norm of its result: see [device.NormConv].
type normed struct {
	kernels *device.NormConv
	moments exec.Value
}

// norm appends a convolution that leaves moments, or the norm that takes its statistics from them,
// on a device that can, in place of the operator's own step.
func (c *compiler) norm(n *G.Node, o operator, in []exec.Value) (done bool, err error) {
	switch o := o.(type) {
	case conv:
		return c.convNorm(n, o, in)
	case activate:
		if left, ok := c.normed[childrenOf(n)[0]]; ok && o.Norm != device.NoNorm {
			c.applyNorm(n, o, left, in)
			return true, nil
		}
	}
	return false, nil
}

// convNorm appends a convolution whose result one norm reads.
func (c *compiler) convNorm(n *G.Node, o conv, in []exec.Value) (done bool, err error) {
	dev, ok := c.dev.(device.Normaliser)
	reader := normOf(n)
	if !ok || reader == nil {
		return false, nil
	}
	kernels, err := dev.NormConv(o.ConvSpec, reader.ActivateSpec)
	if err != nil {
		return false, fmt.Errorf("%s: %w", describe(o), err)
	}
	if kernels == nil {
		return false, nil
	}
	left := normed{kernels, c.b.Planned(kernels.Moments)}
	c.normed[n], c.values[n] = left, c.result(n, o.results()[0])
	c.b.Step(exec.Step{Name: describe(o), Kernel: kernels.Conv, Out: []exec.Value{c.values[n], left.moments}, In: in,
		Recompute: price(o), FLOPs: o.flops()})
	c.flops += o.flops()
	return true, nil
}

// normOf is the one norm that reads the result of a convolution and takes its statistics; nil where
// there is none, or there are several.
func normOf(n *G.Node) (reader *activate) {
	for it := n.Graph().To(n.ID()); it.Next(); {
		parent := it.Node().(*G.Node)
		g, ok := parent.Op().(gorgoniaOp)
		if !ok || childrenOf(parent)[0] != n {
			continue
		}
		if a, ok := g.operator.(activate); ok && a.Norm != device.NoNorm {
			if reader != nil {
				return nil
			}
			reader = &a
		}
	}
	return reader
}

// applyNorm appends the statistics and what applies them.
func (c *compiler) applyNorm(n *G.Node, o activate, left normed, in []exec.Value) {
	rest, running := in[1:], []exec.Value(nil)
	affine, rest := rest[:2], rest[2:]
	if o.Norm == device.BatchNorm {
		running, rest = rest[:2], rest[2:]
	}
	results := o.results()
	statistics := c.result(picksOf(n)[1], results[1])
	if pick := picksOf(n)[1]; pick != nil {
		c.values[pick] = statistics
	}
	c.b.Step(exec.Step{Name: activateString("statistics", o.ActivateSpec), Kernel: left.kernels.Statistics,
		Out: []exec.Value{statistics}, In: slices.Concat([]exec.Value{left.moments}, running)})
	s := exec.Step{Name: describe(o), Kernel: left.kernels.Apply, Recompute: exec.Cheap,
		InPlace: []exec.Over{{Out: 0, In: 0}}}
	c.values[n] = c.result(n, results[0])
	s.Out, s.In = []exec.Value{c.values[n]}, slices.Concat([]exec.Value{in[0], statistics}, affine, rest)
	if o.Residual == device.FullResidual {
		s.InPlace = append(s.InPlace, exec.Over{Out: 0, In: 4})
	}
	c.b.Step(s)
}
