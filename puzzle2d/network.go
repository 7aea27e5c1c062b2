package puzzle2d

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/photonet"
)

// Network is the network that looks at the patches: its backbone, without a classifier.
type Network struct {
	Backbone string  `yaml:"backbone" help:"alexnet (of the Context Free Network), resnet18 or resnet50" oneof:"alexnet resnet18 resnet50"`
	Width    float64 `yaml:"width" help:"factor of the number of channels: 0.5 is half as wide" range:"(0,)"`
	Norm     string  `yaml:"norm" help:"alexnet: lrn, as it was, or batch; empty: the network's own"`
	Dropout  float64 `yaml:"dropout" help:"alexnet: share of its features that training leaves out" range:"[0,1)"`
}

// net builds the network for images of a size. It is a jigsaw.Backbone.
func (n Network) net(height, width int) (*photonet.Network, error) {
	net, err := photonet.New(photonet.Config{Kind: n.Backbone, Width: n.Width, Norm: n.Norm, Dropout: n.Dropout,
		Size: [2]int{height, width}})
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	return net, nil
}
