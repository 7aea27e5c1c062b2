package puzzle2d

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/photonet"
	"github.com/voxsaw/voxsaw/sample"
)

// Features turns whole photographs into features with a trained network, or with a random one. Its
// methods are called from one goroutine at a time.
type Features struct {
	network Network
	input   Input
	side    int
	batch   int
	width   int // of a feature
	params  *nn.Params
	program *nn.Program
	note    string
	told    func(done, total int)
}

// FeatureOptions say what features are.
type FeatureOptions struct {
	// Random is the network where no checkpoint says what it is: that of PyTorch's weights, or
	// random weights of the seed, the row that must never be missing from a table.
	Random Network
	Seed   uint64
	Input  Input // of a random network, resolved
	// Layer is what is taken: "" for the last (fc6 of AlexNet, the mean over the image of a
	// ResNet), or a layer of the network such as LayerConv5, averaged over the image.
	Layer  string
	Side   int   // width and height of the middle of a photograph that is looked at
	Batch  int   // photographs looked at together; 0: 16
	Memory int64 // limit in bytes of the network; 0: none
	// Progress is told how many photographs of how many are done; nil: nobody is.
	Progress func(done, total int)
}

// LayerConv5 is the last convolution of AlexNet, and the last stage of a ResNet.
const LayerConv5 = "conv5"

// OpenFeatures prepares the network of a file of weights, see [ReadSource]; path may be empty for a
// random one.
func OpenFeatures(dev voxsaw.Device, path string, o FeatureOptions) (*Features, error) {
	d, err := device.From(dev)
	if err != nil {
		return nil, err
	}
	f := &Features{network: o.Random, input: o.Input, side: o.Side, batch: o.Batch, told: o.Progress}
	if f.told == nil {
		f.told = func(int, int) {}
	}
	f.batch = cmp.Or(f.batch, 16)
	source, err := ReadSource(path, o.Random)
	if err != nil {
		return nil, err
	}
	if source.Path != "" {
		f.network, f.input = source.Network, source.Input
	}
	f.network.Dropout = 0
	net, err := f.network.net(o.Side, o.Side)
	if err != nil {
		return nil, err
	}
	g := nn.NewGraph(nn.Eval, d.Activations())
	x := layer(g, net, g.Input("images", f.batch, 3, 1, o.Side, o.Side), o.Layer)
	if g.Err() != nil {
		return nil, g.Err()
	}
	f.width = x.Shape().Elements() / f.batch
	f.params = nn.NewParams(d, o.Seed)
	var loaded voxsaw.Loaded
	if err = f.params.Declare(g); err == nil && source.Path != "" {
		loaded, err = source.load(f.params)
	}
	if err == nil && len(loaded.Missing) > 0 {
		err = fmt.Errorf("%s lacks %s of the network", path, strings.Join(loaded.Missing, ", "))
	}
	if source.PyTorch {
		f.note = loaded.String()
	}
	if err == nil {
		f.program, err = nn.Compile(d, g, f.params, nn.Options{Outputs: map[string]*nn.Node{"features": x},
			MemoryLimit: o.Memory})
	}
	if err != nil {
		f.params.Close()
		return nil, err
	}
	return f, nil
}

// layer adds the network up to a layer: the last one, or a convolution's maps, averaged over the
// image.
func layer(g *nn.Graph, net *photonet.Network, images *nn.Node, name string) *nn.Node {
	if name == "" {
		return net.Encode(g, images)
	}
	if last := net.Layers(); name == LayerConv5 && !slices.Contains(last, name) {
		name = last[len(last)-2] // what a ResNet averages
	}
	x := net.Layer(g, images, name)
	if g.Err() != nil || len(x.Shape()) != 5 {
		return x
	}
	s := x.Shape()
	return g.Flatten(g.AvgPool(x, nn.Window{Kernel: [3]int{1, s[3], s[4]}, Stride: [3]int{1, s[3], s[4]}}))
}

// Close gives the memory back.
func (f *Features) Close() {
	f.program.Close()
	f.params.Close()
}

// Note says what became of PyTorch's weights; it is empty for a checkpoint, which has all weights
// of the network.
func (f *Features) Note() string { return f.note }

// Width is the number of values of a feature.
func (f *Features) Width() int { return f.width }

// Extract computes the features of photographs, (photographs, Width), row after row.
func (f *Features) Extract(ctx context.Context, photographs []sample.Sample) ([]float32, error) {
	for _, photo := range photographs {
		if size := photo.Size(); min(size[0], size[1]) < f.side {
			return nil, fmt.Errorf("%d pixels are looked at, %s has %dx%d: prepare photographs larger, or look at less",
				f.side, photo.Name(), size[0], size[1])
		}
	}
	size := 3 * f.side * f.side
	images := make([]float32, f.batch*size)
	features := make([]float32, len(photographs)*f.width)
	rows := make([]float32, f.batch*f.width)
	for from := 0; from < len(photographs); from += f.batch {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part := photographs[from:min(from+f.batch, len(photographs))]
		for k, photo := range part {
			top, left := corner(photo, f.side, f.side, nil)
			if err := f.input.write(images[k*size:(k+1)*size], view{of: photo, top: top, left: left,
				height: f.side, width: f.side}); err != nil {
				return nil, err
			}
		}
		if err := f.program.Set("images", images); err != nil {
			return nil, err
		}
		if err := f.program.Forward(); err != nil {
			return nil, err
		}
		if err := f.program.Read("features", rows); err != nil {
			return nil, err
		}
		copy(features[from*f.width:], rows[:len(part)*f.width])
		f.told(from+len(part), len(photographs))
	}
	return features, nil
}
