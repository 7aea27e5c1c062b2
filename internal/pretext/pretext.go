// Package pretext is the lists of pretext tasks: what a network learns from scans, or from
// photographs, without labels before it learns what people want of it.
//
// Start at [Task] and [List]. A task registers itself in an init function; the command line and the
// experiments know tasks by these lists alone, none of them by name. What the tasks have in common
// is here, too: the way from settings to a finished run ([Train]). To add a task, see
// CONTRIBUTING.md.
package pretext

import (
	"context"
	"fmt"
	"image"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
)

// A Task is something to learn from samples without labels.
type Task struct {
	Name  string // such as jigsaw: what `task` says in a configuration
	Short string // what it is, for --help: "put the shuffled patches of a crop back"
	Items string // what is learnt from, for speeds: "puzzles"
	Title string // of its section in a report: "Puzzles of unseen cases"
	Score string // what the score of a validation is: "patches of held-out cases in place"
	// Searched says that an answer is searched for among configurations, so that [OpenOptions] may
	// say among which, and by what.
	Searched bool
	// New makes the default settings.
	New func() Config
	// Open brings a checkpoint of the task back, to see how well it is done.
	Open func(ctx context.Context, dev voxsaw.Device, checkpoint string, o OpenOptions) (Evaluator, error)
}

// Config is the settings of a task: a pointer to a struct that package config can read. Settings
// that tasks share have the same keys in all of them.
type Config interface {
	// Common is where the shared settings are.
	Common() Common
	// Resolve writes out what follows from other settings and from how the samples were prepared,
	// or says what is wrong.
	Resolve(of sample.Store) error
	// Idle says which settings do nothing beside the others, so that a new run is refused with
	// them; nil: none.
	Idle() error
	// Pretrain trains with settings that are resolved.
	Pretrain(ctx context.Context, dev voxsaw.Device, data sample.Data, o voxsaw.RunOptions) (voxsaw.Summary, error)
}

// PreparationOf is how the scans of a store were prepared; otherwise where it does not say.
func PreparationOf(of sample.Store, otherwise volume.Preparation) volume.Preparation {
	if scans, ok := of.(interface{ Preparation() volume.Preparation }); ok {
		return scans.Preparation()
	}
	return otherwise
}

// A Sharer is a Config that takes what it shares with another task's by itself; of any other,
// [Common.Set] does.
type Sharer interface{ Share(with Config) }

// An Overridden is a Config in which a setting follows from another one: it is told when [Override]
// has replaced some, so that it can forget those that followed from the old ones.
type Overridden interface {
	Overridden(before Config, by config.Section)
}

// Common points to the settings that all tasks on samples of a kind have.
type Common struct {
	Train         *voxsaw.Training
	Batch         *int
	ValidateCases *int // held-out samples to validate on; 0: all

	// of tasks on scans; else nil
	Network *voxsaw.Network
	Crop    *[3]int
	MaxAir  *float64 // crops with at most this share of air are preferred

	// Checkpoint is the file of the weights to start from, of tasks on photographs; else nil.
	Checkpoint *string
}

// Set copies the shared settings of another task.
func (c Common) Set(from Common) {
	*c.Network, *c.Train, *c.Crop, *c.Batch, *c.MaxAir, *c.ValidateCases = *from.Network, *from.Train, *from.Crop,
		*from.Batch, *from.MaxAir, *from.ValidateCases
}

// OpenOptions say how a trained task is played. Zeros stand for what it was trained with.
type OpenOptions struct {
	Rounds int   // at most; for tasks that are solved round by round
	Items  int   // that are made of each case
	Only   int   // of a searched task: the orders that there are; 0: all
	Unary  bool  // of a searched task: without binary terms
	Memory int64 // limit in bytes of the network; 0: none
	// Ranks are processes that share out the cases of an [Evaluator.Evaluate], of tasks on scans;
	// nil: this one has all.
	Ranks voxsaw.Ranks
}

// Group is the ranks.
func (o OpenOptions) Group() train.Group { return train.GroupOf(voxsaw.RunOptions{Ranks: o.Ranks}) }

// An Evaluator does a task with trained weights. Its methods are called from one goroutine at a
// time.
type Evaluator interface {
	// Evaluate does the task on cases, without variation: the same cases in the same order give the
	// same result.
	Evaluate(ctx context.Context, cases []sample.Sample) (Evaluation, error)
	// Picture shows how the task is done on a case.
	Picture(c sample.Sample) (Picture, error)
	// Notes are what a person should know beforehand.
	Notes() []string
	// Close gives the memory back.
	Close()
}

