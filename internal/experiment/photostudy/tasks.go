package photostudy

import (
	"context"
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/puzzle2d"
)

// A Task is something to learn from photographs, with its settings.
type Task struct {
	*puzzle2d.Common
	Items string // what is learnt from, for speeds: "puzzles"
	Score string // what the score of a validation is
	// Batch is how many Items a step learns from, Validate how many held-out photographs are
	// validated on.
	Batch, Validate *int
	// Resolve completes the settings with what follows from the photographs.
	Resolve func(puzzle2d.Data) error
	// Run trains with settings that are resolved.
	Run func(context.Context, voxsaw.Device, puzzle2d.Data, voxsaw.RunOptions) (voxsaw.Summary, error)
}

// TaskOf is the task of settings: those that [Tasks] chooses among.
func TaskOf(settings any) Task {
	switch c := settings.(type) {
	case *puzzle2d.Config:
		return on(c, puzzle2d.Pretrain, Task{&c.Common, "puzzles", "patches of held-out photographs in place", &c.Batch,
			&c.ValidatePhotos, nil, nil})
	case *puzzle2d.Classification:
		return on(c, puzzle2d.TrainClassifier, Task{&c.Common, "photographs", "held-out photographs answered right",
			&c.Batch, &c.ValidatePhotos, nil, nil})
	}
	panic(fmt.Sprintf("photostudy: %T is none of Tasks", settings))
}

// on completes a task by what is done with its settings.
func on[C interface {
	Resolve(puzzle2d.Data) (C, error)
}](c *C, train func(context.Context, voxsaw.Device, C, puzzle2d.Data, voxsaw.RunOptions) (voxsaw.Summary, error),
	t Task) Task {
	t.Resolve = func(d puzzle2d.Data) (err error) {
		*c, err = (*c).Resolve(d)
		return err
	}
	t.Run = func(ctx context.Context, dev voxsaw.Device, d puzzle2d.Data, o voxsaw.RunOptions) (voxsaw.Summary, error) {
		return train(ctx, dev, *c, d, o)
	}
	return t
}

// Tasks is the choice among them.
func Tasks() config.OneOf {
	all := []config.Option{{Name: "jigsaw", Value: new(puzzle2d.DefaultConfig())}}
	for _, task := range []string{puzzle2d.Labels, puzzle2d.Rotation, puzzle2d.Position} {
		all = append(all, config.Option{Name: task, Value: new(puzzle2d.DefaultClassification(task))})
	}
	return config.NewOneOf("task",
		"what is learnt: jigsaw (put shuffled patches back); to compare with: labels (the classes), rotation (of the photograph), position (of one patch seen from another)",
		all...)
}

// share brings what tasks have in common from one into another.
func share(into, from any) {
	a, b := TaskOf(into), TaskOf(from)
	a.Network, a.Train, a.Input, *a.Validate = b.Network, b.Train, b.Input, *b.Validate
}
