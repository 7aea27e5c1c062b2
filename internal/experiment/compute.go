package experiment

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: what the initialisations cost. A difference counts only beside the compute that it
// took.

// cost is the training of several runs of a kind.
type cost struct {
	runs         int
	steps, flops float64 // sums over the runs
	predicting   float64 // likewise: what their networks predicted
	uncounted    bool    // a run was trained by a version that counted no FLOPs
}

// add adds the run in a folder.
func (c *cost) add(folder string) error {
	s, err := train.ReadStatus(folder)
	if err != nil {
		return err
	}
	c.runs++
	c.steps += float64(s.Step)
	c.flops += s.FLOPs()
	c.uncounted = c.uncounted || s.FLOPs() == 0
	return nil
}

// addOthers adds, to that of the trial that was added last, what its other networks took, and the
// label maps that its teachers made.
func (c *cost) addOthers(t Trial, i Initialisation, out string) error {
	folders := t.others(out, i)
	for k := range i.Teachers {
		folders = append(folders, t.teacher(out, k))
	}
	for _, folder := range folders {
		s, err := train.ReadStatus(folder)
		if err != nil {
			return err
		}
		c.steps += float64(s.Step)
		c.flops += s.FLOPs()
		c.uncounted = c.uncounted || s.FLOPs() == 0
	}
	if i.Teachers == 0 {
		return nil
	}
	targets, err := segment.ReadTargets(t.targets(out))
	if err == nil {
		c.flops += targets.FLOPs
	}
	return err
}

// cells are the mean steps and TFLOP of a run; empty where there is none, or nobody counted.
func (c cost) cells() (steps, teraflops any) {
	if c.runs == 0 {
		return nil, nil
	}
	if !c.uncounted {
		teraflops = c.flops / float64(c.runs) / 1e12
	}
	return c.steps / float64(c.runs), teraflops
}

// predicting is what networks take to predict the prepared cases of a plan.
type predicting struct {
	dev    voxsaw.Device
	plan   Plan
	store  *prepared.Store
	shapes map[string][3]int
	known  map[string]voxsaw.MemoryNeed
}

func (p Plan) predicting(dev voxsaw.Device, store *prepared.Store) predicting {
	all := predicting{dev, p, store, map[string][3]int{}, map[string]voxsaw.MemoryNeed{}}
	for c := range store.Records() {
		all.shapes[c.ID] = c.Grid.Shape
	}
	return all
}

// of is the arithmetic of the predictions of a trial, whose networks lie in some folders: of its
// test cases, by all of them, and of the cases of its learning curve, by each whenever it was
// validated.
func (p predicting) of(t Trial, i Initialisation, networks []string) (flops float64, err error) {
	c, err := p.plan.finetune(i)
	if err == nil {
		c, err = c.Resolve(p.store)
	}
	if err != nil {
		return 0, err
	}
	tests, err := p.need(c, p.plan.Inference, segment.Labelling{Networks: len(networks)}, t.Test)
	if flops = tests.FLOPs; err != nil || len(t.Curve) == 0 {
		return flops, err
	}
	curve, err := p.need(c, segment.Inference{Overlap: c.ValidateOverlap, Batch: 1, Mirror: c.ValidateMirror},
		segment.Labelling{Networks: 1}, t.Curve)
	for _, folder := range networks {
		if err != nil {
			return 0, err
		}
		var steps []float64
		steps, _, err = readCurve(train.Validations(folder))
		flops += float64(len(steps)) * curve.FLOPs
	}
	return flops, err
}

// need is that of a labelling of some cases.
func (p predicting) need(c segment.Config, o segment.Inference, l segment.Labelling,
	ids []string) (need voxsaw.MemoryNeed, err error) {
	for _, id := range ids {
		l.Shapes = append(l.Shapes, p.shapes[id])
	}
	same := fmt.Sprint(c.Crop, o, l) // of one network in all arms, and in all trials of a fold
	need, found := p.known[same]
	if found {
		return need, nil
	}
	if need, err = l.Need(p.dev, c, o); err == nil {
		p.known[same] = need
	}
	return need, err
}

// Compute is the table of what each initialisation cost: steps and arithmetic of pretraining one
// encoder and of one run of fine-tuning, which are read from the folders of the finished runs, and
// apart from them what its networks predicted.
func (r *Result) Compute(s Setting) (table.Table, error) {
	out := s.Out
	t := table.Table{Title: "Compute: one encoder, one run", Columns: []table.Column{
		{Key: "initialisation", Title: "initialisation"}, {Key: "encoders", Title: "encoders"},
		{Key: "pretraining_steps", Title: "steps of pretraining"},
		{Key: "pretraining_tflop", Title: "TFLOP of pretraining", Digits: 2},
		{Key: "runs", Title: "runs"}, {Key: "finetuning_steps", Title: "steps of fine-tuning"},
		{Key: "finetuning_tflop", Title: "TFLOP of fine-tuning", Digits: 2},
		{Key: "tflop", Title: "TFLOP of both", Digits: 2},
		{Key: "prediction_tflop", Title: "TFLOP of predictions", Digits: 2},
	}}
	store, err := prepared.Open(r.Plan.Data)
	if err != nil {
		return t, err
	}
	defer store.Close()
	predicted := r.Plan.predicting(s.Device, store)
	for _, i := range r.Plan.Inits {
		var pretraining, finetuning cost
		for _, e := range r.Encoders {
			if e.Init == r.Plan.pretrained(i).Name {
				if err := pretraining.add(e.Folder); err != nil {
					return t, err
				}
			}
		}
		for _, trial := range r.done() {
			if trial.Init == i.Name {
				if err := finetuning.add(trial.Folder(out)); err != nil {
					return t, err
				}
				if err := finetuning.addOthers(trial, i, out); err != nil {
					return t, err
				}
				flops, err := predicted.of(trial, i, append(trial.others(out, i), trial.Folder(out)))
				if err != nil {
					return t, err
				}
				finetuning.predicting += flops
			}
		}
		if finetuning.runs == 0 {
			continue
		}
		t.Rows = append(t.Rows, i.computeRow(pretraining, finetuning))
	}
	t.Notes = []string{
		"Means over encoders and over runs. TFLOP: 10^12 multiplications and additions of convolutions and " +
			"matrix products, forward and backward, as the direct formulas have them, whatever algorithm " +
			"computed them; validation is not counted.",
		"Predictions are in no sum: those of test cases, and of the cases of learning curves, of one run.",
	}
	if slices.ContainsFunc(r.Plan.Inits, func(i Initialisation) bool { return i.Teachers > 0 }) {
		t.Notes = append(t.Notes, "Fine-tuning counts the teachers of a run, and the label maps that they made.")
	}
	if slices.ContainsFunc(r.Plan.Inits, func(i Initialisation) bool { return i.networks() > 1 }) {
		t.Notes = append(t.Notes, "A run of several networks counts all of them.")
	}
	return t, nil
}

// computeRow is the row of an initialisation. What a checkpoint from outside the experiment took,
// nobody knows.
func (i Initialisation) computeRow(pretraining, finetuning cost) []any {
	steps, teraflops := pretraining.cells()
	if i.random() {
		steps, teraflops = 0.0, 0.0
	}
	tuning, tuned := finetuning.cells()
	var both any
	if a, ok := teraflops.(float64); ok {
		if b, ok := tuned.(float64); ok {
			both = a + b
		}
	}
	return []any{i.Name, pretraining.runs, steps, teraflops, finetuning.runs, tuning, tuned, both,
		finetuning.predicting / float64(finetuning.runs) / 1e12}
}
