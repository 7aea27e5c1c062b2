// Package task makes pretext tasks of other modules: something that a network learns from scans
// without labels, before it learns to segment.
//
// Start at [Task]: it says how patches are made of a crop, and a network learns to tell which of
// some classes was made. [Task.Pretrain] trains, [Task.Evaluate] says how well that is told of
// unseen cases, and package segment starts from the checkpoints as from any others. [Register] adds
// a task to those of the command line.
//
// It leaves out tasks whose answer is no class.
package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/classify"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
)

// A Task is what is different about a pretext task.
type Task struct {
	Name    string // the kind of its checkpoints, and what a registered task is chosen by
	Classes int    // of which the network tells one; they are drawn with equal probabilities
	Short   string // for the help of --task: "say by which right angles a crop was turned"
	// Make writes what the network sees, (channels, D, H, W) with D = size[2], of the crop at an
	// origin of a case, such that the class is right about it. A nil generator stands for no
	// variation: held-out cases are shown so. It is called on several goroutines at once.
	Make func(dst []float32, of sample.Sample, origin, size [3]int, class int, r *rand.Rand) error
}

// Settings are those of a training. Sizes are along (i, j, k).
type Settings struct {
	Network       voxsaw.Network
	Train         voxsaw.Training
	Crop          [3]int
	Batch         int
	MaxAir        float64 // crops with at most this share of air are preferred
	ValidateCases int     // held-out cases to validate on; 0: all
	Features      int     // width of a crop's feature, which the class is told by
}

// DefaultSettings are a start, with crops of 64^3 voxels.
func DefaultSettings() Settings {
	s := classify.DefaultSettings(64, 4)
	return Settings{s.Network, s.Train, s.Crop, s.Batch, s.MaxAir, s.ValidateCases, s.Features}
}

// Register adds a task to those of a program that calls [github.com/voxsaw/voxsaw/cli.Main]:
// pretrain, solve, crossval and the report then know it by its name. It is called by init
// functions. It panics where a part of the task is missing, or another one has its name.
func Register(t Task) {
	if err := t.check(); err != nil {
		panic(fmt.Sprintf("task %q: %v", t.Name, err))
	}
	if t.Short == "" {
		t.Short = fmt.Sprintf("tell which of %d classes a crop is", t.Classes)
	}
	classify.Register(pretext.Task{
		Name: t.Name, Short: t.Short, Items: "crops",
		Title: "Task " + t.Name + " on unseen cases", Score: "classes of held-out cases told",
	}, func() (classify.Config, *int) { return t.defaults(), nil })
}

// Pretrain trains encoder and head to do the task. The score of a validation is the share of the
// held-out cases' classes that are told right. Contexts and errors are those of
// [github.com/voxsaw/voxsaw/puzzle3d.Pretrain].
func (t Task) Pretrain(ctx context.Context, dev voxsaw.Device, s Settings, data sample.Data,
	o voxsaw.RunOptions) (voxsaw.Summary, error) {
	if err := t.check(); err != nil {
		return voxsaw.Summary{}, err
	}
	c := t.with(s)
	if err := c.Resolve(data.Store); err != nil {
		return voxsaw.Summary{}, err
	}
	return c.Pretrain(ctx, dev, data, o)
}

// Evaluate is the share, from 0 to 1, of the classes that a checkpoint of the task tells right: the
// crop in the middle of each case is shown in every class once.
func (t Task) Evaluate(ctx context.Context, dev voxsaw.Device, checkpoint string, cases []sample.Sample) (float64,
	error) {
	path, err := train.CheckpointOf(checkpoint)
	if err != nil {
		return 0, err
	}
	if err := t.check(); err != nil {
		return 0, err
	}
	e, err := classify.Open(ctx, dev, path, t.Name, t.defaults(), nil, pretext.OpenOptions{})
	if err != nil {
		return 0, err
	}
	defer e.Close()
	done, err := e.Evaluate(ctx, cases)
	if err != nil {
		return 0, err
	}
	return done.Final()[0], nil
}

// config is the task with settings, as package classify carries it out.
type config struct {
	classify.Settings `yaml:",inline"`
	task              Task
}

// check says what the task lacks, nil if nothing.
func (t Task) check() error {
	if t.Name == "" || t.Classes < 2 || t.Make == nil {
		return errors.New("a task needs a name, at least two classes, and Make")
	}
	return nil
}

// defaults are the task with [DefaultSettings].
func (t Task) defaults() *config { return t.with(DefaultSettings()) }

func (t Task) with(s Settings) *config {
	c := &config{task: t}
	c.Network, c.Train, c.Crop, c.Batch, c.MaxAir = s.Network, s.Train, s.Crop, s.Batch, s.MaxAir
	c.ValidateCases, c.Features = s.ValidateCases, s.Features
	return c
}

// Resolve implements [pretext.Config].
func (c *config) Resolve(of sample.Store) error {
	if _, err := c.Prepare(of); err != nil {
		return err
	}
	return c.Check()
}

// Check implements [pretext.Model].
func (c *config) Check() error {
	b, err := c.Settings.Check()
	if err != nil {
		return err
	}
	return backbone.Fits(b, c.Crop)
}

// Pretrain implements [pretext.Config].
func (c *config) Pretrain(ctx context.Context, dev voxsaw.Device, data sample.Data,
	o voxsaw.RunOptions) (voxsaw.Summary, error) {
	return classify.Pretrain(ctx, dev, c, data, o, train.Group{})
}

// Task implements [classify.Config]: the whole crop is the patch.
func (c *config) Task(context.Context) (classify.Task, error) {
	return classify.Task{
		Name: c.task.Name, Patches: 1, Patch: c.Crop,
		Targets: []classify.Target{{Name: "class", Classes: c.task.Classes, Weight: 1}},
		Cut: func(dst []float32, of sample.Sample, origin [3]int, truth []int, r *rand.Rand) error {
			return c.task.Make(dst, of, origin, c.Crop, truth[0], r)
		},
		Picture: c.picture,
	}, nil
}

// picture shows the middle slice of the crop in every class.
func (c *config) picture(e *classify.Evaluator, of sample.Sample) (pretext.Picture, error) {
	shown, right, err := e.Classes(of, c.Crop)
	return pretext.Picture{
		Image: shown,
		Caption: fmt.Sprintf("The crop in the middle of case %s in each of the %d classes: %d are told right. "+
			"A red frame marks the others.", of.Name(), c.task.Classes, right),
	}, err
}
