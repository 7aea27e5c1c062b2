package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/train"
)

// This file: how several processes share the trials of one experiment. A trial is a folder, and who
// works on it holds it. There is no other arrangement between them: a process takes the next trial
// that nobody holds, and one that was killed lets go of its own. Ranks that carry out each trial
// together are as one process here: rank 0 looks and takes, and the others do as it does.

// patience is how long a process waits before it looks again whether an encoder that others
// pretrain is ready.
const patience = 2 * time.Second

// all runs trials, or the one that is asked for. Those that others are at work on are looked at
// again at the end: what is finished by then counts.
func (r *runner) all(ctx context.Context, trials []Trial) error {
	if r.Trial < 0 || r.Trial > len(trials) {
		return fmt.Errorf("there is no trial %d: the plan has %d", r.Trial, len(trials))
	}
	scores := make([][]eval.Score, len(trials))
	err := r.share(ctx, trials, scores)
	for n, t := range trials {
		if scores[n] == nil {
			continue
		}
		r.result.Runs = append(r.result.Runs, eval.Trial{Initialisation: t.Init, Fraction: t.Fraction, Fold: t.Fold,
			Seed: t.Seed, Components: r.result.components(t, r.Out), Scores: r.markUnlearnt(t, scores[n])})
	}
	return err
}

// share fills in the scores of trials that this process has run, or found finished. A trial that
// fails ends its initialisation, and not those that it is compared with: its error comes at the
// end.
func (r *runner) share(ctx context.Context, trials []Trial, scores [][]eval.Score) error {
	waiting := map[int]bool{} // trials that were held, or their encoders
	for n := range trials {
		if r.Trial == 0 || n+1 == r.Trial {
			waiting[n] = true
		}
	}
	var failed []error
	broken := map[string]bool{} // initialisations
	for {
		held, encoders, done := 0, 0, 0
		for n, t := range trials {
			if broken[t.Init] && !finished(t.Folder(r.Out)) {
				delete(waiting, n)
			}
			if !waiting[n] {
				continue
			}
			if err := r.stopped(ctx); err != nil {
				return err
			}
			var elsewhere *encoderError
			var err error
			switch scores[n], err = r.next(ctx, n, trials); {
			case err == nil:
				delete(waiting, n)
				done++
			case errors.Is(err, errUnfinished):
				delete(waiting, n)
				r.result.Elsewhere = append(r.result.Elsewhere, t)
			case errors.As(err, &elsewhere):
				encoders++
			case train.Occupied(err):
				held++
			case r.goesOn(ctx, err):
				failed = append(failed, fmt.Errorf("trial %s: %w", t.Name(), err))
				r.Console.Note(fmt.Sprintf("WARNING: trial %s failed: %v. No more of %s is run; the other initialisations go on", t.Name(), err, t.Init))
				broken[t.Init], r.result.Failed = true, true
				delete(waiting, n)
				done++
			default:
				// what is finished has its table
				r.result.Failed = r.group.Size > 1 && r.others(ctx, err)
				return errors.Join(append(failed, fmt.Errorf("trial %s: %w", t.Name(), err))...)
			}
		}
		switch {
		case encoders > 0 && done == 0:
			select {
			case <-ctx.Done(): // of one rank perhaps
			case <-time.After(patience):
			}
		case encoders == 0 && (held == 0 || done == 0):
			for n, t := range trials {
				if waiting[n] {
					r.result.Elsewhere = append(r.result.Elsewhere, t)
				}
			}
			return errors.Join(failed...)
		}
	}
}

// goesOn says whether the trials of other initialisations are run after one has failed. Ranks stop
// together.
func (r *runner) goesOn(ctx context.Context, err error) bool {
	return r.others(ctx, err) && r.group.Size < 2 && len(r.plan.Inits) > 1
}

// others says whether a failure says nothing about other trials: not where somebody stopped the
// experiment, where the disk is full, where the folder holds other runs, and where nothing was
// asked for but this trial.
func (r *runner) others(ctx context.Context, err error) bool {
	var stopped *voxsaw.InterruptedError
	var changed *voxsaw.ChangedError
	return ctx.Err() == nil && !errors.As(err, &stopped) && !errors.As(err, &changed) &&
		!atomicfile.OfMachine(err) && r.Trial == 0
}

// errUnfinished says that a trial, or its encoder, is not finished where only finished ones are
// asked for.
var errUnfinished = errors.New("is not finished")

// finished says whether a trial has its scores.
func finished(folder string) bool {
	if !train.Finished(folder) {
		return false
	}
	_, err := readScores(folder)
	return err == nil
}

// next runs a trial, unless another process holds it.
func (r *runner) next(ctx context.Context, n int, trials []Trial) ([]eval.Score, error) {
	folder := trials[n].Folder(r.Out)
	if err := r.free(folder); err != nil {
		return nil, err
	}
	if r.Finished && !finished(folder) {
		return nil, errUnfinished
	}
	if !r.noted[n] { // it may have waited for an encoder
		r.noted[n] = true
		r.Console.Note(fmt.Sprintf("trial %d of %d: %s", n+1, len(trials), trials[n].Name()))
	}
	return r.trial(ctx, trials[n])
}

// An encoderError says that another process pretrains the encoder that a trial starts from.
type encoderError struct{ cause error }

func (e *encoderError) Error() string { return e.cause.Error() }

// compare compares what a table is made of with the digests that were written with it.
func compare(folder string) error {
	_, err := atomicfile.Compare(folder, ScoresFile)
	return errors.Join(err, train.Compare(folder))
}

// free is an error if another process is at work in a run's folder, or if files in it are not what
// was written.
func (r *runner) free(folder string) error {
	return r.atRoot(func() error {
		release, err := atomicfile.Hold(folder)
		switch {
		case train.Occupied(err):
			return err
		case err == nil:
			defer release()
			return compare(folder)
		}
		return nil // a folder that is not there yet is free
	})
}
