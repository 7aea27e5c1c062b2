package pretext

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
)

// A Job is a task with its settings, as [Train] carries it out. B is what it needs for one step.
type Job[B any] struct {
	Task          string // its name
	Settings      any    // a pointer to the resolved settings, as the checkpoint records them
	Training      voxsaw.Training
	Crop          [3]int
	ValidateCases int
	// Declare declares the parameters of the whole model.
	Declare func(*nn.Params) error
	// Groups, Start, Undivided and Idle are those of [train.Job].
	Groups    []train.ParamGroup
	Start     func(*nn.Params) (note string, err error)
	Undivided string
	Idle      error
	Notes     []string // what a person should know of the settings
	// Compile makes the programs. What it returns is closed by Train.
	Compile func(Workbench) (train.Learner[B], error)
}

// A Workbench is what a job has to work with.
type Workbench struct {
	train.Workbench
	Train, Held []sample.Sample // opened
}

// Train carries out a job on prepared cases, as one rank of the group or else of the options'.
func Train[B any](ctx context.Context, dev voxsaw.Device, j Job[B], data sample.Data, o voxsaw.RunOptions,
	group train.Group) (voxsaw.Summary, error) {
	settings, err := config.Marshal(j.Settings)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	if group.Alone() {
		group = train.GroupOf(o)
	}
	var w Workbench
	return train.Job[B]{
		Identity: train.Identity{
			Kind: j.Task, Settings: settings, TrainedOn: list(data, data.Train), ValidatedOn: list(data, data.Validate),
			Fingerprint: data.Store.Fingerprint(),
			Learnt:      learnt(data),
		},
		Options: j.Training, Groups: j.Groups, Start: j.Start, Undivided: j.Undivided,
		Idle: j.Idle,
		Open: func() (notes []string, err error) {
			w.Train, w.Held, notes, err = open(data, j.Crop, j.ValidateCases)
			return append(slices.Clone(j.Notes), notes...), err
		},
		Declare: j.Declare,
		Compile: func(bench train.Workbench) (train.Learner[B], error) {
			w.Workbench = bench
			return j.Compile(w)
		},
	}.Run(ctx, dev, o, group)
}

// scans is a store of scans, whose voxels are known in mm and by their digests.
type scans interface {
	Spacings(names []string) volume.Range
	Voxels(names []string) []string
}

// summarized is a store of so many samples that a checkpoint counts them: their names would be
// longer than the weights.
type summarized interface {
	Summarize(names []string) []string
}

// list is what a checkpoint lists of samples.
func list(data sample.Data, names []string) []string {
	if of, ok := data.Store.(summarized); ok {
		return of.Summarize(names)
	}
	return names
}

// learnt is what a checkpoint says of the samples that it was trained on.
func learnt(data sample.Data) (l checkpoint.Learnt) {
	if of, ok := data.Store.(scans); ok {
		l.Spacings, l.Scans = of.Spacings(data.Train), checkpoint.ScansOf(data.Train, of.Voxels(data.Train), false)
	}
	return l
}

// open opens the cases.
func open(data sample.Data, crop [3]int, validateCases int) (training, validation []sample.Sample, notes []string,
	err error) {
	if len(data.Train) == 0 {
		return nil, nil, nil, errors.New("there is nothing to train on")
	}
	held := make(map[string]bool, len(data.Validate))
	for _, id := range data.Validate {
		held[id] = true
	}
	for _, id := range data.Train {
		if held[id] {
			return nil, nil, nil, fmt.Errorf("%s is both to train and to validate on", id)
		}
	}
	validate := data.Validate
	if validateCases > 0 {
		validate = validate[:min(len(validate), validateCases)]
	}
	if training, err = sample.Open(data.Store, data.Train); err != nil {
		return nil, nil, nil, err
	}
	if validation, err = sample.Open(data.Store, validate); err != nil {
		return nil, nil, nil, err
	}
	var padded []string
	for _, c := range slices.Concat(training, validation) {
		if sample.Padded(c, crop) {
			padded = append(padded, c.Name())
		}
	}
	if slices.Sort(padded); len(padded) > 0 {
		notes = append(notes,
			fmt.Sprintf("smaller than the crop of %[2]dx%[3]dx%[4]d, and padded with air: %[1]s: %[5]s",
				numbers.Count(len(padded), "case"), crop[0], crop[1], crop[2], safetext.List(padded)))
	}
	return training, validation, notes, nil
}
