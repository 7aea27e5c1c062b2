package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Setting is where and on what an experiment runs.
type Setting struct {
	Out     string // its folder
	Device  voxsaw.Device
	Memory  int64 // limit in bytes for a program and its parameters; 0: none
	Console Console
	// Opened is called with prepared data before any of it is read; may be nil.
	Opened func(Store) error
	// Trial is the only trial to run, by its number in the plan, counted from 1; 0: all.
	Trial int
	// Finished asks for the trials that are finished alone: none is carried out. Not for ranks.
	Finished bool
	// Ranks are the processes that carry out each trial together; nil: this one alone. All share
	// the folder. Rank 0 alone takes trials and writes, except that each rank writes its own
	// predictions of test cases.
	Ranks voxsaw.Ranks
	// Planned is the file of the plan that set the sizes, kept in the folder; nil: none.
	Planned []byte
	// Settings are those of the command, for the record of a study that has no plan in its folder.
	Settings []byte
}

// A Store is prepared cases or photographs.
type Store interface {
	KeepLocal(sample.Local) (fits bool, err error)
	Close() error
}

// Stores are the prepared data that a study has open, by their folders.
type Stores[S Store] struct {
	open   func(folder string) (S, error)
	opened func(Store) error
	all    map[string]S
}

// NewStores opens data by a function such as [prepared.Open], which is given [Setting.Opened].
func NewStores[S Store](s Setting, open func(folder string) (S, error)) *Stores[S] {
	return &Stores[S]{open, s.Opened, map[string]S{}}
}

// Of is the data in a folder, open until all are closed.
func (s *Stores[S]) Of(folder string) (store S, err error) {
	if store, there := s.all[folder]; there {
		return store, nil
	}
	if store, err = s.open(folder); err != nil {
		return store, err
	}
	if s.opened != nil {
		if err = s.opened(store); err != nil {
			store.Close()
			return store, err
		}
	}
	s.all[folder] = store
	return store, nil
}

// Close closes them.
func (s *Stores[S]) Close() {
	for _, store := range s.all {
		store.Close()
	}
}

// A Console shows how an experiment gets on.
type Console interface {
	// Training shows one training: its name, and what its items are ("puzzles", "crops").
	Training(name, items string) voxsaw.Observer
	// Trained ends the one begun last.
	Trained()
	Note(text string)
}

// Result is what an experiment found, so far.
type Result struct {
	Plan     Plan
	Cases    Cases
	Runs     []eval.Trial
	Encoders []Pretraining
	// Notes are what is to be known of the plan and its cases, which the report says beside the
	// scores. Seen says that a checkpoint had learnt from cases that folds test on, or may have.
	Notes []string
	Seen  bool
	Left
	trials []Trial // of the plan
}

// done are the trials that have their scores.
func (r *Result) done() []Trial {
	return slices.DeleteFunc(slices.Clone(r.trials), func(t Trial) bool { return !slices.ContainsFunc(r.Runs, t.is) })
}

// Pretraining is one encoder that the experiment pretrained.
type Pretraining struct {
	Init   string
	Fold   int    // 0: one for all folds
	Number int    // from 0, where several are pretrained for a fold
	Folder string // of the run
	Data   string // where its cases are
	Task   pretext.Task
	Steps  int
	Held   []string // cases that it was validated on
}

// Folder of the trial in an experiment's folder.
func (t Trial) Folder(out string) string {
	return filepath.Join(out, trialsFolder, filepath.FromSlash(t.Name()))
}

