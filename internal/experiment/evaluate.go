package experiment

import (
	"context"
	"fmt"

	"github.com/voxsaw/voxsaw/internal/outdir"
)

// An Evaluation measures networks N by one thing: by the DSC of what they segment, by puzzles that
// they solve, by a linear machine on their features, by a task that they are fine-tuned for.
type Evaluation[N any] interface {
	// What is what errors call it; "" where they say it themselves.
	What() string
	// Done says whether an earlier run has the outcome, or a network can have none. Rank 0 is
	// asked.
	Done(N) bool
	// Evaluate adds the outcome to what is known of a network. All ranks call it.
	Evaluate(context.Context, N) error
}

// Measure carries out those evaluations of the network of a part, in its folder, that have not been
// carried out. keep, which may be nil, is called after each. Another process must not measure the
// same network meanwhile.
func Measure[N any, E Evaluation[N]](ctx context.Context, s Setting, folder string, all []E, of N,
	keep func() error) (err error) {
	group, release := s.Group(), func() {}
	defer func() { release() }()
	if err := group.AtRoot(func() error {
		held, err := outdir.Hold(folder, func() error { return nil })
		if err == nil {
			release = held
		}
		return err
	}); err != nil {
		return err
	}
	for _, e := range all {
		done := group.Rank == 0 && e.Done(of)
		if err := group.FromRoot(&done); err != nil {
			return err
		}
		if done {
			continue
		}
		if err = e.Evaluate(ctx, of); err == nil && keep != nil {
			err = keep()
		}
		if err != nil && e.What() != "" {
			err = fmt.Errorf("%s: %w", e.What(), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
