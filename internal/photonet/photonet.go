// Package photonet is the networks on photographs: AlexNet as context-free networks have it, and
// ResNet-18 and -50 as torchvision has them.
//
// Start at [New]. A [Network] is a jigsaw.Backbone: it makes a row of numbers of each patch. For
// transfer it also gives single layers, logits of classes and the features of regions; the losses
// are package nn's. [Import] reads PyTorch's weights, [ToPyTorch] has the names to write them with.
//
// A photograph is a volume of depth 1: patches are (N, channels, 1, height, width). Parameters are
// called as in PyTorch, behind "encoder."; those of classifiers have no such prefix. The package
// reads no image, and knows no puzzle.
package photonet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
)

// The kinds of networks.
const (
	AlexNet  = "alexnet"
	ResNet18 = "resnet18"
	ResNet50 = "resnet50"
)

// Kinds lists them.
func Kinds() []string { return []string{AlexNet, ResNet18, ResNet50} }

// The norms of AlexNet, and the first values of its weights.
const (
	LRN   = "lrn"   // local response normalisation after the first two poolings, as CaffeNet
	Batch = "batch" // batch normalisation after each convolution

	Caffe = "caffe" // normal with deviation 0.01, and 0.005 before features; biases 0 and 1
	He    = "he"    // normal with deviation sqrt(2/(outputs that an input reaches)); biases 0
)

// Config says what a network looks like. The zero value of a field is its default, which
// [Network.Config] tells.
type Config struct {
	Kind     string
	Width    float64 // multiplies all numbers of channels; 0: 1
	Channels int     // of a photograph: 1 or 3; 0: 3
	Size     [2]int  // of a patch: (height, width) in pixels; 0: 64x64

	// AlexNet alone:

	// of the first convolution. 0: 2 for patches of less than 128 pixels (Noroozi and Favaro 2016),
	// 4 for whole photographs of 227 (the same weights; so their transfer works)
	Stride   int
	Norm     string  // LRN or Batch; "": LRN
	Init     string  // Caffe or He; "": Caffe with LRN, He with Batch
	Features int     // width of fc6; 0: 1024, as Noroozi and Favaro have it
	Dropout  float64 // of fc6 and fc7 in training; 0: none. The paper's is not known; CFN has 0.5
}

// Network is a network of known settings. It has no memory: graphs are built with it.
type Network struct{ c Config }

// EncoderPrefix begins the names of parameters that a puzzle trains and that transfer takes over.
const EncoderPrefix = "encoder."

// maxSize is beyond any photograph that a network is trained on.
const maxSize = 4096

// New makes a network, or says what is wrong with the settings.
func New(c Config) (*Network, error) {
	if !slices.Contains(Kinds(), c.Kind) {
		return nil, fmt.Errorf("there is no network %q for photographs: choose one of %s", c.Kind,
			strings.Join(Kinds(), ", "))
	}
	c.Width = cmp.Or(c.Width, 1)
	if !(c.Width >= 1./16 && c.Width <= 8) {
		return nil, fmt.Errorf("width is %v, must be from 0.0625 to 8", c.Width)
	}
	c.Channels = cmp.Or(c.Channels, 3)
	if c.Channels != 1 && c.Channels != 3 {
		return nil, fmt.Errorf("photographs of %d channels: must be 1 or 3", c.Channels)
	}
	if c.Size == [2]int{} {
		c.Size = [2]int{64, 64}
	}
	if min(c.Size[0], c.Size[1]) < 1 || max(c.Size[0], c.Size[1]) > maxSize {
		return nil, fmt.Errorf("patches of %dx%d pixels: both must be from 1 to %d", c.Size[1], c.Size[0], maxSize)
	}
	if c.Kind == AlexNet {
		if err := c.resolveAlexNet(); err != nil {
			return nil, err
		}
	} else if c.Stride != 0 || c.Norm != "" || c.Init != "" || c.Features != 0 || c.Dropout != 0 {
		return nil, fmt.Errorf("stride, norm, init, features and dropout are AlexNet's settings: %s has none of them",
			c.Kind)
	}
	n := &Network{c}
	g := nn.NewGraph(nn.Eval, device.Float32)
	p := n.Patch()
	n.Encode(g, g.Input("x", 1, p[0], p[1], p[2], p[3]))
	if err := g.Err(); err != nil {
		return nil, fmt.Errorf("%s does not take patches of %dx%d pixels: %w", c.Kind, c.Size[1], c.Size[0], err)
	}
	return n, nil
}

// Config is the settings, with every value written out.
func (n *Network) Config() Config { return n.c }

// Patch is the shape of one patch: (channels, 1, height, width).
func (n *Network) Patch() [4]int { return [4]int{n.c.Channels, 1, n.c.Size[0], n.c.Size[1]} }

// Encode adds the network to the graph of patches (N, Patch). The result is (N, K): fc6 after its
// ReLU and dropout, or the mean over each channel of a ResNet.
func (n *Network) Encode(g *nn.Graph, patches *nn.Node) *nn.Node {
	layers := n.Layers()
	return n.Layer(g, patches, layers[len(layers)-1])
}

// Layers names the layers that [Network.Layer] gives, first to last.
func (n *Network) Layers() []string {
	if n.c.Kind == AlexNet {
		return []string{"conv1", "conv2", "conv3", "conv4", "conv5", "pool5", "fc6"}
	}
	return []string{"conv1", "layer1", "layer2", "layer3", "layer4", "pool"}
}