// Run carries out a plan, or what is left of it. It returns what is finished even when it fails. Of
// several ranks, rank 0 alone is given all scores.
func Run(ctx context.Context, plan Plan, s Setting) (*Result, error) {
	if err := plan.Check(); err != nil {
		return nil, config.Mistaken(err)
	}
	var err error
	if plan.Inference, err = plan.Inference.Named(); err != nil {
		return nil, fmt.Errorf("inference: %w", err)
	}
	if s.Finished {
		if _, err := os.Stat(filepath.Join(s.Out, planFile)); err != nil {
			return nil, fmt.Errorf("%s holds no experiment: %w", s.Out, err)
		}
	}
	stores := NewStores(s, prepared.Open)
	defer stores.Close()
	store, err := stores.Of(plan.Data)
	if err != nil {
		return nil, err
	}
	r := &runner{Setting: s, plan: plan, stores: stores, store: store, encoders: map[string]string{},
		result: &Result{Plan: plan}}
	if plan.Finetune, err = plan.Finetune.Resolve(store); err != nil {
		return nil, err
	}
	r.plan, r.result.Plan = plan, plan
	if r.result.Cases, err = plan.casesOf(store); err != nil {
		return nil, err
	}
	trials := plan.trials(r.result.Cases)
	r.result.trials = trials
	warnings, seen, err := plan.warnings(store)
	if err != nil {
		return nil, err
	}
	warnings = slices.Concat(warnings, plan.ofStore(store), r.result.Cases.doubts,
		unlearntDoubts(plan.shown(r.result.Cases, store)))
	r.result.Notes, r.result.Seen = warnings, seen
	alike := plan
	alike.Data = "" // the fingerprint tells
	if err := errors.Join(plan.checkArms(store),
		plan.checkUnlabelled(trials, r.Group().Size), s.Alike(&alike, store.Fingerprint()),
		r.fitting(), r.merging()); err != nil {
		return nil, err
	}
	if note := unlabelledNote(trials); note != "" {
		r.notes = append(r.notes, note)
	}
	r.notes = append(r.notes, warnings...)
	return r.result, r.all(ctx, trials)
}

// ofStore lists doubts about the cases before they are learnt from.
func (p Plan) ofStore(store *prepared.Store) (doubts []string) {
	if store.Preparation().Scheme() == volume.CTPercentiles {
		doubts = append(doubts,
			"intensities go by ct-percentiles: by the labelled voxels of all cases, those that folds test on among "+
				"them, unless they were prepared with the foreground of others (a plan of voxsaw plan gives that "+
				"of all)")
	}
	if text := p.Finetune.UndrawnIn(store, labelled(store)); text != "" {
		doubts = append(
			doubts,
			fmt.Sprintf(
				"WARNING: not drawn in all cases with labels: %s. %s. Scores leave it out",
				text,
				p.Finetune.UndrawnLearnt(),
			),
		)
	}
	return doubts
}

// fitting says, before anything is trained, which checkpoints do not fit the network, or too small
// a part of it.
func (r *runner) fitting() error {
	if r.Finished || r.Device == nil {
		return nil
	}
	for _, i := range r.plan.Inits {
		if i.pretrains() {
			if err := r.sameInputs(i); err != nil {
				return err
			}
		}
		if i.Checkpoint == "" && i.Teachers == 0 {
			continue
		}
		c, err := r.plan.finetune(i)
		if err == nil && i.Teachers > 0 {
			err = segment.CheckTargets(r.Device, c)
		}
		if err == nil && i.Checkpoint != "" {
			err = segment.CheckInit(r.Device, c, i.Checkpoint)
		}
		if err != nil {
			return fmt.Errorf("initialisation %s: %w", i.Name, err)
		}
	}
	return nil
}

// merging says, before anything is trained, what the device lacks where a trial that is left to be
// trained learns from cases in which a class was not drawn, and whose teachers would be refused.
func (r *runner) merging() error {
	if r.Finished || r.Device == nil {
		return nil
	}
	trials := slices.DeleteFunc(slices.Clone(r.result.trials),
		func(t Trial) bool { return train.Finished(t.Folder(r.Out)) })
	if err := r.plan.checkTeachers(r.store, trials); err != nil {
		return err
	}
	for _, t := range trials {
		c, err := r.plan.finetune(r.plan.initialisation(t.Init))
		if err == nil && c.NeedsMerging(r.store, t.Train) {
			err = segment.CheckMerging(r.Device)
		}
		if err != nil {
			return fmt.Errorf("trial %s: %w", t.Name(), err)
		}
	}
	return nil
}

