package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pairing"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/viewer"
	"github.com/voxsaw/voxsaw/puzzle2d"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: what voxsaw view shows of a run.

// pageOfRun writes the page on a run as it is now, which looks for no news by itself.
func pageOfRun(folder string, task *taskPicture, w io.Writer) error {
	run, state, _, err := readRun(folder, namesApart([]string{folder})[0])
	if err != nil {
		return err
	}
	run.Task, run.Without = task.now()
	page, err := report.Runs(run.Training.Name, state, []report.Run{run})
	if err != nil {
		return err
	}
	return page.HTML(w)
}

// taskPicture is how a pretraining does its task on what it has not learnt from, such as a puzzle
// round by round. It is made anew when there is another checkpoint.
type taskPicture struct {
	checkpoint string
	// look draws the picture of a checkpoint, on a case or a photograph.
	look func(dev voxsaw.Device, checkpoint string) (*report.Picture, error)

	mu      sync.Mutex
	of      time.Time // when the picture's checkpoint was written
	picture *report.Picture
	failed  error // why there is none
	dev     *cpu.CPU
}

// now is the picture of the checkpoint as it is; nil if none is there, or it is no pretraining's.
// The error says why it could not be drawn.
func (p *taskPicture) now() (*report.Picture, error) {
	if p == nil {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := os.Stat(p.checkpoint)
	if err == nil && !info.ModTime().Equal(p.of) {
		p.picture, p.failed = p.draw()
		p.of = info.ModTime()
		if other := (*checkpoint.KindError)(nil); errors.As(p.failed, &other) {
			p.failed = nil
		}
	}
	return p.picture, p.failed
}

func (p *taskPicture) draw() (*report.Picture, error) {
	var err error
	if p.dev == nil {
		// the other cores are the training's
		if p.dev, err = cpu.New(cpu.Options{Threads: 1}); err != nil {
			return nil, err
		}
	}
	return p.look(p.dev, p.checkpoint)
}

// onCases shows a task on a prepared case that it was not trained on, where there is one.
func onCases(ctx context.Context, store *prepared.Store) func(voxsaw.Device, string) (*report.Picture, error) {
	return onSamples(ctx, pretext.Scans, func(d checkpoint.Description) (sample.Sample, error) {
		ids, _, err := chooseToSolve(io.Discard, store, d, solveOptions{})
		if err != nil {
			return nil, err
		}
		return store.Sample(ids[0])
	})
}

// onPhotographs shows a task on a photograph that is held out, where one is.
func onPhotographs(ctx context.Context, store *photos.Store) func(voxsaw.Device, string) (*report.Picture, error) {
	return onSamples(ctx, pretext.Photographs, func(checkpoint.Description) (sample.Sample, error) {
		data := puzzle2d.Split(store)
		for _, name := range slices.Concat(data.Validate, data.Train) {
			return store.Sample(name)
		}
		return nil, errors.New("there are no photographs to show what has been learnt")
	})
}

// onSamples shows a task of a list on the sample that is chosen for its checkpoint.
func onSamples(ctx context.Context, list *pretext.List,
	choose func(checkpoint.Description) (sample.Sample, error)) func(voxsaw.Device, string) (*report.Picture, error) {
	return func(dev voxsaw.Device, path string) (*report.Picture, error) {
		_, description, evaluator, err := list.Open(ctx, dev, path, pretext.OpenOptions{Items: 1})
		if err != nil {
			return nil, err
		}
		defer evaluator.Close()
		of, err := choose(description)
		if err != nil {
			return nil, err
		}
		made, err := evaluator.Picture(of)
		if err != nil {
			return nil, err
		}
		return &report.Picture{Image: made.Image, Caption: made.Caption}, nil
	}
}

// pictureTask has pictures made for TensorBoard, if they are asked for, of how a pretraining in a
// folder does its task, until done is called. Without a folder there are none.
func (r *runFlags) pictureTask(folder string, look func(voxsaw.Device, string) (*report.Picture, error)) (done func()) {
	if folder == "" {
		return func() {}
	}
	r.page.task = &taskPicture{checkpoint: train.Last(folder), look: look}
	return r.page.task.close
}

func (p *taskPicture) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dev != nil {
		p.dev.Close()
	}
}

