package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
)

// trainingRun is what a verb that trains has to say of its own.
type trainingRun struct {
	verb, items string // for the display: "pretrain", "puzzles"
	batch       autoBatch
	settings    any              // of the run, as it records them
	training    *voxsaw.Training // among these
	// told says what is learnt from, before the first step.
	told      func(stderr io.Writer) error
	run       func(context.Context, voxsaw.RunOptions) (voxsaw.Summary, error)
	mayDiffer []string // settings that may be others when the run is resumed
}

// train carries out a training in the run's folder.
func (r *runFlags) train(cmd *cobra.Command, t trainingRun) (voxsaw.Summary, error) {
	stderr, ctx := cmd.ErrOrStderr(), cmd.Context()
	try := func(ctx context.Context, o voxsaw.RunOptions) error {
		_, err := t.run(ctx, o)
		return err
	}
	err := t.batch.settle(stderr, r, func(o voxsaw.RunOptions) error { return try(ctx, o) })
	if err == nil {
		err = r.hours.settle(ctx, stderr, r, t.training, try)
	}
	if err != nil {
		return voxsaw.Summary{}, err
	}
	progress := newTrainProgress(stderr, t.verb, t.items)
	options, err := r.options(t.settings, progress)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	options.MayDiffer = append(options.MayDiffer, t.mayDiffer...)
	if err := t.told(stderr); err != nil {
		return voxsaw.Summary{}, err
	}
	summary, err := t.run(ctx, options)
	progress.finish()
	if err != nil {
		return summary, r.explain(err)
	}
	return summary, nil
}

// pretrain is train for what is judged by one score.
func (r *runFlags) pretrain(cmd *cobra.Command, t trainingRun, score string) error {
	s, err := r.train(cmd, t)
	if err != nil {
		return err
	}
	validated := ""
	if s.BestStep > 0 {
		validated = fmt.Sprintf("; %s %.1f %% at the end, %.1f %% at best (step %d)", score, 100*s.Validation.Score,
			100*s.Best, s.BestStep)
	}
	return r.finish(s, fmt.Sprintf("%s: %s%s", r.out, steps(s), validated))
}
