package photonet

import (
	"cmp"
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// AlexNet for patches, as the context-free network of Noroozi and Favaro 2016 has it (their Caffe
// prototxt): that of CaffeNet (pooling before normalisation, two groups in conv2, conv4 and conv5,
// sizes of poolings rounded up), with a stride of 2 in conv1, no padding there, and an fc6 of 1024.
// A patch of 64 pixels becomes maps of 27, 13, 6 and 3; a photograph of 227 at stride 4 those of
// 55, 27, 13 and 6.

// resolveAlexNet writes out AlexNet's own settings.
func (c *Config) resolveAlexNet() error {
	if c.Stride == 0 {
		if c.Stride = 2; min(c.Size[0], c.Size[1]) >= 128 {
			c.Stride = 4
		}
	}
	c.Norm = cmp.Or(c.Norm, LRN)
	if c.Init == "" {
		if c.Init = Caffe; c.Norm == Batch {
			c.Init = He
		}
	}
	c.Features = cmp.Or(c.Features, 1024)
	switch {
	case c.Stride < 1 || c.Stride > 11:
		return fmt.Errorf("stride is %d, must be from 1 to 11, the size of the first kernel", c.Stride)
	case c.Norm != LRN && c.Norm != Batch:
		return fmt.Errorf("norm %q: want %s or %s", c.Norm, LRN, Batch)
	case c.Init != Caffe && c.Init != He:
		return fmt.Errorf("init %q: want %s or %s", c.Init, Caffe, He)
	case c.Features < 1 || c.Features > 1<<16:
		return fmt.Errorf("features is %d, must be from 1 to %d", c.Features, 1<<16)
	case !(c.Dropout >= 0 && c.Dropout < 1):
		return fmt.Errorf("dropout is %v, must be from 0 to less than 1", c.Dropout)
	}
	return nil
}

// alexConv is a convolution of AlexNet, and its biases' first value in Caffe.
type alexConv struct {
	name    string
	out     int
	window  nn.Window
	groups  int
	bias    float32
	poolsIn bool // the input is pooled and normalised
}

func (n *Network) alexConvs() []alexConv {
	return []alexConv{
		{"conv1", 96, nn.Plane(11, n.c.Stride, 0), 1, 0, false},
		{"conv2", 256, nn.Plane(5, 1, 2), 2, 1, true},
		{"conv3", 384, nn.Plane(3, 1, 1), 1, 0, true},
		{"conv4", 384, nn.Plane(3, 1, 1), 2, 1, false},
		{"conv5", 256, nn.Plane(3, 1, 1), 2, 1, false},
	}
}

// alexNet adds the i-th of AlexNet's layers.
func (n *Network) alexNet(g *nn.Graph, x *nn.Node, i int) *nn.Node {
	convs := n.alexConvs()
	switch {
	case i < len(convs):
		c := convs[i]
		if c.poolsIn {
			x = g.MaxPoolCeil(x, nn.Plane(3, 2, 0))
			if n.c.Norm == LRN {
				x = g.LRN(x, 5, 1e-4, 0.75, 1)
			}
		}
		return n.alexConv(g, x, c)
	case i == len(convs):
		return g.MaxPoolCeil(x, nn.Plane(3, 2, 0))
	}
	fc6 := g.LinearFrom(EncoderPrefix+"fc6", g.Flatten(x), n.c.Features, true, n.weights(0.005), n.biases(1))
	return g.Dropout3d(EncoderPrefix+"fc6", g.ReLU(fc6), n.c.Dropout)
}

// alexConv adds a convolution with what follows it.
func (n *Network) alexConv(g *nn.Graph, x *nn.Node, c alexConv) *nn.Node {
	name := EncoderPrefix + c.name
	o := nn.Convolution{Window: c.window, Groups: c.groups, Bias: n.c.Norm == LRN, Init: n.weights(0.01),
		BiasInit: n.biases(c.bias)}
	x = g.Convolve(name, x, n.channels(c.out), o)
	a := nn.Activation{Act: device.ReLU}
	if n.c.Norm == Batch {
		a.Norm, a.NormName = device.BatchNorm, EncoderPrefix+"bn"+c.name[len("conv"):]
	}
	return g.Activate(name, x, a)
}

// pool5 is the height and width of the last pooling.
func (n *Network) pool5() [2]int {
	g := nn.NewGraph(nn.Eval, device.Float32)
	p := n.Patch()
	s := n.Layer(g, g.Input("x", 1, p[0], p[1], p[2], p[3]), "pool5").Shape()
	return [2]int{s[3], s[4]}
}

// weights and biases are first values: Caffe's, or He's.
func (n *Network) weights(deviation float64) nn.Init {
	if n.c.Init == He {
		return nn.KaimingNormalFanOut()
	}
	return nn.Gaussian(deviation)
}

func (n *Network) biases(caffe float32) nn.Init {
	if n.c.Init == He {
		return nn.Constant(0)
	}
	return nn.Constant(caffe)
}
