// Package pace times trainings on a user's prepared cases: a few steps of each verb, to say how
// many fit into the time that there is.
//
// Start at [Options.Measure], for advice, at [Try], for a training that is about to begin, and at
// [Machine], for a plan. What single networks and operators take is package bench's.
package pace

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Options say what is timed: trainings with their own settings but for these.
type Options struct {
	Network voxsaw.Network
	Crop    [3]int  // zeros: each training's own
	Clip    float64 // largest norm of the gradients
	Hours   float64 // into which steps are to fit
	Memory  int64   // limit in bytes; 0: none
	// Timing is told that some steps of a training are going to be timed, and gives what is called
	// after each, and at their end.
	Timing func(verb string, channels, steps int) (stepped, ended func())
}

// A Pace is how long a step of a training takes here, on the user's data.
type Pace struct {
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
func (o Options) trials(store *prepared.Store, dev voxsaw.Device) []trial {
	labelled, unlabelled := store.ForTraining()
	task := pretext.Scans.Choice()
	_, puzzles := pretext.Scans.Chosen(&task)
	common := puzzles.Common()
	all := []trial{{"pretrain", cmp.Or(o.Crop, *common.Crop), *common.Batch, common.Train.Steps,
		func(ctx context.Context, n voxsaw.Network, run voxsaw.RunOptions) error {
			task := pretext.Scans.Choice()
			_, settings := pretext.Scans.Chosen(&task)
			c := settings.Common()
			*c.Network, *c.Crop, c.Train.Steps, c.Train.Clip = n, cmp.Or(o.Crop, *c.Crop), stepsTimed, o.Clip
			if err := settings.Resolve(store); err != nil {
				return err
			}
			data := sample.Data{Store: store, Train: slices.Concat(labelled, unlabelled)}
			_, err := settings.Pretrain(ctx, dev, data, run)
			return err
		}}}
	if len(labelled) > 0 {
		c := segment.DefaultConfig()
		all = append(all, trial{"finetune", cmp.Or(o.Crop, c.Crop), c.Batch, c.Train.Steps,
			func(ctx context.Context, n voxsaw.Network, run voxsaw.RunOptions) error {
				c := segment.DefaultConfig()
				c.Network, c.Crop, c.Train.Steps, c.Train.Clip = n, cmp.Or(o.Crop, c.Crop), stepsTimed, o.Clip
				c, err := c.Resolve(store)
				if err != nil {
					return err
				}
				_, _, err = segment.Finetune(ctx, dev, c, sample.Data{Store: store, Train: labelled}, "", run)
				return err
			}})
	}
	return all
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
	stepped func()
	least   int           // steps that are timed
	most    int           // which are enough, however short they are; 0: none are
	long    time.Duration // after which so many are enough
}

func (s *stopwatch) Started(int, int)                       {}
func (s *stopwatch) Validated(int, voxsaw.Validation, bool) {}
func (s *stopwatch) Saved(string, int)                      {}
func (s *stopwatch) Note(message string)                    { s.notes = append(s.notes, message) }

func (s *stopwatch) Stepped(p voxsaw.Progress) {
	s.at = append(s.at, p.Elapsed)
	s.stepped()
	if len(s.at) >= s.least && p.Elapsed > s.long || len(s.at) == s.most {
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

// mean is that of the later half of the steps, for which no data lay ready from before the first
// one, and how many these are.
func (s *stopwatch) mean() (time.Duration, int) {
	last := len(s.at) - 1
	if last < 1 {
		return 0, 0
	}
	from := last / 2
	return (s.at[last] - s.at[from]) / time.Duration(last-from), last - from
}

// measure times a few steps of a training.
func (o Options) measure(ctx context.Context, t trial, n voxsaw.Network) (time.Duration, []string, error) {
	run, enough := context.WithCancel(ctx)
	defer enough()
	stepped, ended := o.Timing(t.verb, n.Channels, stepsTimed)
	watch := &stopwatch{enough: enough, stepped: stepped, least: 3, long: timeEnough}
	err := t.begin(run, n, voxsaw.RunOptions{Observer: watch, Memory: o.Memory})
	ended()
	return watch.median(), watch.notes, stoppedHere(ctx, err)
}

// Measure times the trainings that the data is good for, and says what fits into the time. Where a
// training's own number of steps does not, the network is timed with half its channels, too.
func (o Options) Measure(ctx context.Context, dev voxsaw.Device, store *prepared.Store) ([]Pace, error) {
	network, err := backbone.Resolve(o.Network)
	if err != nil {
		return nil, err
	}
	var all []Pace
	for _, t := range o.trials(store, dev) {
		p := Pace{Verb: t.verb, Crop: t.crop, Batch: t.batch, Channels: network.Channels, Default: t.steps}
		step, notes, err := o.measure(ctx, t, network)
		if ctx.Err() != nil {
			return nil, ctx.Err()
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
			if step, _, err := o.measure(ctx, t, fewer); err == nil {
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
func (o Options) fits(step time.Duration) int {
	if step <= 0 {
		return 0
	}
	return int(o.Hours * float64(time.Hour) / float64(step))
}
