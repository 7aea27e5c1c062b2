package cpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"
)

// ConvKind is one of the three kernels of a convolution.
type ConvKind = device.ConvKind

// The kinds.
const (
	Forward    = device.ConvForward
	Transposed = device.ConvTransposed
	Weights    = device.ConvWeights
)

// ChoiceKey names a kernel of a convolution in [Options].Choices.
func ChoiceKey(s device.ConvSpec, kind ConvKind) string { return device.ChoiceKey(s, kind) }

// Candidates lists the algorithms that can compute a kernel of a convolution, those that the cost
// model expects to be fast first. Any of them may be put into [Options].Choices under [ChoiceKey];
// a name that is not in the list is an error there.
func (c *CPU) Candidates(s device.ConvSpec, kind ConvKind) ([]string, error) {
	if err := accept(s, s.Type); err != nil {
		return nil, err
	}
	var names []string
	for _, a := range c.algorithms(perGroup(s), kind) {
		names = append(names, a.name)
	}
	return names, nil
}

// algorithm is one way to compute a kernel of a convolution.
type algorithm struct {
	name string
	cost float64 // in multiplications of vectors
	make func() convolver
}

// choose makes the kernel that the options ask for, and if they do not, the one that the cost model
// expects to be fastest. The choice depends on the number of threads, and with it the rounding;
// given the algorithm, the result does not.
func (c *CPU) choose(s device.ConvSpec, kind ConvKind) (device.Kernel, error) {
	if err := accept(s, s.Type); err != nil {
		return nil, err
	}
	k, err := c.chosen(s, kind)
	if err != nil || !s.Grouped() {
		return k, err
	}
	return newGrouped(c, s, kind, k), nil
}

// chosen is the kernel of a convolution, or of one of its groups.
func (c *CPU) chosen(s device.ConvSpec, kind ConvKind) (convolver, error) {
	list := c.algorithms(perGroup(s), kind)
	if want, ok := c.opt.Choices[ChoiceKey(s, kind)]; ok {
		for _, a := range list {
			if a.name == want {
				return a.make(), nil
			}
		}
		names, _ := c.Candidates(s, kind)
		return nil, fmt.Errorf("the choice for %s is %q, which is none of its algorithms here (%s): measure again",
			ChoiceKey(s, kind), want, strings.Join(names, ", "))
	}
	return list[0].make(), nil
}

