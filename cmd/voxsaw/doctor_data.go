package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// pace is how long a step of a training takes here, on the user's data.
type pace struct {
	Verb     string   `json:"verb"`
	Crop     [3]int   `json:"crop"`
	Batch    int      `json:"batch"`
	Channels int      `json:"channels"`
	Seconds  float64  `json:"seconds_a_step"`
	Fits     int      `json:"steps_that_fit"` // into the time
	Default  int      `json:"default_steps"`
	Memory   []string `json:"memory"`
	Advice   string   `json:"advice"`
	Problem  string   `json:"problem,omitempty"` // why it cannot be trained like this
}

// trial is a training that can be begun for a few steps.
type trial struct {
	verb  string
	crop  [3]int
	batch int
	steps int
	begin func(ctx context.Context, n voxsaw.Network, o voxsaw.RunOptions) error
}

// trials are the trainings that the data is good for.
func (o doctorOptions) trials(store *prepared.Store, dev voxsaw.Device) ([]trial, error) {
	ids, err := caseIDs(store, false, false)
	if err != nil {
		return nil, err
	}
	task := pretext.Choice()
	_, puzzles := pretext.Chosen(&task)
	common := puzzles.Common()
	all := []trial{{"pretrain", o.cropOr(*common.Crop), *common.Batch, common.Train.Steps,
		func(ctx context.Context, n voxsaw.Network, run voxsaw.RunOptions) error {
			task := pretext.Choice()
			_, settings := pretext.Chosen(&task)
			c := settings.Common()
			*c.Network, *c.Crop, c.Train.Steps, c.Train.Clip = n, o.cropOr(*c.Crop), stepsTimed, o.Clip
			if err := settings.Resolve(store.Preparation()); err != nil {
				return err
			}
			return second(settings.Pretrain(ctx, dev, sample.Data{Store: store, Train: ids}, run))
		}}}
	if labelled, _ := divideLabelled(store, ids); len(labelled) > 0 {
		c := segment.DefaultConfig()
		all = append(all, trial{"finetune", o.cropOr(c.Crop), c.Batch, c.Train.Steps,
			func(ctx context.Context, n voxsaw.Network, run voxsaw.RunOptions) error {
				c := segment.DefaultConfig()
				c.Network, c.Crop, c.Train.Steps, c.Train.Clip = n, o.cropOr(c.Crop), stepsTimed, o.Clip
				c, err := c.Resolve(store)
				if err != nil {
					return err
				}
				_, _, err = segment.Finetune(ctx, dev, c, sample.Data{Store: store, Train: labelled}, "", run)
				return err
			}})
	}
	return all, nil
}

func second[T any](_ T, err error) error { return err }

// cropOr is the crop that was asked for, or a verb's own.
func (o doctorOptions) cropOr(own [3]int) [3]int {
	if o.Crop != [3]int{} {
		return o.Crop
	}
	return own
}

// Steps that are timed at most, and the time after which three are enough.
const (
	stepsTimed = 8
	timeEnough = 10 * time.Second
)

// stopwatch times the steps of a training and ends it when it knows enough.
type stopwatch struct {
	notes   []string
	at      []time.Duration // the end of each step
	enough  context.CancelFunc
	observe func(step int)
}

func (s *stopwatch) Started(int, int)                       {}
func (s *stopwatch) Validated(int, voxsaw.Validation, bool) {}
func (s *stopwatch) Saved(string, int)                      {}
func (s *stopwatch) Note(message string)                    { s.notes = append(s.notes, message) }

func (s *stopwatch) Stepped(p voxsaw.Progress) {
	s.at = append(s.at, p.Elapsed)
	s.observe(p.Step)
	if len(s.at) > 2 && p.Elapsed > timeEnough {
		s.enough()
	}
}

// median is that of the steps after the first, which makes itself ready.
func (s *stopwatch) median() time.Duration {
	var each []time.Duration
	for n := 1; n < len(s.at); n++ {
		each = append(each, s.at[n]-s.at[n-1])
	}
	if len(each) == 0 {
		return 0
	}
	slices.SortFunc(each, cmp.Compare[time.Duration])
	return each[len(each)/2]
}

