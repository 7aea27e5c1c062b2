package jigsaw

import (
	"context"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
)

// A Learner is a training with puzzles, as the training loop sees it, but for its batches: the step
// is the trainer's, and held-out items are what it is validated on.
type Learner struct {
	*Trainer
	params *nn.Params
	player *Player // nil where nothing is held out
	held   Held
}

// NewLearner compiles the programs of a training and of its validation.
func NewLearner(w train.Workbench, c Config, b Backbone, held Held) (*Learner, error) {
	l := &Learner{params: w.Params, held: held}
	var err error
	if l.Trainer, err = NewTrainer(w.Device, c, b, w.Params, w.Optimizer.Updater(), w.Group, w.Memory); err != nil {
		return nil, err
	}
	if held.Len() > 0 {
		if l.player, err = NewPlayer(w.Device, c, b, w.Params, l.Trainer, w.Memory); err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

// Params implements [train.Task]: the network's, and the head's ("puzzle....").
func (l *Learner) Params() train.Params { return l.params }

// Validate implements [train.Task]: it plays the puzzles of the held-out items.
func (l *Learner) Validate(ctx context.Context, _ int) (voxsaw.Validation, error) {
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
func (l *Learner) Close() {
	if l.player != nil {
		l.player.Close()
	}
	l.Trainer.Close()
}
