// Package bench times training steps and says where their time goes.
//
// Start at [Steps.Measure]. What it measures is a step's median and minimum and, on request, a
// [Profile]: the time of every kernel, of what the host moves in and out of a program, and of the
// optimiser, beside the time of the whole step, so that it can be seen how much of it is accounted
// for. The package knows no network.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/voxsaw/voxsaw/internal/nn"
)

// Steps are steps to be timed.
type Steps struct {
	Warmup, Timed int
	Compute       func(step int) error // runs the programs
	Update        func(step int) error // the optimiser; nil in inference
	Programs      []*nn.Program        // whose kernels Profile shows
}

// Options say what to measure beside the time of a step.
type Options struct {
	Profile bool      // the time of each kernel
	Samples io.Writer // where Go's CPU profile of the timed steps goes; nil: nowhere
	// the processor's time that the process has taken; nil: nobody asks
	CPU func() time.Duration
}

// Timing is what was measured.
type Timing struct {
	Median, Min, Mean time.Duration // of a step
	CPU               time.Duration // of all threads, a step on average; 0: not asked for
	// of a step: direct convolutions' and linear maps' multiplications and additions, three times
	// those of the forward pass in training
	FLOPs   float64
	Bytes   int64    // memory of the programs and the parameters
	Profile *Profile // nil where it was not asked for
}

// Check says what is wrong with the number of steps, nil if nothing is.
func (s Steps) Check() error {
	if s.Timed < 1 || s.Warmup < 0 {
		return errors.New("steps must be at least 1, warmup at least 0")
	}
	return nil
}

// Measure runs the steps, and stops between two of them where the context ends.
func (s Steps) Measure(ctx context.Context, o Options) (Timing, error) {
	if err := s.Check(); err != nil {
		return Timing{}, err
	}
	var t Timing
	for _, p := range s.Programs {
		t.Bytes += p.Bytes()
		if t.FLOPs += p.ForwardFLOPs(); s.Update != nil {
			t.FLOPs += 2 * p.ForwardFLOPs()
		}
	}
	var times []time.Duration
	var update, cpu time.Duration
	for step := range s.Warmup + s.Timed {
		if err := ctx.Err(); err != nil {
			return t, err
		}
		if step == s.Warmup {
			for _, p := range s.Programs {
				p.Profile(o.Profile)
			}
			if o.CPU != nil {
				cpu = o.CPU()
			}
			if o.Samples != nil {
				if err := pprof.StartCPUProfile(o.Samples); err != nil {
					return t, fmt.Errorf("starting the CPU profile: %w", err)
				}
				defer pprof.StopCPUProfile()
			}
		}
		start := time.Now()
		if err := s.Compute(step); err != nil {
			return t, err
		}
		computed := time.Now()
		if s.Update != nil {
			if err := s.Update(step); err != nil {
				return t, err
			}
		}
		if step >= s.Warmup {
			times = append(times, time.Since(start))
			update += time.Since(computed)
		}
	}
	if o.CPU != nil {
		t.CPU = (o.CPU() - cpu) / time.Duration(s.Timed)
	}
	if o.Profile {
		t.Profile = newProfile(s, times, update)
	}
	slices.Sort(times)
	n := len(times)
	for _, one := range times {
		t.Mean += one / time.Duration(n)
	}
	t.Min, t.Median = times[0], (times[(n-1)/2]+times[n/2])/2
	return t, nil
}
