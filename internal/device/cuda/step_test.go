//go:build gpu

package cuda_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cuda"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/turns"
	_ "github.com/voxsaw/voxsaw/vnet"
)

// unrecorded is a device that cannot record: its method Record is not that of a device.Recorder.
type unrecorded struct{ *cuda.Device }

func (unrecorded) Record() {}

// unnormed is a device whose convolutions leave nothing for norms: its method NormConv is not that
// of a device.Normaliser.
type unnormed struct{ *cuda.Device }

func (unnormed) NormConv() {}

func (unnormed) Record() {} // so that launches are counted one by one

// trained are the losses, the parameters and the driver's calls of each of some steps of training a
// small network. With ahead, each step's batch is sent to the device while it computes the step
// before.
type trained struct {
	losses     []float64
	parameters []float32
	calls      []cuda.Calls
}

func trainSteps(t *testing.T, gpu *cuda.Device, dev device.Device, optimizer, norm string, clip float64,
	ahead bool) (r trained) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	settings := voxsaw.DefaultNetwork()
	settings.Channels, settings.Levels, settings.Classes, settings.Norm = 16, 1, 3, norm
	network, err := backbone.Of(settings)
	check(err)
	crop := [3]int{8, 8, 8}
	empty, staging := gpu.Taken()
	empty -= staging // which a network before this one has left
	params := nn.NewParams(dev, 1)
	defer params.Close()
	g := nn.NewGraph(nn.Train, dev.Activations())
	logits := network.Decoder(g, network.Encoder(g, g.Input("image", 1, 1, 8, 8, 8)))
	supervision := backbone.Supervise(g, logits, 1, crop, nn.LossOptions{CE: 1, Dice: 1})
	check(g.Err())
	check(params.Declare(g))
	o := voxsaw.DefaultTraining()
	o.Optimizer, o.Clip, o.Warmup, o.Schedule = optimizer, clip, 0, "constant"
	stepper, err := train.NewOptimizer(params, o, nil, false)
	check(err)
	defer stepper.Close()
	options := nn.Options{Loss: supervision.Loss, Outputs: map[string]*nn.Node{"statistics": supervision.Statistics},
		Update: stepper.Updater()}
	if ahead {
		options.Ahead = []string{"image", supervision.Input()}
	}
	program, err := nn.Compile(dev, g, params, options)
	check(err)
	defer program.Close()
	random := rand.New(rand.NewPCG(1, 2))
	loss, _, err := program.Output("loss")
	check(err)
	statistics, _, err := program.Output("statistics")
	check(err)
	values, err := params.Values()
	check(err)
	r.parameters = make([]float32, values.Bytes()/4)
	spoiled := make([]float32, len(r.parameters))
	states := func() (all []float32) {
		for _, name := range params.Names() {
			if !params.Trained(name) {
				v, err := params.Read(name)
				check(err)
				all = append(all, v...)
			}
		}
		return all
	}
	var kept []float32
	var images, targets [5][]float32
	for step := range images {
		images[step], targets[step] = make([]float32, 512), make([]float32, 512)
		for i := range images[step] {
			images[step][i], targets[step][i] = float32(random.NormFloat64()), float32(random.IntN(3))
		}
	}
	images[4][100] = float32(math.Inf(1)) // such as a scan that was read wrongly
	for step, image := range images {
		if step == 4 {
			check(dev.DownloadPlain(r.parameters, values, 0))
			kept = states()
		}
		before := gpu.Calls(t)
		check(stepper.Begin(step))
		check(program.Set("image", image))
		check(supervision.Set(program, targets[step]))
		check(program.Forward())
		check(program.Backward())
		if step < 4 {
			check(program.Ahead("image", images[step+1]))
			check(program.Ahead(supervision.Input(), targets[step+1]))
		}
		outcome, err := stepper.Take(step, &train.Report{Loss: loss, Values: statistics, N: 2})
		check(err)
		check(dev.Sync())
		if step == 4 {
			check(dev.DownloadPlain(spoiled, values, 0))
			if outcome.Taken || !slices.Equal(spoiled, r.parameters) {
				t.Errorf("a step whose loss is %v and whose gradient has the "+
					"norm %v: taken %v, parameters unchanged %v",
					outcome.Loss, outcome.Norm, outcome.Taken, slices.Equal(spoiled, r.parameters))
			}
			if now := states(); !slices.Equal(now, kept) || (len(kept) > 0) != (norm == "batch") {
				t.Errorf("%s norm: the running statistics are %v after the step, %v before it", norm, now, kept)
			}
			return r
		}
		// beside it there are sums of squares and hyperparameters of each parameter, and a verdict
		if taken, _ := gpu.Taken(); taken-empty < params.Need() || taken-empty > params.Need()+1<<16 {
			t.Errorf("%d bytes are taken of the GPU's memory, %d were planned", taken-empty, params.Need())
		}
		if !outcome.Taken || !(outcome.Norm > 0) ||
			math.Abs(float64(outcome.Values[0]+outcome.Values[1])-outcome.Loss) > 1e-5 {
			t.Errorf("step %d: %+v; want a loss that is the sum of its parts", step, outcome)
		}
		r.calls = append(r.calls, gpu.Calls(t).Sub(before))
		r.losses = append(r.losses, outcome.Loss)
	}
	return r
}