// sameInputs says whether the network that an initialisation pretrains takes as many channels as
// the one that is fine-tuned: how the cases were prepared decides about both.
func (r *runner) sameInputs(i Initialisation) error {
	chosen, err := r.plan.pretext(i)
	if err != nil {
		return err
	}
	store, err := r.stores.Of(r.plan.pretrainedOn(i))
	if err != nil {
		return err
	}
	settings := chosen.Settings()
	if err := settings.Resolve(store); err != nil {
		return config.Mistaken(fmt.Errorf("initialisation %s: %w", i.Name, err))
	}
	learnt, wanted := settings.Common().Network.InputChannels(), max(r.store.Preparation().Inputs(), 1)
	if learnt != wanted {
		return config.Mistaken(fmt.Errorf("initialisation %s: its encoder looks at %s, and the fine-tuned network "+
			"at %d: prepare the same channels for both; of times, fine-tune on scans of one channel", i.Name,
			numbers.Count(learnt, "channel"), wanted))
	}
	return nil
}

// begin records the plan in the experiment's folder, and says what is to be known of it.
func (r *runner) begin() error {
	if err := r.Group().AtRoot(r.record); err != nil {
		return err
	}
	// rank 0 has looked at what the folder holds
	if err := r.Group().FromRoot(&r.plan.Inference.Components); err != nil {
		return err
	}
	r.result.Plan = r.plan
	for _, note := range r.notes {
		r.Console.Note(note)
	}
	return nil
}

// warnings says what is likely to cost accuracy: a window of inference other than the training
// crop, and checkpoints of scans or networks that were others. A checkpoint that cannot be read is
// an error now, rather than when its turn comes. seen says that one has learnt from cases that
// folds test on, or that nobody can say whether it has.
func (p Plan) warnings(store *prepared.Store) (warnings []string, seen bool, err error) {
	if note := p.Finetune.WindowNote(p.Inference); note != "" {
		warnings = append(warnings, note)
	}
	for _, i := range p.Inits {
		if i.Checkpoint == "" {
			continue
		}
		d, err := checkpoint.Read(i.Checkpoint)
		if errors.Is(err, checkpoint.ErrForeign) {
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("initialisation %s: %w", i.Name, err)
		}
		ids := labelled(store)
		for _, line := range d.Mismatches(p.Finetune.Preparation, store.Spacings(ids), p.Finetune.Network) {
			warnings = append(warnings, fmt.Sprintf("WARNING: initialisation %s: %s", i.Name, line))
		}
		if d.Lost != "" && i.Teachers > 0 { // who would be refused once they are trained
			return nil, false, fmt.Errorf("initialisation %s: %s: %s: nobody can say whether its "+
				"teachers would have learnt from cases that folds test on: copy that file back "+
				"beside the checkpoint, or start from another",
				i.Name, i.Checkpoint, d.Lost)
		}
		if d.Lost != "" {
			seen = true
			warnings = append(warnings,
				fmt.Sprintf("WARNING: initialisation %s: %s: %s: nobody can say whether cases that folds test on "+
					"are among them", i.Name, i.Checkpoint, d.Lost))
		}
		scans, learnt := d.Seen(), map[bool][]string{}
		for n, digest := range store.Voxels(ids) {
			if scan, found := scans.Find(ids[n], digest); found {
				seen = true
				learnt[scan.Labels] = append(learnt[scan.Labels], scan.Called(ids[n]))
			}
		}
		for _, with := range []bool{true, false} {
			how := "without labels"
			if with {
				how = "with their labels: scores on them say nothing about others"
			}
			if names := learnt[with]; len(names) > 0 {
				warnings = append(warnings,
					fmt.Sprintf("WARNING: initialisation %s: %s has learnt from "+
						"%d of the cases that folds test on, %s: %s",
						i.Name, i.Checkpoint, len(names), how, safetext.List(names)))
			}
		}
	}
	return warnings, seen, nil
}

func labelled(store *prepared.Store) []string {
	ids, _ := store.ForTraining()
	return ids
}

type runner struct {
	Setting
	plan     Plan
	stores   *Stores[*prepared.Store]
	store    *prepared.Store   // of the plan's data
	encoders map[string]string // checkpoint of each encoder that has been pretrained, by its folder
	result   *Result
	notes    []string // what is to be known of the plan and its cases
}

