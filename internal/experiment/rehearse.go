package experiment

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/cluster"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: what the trainings of a plan take, before any of them runs. Each is made ready, of the
// plan's data or of made-up ones, and a few small steps may be timed.

// A Stage is what trainings are made ready on.
type Stage struct {
	Device voxsaw.Device
	Ranks  int // that carry out a trial together
	// MadeUp is an empty folder for made-up data; "": the plan's own are taken.
	MadeUp string
}

// The kinds of trainings.
const (
	OfPretraining = "pretraining"
	OfFinetuning  = "fine-tuning"
	// OfLabelling is no training: the teachers of a run label its scans. Nor is OfTesting: a run's
	// networks predict its test cases. Both are counted of the plan's own data alone.
	OfLabelling = "labelling"
	OfTesting   = "test"
)

// A Training is a training that is ready to run, or predictions that are ready to be made: see
// [OfLabelling]. Other trainings of its arm and kind take as much.
type Training struct {
	Name, Arm string // as errors call it, and what it belongs to
	Kind      string // such as [OfFinetuning]
	// Plan is how many of them the plan has, and Trial a trial of the arm: of its predictions,
	// which differ by the scans, the largest trial.
	Plan, Trial int
	Steps       int
	// Run runs the training, Small only [RateSteps] small steps of such a one.
	Run, Small func(voxsaw.RunOptions) error
	// Voxels is the number of voxels of the largest scan that may be predicted and scored.
	Voxels int

	predictions *voxsaw.MemoryNeed // what predictions need, which have nothing to run
}

// needs are those of the training.
func (t Training) needs() (cluster.Needs, error) {
	var need voxsaw.MemoryNeed
	if t.predictions != nil {
		need = *t.predictions
	} else if err := t.Run(voxsaw.RunOptions{Need: &need}); err != nil {
		return cluster.Needs{}, fmt.Errorf("%s: %w", t.Name, err)
	}
	return cluster.Needs{Memory: need.Bytes, FLOPs: float64(t.Steps) * need.FLOPs, Voxels: t.Voxels}, nil
}

// A Rehearsal is the arithmetic of a plan's trainings.
type Rehearsal struct {
	Works map[string]Work // by their kind
	// Rate is the operations that a step does in a second on the device, of a few small ones.
	Rate float64
}

// A Work is trainings of one kind, and the floating-point operations of all their steps.
type Work struct {
	Trainings int
	FLOPs     float64
}

// Rehearse counts the arithmetic of a study: where its data are ready, all of it, and else that of
// its trainings, on made-up data.
func Rehearse(ctx context.Context, s Study, dev voxsaw.Device, ready bool) (r Rehearsal, err error) {
	on := Stage{Device: dev, Ranks: 1}
	if !ready {
		if on.MadeUp, err = os.MkdirTemp("", "voxsaw-rehearsal"); err != nil {
			return r, err
		}
		defer os.RemoveAll(on.MadeUp)
	}
	r.Works = map[string]Work{}
	err = s.Trainings(ctx, on, func(t Training) error {
		if t.Plan == 0 {
			return nil
		}
		one, err := t.needs()
		if err != nil {
			return err
		}
		w := r.Works[t.Kind]
		r.Works[t.Kind] = Work{w.Trainings + t.Plan, w.FLOPs + float64(t.Plan)*one.FLOPs}
		if r.Rate == 0 && t.Small != nil {
			r.Rate, err = rateOf(t.Small)
		}
		return err
	})
	return r, err
}

// A Cost is the arithmetic of a trial of an initialisation: of the one with the most predictions.
type Cost struct {
	Init string `json:"initialisation"`
	// FLOPs are the floating-point operations of the trial, by kind: of the pretraining of its
	// encoder, though other trials may share that, of all of its networks and teachers, and of
	// predictions.
	FLOPs map[string]float64 `json:"flops"`
}