// measure times a few steps of a training.
func (t trial) measure(ctx context.Context, n voxsaw.Network, memory int64, stderr io.Writer) (time.Duration, []string,
	error) {
	run, enough := context.WithCancel(ctx)
	defer enough()
	progress := terminal.NewProgress(stderr, fmt.Sprintf("timing %s, %s", t.verb, numbers.Count(n.Channels, "channel")),
		stepsTimed)
	watch := &stopwatch{enough: enough, observe: func(int) { progress.Add(1) }}
	err := t.begin(run, n, voxsaw.RunOptions{Observer: watch, Memory: memory})
	progress.Finish()
	var stopped *voxsaw.InterruptedError
	if errors.As(err, &stopped) && ctx.Err() == nil {
		err = nil
	}
	return watch.median(), watch.notes, err
}

// paces times the trainings that the data is good for, and says what fits into the time. Where a
// training's own number of steps does not, the network is timed with half its channels, too.
func (o doctorOptions) paces(cmd *cobra.Command, dev voxsaw.Device, memory int64) ([]pace, error) {
	store, err := openCache(o.Data)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	network, err := backbone.Resolve(o.Network)
	if err != nil {
		return nil, &usageError{err}
	}
	trials, err := o.trials(store, dev)
	if err != nil {
		return nil, err
	}
	var all []pace
	for _, t := range trials {
		p := pace{Verb: t.verb, Crop: t.crop, Batch: t.batch, Channels: network.Channels, Default: t.steps}
		step, notes, err := t.measure(cmd.Context(), network, memory, cmd.ErrOrStderr())
		if cmd.Context().Err() != nil {
			return nil, cmd.Context().Err()
		}
		if err != nil {
			p.Problem = err.Error()
			all = append(all, p)
			continue
		}
		p.Seconds, p.Memory, p.Fits = step.Seconds(), notes, o.fits(step)
		p.Advice = stepsThatFit(p.Fits)
		if p.Fits < t.steps && network.Channels > 1 {
			fewer := o.Network
			fewer.Channels = network.Channels / 2
			if step, _, err := t.measure(cmd.Context(), fewer, memory, cmd.ErrOrStderr()); err == nil {
				p.Advice += fmt.Sprintf(", or with --channels %d %s", fewer.Channels, stepsThatFit(o.fits(step)))
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// stepsThatFit is the flag for so many steps.
func stepsThatFit(n int) string {
	if n == 0 {
		return "not one step"
	}
	return fmt.Sprintf("--steps %d", n)
}

// fits is how many steps go into the time.
func (o doctorOptions) fits(step time.Duration) int {
	if step <= 0 {
		return 0
	}
	return int(o.Hours * float64(time.Hour) / float64(step))
}

// printPaces writes the table of trainings.
func (o doctorOptions) printPaces(w io.Writer, all []pace) error {
	t := terminal.TableData{
		Title: fmt.Sprintf("Trainings on %s in %s", o.Data,
			terminal.Duration(time.Duration(o.Hours*float64(time.Hour)))),
		Header: []string{"", "crop", "batch", "a step", "its own steps", "take", "what fits"},
		Right:  []bool{false, true, true, true, true, true, false}, Remarks: true,
	}
	for _, p := range all {
		row := []string{"voxsaw " + p.Verb, numbers.Extents(p.Crop[:]), fmt.Sprint(p.Batch)}
		if p.Problem != "" {
			t.Rows = append(t.Rows, append(row, "", "", "", p.Problem))
			continue
		}
		step := time.Duration(p.Seconds * float64(time.Second))
		t.Rows = append(t.Rows, append(row, terminal.Duration(step), fmt.Sprint(p.Default),
			terminal.Duration(time.Duration(p.Default)*step), p.Advice))
		for _, note := range p.Memory {
			t.Notes = append(t.Notes, p.Verb+": "+note)
		}
	}
	t.Notes = append(t.Notes, "Measured in a few steps; validations and checkpoints are not counted.")
	return terminal.Table(w, t)
}
