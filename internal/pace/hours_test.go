package pace

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
)

// What Fit promises, counted again: a run of the steps, with the validations that its settings ask
// for, takes no longer than the time, and one step more would.
func TestFit(t *testing.T) {
	const s = time.Second
	atTheEnd := func(o *voxsaw.Training) { o.ValidateEvery = 0 }
	for name, c := range map[string]struct {
		trial  Trial
		change func(*voxsaw.Training)
		given  []string
	}{
		"no validation":      {Trial{Start: s, Step: s}, nil, nil},
		"short validations":  {Trial{Start: s, Step: 3 * s / 10, Validation: 20 * s}, nil, nil},
		"long validations":   {Trial{Start: s, Step: s, Validation: 480 * s}, nil, nil},
		"as given":           {Trial{Start: s, Step: s, Validation: 50 * s}, nil, []string{"validate_every"}},
		"at the end alone":   {Trial{Start: 3 * s, Step: s, Validation: 300 * s}, atTheEnd, nil},
		"a long first step":  {Trial{Start: 40 * time.Minute, Step: 10 * time.Second}, nil, nil},
		"a sawtooth's steps": {Trial{Step: time.Second}, func(o *voxsaw.Training) { o.Schedule = "sawtooth" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := voxsaw.DefaultTraining()
			if c.change != nil {
				c.change(&o)
			}
			given := func(key string) bool { return len(c.given) > 0 && key == c.given[0] }
			f, err := c.trial.Fit(time.Hour, o, given)
			if err != nil {
				t.Fatal(err)
			}
			takes := func(steps, every int) time.Duration {
				all := c.trial.Start + time.Duration(steps)*c.trial.Step
				for step := 1; step <= steps; step++ {
					if step == steps || every > 0 && step%every == 0 {
						all += c.trial.Validation
					}
				}
				return all
			}
			n, budget := f.Training.Steps, time.Duration(0.95*float64(time.Hour))
			every := f.Training.ValidateEvery
			if all := takes(n, every); all > budget || all != f.Takes && c.given == nil {
				t.Errorf("%d steps take %v, said are %v", n, all, f.Takes)
			}
			slack := c.trial.Step
			if c.given != nil { // the end is validated, and perhaps just after another validation
				slack += c.trial.Validation
			}
			if all := takes(n, every); all < budget-slack {
				t.Errorf("%d steps take %v: there is room for more", n, all)
			}
			if c.given == nil && o.ValidateEvery > 0 && float64(f.Validations)*c.trial.Validation.Minutes() > 12 {
				t.Errorf("%d validations take a fifth of the time or more", f.Validations)
			}
			if c.given != nil && every != o.ValidateEvery {
				t.Errorf("validate_every %d became %d", o.ValidateEvery, every)
			}
			// The learning rate is as far in its schedule as that of the default at the same share.
			for _, share := range []float64{0.2, 0.5, 0.9} {
				was, is := o.Rate(int(share*float64(o.Steps))), f.Training.Rate(int(share*float64(n)))
				if n > 200 && (is < was*0.97-1e-4 || is > was*1.03+1e-4) {
					t.Errorf("at %g of the training the rate is %g, not %g", share, is, was)
				}
			}
		})
	}
	if _, err := (Trial{Step: time.Minute}).Fit(time.Second, voxsaw.DefaultTraining(),
		func(string) bool { return false }); !errors.Is(err, ErrNoStep) {
		t.Errorf("a minute in a second: %v", err)
	}
}

