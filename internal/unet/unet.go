// Package unet is nnU-Net's networks as its plans describe them: PlainConvUNet and
// ResidualEncoderUNet of dynamic_network_architectures, with any kernels, strides, widths and
// numbers of convolutions, by axis and by stage.
//
// Start at [Settings], and at backbone.go for the kind that is trained here. Parameters are called
// as in PyTorch; [Canonical] knows the names that PyTorch has twice. Sizes, kernels and strides are
// in the order of a tensor's axes, (D, H, W).
//
// It leaves out what no plan of nnU-Net has: batch norm, dropout, bottleneck blocks, squeeze and
// excitation.
package unet

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
)

// Settings say which network. Slices have a value for each stage, the finest first; those of the
// decoder begin with its coarsest stage.
type Settings struct {
	Residual     bool // blocks of the encoder are residual; otherwise plain convolutions
	Flat         bool // of two dimensions: kernels and strides are 1 along D, as images are
	In           int  // channels of the image
	Classes      int
	Features     []int
	Kernels      [][3]int
	Strides      [][3]int // of a stage's first convolution
	Blocks       []int    // residual blocks, or convolutions, of the encoder's stages
	DecoderConvs []int    // convolutions of the decoder's stages: one fewer than stages
	Bias         bool     // of convolutions
	Epsilon      float64  // of the instance norms
	Slope        float64  // of the leaky ReLUs
}

// What a network may be at most: sixteen times nnU-Net's largest.
const (
	mostStages   = 16
	mostFeatures = 8192
	mostBlocks   = 128
	mostKernel   = 31
)

// Check says what is wrong with the settings.
func (s Settings) Check() error {
	n := len(s.Features)
	switch {
	case n < 2 || n > mostStages:
		return fmt.Errorf("a network of %s: want 2 to %d", numbers.Count(n, "stage"), mostStages)
	case len(s.Kernels) != n || len(s.Strides) != n || len(s.Blocks) != n || len(s.DecoderConvs) != n-1:
		return fmt.Errorf(
			"a network of %s has kernels of %d, strides of %d, blocks of %d, and "+
				"convolutions of %d stages of its decoder",
			numbers.Count(n, "stage"),
			len(s.Kernels),
			len(s.Strides),
			len(s.Blocks),
			len(s.DecoderConvs),
		)
	case s.In < 1 || s.In > mostFeatures || s.Classes < 1 || s.Classes > mostFeatures:
		return fmt.Errorf("a network with %d channels and %d classes", s.In, s.Classes)
	case !(s.Epsilon > 0) || !(s.Slope >= 0 && s.Slope < 1):
		return fmt.Errorf("a network with an epsilon of %v and a slope of %v", s.Epsilon, s.Slope)
	}
	for stage := range n {
		if f := s.Features[stage]; f < 1 || f > mostFeatures {
			return fmt.Errorf("stage %d has %d channels", stage, f)
		}
		if b := s.Blocks[stage]; b < 1 || b > mostBlocks {
			return fmt.Errorf("stage %d has %d blocks", stage, b)
		}
		if stage < n-1 && (s.DecoderConvs[stage] < 1 || s.DecoderConvs[stage] > mostBlocks) {
			return fmt.Errorf("a stage of the decoder has %d convolutions", s.DecoderConvs[stage])
		}
		for a := range 3 {
			if k := s.Kernels[stage][a]; k < 1 || k > mostKernel || k%2 == 0 {
				return fmt.Errorf("stage %d has a kernel of %s: odd ones up to %d are known", stage,
					numbers.Extents(s.Kernels[stage][:]), mostKernel)
			}
			if t := s.Strides[stage][a]; t < 1 || t > 16 {
				return fmt.Errorf("stage %d has strides of %s", stage, numbers.Extents(s.Strides[stage][:]))
			}
		}
	}
	if s.Flat && slices.ContainsFunc(slices.Concat(s.Kernels, s.Strides), func(v [3]int) bool { return v[0] != 1 }) {
		return errors.New("a network of two dimensions has kernels or strides along a third one")
	}
	if s.Strides[0] != [3]int{1, 1, 1} {
		return fmt.Errorf("the first stage has strides of %s: only 1 is known", numbers.Extents(s.Strides[0][:]))
	}
	return nil
}

