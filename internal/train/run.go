package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// A Setup is how a task is trained, and where the run is kept.
type Setup struct {
	Options Options
	Groups  []Group // learning rates of their own; may be empty
	// the optimiser, where the task's programs were compiled with it; nil: it is made from Options
	// and Groups
	SGD      *SGD
	Folder   *Folder  // nil: nothing is written
	Observer Observer // nil: nobody looks
	Loaders  int      // goroutines that prepare data; 0: 2
	Ahead    int      // batches prepared ahead of their use; 0: 4
}

// A Summary is the end of a run.
type Summary struct {
	Step     int // steps done
	BestStep int // the step with the highest score, 0 if nothing was validated
	Best     float64
	// the last one; of a resumed run perhaps read from its log, to seven digits
	Validation Validation
	Elapsed    time.Duration
	WaitShare  float64 // of the time, spent waiting for data
}

// Run trains a task to the end of its steps, from the folder's last checkpoint if there is one.
// After a run the parameters are those of the last step.
//
// It is here that a new run takes its folder, once there is a task with its first weights: from
// then on what the folder held before is gone.
//
// A context that ends stops the run after the step in hand, saves it, and gives an
// [InterruptedError]. A loss or gradient that is not finite gives a [DivergedError] and leaves the
// checkpoints as they were.
func Run[B any](ctx context.Context, task Task[B], setup Setup) (Summary, error) {
	l, err := newLoop(task.Params(), setup)
	if err != nil {
		return Summary{}, err
	}
	defer l.close()
	batches := NewPrefetch(ctx, l.meta.Step, l.options.Steps, cmp.Or(setup.Loaders, 2), cmp.Or(setup.Ahead, 4), task.Batch)
	defer batches.Close()
	l.observer.Started(l.meta.Step, l.options.Steps)
	for {
		if step := l.meta.Step; l.options.due(l.options.ValidateEvery, step) && l.meta.Validated < step {
			v, err := task.Validate(ctx, step)
			if err != nil && ctx.Err() != nil {
				return l.interrupt(ctx)
			}
			if err == nil {
				err = l.validated(v)
			}
			if err != nil {
				return l.summary(), fmt.Errorf("validation after step %d: %w", step, err)
			}
		}
		if err := l.saveIfDue(); err != nil {
			return l.summary(), err
		}
		if l.meta.Step >= l.options.Steps {
			return l.summary(), l.finish()
		}
		if ctx.Err() != nil {
			return l.interrupt(ctx)
		}
		start := time.Now()
		waited := batches.Waited()
		batch, err := batches.Next()
		if err != nil && ctx.Err() != nil {
			return l.interrupt(ctx)
		}
		if err != nil {
			return l.summary(), fmt.Errorf("preparing step %d: %w", l.meta.Step, err)
		}
		l.waited = batches.Waited()
		var result Result
		if err = l.optimiser.Begin(l.meta.Step); err == nil {
			result, err = task.Step(l.meta.Step, batch)
		}
		if err == nil {
			err = l.stepped(result, start, l.waited-waited)
		}
		if err != nil {
			return l.summary(), fmt.Errorf("step %d: %w", l.meta.Step, err)
		}
	}
}

// loop is the state of a run, whatever its batches are made of.
type loop struct {
	options             Options
	params              Params
	folder              *Folder
	observer            Observer
	optimiser           *SGD
	meta, saved         Meta // now, and in the last checkpoint
	metrics, validation *table
	release             func() // lets go of the folder
	last                Validation
	start               time.Time
	startStep           int
	waited              time.Duration
}