// TestStep: from the third step on, which replays what the second one recorded, a step of training
// takes and gives back nothing, starts two graphs, and downloads once: the loss, its parts and the
// norm of the gradient. Steps that are recorded, and whose batches come to the device while it
// computes the steps before, give the bits of those that are not. A step whose loss is not finite
// changes nothing, running statistics included.
func TestStep(t *testing.T) {
	for n, c := range []struct {
		precision, optimizer, norm string
		clip                       float64
	}{{"bf16", "sgd", "instance", 5}, {"fp32", "adamw", "batch", 0}} {
		if !turns.Has(t, n, 2) {
			continue
		}
		d := cuda.OpenSimulated(t, c.precision)
		replayed, direct := trainSteps(t, d, d, c.optimizer, c.norm, c.clip, true), trainSteps(t, d, unrecorded{d},
			c.optimizer, c.norm, c.clip, false)
		for i, n := range replayed.calls[2:] {
			if n.TakesOrGives != 0 || n.Downloads != 1 || n.GraphLaunches != 2 {
				t.Errorf("%v, step %d: %d resources taken or given back, %d downloads, %d graphs started; want 0, 1, 2",
					c, i+3, n.TakesOrGives, n.Downloads, n.GraphLaunches)
			}
			if kernels := direct.calls[i+2].Launches; n.Launches >= kernels || direct.calls[i+2].GraphLaunches != 0 {
				t.Errorf("%v, step %d: %d kernels started beside the graphs, %d in the direct run", c, i+3, n.Launches,
					kernels)
			}
		}
		if !slices.Equal(replayed.losses, direct.losses) || !slices.Equal(replayed.parameters, direct.parameters) {
			t.Errorf("%v: losses %v replayed, %v directly; parameters equal: %v", c, replayed.losses, direct.losses,
				slices.Equal(replayed.parameters, direct.parameters))
		}
		if replayed.losses[0] == replayed.losses[3] {
			t.Errorf("%v: nothing was learnt: %v", c, replayed.losses)
		}
		t.Logf("%v: a step: %+v; directly %+v", c, replayed.calls[3], direct.calls[3])
		d.Close()
	}
}

// puzzleSteps are the driver's calls of each of some steps of pretraining a small network on
// puzzles of noise, and the parameters after them.
func puzzleSteps(t *testing.T, gpu *cuda.Device, dev device.Device, rounds int) (calls []cuda.Calls,
	parameters []float32) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	settings := voxsaw.DefaultNetwork()
	settings.Channels, settings.Levels, settings.Norm = 16, 1, "instance"
	network, err := backbone.Of(settings)
	check(err)
	c := jigsaw.Config{Grid: puzzle.Grid{2, 2, 2}, Shuffles: 1, Seed: 3, Puzzle: voxsaw.Puzzle{Head: jigsaw.Paper,
		Features: 32, Hidden: 16, Rounds: rounds, Distance: 2, Batch: 1}}
	encoder := backbone.Patches{Backbone: network, Size: [3]int{4, 4, 4}}
	params := nn.NewParams(dev, 1)
	defer params.Close()
	check(c.Declare(encoder, params))
	o := voxsaw.DefaultTraining()
	o.Warmup, o.Schedule = 0, "constant"
	optimizer, err := train.NewOptimizer(params, o, nil, false)
	check(err)
	defer optimizer.Close()
	trainer, err := jigsaw.NewTrainer(dev, c, encoder, params, optimizer.Updater(), train.Group{}, 0)
	check(err)
	defer trainer.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for step := range 5 {
		b := &jigsaw.Batch{Patches: make([]float32, 8*4*4*4), Shuffles: []puzzle.Configuration{puzzle.Random(r, 8)},
			Cases: []string{"noise"}}
		for i := range b.Patches {
			b.Patches[i] = float32(r.NormFloat64())
		}
		before := gpu.Calls(t)
		check(optimizer.Begin(step))
		_, err := trainer.Step(step, b)
		check(err)
		outcome, err := optimizer.Take(step, nil)
		check(err)
		if !outcome.Taken {
			t.Errorf("step %d was not taken: %+v", step, outcome)
		}
		calls = append(calls, gpu.Calls(t).Sub(before))
	}
	values, err := params.Values()
	check(err)
	parameters = make([]float32, values.Bytes()/4)
	check(dev.DownloadPlain(parameters, values, 0))
	return calls, parameters
}

