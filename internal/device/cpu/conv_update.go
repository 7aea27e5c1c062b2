package cpu

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// ConvGradWeightsSGD implements [device.Device].
func (c *CPU) ConvGradWeightsSGD(s device.ConvSpec) (device.Kernel, error) {
	if s.Grouped() {
		return nil, fmt.Errorf("a step of %s with its gradient: not for convolutions in groups", ChoiceKey(s, Weights))
	}
	k, err := c.choose(s, Weights)
	if err != nil {
		return nil, err
	}
	k.(interface{ useUp(*CPU) }).useUp(c)
	return k, nil
}

// gradientSink takes the gradients that a kernel computes. It keeps them, or it takes a step of SGD
// with each pair of channel blocks while that lies in a core's cache, and keeps none.
type gradientSink struct {
	w  weightLayout
	dw Slice // where they are kept

	lanes            *laneKernels // nil: they are kept
	values, velocity Slice
	hyper            [4]float32
	squares          []float64 // of each pair
}

// useUp makes it take steps.
func (g *gradientSink) useUp(c *CPU) {
	g.lanes, g.squares = lanesOf(c.kernels.name), make([]float64, g.w.pairs())
}

// keeps says whether gradients are kept.
func (g *gradientSink) keeps() bool { return g.lanes == nil }

// whole is how many elements of scratch memory take all gradients, for a kernel that cannot make
// them pair by pair: 0 where they are kept.
func (g *gradientSink) whole() int {
	if g.keeps() {
		return 0
	}
	return g.w.elements()
}

// run is Run of a kernel that has nothing but these operands.
func (g *gradientSink) run(k convolver, out, in []device.Buffer, scratch device.Buffer) {
	if g.keeps() {
		g.dw = out[0].(Slice)
	} else {
		g.values, g.velocity = out[0].(Slice), out[1].(Slice)
		copy(g.hyper[:], in[2].(Slice))
	}
	k.convolve(g.dw, in[0].(Slice), in[1].(Slice), nil, scratch.(Slice))
	if !g.keeps() {
		sum := 0.0
		for _, s := range g.squares {
			sum += s
		}
		out[2].(Slice)[0] = float32(sum)
	}
	g.values, g.velocity = nil, nil
}

// take takes the step of one pair of blocks, given its gradients.
func (g *gradientSink) take(gradients []float32, ob, ib int) {
	values := g.w.pair(g.values, ob, ib)
	gradients = gradients[:len(values)]
	g.squares[ob*g.w.inBlocks()+ib] = g.lanes.runEnergy(gradients)
	if g.hyper != noStep {
		g.lanes.runSGD(values, g.w.pair(g.velocity, ob, ib), gradients, &g.hyper)
	}
}