// An Evaluation is how well a task is done. Shares are from 0 to 1.
type Evaluation struct {
	Cases, Items int
	Measures     []Measure
	Score        int         // the measure that counts most
	Rounds       [][]float64 // the shares after each round; a task without rounds has one
	Chance       []float64   // what blind guessing scores
	Ceiling      []float64   // the most that can be scored; nil: everything
	Notes        []string
	// Record is what a program reads: it is marshalled to JSON.
	Record any
}

// A Measure is a share: its key in a file, and its title in a table.
type Measure struct{ Key, Title string }

// Final are the shares after the last round.
func (e Evaluation) Final() []float64 { return e.Rounds[len(e.Rounds)-1] }

// A Picture is an image with its caption.
type Picture struct {
	Image   image.Image
	Caption string
}

// A List is the tasks on samples of a kind: [Scans] or [Photographs].
type List struct {
	tasks  []Task
	prefix string // with which the kinds of their checkpoints begin, before the name
	verb   string // that makes these checkpoints
}

// The lists.
var (
	Scans       = &List{verb: "voxsaw pretrain"}
	Photographs = &List{verb: "voxsaw 2d pretrain", prefix: checkpoint.OnPhotographs}
)

// Register adds a task to the list. It is called by init functions.
func (l *List) Register(t Task) {
	if slices.ContainsFunc(l.tasks, func(other Task) bool { return other.Name == t.Name }) {
		panic(fmt.Sprintf("pretext: there are two tasks %q", t.Name))
	}
	l.tasks = append(l.tasks, t)
	slices.SortFunc(l.tasks, func(a, b Task) int { return strings.Compare(a.Name, b.Name) })
}

// Default is the task of a configuration that names none.
const Default = "jigsaw"

// Names lists the tasks, the default first.
func (l *List) Names() []string {
	names := []string{Default}
	for _, t := range l.tasks {
		if t.Name != Default {
			names = append(names, t.Name)
		}
	}
	return names
}

// Of finds a task by its name.
func (l *List) Of(name string) (Task, error) {
	for _, t := range l.tasks {
		if t.Name == name {
			return t, nil
		}
	}
	return Task{}, fmt.Errorf("there is no pretext task %q: choose one of %s", name, strings.Join(l.Names(), ", "))
}

// Choice is the part of a configuration that chooses a task and has its settings.
func (l *List) Choice() config.OneOf {
	var options []config.Option
	var help []string
	for _, name := range l.Names() {
		t, err := l.Of(name)
		if err != nil {
			panic(err) // the default task is not linked in
		}
		options = append(options, config.Option{Name: name, Value: t.New()})
		help = append(help, fmt.Sprintf("%s (%s)", name, t.Short))
	}
	return config.NewOneOf("task", "what is learnt: "+strings.Join(help, "; "), options...)
}

// Chosen is the task that was chosen, and its settings.
func (l *List) Chosen(o *config.OneOf) (Task, Config) {
	t, err := l.Of(o.Chosen)
	if err != nil {
		panic(err) // Choice has made it of this list
	}
	return t, o.Value().(Config)
}

// Override returns a copy of the settings in which a section of a file replaces values. The section
// may choose another task, which then starts from the shared settings of the first.
func Override(o *config.OneOf, name string, s config.Section) (config.OneOf, error) {
	c, err := o.Override(name, s, func(into, from any) {
		if own, ok := into.(Sharer); ok {
			own.Share(from.(Config))
			return
		}
		into.(Config).Common().Set(from.(Config).Common())
	})
	if err != nil || c.Chosen != o.Chosen {
		return c, err
	}
	if told, ok := c.Value().(Overridden); ok {
		told.Overridden(o.Value().(Config), s)
	}
	return c, nil
}

// Kinds are those of the checkpoints of the tasks, the default's first.
func (l *List) Kinds() []string {
	kinds := l.Names()
	for n, name := range kinds {
		kinds[n] = l.prefix + name
	}
	return kinds
}

// Open brings the checkpoint of any task back.
func (l *List) Open(ctx context.Context, dev voxsaw.Device, path string, o OpenOptions) (Task, checkpoint.Description,
	Evaluator, error) {
	d, err := checkpoint.ReadKind(path, "this takes one of "+l.verb, l.Kinds()...)
	if err != nil {
		return Task{}, d, nil, err
	}
	t, err := l.Of(strings.TrimPrefix(d.Kind, l.prefix))
	if err != nil {
		return t, d, nil, err
	}
	if !t.Searched && (o.Only != 0 || o.Unary) {
		return t, d, nil, fmt.Errorf("%s: --only-classes and --unary are for puzzles, and this is of task %s", path,
			t.Name)
	}
	e, err := t.Open(ctx, dev, path, o)
	return t, d, e, err
}
