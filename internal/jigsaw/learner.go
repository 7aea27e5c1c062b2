package jigsaw

import (
	"context"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
)

// A Learner is a training with puzzles, as the training loop sees it, but for its batches: the step
// is a trainer's, and held-out items are what it is validated on.
type Learner struct {
	trainers []*Trainer // one for each grid
	params   *nn.Params
	group    train.Group
	players  Players // none where nothing is held out
	held     Held
}

// NewLearner compiles the programs of a training and of its validation.
func NewLearner(w train.Workbench, c Config, b Backbone, held Held) (*Learner, error) {
	l := &Learner{params: w.Params, group: w.Group, held: held}
	var err error
	if l.trainers, err = newTrainers(w.Device, c, b, w.Params, w.Optimizer.Updater(), w.Group, w.Memory); err != nil {
		return nil, err
	}
	if held.Len() > 0 {
		if l.players, err = newPlayers(w.Device, c, b, w.Params, l.trainers, w.Memory); err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

// Program is one in whose memory others can lie that run neither in the middle of a step nor of a
// validation.
func (l *Learner) Program() *nn.Program {
	return l.trainers[l.trainers[0].config.finestFirst()[0]].encoder
}

// Params implements [train.Task]: the network's, and the head's ("puzzle....").
func (l *Learner) Params() train.Params { return l.params }

// Step implements [train.Task]: it is that of the trainer of the batch's grid.
func (l *Learner) Step(step int, b *Batch) (train.Result, error) {
	return l.trainers[b.Grid].Step(step, b)
}

// Ahead implements [train.Sender].
func (l *Learner) Ahead(b *Batch) error { return l.trainers[b.Grid].Ahead(b) }

// MicroBatch implements [train.Divider].
func (l *Learner) MicroBatch(b *Batch, i, n int) *Batch {
	return &Batch{
		Grid: b.Grid, Patches: train.MicroBatch(b.Patches, i, n), Missing: train.MicroBatch(b.Missing, i, n),
		Alike:    train.MicroBatch(b.Alike, i, n),
		Shuffles: train.MicroBatch(b.Shuffles, i, n), Cases: train.MicroBatch(b.Cases, i, n),
	}
}

// Notes implements [train.Learner].
func (l *Learner) Notes() (notes []string) {
	for _, t := range l.trainers {
		notes = append(notes, t.Notes()...)
	}
	return notes
}

// FLOPs implements [train.Learner]: the mean over the grids.
func (l *Learner) FLOPs() (forward, both float64) {
	n := float64(len(l.trainers))
	for _, t := range l.trainers {
		f, b := t.FLOPs()
		forward, both = forward+f/n, both+b/n
	}
	return forward, both
}

// Validate implements [train.Task]: it plays the puzzles of the held-out items.
func (l *Learner) Validate(ctx context.Context, _ int) (voxsaw.Validation, error) {
	if l.players == nil {
		return voxsaw.Validation{}, nil
	}
	e, err := l.players.EvaluateAmong(ctx, l.group, l.held)
	if err != nil {
		return voxsaw.Validation{}, err
	}
	return validation(e), nil
}

// Close gives the memory back.
func (l *Learner) Close() {
	l.players.Close()
	closeTrainers(l.trainers)
}