// record writes the plan and who trains and tests, before anything else is done. An experiment that
// has begun keeps both, but may grow: by folds, fractions, seeds and initialisations. Anything else
// is a [voxsaw.ChangedError]. Trials without a plan are another experiment's that somebody copied:
// each has a record of its own, and is refused where this plan would have carried it out otherwise.
func (r *runner) record() error {
	planPath, casesPath := filepath.Join(r.Out, planFile), filepath.Join(r.Out, subsetsFile)
	cases := r.result.Cases
	begun, err := r.plan.begun(r.Out)
	if err != nil {
		return err
	}
	if r.plan, err = r.plan.settled(begun); err != nil {
		return err
	}
	if begun != nil {
		divided, err := divided(r.Out)
		if err != nil {
			return err
		}
		var changes []string
		if changes, err = r.plan.changes(*begun); err != nil {
			return err
		}
		cases, changes = cases.with(divided, changes)
		if len(changes) > 0 {
			return &voxsaw.ChangedError{Path: r.Out, Changes: changes}
		}
	}
	data, err := json.MarshalIndent(cases, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.Keep(casesPath, append(safetext.JSON(data), '\n')); err != nil {
		return err
	}
	// for nnU-Net, and for --splits
	if err := dataset.WriteSplits(filepath.Join(r.Out, splitsFile), r.result.Cases.splits); err != nil {
		return err
	}
	resolved, err := config.Marshal(&r.plan)
	if err != nil {
		return err
	}
	sealed := []string{subsetsFile, splitsFile, planFile}
	if r.Planned != nil {
		if err := atomicfile.Keep(train.PlannedOf(r.Out), r.Planned); err != nil {
			return err
		}
		sealed = append(sealed, train.Planned)
	}
	// at last: other processes that begin now read the rest where there is a plan
	if err := atomicfile.Keep(planPath, resolved); err != nil {
		return err
	}
	return atomicfile.Seal(r.Out, sealed...)
}

// Begun implements [Study].
func (p Plan) Begun(out string) bool {
	_, err := os.Stat(filepath.Join(out, planFile))
	entries, failed := os.ReadDir(filepath.Join(out, trialsFolder))
	return failed == nil && len(entries) > 0 && !os.IsNotExist(err)
}

// divided are the cases of the experiment in a folder.
func divided(out string) (c Cases, err error) {
	path := filepath.Join(out, subsetsFile)
	data, err := smallfile.Read(path, smallfile.List)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("%s is damaged: %w", path, err)
	}
	if c.Format != studyFormat {
		return c, fmt.Errorf("%s has format %d, this program reads %d: use the program that wrote it, or another "+
			"folder", path, c.Format, studyFormat)
	}
	return c, nil
}

// begun is the plan of the experiment in a folder; nil where none has begun there.
func (p Plan) begun(out string) (*Plan, error) {
	path := filepath.Join(out, planFile)
	if !p.Begun(out) {
		return nil, nil
	}
	before := Plan{Pretrain: Pretrain{pretext.Scans.Choice()}}
	if err := atomicfile.CompareFiles(path, filepath.Join(out, subsetsFile)); err != nil {
		return nil, err
	}
	if err := config.Load(path, &before); err != nil {
		return nil, fmt.Errorf("%s holds another experiment: %w", out, err)
	}
	return &before, nil
}