// algorithms lists what can compute a kernel of a convolution, or of one of its groups, by cost.
func (c *CPU) algorithms(s device.ConvSpec, kind ConvKind) []algorithm {
	g := forwardGeometry(s)
	if kind == Transposed {
		g = transposedGeometry(s)
	}
	ofGroup := s.OfGroup()
	products := float64(g.in.channels * g.out.blocks)
	direct := (1.2*float64(g.out.n)*g.outputsTaps() + readCost*float64(g.weights.taps)) * products
	if onePlane(&g) {
		direct = flatDirectCost(&g, kind != Weights && flattens(&g))
		if isPointwise(s) && (kind == Weights || !flattens(&g)) {
			direct *= 1.3
		}
	}
	var list []algorithm
	add := func(name string, cost float64, make func() convolver) {
		list = append(list, algorithm{name, cost, make})
	}
	if kind == Weights {
		add("direct", direct, func() convolver { return newDirectWeights(c, s) })
	} else {
		add("direct", direct, func() convolver { return newDirect(c, g) })
	}
	if smallImages(s) {
		if kind == Weights {
			k := newSmallWeights(c, s)
			add("live taps", smallWeightsCost(k)+flatSmallCost(&g, (g.weights.taps-1)/4), func() convolver { return k })
		} else {
			k := newSmall(c, g)
			add("live taps", smallCost(&g, k)+flatSmallCost(&g, 0), func() convolver { return k })
		}
	}
	if t, ok := oneTile(s); ok && c.opt.Conv != "direct" && !onePlane(&g) {
		switch {
		case kind == Weights:
			add("one channel", direct/4, func() convolver { return newOneChannelWeights(c, s, t) })
		case kind == Forward && t.Taps == 5: // of three taps it saves less than it costs
			add("one channel", direct/2, func() convolver { return newOneChannel(c, s, t) })
		}
	}
	switch {
	case fewChannels(s) && kind == Forward:
		add("few channels", 0.9*direct, func() convolver { return newFewChannels(c, g) })
	case fewChannels(s) && kind == Weights:
		add("few channels", 0.65*direct, func() convolver { return newFewChannelsWeights(c, s) })
	case isPointwise(s) && kind == Weights:
		add("pointwise", pointwiseWeightsCost(&g), func() convolver { return newPointwiseWeights(c, s) })
	case isPointwise(s):
		add("pointwise", pointwiseCost(&g), func() convolver { return newPointwise(c, g) })
	}
	for _, t := range toomcook.Tiles {
		r, stride := t.Taps, t.Stride()
		flat := isFlat(s) && s.Kernel == [3]int{1, r, r} && s.Stride == [3]int{1, stride, stride}
		if c.opt.Conv == "direct" ||
			!flat && (s.Kernel != [3]int{r, r, r} || s.Stride != [3]int{stride, stride, stride}) ||
			t.Halving && kind == Transposed ||
			t.Doubling && (kind != Transposed || s.Pad != [3]int{s.Kernel[0] / 2, 1, 1}) ||
			// costs of photographs were fitted without these tiles
			onePlane(&g) && (t == (toomcook.Tile{Outputs: 3, Taps: 5}) || t == largest || stride == 2) ||
			flat && kind == Weights && t == largest || ofGroup.In == 1 || ofGroup.Out == 1 {
			continue
		}
		cost, tiles := winogradCost(t, &g)
		points := t.Weights() * t.Weights() * t.Weights()
		if flat {
			cost, tiles = flatWinogradCost(t, &g)
			points = t.Weights() * t.Weights()
		}
		// Transforming all activations before any weights, or all weights before any activations.
		name := "Winograd " + t.String()
		few := tiles <= fewTiles || tiles <= 2*g.out.channels && ofGroup.In*ofGroup.Out*points > manyWeights
		few = few && g.out.blocks >= c.opt.Threads
		if kind == Weights {
			// the activations' points take less memory than sums of all weights' points for each
			// thread
			few = tiles <= fewTilesEach*c.opt.Threads ||
				tiles*(ofGroup.In+ofGroup.Out) < c.opt.Threads*ofGroup.In*ofGroup.Out/2
			few = few && g.in.blocks*((g.out.blocks+1)/2) >= c.opt.Threads
		}
		if flat {
			few = tiles <= 4*min(ofGroup.In, ofGroup.Out) && min(g.in.blocks, g.out.blocks) >= c.opt.Threads
		}
		forFew, forMany := cost, cost
		if few {
			forMany *= 1.2
		} else {
			forFew *= 1.2
		}
		if kind == Weights {
			add(name+" by channels", forFew, func() convolver { return newWinogradFewGradient(c, s, t) })
			add(name+" by tiles", forMany, func() convolver { return newWinogradGradient(c, s, t) })
		} else {
			add(name+" by channels", forFew, func() convolver { return newWinogradFew(c, s, kind == Transposed, t) })
			add(name+" by tiles", forMany, func() convolver { return newWinograd(c, s, kind == Transposed, t) })
		}
	}
	slices.SortStableFunc(list, func(a, b algorithm) int {
		switch {
		case a.cost < b.cost:
			return -1
		case a.cost > b.cost:
			return 1
		}
		return 0
	})
	return list
}

// fewTiles is up to how many tiles it pays to transform all activations before any weights; up to
// more where the points of the weights do not stay in a third-level cache.
const fewTiles = 64

// fewTilesEach is fewTiles of a gradient of weights, for each thread: for each of them, sums of all
// points are transformed or added up.
const fewTilesEach = 36

// largest is the tile of the most outputs. For gradients of weights in a plane it is not faster.
var largest = toomcook.Tile{Outputs: 6, Taps: 3}

// manyWeights is how many points of weights are too many to be read again for every block of tiles.
const manyWeights = 3 << 20

// The costs are in multiplications of vectors, 12 a nanosecond on two cores, and were fitted to
// times measured where the weights have to come from memory, as they do in a training step.
const (
	// of a vector of weights, read for outputs or for the gradient of inputs, and turned round
	// there
	readCost      = 35
	writeCost     = 20  // of one that is a gradient
	transformCost = 5.5 // of one that a transform of weights writes
	// times what is estimated, for F(6,3) in three dimensions: its weights lie in more distant
	// caches than those of F(4,3)
	largestTile = 1.2
)

