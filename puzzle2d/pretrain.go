package puzzle2d

import (
	"context"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
)

// kind is what checkpoints of puzzles of photographs are called.
const kind = checkpoint.OnPhotographs + name

// Pretrain trains the network and a head to solve puzzles, with the configuration that
// [Config.Resolve] makes of this one. The score of a validation is the share of patches in their
// place after the last round, of puzzles of the held-out photographs.
//
// A context that ends stops the run after the step in hand, saves it, and gives a
// [voxsaw.InterruptedError]; the same call with [voxsaw.ModeResume] goes on from there. A loss or
// gradient that is not finite gives a [voxsaw.DivergedError], other settings than the run was begun
// with a [voxsaw.ChangedError].
func Pretrain(ctx context.Context, dev voxsaw.Device, c Config, data sample.Data, o voxsaw.RunOptions) (voxsaw.Summary,
	error) {
	c, err := c.Resolve(data.Store)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	game, err := c.game(ctx)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	network, err := c.Network.net(c.Patch, c.Patch)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	return pretext.Train(ctx, dev, pretext.Job[*jigsaw.Batch]{
		Task: kind, Settings: &c, Training: c.Train, Start: start(c.Checkpoint, c.InitPartial, c.Network),
		Undivided: undivided, Idle: c.Idle(), Notes: c.notes(),
		Declare: func(params *nn.Params) error { return game.Declare(network, params) },
		Compile: func(w pretext.Workbench) (train.Learner[*jigsaw.Batch], error) {
			first, n, err := w.Group.Share(c.Batch)
			if err != nil {
				return nil, err
			}
			cut := cutter{c}
			l := learner{Sampler: cut.sampler(game, w.Train, first, n)}
			l.Learner, err = jigsaw.NewLearner(w.Workbench, game, network,
				held{cut, Spread(w.Held, c.ValidatePhotos)})
			return l, err
		},
	}, data, o, train.Group{})
}

// EstimateMemory is the memory that [Pretrain] would need, and trains nothing.
func EstimateMemory(ctx context.Context, dev voxsaw.Device, c Config, data sample.Data,
	o voxsaw.RunOptions) (need voxsaw.MemoryNeed, err error) {
	o.Need = &need
	_, err = Pretrain(ctx, dev, c, data, o)
	return need, err
}

// undivided says what to choose where a ResNet's batches would have to be divided.
const undivided = "take the backbone alexnet, which has none"

// learner is pretraining with puzzles of photographs.
type learner struct {
	*jigsaw.Learner
	jigsaw.Sampler
}