// Costs are those of the plan's initialisations. Nothing is trained.
func (p *Plan) Costs(ctx context.Context, dev voxsaw.Device) ([]Cost, error) {
	all := make([]Cost, len(p.Inits))
	for n, i := range p.Inits {
		all[n] = Cost{i.Name, map[string]float64{}}
	}
	err := p.Trainings(ctx, Stage{Device: dev, Ranks: 1}, func(t Training) error {
		if t.Trial == 0 {
			return nil
		}
		one, err := t.needs()
		of := slices.IndexFunc(p.Inits, func(i Initialisation) bool { return i.called() == t.Arm })
		all[of].FLOPs[t.Kind] += float64(t.Trial) * one.FLOPs
		return err
	})
	return all, err
}

// Needs is what a machine must have for a trial of a study that so many ranks carry out together.
// Nothing is trained.
func Needs(ctx context.Context, s Study, dev voxsaw.Device, ranks int) (n cluster.Needs, err error) {
	flops := map[string]float64{} // of a trial of each arm
	err = s.Trainings(ctx, Stage{Device: dev, Ranks: ranks}, func(t Training) error {
		one, err := t.needs()
		flops[t.Arm] += float64(t.Trial) * one.FLOPs
		n = cluster.Needs{Memory: max(n.Memory, one.Memory), FLOPs: max(n.FLOPs, flops[t.Arm]),
			Voxels: max(n.Voxels, one.Voxels)}
		return err
	})
	return n, err
}

// Time is how long the device takes for the steps.
func (r Rehearsal) Time() time.Duration {
	flops := 0.0
	for _, w := range r.Works {
		flops += w.FLOPs
	}
	return time.Duration(flops / r.Rate * float64(time.Second))
}

// RateSteps are the steps that a rate is measured on, the first among them, which does not count.
const RateSteps = 4

// rateOf is the operations in a second of a training of [RateSteps] steps.
func rateOf(training func(voxsaw.RunOptions) error) (float64, error) {
	step, err := Training{Steps: 1, Run: training}.needs()
	if err != nil {
		return 0, err
	}
	var watch stepClock
	// as one that goes on: whether a study may begin with its settings is not asked here
	if err = training(voxsaw.RunOptions{Observer: &watch, Mode: voxsaw.ModeResume}); err != nil {
		return 0, err
	}
	return watch.rate(step.FLOPs), nil
}

// A stepClock is an observer that knows when each step ended.
type stepClock struct{ at []time.Duration }

// Started implements [voxsaw.Observer], as the methods below do.
func (*stepClock) Started(int, int) {}

func (s *stepClock) Stepped(p voxsaw.Progress)            { s.at = append(s.at, p.Elapsed) }
func (*stepClock) Validated(int, voxsaw.Validation, bool) {}
func (*stepClock) Saved(string, int)                      {}
func (*stepClock) Note(string)                            {}

// rate is the operations in a second, given those of a step. The first step, which makes itself
// ready, is left out.
func (s *stepClock) rate(flops float64) float64 {
	n := len(s.at) - 1
	return flops * float64(n) / max(s.at[n]-s.at[0], time.Microsecond).Seconds()
}

