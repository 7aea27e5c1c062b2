// Package resenc is nnU-Net's residual encoder U-Net in three dimensions (Isensee et al., nnU-Net
// Revisited, MICCAI 2024), as class ResidualEncoderUNet of dynamic_network_architectures has it.
//
// Start at network.go, which adds the network to a graph. The package registers the kind "resenc"
// with package backbone; nobody calls it by name. Parameters are called as in PyTorch, so that the
// weights of an nnU-Net load: see [backbone.Rename] for names that PyTorch has twice.
//
// It leaves out what nnU-Net's default networks for isotropic scans do not have: strides and
// kernels that differ along the axes, bottleneck blocks, and several convolutions a stage in the
// decoder.
package resenc

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
	plans "github.com/voxsaw/voxsaw/internal/unet"
)

// Kind is what network.kind says.
const Kind = "resenc"

func init() {
	backbone.Register(
		backbone.Kind{Name: Kind, New: func(n voxsaw.Network) (backbone.Backbone, error) { return resolve(n) }},
	)
}

const (
	mostChannels = 320  // of any stage, as nnU-Net has it in three dimensions
	mostLevels   = 6    // nnU-Net's largest networks have 5 or 6
	leak         = 0.01 // the slope of the leaky ReLU
)

// blocksOf are nnU-Net's numbers of residual blocks a stage, finest first; deeper stages have the
// last one's.
var blocksOf = []int{1, 3, 4, 6}

var (
	norms = map[string]device.Norm{
		backbone.NormNone: device.NoNorm, backbone.NormInstance: device.InstanceNorm,
		backbone.NormBatch: device.BatchNorm, backbone.NormGroup: device.GroupNorm,
	}
	activations = map[string]device.Activation{"leaky": device.PReLU, "relu": device.ReLU, "elu": device.ELU}
)

// unet is a network whose settings are complete.
type unet struct{ voxsaw.Network }

// resolve puts nnU-Net's values in the place of those left out, or says what is wrong with the
// settings. Levels follow from blocks where only these are given.
func resolve(n voxsaw.Network) (*unet, error) {
	n.Kind = Kind
	if n.Preset != "" {
		return nil, fmt.Errorf("network preset %q: %s has no presets, leave it empty", n.Preset, Kind)
	}
	if n.DeepSupervision {
		return nil, fmt.Errorf("deep_supervision: %s always has it, leave it out", Kind)
	}
	n.Channels = cmp.Or(n.Channels, 32)
	if n.Levels == 0 {
		n.Levels = 4
		if len(n.Blocks) > 0 {
			n.Levels = len(n.Blocks) - 1
		}
	}
	if n.Levels < 1 || n.Levels > mostLevels {
		return nil, fmt.Errorf("%d levels: want 1 to %d", n.Levels, mostLevels)
	}
	if n.Blocks = slices.Clone(n.Blocks); len(n.Blocks) == 0 {
		for stage := range n.Levels + 1 {
			n.Blocks = append(n.Blocks, blocksOf[min(stage, len(blocksOf)-1)])
		}
	}
	n.Norm = cmp.Or(n.Norm, backbone.NormInstance)
	n.Groups = cmp.Or(n.Groups, 8)
	n.Activation = cmp.Or(n.Activation, "leaky")
	if n.Dropout < 0 {
		n.Dropout = 0
	}
	n.Classes = cmp.Or(n.Classes, 2)
	u := &unet{n}
	return u, u.check()
}

// check says what is wrong with complete settings.
func (u *unet) check() error {
	if _, ok := norms[u.Norm]; !ok {
		return fmt.Errorf("norm %q: want one of %s", u.Norm, names(norms))
	}
	if _, ok := activations[u.Activation]; !ok {
		return fmt.Errorf("activation %q: want one of %s", u.Activation, names(activations))
	}
	switch {
	case u.Channels < 1 || u.Channels > mostChannels:
		return fmt.Errorf("%d channels: want 1 to %d", u.Channels, mostChannels)
	case len(u.Blocks) != u.Levels+1:
		return fmt.Errorf("blocks %v are of %s: %s make %d stages", numbers.List(u.Blocks),
			numbers.Count(len(u.Blocks), "stage"), numbers.Count(u.Levels, "level"), u.Levels+1)
	case slices.Min(u.Blocks) < 1 || slices.Max(u.Blocks) > 64:
		return fmt.Errorf("blocks %v: want 1 to 64 a stage", numbers.List(u.Blocks))
	case u.Groups < 1:
		return fmt.Errorf("%d groups: want 1 or more", u.Groups)
	case u.Dropout >= 1:
		return fmt.Errorf("dropout %v: want less than 1", u.Dropout)
	case u.Classes < 1:
		return fmt.Errorf("%d classes: want 1 or more", u.Classes)
	}
	for stage := range u.Blocks {
		if c := u.channels(stage); u.Norm == backbone.NormGroup && c%u.Groups != 0 {
			return fmt.Errorf("%d groups do not divide the %d channels of stage %d", u.Groups, c, stage)
		}
	}
	return nil
}

func names[V any](m map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }

// channels is the width of a stage, 0 the finest: it doubles up to a bound.
func (u *unet) channels(stage int) int { return min(u.Channels<<stage, mostChannels) }

// Settings implements [backbone.Backbone].
func (u *unet) Settings() voxsaw.Network {
	n := u.Network
	n.Blocks = slices.Clone(n.Blocks)
	return n
}

// Planned implements [plans.Planned]: dropout, which predictions do without, is left out.
func (u *unet) Planned() (plans.Settings, error) {
	if u.Norm != backbone.NormInstance || u.Activation != "leaky" {
		return plans.Settings{}, fmt.Errorf("norm %s and activation %s: nnU-Net's plans have instance and leaky",
			u.Norm, u.Activation)
	}
	s := plans.Settings{Residual: true, In: u.InputChannels(), Classes: u.Classes, Blocks: slices.Clone(u.Blocks),
		DecoderConvs: slices.Repeat([]int{1}, u.Levels), Bias: true, Epsilon: 1e-5, Slope: leak}
	for stage := range u.Blocks {
		stride := min(stage, 1) + 1
		s.Features = append(s.Features, u.channels(stage))
		s.Kernels = append(s.Kernels, [3]int{3, 3, 3})
		s.Strides = append(s.Strides, [3]int{stride, stride, stride})
	}
	return s, s.Check()
}

// Describe implements [backbone.Backbone].
func (u *unet) Describe() string {
	return fmt.Sprintf("residual encoder U-Net of %s, %d to %d channels, norm %s", numbers.Count(u.Levels, "level"),
		u.channels(0), u.channels(u.Levels), u.Norm)
}

// Multiple implements [backbone.Backbone]: every level halves the size.
func (u *unet) Multiple() [3]int {
	m := 1 << u.Levels
	return [3]int{m, m, m}
}

// Rename implements [backbone.Renamer]. In PyTorch the decoder holds the encoder a second time, and
// every convolution and norm lies in a list beside its name: the same tensor is called
// encoder.stem.convs.0.conv.weight and decoder.encoder.stem.convs.0.all_modules.0.weight.
func (u *unet) Rename(name string) string {
	if inner, ok := strings.CutPrefix(name, "decoder.encoder."); ok {
		name = backbone.EncoderPrefix + inner
	}
	// the list is convolution, norm; or convolution, dropout, norm, where there is a dropout
	return strings.NewReplacer(".all_modules.0.", ".conv.", ".all_modules.1.", ".norm.", ".all_modules.2.",
		".norm.").Replace(name)
}
