package train

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"runtime/debug"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// A Job is a training with all that belongs to it. B is what it needs for one step.
type Job[B any] struct {
	Identity Identity
	Options  voxsaw.Training
	Groups   []ParamGroup // parameters with a rate or a decay of their own
	// Open opens what is trained on. It is not called for a run that is finished already. The notes
	// are what a person should know about the data.
	Open func() (notes []string, err error)
	// Declare declares the parameters of the whole model.
	Declare func(*nn.Params) error
	// Compile makes the programs. Run closes what it returns.
	Compile func(Workbench) (Learner[B], error)
	// Start sets the first weights of a new run, and says what it did; nil: they are random.
	Start func(*nn.Params) (note string, err error)
	// ByShare says what, besides the learning rate, depends on the share of the steps that are
	// done, and so changes where a run is given more steps: "the weight of a loss grows over the
	// first third of the steps"; empty: nothing.
	ByShare string
	// Undivided says what to choose where a network normalises by the batch, which then cannot be
	// divided, and has no other norm to choose; empty: it has.
	Undivided string
	// Idle says which settings do nothing beside the others, so that they must have been meant
	// otherwise: a new run is refused with it. One that is resumed has begun with them, and is
	// told; nil: there are none.
	Idle error
}

// A Workbench is what a job has to work with.
type Workbench struct {
	Device    device.Device
	Params    *nn.Params // with the parameters that were declared
	Optimizer Optimizer
	Group     Group
	Memory    int64 // limit in bytes of the network; 0: none
}

// A Learner is a task whose programs are compiled.
type Learner[B any] interface {
	Task[B]
	// Notes are what a person should know before the run, such as the memory of a step.
	Notes() []string
	// FLOPs is the arithmetic of what goes through the network at once, as [voxsaw.Summary] counts
	// it: of the forward part alone, and of both. It is the mean where steps differ.
	FLOPs() (forward, both float64)
	Close()
}

// Run carries out the job: from the run's folder over the data and the network to the last step. A
// run that is finished already is not repeated.
func (j Job[B]) Run(ctx context.Context, dev voxsaw.Device, o voxsaw.RunOptions, group Group) (voxsaw.Summary, error) {
	d, err := device.From(dev)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	group = group.Accumulating(j.Options.Accumulate)
	group.bf16 = j.Options.Reduce == "bf16"
	if o.Need != nil {
		*o.Need, err = j.need(d, o.Memory, group)
		return voxsaw.Summary{}, err
	}
	if group.single() && o.Ranks != nil && o.Ranks.Size() > 1 {
		return voxsaw.Summary{}, fmt.Errorf("this training cannot be divided over %d ranks: start one process",
			o.Ranks.Size())
	}
	if err := j.sameRun(d, o, group); err != nil {
		return voxsaw.Summary{}, err
	}
	folder, err := OpenRun(d, j.Identity, o)
	fresh := folder == nil && o.Mode != voxsaw.ModeResume || folder != nil && folder.unclaimed
	if err == nil && fresh && !o.Idle && group.Rank == 0 { // others do not know the mode
		err = config.Mistaken(j.Idle)
	}
	if err = group.Agree(err); err != nil {
		return voxsaw.Summary{}, err
	}
	folder.among(group)
	folder.until(j.Options.Steps)
	state := struct{ Finished, Started bool }{folder.Finished(), folder.Started()}
	if err := group.FromRoot(&state); err != nil {
		return voxsaw.Summary{}, err
	}
	if state.Finished {
		if folder == nil {
			return voxsaw.Summary{}, nil
		}
		folder.tidy()
		folder.Tell(o.Observer)
		return folder.Summary()
	}
	// All ranks wait in there for one that cannot join: no agreement, which that would wait in. Its
	// end ends the job.
	meeting, err := group.meet(d)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	w := Workbench{Device: d, Group: group, Memory: o.Memory, Params: nn.NewParams(d, j.Options.Seed)}
	defer debug.FreeOSMemory() // what the network took: a study makes the next one at once
	defer w.Params.Close()
	// What a rank cannot read, or has no memory for, ends all: the others would wait for it.
	learner, notes, err := j.prepare(&w)
	if err == nil {
		defer w.Optimizer.Close()
		defer learner.Close()
	}
	if err = group.Agree(err); err != nil {
		return voxsaw.Summary{}, err
	}
	notes = append(append(notes, meeting...), folder.computeWith(d)...)
	if !state.Started {
		note := "starting from scratch: random weights"
		if j.Start != nil {
			note, err = j.Start(w.Params)
		}
		if err = group.Agree(err); err != nil {
			return voxsaw.Summary{}, err
		}
		notes = append(notes, note)
	}
	for _, err := range config.Separate(j.Idle) {
		notes = append(notes, fmt.Sprintf("WARNING: %v; the run goes on without", err))
	}
	notes = append(notes, idle(j.Options, group.Size)...)
	if o.Observer != nil {
		for _, note := range notes {
			o.Observer.Note(note)
		}
	}
	summary, err := Train[B](ctx, learner, Setup{
		Options: j.Options, Optimizer: w.Optimizer, Group: group, Folder: folder, Observer: o.Observer,
		Loaders: o.Loaders, ByShare: j.ByShare,
		FLOPs: stepFLOPs(learner, w.Group) * float64(max(group.Size, 1)),
	})
	if note := w.Optimizer.SumNote(); err == nil && note != "" && o.Observer != nil {
		o.Observer.Note(note)
	}
	return summary, err
}

