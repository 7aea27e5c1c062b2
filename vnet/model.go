package vnet

import (
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
)

// A Model is a VNet that runs on images of one size, for those who want its numbers and not a label
// map. Its methods are called from one goroutine at a time.
//
// An image is (K, J, I), row-major: voxel (i, j, k) is element i + I (j + J k). Of several input
// channels, one image follows another. Intensities are
// what the network was trained on: for checkpoints of this program the window of the preparation,
// scaled to [-1, 1].
type Model struct {
	network *network
	params  *nn.Params
	program *nn.Program
	size    [3]int
}

// New makes a model with the first weights that the seed gives, for images of a size along (i, j,
// k).
func New(dev voxsaw.Device, settings voxsaw.Network, size [3]int, seed uint64) (*Model, error) {
	d, err := device.From(dev)
	if err != nil {
		return nil, err
	}
	n, err := resolve(settings)
	if err != nil {
		return nil, err
	}
	m := &Model{network: n, params: nn.NewParams(d, seed), size: size}
	g := nn.NewGraph(nn.Eval, d.Activations())
	stages := n.Encoder(g, backbone.Input(g, "image", n, 1, size))
	if g.Err() != nil {
		return nil, g.Err()
	}
	outputs := map[string]*nn.Node{"logits": n.Decoder(g, stages)[0]}
	for i, stage := range stages {
		outputs[stageName(i)] = stage
	}
	if m.program, err = nn.Compile(d, g, m.params, nn.Options{Outputs: outputs}); err != nil {
		m.params.Close()
		return nil, fmt.Errorf("preparing the network for images of %v: %w", numbers.Extents(size[:]), err)
	}
	return m, nil
}

func stageName(i int) string { return fmt.Sprintf("stage %d", i) }

// Open makes a model with the weights of a checkpoint of this program, of pretraining or of
// fine-tuning. The report says what was loaded: a checkpoint of pretraining has no decoder.
func Open(dev voxsaw.Device, path string, size [3]int) (*Model, voxsaw.Loaded, error) {
	d, err := checkpoint.Read(path)
	if err != nil {
		return nil, voxsaw.Loaded{}, err
	}
	settings, err := d.Network()
	if err != nil {
		return nil, voxsaw.Loaded{}, err
	}
	if settings.Kind != "" && settings.Kind != kind {
		return nil, voxsaw.Loaded{}, fmt.Errorf("%s holds a network of kind %q, not a VNet", path, settings.Kind)
	}
	m, err := New(dev, settings, size, 0)
	if err != nil {
		return nil, voxsaw.Loaded{}, err
	}
	loaded, err := checkpoint.Load(path, m.params)
	if err != nil {
		m.Close()
		return nil, loaded, err
	}
	return m, loaded, nil
}

// Load sets the weights from a safetensors file, as far as they fit: a checkpoint of this program,
// or one with the names of MONAI's VNet or of vnet.pytorch. The report says what was loaded and
// what was not. It is an error if nothing fits.
func (m *Model) Load(path string) (voxsaw.Loaded, error) {
	return checkpoint.LoadRenamed(path, m.params, translate)
}

// Settings are the network's, with every value written out.
func (m *Model) Settings() voxsaw.Network { return m.network.Network }

// Names lists the parameters and states: PyTorch's names for PyTorch's shapes.
func (m *Model) Names() []string { return m.params.Names() }

// Shape is the shape of a parameter or state; nil if there is none of that name. The weights of a
// convolution are (out, in, kernel), those of an up-convolution (in, out, kernel).
func (m *Model) Shape(name string) []int { return m.params.Shape(name) }

// Weights are the values of a parameter or state, row-major.
func (m *Model) Weights(name string) ([]float32, error) { return m.params.Read(name) }

// Logits are those of an image: (Classes, K, J, I), row-major.
func (m *Model) Logits(image []float32) ([]float32, error) {
	if err := m.run(image); err != nil {
		return nil, err
	}
	return m.output("logits")
}

// Features are what each stage of the encoder makes of an image, finest first: (Channels 2^s,
// K/2^s, J/2^s, I/2^s), row-major.
func (m *Model) Features(image []float32) ([][]float32, error) {
	if err := m.run(image); err != nil {
		return nil, err
	}
	var all [][]float32
	for i := range m.network.Levels + 1 {
		f, err := m.output(stageName(i))
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

func (m *Model) run(image []float32) error {
	if err := m.program.Set("image", image); err != nil {
		return fmt.Errorf("an image of %dx%dx%d voxels is wanted: %w", m.size[0], m.size[1], m.size[2], err)
	}
	return m.program.Forward()
}

func (m *Model) output(name string) ([]float32, error) {
	values := make([]float32, m.program.Shape(name).Elements())
	return values, m.program.Read(name, values)
}

// Close gives the memory back.
func (m *Model) Close() {
	m.program.Close()
	m.params.Close()
}
