package voxsaw

import (
	"fmt"
	"strings"
	"time"
)

// Mode says what to do with a folder that holds a run already.
type Mode int

// A new run refuses a folder that holds one; a resumed run continues it, to the bit, perhaps to
// more steps than it was started with; force starts over.
const (
	ModeNew Mode = iota
	ModeResume
	ModeForce
)

// RunOptions say what a training leaves behind, who watches it and what it may take. All fields may
// be empty.
type RunOptions struct {
	// Folder is where the run lives: its configuration, log and checkpoints. Empty: nothing is
	// kept.
	Folder string
	// Mode says what to do if the folder holds a run.
	Mode Mode
	// Settings is the YAML that the folder and the checkpoints record, and that a resumed run is
	// compared with; nil: the configuration of the training itself.
	Settings []byte
	// MayDiffer names settings, by their dotted keys, on which the result does not depend: a
	// resumed run may have other values.
	MayDiffer []string
	// Idle lets a new run begin with settings that do nothing beside others, as one that is resumed
	// goes on with them: runs of a study share settings, and not all use each of them.
	Idle bool
	// Observer is told how the run gets on; nil: nobody is.
	Observer Observer
	// Memory limits the bytes of the network, its gradients and the state of the optimiser; 0: no
	// limit.
	Memory int64
	// Loaders is how many goroutines prepare data ahead of their use; 0: 2, and
	// where a GPU computes one less than there are cores, up to 16.
	Loaders int
	// Ranks are the processes that train together; nil: this one trains alone. Folder is then that
	// of rank 0, which alone writes; the others leave it empty.
	Ranks Ranks
	// Need, if not nil, is told how much memory the run needs. Then nothing is trained, and the
	// folder stays as it is.
	Need *MemoryNeed
}

// Ranks are processes that train one network together. Each computes a part of every batch, and all
// have the same weights. All ranks call the same methods in the same order.
type Ranks interface {
	// Rank is the number of this process, from 0; Size is how many there are.
	Rank() int
	Size() int
	// Name is a rank for a person: its number, and where it runs.
	Name(rank int) string
	// Sum replaces values by their sums over the ranks: the same bits on every rank.
	Sum(values []float32) error
	// Broadcast replaces data by rank 0's, of the same length on every rank.
	Broadcast(data []byte) error
	// Exchange cuts mine into as many parts of equal length as there are ranks, and gives part r to
	// rank r. theirs, of the same length, is then the parts that this rank was given, by rank.
	Exchange(mine, theirs []byte) error
	// Gather gives every rank the bytes of all, of any length.
	Gather(mine []byte) ([][]byte, error)
}

// MemoryNeed is the memory that a run needs where it need not compute convolutions twice to save
// some, and how much there is of it for the run, both in bytes. It is the device's own memory, or,
// where that has none, the host's; 0: nobody set a limit.
type MemoryNeed struct {
	Bytes, Limit int64
	// FLOPs is the arithmetic of a step, on this rank, as [Summary] counts it.
	FLOPs float64
}

// Fits says whether there is enough.
func (n MemoryNeed) Fits() bool { return n.Limit <= 0 || n.Bytes <= n.Limit }

// An Observer is told how a run gets on. Its methods are called from one goroutine.
type Observer interface {
	// Started says at which step the run begins, and how many there are.
	Started(step, steps int)
	Stepped(Progress)
	// Validated is called after a validation; best says that its score is the highest so far.
	Validated(step int, v Validation, best bool)
	// Saved is called after a checkpoint was written.
	Saved(path string, step int)
	// Note says something that a person should know.
	Note(message string)
}

// A ValidationObserver is an [Observer] that is told, too, how a validation gets on, which may take
// longer than the steps before it.
type ValidationObserver interface {
	Observer
	// Validating is called when a validation begins and after each held-out item: those done of how
	// many.
	Validating(step, done, of int)
}

// Progress is a step that has just been done.
type Progress struct {
	Step, Steps    int // steps done, steps in all
	Loss           float64
	Rate, GradNorm float64
	Metrics        []Metric
	Items          int           // puzzles or crops in the step
	Elapsed        time.Duration // since the run was started or resumed
	Remaining      time.Duration // at the mean speed so far
	WaitShare      float64       // of the time since then, spent waiting for data
}

// A Metric is a named number, a column of the log.
type Metric struct {
	Name  string
	Value float64
}

// A Validation is what held-out cases say. Every validation of a run names the same metrics in the
// same order. One without metrics says that there is nothing to validate on: then no checkpoint is
// the best.
type Validation struct {
	Score   float64 // the higher, the better: the best checkpoint is the one with the highest
	Metrics []Metric
	Notes   []string // what is odd about it, for a person; not kept in the log
	// Decisions say what it has decided about predictions, for a person; not kept in the log
	// either.
	Decisions []string
	// Unscored says that there was nothing to score: the score says nothing about the weights,
	// which are not kept as the best.
	Unscored bool
}

