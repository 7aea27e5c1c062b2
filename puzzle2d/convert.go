package puzzle2d

import (
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/photonet"
)

// conversion is what a checkpoint says if it was made from another program's weights.
type conversion struct {
	Network Network `yaml:"network"`
	Input   Input   `yaml:",inline"`
}

// FromPyTorch makes a checkpoint of a safetensors file with the names of torchvision's ResNets, or
// of AlexNet as the context-free network has it. The network is that of the settings; side is the
// width and height of its patches, which fc6 of AlexNet depends on. A file with all layers but fc6
// makes a checkpoint without it. The report says what became of each tensor.
func FromPyTorch(dev voxsaw.Device, path, out string, n Network, side int) (voxsaw.Loaded, error) {
	d, err := device.From(dev)
	if err != nil {
		return voxsaw.Loaded{}, err
	}
	net, err := n.net(side, side)
	if err != nil {
		return voxsaw.Loaded{}, err
	}
	layers := net.Layers()
	params, loaded, err := importUpTo(d, net, path, layers[len(layers)-1])
	if err == nil && n.Backbone == photonet.AlexNet &&
		!slices.ContainsFunc(loaded.Missing, func(name string) bool { return !strings.Contains(name, ".fc6.") }) &&
		len(loaded.Missing) > 0 {
		params.Close()
		params, loaded, err = importUpTo(d, net, path, layers[len(layers)-2])
	}
	if err != nil {
		return loaded, err
	}
	defer params.Close()
	if len(loaded.Missing) > 0 {
		return loaded,
			fmt.Errorf("%s lacks %d tensors of a %s of width %v: is it of another --backbone or --width?\n  %v", path,
				len(loaded.Missing), n.Backbone, n.Width, loaded)
	}
	settings, err := config.Marshal(&conversion{n, imageNet})
	if err != nil {
		return loaded, err
	}
	return loaded, checkpoint.Write(out, checkpoint.Description{
		Kind: converted, Settings: string(settings), Run: string(settings), Version: voxsaw.Version(),
		Device: d.Describe(),
	}, params)
}

// importUpTo reads the weights of a network up to a layer.
func importUpTo(d device.Device, net *photonet.Network, path, layer string) (*nn.Params, voxsaw.Loaded, error) {
	g, patch := nn.NewGraph(nn.Eval, d.Activations()), net.Patch()
	net.Layer(g, g.Input("x", 1, patch[0], patch[1], patch[2], patch[3]), layer)
	params := nn.NewParams(d, 1)
	err := g.Err()
	if err == nil {
		err = params.Declare(g)
	}
	var loaded voxsaw.Loaded
	if err == nil {
		loaded, err = photonet.Import(path, params)
	}
	if err != nil {
		params.Close()
	}
	return params, loaded, err
}

// ToPyTorch writes the network of a checkpoint on photographs, and its classifier where it has one
// of torchvision's, as safetensors with the names and shapes that torchvision's model of the same
// kind loads. It returns the network, how many classes its layer fc tells apart, 0 where it has
// none, and the names of the tensors that have no place there, such as those of a puzzle's head.
func ToPyTorch(path, out string) (n Network, classes int, left []string, err error) {
	if n, _, err = readNetwork(path); err != nil {
		return n, 0, nil, err
	}
	left, err = checkpoint.Export(path, out, func(name string, shape []int) (string, []int, error) {
		to, as, _ := photonet.ToPyTorch(name, shape)
		if to == "fc.weight" {
			classes = as[0]
		}
		return to, as, nil
	})
	return n, classes, left, err
}
