package photonet

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// ResNets as torchvision 0.24 has them (He et al. 2016; the stride of a bottleneck is in its 3x3
// convolution): names and shapes of parameters are torchvision's at width 1.

// blocks is the number of blocks of each stage.
func (n *Network) blocks() [4]int {
	if n.c.Kind == ResNet50 {
		return [4]int{3, 4, 6, 3}
	}
	return [4]int{2, 2, 2, 2}
}

// resNet adds the i-th of a ResNet's layers.
func (n *Network) resNet(g *nn.Graph, x *nn.Node, i int) *nn.Node {
	switch i {
	case 0:
		return n.convNorm(g, x, "conv1", "bn1", n.channels(64), nn.Plane(7, 2, 3), device.ReLU, nil)
	case 5:
		return g.GlobalAvgPool(x)
	case 1:
		x = g.MaxPool(x, nn.Plane(3, 2, 1))
	}
	stride := 2
	if i == 1 {
		stride = 1
	}
	for b := range n.blocks()[i-1] {
		name := fmt.Sprintf("layer%d.%d.", i, b)
		if n.c.Kind == ResNet50 {
			x = n.bottleneck(g, x, name, n.channels(64<<(i-1)), stride)
		} else {
			x = n.basic(g, x, name, n.channels(64<<(i-1)), stride)
		}
		stride = 1
	}
	return x
}

// convNorm is a convolution without bias, batch norm and an activation.
func (n *Network) convNorm(g *nn.Graph, x *nn.Node, conv, norm string, out int, w nn.Window, act device.Activation,
	residual *nn.Node) *nn.Node {
	y := g.Convolve(EncoderPrefix+conv, x, out, nn.Convolution{Window: w, Init: nn.KaimingNormalFanOut()})
	return g.Activate(EncoderPrefix+conv, y, nn.Activation{Norm: device.BatchNorm, NormName: EncoderPrefix + norm,
		Act: act, Residual: residual})
}

// shortcut is what a block adds to its result: its input, or a projection of it.
func (n *Network) shortcut(g *nn.Graph, x *nn.Node, name string, out, stride int) *nn.Node {
	if g.Err() != nil || stride == 1 && x.Shape()[1] == out {
		return x
	}
	return n.convNorm(g, x, name+"downsample.0", name+"downsample.1", out, nn.Plane(1, stride, 0), device.Identity, nil)
}

// basic is a block of two 3x3 convolutions.
func (n *Network) basic(g *nn.Graph, x *nn.Node, name string, c, stride int) *nn.Node {
	y := n.convNorm(g, x, name+"conv1", name+"bn1", c, nn.Plane(3, stride, 1), device.ReLU, nil)
	return n.convNorm(g, y, name+"conv2", name+"bn2", c, nn.Plane(3, 1, 1), device.ReLU,
		n.shortcut(g, x, name, c, stride))
}

// bottleneck is a block of three convolutions, whose result has four times the channels.
func (n *Network) bottleneck(g *nn.Graph, x *nn.Node, name string, c, stride int) *nn.Node {
	y := n.convNorm(g, x, name+"conv1", name+"bn1", c, nn.Plane(1, 1, 0), device.ReLU, nil)
	y = n.convNorm(g, y, name+"conv2", name+"bn2", c, nn.Plane(3, stride, 1), device.ReLU, nil)
	return n.convNorm(g, y, name+"conv3", name+"bn3", 4*c, nn.Plane(1, 1, 0), device.ReLU,
		n.shortcut(g, x, name, 4*c, stride))
}
