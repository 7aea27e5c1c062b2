package segment

import (
	"errors"
	"fmt"

	"github.com/voxsaw/voxsaw/internal/bench"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/vnet"
)

// Benchmark is one timing of the whole network on random data: a training step (forward, backward,
// SGD), or, if Infer, a forward pass.
type Benchmark struct {
	Network       vnet.Config
	Crop, Batch   int
	Steps, Warmup int // steps that are timed, and those before
	Infer         bool
	Memory        int64 // limit in bytes; 0: none
	// largest norm of the gradients, which are then all kept until the end of the step; 0: no
	// clipping
	Clip    float64
	Measure bench.Options
}

// Run measures.
func (b Benchmark) Run(dev device.Device) (bench.Timing, error) {
	if b.Batch < 1 {
		return bench.Timing{}, errors.New("batch must be at least 1")
	}
	network, err := b.network()
	if err != nil {
		return bench.Timing{}, err
	}
	params := nn.NewParams(dev, 0)
	r := seed.Rand(0, "benchmark")
	images := make([]float32, b.Batch*b.Crop*b.Crop*b.Crop)
	targets := make([]float32, len(images))
	for i := range images {
		images[i] = float32(r.NormFloat64())
		if r.Float64() > 0.9 {
			targets[i] = 1
		}
	}
	program, optimiser, err := b.compile(dev, network, params)
	if err != nil {
		return bench.Timing{}, err
	}
	steps := bench.Steps{Warmup: b.Warmup, Timed: b.Steps, Programs: []*nn.Program{program}}
	steps.Compute = func(step int) error {
		if err := program.Set("image", images); err != nil {
			return err
		}
		if b.Infer {
			return program.Forward()
		}
		if err := program.Set("target", targets); err != nil {
			return err
		}
		if err := program.SetStep(0, uint64(step)); err != nil {
			return err
		}
		if err := optimiser.Begin(step); err != nil {
			return err
		}
		if err := program.Forward(); err != nil {
			return err
		}
		return program.Backward()
	}
	if !b.Infer {
		steps.Update = func(step int) error {
			if err := optimiser.Update(step, 0); err != nil {
				return err
			}
			return dev.Sync()
		}
	}
	t, err := steps.Measure(b.Measure)
	t.Bytes = params.Total()
	return t, err
}

// Plan makes the program of a step, for what it takes: nothing runs. The memory of all of it is the
// parameters' Total.
func (b Benchmark) Plan(dev device.Device) (nn.Summary, *nn.Params, error) {
	params := nn.NewParams(dev, 0)
	network, err := b.network()
	if err != nil {
		return nn.Summary{}, nil, err
	}
	program, _, err := b.compile(dev, network, params)
	if err != nil {
		return nn.Summary{}, nil, err
	}
	return program.Summary(), params, nil
}

// network is the network with what its preset says, if it takes the crop.
func (b Benchmark) network() (vnet.Config, error) {
	network, err := b.Network.Resolve()
	if err != nil {
		return network, err
	}
	if err := network.Check([3]int{b.Crop, b.Crop, b.Crop}); err != nil {
		return network, fmt.Errorf("crop: %w", err)
	}
	return network, nil
}

// compile makes the program of a step: the logits alone in inference, otherwise cross-entropy, soft
// Dice, all gradients and the optimiser's step.
func (b Benchmark) compile(dev device.Device, network vnet.Config, params *nn.Params) (*nn.Program, *train.SGD, error) {
	mode := nn.Train
	if b.Infer {
		mode = nn.Eval
	}
	g := nn.NewGraph(mode, dev.Activations())
	logits := network.Decoder(g, network.Encoder(g, g.Input("image", b.Batch, 1, b.Crop, b.Crop, b.Crop)))
	o := nn.Options{MemoryLimit: b.Memory}
	if b.Infer {
		o.Outputs = map[string]*nn.Node{"logits": logits}
		p, err := nn.Compile(dev, g, params, o)
		return p, nil, err
	}
	o.Loss, _ = g.Loss(logits, g.Input("target", b.Batch, b.Crop, b.Crop, b.Crop), nn.LossOptions{CE: 1, Dice: 1})
	if err := params.Declare(g); err != nil {
		return nil, nil, err
	}
	sgd, err := train.NewSGD(params, train.Options{Schedule: "constant", LR: 1e-3, Momentum: 0.9, WeightDecay: 5e-4, Clip: b.Clip}, nil)
	if err != nil {
		return nil, nil, err
	}
	o.Update = sgd.Updater()
	p, err := nn.Compile(dev, g, params, o)
	return p, sgd, err
}