// idle warns of settings of a schedule, an optimiser or parts of a batch that are not the
// training's, where somebody has set them.
func idle(t voxsaw.Training, ranks int) (notes []string) {
	usual := voxsaw.DefaultTraining()
	for _, s := range []struct {
		name           string
		does           bool
		value, without any // where nobody has set it
		why            string
	}{
		{"step_size", t.Schedule == "step", t.StepSize, usual.StepSize, "it is of schedule step, and the schedule is " +
			t.Schedule},
		{"gamma", t.Schedule == "step", t.Gamma, usual.Gamma, "it is of schedule step, and the schedule is " +
			t.Schedule},
		{"power", t.Schedule == "poly" || t.Schedule == "sawtooth", t.Power, usual.Power,
			"it is of schedules poly and sawtooth, and the schedule is " + t.Schedule},
		{"tooth", t.Schedule == "sawtooth", t.Tooth, usual.Tooth, "it is of schedule sawtooth, and the schedule is " +
			t.Schedule},
		{"beta2", t.Optimizer == "adamw", t.Beta2, usual.Beta2, "it is of optimizer adamw, and the optimizer is " +
			t.Optimizer},
		{"part_norm", t.Accumulate > 1, t.PartNorm, false, "it is of accumulate, and batches are not divided"},
		{"reduce", ranks > 1 || t.Reduce == "fp32", t.Reduce, "",
			"it is how ranks send gradients, and there is one rank"},
	} {
		if !s.does && s.value != s.without {
			notes = append(notes, fmt.Sprintf("WARNING: %s %v does nothing: %s", s.name, s.value, s.why))
		}
	}
	return notes
}

// stepFLOPs is the arithmetic of a step on this rank. The forward part of a micro-batch runs twice.
func stepFLOPs[B any](l Learner[B], g Group) float64 {
	forward, both := l.FLOPs()
	if g.micro == nil {
		return both
	}
	return float64(g.micro.n) * (forward + both)
}

// sameRun makes sure that all ranks are about to do the same.
func (j Job[B]) sameRun(d device.Device, o voxsaw.RunOptions, group Group) error {
	return group.same(map[string]string{
		"version": voxsaw.Version(), "kind": j.Identity.Kind, settingsFact: string(o.Settings),
		"data set": "fingerprint " + j.Identity.Fingerprint,
		"device":   threads.ReplaceAllString(d.Describe(), ""),
	}, o.MayDiffer...)
}

// threads is what a device says of its threads, of which ranks may have more or fewer.
var threads = regexp.MustCompile(`, [0-9]+ threads?`)

// prepare opens the data, makes the optimiser and compiles the programs. What it returns must be
// closed, and so must the optimiser.
func (j Job[B]) prepare(w *Workbench) (_ Learner[B], notes []string, err error) {
	if notes, err = j.Open(); err != nil {
		return nil, nil, err
	}
	if err := j.Declare(w.Params); err != nil {
		return nil, nil, err
	}
	if err := divisible(w.Params, w.Group, j.Options.PartNorm, cmp.Or(j.Undivided,
		"choose the norm instance or group")); err != nil {
		return nil, nil, err
	}
	sending, err := newOverlap(w.Params, w.Group)
	if err != nil {
		return nil, nil, err
	}
	if sending != nil {
		w.Group = w.Group.after(sending)
	}
	if w.Optimizer, err = newOptimizer(w.Params, j.Options, j.Groups, !w.Group.Alone(), sending); err != nil {
		return nil, nil, err
	}
	learner, err := j.Compile(*w)
	if err != nil {
		w.Optimizer.Close()
		return nil, nil, err
	}
	notes = append(notes, learner.Notes()...)
	if n := w.Group.passes(); n > 1 {
		notes = append(notes,
			fmt.Sprintf("accumulate: a step is %d of these micro-batches, whose forward part runs twice: "+
				"first for the sums of the whole batch's loss", n))
	}
	return learner, notes, nil
}

// need rehearses the job, without any limit, to learn how much memory it needs.
func (j Job[B]) need(d device.Device, limit int64, group Group) (n voxsaw.MemoryNeed, err error) {
	rehearser, ok := d.(device.Rehearser)
	if !ok {
		return n, fmt.Errorf("%s cannot tell what a run needs", d.Name())
	}
	n.Limit = nn.NewParams(d, 0).Room(limit)
	rehearsal := rehearser.Rehearse()
	w := Workbench{Device: rehearsal, Group: group, Params: nn.NewParams(rehearsal, 0)}
	defer w.Params.Close()
	learner, _, err := j.prepare(&w)
	if err != nil {
		return n, err
	}
	n.Bytes, n.FLOPs = w.Params.Need(), stepFLOPs(learner, group)
	learner.Close()
	w.Optimizer.Close()
	return n, nil
}

// divisible says whether parts of the batch, on ranks or in micro-batches, train the same network
// as the whole batch does: not where the batch itself is normalised, unless each micro-batch shall
// be normalised by itself. The advice says what to choose instead.
func divisible(params *nn.Params, group Group, partNorm bool, advice string) error {
	if group.Alone() || partNorm && group.micro != nil && group.Size < 2 {
		return nil
	}
	for _, name := range params.Names() {
		if !params.Trained(name) {
			if group.micro != nil {
				return fmt.Errorf("%s is a statistic of the batch, which several micro-batches cannot share: %s, or "+
					"train without accumulate, or set part_norm, which normalises each micro-batch by itself",
					name, advice)
			}
			return fmt.Errorf("%s is a statistic of the batch, which several ranks "+
				"cannot share: %s, or train with one rank", name, advice)
		}
	}
	return nil
}
