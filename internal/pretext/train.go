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
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Data is prepared cases by their role. No labels are used.
type Data struct {
	Store    *prepared.Store
	Train    []string // case IDs
	Validate []string // held-out case IDs; may be empty
}

// A Job is a task with its settings, as [Train] carries it out. B is what it needs for one step.
type Job[B any] struct {
	Task          string // its name
	Settings      any    // a pointer to the resolved settings, as the checkpoint records them
	Training      voxsaw.Training
	Crop          [3]int
	ValidateCases int
	// Declare declares the parameters of the whole model.
	Declare func(*nn.Params) error
	// Compile makes the programs. What it returns is closed by Train.
	Compile func(Workbench) (train.Learner[B], error)
}

// A Workbench is what a job has to work with.
type Workbench struct {
	train.Workbench
	Train, Held []*prepared.Case // opened
}

// Train carries out a job on prepared cases, as one rank of the group or else of the options'.
func Train[B any](ctx context.Context, dev voxsaw.Device, j Job[B], data Data, o voxsaw.RunOptions, group train.Group) (voxsaw.Summary, error) {
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
			Kind: j.Task, Settings: settings, TrainedOn: data.Train, ValidatedOn: data.Validate, Fingerprint: data.Store.Fingerprint(),
			Learnt: checkpoint.Learnt{Spacings: data.Store.Spacings(data.Train), Scans: checkpoint.ScansOf(data.Train, data.Store.Voxels(data.Train), false)},
		},
		Options: j.Training,
		Open: func() (notes []string, err error) {
			w.Train, w.Held, notes, err = data.open(j.Crop, j.ValidateCases)
			return notes, err
		},
		Declare: j.Declare,
		Compile: func(bench train.Workbench) (train.Learner[B], error) {
			w.Workbench = bench
			return j.Compile(w)
		},
	}.Run(ctx, dev, o, group)
}

// open opens the cases.
func (data Data) open(crop [3]int, validateCases int) (training, validation []*prepared.Case, notes []string, err error) {
	if len(data.Train) == 0 {
		return nil, nil, nil, errors.New("there are no cases to pretrain on")
	}
	held := make(map[string]bool, len(data.Validate))
	for _, id := range data.Validate {
		held[id] = true
	}
	for _, id := range data.Train {
		if held[id] {
			return nil, nil, nil, fmt.Errorf("case %s is both to train and to validate on", id)
		}
	}
	validate := data.Validate
	if validateCases > 0 {
		validate = validate[:min(len(validate), validateCases)]
	}
	if training, err = openAll(data.Store, data.Train); err != nil {
		return nil, nil, nil, err
	}
	if validation, err = openAll(data.Store, validate); err != nil {
		return nil, nil, nil, err
	}
	var padded []string
	for _, c := range slices.Concat(training, validation) {
		if c.Padded(crop) {
			padded = append(padded, c.ID)
		}
	}
	if slices.Sort(padded); len(padded) > 0 {
		notes = append(notes, fmt.Sprintf("smaller than the crop of %[2]dx%[3]dx%[4]d, and padded with air: %[1]s: %[5]s", numbers.Count(len(padded), "case"), crop[0], crop[1], crop[2], safetext.List(padded)))
	}
	return training, validation, notes, nil
}

func openAll(store *prepared.Store, ids []string) ([]*prepared.Case, error) {
	cases := make([]*prepared.Case, len(ids))
	for i, id := range ids {
		var err error
		if cases[i], err = store.Open(id); err != nil {
			return nil, err
		}
	}
	return cases, nil
}