// Trainings implements [Study]: of each initialisation, the fine-tuning of a trial and, before it,
// the pretraining of its encoder.
func (p *Plan) Trainings(ctx context.Context, s Stage, each func(Training) error) error {
	folds, err := p.foldCount()
	if err != nil {
		return err
	}
	on := *p
	var labels []string // of made-up patients
	if s.MadeUp != "" {
		if err := madeUp(s.MadeUp); err != nil {
			return err
		}
		labels, on.Data, on.Splits, on.Folds, on.RunFolds = []string{fmt.Sprint(phantom.Pancreas)}, s.MadeUp, "", 2, nil
		on.FoldScheme, on.Fractions, on.Curve, on.Unlabelled = dataset.FoldsConsecutive, []float64{1}, 0, 0
		on.Inits = slices.Clone(p.Inits)
		for n := range on.Inits {
			on.Inits[n].Data = ""
		}
	}
	stores := NewStores(Setting{}, prepared.Open)
	defer stores.Close()
	store, err := stores.Of(on.Data)
	if err != nil {
		return err
	}
	cases, err := on.casesOf(store)
	if err != nil {
		return err
	}
	trials := on.trials(cases)
	if err := on.checkUnlabelled(trials, s.Ranks); err != nil {
		return err
	}
	if s.MadeUp == "" { // of others nobody knows the sizes
		if err := on.checkTeachers(store, trials); err != nil {
			return err
		}
		if err := p.rehearsePredictions(s, store, cases, each); err != nil {
			return err
		}
	}
	voxels := 0
	for r := range store.Records() {
		voxels = max(voxels, r.Grid.Len(), r.Original.Len())
	}
	for n, i := range on.Inits {
		t, arm := trials[n], i.called() // the first of it: all need the same
		c, err := on.finetune(i)
		if labels != nil {
			c.Labels = labels
		}
		if err == nil {
			c, err = c.Resolve(store)
		}
		if err != nil {
			return fmt.Errorf("%s: finetune: %w", arm, err)
		}
		c.Batch /= s.Ranks
		data := sample.Data{Store: store, Train: t.Train, Unlabelled: t.Unlabelled}
		tune := func(c segment.Config, o voxsaw.RunOptions) error {
			_, _, err := segment.Finetune(ctx, s.Device, c, data, "", o)
			return err
		}
		if err := each(Training{Name: arm + ": finetune", Arm: arm, Kind: OfFinetuning, Steps: c.Train.Steps,
			Plan: folds * len(p.Fractions) * len(p.Seeds) * i.trainings(), Trial: i.trainings(), Voxels: voxels,
			Run:   func(o voxsaw.RunOptions) error { return tune(c, o) },
			Small: func(o voxsaw.RunOptions) error { return tune(small(c), o) }}); err != nil {
			return err
		}
		from := on.pretrained(i)
		if !from.pretrains() {
			continue
		}
		before := Training{Name: "initialisation " + from.Name + ": pretrain", Arm: arm, Kind: OfPretraining, Trial: 1}
		if i.Encoder == "" {
			before.Plan = p.Encoders
			if p.Inits[n].Data == "" && p.Unlabelled == 0 {
				before.Plan *= folds
			}
		}
		if err := on.rehearsePretraining(ctx, s, before, from, t, cases, stores, each); err != nil {
			return err
		}
	}
	return nil
}

// rehearsePredictions makes ready what the networks of each trial predict: label maps of the scans
// that its teachers label, and of its test cases.
func (p *Plan) rehearsePredictions(s Stage, store *prepared.Store, cases Cases, each func(Training) error) error {
	inference, err := p.Inference.Named()
	if err != nil {
		return fmt.Errorf("inference: %w", err)
	}
	predicted, trials := p.predicting(s.Device, store), p.trials(cases)
	for _, i := range p.Inits {
		c, err := p.finetune(i)
		if err == nil {
			c, err = c.Resolve(store)
		}
		if err != nil {
			return fmt.Errorf("%s: finetune: %w", i.called(), err)
		}
		predict := func(kind string, l segment.Labelling, o segment.Inference, scans func(Trial) []string) error {
			var all []Training
			largest := 0
			for _, t := range trials {
				if t.Init != i.Name {
					continue
				}
				need, err := predicted.need(c, o, l, scans(t))
				if err != nil {
					return fmt.Errorf("trial %s: %s: %w", t.Name(), kind, err)
				}
				need.FLOPs /= float64(s.Ranks) // which share out the cases
				all = append(all, Training{Name: t.Name() + ": " + kind, Arm: i.called(), Kind: kind, Plan: 1,
					Steps: 1, predictions: &need})
				if need.FLOPs > all[largest].predictions.FLOPs {
					largest = len(all) - 1
				}
			}
			for n, t := range all {
				if n == largest {
					t.Trial = 1
				}
				if err := each(t); err != nil {
					return err
				}
			}
			return nil
		}
		if i.Teachers > 0 {
			if err := predict(OfLabelling, segment.Labelling{Networks: i.Teachers, Targets: true},
				segment.DefaultInference(), func(t Trial) []string { return t.Unlabelled }); err != nil {
				return err
			}
		}
		if err := predict(OfTesting, segment.Labelling{Networks: i.networks()}, inference,
			func(t Trial) []string { return t.Test }); err != nil {
			return err
		}
	}
	return nil
}

