package vnet

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// builder adds a network to one graph.
type builder struct {
	*network
	preset
	g *nn.Graph
}

// Encoder implements [backbone.Backbone]: stage i is (N, Channels 2^i, size / 2^i).
func (n *network) Encoder(g *nn.Graph, x *nn.Node) []*nn.Node {
	return (&builder{n, n.preset, g}).encoder(x)
}

// Decoder implements [backbone.Backbone]. Names of parameters begin with "decoder." and "head.".
// With deep supervision there are, in training, logits at all resolutions but the two coarsest of
// the encoder's, as nnU-Net has them: those of half the size are made by "head.1.".
func (n *network) Decoder(g *nn.Graph, stages []*nn.Node) []*nn.Node {
	if len(stages) != n.Levels+1 {
		return []*nn.Node{g.Fail("decoder: %d stages, want %d", len(stages), n.Levels+1)}
	}
	return (&builder{n, n.preset, g}).decoder(stages)
}

// activate is norm, residual (or nil), activation.
func (b *builder) activate(name string, x, residual *nn.Node) *nn.Node {
	return b.g.Activate(name, x, nn.Activation{Norm: norms[b.Norm], Groups: b.Groups, Act: activations[b.Activation],
		Residual: residual})
}

// encoder: the input stage, then for each level down-convolution, stage.
func (b *builder) encoder(x *nn.Node) []*nn.Node {
	if err := backbone.CheckInput(b, x); err != nil {
		b.g.Fail("%w", err)
		return nil
	}
	// The input is added to the first stage's channels: its only channel to each; of several, the
	// first to the first, and over again where they end.
	residual := x
	if inputs := b.InputChannels(); inputs > 1 {
		residual = b.g.Concat(slices.Repeat([]*nn.Node{x}, b.Channels/inputs)...)
	}
	y := b.g.Conv("encoder.0.conv0", x, b.Channels, nn.Cube(5, 1, 2), b.bias)
	y = b.activate("encoder.0.conv0", y, residual) // (N, Channels, D, H, W)
	stages := []*nn.Node{y}
	for level := 1; level <= b.Levels; level++ {
		name := fmt.Sprintf("encoder.%d", level)
		down := b.g.Conv(name+".down", y, b.Channels<<level, nn.Cube(2, 2, 0), b.bias)
		down = b.activate(name+".down", down, nil)
		in := down
		if level >= b.Levels-1 { // the two deepest stages
			in = b.g.Dropout3d(name+".dropout", down, b.rate())
		}
		y = b.stage(name, in, down, b.Channels<<level, b.preset.encoder[level])
		stages = append(stages, y) // (N, Channels 2^level, D/2^level, ...)
	}
	return stages
}

// rate is the dropout's, where the preset has places for it.
func (b *builder) rate() float64 {
	if !b.drops {
		return 0
	}
	return b.Dropout
}

// stage is n convolutions of x at one width; the residual is added before the last activation.
func (b *builder) stage(name string, x, residual *nn.Node, width, n int) *nn.Node {
	y := x
	for i := range n {
		conv := fmt.Sprintf("%s.conv%d", name, i)
		y = b.g.Conv(conv, y, width, nn.Cube(5, 1, 2), b.bias)
		if i < n-1 || b.inner {
			y = b.activate(conv, y, nil)
		} else {
			y = b.activate(conv, y, residual)
		}
	}
	if b.inner {
		y = b.g.Activate(name+".out", y, nn.Activation{Act: activations[b.Activation], Residual: residual})
	}
	return y
}

// decoder: for each level up-convolution to half the width, the encoder's stage beside it, stage;
// then the head. The finest logits come first.
func (b *builder) decoder(stages []*nn.Node) []*nn.Node {
	var logits []*nn.Node // coarsest first
	y := stages[b.Levels]
	for level := b.Levels - 1; level >= 0; level-- {
		name := fmt.Sprintf("decoder.%d", level)
		in, skip := y, stages[level]
		if level >= b.Levels-2 { // the two deepest stages
			in = b.g.Dropout3d(name+".dropout", in, b.rate())
		}
		skip = b.g.Dropout3d(name+".skip_dropout", skip, b.rate())
		up := b.g.ConvTranspose(name+".up", in, b.Channels<<level, nn.Cube(2, 2, 0), true)
		up = b.activate(name+".up", up, nil)
		both := b.g.Concat(up, skip) // (N, 2 Channels 2^level, D/2^level, ...)
		y = b.stage(name, both, both, 2*b.Channels<<level, b.preset.decoder[3-level])
		if b.DeepSupervision && level > 0 && level < b.Levels-1 && b.g.Mode() == nn.Train {
			head := fmt.Sprintf("head.%d.logits", level)
			logits = append(logits, b.g.Conv(head, y, b.Classes, nn.Cube(1, 1, 0), true))
		}
	}
	if b.wideHead {
		y = b.g.Conv("head.conv", y, b.Classes, nn.Cube(5, 1, 2), b.bias)
		norm := norms[b.Norm]
		if norm == device.GroupNorm { // a class is no group of channels
			norm = device.InstanceNorm
		}
		y = b.g.Activate("head.conv", y, nn.Activation{Norm: norm, Act: activations[b.Activation]})
	}
	logits = append(logits, b.g.Conv("head.logits", y, b.Classes, nn.Cube(1, 1, 0), true))
	slices.Reverse(logits)
	return logits
}
