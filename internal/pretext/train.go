package pretext

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
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
	// Compile makes the programs. What it returns is closed by Train, which reads the cases.
	Compile func(Workbench) (Learner[B], error)
}

// A Workbench is what a job has to work with.
type Workbench struct {
	Device    device.Device
	Params    *nn.Params // with the parameters that were declared
	Optimizer train.Optimizer
	Group     train.Group
	Memory    int64 // limit in bytes of the network; 0: none
	// Train and Held are the cases, opened.
	Train, Held []*prepared.Case
}

// A Learner is a task whose programs are compiled.
type Learner[B any] interface {
	train.Task[B]
	// Notes are what a person should know before the run, such as the memory of a step.
	Notes() []string
	Close()
}

// Train carries out a job: from the run's folder over the cases and the network to the last step. A
// run that is finished already is not repeated.
func Train[B any](ctx context.Context, dev voxsaw.Device, j Job[B], data Data, o voxsaw.RunOptions, group train.Group) (voxsaw.Summary, error) {
	d, err := device.From(dev)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	settings, err := config.Marshal(j.Settings)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	folder, err := train.OpenRun(d, train.Identity{Kind: j.Task, Settings: settings, TrainedOn: data.Train, ValidatedOn: data.Validate, Fingerprint: data.Store.Fingerprint()}, o)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	if folder.Finished() {
		folder.Tell(o.Observer)
		return folder.Summary()
	}
	w := Workbench{Device: d, Group: group, Memory: o.Memory, Params: nn.NewParams(d, j.Training.Seed)}
	defer w.Params.Close()
	var notes []string
	if w.Train, w.Held, notes, err = data.open(j.Crop, j.ValidateCases); err != nil {
		return voxsaw.Summary{}, err
	}
	if err := j.Declare(w.Params); err != nil {
		return voxsaw.Summary{}, err
	}
	if w.Optimizer, err = train.NewOptimizer(w.Params, j.Training, nil, !group.Alone()); err != nil {
		return voxsaw.Summary{}, err
	}
	defer w.Optimizer.Close()
	learner, err := j.Compile(w)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	defer learner.Close()
	if o.Observer != nil {
		for _, note := range append(notes, learner.Notes()...) {
			o.Observer.Note(note)
		}
	}
	return train.Train[B](ctx, learner, train.Setup{
		Options: j.Training, Optimizer: w.Optimizer, Group: group, Folder: folder, Observer: o.Observer, Loaders: o.Loaders,
	})
}

// open opens the cases.
func (data Data) open(crop [3]int, validateCases int) (training, held []*prepared.Case, notes []string, err error) {
	if len(data.Train) == 0 {
		return nil, nil, nil, errors.New("there are no cases to pretrain on")
	}
	for _, id := range data.Validate {
		if slices.Contains(data.Train, id) {
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
	if held, err = openAll(data.Store, validate); err != nil {
		return nil, nil, nil, err
	}
	var padded []string
	for _, c := range slices.Concat(training, held) {
		if c.Padded(crop) {
			padded = append(padded, c.ID)
		}
	}
	if slices.Sort(padded); len(padded) > 0 {
		notes = append(notes, fmt.Sprintf("%d cases are smaller than the crop of %dx%dx%d and are padded with air: %s", len(padded), crop[0], crop[1], crop[2], list(padded)))
	}
	return training, held, notes, nil
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

func list(ids []string) string {
	if len(ids) > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:5], ", "), len(ids)-5)
	}
	return strings.Join(ids, ", ")
}
