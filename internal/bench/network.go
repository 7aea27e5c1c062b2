package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
)

// Network is the work of a whole network on random crops: a training step (forward pass,
// cross-entropy and soft Dice, gradients, SGD), or, if Infer, a forward pass.
type Network struct {
	Settings voxsaw.Network
	Crop     [3]int
	Batch    int
	Infer    bool
	Memory   int64 // limit in bytes; 0: none
	// largest norm of the gradients, which are then all kept to the end of the step; 0: no clipping
	Clip float64
}

// built is a network's program.
type built struct {
	params      *nn.Params
	program     *nn.Program
	supervision *backbone.Supervision
	optimizer   train.Optimizer // nil in inference
}

func (b *built) close() {
	if b.program != nil {
		b.program.Close()
	}
	if b.optimizer != nil {
		b.optimizer.Close()
	}
	b.params.Close()
}

// A Footprint is what a step takes.
type Footprint struct {
	nn.Summary
	Parameters int   // trained numbers
	Weights    int64 // bytes of the parameters and states
	Total      int64 // bytes of all, with the state of the optimiser
}

// Plan says what a step takes. Nothing runs.
func (n Network) Plan(dev device.Device) (Footprint, error) {
	b, err := n.build(dev)
	if err != nil {
		return Footprint{}, err
	}
	defer b.close()
	return Footprint{b.program.Summary(), b.params.Count(), b.params.Bytes(), b.params.Total()}, nil
}

// Run measures.
func (n Network) Run(ctx context.Context, dev device.Device, warmup, timed int, o Options) (Timing, error) {
	b, err := n.build(dev)
	if err != nil {
		return Timing{}, err
	}
	defer b.close()
	r := seed.Rand(0, "benchmark")
	targets := make([]float32, n.Batch*n.Crop[0]*n.Crop[1]*n.Crop[2])
	images := make([]float32, n.Settings.InputChannels()*len(targets))
	for i := range images {
		images[i] = float32(r.NormFloat64())
		if i < len(targets) && r.Float64() > 0.9 {
			targets[i] = 1
		}
	}
	steps := Steps{Warmup: warmup, Timed: timed, Programs: []*nn.Program{b.program}}
	steps.Compute = func(step int) error {
		if err := b.program.Set("image", images); err != nil {
			return err
		}
		if n.Infer {
			return errors.Join(b.program.Forward(), dev.Sync())
		}
		if err := b.supervision.Set(b.program, targets); err != nil {
			return err
		}
		if err := b.program.SetStep(0, uint64(step)); err != nil {
			return err
		}
		if err := b.optimizer.Begin(step); err != nil {
			return err
		}
		if err := b.program.Forward(); err != nil {
			return err
		}
		if err := b.program.Backward(); err != nil {
			return err
		}
		// the next step's, as in a training
		return errors.Join(b.program.Ahead("image", images), b.program.Ahead(b.supervision.Input(), targets))
	}
	if !n.Infer {
		steps.Update = func(step int) error { return update(dev, b.optimizer, step) }
	}
	t, err := steps.Measure(ctx, o)
	t.Bytes = b.params.Total()
	return t, err
}

// update takes the optimiser's step and waits for its end.
func update(dev device.Device, o train.Optimizer, step int) error {
	_, err := o.Take(step, nil)
	return errors.Join(err, dev.Sync())
}

// sgd is the optimiser of benchmarks.
func sgd(clip float64) voxsaw.Training {
	o := voxsaw.DefaultTraining()
	o.Schedule, o.LR, o.Momentum, o.WeightDecay, o.Warmup, o.Clip = "constant", 1e-3, 0.9, 5e-4, 0, clip
	return o
}

// build makes the program of a step: the logits alone in inference.
func (n Network) build(dev device.Device) (*built, error) {
	network, err := backbone.Of(n.Settings)
	if err != nil {
		return nil, err
	}
	if err := backbone.Fits(network, n.Crop); err != nil {
		return nil, fmt.Errorf("crop: %w", err)
	}
	if n.Batch < 1 {
		return nil, errors.New("batch must be at least 1")
	}
	b := &built{params: nn.NewParams(dev, 0)}
	mode := nn.Train
	if n.Infer {
		mode = nn.Eval
	}
	g := nn.NewGraph(mode, dev.Activations())
	stages := network.Encoder(g, g.Input("image", n.Batch, n.Settings.InputChannels(), n.Crop[2], n.Crop[1], n.Crop[0]))
	if g.Err() != nil {
		return nil, g.Err()
	}
	logits := network.Decoder(g, stages)
	o := nn.Options{MemoryLimit: n.Memory}
	if n.Infer {
		o.Outputs = map[string]*nn.Node{"logits": logits[0]}
	} else {
		b.supervision = backbone.Supervise(g, logits, n.Batch, n.Crop, nn.LossOptions{CE: 1, Dice: 1})
		o.Loss, o.Ahead = b.supervision.Loss, []string{"image", b.supervision.Input()}
		if err = b.params.Declare(g); err == nil {
			b.optimizer, err = train.NewOptimizer(b.params, sgd(n.Clip), nil, false)
		}
		if err == nil {
			o.Update = b.optimizer.Updater()
		}
	}
	if err == nil {
		b.program, err = nn.Compile(dev, g, b.params, o)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}
