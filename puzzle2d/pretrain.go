package puzzle2d

import (
	"context"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/photonet"
	"github.com/voxsaw/voxsaw/internal/train"
)

// kind is what checkpoints of puzzles of photographs are called.
const kind = "photo-jigsaw"

// Pretrain trains the network and a head to solve puzzles. The configuration is a resolved one
// ([Config.Resolve]). The score of a validation is the share of patches in their place after the
// last round, of puzzles of the held-out photographs.
//
// A context that ends stops the run after the step in hand, saves it, and gives a
// [voxsaw.InterruptedError]; the same call with [voxsaw.Resume] goes on from there. A loss or
// gradient that is not finite gives a [voxsaw.DivergedError], other settings than the run was begun
// with a [voxsaw.ChangedError].
func Pretrain(ctx context.Context, dev voxsaw.Device, c Config, data Data, o voxsaw.RunOptions) (voxsaw.Summary, error) {
	if err := c.Check(); err != nil {
		return voxsaw.Summary{}, err
	}
	game, err := c.game()
	if err != nil {
		return voxsaw.Summary{}, err
	}
	network, err := c.Network.net(c.Patch, c.Patch)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	identity, err := data.identity(kind, &c)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	return train.Job[*jigsaw.Batch]{
		Identity: identity, Options: c.Train, Open: data.open, Start: start(c.Checkpoint, c.InitPartial, c.Network),
		Undivided: "take the backbone alexnet, which has none",
		Declare:   func(params *nn.Params) error { return game.Declare(network, params) },
		Compile: func(w train.Workbench) (train.Learner[*jigsaw.Batch], error) {
			return newLearner(c, game, network, data, w)
		},
	}.Run(ctx, dev, o, train.Group{})
}

// learner is pretraining with puzzles of photographs.
type learner struct {
	*jigsaw.Learner
	sampler sampler
}

func newLearner(c Config, game jigsaw.Config, network *photonet.Network, data Data, w train.Workbench) (*learner, error) {
	first, n, err := w.Group.Share(c.Batch)
	if err != nil {
		return nil, err
	}
	cut := cutter{c, data.Photos}
	held := held{cut, Spread(data.Validate, c.ValidatePhotos)}
	l := &learner{sampler: sampler{cutter: cut, game: game, train: data.Train, first: first, n: n}}
	l.Learner, err = jigsaw.NewLearner(w, game, network, held)
	return l, err
}

// Batch implements [train.Task].
func (l *learner) Batch(ctx context.Context, step int) (*jigsaw.Batch, error) {
	return l.sampler.batch(ctx, step)
}
