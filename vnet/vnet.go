// Package vnet is VNet, the volumetric network of Milletari et al. 2016, in the three forms that
// share the name.
//
// Start at [Default] for the settings of the paper's network, and at [Open] or [New] for a network
// that runs on arrays. Training it is the business of packages puzzle3d and segment, which take the
// same settings. The down-sampling half alone is the backbone that pretraining trains; its
// parameters are called the same ("encoder....") there and in the whole network, so that a
// checkpoint of one loads into the other.
//
// The package does not know what a network is trained for.
package vnet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/numbers"
)

// kind is what voxsaw.Network calls a VNet.
const kind = "vnet"

func init() {
	backbone.Register(
		backbone.Kind{Name: kind, New: func(n voxsaw.Network) (backbone.Backbone, error) { return resolve(n) }},
	)
}

// Default is the paper's network as it is. Its lack of a normalisation makes it slow to train from
// random weights: a training sets Norm.
func Default() voxsaw.Network {
	return voxsaw.Network{Kind: kind, Preset: "paper", Channels: 16, Levels: 4, Groups: 8, Dropout: -1, Classes: 2}
}

// preset is what the three networks differ in.
type preset struct {
	encoder    []int // convolutions a stage, finest first
	decoder    []int // convolutions a stage, coarsest first
	norm       string
	activation string
	drops      bool // there are places where channels are dropped
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
	"caffe": {encoder: []int{1, 1, 2, 3, 3}, decoder: []int{3, 2, 1, 1}, norm: "none", activation: "prelu", bias: true,
		wideHead: true},
	"monai": {encoder: []int{1, 1, 2, 3, 2}, decoder: []int{2, 2, 1, 1}, norm: "batch", activation: "elu",
		drops: true, dropout: 0.5, inner: true, wideHead: true},
}

var (
	norms = map[string]device.Norm{"none": device.NoNorm, "instance": device.InstanceNorm,
		"batch": device.BatchNorm, "group": device.GroupNorm}
	activations = map[string]device.Activation{"prelu": device.PReLU, "elu": device.ELU, "relu": device.ReLU}
)

func names[V any](m map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }

// network is a VNet whose settings are complete.
type network struct {
	voxsaw.Network
	preset preset
}

// resolve puts the preset's values in the place of those left out, or says what is wrong with the
// settings.
func resolve(n voxsaw.Network) (*network, error) {
	n.Kind = kind
	n.Preset = cmp.Or(n.Preset, "paper")
	p, ok := presets[n.Preset]
	if !ok {
		return nil, fmt.Errorf("network preset %q: want one of %s", n.Preset, names(presets))
	}
	n.Channels = cmp.Or(n.Channels, 16)
	n.Levels = cmp.Or(n.Levels, 4)
	n.Norm = cmp.Or(n.Norm, p.norm)
	n.Groups = cmp.Or(n.Groups, 8)
	n.Activation = cmp.Or(n.Activation, p.activation)
	if n.Dropout < 0 {
		n.Dropout = p.dropout
	}
	n.Classes = cmp.Or(n.Classes, 2)
	if _, ok := norms[n.Norm]; !ok {
		return nil, fmt.Errorf("norm %q: want one of %s", n.Norm, names(norms))
	}
	if _, ok := activations[n.Activation]; !ok {
		return nil, fmt.Errorf("activation %q: want one of %s", n.Activation, names(activations))
	}
	switch {
	case len(n.Blocks) > 0:
		return nil, fmt.Errorf("blocks %v: a VNet has the convolutions of its preset, leave them empty",
			numbers.List(n.Blocks))
	case n.Channels < 1 || n.Channels > 1024:
		return nil, fmt.Errorf("%d channels: want 1 to 1024", n.Channels)
	case n.Channels%n.InputChannels() != 0:
		return nil,
			fmt.Errorf("scans of %d channels, which do not divide the %d of the network's first stage, to which a "+
				"VNet adds them: choose a multiple, such as --channels %d, or --network resenc",
				n.Inputs, n.Channels, n.InputChannels()*max(n.Channels/n.InputChannels(), 1))
	case n.Levels < 1 || n.Levels > 4:
		return nil, fmt.Errorf("%d levels: want 1 to 4", n.Levels)
	case n.DeepSupervision && n.Levels < 3:
		return nil, fmt.Errorf("deep_supervision: want 3 levels or more, not %d: there are heads at all resolutions "+
			"but the two coarsest", n.Levels)
	case n.Norm == backbone.NormGroup && n.Channels%n.Groups != 0:
		return nil, fmt.Errorf("%d groups do not divide %d channels", n.Groups, n.Channels)
	case n.Dropout >= 1:
		return nil, fmt.Errorf("dropout %v: want less than 1", n.Dropout)
	case n.Classes < 1:
		return nil, fmt.Errorf("%d classes: want 1 or more", n.Classes)
	}
	return &network{n, p}, nil
}

// Settings implements [backbone.Backbone].
func (n *network) Settings() voxsaw.Network { return n.Network }

// Describe implements [backbone.Backbone].
func (n *network) Describe() string {
	return fmt.Sprintf("VNet %s of %s, %s, norm %s", n.Preset, numbers.Count(n.Levels, "level"),
		numbers.Count(n.Channels, "channel"), n.Norm)
}

// Idle implements [backbone.Idler].
func (n *network) Idle() error {
	if n.Dropout > 0 && !n.preset.drops {
		return fmt.Errorf("dropout is %v, and preset %s has no place for it: choose --preset monai or --network "+
			"resenc, or leave dropout out", n.Dropout, n.Preset)
	}
	return nil
}

// Multiple implements [backbone.Backbone]: every level halves the size.
func (n *network) Multiple() [3]int {
	m := 1 << n.Levels
	return [3]int{m, m, m}
}
