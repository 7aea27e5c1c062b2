package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/train"
)

// This file: how several processes share the pieces of one study: the trials of an experiment, or
// the arms of a comparison on photographs. A piece is a folder, and who works on it holds it. There
// is no other arrangement between them: a process takes the next piece that nobody holds, and one
// that was killed lets go of its own. Ranks that carry out each piece together are as one process
// here: rank 0 looks and takes, and the others do as it does.

// patience is how long a process waits before it looks again whether an encoder that others
// pretrain is ready.
const patience = 2 * time.Second

// A Piece is what one process carries out of a study.
type Piece struct {
	Name   string
	Arm    string // a piece that fails ends its arm, and not those that it is compared with
	Folder string
}

// Sharing is the pieces of a study, which several processes may share.
type Sharing struct {
	Setting
	Study  Study
	Pieces []Piece
	Arms   string // what arms are called: "initialisations"
	// Done says whether the piece in a folder is finished.
	Done func(folder string) bool
	// Compare compares what a piece's results are read from with the digests that were written with
	// it.
	Compare func(folder string) error
	// Run carries out a piece, or reads what it has found before.
	Run func(ctx context.Context, n int) error
	// Owner has the study's files, and Begin, unless it is nil, records its plan in the folder that
	// this process has entered. All ranks call it.
	Owner outdir.Owner
	Begin func() error

	Left

	noted map[int]bool // pieces that were begun
}

// Left is what this process has not carried out of a study.
type Left struct {
	// Elsewhere are the pieces that other processes were at work on, or that are not finished where
	// only finished ones are asked for.
	Elsewhere []int
	// Failed says that pieces of some arms failed, and the others were carried out: by ranks, those
	// before.
	Failed bool
}

// ByOthers is how many pieces are others'. It implements [Outcome], as OthersWentOn does.
func (l Left) ByOthers() int { return len(l.Elsewhere) }

// OthersWentOn says whether the others were carried out where pieces of some arms failed.
func (l Left) OthersWentOn() bool { return l.Failed }

// ErrUnfinished says that a piece is not finished where only finished ones are asked for.
var ErrUnfinished = errors.New("is not finished")

// All runs the pieces, or the one that is asked for. Those that others are at work on are looked at
// again at the end: what is finished by then counts. The errors of pieces that failed come at the
// end.
func (s *Sharing) All(ctx context.Context) error {
	if s.Trial < 0 || s.Trial > len(s.Pieces) {
		return fmt.Errorf("there is no trial %d: the plan has %d", s.Trial, len(s.Pieces))
	}
	s.noted = map[int]bool{}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	waiting := map[int]bool{} // pieces that were held, or their encoders
	for n := range s.Pieces {
		if s.Trial == 0 || n+1 == s.Trial {
			waiting[n] = true
		}
	}
	var failed []error
	broken := map[string]bool{} // arms
	for {
		held, encoders, done := 0, 0, 0
		for n, piece := range s.Pieces {
			if broken[piece.Arm] && !s.Done(piece.Folder) {
				delete(waiting, n)
			}
			if !waiting[n] {
				continue
			}
			if err := s.stopped(ctx); err != nil {
				return err
			}
			var elsewhere *encoderError
			switch err := s.next(ctx, n); {
			case err == nil:
				delete(waiting, n)
				done++
			case errors.Is(err, ErrUnfinished):
				delete(waiting, n)
				s.Elsewhere = append(s.Elsewhere, n)
			case errors.As(err, &elsewhere):
				encoders++
			case train.Occupied(err):
				held++
			case s.goesOn(ctx, err):
				failed = append(failed, fmt.Errorf("trial %s: %w", piece.Name, err))
				s.Console.Note(
					fmt.Sprintf(
						"WARNING: trial %s failed: %v. No more of %s is run; the other %s go on",
						piece.Name,
						err,
						piece.Arm,
						s.Arms,
					),
				)
				broken[piece.Arm], s.Failed = true, true
				delete(waiting, n)
				done++
			default:
				// what is finished has its table
				s.Failed = s.Group().Size > 1 && s.others(ctx, err)
				return errors.Join(append(failed, fmt.Errorf("trial %s: %w", piece.Name, err))...)
			}
		}
		switch {
		case encoders > 0 && done == 0:
			select {
			case <-ctx.Done(): // of one rank perhaps
			case <-time.After(patience):
			}
		case encoders == 0 && (held == 0 || done == 0):
			for n := range s.Pieces {
				if waiting[n] {
					s.Elsewhere = append(s.Elsewhere, n)
				}
			}
			return errors.Join(failed...)
		}
	}
}

