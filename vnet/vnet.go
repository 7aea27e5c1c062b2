// Package vnet is VNet, the volumetric network of Milletari et al. 2016, in the three forms that
// share the name.
//
// Start at [Config]: [Default] is the paper's network, [Config.Encoder] and [Config.Decoder] add
// the network to a graph. The down-sampling half alone is the backbone that puzzles train; its
// parameters are called the same ("encoder....") there and in the whole network, so a checkpoint of
// one loads into the other.
//
// The package does not know what a network is trained for.
package vnet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// Config says which VNet. An empty string, a zero or a negative dropout stands for the preset's own
// value; [Config.Resolve] writes them out.
type Config struct {
	Preset     string  `yaml:"preset" help:"network: paper (Milletari 2016), caffe (its released prototxt) or monai (MONAI, vnet.pytorch)"`
	Channels   int     `yaml:"channels" help:"channels of the first stage; they double with every level (the presets' own: 16)"`
	Levels     int     `yaml:"levels" help:"down-samplings by two, 1 to 4 (the presets' own: 4)"`
	Norm       string  `yaml:"norm" help:"normalisation after each convolution: none, instance, batch or group; empty: the preset's"`
	Groups     int     `yaml:"groups" help:"groups of the group normalisation"`
	Activation string  `yaml:"activation" help:"prelu, elu or relu; empty: the preset's"`
	Dropout    float64 `yaml:"dropout" help:"rate of the monai preset's channel dropout; negative: the preset's (0.5), 0 switches it off"`
	Classes    int     `yaml:"classes" flag:"-" help:"classes, the background among them"`
}

// Default is the paper's network as it is. Its lack of a normalisation makes it slow to train from
// random weights: a run sets Norm.
func Default() Config {
	return Config{Preset: "paper", Channels: 16, Levels: 4, Groups: 8, Dropout: -1, Classes: 2}
}

// preset is what the three networks differ in.
type preset struct {
	encoder    []int // convolutions a stage, finest first
	decoder    []int // convolutions a stage, coarsest first
	norm       string
	activation string
	dropout    float64
	// of convolutions that a norm may follow; the up-convolutions and the last one always have it
	bias bool
	// the last convolution of a stage is activated before the residual is added, and the sum is
	// activated again
	inner    bool
	wideHead bool // 5^3 -> classes, activation, 1^3 -> classes; otherwise 1^3 -> classes alone
}

var presets = map[string]preset{
	"paper": {encoder: []int{1, 2, 3, 3, 3}, decoder: []int{3, 3, 2, 1}, norm: "none", activation: "prelu", bias: true},
	"caffe": {encoder: []int{1, 1, 2, 3, 3}, decoder: []int{3, 2, 1, 1}, norm: "none", activation: "prelu", bias: true, wideHead: true},
	"monai": {encoder: []int{1, 1, 2, 3, 2}, decoder: []int{2, 2, 1, 1}, norm: "batch", activation: "elu", dropout: 0.5, inner: true, wideHead: true},
}

var (
	norms       = map[string]device.Norm{"none": device.NoNorm, "instance": device.InstanceNorm, "batch": device.BatchNorm, "group": device.GroupNorm}
	activations = map[string]device.Activation{"prelu": device.PReLU, "elu": device.ELU, "relu": device.ReLU}
)

func names[V any](m map[string]V) string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// Resolve returns the configuration with the preset's values in the place of those left out, or
// says what is wrong with it.
func (c Config) Resolve() (Config, error) {
	if c.Preset == "" {
		c.Preset = "paper"
	}
	p, ok := presets[c.Preset]
	if !ok {
		return c, fmt.Errorf("network preset %q: want one of %s", c.Preset, names(presets))
	}
	if c.Channels == 0 {
		c.Channels = 16
	}
	if c.Levels == 0 {
		c.Levels = 4
	}
	if c.Norm == "" {
		c.Norm = p.norm
	}
	if c.Groups == 0 {
		c.Groups = 8
	}
	if c.Activation == "" {
		c.Activation = p.activation
	}
	if c.Dropout < 0 {
		c.Dropout = p.dropout
	}
	if c.Classes == 0 {
		c.Classes = 2
	}
	if _, ok := norms[c.Norm]; !ok {
		return c, fmt.Errorf("norm %q: want one of %s", c.Norm, names(norms))
	}
	if _, ok := activations[c.Activation]; !ok {
		return c, fmt.Errorf("activation %q: want one of %s", c.Activation, names(activations))
	}
	switch {
	case c.Channels < 1 || c.Channels > 1024:
		return c, fmt.Errorf("%d channels: want 1 to 1024", c.Channels)
	case c.Levels < 1 || c.Levels > 4:
		return c, fmt.Errorf("%d levels: want 1 to 4", c.Levels)
	case c.Norm == "group" && c.Channels%c.Groups != 0:
		return c, fmt.Errorf("%d groups do not divide %d channels", c.Groups, c.Channels)
	case c.Dropout >= 1:
		return c, fmt.Errorf("dropout %v: want less than 1", c.Dropout)
	case c.Classes < 2:
		return c, fmt.Errorf("%d classes: want 2 or more, the background is one of them", c.Classes)
	}
	return c, nil
}

// Check says whether the network can take inputs of a size (in any order of the axes): each extent
// must be a multiple of 2^Levels.
func (c Config) Check(size [3]int) error {
	c, err := c.Resolve()
	if err != nil {
		return err
	}
	for _, s := range size {
		if s < 1 || s%(1<<c.Levels) != 0 {
			near := max(1, (s+(1<<c.Levels)/2)>>c.Levels) << c.Levels
			return fmt.Errorf("size %dx%dx%d: a network of %d levels wants multiples of %d along every axis, such as %d instead of %d", size[0], size[1], size[2], c.Levels, 1<<c.Levels, near, s)
		}
	}
	return nil
}

// FeatureShape is what the deepest stage makes of an input of that size: channels, and the size in
// the same order of axes.
func (c Config) FeatureShape(size [3]int) (channels int, out [3]int) {
	c, err := c.Resolve()
	if err != nil {
		return 0, out
	}
	for i := range out {
		out[i] = size[i] >> c.Levels
	}
	return c.Channels << c.Levels, out
}

// Encoder adds the down-sampling half to the graph of x (N, 1, D, H, W) and returns the output of
// each stage, finest first: stage i is (N, Channels 2^i, size / 2^i). Mistakes are kept by the
// graph. Parameter names start with "encoder.".
func (c Config) Encoder(g *nn.Graph, x *nn.Node) []*nn.Node {
	b, ok := c.builder(g)
	if !ok {
		return nil
	}
	return b.encoder(x)
}

// Decoder adds the up-sampling half to the graph of an encoder's stages and returns the logits (N,
// Classes, D, H, W). Parameter names start with "decoder." and "head.".
func (c Config) Decoder(g *nn.Graph, stages []*nn.Node) *nn.Node {
	b, ok := c.builder(g)
	if !ok {
		return g.Fail("decoder: the network is not valid")
	}
	if len(stages) != b.Levels+1 {
		return g.Fail("decoder: %d stages, want %d", len(stages), b.Levels+1)
	}
	return b.decoder(stages)
}
