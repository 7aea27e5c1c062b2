package puzzle2d

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/photonet"
)

// Network is the network that looks at the patches: its backbone, without a classifier.
type Network struct {
	// alexnet (of the Context Free Network), resnet18 or resnet50
	Backbone string `yaml:"backbone" oneof:"alexnet resnet18 resnet50"`
	// factor of the number of channels: 0.5 is half as wide
	Width float64 `yaml:"width" range:"(0,)"`
	// alexnet: lrn, as it was, or batch; empty: the network's own
	Norm string `yaml:"norm"`
	// alexnet: share of its features that training leaves out
	Dropout float64 `yaml:"dropout" range:"[0,1)"`
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
