package pace

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/train"
)

// A Trial is what the beginning of a training took.
type Trial struct {
	Start      time.Duration // until the first step was done, and to begin the first validation
	Step       time.Duration // of those after it, in the mean
	Timed      int           // steps that it is the mean of
	Validation time.Duration // of all that is held out; 0: nothing is
}

// The trial's own numbers.
const (
	trialSteps = 3  // timed at least, the first one left out
	trialItems = 3  // held-out items that are timed at least, unless they take trialShare
	trialShare = 20 // part of the time that the timed steps may take, and the validation
	trialMost  = 30 * time.Second
)

// Try begins a training twice, and ends it as soon as enough is known: once for a step and a
// validation, of all that is held out unless that takes long, once for a few steps. begin carries
// the training out with so many steps, without validations before the last, in no folder. within is
// the time that the training shall have.
func Try(ctx context.Context, within time.Duration, o voxsaw.RunOptions,
	begin func(ctx context.Context, steps int, o voxsaw.RunOptions) error) (Trial, error) {
	long := min(within/trialShare, trialMost)
	held := heldOutWatch{began: train.Now(), long: long, most: max(within/trialShare, timeEnough)}
	run, enough := context.WithCancel(ctx)
	defer enough()
	held.enough, o.Observer = enough, &held
	if err := stoppedHere(ctx, begin(run, 1, o)); err != nil {
		return Trial{}, err
	}
	t, err := trySteps(ctx, long, 0, o, begin)
	if err != nil {
		return Trial{}, err
	}
	all, once := held.whole()
	t.Start, t.Validation = held.start+once, all
	return t, nil
}

// trySteps begins a training for its first steps: three, or those that fit into a time, but so many
// at most; 0: any number.
func trySteps(ctx context.Context, long time.Duration, most int, o voxsaw.RunOptions,
	begin func(ctx context.Context, steps int, o voxsaw.RunOptions) error) (Trial, error) {
	run, enough := context.WithCancel(ctx)
	defer enough()
	var start time.Duration
	began := train.Now()
	steps := stopwatch{enough: enough, least: trialSteps, most: most, long: long}
	steps.stepped = func() {
		if start == 0 {
			start = train.Now().Sub(began)
		}
	}
	o.Observer = &steps
	err := stoppedHere(ctx, begin(run, math.MaxInt32, o))
	t := Trial{Start: start}
	t.Step, t.Timed = steps.mean()
	return t, err
}

// stoppedHere is the error of a trial that its own watch may have ended. Of one that somebody has
// stopped nothing is left that could go on.
func stoppedHere(ctx context.Context, err error) error {
	if _, stopped := errors.AsType[*voxsaw.InterruptedError](err); stopped {
		return ctx.Err()
	}
	return err
}

// heldOutWatch times the items of a validation after the first step.
type heldOutWatch struct {
	voxsaw.Observer
	enough  context.CancelFunc
	long    time.Duration // after which those done are enough, if they are a few
	most    time.Duration // after which they are, however few
	began   time.Time
	start   time.Duration // until the first step was done
	since   time.Time     // the validation began
	done    int           // of these
	of      int           // items there are
	first   time.Duration // for the first of them, which makes itself ready
	elapsed time.Duration // for those done
}

func (h *heldOutWatch) Started(int, int)  {}
func (h *heldOutWatch) Saved(string, int) {}
func (h *heldOutWatch) Note(string)       {}
func (h *heldOutWatch) Stepped(voxsaw.Progress) {
	h.since = train.Now()
	h.start = h.since.Sub(h.began)
}

func (h *heldOutWatch) Validating(_, done, of int) {
	if done == 0 {
		h.since, h.of = train.Now(), of
		return
	}
	h.done, h.elapsed = done, train.Now().Sub(h.since)
	if done == 1 {
		h.first = h.elapsed
	}
	if done < of && h.elapsed > h.long && (done >= trialItems || h.elapsed > h.most) {
		h.enough()
	}
}

