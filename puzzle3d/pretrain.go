package puzzle3d

import (
	"context"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Data is prepared cases by their role. No labels are used.
type Data struct {
	Store    *prepared.Store
	Train    []string // case IDs
	Validate []string // held-out case IDs; may be empty
}

// Pretrain trains encoder and head to solve puzzles. The configuration is a resolved one
// ([Config.Resolve]). The score of a validation is the share of patches in their place after the
// last round, of puzzles of the held-out cases.
//
// A context that ends stops the run after the step in hand, saves it, and gives a
// [voxsaw.InterruptedError]; the same call with [voxsaw.Resume] goes on from there. A loss or
// gradient that is not finite gives a [voxsaw.DivergedError], other settings than the run was begun
// with a [voxsaw.ChangedError].
func Pretrain(ctx context.Context, dev voxsaw.Device, c Config, data Data, o voxsaw.RunOptions) (voxsaw.Summary, error) {
	return pretrain(ctx, dev, c, data, o, train.Group{})
}

// pretrain is [Pretrain] as one of several ranks.
func pretrain(ctx context.Context, dev voxsaw.Device, c Config, data Data, o voxsaw.RunOptions, group train.Group) (voxsaw.Summary, error) {
	if err := c.Check(); err != nil {
		return voxsaw.Summary{}, err
	}
	encoder, err := c.encoder()
	if err != nil {
		return voxsaw.Summary{}, err
	}
	return pretext.Train(ctx, dev, pretext.Job[*jigsaw.Batch]{
		Task: name, Settings: &c, Training: c.Train, Crop: c.Crop, ValidateCases: c.ValidateCases,
		Declare: func(params *nn.Params) error { return c.game().Declare(encoder, params) },
		Compile: func(w pretext.Workbench) (train.Learner[*jigsaw.Batch], error) { return newLearner(c, encoder, w) },
	}, pretext.Data(data), o, group)
}

// learner is pretraining with puzzles, as the training loop sees it.
type learner struct {
	*jigsaw.Trainer
	params  *nn.Params
	sampler sampler
	player  *jigsaw.Player // nil where nothing is held out
	held    held
	air     string // what is wrong with puzzles that are mostly air, if they are
}

func newLearner(c Config, encoder jigsaw.Backbone, w pretext.Workbench) (*learner, error) {
	first, n, err := w.Group.Share(c.Batch)
	if err != nil {
		return nil, err
	}
	l := &learner{params: w.Params, sampler: sampler{config: c, cases: w.Train, first: first, n: n}, held: held{c, w.Held}}
	if l.air, err = l.sampler.airNote(); err != nil {
		return nil, err
	}
	if l.Trainer, err = jigsaw.NewTrainer(w.Device, c.game(), encoder, w.Params, w.Optimizer.Updater(), w.Group, w.Memory); err != nil {
		return nil, err
	}
	if l.held.Len() > 0 {
		if l.player, err = jigsaw.NewPlayer(w.Device, c.game(), encoder, w.Params, l.Trainer, w.Memory); err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

// Notes implements [train.Learner].
func (l *learner) Notes() []string {
	notes := l.Trainer.Notes()
	if l.air != "" {
		notes = append(notes, l.air)
	}
	return notes
}

// Params implements [train.Task]: the encoder's ("encoder....") and the head's ("puzzle....").
func (l *learner) Params() train.Params { return l.params }

// Batch implements [train.Task].
func (l *learner) Batch(ctx context.Context, step int) (*jigsaw.Batch, error) {
	return l.sampler.batch(ctx, step)
}

// Validate implements [train.Task]: it plays the puzzles of the held-out cases.
func (l *learner) Validate(ctx context.Context, _ int) (voxsaw.Validation, error) {
	if l.player == nil {
		return voxsaw.Validation{}, nil
	}
	e, err := l.player.Evaluate(ctx, l.held)
	if err != nil {
		return voxsaw.Validation{}, err
	}
	return e.Validation(), nil
}

// Close gives the memory back.
func (l *learner) Close() {
	if l.player != nil {
		l.player.Close()
	}
	l.Trainer.Close()
}
