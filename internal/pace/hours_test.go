package pace

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw"
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
