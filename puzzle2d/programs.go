package puzzle2d

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
)

// programs is a network that learns from whole photographs: the program of a step, and, where
// something is validated, that of a look without gradients, in the same memory.
type programs struct {
	pretext.Programs
	build func(*nn.Graph) (outputs, error)
	graph *nn.Graph
	out   outputs
}

// outputs are what a network computes, by name. "loss" is what is minimised.
type outputs map[string]*nn.Node

// declare builds the network, with its parameters.
func (p *programs) declare(params *nn.Params) (err error) {
	p.graph = nn.NewGraph(nn.Train, params.Device().Activations())
	if p.out, err = p.build(p.graph); err != nil {
		return err
	}
	return params.Declare(p.graph)
}

// compile makes the programs; items says what a step is about ("32 photographs"), images which
// input is sent ahead of its step.
func (p *programs) compile(w pretext.Workbench, items, images string, judge bool) (err error) {
	p.Bench = w
	loss := p.out["loss"]
	delete(p.out, "loss")
	if p.Training, err = nn.Compile(w.Device, p.graph, w.Params,
		nn.Options{Loss: loss, Outputs: p.out, Update: w.Optimizer.Updater(), MemoryLimit: w.Memory,
			Ahead: []string{images}}); err != nil {
		return fmt.Errorf("preparing to train on %s: %w", items, err)
	}
	if !judge {
		return nil
	}
	g := nn.NewGraph(nn.Eval, w.Device.Activations())
	out, err := p.build(g)
	if err == nil {
		p.Validation, err = nn.Compile(w.Device, g, w.Params, nn.Options{Outputs: out, MemoryLimit: w.Memory,
			Share: p.Training})
	}
	if err != nil {
		p.Close()
		return fmt.Errorf("preparing to validate on %s: %w", items, err)
	}
	return nil
}

// forward sets the inputs of a program and computes its outputs. It returns the loss.
func forward(p *nn.Program, inputs map[string][]float32) (loss float64, err error) {
	for name, values := range inputs {
		if err := p.Set(name, values); err != nil {
			return 0, err
		}
	}
	if err := p.Forward(); err != nil {
		return 0, err
	}
	var value [1]float32
	err = p.Read("loss", value[:])
	return float64(value[0]), err
}