// trial fine-tunes, predicts the test cases and scores them, unless that has been done.
func (r *runner) trial(ctx context.Context, t Trial) ([]eval.Score, error) {
	c, err := r.plan.finetune(r.plan.initialisation(t.Init))
	if err != nil {
		return nil, err
	}
	c.Train.Seed = t.Seed
	c.MeasureOnly = true // the cases of learning curves decide nothing
	if len(t.Curve) > 0 {
		c.Train.ValidateEvery, c.ValidateCases = max(1, c.Train.Steps/r.plan.Curve), 0
	}
	folder := t.Folder(r.Out)
	init, err := r.initialise(ctx, t)
	if err != nil {
		return nil, err
	}
	// What decides the result beside the configuration belongs into the run's record: a run is not
	// resumed with other cases.
	resolved, err := r.plan.record(c, relative(r.Out, init), t)
	if err != nil {
		return nil, err
	}
	finished := false
	if err := r.Group().AtRoot(func() error {
		status, err := train.ReadStatus(folder)
		// more steps have scores of their own
		finished = err == nil && status.Finished && status.Step >= c.Train.Steps
		return nil
	}); err != nil {
		return nil, err
	}
	if err := r.Group().FromRoot(&finished); err != nil {
		return nil, err
	}
	networks := []string{train.Last(folder)}
	for n, other := range t.others(r.Out, r.plan.initialisation(t.Init)) {
		if !finished { // once its last network is trained, the trial has all of them
			if err := r.another(ctx, t, "network", n, other, c, init); err != nil {
				return nil, err
			}
		}
		networks = append(networks, train.Last(other))
	}
	unlabelled := t.Unlabelled
	switch taught := r.plan.initialisation(t.Init).Teachers > 0; {
	case taught && finished:
		unlabelled = nil // nothing is learnt any more
	case taught:
		if c.Targets, unlabelled, err = r.taught(ctx, t, c, init); err != nil {
			return nil, err
		}
		// a student that has begun goes on with the label maps that it began with
		if c.Predicted, err = segment.LearntTargets(train.Last(folder)); err != nil {
			return nil, err
		}
	}
	// The test cases are not looked at while training: nothing about them can leak into the result.
	_, _, err = segment.Finetune(ctx, r.Device, c, sample.Data{Store: r.store, Train: t.Train, Validate: t.Curve,
		Unlabelled: unlabelled}, init, r.Setting.Run(folder, resolved, r.Console.Training(t.Name(), "crops")))
	r.Console.Trained()
	if err != nil {
		return nil, err
	}
	var scores []eval.Score
	err = Measure(ctx, r.Setting, folder, []segmenting{{r}}, tested{t, folder, networks, finished, &scores}, nil)
	return scores, err
}

// tested is a trial whose network is trained.
type tested struct {
	Trial
	folder   string
	networks []string      // checkpoints, whose probabilities are averaged
	finished bool          // by an earlier run
	scores   *[]eval.Score // of the test cases; ranks other than 0 are given none that are read
}

// segmenting is the labels of the test cases, as an evaluation.
type segmenting struct{ *runner }

func (segmenting) What() string { return "" }

func (segmenting) Done(t tested) (done bool) {
	if !t.finished {
		return false
	}
	scores, err := readScores(t.folder)
	if err == nil {
		*t.scores = scores
	}
	return err == nil
}

func (e segmenting) Evaluate(ctx context.Context, t tested) (err error) {
	if *t.scores, err = e.score(ctx, t.folder, t.networks, t.Test); err != nil {
		return err
	}
	return e.Group().AtRoot(func() error {
		var text bytes.Buffer
		if err := table.PerCase(*t.scores).CSV(&text); err != nil {
			return err
		}
		if err := sealPredictions(t.folder); err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(ScoresOf(t.folder), text.Bytes()); err != nil {
			return err
		}
		return atomicfile.Seal(t.folder, ScoresFile)
	})
}

func readScores(folder string) ([]eval.Score, error) {
	text, err := smallfile.Read(ScoresOf(folder), smallfile.Table)
	if err != nil {
		return nil, err
	}
	return table.ReadScores(bytes.NewReader(text))
}

// score segments prepared cases with the networks of a trial and compares them with their labels,
// on the scans' own voxels or the prepared ones. The trial's folder keeps the predictions. Ranks
// share out the cases.
func (r *runner) score(ctx context.Context, folder string, networks, ids []string) ([]eval.Score, error) {
	predictor, err := segment.NewPredictor(r.Device, networks, r.plan.Inference, r.Memory)
	if err != nil {
		return nil, err
	}
	defer predictor.Close()
	all, err := train.Divide(ctx, r.Group(), len(ids), func(ctx context.Context, i int) ([]eval.Score, error) {
		c, err := r.store.Open(ids[i])
		if err != nil {
			return nil, err
		}
		prediction, labels, err := predictAndRead(ctx, predictor, c, r.plan.ScoreOn)
		if err != nil {
			return nil, err
		}
		s, err := eval.Compare(ids[i], prediction, predictor.Reference(labels), r.plan.Metrics)
		if err != nil {
			return nil, err // it names the case
		}
		return s, keepPrediction(folder, ids[i], prediction, predictor.Provenance())
	})
	scores := slices.Concat(all...)
	eval.Sort(scores)
	return scores, err
}

