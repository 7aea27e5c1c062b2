package unet

import (
	"errors"
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// Kind is what network.kind says of a network that nnU-Net planned.
const Kind = "nnunet"

func init() {
	backbone.Register(backbone.Kind{Name: Kind, New: func(n voxsaw.Network) (backbone.Backbone, error) {
		return resolve(n)
	}})
}

// Planned is a backbone that is one of nnU-Net's networks, whatever its kind is called.
type Planned interface {
	backbone.Backbone
	// Planned are its settings, or why no plan of nnU-Net's says this network.
	Planned() (Settings, error)
}

// network is one whose settings are complete.
type network struct {
	voxsaw.Network
	unet Settings
}

// Network is the settings of a backbone. Its classes and inputs are those of the data.
func (s Settings) Network() voxsaw.Network {
	return voxsaw.Network{Kind: Kind, Dropout: -1, Architecture: string(s.Architecture())}
}

func resolve(n voxsaw.Network) (*network, error) {
	if n.Kind = Kind; n.Architecture == "" {
		return nil, errors.New("network nnunet is one that nnU-Net planned: say which by its plans.json")
	}
	s, err := Parse([]byte(n.Architecture))
	if err != nil {
		return nil, err
	}
	if s.Flat {
		return nil, errors.New("a 2D network of nnU-Net predicts here, but is not trained: take its 3d_fullres or " +
			"3d_lowres")
	}
	levels := len(s.Features) - 1
	switch {
	case n.Preset != "" || n.Activation != "" || len(n.Blocks) > 0 || n.Norm != "" && n.Norm != backbone.NormInstance ||
		n.DeepSupervision || n.Dropout > 0 || n.Channels != 0 && n.Channels != s.Features[0] ||
		n.Levels != 0 && n.Levels != levels:
		return nil, errors.New("a network that nnU-Net planned is as its plans.json says: leave preset, channels, " +
			"levels, blocks, norm, activation, dropout and deep_supervision out")
	case n.Classes < 0:
		return nil, fmt.Errorf("%d classes: want 1 or more", n.Classes)
	case n.Classes == 0:
		n.Classes = 2
	}
	s.In, s.Classes = n.InputChannels(), n.Classes
	n.Architecture, n.Channels, n.Levels = string(s.Architecture()), s.Features[0], levels
	n.Norm, n.Dropout = backbone.NormInstance, 0
	return &network{n, s}, s.Check()
}

// Settings implements [backbone.Backbone].
func (n *network) Settings() voxsaw.Network { return n.Network }

// Planned implements [Planned].
func (n *network) Planned() (Settings, error) { return n.unet, nil }

// Describe implements [backbone.Backbone].
func (n *network) Describe() string { return n.unet.Describe() }

// Multiple implements [backbone.Backbone].
func (n *network) Multiple() [3]int {
	m := n.unet.Multiple()
	return [3]int{m[2], m[1], m[0]}
}

// Encoder implements [backbone.Backbone].
func (n *network) Encoder(g *nn.Graph, x *nn.Node) []*nn.Node {
	if err := backbone.CheckInput(n, x); err != nil {
		g.Fail("%w", err)
		return nil
	}
	return (&builder{Settings: n.unet, g: g}).encoder(x)
}

// Decoder implements [backbone.Backbone].
func (n *network) Decoder(g *nn.Graph, stages []*nn.Node) []*nn.Node {
	if len(stages) != len(n.unet.Features) {
		return []*nn.Node{g.Fail("decoder: %d stages, want %d", len(stages), len(n.unet.Features))}
	}
	return (&builder{Settings: n.unet, g: g}).decoder(stages)
}

// Rename implements [backbone.Renamer].
func (n *network) Rename(name string) string { return Canonical(name) }
