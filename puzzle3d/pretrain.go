package puzzle3d

import (
	"context"
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/restoration"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
)

// Pretrain trains encoder and head to solve puzzles. What the configuration leaves out follows from
// the data ([Config.Resolve]). The score of a validation is the share of patches in their place
// after the last round, of puzzles of the held-out cases.
//
// A context that ends stops the run after the step in hand, saves it, and gives a
// [voxsaw.InterruptedError]; the same call with [voxsaw.ModeResume] goes on from there. A loss or
// gradient that is not finite gives a [voxsaw.DivergedError], other settings than the run was begun
// with a [voxsaw.ChangedError].
func Pretrain(ctx context.Context, dev voxsaw.Device, c Config, data sample.Data, o voxsaw.RunOptions) (voxsaw.Summary,
	error) {
	return pretrain(ctx, dev, c, data, o, train.Group{})
}

// EstimateMemory is the memory that [Pretrain] would need, and trains nothing.
func EstimateMemory(ctx context.Context, dev voxsaw.Device, c Config, data sample.Data,
	o voxsaw.RunOptions) (need voxsaw.MemoryNeed, err error) {
	o.Need = &need
	_, err = Pretrain(ctx, dev, c, data, o)
	return need, err
}

// pretrain is [Pretrain] as one of several ranks.
func pretrain(ctx context.Context, dev voxsaw.Device, c Config, data sample.Data, o voxsaw.RunOptions,
	group train.Group) (voxsaw.Summary, error) {
	c, err := c.Resolve(data.Store)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	network, restoring, err := c.learns()
	if err != nil {
		return voxsaw.Summary{}, err
	}
	game, err := c.game(ctx)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	return pretext.Train(ctx, dev, pretext.Job[*jigsaw.Batch]{
		Idle: c.Idle(), Notes: c.notes(),
		Task: name, Settings: &c, Training: c.Train, Crop: c.Crop, ValidateCases: c.ValidateCases,
		Declare: func(params *nn.Params) error { return game.Declare(network, params) },
		Compile: func(w pretext.Workbench) (train.Learner[*jigsaw.Batch], error) {
			return newLearner(c, game, network, restoring, w)
		},
	}, data, o, group)
}

// learner is pretraining with puzzles of cases.
type learner struct {
	*jigsaw.Learner
	sampler   sampler
	air       string // what is wrong with puzzles that are mostly air, if they are
	held      []sample.Sample
	restoring *restoration.Beside   // nil: puzzles alone
	restorer  *restoration.Restorer // nil: there is nothing to validate restoration on
}

func newLearner(c Config, game jigsaw.Config, network jigsaw.Backbone, restoring *restoration.Beside,
	w pretext.Workbench) (*learner, error) {
	first, n, err := w.Group.Share(c.Batch)
	if err != nil {
		return nil, err
	}
	l := &learner{sampler: sampler{config: c, game: game, cases: w.Train, first: first, n: n}, held: w.Held,
		restoring: restoring}
	if l.air, err = l.sampler.airNote(); err != nil {
		return nil, err
	}
	if l.Learner, err = jigsaw.NewLearner(w.Workbench, game, network, held{c, w.Held}); err != nil {
		return nil, err
	}
	if restoring != nil && len(w.Held) > 0 {
		if l.restorer, err = restoring.NewRestorer(w.Device, w.Params, l.Program(), w.Memory); err != nil {
			l.Learner.Close()
			return nil, err
		}
	}
	return l, nil
}

// Notes implements [train.Learner].
func (l *learner) Notes() []string {
	notes := l.Learner.Notes()
	if l.air != "" {
		notes = append(notes, l.air)
	}
	if c := l.sampler.config; c.times() > 0 {
		notes = append(notes, fmt.Sprintf("the channels %s are taken for times, in this order: each patch shows one",
			safetext.List(c.Preparation.ChannelNames())))
		if first := c.Preparation.Channel(0).Scheme(); first != volume.CTWindow && first != volume.CTPercentiles {
			notes = append(notes, fmt.Sprintf("intensities go by %s: each time is standardised by itself, "+
				"so that brightness does not tell the time", first))
		}
	}
	return notes
}

// Close implements [train.Learner].
func (l *learner) Close() {
	if l.restorer != nil {
		l.restorer.Close()
	}
	l.Learner.Close()
}

// Batch implements [train.Task].
func (l *learner) Batch(ctx context.Context, step int) (*jigsaw.Batch, error) {
	b, err := l.sampler.batch(ctx, step)
	if err == nil && l.restoring != nil {
		err = l.batchBeside(ctx, b, step)
	}
	return b, err
}

// Validate implements [train.Task].
func (l *learner) Validate(ctx context.Context, step int) (voxsaw.Validation, error) {
	v, err := l.Learner.Validate(ctx, step)
	if err == nil && l.restorer != nil {
		err = l.validateBeside(ctx, &v)
	}
	return v, err
}