// enter takes part in the study's folder until leave is called, and records the plan there.
func (s *Sharing) enter() (leave func(), err error) {
	leave = func() {}
	// the other ranks read checkpoints there, and write predictions
	if err := s.Group().Shares(s.Out); err != nil {
		return nil, err
	}
	err = s.Group().AtRoot(func() error {
		// Several processes may work on one study. Finished trials are cleaned, too: runs that go
		// on clean their own.
		release, err := atomicfile.EnterAll(s.Out)
		if err != nil {
			return err
		}
		leave = release
		if err := s.Owner.Take(s.Out); err != nil {
			return err
		}
		return s.mayBegin()
	})
	if err == nil && s.Begin != nil {
		err = s.Begin()
	}
	if err != nil {
		leave()
	}
	return leave, err
}

// mayBegin refuses a new study with settings that do nothing. One that is begun is told of them.
func (s *Sharing) mayBegin() error {
	err := s.Study.Idle()
	if err == nil || !s.Study.Begun(s.Out) {
		return config.Mistaken(err)
	}
	s.Console.Note(fmt.Sprintf("WARNING: %v; the study goes on without", err))
	return nil
}

// stopped is an error if the context of any rank has ended.
func (s *Sharing) stopped(ctx context.Context) error {
	facts, err := s.Group().Any(ctx.Err() != nil)
	if err == nil && facts[0] {
		err = cmp.Or(ctx.Err(), context.Canceled)
	}
	return err
}

// goesOn says whether the pieces of other arms are run after one has failed. Ranks stop together.
func (s *Sharing) goesOn(ctx context.Context, err error) bool {
	several := false
	for _, piece := range s.Pieces {
		several = several || piece.Arm != s.Pieces[0].Arm
	}
	return s.others(ctx, err) && s.Group().Size < 2 && several
}

// others says whether a failure says nothing about other pieces: not where somebody stopped the
// study, where the disk is full, where the folder holds other runs, and where nothing was asked for
// but this piece.
func (s *Sharing) others(ctx context.Context, err error) bool {
	var stopped *voxsaw.InterruptedError
	var changed *voxsaw.ChangedError
	return ctx.Err() == nil && !errors.As(err, &stopped) && !errors.As(err, &changed) &&
		!atomicfile.OfMachine(err) && s.Trial == 0
}

// next runs a piece, unless another process holds it.
func (s *Sharing) next(ctx context.Context, n int) error {
	piece := s.Pieces[n]
	if err := free(s.Group(), piece.Folder, s.Compare); err != nil {
		return err
	}
	if s.Finished && !s.Done(piece.Folder) {
		return ErrUnfinished
	}
	if !s.noted[n] { // it may have waited for an encoder
		s.noted[n] = true
		s.Console.Note(fmt.Sprintf("trial %d of %d: %s", n+1, len(s.Pieces), piece.Name))
	}
	return s.Run(ctx, n)
}

// free is an error if another process is at work in a run's folder, or if files in it are not what
// was written.
func free(group train.Group, folder string, compare func(folder string) error) error {
	return group.AtRoot(func() error {
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

// An encoderError says that another process pretrains the encoder that a trial starts from.
type encoderError struct{ cause error }

func (e *encoderError) Error() string { return e.cause.Error() }

// all runs trials, or the one that is asked for.
func (r *runner) all(ctx context.Context, trials []Trial) error {
	scores := make([][]eval.Score, len(trials))
	s := &Sharing{Setting: r.Setting, Study: &r.plan, Arms: "initialisations", Done: finished, Compare: compare,
		Owner: owner, Begin: r.begin, Run: func(ctx context.Context, n int) (err error) {
			scores[n], err = r.trial(ctx, trials[n])
			return err
		}}
	for _, t := range trials {
		s.Pieces = append(s.Pieces, Piece{t.Name(), t.Init, t.Folder(r.Out)})
	}
	err := s.All(ctx)
	r.result.Left = s.Left
	for n, t := range trials {
		if scores[n] == nil {
			continue
		}
		r.result.Runs = append(r.result.Runs, eval.Trial{Initialisation: t.Init, Fraction: t.Fraction, Fold: t.Fold,
			Seed: t.Seed, Draw: r.plan.drawShared(t.Seed, t.Fraction), Components: r.plan.Inference.Components,
			Device: train.ComputerOf(t.Folder(r.Out)),
			Scores: r.markUnlearnt(t, scores[n])})
	}
	return err
}

// finished says whether a trial has its scores.
func finished(folder string) bool {
	if !train.Finished(folder) {
		return false
	}
	_, err := readScores(folder)
	return err == nil
}

// compare compares what a table is made of with the digests that were written with it.
func compare(folder string) error {
	_, err := atomicfile.Compare(folder, ScoresFile)
	return errors.Join(err, train.Compare(folder))
}