// called is what errors call an initialisation.
func (i Initialisation) called() string { return "initialisation " + i.Name }

// rehearsePretraining makes the pretraining ready of the encoder that a trial starts from.
func (p *Plan) rehearsePretraining(ctx context.Context, s Stage, of Training, i Initialisation, t Trial, c Cases,
	stores *Stores[*prepared.Store], each func(Training) error) error {
	e, err := p.encoder(i, t.Fold, p.encoderOf(t.Seed), c, stores)
	if err != nil {
		return fmt.Errorf("%s: %w", of.Name, err)
	}
	chosen, _, data, err := p.pretraining(e, stores)
	if err != nil {
		return fmt.Errorf("%s: %w", of.Name, err)
	}
	if s.MadeUp != "" {
		data.Validate = nil // its arithmetic is not counted
	}
	settings := chosen.Settings()
	*settings.Common().Batch /= s.Ranks
	of.Steps, of.Run = settings.Common().Train.Steps, func(o voxsaw.RunOptions) error {
		_, err := settings.Pretrain(ctx, s.Device, data, o)
		return err
	}
	return each(of)
}

// pretraining is the task that an encoder is pretrained with, its settings resolved, and the cases.
func (p Plan) pretraining(e Encoder, stores *Stores[*prepared.Store]) (chosen Pretrain, store *prepared.Store,
	data sample.Data, err error) {
	if store, err = stores.Of(e.Data); err != nil {
		return chosen, store, data, err
	}
	data.Store = store
	if data.Train, data.Validate, err = dataset.HoldOut(e.Cases, dataset.PatientsOf(store.Records()), 0.15,
		p.SubsetSeed); err != nil {
		return chosen, store, data, err
	}
	if chosen, err = p.pretext(p.initialisation(e.Init)); err != nil {
		return chosen, store, data, err
	}
	settings := chosen.Settings()
	settings.Common().Train.Seed += uint64(e.Number)
	return chosen, store, data, config.Mistaken(settings.Resolve(store))
}

// foldCount is how many folds are run.
func (p Plan) foldCount() (int, error) {
	if len(p.RunFolds) > 0 || p.Splits == "" {
		return cmp.Or(len(p.RunFolds), p.Folds), nil
	}
	text, err := smallfile.Read(p.Splits, smallfile.List)
	if err != nil {
		return 0, err
	}
	var splits []json.RawMessage
	if err := json.Unmarshal(text, &splits); err != nil {
		return 0, fmt.Errorf("%s: %w", p.Splits, err)
	}
	return len(splits), nil
}

// small are settings, which are resolved, of a few steps on small crops.
func small(c segment.Config) segment.Config {
	if b, err := backbone.Of(c.Network); err == nil {
		for axis, multiple := range b.Multiple() {
			c.Crop[axis] = min(c.Crop[axis], max(2*multiple, 32/multiple*multiple))
		}
	}
	c.Batch, c.Train.Steps, c.Train.ValidateEvery, c.Train.CheckpointEvery, c.Train.Accumulate = 1, RateSteps, 0, 0, 0
	return c
}

// madeUp prepares made-up patients into a folder: four with labels, and two without.
func madeUp(folder string) error {
	w, err := prepared.NewWriter(folder, volume.DefaultPreparation())
	if err != nil {
		return err
	}
	for n := range 6 {
		scan, organs, err := phantom.New(uint64(n), phantom.Options{Shape: [3]int{48, 40, 40}})
		if err != nil {
			return err
		}
		if n >= 4 {
			organs = nil
		}
		if _, err := w.Add(prepared.Input{ID: fmt.Sprint(n), Image: scan, Labels: organs}); err != nil {
			return err
		}
	}
	return w.Finish()
}