// winogradCost estimates a Winograd convolution, and says how many tiles it has. Weights are
// transformed along z, y and x. A block of channels of an 8^3 tile costs 4500 forth and 2700 back.
func winogradCost(t toomcook.Tile, g *geometry) (cost float64, tiles int) {
	tiles = g.out.n
	for _, n := range g.out.size {
		tiles *= (n + t.Outputs - 1) / t.Outputs
	}
	if t == largest {
		defer func() { cost *= largestTile }()
	}
	r, p, own := float64(t.Taps), float64(t.Points()), float64(t.Weights())
	weights := readCost*r*r*r + transformCost*own*(r*r+r*own+own*own)
	return float64(g.in.channels*g.out.blocks)*(weights+1.7*p*p*p*float64(tiles)) +
		p*p*p*float64(tiles)/512*float64(4500*g.in.blocks+2700*g.out.blocks), tiles
}

// flatWinogradCost is winogradCost of a convolution with one tap along z.
func flatWinogradCost(t toomcook.Tile, g *geometry) (cost float64, tiles int) {
	tiles = g.out.n * g.out.size[0]
	for _, n := range g.out.size[1:] {
		tiles *= (n + t.Outputs - 1) / t.Outputs
	}
	r, p, own := float64(t.Taps), float64(t.Points()), float64(t.Weights())
	weights := readCost*r*r + transformCost*own*(r+own)
	return float64(g.in.channels*g.out.blocks)*(weights+1.7*p*p*float64(tiles)) +
		p*p*float64(tiles)/64*float64(800*g.in.blocks+500*g.out.blocks), tiles
}

// onePlane says whether this is a convolution of photographs: inputs, outputs and kernel have a
// depth of 1, and there is more than one pixel. The costs of these were fitted to times of 72
// patches of 64 pixels in ResNets and AlexNet, one thread, AVX2; those of volumes were not touched.
func onePlane(g *geometry) bool {
	return g.in.size[0] == 1 && g.out.size[0] == 1 && g.lo[0] == 0 && g.hi[0] == 0 && max(g.in.voxels, g.out.voxels) > 1
}

// outputsTaps is how many taps the outputs of an image have together.
func (g *geometry) outputsTaps() float64 {
	n := 0
	for _, p := range g.phases {
		n += len(p.taps) * p.count[0] * p.count[1] * p.count[2]
	}
	return float64(n)
}

// flatDirectCost counts the taps that each phase has, and that products of few rows take longer;
// joined says that the rows of an image are one.
func flatDirectCost(g *geometry, joined bool) float64 {
	width := g.out.size[2]
	for _, p := range g.phases {
		width = min(width, p.count[2])
	}
	if joined {
		width = g.out.voxels
	}
	short := 1 + 4/float64(width*width)
	return (1.2*short*float64(g.out.n)*g.outputsTaps() + readCost*float64(g.weights.taps)) *
		float64(g.in.channels*g.out.blocks)
}

// pointwiseCost is that of a product of pixels and channels, and of copying the rows and staging
// the results.
func pointwiseCost(g *geometry) float64 {
	rows, pairs := pixelRows(g), float64(g.in.channels*g.out.blocks)
	return (1.2*rows+readCost)*pairs + 12*rows*float64(g.in.blocks+g.out.blocks)
}

// pointwiseWeightsCost is that of its gradient.
func pointwiseWeightsCost(g *geometry) float64 {
	rows, pairs := pixelRows(g), float64(g.in.channels*g.out.blocks)
	return (1.4*rows+writeCost)*pairs + 20*rows*float64(g.in.blocks)
}

// pixelRows is the pixels of all images that a 1x1 convolution multiplies.
func pixelRows(g *geometry) float64 {
	count := g.phases[0].count
	return float64(g.in.n * count[1] * count[2])
}

// flatSmallCost is what live taps cost beside their products, for photographs: rows that are whole
// images lie the farther apart the larger these are.
func flatSmallCost(g *geometry, more int) float64 {
	if !onePlane(g) {
		return 0
	}
	width, voxels := min(g.in.size[2], g.out.size[2]), min(g.in.voxels, g.out.voxels)
	return 0.4 * float64(width*(1+more)*g.out.n*voxels) * float64(g.in.channels*g.out.blocks)
}

// smallImages says whether padding makes up so much of what the taps see that it may pay to
// multiply only those that are alive.
func smallImages(s device.ConvSpec) bool {
	o, ofGroup := s.OutSize(), s.OfGroup()
	return ofGroup.In > 1 && ofGroup.Out > 1 && max(o[0]*o[1]*o[2], s.Size[0]*s.Size[1]*s.Size[2]) <= 125
}
