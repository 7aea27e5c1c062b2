package cpu

import (
	"strings"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"
)

// Work is what a convolution costs by the algorithm that is in force for it.
type Work struct {
	Algorithm string
	// floating-point operations of its matrix products, channels rounded up to whole vectors
	Products float64
	Points   float64 // bytes of points that go through the caches, 0 where nothing is transformed
	Operands float64 // bytes of inputs, outputs and weights, each once
}

// activationPasses is how often the points of an activation are written or read: each of the three
// transforms doubles what there is, so a quarter of them passes after the one along z, half after
// y, all after x; on the way back it is the same. Those of weights are written once and read once
// at least.
const (
	activationPasses = 2 * (1 + 1./2 + 1./4)
	weightPasses     = 2
)

// Work tells what a kernel does. The arithmetic of the transforms themselves is not counted: it is
// a few additions for each point.
func (c *CPU) Work(s device.ConvSpec, kind ConvKind) (Work, error) {
	names, err := c.Candidates(s, kind)
	if err != nil {
		return Work{}, err
	}
	w := Work{Algorithm: names[0]}
	for _, name := range names {
		if name == c.opt.Choices[ChoiceKey(s, kind)] {
			w.Algorithm = name
		}
	}
	vectors := func(channels int) float64 { return float64((channels + block - 1) / block * block) }
	in, out, size := vectors(s.In), vectors(s.Out), s.OutSize()
	if s.In == 1 { // a tensor of one channel lies without lanes
		in = 1
	}
	if s.Out == 1 {
		out = 1
	}
	w.Operands = 4 * float64(elementsOf(s.XShape())+elementsOf(s.YShape())+s.WShape().Elements())
	for _, tile := range toomcook.Tiles {
		if !strings.HasPrefix(w.Algorithm, "Winograd "+tile.String()+" ") {
			continue
		}
		if kind == Transposed {
			size = s.Size
		}
		p, own := tile.Points(), tile.Weights()
		tiles, points, weights := float64(s.N), float64(p*p*p), float64(own*own*own)
		if isFlat(s) {
			points, weights = float64(p*p), float64(own*own)
			tiles *= float64(size[0])
			size[0] = 1 // a plane, whatever a tile's outputs
		}
		for _, n := range size {
			tiles *= float64((n + tile.Outputs - 1) / tile.Outputs)
		}
		w.Products = 2 * points * tiles * in * out
		w.Points = 4 * (points*activationPasses*tiles*(in+out) + weights*weightPasses*in*out)
		return w, nil
	}
	w.Products = 2 * float64(s.N) * in * out
	if t, ok := oneTile(s); ok && w.Algorithm == "one channel" {
		tiles := (size[2] + t.Outputs - 1) / t.Outputs
		points := float64(t.Points() * tiles * size[1] * size[0])
		w.Products *= points * float64(s.Kernel[1]*s.Kernel[0])
		w.Points = 4 * 2 * points * float64(s.N) * out // those of the outputs, written and read
		return w, nil
	}
	k, err := c.chosen(s, kind)
	if live, ok := k.(interface{ liveProducts() int }); ok {
		w.Products = 2 * in * out * float64(live.liveProducts())
		return w, err
	}
	for i, n := range size {
		w.Products *= float64(n * s.Kernel[i])
	}
	return w, err
}
