// Package train is the loop that every training of the program runs through: schedule, optimiser,
// checkpoints, resuming, validation, the log.
//
// Start at [Train], which is given a [Task] (what to learn) and a [Setup] (how, and where to keep
// it). A step's data is prepared ahead by goroutines ([Prefetch]); an [Optimizer] takes the step; a
// [Folder] holds what a run leaves behind. The package knows no puzzles, no organs and no network:
// a Task brings its [Params].
//
// Nothing is random here, and a Task draws its random numbers from the run's seed and the step
// alone. So a run that was interrupted, or that died, and was resumed from its last checkpoint ends
// with the same bits as one that ran through.
package train

import (
	"context"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
)

// Params are the named parameters and states of a model, as the loop sees them: *nn.Params.
type Params interface {
	checkpoint.Weights
	Device() device.Device
	// Values is the trained parameters, flat.
	Values() (device.Buffer, error)
	// States is the states, flat; nil, or of no bytes, where there are none.
	States() (device.Buffer, error)
	// Range says where a parameter lies in Values, in bytes; ok is false for a state, which is
	// saved but not trained.
	Range(name string) (offset, bytes int64, ok bool)
	// Gradient is where the last step left the gradient of a parameter.
	Gradient(name string) (device.Buffer, error)
	// SetOptimizerState is told how much memory is taken beside: so many bytes for each byte of
	// Values.
	SetOptimizerState(buffers int64)
}

// A Task is something to learn. B is what it needs for one step: the crops of a batch, with labels
// or orders.
type Task[B any] interface {
	Params() Params

	// Batch makes the data of a step, from the run's seed and the step alone. It is called ahead of
	// time, from several goroutines at once.
	Batch(ctx context.Context, step int) (B, error)

	// Step computes the gradients of the batch's loss, unless that is known not to be finite, and
	// leaves them to the optimiser or, where its programs update the parameters themselves, takes
	// the step. Where the optimiser decides, it may leave loss and metrics on the device.
	Step(step int, batch B) (Result, error)

	// Validate measures on held-out cases, after the given number of steps. It changes no parameter
	// and no state. It stops early when ctx ends.
	Validate(ctx context.Context, step int) (voxsaw.Validation, error)
}

// A Sender is a [Task] that can send a batch to the device while it computes the step before. On
// devices that cannot do both at once it does nothing.
type Sender[B any] interface {
	// Ahead is given the batch that Step will be called with next, or a part of it, and may be
	// called before the device has finished the last step. The batch is the same in memory then.
	Ahead(batch B) error
}

// A Pupil is a [Task] that learns from its own moving average, too.
type Pupil interface {
	// Taught is called before the first step. The function that it is given calls another while the
	// moving average and the parameters have changed places; it must not be called in step 0, after
	// which there is an average.
	Taught(swapped func(func() error) error)
}

// A Postprocessor is a [Task] whose validation also decides of which labels predictions keep the
// largest component alone. It is asked after each validation.
type Postprocessor interface {
	Largest() []checkpoint.Kept
}

// A Result is what a step has to say. Every step names the same metrics in the same order.
type Result struct {
	Loss    float64
	Metrics []voxsaw.Metric
	Cases   []string // the cases of the batch, named if the loss is not finite
	Items   int      // how many puzzles or crops it was, for the speed
	// Report says where loss and metrics lie on the device; nil: they are above.
	Report *Report
}

// A ParamGroup gives some parameters a learning rate of their own: the schedule's, times
// Factor(step), and a weight decay of their own: the settings', times Decay(step). A parameter
// belongs to the first group that its name fits; factor 0 leaves the group as it is (no decay, no
// momentum).
type ParamGroup struct {
	Fits   func(name string) bool
	Factor func(step int) float64
	Decay  func(step int) float64 // nil: 1
}