// Multiple is what the size of an image must be a multiple of, along each axis.
func (s Settings) Multiple() [3]int {
	m := [3]int{1, 1, 1}
	for _, stride := range s.Strides {
		for a := range 3 {
			m[a] *= stride[a]
		}
	}
	return m
}

// Describe is a few words for a person.
func (s Settings) Describe() string {
	kind := "plain convolution U-Net"
	if s.Residual {
		kind = "residual encoder U-Net"
	}
	if s.Flat {
		kind = "2D " + kind
	}
	return fmt.Sprintf("%s of %s, %d to %d channels", kind, numbers.Count(len(s.Features), "stage"), s.Features[0],
		s.Features[len(s.Features)-1])
}

// Canonical is the name of a parameter here: PyTorch lists the encoder a second time in the
// decoder, and every convolution and norm a second time in a list, and wraps a network's names
// where it was trained on several GPUs (module.) or compiled (_orig_mod.).
func Canonical(name string) string {
	for _, wrapper := range []string{"module.", "_orig_mod."} {
		name = strings.TrimPrefix(name, wrapper)
	}
	name = strings.TrimPrefix(name, "decoder.encoder.")
	if !strings.HasPrefix(name, "encoder.") && !strings.HasPrefix(name, "decoder.") {
		name = "encoder." + name
	}
	return strings.NewReplacer(".all_modules.0.", ".conv.", ".all_modules.1.", ".norm.").Replace(name)
}

// twice turns a name of a convolution's or a norm's parameter into the one that the list of its
// layer gives it.
var twice = strings.NewReplacer(".conv.", ".all_modules.0.", ".norm.", ".all_modules.1.")

// Names are all names that PyTorch has for a parameter, its name here first: [Canonical] is the way
// back of each.
func Names(name string) []string {
	all := []string{name}
	if second := twice.Replace(name); second != name {
		all = append(all, second)
	}
	if strings.HasPrefix(name, "encoder.") {
		for _, n := range all {
			all = append(all, "decoder."+n)
		}
	}
	return all
}

type builder struct {
	Settings
	g *nn.Graph
}

// Declare adds all parameters that nnU-Net's network has to the graph: those of [Settings.Logits]
// in training, and a head of the coarsest stage of the decoder, which nothing is computed with.
func (s Settings) Declare(g *nn.Graph) {
	m := s.Multiple()
	s.Logits(g, g.Input("image", 1, s.In, 2*m[0], 2*m[1], 2*m[2]))
	if coarsest := len(s.Features) - 2; coarsest > 0 && g.Err() == nil {
		g.Param("decoder.seg_layers.0.weight", nn.KaimingNormal(s.Slope), s.Classes, s.Features[coarsest], 1, 1, 1)
		g.Param("decoder.seg_layers.0.bias", nn.Constant(0), s.Classes)
	}
}

// Logits adds the network to the graph of x (N, In, D, H, W) and returns the logits (N, Classes, D,
// H, W) of the finest stage and, in training, those of coarser ones but the coarsest, as nnU-Net
// supervises them. Mistakes are kept by the graph.
func (s Settings) Logits(g *nn.Graph, x *nn.Node) []*nn.Node {
	if err := s.Check(); err != nil {
		g.Fail("%w", err)
		return []*nn.Node{x}
	}
	b := &builder{Settings: s, g: g}
	return b.decoder(b.encoder(x))
}

// decoder returns the logits, the finest first.
func (b *builder) decoder(skips []*nn.Node) []*nn.Node {
	s, g := b.Settings, b.g
	n := len(skips)
	var logits []*nn.Node
	y := skips[n-1]
	for d := range n - 1 {
		stage := n - 2 - d
		up := b.up(fmt.Sprintf("decoder.transpconvs.%d", d), y, s.Features[stage], s.Strides[stage+1])
		y = g.Concat(up, skips[stage]) // (N, 2 Features[stage], ...)
		for i := range s.DecoderConvs[d] {
			y = b.unit(fmt.Sprintf("decoder.stages.%d.convs.%d", d, i), y, s.Features[stage], s.Kernels[stage], one,
				true)
		}
		if stage == 0 || d > 0 && g.Mode() == nn.Train {
			head := b.conv(fmt.Sprintf("decoder.seg_layers.%d", d), y, b.Classes, one, one, true)
			logits = append([]*nn.Node{head}, logits...)
		}
	}
	return logits
}

