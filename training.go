package voxsaw

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Training is the settings of a training: the loop and the optimiser.
type Training struct {
	// number of training steps
	Steps int `yaml:"steps" range:"[1,)" most:"1000000000"`
	// sgd (with momentum) or adamw
	Optimizer string `yaml:"optimizer" oneof:"sgd adamw"`
	// learning rate
	LR float64 `yaml:"lr" range:"(0,)"`
	// momentum of SGD, beta1 of AdamW
	Momentum float64 `yaml:"momentum" range:"[0,1)"`
	// beta2 of AdamW
	Beta2 float64 `yaml:"beta2" range:"[0,1)"`
	// weight decay: L2 with SGD, decoupled with AdamW
	WeightDecay float64 `yaml:"weight_decay"`
	// weight decay of all parameters; false: not of biases, norms and slopes
	DecayAll bool `yaml:"decay_all"`
	// learning rate over time; sawtooth: twice, of which the first time is the decoder's alone in
	// fine-tuning
	Schedule string `yaml:"schedule" oneof:"constant step poly cosine sawtooth"`
	// schedule step: steps between two drops of the learning rate
	StepSize int `yaml:"step_size" range:"[1,)" most:"1000000000"`
	// schedule step: factor of a drop
	Gamma float64 `yaml:"gamma" range:"(0,)"`
	// schedules poly and sawtooth: exponent
	Power float64 `yaml:"power"`
	// schedule sawtooth: steps of the first tooth
	Tooth int `yaml:"tooth" range:"[2,)" most:"1000000000"`
	// steps over which the learning rate rises from zero
	Warmup int `yaml:"warmup" most:"1000000000"`
	// largest norm of the gradient of all parameters together; 0: no clipping
	Clip float64 `yaml:"clip"`
	// validate and predict with an exponential moving average of the weights: its decay a step,
	// such as 0.999; 0: with the weights themselves
	Average float64 `yaml:"average" range:"[0,1)"`
	// micro-batches that a step's batch goes through the network in, one after another, to take
	// less memory: their gradients are added up, and are those of the whole batch; 0: the batch at
	// once
	Accumulate int `yaml:"accumulate,omitempty"`
	// accumulate with batch normalisation: each micro-batch is normalised by its own statistics, as
	// PyTorch's accumulation and several GPUs do; otherwise such networks are refused
	//
	// PartNorm has no effect without batch normalisation and Accumulate.
	PartNorm bool `yaml:"part_norm,omitempty"`
	// how ranks send the gradients that they add up: fp32; or bf16, which is half the bytes,
	// rounded before and after the sum; left out: fp32
	Reduce string `yaml:"reduce,omitempty" oneof:"fp32 bf16"`
	// steps between two validations; 0: only at the end
	ValidateEvery int `yaml:"validate_every" most:"1000000000"`
	// steps between two checkpoints; 0: only at the end
	CheckpointEvery int `yaml:"checkpoint_every" most:"1000000000"`
	// seed of everything random
	Seed uint64 `yaml:"seed"`
}

// DefaultTraining is a sensible start: SGD with momentum 0.9, a polynomial schedule, and clipping.
func DefaultTraining() Training {
	return Training{
		Steps: 1000, Optimizer: "sgd", LR: 1e-2, Momentum: 0.9, Beta2: 0.999, WeightDecay: 1e-4, DecayAll: true,
		Schedule: "poly", StepSize: 20000, Gamma: 0.1, Power: 0.9, Tooth: 100, Warmup: 30, Clip: 5, ValidateEvery: 200,
		CheckpointEvery: 100,
	}
}

// The words that the settings take.
var (
	optimizers = []string{"sgd", "adamw"}
	reductions = []string{"fp32", "bf16"}
	schedules  = []string{"constant", "step", "poly", "cosine", "sawtooth"}
)

// Check says what is wrong with the settings, nil if nothing is.
func (t Training) Check() error {
	if !slices.Contains(schedules, t.Schedule) {
		return fmt.Errorf("there is no schedule %q: choose one of %s", t.Schedule, strings.Join(schedules, ", "))
	}
	if !slices.Contains(optimizers, t.Optimizer) {
		return fmt.Errorf("there is no optimizer %q: choose one of %s", t.Optimizer, strings.Join(optimizers, ", "))
	}
	if t.Reduce != "" && !slices.Contains(reductions, t.Reduce) {
		return fmt.Errorf("gradients cannot be sent as %q: choose one of %s", t.Reduce, strings.Join(reductions, ", "))
	}
	if t.Schedule == "step" && t.StepSize < 1 {
		return fmt.Errorf("schedule step: step_size is %d, must be at least 1", t.StepSize)
	}
	if t.Schedule == "sawtooth" && !(t.Tooth >= 2 && t.Tooth < t.Steps) {
		return fmt.Errorf("schedule sawtooth: tooth is %d, must be from 2 to less than the %d steps", t.Tooth, t.Steps)
	}
	for _, v := range []struct {
		name  string
		value float64
	}{
		{"steps", float64(t.Steps)}, {"lr", t.LR}, {"momentum", t.Momentum}, {"weight_decay", t.WeightDecay},
		{"gamma", t.Gamma}, {"power", t.Power},
		{"warmup", float64(t.Warmup)}, {"clip", t.Clip}, {"accumulate", float64(t.Accumulate)},
		{"validate_every", float64(t.ValidateEvery)}, {"checkpoint_every", float64(t.CheckpointEvery)},
	} {
		if !(v.value >= 0) || math.IsInf(v.value, 1) {
			return fmt.Errorf("%s is %v, must be a number from 0 up", v.name, v.value)
		}
	}
	if !(t.Average >= 0 && t.Average < 1) {
		return fmt.Errorf("average is %v, must be from 0 to less than 1", t.Average)
	}
	if t.Optimizer == "adamw" && !(t.Momentum < 1 && t.Beta2 >= 0 && t.Beta2 < 1) {
		return fmt.Errorf("adamw: momentum (beta1) is %v and beta2 %v, both must be from 0 to less than 1", t.Momentum,
			t.Beta2)
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
// and, during the warm-up, times (step + 1) / Warmup. A sawtooth rises and falls twice, as nnssl's
// does (Wald et al., "An OpenMind for 3D medical vision self-supervised learning", 2024): with H =
// Tooth / 2, and from the second tooth on with the steps and the warm-up counted from its start,
//
//	sawtooth  (step + 1) / H                          before H
//	          (1 - (step - H) / (Tooth - H)) ^ Power  before Tooth
//	          (1 - s) ^ Power                         then
func (t Training) Rate(step int) float64 {
	if t.Schedule == "sawtooth" {
		half := t.Tooth / 2
		switch {
		case step < half:
			return t.LR * float64(step+1) / float64(half)
		case step < t.Tooth:
			return t.LR * math.Pow(1-float64(step-half)/float64(t.Tooth-half), t.Power)
		}
		second := t
		second.Schedule, second.Steps = "poly", t.Steps-t.Tooth
		return second.Rate(step - t.Tooth)
	}
	rate, s := t.LR, float64(step)/float64(max(t.Steps, 1))
	switch t.Schedule {
	case "step":
		rate *= math.Pow(t.Gamma, float64(step/t.StepSize))
	case "poly":
		rate *= math.Pow(1-s, t.Power)
	case "cosine":
		rate *= (1 + math.Cos(math.Pi*s)) / 2
	}
	if step < t.Warmup {
		rate *= float64(step+1) / float64(t.Warmup)
	}
	return rate
}
