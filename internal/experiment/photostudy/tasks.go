package photostudy

import (
	"context"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/puzzle2d"
)

// A Task is something to learn from photographs, with its settings.
type Task interface {
	// Resolve completes the settings with what follows from the photographs.
	Resolve(puzzle2d.Data) error
	// Train trains with settings that are resolved.
	Train(context.Context, voxsaw.Device, puzzle2d.Data, voxsaw.RunOptions) (voxsaw.Summary, error)
	// Names are what is learnt from, and what the score of a validation is.
	Names() (items, score string)
	// Shared points to the settings that all tasks have.
	Shared() Shared
}

// Shared points to settings of a task: Checkpoint is the name of the file of weights that the
// training starts from, empty for random ones, Batch is how much a step learns from.
type Shared struct {
	Network         *puzzle2d.Network
	Train           *voxsaw.Training
	Input           *puzzle2d.Input
	Checkpoint      *string
	Batch, Validate *int
}

// Puzzles is the jigsaw puzzle on the list of tasks.
type Puzzles struct {
	puzzle2d.Config `yaml:",inline"`
}

// Resolve implements [Task].
func (t *Puzzles) Resolve(d puzzle2d.Data) (err error) {
	t.Config, err = t.Config.Resolve(d)
	return err
}

// Train implements [Task].
func (t *Puzzles) Train(ctx context.Context, dev voxsaw.Device, d puzzle2d.Data, o voxsaw.RunOptions) (voxsaw.Summary,
	error) {
	return puzzle2d.Pretrain(ctx, dev, t.Config, d, o)
}

// Names implements [Task].
func (t *Puzzles) Names() (items, score string) {
	return "puzzles", "patches of held-out photographs in place"
}

// Shared implements [Task].
func (t *Puzzles) Shared() Shared {
	c := &t.Config
	return Shared{&c.Network, &c.Train, &c.Input, &c.Checkpoint, &c.Batch, &c.ValidatePhotos}
}

// Classes is a classification on the list of tasks.
type Classes struct {
	puzzle2d.Classification `yaml:",inline"`
}

// Resolve implements [Task].
func (t *Classes) Resolve(d puzzle2d.Data) (err error) {
	t.Classification, err = t.Classification.Resolve(d)
	return err
}

// Train implements [Task].
func (t *Classes) Train(ctx context.Context, dev voxsaw.Device, d puzzle2d.Data, o voxsaw.RunOptions) (voxsaw.Summary,
	error) {
	return puzzle2d.TrainClassifier(ctx, dev, t.Classification, d, o)
}

// Names implements [Task].
func (t *Classes) Names() (items, score string) {
	return "photographs", "held-out photographs answered right"
}

// Shared implements [Task].
func (t *Classes) Shared() Shared {
	c := &t.Classification
	return Shared{&c.Network, &c.Train, &c.Input, &c.Checkpoint, &c.Batch, &c.ValidatePhotos}
}

// Tasks is the choice among them.
func Tasks() config.OneOf {
	classes := func(task string) config.Option {
		return config.Option{Name: task, Value: &Classes{puzzle2d.DefaultClassification(task)}}
	}
	return config.NewOneOf("task",
		"what is learnt: jigsaw (put shuffled patches back); to compare with: labels (the classes), rotation (of the photograph), position (of one patch seen from another)",
		config.Option{Name: "jigsaw", Value: &Puzzles{puzzle2d.DefaultConfig()}}, classes(puzzle2d.Labels),
		classes(puzzle2d.Rotation), classes(puzzle2d.Position))
}

// share brings what tasks have in common from one into another.
func share(into, from any) {
	a, b := into.(Task).Shared(), from.(Task).Shared()
	*a.Network, *a.Train, *a.Input, *a.Validate = *b.Network, *b.Train, *b.Input, *b.Validate
}