func (h *heldOutWatch) Validated(int, voxsaw.Validation, bool) {
	if h.done == 0 { // it does not tell of items
		h.done, h.of, h.elapsed = 1, 1, train.Now().Sub(h.since)
	}
}

// whole is the time of a whole validation, and what the first one takes beside that, where it was
// ended early: of one that was carried out, all counts, for its first item may be the largest.
func (h *heldOutWatch) whole() (all, once time.Duration) {
	switch {
	case h.done == 0:
		return 0, 0
	case h.done == h.of:
		return h.elapsed, 0
	case h.done == 1:
		return h.elapsed * time.Duration(h.of), 0
	}
	each := (h.elapsed - h.first) / time.Duration(h.done-1)
	return each * time.Duration(h.of), max(h.first-each, 0)
}

// Of the time of a training that is to take so long.
const (
	spare            = 0.05 // for checkpoints, pages and what else is not timed
	mostValidating   = 0.2  // for validations whose number nobody gave
	checkpointsEvery = 10 * time.Minute
	checkpoints      = 10 // at least, where the training is shorter
)

// A Fit is a training that fits into a time.
type Fit struct {
	Training    voxsaw.Training
	Validations int
	Takes       time.Duration // all of it, as the trial tells
}

// ErrNoStep says that not one step fits into the time.
var ErrNoStep = errors.New("not one step fits into the time")

// Fit gives a training the steps that fit into what is left of a time. given says of a setting, by
// its key, whether somebody has chosen it: it then stays. Of the others, those that count steps
// keep their share of all steps, so that the schedule is as long as the training; validations keep
// their number, unless they would take more than a fifth of the time; and checkpoints come every
// ten minutes, or a tenth of the time.
func (m Trial) Fit(left time.Duration, t voxsaw.Training, given func(key string) bool) (Fit, error) {
	budget := float64(left) * (1 - spare)
	room, step, validation := budget-float64(m.Start), max(float64(m.Step), 1), float64(m.Validation)
	f := Fit{Training: t, Validations: 1}
	var steps float64
	if every := t.ValidateEvery; given("validate_every") && every > 0 {
		// The end is validated, too, unless it is one of these.
		steps = math.Floor((room - validation) / (step + validation/float64(every)))
		f.Validations = int(math.Ceil(max(steps, 1) / float64(every)))
	} else {
		if every > 0 && !given("validate_every") {
			f.Validations = max(t.Steps/every, 1)
			if validation > 0 {
				f.Validations = max(min(f.Validations, int(room*mostValidating/validation)), 1)
			}
		}
		steps = math.Floor((room - float64(f.Validations)*validation) / step)
	}
	if !(steps >= 1) {
		return f, fmt.Errorf("%w: the first step takes %s, further ones %s, a validation %s, and %s are left",
			ErrNoStep, terminal.Duration(m.Start), terminal.Duration(m.Step), terminal.Duration(m.Validation),
			terminal.Duration(time.Duration(max(budget, 0))))
	}
	n := int(min(steps, math.MaxInt32))
	share := func(key string, count *int, least int) {
		if *count > 0 && !given(key) {
			*count = max(int(math.Round(float64(*count)*float64(n)/float64(max(t.Steps, 1)))), least)
		}
	}
	f.Training.Steps = n
	share("warmup", &f.Training.Warmup, 0)
	if t.Schedule == "step" {
		share("step_size", &f.Training.StepSize, 1)
	}
	if t.Schedule == "sawtooth" {
		share("tooth", &f.Training.Tooth, 2)
	}
	if t.ValidateEvery > 0 && !given("validate_every") {
		f.Training.ValidateEvery = (n + f.Validations - 1) / f.Validations
	}
	if !given("checkpoint_every") {
		f.Training.CheckpointEvery = max(int(min(budget/checkpoints, float64(checkpointsEvery))/step), 1)
	}
	f.Takes = m.Start + time.Duration(float64(n)*step+float64(f.Validations)*validation)
	return f, f.Training.Check()
}