// A Summary is the end of a run.
type Summary struct {
	Step     int // steps done
	BestStep int // the step with the highest score, 0 if nothing was scored
	Best     float64
	// Validation is the last one; of a resumed run perhaps read from its log, to seven digits.
	Validation Validation
	Elapsed    time.Duration
	WaitShare  float64 // of the time, spent waiting for data
	// FLOPs is the arithmetic of all steps on all ranks, forward and backward: the multiplications
	// and additions of convolutions and matrix products as their direct formulas have them, as
	// torch.utils.flop_counter counts them. The second forward pass of micro-batches is in it.
	// Norms, activations, losses, validations and what is computed again to save memory are not. 0:
	// nobody counted.
	FLOPs float64
}

// Loaded says what became of the tensors of a checkpoint and of the parameters of a network.
type Loaded struct {
	Path    string
	Loaded  []string // parameters and states that have the checkpoint's values now
	Skipped []Skip   // tensors of the checkpoint that were not used
	Missing []string // parameters and states that were wanted and are not in the checkpoint
}

// A Skip is a tensor that was not used, and why.
type Skip struct{ Name, Reason string }

// String is the report for a person: a line of counts, then a line for each group of names with the
// same fate.
func (l Loaded) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d tensors loaded, %d skipped, %d missing", l.Path, len(l.Loaded), len(l.Skipped),
		len(l.Missing))
	if len(l.Loaded) > 0 {
		fmt.Fprintf(&b, "\n  loaded: %s", shorten(l.Loaded))
	}
	reasons := map[string][]string{}
	var order []string
	for _, s := range l.Skipped {
		if reasons[s.Reason] == nil {
			order = append(order, s.Reason)
		}
		reasons[s.Reason] = append(reasons[s.Reason], s.Name)
	}
	for _, reason := range order {
		fmt.Fprintf(&b, "\n  skipped, %s: %s", reason, shorten(reasons[reason]))
	}
	if len(l.Missing) > 0 {
		fmt.Fprintf(&b, "\n  not in the checkpoint, left at their initial values: %s", shorten(l.Missing))
	}
	return b.String()
}

// A PartialError says that weights to start from fit only a part of a network's encoder, so that
// what was learnt would mostly be lost: most likely they are of another network.
type PartialError struct {
	Fit, Of int    // tensors of the encoder that fit, and all that it has
	Loaded  Loaded // what would become of all
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("%d of the encoder's %d tensors fit the network, less than nine tenths; the "+
		"others would begin with random values\n  %v", e.Fit, e.Of, e.Loaded)
}

// shorten lists names, the middle of long lists left out.
func shorten(names []string) string {
	if n := len(names); n > 6 {
		return fmt.Sprintf("%s, ... (%d more) ..., %s", strings.Join(names[:3], ", "), n-4, names[n-1])
	}
	return strings.Join(names, ", ")
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

// Unwrap gives the context's error.
func (e *InterruptedError) Unwrap() error { return e.Cause }

// A ChangedError says that a run cannot be resumed, because its settings or its data are not those
// that it was started with.
type ChangedError struct {
	Path    string // of the run's folder
	Changes []string
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("cannot resume %s with other settings than it was started with:\n  %s", e.Path,
		strings.Join(e.Changes, "\n  "))
}

// A DivergedError says that the loss or the gradient of a step is not finite. Checkpoints are never
// replaced by weights that are not finite.
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
	return fmt.Sprintf("loss %v, gradient norm %v on cases %s; %s: look at these cases, or lower the learning "+
		"rate, or clip the gradient at a smaller norm",
		e.Loss, e.GradNorm, strings.Join(e.Cases, ", "), kept)
}

// A VanishedError says that the gradient of most of the network has been exactly 0 for many steps:
// its ReLUs are 0 for every input, and it does not learn any more. It happens where the learning
// rate is too high, within the first some hundred steps.
type VanishedError struct {
	Step, Since    int     // the last step looked at, and the first that was like it
	Share          float64 // of the parameters, from 0 to 1
	Loss, GradNorm float64
	Rate           float64 // the highest learning rate of the schedule
	Path           string  // the last checkpoint, empty if there is none
}

func (e *VanishedError) Error() string {
	kept := "no checkpoint had been saved"
	if e.Path != "" {
		kept = "the last checkpoint, " + e.Path + ", may be no better"
	}
	return fmt.Sprintf("since step %d the gradient of %.4g %% of the parameters is exactly 0, and the loss %.4g: the "+
		"network has stopped learning, most likely because its ReLUs are 0 for every input; %s: begin again in "+
		"another folder with a lower learning rate than %g (train.lr, --lr) or a longer warm-up",
		e.Since, 100*e.Share, e.Loss, kept, e.Rate)
}
