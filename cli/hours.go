package cli

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pace"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/train"
)

// hours is the time that a training is given instead of a number of steps; 0: none.
type hours float64

// bind adds the flag.
func (h *hours) bind(cmd *cobra.Command) {
	cmd.Flags().Float64Var((*float64)(h), "hours", 0,
		"instead of --steps: as many as fit into this time, which the first ones of the training tell; "+
			"their number is written down, and a run that is resumed keeps it; 0: --steps")
}

// check says what is wrong with the flag.
func (h hours) check(cmd *cobra.Command) error {
	switch f := cmd.Flags(); {
	case !f.Changed("hours"):
		return nil
	case !(h > 0) || !numbers.Finite(float64(h)):
		return usagef("--hours is %g, must be a number above 0", float64(h))
	case f.Changed("steps"):
		return withHint(usagef("--hours beside --steps, which says how many there are"), "leave one of them out")
	}
	return nil
}

// givenSettings tells of settings of the training whether the command line, or its --config, gives
// them.
func givenSettings(cmd *cobra.Command) func(key string) bool {
	return func(key string) (given bool) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			given = given || config.Key(f) == trainKey+key && givenNow(cmd, f)
		})
		return given
	}
}

const trainKey = "train."

// settle writes the number of steps into the settings of a training, and what follows from it: the
// number of the run that goes on, or that of the steps that fit into the time. begin carries out
// the training with the settings as they are then.
func (h hours) settle(ctx context.Context, stderr io.Writer, run *runFlags, t *voxsaw.Training,
	begin func(context.Context, voxsaw.RunOptions) error) error {
	if h <= 0 {
		return nil
	}
	since, within := train.Now(), time.Duration(float64(h)*float64(time.Hour))
	text := fmt.Sprintf("hours %g", float64(h))
	ranks := jobOf(ctx).ranks()
	before, err := run.recordedSteps()
	if err != nil {
		return err
	}
	// Rank 0 alone need see the folder, and its clock counts.
	if err := fromFirst(ranks, &before); err != nil {
		return err
	}
	if before > 0 {
		t.Steps = before
		say(stderr, "%s: %s, as the run has it", text, numbers.Count(t.Steps, "step"))
		return nil
	}
	say(stderr, "%s: timing the first steps of the training", text)
	chosen := *t
	trial, err := pace.Try(ctx, within, voxsaw.RunOptions{Memory: run.memory.planned(), Loaders: run.loaders.n,
		Ranks: ranks}, func(ctx context.Context, steps int, o voxsaw.RunOptions) error {
		t.Steps, t.Schedule, t.ValidateEvery, t.CheckpointEvery = steps, "constant", 0, 0
		return begin(ctx, o)
	})
	*t = chosen
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: stopped before the steps were chosen: %w", text, ctx.Err())
	case err != nil:
		return run.explain(err)
	}
	fit, err := trial.Fit(within-train.Now().Sub(since), chosen, givenSettings(run.cmd))
	if err != nil {
		fit.Training.Steps = 0
	}
	n := &fit.Training
	if failed := fromFirst(ranks, &n.Steps, &n.Warmup, &n.StepSize, &n.Tooth, &n.ValidateEvery,
		&n.CheckpointEvery); failed != nil {
		return failed
	}
	if n.Steps == 0 {
		if err == nil {
			err = pace.ErrNoStep // for rank 0, which says why
		}
		return withHint(fmt.Errorf("%s: %w", text, err),
			"give it more hours, a smaller crop, or fewer held-out cases to validate on")
	}
	*t = fit.Training
	validations := ""
	if trial.Validation > 0 {
		validations = fmt.Sprintf(" and %s of %s", numbers.Count(fit.Validations, "validation"),
			terminal.Duration(trial.Validation))
	}
	say(stderr, "%s: %s, for one takes %s here, as %d of them took: with the first one%s that is %s", text,
		numbers.Count(t.Steps, "step"), terminal.Duration(trial.Step), trial.Timed, validations,
		terminal.Duration(fit.Takes))
	if run.out != "" {
		say(stderr, "%s: --config %s makes the same again, in another --out", text,
			hint.ShellWord(train.ConfigOf(run.out)))
	}
	return nil
}

// recordedSteps is the number of steps of the run to resume; 0 where there is no such run.
func (r *runFlags) recordedSteps() (int, error) {
	if !r.resume || r.out == "" || !train.Begun(r.out) {
		return 0, nil
	}
	path := train.ConfigOf(r.out)
	text, err := smallfile.Read(path, smallfile.Settings)
	if err != nil {
		return 0, err
	}
	var recorded struct {
		Train struct {
			Steps int `yaml:"steps"`
		} `yaml:"train"`
	}
	err = config.Unmarshal(path, text, &recorded)
	return recorded.Train.Steps, err
}

// fromFirst replaces numbers by those of rank 0.
func fromFirst(ranks voxsaw.Ranks, values ...*int) error {
	if ranks == nil {
		return nil
	}
	sent := make([]byte, 8*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint64(sent[8*i:], uint64(*v))
	}
	if err := ranks.Broadcast(sent); err != nil {
		return err
	}
	for i, v := range values {
		*v = int(binary.LittleEndian.Uint64(sent[8*i:]))
	}
	return nil
}