var one = [3]int{1, 1, 1}

// encoder returns the output of each stage, the finest first.
func (b *builder) encoder(x *nn.Node) (skips []*nn.Node) {
	y := x
	if b.Residual {
		y = b.unit("encoder.stem.convs.0", y, b.Features[0], b.Kernels[0], one, true)
	}
	for stage, width := range b.Features {
		for i := range b.Blocks[stage] {
			stride := one
			if i == 0 {
				stride = b.Strides[stage]
			}
			if b.Residual {
				y = b.block(fmt.Sprintf("encoder.stages.%d.blocks.%d", stage, i), y, width, b.Kernels[stage], stride)
			} else {
				y = b.unit(fmt.Sprintf("encoder.stages.%d.0.convs.%d", stage, i), y, width, b.Kernels[stage], stride,
					true)
			}
		}
		skips = append(skips, y)
	}
	return skips
}

// block is BasicBlockD: two convolutions beside a shortcut, which is averaged where the block has a
// stride and projected where the width changes (He et al., Bag of Tricks, CVPR 2019).
func (b *builder) block(name string, x *nn.Node, width int, kernel, stride [3]int) *nn.Node {
	skip, place := x, 0 // in PyTorch's list
	if stride != one {
		skip, place = b.g.AvgPool(skip, nn.Window{Kernel: stride, Stride: stride}), 1
	}
	if b.g.Err() != nil {
		return x
	}
	if x.Shape()[1] != width {
		name := fmt.Sprintf("%s.skip.%d", name, place)
		skip = b.norm(name, b.conv(name+".conv", skip, width, one, one, false), nil, false)
	}
	y := b.unit(name+".conv1", x, width, kernel, stride, true)
	y = b.conv(name+".conv2.conv", y, width, kernel, one, b.Bias)
	return b.norm(name+".conv2", y, skip, true)
}

// unit is convolution, norm, leaky ReLU.
func (b *builder) unit(name string, x *nn.Node, width int, kernel, stride [3]int, act bool) *nn.Node {
	return b.norm(name, b.conv(name+".conv", x, width, kernel, stride, b.Bias), nil, act)
}

func (b *builder) norm(name string, x, residual *nn.Node, act bool) *nn.Node {
	a := nn.Activation{Norm: device.InstanceNorm, Epsilon: float32(b.Epsilon), Residual: residual}
	if act {
		if a.Act, a.Slope = device.PReLU, float32(b.Slope); b.Slope == 0 {
			a.Act = device.ReLU
		}
	}
	return b.g.Activate(name, x, a)
}

// conv keeps the size where the stride is 1. First values are He's for the leaky ReLU, biases 0.
func (b *builder) conv(name string, x *nn.Node, width int, kernel, stride [3]int, bias bool) *nn.Node {
	var pad [3]int
	for a, k := range kernel {
		pad[a] = (k - 1) / 2
	}
	w := nn.Window{Kernel: kernel, Stride: stride, Pad: pad}
	return b.g.Convolve(name, x, width,
		nn.Convolution{Window: w, Bias: bias, Init: nn.KaimingNormal(b.Slope), BiasInit: nn.Constant(0)})
}

// up multiplies the size by the stride.
func (b *builder) up(name string, x *nn.Node, width int, stride [3]int) *nn.Node {
	if b.g.Err() != nil {
		return x
	}
	b.g.Param(name+".weight", nn.KaimingNormal(b.Slope), x.Shape()[1], width, stride[0], stride[1], stride[2])
	if b.Bias {
		b.g.Param(name+".bias", nn.Constant(0), width)
	}
	return b.g.ConvTranspose(name, x, width, nn.Window{Kernel: stride, Stride: stride}, b.Bias)
}
