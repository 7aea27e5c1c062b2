package puzzle2d

import (
	"context"
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/sample"
)

// name is what the task of puzzles is called.
const name = "jigsaw"

func init() {
	pretext.Photographs.Register(pretext.Task{
		Name: name, Short: "put shuffled patches back", Items: "puzzles", Title: "Puzzles of unseen photographs",
		Score: "patches of held-out photographs in place", Searched: true, New: newPuzzles, Open: openPuzzles,
	})
	for task, short := range map[string]string{
		Labels: "tell the classes, to compare with", Rotation: "say how a photograph was turned, to compare with",
		Position: "say where one patch lies, seen from another, to compare with",
	} {
		pretext.Photographs.Register(pretext.Task{
			Name: task, Short: short, Items: "photographs", Title: "Task " + task + " on unseen photographs",
			Score: "held-out photographs answered right",
			New:   func() pretext.Config { return newClasses(task) },
			Open: func(_ context.Context, dev voxsaw.Device, path string, o pretext.OpenOptions) (pretext.Evaluator,
				error) {
				return openTeller(dev, path, task, o)
			},
		})
	}
}

// settings are a [Config] or a [Classification] on the list of pretext tasks: they implement
// [pretext.Config] and [pretext.Sharer].
type settings[C interface {
	Resolve(sample.Store) (C, error)
	Idle() error
}] struct {
	C     C `yaml:",inline"`
	parts func(*C) (common *Common, batch, validate *int)
	train func(context.Context, voxsaw.Device, C, sample.Data, voxsaw.RunOptions) (voxsaw.Summary, error)
}

func newPuzzles() pretext.Config {
	return &settings[Config]{DefaultConfig(), func(c *Config) (*Common, *int, *int) {
		return &c.Common, &c.Batch, &c.ValidatePhotos
	}, Pretrain}
}

func newClasses(task string) pretext.Config {
	return &settings[Classification]{DefaultClassification(task), func(c *Classification) (*Common, *int, *int) {
		return &c.Common, &c.Batch, &c.ValidatePhotos
	}, TrainClassifier}
}

// SettingsOf tells which of the pretext tasks settings belong to: puzzles, or else a
// classification, and what both have.
func SettingsOf(task any) (both *Common, p *Config, c *Classification) {
	switch s := task.(type) {
	case *settings[Config]:
		return &s.C.Common, &s.C, nil
	case *settings[Classification]:
		return &s.C.Common, nil, &s.C
	}
	return nil, nil, nil
}

func (s *settings[C]) Common() pretext.Common {
	c, batch, validate := s.parts(&s.C)
	return pretext.Common{Train: &c.Train, Batch: batch, ValidateCases: validate, Checkpoint: &c.Checkpoint}
}

func (s *settings[C]) Idle() error { return s.C.Idle() }

// Lacks says which keys are another task's, as package config asks.
func (s *settings[C]) Lacks(key string) bool {
	c, ok := any(s.C).(Classification)
	return ok && c.lacks(key)
}

func (s *settings[C]) Share(with pretext.Config) {
	into, _, validate := s.parts(&s.C)
	from, _, _ := SettingsOf(with)
	into.Network, into.Train, into.Input, *validate = from.Network, from.Train, from.Input, *with.Common().ValidateCases
}

func (s *settings[C]) Resolve(of sample.Store) (err error) {
	s.C, err = s.C.Resolve(of)
	return err
}

func (s *settings[C]) Pretrain(ctx context.Context, dev voxsaw.Device, data sample.Data,
	o voxsaw.RunOptions) (voxsaw.Summary, error) {
	return s.train(ctx, dev, s.C, data, o)
}

// evaluator is a [Player] on the list of pretext tasks.
type evaluator struct {
	*Player
	options pretext.OpenOptions
	played  *Evaluation // the last one
}

func openPuzzles(ctx context.Context, dev voxsaw.Device, path string, o pretext.OpenOptions) (pretext.Evaluator,
	error) {
	p, err := Open(ctx, dev, path, PlayOptions{Rounds: o.Rounds, Shuffles: o.Items, Only: o.Only, Unary: o.Unary,
		Memory: o.Memory})
	if err != nil {
		return nil, err
	}
	return &evaluator{Player: p, options: o}, nil
}

func (e *evaluator) Notes() []string {
	return jigsaw.UnusedToPlay(e.config.Puzzle, e.options.Rounds, e.options.Only)
}

func (e *evaluator) Evaluate(ctx context.Context, photographs []sample.Sample) (pretext.Evaluation, error) {
	played, err := e.Player.Evaluate(ctx, photographs)
	if err != nil {
		return pretext.Evaluation{}, err
	}
	e.played = &played
	return pretext.OfPuzzles(played.PuzzleEvaluation, played), nil
}

func (e *evaluator) Picture(of sample.Sample) (pretext.Picture, error) {
	play, err := e.Play(of)
	if err != nil {
		return pretext.Picture{}, err
	}
	play.All = e.played
	return pretext.Picture{Image: play.Picture(), Caption: fmt.Sprintf(
		"A puzzle of %s, shuffled and after each round: %d of %d patches are "+
			"misplaced at the end, and have a red frame.",
		play.Photo, play.Misplaced(len(play.Arrangements)-1), len(play.Arrangements[0]))}, nil
}
