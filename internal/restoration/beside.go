package restoration

import (
	"context"
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
)

// Beside is masked restoration in the steps of another task: a part of that task's program, with
// the encoder that both train, and a decoder of its own. Its loss is added to the other's.
type Beside struct {
	task
	weight float32 // of its loss
	loss   *squaredError
}

// besideImage is its input in the other task's program.
const besideImage = "restore.image"

// NewBeside checks the settings. name tells its random draws from the other task's.
func NewBeside(name string, m Masked, s pretext.Settings, weight float64) (*Beside, error) {
	s.Network.Classes = toldOf(m, s.Network)
	if err := checkSettings(&s); err != nil {
		return nil, err
	}
	if err := m.check(s.Crop); err != nil {
		return nil, err
	}
	if s.Network.Norm == "batch" {
		return nil, fmt.Errorf("norm batch would mix the statistics of whole crops with " +
			"the other task's: choose group or instance")
	}
	return &Beside{task: task{m, &s, name}, weight: float32(weight)}, nil
}

// Add adds the network for n crops to the graph of a training step of the other task, and what it
// restores to the options of its program.
func (b *Beside) Add(g *nn.Graph, o *nn.Options, n int) {
	if outputs := b.network(g, besideImage, n); g.Err() == nil {
		b.loss = newSquaredError(b.task, g, outputs, n, b.weight, o)
		o.Ahead = append(o.Ahead, besideImage)
	}
}

// Examples are those of one step that this rank has.
type Examples struct {
	loss  *squaredError
	batch *batch
}

// Draw makes the n examples of a step from the given number on, each of a crop of its own.
func (b *Beside) Draw(ctx context.Context, cases []sample.Sample, step, first, n int) (Examples, error) {
	drawn, err := b.draw(ctx, cases, step, first, n)
	return Examples{b.loss, drawn}, err
}

// Ahead sends the inputs of the other task's program to the device ahead.
func (e Examples) Ahead(p *nn.Program) error { return p.Ahead(besideImage, e.batch.images) }

// Set sets the inputs of the other task's program.
func (e Examples) Set(p *nn.Program) error { return p.Set(besideImage, e.batch.images) }

// MicroBatch is micro-batch i of n.
func (e Examples) MicroBatch(i, n int) Examples { return Examples{e.loss, e.batch.part(i, n)} }

// Compare gives the weighted loss over the crops of all ranks after a forward run, and leaves its
// gradient to the backward run. The metric is the mean squared error itself.
func (e Examples) Compare(p *nn.Program, group train.Group) (loss float64, metrics []voxsaw.Metric, err error) {
	loss, parts, err := e.loss.compare(p, group, e.batch)
	if err != nil {
		return 0, nil, err
	}
	return loss, []voxsaw.Metric{{Name: e.loss.names()[0], Value: parts[0]}}, nil
}

// A Restorer measures how well held-out cases are restored.
type Restorer struct {
	restorer *restorer
	params   *nn.Params // that Open has loaded; nil where they are the caller's
}

// NewRestorer compiles the program, in the memory of another, if there is one.
func (b *Beside) NewRestorer(dev device.Device, params *nn.Params, share *nn.Program, memory int64) (*Restorer, error) {
	r, err := newRestorer(dev, b.task, params, share, memory)
	if err != nil {
		return nil, err
	}
	return &Restorer{restorer: r}, nil
}

// Open prepares a restorer with the weights of a checkpoint of the other task.
func (b *Beside) Open(dev voxsaw.Device, path string, memory int64) (*Restorer, error) {
	d, err := device.From(dev)
	if err != nil {
		return nil, err
	}
	params := nn.NewParams(d, 0) // every initial weight is replaced
	g := nn.NewGraph(nn.Train, d.Activations())
	b.network(g, besideImage, 1)
	if err = params.Declare(g); err == nil {
		_, err = checkpoint.LoadAll(path, params, func(string) string { return "it was trained without restoration" })
	}
	var r *Restorer
	if err == nil {
		r, err = b.NewRestorer(d, params, nil, memory)
	}
	if err != nil {
		params.Close()
		return nil, err
	}
	r.params = params
	return r, nil
}

// Evaluate is the share of the variance of masked voxels that is explained, as task mae scores it.
func (r *Restorer) Evaluate(ctx context.Context, cases []sample.Sample) (pretext.Evaluation, error) {
	return r.restorer.evaluate(ctx, train.Group{}, cases)
}

// Close gives the memory back.
func (r *Restorer) Close() {
	r.restorer.program.Close()
	if r.params != nil {
		r.params.Close()
	}
}
