package network

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/backbone/backbonetest"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/devicetest"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// paper is the VNet of Milletari et al. in the words of this package.
type paper struct{ voxsaw.Network }

var convolutions = []int{1, 2, 3, 3, 3} // of a stage of the encoder

func (p paper) Settings() voxsaw.Network { return p.Network }
func (p paper) Multiple() [3]int         { return [3]int{16, 16, 16} }

func (p paper) stage(g Graph, name string, x, residual Node, width, n int) Node {
	for i := range n {
		conv, a := fmt.Sprintf("%s.conv%d", name, i), Activation{Norm: p.Norm, Groups: p.Groups, Act: p.Activation}
		if i == n-1 {
			a.Residual = residual
		}
		x = g.Activate(conv, g.Conv(conv, x, width, Cube(5, 1, 2), true), a)
	}
	return x
}

func (p paper) Encoder(g Graph, x Node) []Node {
	stages := []Node{p.stage(g, "encoder.0", x, x, p.Channels, 1)}
	for level := 1; level <= p.Levels; level++ {
		name, width := fmt.Sprintf("encoder.%d", level), p.Channels<<level
		down := g.Conv(name+".down", stages[level-1], width, Cube(2, 2, 0), true)
		down = g.Activate(name+".down", down, Activation{Norm: p.Norm, Groups: p.Groups, Act: p.Activation})
		stages = append(stages, p.stage(g, name, down, down, width, convolutions[level]))
	}
	return stages
}

func (p paper) Decoder(g Graph, stages []Node) []Node {
	x := stages[p.Levels]
	for level := p.Levels - 1; level >= 0; level-- {
		name, width := fmt.Sprintf("decoder.%d", level), p.Channels<<level
		up := g.ConvTranspose(name+".up", x, width, Cube(2, 2, 0), true)
		up = g.Activate(name+".up", up, Activation{Norm: p.Norm, Groups: p.Groups, Act: p.Activation})
		both := g.Concat(up, stages[level])
		x = p.stage(g, name, both, both, 2*width, []int{1, 2, 3, 3}[level])
	}
	return []Node{g.Conv("head.logits", x, p.Classes, Cube(1, 1, 0), true)}
}

// VNet, written from outside, has PyTorch's logits, gradients and steps of SGD.
func TestPyTorch(t *testing.T) {
	Register("paper", func(n voxsaw.Network) (Network, error) { return paper{n}, nil })
	dev, err := cpu.New(cpu.Options{Conv: "direct"})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	b, err := backbone.Of(voxsaw.Network{Kind: "paper", Channels: 4, Levels: 4, Norm: "group", Groups: 2,
		Activation: "elu", Classes: 3})
	if err != nil {
		t.Fatal(err)
	}
	backbonetest.PyTorch(t, dev, b, filepath.Join("..", "testdata", "vnet_paper_group_elu.safetensors"),
		[5]int{2, 1, 16, 16, 16}, 1e-4)
}

// wrong is a network whose encoder is what a test says.
type wrong struct {
	paper
	encoder func(Graph, Node) []Node
}

func (w wrong) Encoder(g Graph, x Node) []Node { return w.encoder(g, x) }

// Mistakes of a network are errors that say which, and no panics.
func TestMistakes(t *testing.T) {
	for want, encoder := range map[string]func(Graph, Node) []Node{
		`norm "layer"`: func(g Graph, x Node) []Node {
			return []Node{g.Activate("a", x, Activation{Norm: "layer"})}
		},
		`activation "gelu"`: func(g Graph, x Node) []Node {
			return []Node{g.Activate("a", x, Activation{Act: "gelu"})}
		},
		"no output":          func(Graph, Node) []Node { return nil },
		"is no node":         func(g Graph, x Node) []Node { return []Node{g.Add(x, Node{})} },
		"result of the netw": func(Graph, Node) []Node { return []Node{{}} },
		"too deep: 3":        func(g Graph, _ Node) []Node { return []Node{g.Fail("too deep: %d", 3)} },
	} {
		b := registered{wrong{paper{voxsaw.Network{Channels: 2, Levels: 1, Classes: 2}}, encoder}}
		g := nn.NewGraph(nn.Train, devicetest.NewReference().Activations())
		b.Encoder(g, g.Input("x", 1, 1, 16, 16, 16))
		if g.Err() == nil || !strings.Contains(g.Err().Error(), want) {
			t.Errorf("%v, want %q", g.Err(), want)
		}
	}
}