func newLoop(params Params, setup Setup) (*loop, error) {
	if err := setup.Options.Check(); err != nil {
		return nil, err
	}
	l := &loop{options: setup.Options, params: params, folder: setup.Folder, observer: setup.Observer, start: time.Now()}
	if l.observer == nil {
		l.observer = silent{}
	}
	var err error
	if l.optimiser = setup.SGD; l.optimiser == nil {
		if l.optimiser, err = NewSGD(params, setup.Options, setup.Groups); err != nil {
			return nil, err
		}
	}
	if l.folder == nil {
		return l, nil
	}
	if l.release, err = l.folder.hold(); err != nil {
		return nil, err
	}
	if err := l.open(); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// open takes the folder, or takes up the run that it holds.
func (l *loop) open() error {
	for _, note := range l.folder.notes {
		l.observer.Note(note)
	}
	if l.folder.unclaimed {
		if err := l.folder.claim(); err != nil {
			return err
		}
	}
	l.meta.Identity = l.folder.identity
	if _, err := os.Stat(l.folder.Last()); err == nil {
		if l.meta, err = ReadMeta(l.folder.Last()); err != nil {
			return fmt.Errorf("resuming: %w", err)
		}
		l.meta.Identity = l.folder.identity
		if err := restore(l.folder.Last(), l.params, l.optimiser.velocity); err != nil {
			return fmt.Errorf("resuming: %w", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("resuming: %w", err)
	}
	l.startStep, l.saved = l.meta.Step, l.meta
	var err error
	if l.metrics, err = openTable(filepath.Join(l.folder.path, metricsFile), l.meta.Step); err != nil {
		return err
	}
	if l.validation, err = openTable(filepath.Join(l.folder.path, validationFile), l.meta.Validated); err != nil {
		return err
	}
	if row := l.validation.row(); len(row) > 0 {
		l.last = Validation{Score: row[0].Value, Metrics: row[1:]}
	}
	return nil
}

func (l *loop) close() {
	for _, t := range []*table{l.metrics, l.validation} {
		if t != nil {
			t.close()
		}
	}
	if l.release != nil {
		l.release()
	}
}

// stepped looks at the loss and the gradients that the task left, and takes the step, or ends it
// where parameters were updated within the backward pass. Of a gradient that is not finite the
// parameters in memory are then lost; the checkpoint is not.
func (l *loop) stepped(r Result, start time.Time, waited time.Duration) error {
	norm := math.NaN()
	if numbers.Finite(r.Loss) {
		var err error
		if norm, err = l.optimiser.GradNorm(); err != nil {
			return err
		}
	}
	if !numbers.Finite(r.Loss) || !numbers.Finite(norm) {
		diverged := &DivergedError{Step: l.meta.Step, Loss: r.Loss, GradNorm: norm, Cases: r.Cases}
		if l.folder != nil {
			if _, err := os.Stat(l.folder.Last()); err == nil {
				diverged.Path = l.folder.Last()
			}
		}
		return diverged
	}
	if err := l.optimiser.Update(l.meta.Step, norm); err != nil {
		return err
	}
	rate := l.options.Rate(l.meta.Step)
	l.meta.Step++
	elapsed := time.Since(l.start)
	if l.metrics != nil {
		row := append([]Metric{{"loss", r.Loss}, {"lr", rate}, {"grad_norm", norm}}, r.Metrics...)
		row = append(row, Metric{"seconds", time.Since(start).Seconds()}, Metric{"wait_seconds", waited.Seconds()})
		if err := l.metrics.add(l.meta.Step, row); err != nil {
			return err
		}
	}
	l.observer.Stepped(Progress{
		Step: l.meta.Step, Steps: l.options.Steps, Loss: r.Loss, Rate: rate, GradNorm: norm, Metrics: r.Metrics, Items: r.Items, Elapsed: elapsed,
		Remaining: time.Duration(float64(elapsed) / float64(l.meta.Step-l.startStep) * float64(l.options.Steps-l.meta.Step)),
		WaitShare: l.waited.Seconds() / max(elapsed.Seconds(), 1e-9),
	})
	return nil
}

// validated logs a validation and keeps the weights if they are the best so far.
func (l *loop) validated(v Validation) error {
	if len(v.Metrics) == 0 { // nothing is held out
		l.meta.Validated = l.meta.Step
		return nil
	}
	if !numbers.Finite(v.Score) {
		return fmt.Errorf("the score is %v", v.Score)
	}
	best := l.meta.BestStep == 0 || v.Score > l.meta.Best
	l.meta.Validated, l.last = l.meta.Step, v
	if best {
		l.meta.Best, l.meta.BestStep = v.Score, l.meta.Step
	}
	l.observer.Validated(l.meta.Step, v, best)
	if l.folder == nil {
		return nil
	}
	if err := l.validation.add(l.meta.Step, append([]Metric{{"score", v.Score}}, v.Metrics...)); err != nil {
		return err
	}
	if best {
		return SaveCheckpoint(l.folder.Best(), l.params, l.meta)
	}
	return nil
}

func (l *loop) saveIfDue() error {
	if l.meta == l.saved || !l.options.due(l.options.CheckpointEvery, l.meta.Step) {
		return nil
	}
	return l.save()
}

// save writes the last checkpoint.
func (l *loop) save() error {
	if l.folder == nil {
		return nil
	}
	if err := writeCheckpoint(l.folder.Last(), l.params, l.optimiser.velocity, l.meta); err != nil {
		return err
	}
	l.saved = l.meta
	l.observer.Saved(l.folder.Last(), l.meta.Step)
	return l.folder.record(l.meta, false)
}

func (l *loop) interrupt(ctx context.Context) (Summary, error) {
	e := &InterruptedError{Step: l.meta.Step, Cause: context.Cause(ctx)}
	if err := l.save(); err != nil {
		return l.summary(), errors.Join(e, err)
	}
	if l.folder != nil {
		e.Path = l.folder.Last()
	}
	return l.summary(), e
}

func (l *loop) finish() error {
	if l.folder == nil {
		return nil
	}
	l.folder.finished = true
	return l.folder.record(l.meta, true)
}

func (l *loop) summary() Summary {
	elapsed := time.Since(l.start)
	return Summary{
		Step: l.meta.Step, BestStep: l.meta.BestStep, Best: l.meta.Best, Validation: l.last,
		Elapsed: elapsed, WaitShare: l.waited.Seconds() / max(elapsed.Seconds(), 1e-9),
	}
}
