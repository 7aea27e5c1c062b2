package train

import (
	"fmt"
	"math"
	"slices"
)

// Options are the settings of the loop and the optimiser.
type Options struct {
	Steps           int     `yaml:"steps" help:"number of training steps"`
	LR              float64 `yaml:"lr" help:"learning rate of SGD"`
	Momentum        float64 `yaml:"momentum" help:"momentum of SGD"`
	WeightDecay     float64 `yaml:"weight_decay" help:"weight decay (L2), of all parameters"`
	Schedule        string  `yaml:"schedule" help:"learning rate over time: constant, step, poly or cosine"`
	StepSize        int     `yaml:"step_size" help:"schedule step: steps between two drops of the learning rate"`
	Gamma           float64 `yaml:"gamma" help:"schedule step: factor of a drop"`
	Power           float64 `yaml:"power" help:"schedule poly: exponent"`
	Warmup          int     `yaml:"warmup" help:"steps over which the learning rate rises from zero"`
	Clip            float64 `yaml:"clip" help:"largest norm of the gradient of all parameters together; 0: no clipping"`
	ValidateEvery   int     `yaml:"validate_every" help:"steps between two validations; 0: only at the end"`
	CheckpointEvery int     `yaml:"checkpoint_every" help:"steps between two checkpoints; 0: only at the end"`
	Seed            uint64  `yaml:"seed" help:"seed of everything random"`
}

// DefaultOptions are a sensible start: SGD with momentum 0.9, a polynomial schedule, and clipping.
func DefaultOptions() Options {
	return Options{
		Steps: 1000, LR: 1e-2, Momentum: 0.9, WeightDecay: 1e-4, Schedule: "poly", StepSize: 20000, Gamma: 0.1, Power: 0.9,
		Warmup: 30, Clip: 5, ValidateEvery: 200, CheckpointEvery: 100,
	}
}

var schedules = []string{"constant", "step", "poly", "cosine"}

// Check says what is wrong with the options, nil if nothing is.
func (o Options) Check() error {
	if !slices.Contains(schedules, o.Schedule) {
		return fmt.Errorf("there is no schedule %q: choose one of %v", o.Schedule, schedules)
	}
	if o.Schedule == "step" && o.StepSize < 1 {
		return fmt.Errorf("schedule step: step_size is %d, must be at least 1", o.StepSize)
	}
	for _, v := range []struct {
		name  string
		value float64
	}{
		{"steps", float64(o.Steps)}, {"lr", o.LR}, {"momentum", o.Momentum}, {"weight_decay", o.WeightDecay}, {"gamma", o.Gamma}, {"power", o.Power},
		{"warmup", float64(o.Warmup)}, {"clip", o.Clip}, {"validate_every", float64(o.ValidateEvery)}, {"checkpoint_every", float64(o.CheckpointEvery)},
	} {
		if !(v.value >= 0) || math.IsInf(v.value, 1) {
			return fmt.Errorf("%s is %v, must be a number from 0 up", v.name, v.value)
		}
	}
	return nil
}

// Rate is the learning rate of a step, counted from 0. With s = step / Steps it is LR times
//
//	constant  1
//	step      Gamma ^ floor(step / StepSize)
//	poly      (1 - s) ^ Power
//	cosine    (1 + cos(pi s)) / 2
//
// and, during the warm-up, times (step + 1) / Warmup.
func (o Options) Rate(step int) float64 {
	rate, s := o.LR, float64(step)/float64(max(o.Steps, 1))
	switch o.Schedule {
	case "step":
		rate *= math.Pow(o.Gamma, float64(step/o.StepSize))
	case "poly":
		rate *= math.Pow(1-s, o.Power)
	case "cosine":
		rate *= (1 + math.Cos(math.Pi*s)) / 2
	}
	if step < o.Warmup {
		rate *= float64(step+1) / float64(o.Warmup)
	}
	return rate
}

// due says whether something that happens every so many steps, and at the end, happens after the
// given number of steps.
func (o Options) due(every, step int) bool {
	return step > 0 && (step == o.Steps || every > 0 && step%every == 0)
}
