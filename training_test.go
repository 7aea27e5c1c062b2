package voxsaw_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/voxsaw/voxsaw"
)

func TestTrainingThatCannotBe(t *testing.T) {
	if err := voxsaw.DefaultTraining().Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*voxsaw.Training){
		"schedule":  func(o *voxsaw.Training) { o.Schedule = "polynomial" },
		"optimizer": func(o *voxsaw.Training) { o.Optimizer = "adam" },
		"rate":      func(o *voxsaw.Training) { o.LR = math.NaN() },
		"clip":      func(o *voxsaw.Training) { o.Clip = -1 },
		"infinity":  func(o *voxsaw.Training) { o.Momentum = math.Inf(1) },
		"step size": func(o *voxsaw.Training) { o.Schedule, o.StepSize = "step", 0 },
		"beta1":     func(o *voxsaw.Training) { o.Optimizer, o.Momentum = "adamw", 1 },
		"beta2":     func(o *voxsaw.Training) { o.Optimizer, o.Beta2 = "adamw", 1 },
		"tooth":     func(o *voxsaw.Training) { o.Schedule, o.Tooth = "sawtooth", o.Steps },
		"average":   func(o *voxsaw.Training) { o.Average = 1 },
	} {
		o := voxsaw.DefaultTraining()
		if change(&o); o.Check() == nil {
			t.Errorf("%s: passed", name)
		}
	}
}

func ExampleTraining_Rate() {
	t := voxsaw.Training{Steps: 100, LR: 0.01, Schedule: "poly", Power: 0.9, Warmup: 10}
	for _, step := range []int{0, 9, 50, 99} {
		fmt.Printf("%.5f\n", t.Rate(step))
	}
	// Output:
	// 0.00100
	// 0.00919
	// 0.00536
	// 0.00016
}

// The sawtooth of 60 steps with a first tooth of 20: up to the rate and down to nothing, and again.
func TestSawtooth(t *testing.T) {
	o := voxsaw.Training{Steps: 60, LR: 2, Schedule: "sawtooth", Power: 1, Tooth: 20, Warmup: 8, Optimizer: "sgd"}
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	for step, want := range map[int]float64{0: 0.2, 4: 1, 9: 2, 10: 2, 15: 1, 19: 0.2, 20: 2.0 / 8,
		27: 2 * (1 - 7.0/40), 40: 1, 59: 2.0 / 40} {
		if got := o.Rate(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("step %d: rate %v, want %v", step, got, want)
		}
	}
}