// A trial runs the training itself, tells how many steps it timed, and leaves the rest.
func TestTry(t *testing.T) {
	s, dev := store(t, true), traintest.CPU(t)
	var began []int
	trial, err := Try(t.Context(), time.Second, voxsaw.RunOptions{}, func(ctx context.Context, steps int,
		o voxsaw.RunOptions) error {
		began = append(began, steps)
		c := segment.DefaultConfig()
		c.Network = voxsaw.Network{Channels: 2, Levels: 1, Norm: "instance"}
		c.Crop, c.Train.Steps, c.Train.ValidateEvery = [3]int{16, 16, 16}, steps, 0
		_, _, err := segment.Finetune(ctx, dev, c, sample.Data{Store: s, Train: []string{"a"}, Validate: []string{"b"}},
			"", o)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(began) != 2 || began[0] != 1 || trial.Timed < 1 || trial.Step <= 0 || trial.Start <= 0 ||
		trial.Validation <= 0 {
		t.Errorf("%+v, begun for %d steps", trial, began)
	}
	// An error of the training, and a user who stops it, end the trial.
	broken := errors.New("broken")
	fails := func(context.Context, int, voxsaw.RunOptions) error { return broken }
	if _, err := Try(t.Context(), time.Second, voxsaw.RunOptions{}, fails); !errors.Is(err, broken) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stops := func(ctx context.Context, _ int, _ voxsaw.RunOptions) error {
		return &voxsaw.InterruptedError{Cause: ctx.Err()}
	}
	if _, err := Try(ctx, time.Second, voxsaw.RunOptions{}, stops); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// scripted is a training whose steps and held-out items take what is written down, by a clock of
// its own.
type scripted struct {
	now               time.Time
	first, step, save time.Duration // of the first step, of further ones, of a checkpoint
	items             []time.Duration
	ready             time.Duration // what the first item takes beside
}

func (s *scripted) begin(ctx context.Context, t voxsaw.Training, o voxsaw.RunOptions) error {
	ready := s.ready
	begun := s.now
	for step := 1; step <= t.Steps; step++ {
		s.now = s.now.Add(s.step)
		if step == 1 {
			s.now = s.now.Add(s.first - s.step)
		}
		o.Observer.Stepped(voxsaw.Progress{Step: step, Elapsed: s.now.Sub(begun)})
		if step == t.Steps || t.ValidateEvery > 0 && step%t.ValidateEvery == 0 {
			if watch, ok := o.Observer.(voxsaw.ValidationObserver); ok && len(s.items) > 0 {
				watch.Validating(step, 0, len(s.items))
			}
			for n, item := range s.items {
				s.now = s.now.Add(item + ready)
				ready = 0
				if watch, ok := o.Observer.(voxsaw.ValidationObserver); ok {
					watch.Validating(step, n+1, len(s.items))
				}
				if ctx.Err() != nil {
					return &voxsaw.InterruptedError{Cause: ctx.Err()}
				}
			}
			o.Observer.Validated(step, voxsaw.Validation{}, true)
		}
		if t.CheckpointEvery > 0 && step%t.CheckpointEvery == 0 {
			s.now = s.now.Add(s.save)
		}
		if ctx.Err() != nil {
			return &voxsaw.InterruptedError{Cause: ctx.Err()}
		}
	}
	return nil
}

// What the trial and Fit promise, by a clock that is written down: the trial, the training and its
// validations together take no longer than the time, and most of it, however uneven the held-out
// cases are. A validation that is carried out in the trial counts as it was, its largest case too.
func TestHoursAreKept(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	many := func(n int, each time.Duration) (all []time.Duration) {
		for range n {
			all = append(all, each)
		}
		return all
	}
	uneven, back := []time.Duration{9 * s, 3 * s, 3 * s, 3 * s}, []time.Duration{3 * s, 3 * s, 3 * s, 9 * s}
	defer func(clock func() time.Time) { train.Now = clock }(train.Now)
	for name, c := range map[string]struct {
		run        scripted
		hours      float64
		validation time.Duration // that the trial is to tell
	}{
		"nothing held out":         {scripted{first: 2 * s, step: 300 * ms}, 1, 0},
		"the first is the largest": {scripted{first: 2 * s, step: 300 * ms, items: uneven}, 1, 18 * s},
		"the last is the largest":  {scripted{first: 2 * s, step: 300 * ms, items: back}, 1, 18 * s},
		"many": {scripted{first: 2 * s, step: 300 * ms, items: many(100, 2*s), ready: 3 * s}, 3,
			200 * s},
		"a small one first, slow ones": {scripted{first: 9 * s, step: 4 * s,
			items: append([]time.Duration{31 * s}, many(19, 120*s)...)}, 3, 2400 * s},
		"slow ones":        {scripted{first: 9 * s, step: 4 * s, items: many(20, 40*s)}, 3, 800 * s},
		"a few minutes":    {scripted{first: s, step: 300 * ms, items: many(20, s)}, 0.05, 20 * s},
		"slow checkpoints": {scripted{first: 2 * s, step: 300 * ms, save: 10 * s, items: many(4, s)}, 1, 4 * s},
	} {
		t.Run(name, func(t *testing.T) {
			run := c.run
			begun := time.Unix(1e9, 0)
			run.now = begun
			train.Now = func() time.Time { return run.now }
			within := time.Duration(c.hours * float64(time.Hour))
			o := voxsaw.DefaultTraining()
			trial, err := Try(t.Context(), within, voxsaw.RunOptions{}, func(ctx context.Context, steps int,
				r voxsaw.RunOptions) error {
				return run.begin(ctx, voxsaw.Training{Steps: steps}, r)
			})
			if err != nil {
				t.Fatal(err)
			}
			if trial.Step != run.step || trial.Validation != c.validation {
				t.Errorf("a step takes %v, a validation %v: %+v", run.step, c.validation, trial)
			}
			if took := run.now.Sub(begun); took > within/10+trialItems*timeEnough {
				t.Errorf("the trial took %v", took)
			}
			fit, err := trial.Fit(within-run.now.Sub(begun), o, func(string) bool { return false })
			if err != nil {
				t.Fatal(err)
			}
			if err := run.begin(t.Context(), fit.Training, voxsaw.RunOptions{Observer: &stopwatch{stepped: func() {},
				least: math.MaxInt, enough: func() {}}}); err != nil {
				t.Fatal(err)
			}
			if took := run.now.Sub(begun); took > within || took < within*9/10 {
				t.Errorf("%d steps took %v of %v", fit.Training.Steps, took, within)
			}
		})
	}
}