// encoderRecord is what decides what an encoder learns, as its run records it.
type encoderRecord struct {
	config.OneOf `yaml:",inline"`
	Cases        []string `yaml:"cases,flow"`
	Held         []string `yaml:"held,flow"`
}

// initialise gives the checkpoint that a trial starts from, pretraining it if need be; empty for
// random weights.
func (r *runner) initialise(ctx context.Context, t Trial) (string, error) {
	init := r.plan.pretrained(r.plan.initialisation(t.Init))
	if !init.pretrains() {
		return init.Checkpoint, nil
	}
	e, err := r.plan.encoder(init, t.Fold, r.plan.encoderOf(t.Seed), r.result.Cases, r.stores)
	if err != nil {
		return "", err
	}
	p := Pretraining{Init: e.Init, Fold: e.Fold, Number: e.Number, Data: e.Data}
	p.Folder = filepath.Join(r.Out, pretrainingFolder, init.Name)
	name := "pretraining " + init.Name
	if p.Fold > 0 {
		p.Folder = filepath.Join(p.Folder, fmt.Sprintf("fold-%d", p.Fold))
		name += fmt.Sprintf(", fold %d", p.Fold)
	}
	if p.Number > 0 {
		p.Folder = filepath.Join(p.Folder, fmt.Sprintf("encoder-%d", p.Number))
		name += fmt.Sprintf(", encoder %d", p.Number)
	}
	if checkpoint, done := r.encoders[p.Folder]; done {
		return checkpoint, nil
	}
	if err := free(r.Group(), p.Folder, compare); train.Occupied(err) {
		return "", &encoderError{err}
	} else if err != nil {
		return "", err
	}
	if r.Finished && !train.Finished(p.Folder) { // removed, to save room: the trial has its scores
		r.Console.Note(fmt.Sprintf("WARNING: %s: %s is not there, or not finished: the report has the trials that "+
			"began with this encoder, but neither its cost nor its own score", name, p.Folder))
		r.encoders[p.Folder] = train.Last(p.Folder)
		return train.Last(p.Folder), nil
	}
	if len(e.Left) > 0 {
		r.Console.Note(fmt.Sprintf("%s: %d of the %d cases of %s are left out, for folds test on "+
			"them (the same name, scan or patient): %s",
			name, len(e.Left), len(e.Left)+len(e.Cases), e.Data, safetext.List(e.Left)))
	}
	chosen, store, data, err := r.plan.pretraining(e, r.stores)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	there, here := store.Preparation(), r.store.Preparation()
	for _, line := range checkpoint.Unlike(there.SeenAs(here), store.Spacings(data.Train), here,
		r.store.Spacings(t.Train)) {
		r.Console.Note(fmt.Sprintf("WARNING: %s: %s", name, line))
	}
	p.Held = data.Validate
	var settings pretext.Config
	p.Task, settings = pretext.Scans.Chosen(&chosen.OneOf)
	resolved, err := config.Marshal(&encoderRecord{chosen.OneOf, checkpoint.ListForConfig(data.Train), data.Validate})
	if err != nil {
		return "", err
	}
	summary, err := settings.Pretrain(ctx, r.Device, data,
		r.Setting.Run(p.Folder, resolved, r.Console.Training(name, p.Task.Items)))
	r.Console.Trained()
	if train.Occupied(err) { // since it was looked at
		return "", &encoderError{err}
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	p.Steps = summary.Step
	r.encoders[p.Folder] = train.Last(p.Folder)
	r.result.Encoders = append(r.result.Encoders, p)
	return train.Last(p.Folder), nil
}

// relative writes a path of the experiment as seen from its folder, so that the folder can be moved
// between sittings.
func relative(base, path string) string {
	if rel, err := filepath.Rel(base, path); path != "" && err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}
