package resenc

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// builder adds a network to one graph.
type builder struct {
	*unet
	g *nn.Graph
}

// Encoder implements [backbone.Backbone]: stage i is (N, channels(i), size / 2^i).
func (u *unet) Encoder(g *nn.Graph, x *nn.Node) []*nn.Node {
	if err := backbone.CheckInput(u, x); err != nil {
		g.Fail("%w", err)
		return nil
	}
	b := &builder{u, g}
	y := b.convNormAct("encoder.stem.convs.0", x, u.channels(0), 1)
	var stages []*nn.Node
	for stage, blocks := range u.Blocks {
		for i := range blocks {
			stride := 1
			if stage > 0 && i == 0 {
				stride = 2
			}
			y = b.block(fmt.Sprintf("encoder.stages.%d.blocks.%d", stage, i), y, u.channels(stage), stride)
		}
		stages = append(stages, y) // (N, channels(stage), D/2^stage, ...)
	}
	return stages
}

// Decoder implements [backbone.Backbone]. Names of parameters begin with "decoder.". In training
// there are logits at all resolutions but the two coarsest of the encoder's, as nnU-Net trains
// them.
func (u *unet) Decoder(g *nn.Graph, stages []*nn.Node) []*nn.Node {
	if len(stages) != u.Levels+1 {
		return []*nn.Node{g.Fail("decoder: %d stages, want %d", len(stages), u.Levels+1)}
	}
	b := &builder{u, g}
	var logits []*nn.Node // coarsest first
	y := stages[u.Levels]
	for i := range u.Levels {
		level := u.Levels - 1 - i
		c := u.channels(level)
		up := b.upConv(fmt.Sprintf("decoder.transpconvs.%d", i), y, c)
		both := g.Concat(up, stages[level]) // (N, 2 channels(level), D/2^level, ...)
		y = b.convNormAct(fmt.Sprintf("decoder.stages.%d.convs.0", i), both, c, 1)
		if level == 0 || i > 0 && g.Mode() == nn.Train {
			logits = append(logits, b.conv(fmt.Sprintf("decoder.seg_layers.%d", i), y, u.Classes, nn.Cube(1, 1, 0),
				true))
		}
	}
	slices.Reverse(logits)
	return logits
}

// block is BasicBlockD, the residual block of ResNet-D (He et al., Bag of Tricks, CVPR 2019): two
// convolutions beside a shortcut, which is averaged where the block has a stride and projected
// where the width changes.
func (b *builder) block(name string, x *nn.Node, width, stride int) *nn.Node {
	y := b.convNormAct(name+".conv1", x, width, stride)
	y = b.conv(name+".conv2.conv", y, width, nn.Cube(3, 1, 1), true)
	if b.Norm != backbone.NormNone {
		// A block begins as its shortcut alone: the norm before the sum starts at zero.
		b.g.Param(name+".conv2.norm.weight", nn.Constant(0), width)
	}
	return b.activate(name+".conv2", y, b.shortcut(name+".skip", x, width, stride))
}

func (b *builder) shortcut(name string, x *nn.Node, width, stride int) *nn.Node {
	projection := 0 // its place in PyTorch's list
	if stride != 1 {
		x = b.g.AvgPool(x, nn.Cube(stride, stride, 0))
		projection = 1
	}
	if b.g.Err() != nil || x.Shape()[1] == width {
		return x
	}
	name = fmt.Sprintf("%s.%d", name, projection)
	x = b.conv(name+".conv", x, width, nn.Cube(1, 1, 0), false)
	if b.Norm == backbone.NormNone {
		return x
	}
	return b.g.Activate(name, x, nn.Activation{Norm: norms[b.Norm], Groups: b.Groups})
}

// convNormAct is ConvDropoutNormReLU with a kernel of 3^3.
func (b *builder) convNormAct(name string, x *nn.Node, width, stride int) *nn.Node {
	y := b.conv(name+".conv", x, width, nn.Cube(3, stride, 1), true)
	y = b.g.Dropout3d(name+".dropout", y, b.Dropout)
	return b.activate(name, y, nil)
}

// activate is norm, residual (or nil), activation.
func (b *builder) activate(name string, x, residual *nn.Node) *nn.Node {
	a := nn.Activation{Norm: norms[b.Norm], Groups: b.Groups, Act: activations[b.Activation], Residual: residual}
	if a.Act == device.PReLU {
		a.Slope = leak
	}
	return b.g.Activate(name, x, a)
}

// conv is a convolution whose first values are nnU-Net's.
func (b *builder) conv(name string, x *nn.Node, width int, w nn.Window, bias bool) *nn.Node {
	if b.g.Err() != nil {
		return x
	}
	b.declare(name, bias, width, width, x.Shape()[1], w)
	return b.g.Conv(name, x, width, w, bias)
}

// upConv doubles the size.
func (b *builder) upConv(name string, x *nn.Node, width int) *nn.Node {
	if b.g.Err() != nil {
		return x
	}
	w := nn.Cube(2, 2, 0)
	b.declare(name, true, width, x.Shape()[1], width, w)
	return b.g.ConvTranspose(name, x, width, w, true)
}

// declare gives weights (first, second, kernel) He's first values for a leaky ReLU, and a bias of
// the given width zeros. The operator that is added next finds them declared.
func (b *builder) declare(name string, bias bool, width, first, second int, w nn.Window) {
	b.g.Param(name+".weight", nn.KaimingNormal(leak), first, second, w.Kernel[0], w.Kernel[1], w.Kernel[2])
	if bias {
		b.g.Param(name+".bias", nn.Constant(0), width)
	}
}