// TestPretrainingStep: a step of pretraining takes and gives back nothing, either, from the third
// on. It waits for the scores of each round, which the host's solver needs. What recorded graphs
// learn is to the bit what launches one by one learn.
func TestPretrainingStep(t *testing.T) {
	d := cuda.OpenSimulated(t, "bf16")
	for rounds, downloads := range map[int]int{1: 3, 2: 6} {
		calls, replayed := puzzleSteps(t, d, d, rounds)
		if _, direct := puzzleSteps(t, d, unrecorded{d}, rounds); !slices.Equal(replayed, direct) {
			t.Errorf("%d rounds: replayed graphs have learnt something else than direct launches", rounds)
		}
		for i, n := range calls[2:] {
			if n.TakesOrGives != 0 || n.Downloads != downloads || n.GraphLaunches == 0 {
				t.Errorf("%d rounds, step %d: %d resources taken or given back, %d "+
					"downloads, %d graphs started; want 0, %d, some",
					rounds, i+3, n.TakesOrGives, n.Downloads, n.GraphLaunches, downloads)
			}
		}
	}
}

// TestStatisticsInEpilogues: a network whose norms take their statistics from what the convolutions
// leave learns what it learns where they read the activations again, and starts fewer kernels.
func TestStatisticsInEpilogues(t *testing.T) {
	if !turns.Has(t, 0, 3) {
		return
	}
	for precision, tolerance := range map[string]float64{"fp32": 1e-5, "bf16": 2e-3} {
		d := cuda.OpenSimulated(t, precision)
		left := trainSteps(t, d, unrecorded{d}, "sgd", "instance", 5, false)
		read := trainSteps(t, d, unnormed{d}, "sgd", "instance", 5, false)
		for i, loss := range left.losses {
			if math.Abs(loss-read.losses[i]) > tolerance {
				t.Errorf("%s, step %d: loss %v, and %v where the norms read the activations", precision, i+1, loss,
					read.losses[i])
			}
		}
		if with, without := left.calls[3].Launches, read.calls[3].Launches; with >= without {
			t.Errorf("%s: %d kernels started, %d where the norms read the activations", precision, with, without)
		}
		t.Logf("%s: losses %v, %v; launches %d, %d", precision, left.losses, read.losses, left.calls[3].Launches,
			read.calls[3].Launches)
		d.Close()
	}
}

// TestStepWithCuDNN: a step with cuDNN's convolutions is recorded as any other. It takes and gives
// back nothing, and the recording gives the bits of the direct run.
func TestStepWithCuDNN(t *testing.T) {
	if !turns.Has(t, 1, 3) {
		return
	}
	choices := map[string]string{
		"forward 1x1-16 @8x8x8 kernel 5x5x5 stride 1x1x1 pad 2x2x2":     "cuDNN 9.28.0 forward: eng1_k2=5",
		"forward 1x16-32 @8x8x8 kernel 2x2x2 stride 2x2x2 pad 0x0x0":    "cuDNN 9.28.0 forward: eng0",
		"transposed 1x32-32 @4x4x4 kernel 5x5x5 stride 1x1x1 pad 2x2x2": "cuDNN 9.28.0 data: eng1_k2=5",
		"weights 1x1-16 @8x8x8 kernel 5x5x5 stride 1x1x1 pad 2x2x2": "cuDNN 9.28.0 " +
			"slices: eng1_k2=5 eng0 eng1_k2=5",
		"weights 1x16-32 @8x8x8 kernel 2x2x2 stride 2x2x2 pad 0x0x0": "cuDNN 9.28.0 weights: eng1_k2=5",
	}
	d := cuda.OpenWithCuDNN(t, "bf16", choices)
	replayed, direct := trainSteps(t, d, d, "sgd", "instance", 0, false), trainSteps(t, d, unrecorded{d}, "sgd",
		"instance", 0, false)
	if inForce, refused := d.Engines(); len(inForce) != len(choices) || len(refused) != 0 {
		t.Errorf("in force %q, refused %q", inForce, refused)
	}
	for i, n := range replayed.calls[2:] {
		if n.TakesOrGives != 0 || n.GraphLaunches != 2 {
			t.Errorf("step %d: %d resources taken or given back, %d graphs started; want 0, 2", i+3, n.TakesOrGives,
				n.GraphLaunches)
		}
	}
	if !slices.Equal(replayed.losses, direct.losses) || !slices.Equal(replayed.parameters, direct.parameters) {
		t.Errorf("losses %v replayed, %v directly; parameters equal: %v", replayed.losses, direct.losses,
			slices.Equal(replayed.parameters, direct.parameters))
	}
}