// dataOfRun says where the prepared cases of a run lie. A run of a study has them from its plan.
func dataOfRun(folder string) (string, error) {
	path := train.ConfigOf(folder)
	if study := experiment.StudyOf(folder); study != "" {
		path = experiment.PlanOf(study)
	}
	settings, err := smallfile.Read(path, smallfile.Settings)
	if err != nil {
		return "", err
	}
	var values map[string]any
	if err := config.Unmarshal(path, settings, &values); err != nil {
		return "", err
	}
	data, ok := values["data"].(string)
	if own := ofInitialisation(values, experiment.InitialisationOf(folder)); own != "" {
		data = own
	}
	if !ok {
		return "", fmt.Errorf("%s does not say where its prepared cases lie", path)
	}
	if !isThere(data) {
		data = cmp.Or(fromStart(folder, data), data)
	}
	return data, nil
}

// ofInitialisation is the folder that an initialisation of a plan is pretrained on, where it names
// one of its own.
func ofInitialisation(plan map[string]any, name string) string {
	list, _ := plan["initialisations"].([]any)
	for _, each := range list {
		if init, _ := each.(map[string]any); name != "" && init["name"] == name {
			data, _ := init["data"].(string)
			return data
		}
	}
	return ""
}

// heldOutOf are the cases that a run does not learn from: the test cases of a study's trial, those
// that another run validates on. It is no error if there are none, but one if the run does not
// tell.
func heldOutOf(folder string, store *prepared.Store) ([]string, error) {
	path := train.ConfigOf(folder)
	text, err := smallfile.Read(path, smallfile.Settings)
	if err != nil {
		return nil, err
	}
	var lists struct {
		Test      *[]string `yaml:"test"`         // of a trial
		Held      *[]string `yaml:"held"`         // of a study's pretraining
		Validated *[]string `yaml:"validated_on"` // of a run that the library began
		Cases     any       `yaml:"cases"`        // names, too, or how the command line chose them
	}
	if err := config.Unmarshal(path, text, &lists); err != nil {
		return nil, err
	}
	if list := cmp.Or(lists.Test, lists.Held, lists.Validated); list != nil {
		return checkpoint.ListFromConfig(folder, *list)
	}
	if _, chosen := lists.Cases.(map[string]any); !chosen {
		return nil, fmt.Errorf("%s does not say it", path)
	}
	settings := struct {
		Cases dataset.Selection `yaml:"cases"`
	}{dataset.DefaultSelection()}
	if err := config.Unmarshal(path, text, &settings); err != nil {
		return nil, err
	}
	s := settings.Cases
	if s.Splits != "" && !isThere(s.Splits) {
		s.Splits = cmp.Or(fromStart(folder, s.Splits), s.Splits)
	}
	s = s.Of(store)
	status, err := train.ReadStatus(folder)
	if err != nil {
		return nil, err
	}
	labelled, unlabelled := store.ForTraining()
	if status.Kind == checkpoint.Segmentation {
		_, held, err := s.Choose(labelled, unlabelled...)
		return held, err
	}
	_, held, err := s.ChooseWith(labelled, unlabelled)
	return held, err
}

// casesOfRun are the held-out cases of a run. Where there are none, or nobody knows which they are,
// these are all that were prepared, with a note.
func casesOfRun(folder string, store *prepared.Store, stderr io.Writer) []viewer.Case {
	held, err := heldOutOf(folder, store)
	cases := preparedCases(store, held)
	all := numbers.Count(store.Len(), "prepared case")
	switch {
	case err != nil:
		say(stderr, "WARNING: which cases %s has held out is unknown, so it may have learnt from what is shown, %s: %v",
			folder, all, err)
	case len(held) == 0:
		say(stderr, "%s has held out no case: it may have learnt from what is shown, %s", folder, all)
	case len(cases) < len(held):
		say(stderr, "WARNING: %d of the %s that %s has held out: the others are not among the prepared ones",
			len(cases), numbers.Count(len(held), "case"), folder)
	}
	return cases
}

// ofRun takes the predictions that a run has kept of its test cases, and their scores, where the
// user names no others.
func (o viewOptions) ofRun(folder string, stderr io.Writer) viewOptions {
	if o.Predictions != "" {
		return o // whose scores are not the run's
	}
	predictions, scores := experiment.PredictionsOf(folder), experiment.ScoresOf(folder)
	if isDir(predictions) {
		if _, err := pairing.Files(predictions); err != nil { // none is written yet
			say(stderr, "without the run's predictions: %v", err)
		} else {
			o.Predictions = predictions
			say(stderr, "with the predictions in %s", predictions)
		}
	}
	if o.Scores == "" && isThere(scores) {
		o.Scores = scores
		say(stderr, "with the scores in %s, the lowest mean DSC first", scores)
	}
	return o
}
