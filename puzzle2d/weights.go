package puzzle2d

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/photonet"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/safetensors"
)

// Random is what is said for a file of weights where there is none: the network begins with random
// ones.
const Random = "random"

// converted is the kind of checkpoints that [FromPyTorch] makes: a network that another program has
// trained.
const converted = checkpoint.OnPhotographs + "weights"

// imageNet is how torchvision's networks see pixels: less the mean of ImageNet's colours. They are
// divided by 0.229, 0.224 and 0.225 of 255 there; [pixelScale] is the mean of these.
var imageNet = Input{Mean: MeanDataset, PixelMean: [3]float64{0.485 * 255, 0.456 * 255, 0.406 * 255}}

// A Source is a file of weights of a network on photographs, and what it says about them.
type Source struct {
	Path    string // empty: random weights
	Network Network
	// Input is how the network sees pixels. Of PyTorch's weights it is torchvision's way.
	Input Input
	// PyTorch says that the file is another program's. Then the network is the one that was asked
	// for: the file does not name it.
	PyTorch bool
}

// ReadSource reads what a file says about its weights: a checkpoint of [Pretrain],
// [TrainClassifier], [Finetune] or [FromPyTorch], or a safetensors file of PyTorch's. For [Random]
// and PyTorch's the network is the one that is asked for.
func ReadSource(path string, asked Network) (Source, error) {
	if path == "" || path == Random {
		return Source{Network: asked}, nil
	}
	if checkpoint.IsPyTorch(path) { // which no network of photographs is read from
		f, err := safetensors.Open(path)
		if err != nil {
			return Source{}, err // says how to make one that is
		}
		f.Close()
	}
	network, input, err := readNetwork(path)
	if errors.Is(err, checkpoint.ErrForeign) {
		return Source{Path: path, Network: asked, Input: imageNet, PyTorch: true}, nil
	}
	return Source{Path: path, Network: network, Input: input}, err
}

// readNetwork reads what network a checkpoint on photographs is of, and how it sees pixels.
func readNetwork(path string) (Network, Input, error) {
	d, err := checkpoint.ReadKind(path, "this takes one of voxsaw 2d pretrain, 2d finetune or 2d convert",
		append(pretext.Photographs.Kinds(), converted, photoTask(Classify), photoTask(Detect))...)
	if err != nil {
		return Network{}, Input{}, err
	}
	switch d.Kind {
	case converted:
		var c conversion
		err = d.Parse(&c)
		return c.Network, c.Input, err
	case photoTask(Classify):
		c := DefaultMultilabel()
		err = d.Parse(&c)
		return c.Network, c.Input, err
	case photoTask(Detect):
		c := DefaultDetection()
		err = d.Parse(&c)
		return c.Network, c.Input, err
	}
	task, err := pretext.Photographs.Of(strings.TrimPrefix(d.Kind, checkpoint.OnPhotographs))
	if err != nil {
		return Network{}, Input{}, err
	}
	settings := task.New()
	c, _, _ := SettingsOf(settings)
	err = d.Parse(settings)
	return c.Network, c.Input, err
}

// load sets the parameters that the file has, and says what became of the others.
func (s Source) load(params *nn.Params) (voxsaw.Loaded, error) {
	var loaded voxsaw.Loaded
	var err error
	if s.PyTorch {
		loaded, err = photonet.Import(s.Path, params)
	} else {
		loaded, err = checkpoint.Load(s.Path, params)
	}
	if err == nil && !slices.ContainsFunc(loaded.Loaded, isEncoder) {
		err = fmt.Errorf("no weights of the backbone fit: is the file of another --backbone or --width?\n  %v", loaded)
	}
	return loaded, err
}

func isEncoder(parameter string) bool {
	return strings.HasPrefix(parameter, photonet.EncoderPrefix)
}

// isConvolution says of a parameter whether it is the backbone's for patches of any size: those of
// AlexNet's fc6 are for one.
func isConvolution(parameter string) bool {
	return isEncoder(parameter) && !strings.HasPrefix(parameter, photonet.EncoderPrefix+"fc6.")
}

// start is how a new run of a network begins: with the weights of a file, which must be complete
// unless partial is set; nil where they are random. The file is not read before: a run that is
// resumed does not need it.
func start(path string, partial bool, network Network) func(*nn.Params) (string, error) {
	if path == "" || path == Random {
		return nil
	}
	return func(params *nn.Params) (string, error) {
		s, err := ReadSource(path, network)
		if err == nil && (s.Network.Backbone != network.Backbone || s.Network.Width != network.Width) {
			err = fmt.Errorf("%s is of %s, width %v, the network to train is %s, width %v: "+
				"give both the same --backbone and --width",
				path, s.Network.Backbone, s.Network.Width, network.Backbone, network.Width)
		}
		var loaded voxsaw.Loaded
		if err == nil {
			loaded, err = s.load(params)
		}
		if err == nil && !partial {
			err = checkpoint.CheckWhole(
				loaded,
				slices.DeleteFunc(params.Names(),
					func(name string) bool { return !isConvolution(name) || !params.Trained(name) }),
			)
		}
		if err != nil {
			return "", fmt.Errorf("weights to start from: %w", err)
		}
		return "starting from " + loaded.String(), nil
	}
}
