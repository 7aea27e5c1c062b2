// Package train is the loop that every training of the program runs through: schedule, optimiser,
// checkpoints, resuming, validation, the log.
//
// Start at [Run], which is given a [Task] (what to learn) and a [Setup] (how, and where to keep
// it). A step's data is prepared ahead by goroutines ([Prefetch]); a [Folder] holds what a run
// leaves behind; a checkpoint is one safetensors file, read by [ReadMeta] and [LoadWeights]. The
// package knows no puzzles, no organs and no network: a Task brings its [Params].
//
// Nothing is random here, and a Task draws its random numbers from the run's seed and the step
// alone. So a run that was interrupted, or that died, and was resumed from its last checkpoint ends
// with the same bits as one that ran through.
package train

import (
	"context"
	"fmt"
	"strings"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Params are the named parameters and states of a model, as the loop sees them: *nn.Params.
type Params interface {
	Device() device.Device
	Names() []string // parameters and states, in the order of their declaration
	Shape(name string) device.Shape
	// into the given memory where that is enough, as append does
	ReadInto(name string, values []float32) ([]float32, error)
	Write(name string, values []float32) error // copies them

	// Values is the trained parameters, flat.
	Values() (device.Buffer, error)
	// Range says where a parameter lies in Values; ok is false for a state, which is saved but not
	// trained.
	Range(name string) (offset, bytes int64, ok bool)
	// Gradient is where the last step left the gradient of a parameter.
	Gradient(name string) (device.Buffer, error)
}

// A Task is something to learn. B is what it needs for one step: the crops of a batch, with labels
// or orders.
type Task[B any] interface {
	Params() Params

	// Batch makes the data of a step, from the run's seed and the step alone. It is called ahead of
	// time, from several goroutines at once.
	Batch(ctx context.Context, step int) (B, error)

	// Step computes the gradients of the batch's loss, unless that is not finite, and leaves them
	// to the optimiser or, where its programs update the parameters themselves, takes the step.
	Step(step int, batch B) (Result, error)

	// Validate measures on held-out cases, after the given number of steps. It changes no parameter
	// and no state. It stops early when ctx ends.
	Validate(ctx context.Context, step int) (Validation, error)
}

// A Result is what a step has to say. Every step names the same metrics in the same order.
type Result struct {
	Loss    float64
	Metrics []Metric
	Cases   []string // the cases of the batch, named if the loss is not finite
	Items   int      // how many puzzles or crops it was, for the speed
}

// A Validation is what held-out cases say. Every validation of a run names the same metrics in the
// same order. One without metrics says that there is nothing to validate on: then no checkpoint is
// the best.
type Validation struct {
	Score   float64 // the higher, the better: the best checkpoint is the one with the highest
	Metrics []Metric
}

// A Metric is a named number, a column of the log.
type Metric struct {
	Name  string
	Value float64
}

// A Group gives the parameters whose name starts with Prefix a learning rate of their own: the
// schedule's, times Factor(step). A parameter belongs to the first group that fits; factor 0 leaves
// the group as it is (no decay, no momentum).
type Group struct {
	Prefix string
	Factor func(step int) float64
}

// An InterruptedError says that a run was stopped by its context, at a step from which it can be
// resumed.
type InterruptedError struct {
	Step  int
	Path  string // of the checkpoint, empty if the run has no folder
	Cause error
}

func (e *InterruptedError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("stopped after step %d", e.Step)
	}
	return fmt.Sprintf("stopped after step %d and saved %s", e.Step, e.Path)
}

func (e *InterruptedError) Unwrap() error { return e.Cause }

// A ChangedError says that a run cannot be resumed, because its settings or its data are not those
// that it was started with.
type ChangedError struct {
	Path    string // of the run's folder
	Changes []string
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("cannot resume %s with other settings than it was started with:\n  %s", e.Path, strings.Join(e.Changes, "\n  "))
}

// A DivergedError says that the loss or the gradient of a step is not finite. The parameters are
// those before the step, unless the step was taken in the backward pass ([SGD.Updater]): then the
// checkpoint, which is never replaced by weights that are not finite, is what is left.
type DivergedError struct {
	Step           int
	Loss, GradNorm float64
	Cases          []string
	Path           string // the last good checkpoint, empty if there is none
}

func (e *DivergedError) Error() string {
	kept := "no checkpoint had been saved"
	if e.Path != "" {
		kept = "the last good checkpoint is " + e.Path
	}
	return fmt.Sprintf("loss %v, gradient norm %v on cases %s; %s: look at these cases, or lower the learning rate or the clipping",
		e.Loss, e.GradNorm, strings.Join(e.Cases, ", "), kept)
}