// Layer adds the network up to a layer to the graph of patches (N, Patch), and no further. The
// result is (N, C, 1, H, W) of a convolution, behind its activation and before any pooling, and (N,
// K) of fc6 and pool.
func (n *Network) Layer(g *nn.Graph, patches *nn.Node, layer string) *nn.Node {
	if g.Err() != nil {
		return &nn.Node{}
	}
	at := slices.Index(n.Layers(), layer)
	if at < 0 {
		return g.Fail("%s has no layer %q: choose one of %s", n.c.Kind, layer, strings.Join(n.Layers(), ", "))
	}
	if p := n.Patch(); len(patches.Shape()) != 5 || [4]int(patches.Shape()[1:]) != p {
		return g.Fail("%s takes patches (N, %d, 1, %d, %d), not %v", n.c.Kind, p[0], p[2], p[3], []int(patches.Shape()))
	}
	return n.steps(g, patches, at+1)
}

// steps adds the first so many layers.
func (n *Network) steps(g *nn.Graph, x *nn.Node, count int) *nn.Node {
	for i := range count {
		x = n.step(g, x, i)
	}
	return x
}

// step adds the i-th of the layers to the one before.
func (n *Network) step(g *nn.Graph, x *nn.Node, i int) *nn.Node {
	if n.c.Kind == AlexNet {
		return n.alexNet(g, x, i)
	}
	return n.resNet(g, x, i)
}

// Maps adds the part of the network that detection runs once a photograph, (N, C, 1, H, W) of any
// height and width, and says how many elements of the maps a pixel is: conv5 of AlexNet, the third
// stage of a ResNet.
func (n *Network) Maps(g *nn.Graph, photographs *nn.Node) (maps *nn.Node, scale float32) {
	if g.Err() != nil {
		return &nn.Node{}, 0
	}
	if s := photographs.Shape(); len(s) != 5 || s[1] != n.c.Channels || s[2] != 1 {
		return g.Fail("%s takes photographs (N, %d, 1, height, width), not %v", n.c.Kind, n.c.Channels, []int(s)), 0
	}
	if n.c.Kind == AlexNet {
		return n.steps(g, photographs, 5), 1 / float32(4*n.c.Stride)
	}
	return n.steps(g, photographs, 4), 1. / 16
}

// Regions adds the rest of the network, run on regions (R, 5) of the maps: see [device.RoISpec].
// The result is (R, K). AlexNet's regions are as large as its pool5, so that fc6 fits; those of a
// ResNet are 14x14, of which its fourth stage makes 7x7 (He et al. 2016, appendix A).
func (n *Network) Regions(g *nn.Graph, maps, regions *nn.Node, scale float32) *nn.Node {
	if n.c.Kind == AlexNet {
		size := n.pool5()
		return n.step(g, g.RoIPool(maps, regions, size, scale), 6)
	}
	x := n.step(g, g.RoIPool(maps, regions, [2]int{14, 14}, scale), 4)
	return n.step(g, x, 5)
}

// Top adds what lies between features (N, K) and a classifier: fc7 of AlexNet with its ReLU and
// dropout (Krizhevsky et al. 2012, as wide as fc6), nothing for a ResNet.
func (n *Network) Top(g *nn.Graph, features *nn.Node) *nn.Node {
	if n.c.Kind != AlexNet {
		return features
	}
	fc7 := g.LinearFrom("fc7", features, n.c.Features, true, n.weights(0.005), n.biases(1))
	return g.Dropout3d("fc7", g.ReLU(fc7), n.c.Dropout)
}

// Classify adds a classifier to features (N, K): logits (N, classes). That of a ResNet is fc; that
// of AlexNet [Network.Top] and fc8.
func (n *Network) Classify(g *nn.Graph, features *nn.Node, classes int) *nn.Node {
	if n.c.Kind != AlexNet {
		return g.Linear("fc", features, classes, true)
	}
	return g.LinearFrom("fc8", n.Top(g, features), classes, true, n.weights(0.01), n.biases(0))
}

// Detect adds the two answers of Fast R-CNN (Girshick 2015) about the features of regions, (N, K):
// scores (N, classes + 1), of which the first is the background's, and for each of these classes
// four numbers that move the region's box, (N, 4 (classes + 1)). Names and first values are those
// of its code.
func (n *Network) Detect(g *nn.Graph, features *nn.Node, classes int) (scores, boxes *nn.Node) {
	x := n.Top(g, features)
	scores = g.LinearFrom("cls_score", x, classes+1, true, nn.Gaussian(0.01), nn.Constant(0))
	boxes = g.LinearFrom("bbox_pred", x, 4*(classes+1), true, nn.Gaussian(0.001), nn.Constant(0))
	return scores, boxes
}

// channels is a number of channels at the network's width: a multiple of 8, which suits processors
// and divides into groups.
func (n *Network) channels(c int) int { return max(1, int(math.Round(float64(c)*n.c.Width/8))) * 8 }

// BiasGroup is how Caffe's networks train their biases: at twice the learning rate, without decay
// (Krizhevsky et al. 2012's code, and CFN's prototxt).
func BiasGroup() train.ParamGroup {
	return train.ParamGroup{
		Fits:   func(name string) bool { return strings.HasSuffix(name, ".bias") },
		Factor: func(int) float64 { return 2 },
		Decay:  func(int) float64 { return 0 },
	}
}
