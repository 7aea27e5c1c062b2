package train

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/exec"
	"github.com/voxsaw/voxsaw/internal/seed"
)

// TestSGDFollowsPyTorch holds twelve steps, with schedule, warm-up, clipping, momentum and decay,
// against torch.optim.SGD on the same gradients.
func TestSGDFollowsPyTorch(t *testing.T) {
	data, err := os.ReadFile("../../testdata/train_sgd.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Options struct {
			Steps       int
			LR          float64
			Momentum    float64
			WeightDecay float64 `json:"weight_decay"`
			Clip        float64
			Schedule    string
			Warmup      int
			StepSize    int `json:"step_size"`
			Gamma       float64
			Power       float64
		}
		Start            [][]float32
		Gradients, After [][][]float32
		Norms, Rates     []float64
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatal("the golden file holds no case")
	}
	for _, c := range cases {
		o := voxsaw.Training{
			Optimizer: "sgd", DecayAll: true, Steps: c.Options.Steps, LR: c.Options.LR, Momentum: c.Options.Momentum,
			WeightDecay: c.Options.WeightDecay, Clip: c.Options.Clip,
			Schedule: c.Options.Schedule, Warmup: c.Options.Warmup, StepSize: c.Options.StepSize,
			Gamma: c.Options.Gamma, Power: c.Options.Power,
		}
		m := newModel(t, 3)
		names := []string{"encoder.a", "encoder.b"}
		for i, name := range names {
			if err := m.Write(name, c.Start[i]); err != nil {
				t.Fatal(err)
			}
		}
		s, err := NewOptimizer(m, o, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		for step, gradients := range c.Gradients {
			for i, name := range names {
				if err := m.dev.UploadPlain(m.gradients, m.offsets[name], gradients[i]); err != nil {
					t.Fatal(err)
				}
			}
			taken, err := s.Take(step, nil)
			if err != nil {
				t.Fatal(err)
			}
			norm := taken.Norm
			// Both sides compute in float32: a handful of roundings a step, 6e-8 each, over twelve
			// steps.
			if math.Abs(norm-c.Norms[step]) > 1e-5 {
				t.Fatalf("%s step %d: gradient norm %v, want %v", o.Schedule, step, norm, c.Norms[step])
			}
			if r := o.Rate(step); math.Abs(r-c.Rates[step]) > 1e-9 {
				t.Fatalf("%s step %d: rate %v, want %v", o.Schedule, step, r, c.Rates[step])
			}
			for i, name := range names {
				got, err := m.Read(name)
				if err != nil {
					t.Fatal(err)
				}
				for j := range got {
					if want := c.After[step][i][j]; math.Abs(float64(got[j]-want)) > 1e-5 {
						t.Fatalf("%s step %d: %s[%d] is %v, want %v", o.Schedule, step, name, j, got[j], want)
					}
				}
			}
		}
	}
}

func encoders(name string) bool { return strings.HasPrefix(name, "encoder.") }

func TestGroupsHaveTheirOwnRate(t *testing.T) {
	m := newModel(t, 3)
	frozenThenHalf := func(step int) float64 {
		if step == 0 {
			return 0
		}
		return 0.5
	}
	s, err := NewOptimizer(m, voxsaw.Training{Optimizer: "sgd", Steps: 2, LR: 1, Schedule: "constant"},
		[]ParamGroup{{Fits: encoders, Factor: frozenThenHalf}}, false)
	if err != nil {
		t.Fatal(err)
	}
	ones := make([]float32, 64)
	for i := range ones {
		ones[i] = 1
	}
	if err := m.dev.UploadPlain(m.gradients, 0, ones); err != nil {
		t.Fatal(err)
	}
	for step, moved := range []map[string]float32{{"encoder.a": 0, "encoder.b": 0, "head": 1},
		{"encoder.a": 0.5, "encoder.b": 0.5, "head": 1}} {
		before := m.snapshot(t)
		if _, err := s.Take(step, nil); err != nil {
			t.Fatal(err)
		}
		after := m.snapshot(t)
		for name, want := range moved {
			if d := before[name][0] - after[name][0]; math.Abs(float64(d-want)) > 1e-6 {
				t.Errorf("step %d: %s moved by %v, want %v", step, name, d, want)
			}
		}
	}
}

// A group's weight decay is the settings' times its own factor.
func TestGroupsHaveTheirOwnDecay(t *testing.T) {
	for _, name := range []string{"sgd", "adamw"} {
		m := newModel(t, 3)
		halfThenNone := func(step int) float64 { return 0.5 * float64(1-step) }
		twice := func(int) float64 { return 2 }
		o := voxsaw.Training{Optimizer: name, DecayAll: true, Steps: 2, LR: 0.25, Beta2: 0.9, WeightDecay: 0.1,
			Schedule: "constant"}
		s, err := NewOptimizer(m, o, []ParamGroup{{Fits: encoders, Factor: twice, Decay: halfThenNone}}, false)
		if err != nil {
			t.Fatal(err)
		}
		// nothing but decay moves
		if err := m.dev.UploadPlain(m.gradients, 0, make([]float32, 64)); err != nil {
			t.Fatal(err)
		}
		for step, share := range []map[string]float64{{"encoder.a": 0.025, "head": 0.025},
			{"encoder.a": 0, "head": 0.025}} {
			before := m.snapshot(t)
			if _, err := s.Take(step, nil); err != nil {
				t.Fatal(err)
			}
			after := m.snapshot(t)
			for parameter, want := range share {
				moved := float64(before[parameter][0]-after[parameter][0]) / float64(before[parameter][0])
				if math.Abs(moved-want) > 1e-6 {
					t.Errorf("%s, step %d: %s moved by %v of itself, want %v", name, step, parameter, moved, want)
				}
			}
		}
	}
}

// Steps that are taken parameter by parameter, each as soon as its gradient is there or together
// with it, leave the bits of those taken together, frozen groups and gradient norms included.
func TestUpdaterEqualsUpdate(t *testing.T) {
	o := voxsaw.Training{Optimizer: "sgd", DecayAll: true, Steps: 4, LR: 0.1, Momentum: 0.9, WeightDecay: 1e-2,
		Schedule: "poly", Power: 0.9}
	groups := []ParamGroup{{Fits: encoders, Factor: func(step int) float64 { return float64(step % 2) }}}
	// whose weights "encoder.a" are
	conv := device.ConvSpec{N: 1, In: 2, Out: 3, Size: [3]int{1, 1, 1}, Kernel: [3]int{1, 1, 1},
		Stride: [3]int{1, 1, 1}}
	together, apart := newModel(t, 3), newModel(t, 3)
	a, err := NewOptimizer(together, o, groups, false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewOptimizer(apart, o, groups, false)
	if err != nil {
		t.Fatal(err)
	}
	updates := map[string]device.Kernel{}
	for name := range apart.offsets {
		if name == "head" { // whose step is taken afterwards in both
			continue
		}
		var of *device.ConvSpec
		if name == "encoder.a" {
			of = &conv
		}
		if updates[name], err = b.Updater()(name, of); err != nil {
			t.Fatal(err)
		}
		_, bytes, _ := apart.Range(name)
		// values read, velocity read and written
		if m, ok := updates[name].(exec.Mover); !ok || m.MovesMore() != 3*bytes {
			t.Errorf("%s: a profile does not count what SGD moves beside its operands", name)
		}
	}
	if _, err := b.Updater()("encoder.mean", nil); err == nil {
		t.Error("the optimiser updates a state")
	}
	for step := range 4 {
		gradients, r := make([]float32, 64), seed.Rand(7, "gradient", uint64(step))
		for i := range gradients {
			gradients[i] = float32(r.NormFloat64())
		}
		// their products are exact in single precision
		x, dy := []float32{0.5, float32(step)}, []float32{1, -0.25, 3}
		for i := range 6 {
			gradients[i] = dy[i/2] * x[i%2]
		}
		var norms [2]float64
		for i, s := range []Optimizer{a, b} {
			m := []*model{together, apart}[i]
			if err := errors.Join(m.dev.UploadPlain(m.gradients, 0, gradients), s.Begin(step)); err != nil {
				t.Fatal(err)
			}
			for name, k := range updates {
				if s == a {
					continue
				}
				g, _ := m.Gradient(name)
				in := []device.Buffer{g}
				if name == "encoder.a" {
					in = []device.Buffer{upload(t, m.dev, x), upload(t, m.dev, dy)}
				}
				k.Run([]device.Buffer{m.values}, in, nil)
			}
			taken, err := s.Take(step, nil)
			if err != nil {
				t.Fatal(err)
			}
			norms[i] = taken.Norm
		}
		if norms[0] != norms[1] || !(norms[0] > 0) {
			t.Errorf("step %d: gradient norms %v", step, norms)
		}
		for name, want := range together.snapshot(t) {
			if got := apart.snapshot(t)[name]; !slices.Equal(got, want) {
				t.Errorf("step %d: %s is %v, want %v", step, name, got, want)
			}
		}
	}
	o.Clip = 1
	if c, err := NewOptimizer(together, o, nil, false); err != nil || c.Updater() != nil {
		t.Errorf("steps are taken before all gradients are known, although these are clipped (%v)", err)
	}
	o.Clip = 0
	if c, err := NewOptimizer(together, o, nil, true); err != nil || c.Updater() != nil {
		t.Errorf("steps are taken before all gradients are known, although these are asked for (%v)", err)
	}
}

func upload(t *testing.T, dev device.Device, values []float32) device.Buffer {
	b, err := dev.Alloc(4 * int64(len(values)))
	if err := errors.Join(err, dev.UploadPlain(b, 0, values)); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAdamWFollowsPyTorch holds twenty steps against torch.optim.AdamW on the same gradients, with
// decay of all parameters and of matrices alone, clipping, and the moving average of the weights.
func TestAdamWFollowsPyTorch(t *testing.T) {
	data, err := os.ReadFile("../../testdata/adamw.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Options struct {
			LR, Beta1, Beta2, Clip, Average float64
			WeightDecay                     float64 `json:"weight_decay"`
			DecayAll                        bool    `json:"decay_all"`
		}
		Start                   [][]float32
		Gradients, After, Means [][][]float32
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatal("the golden file holds no case")
	}
	for n, c := range cases {
		o := voxsaw.Training{
			Optimizer: "adamw", Steps: 20, LR: c.Options.LR, Momentum: c.Options.Beta1, Beta2: c.Options.Beta2,
			WeightDecay: c.Options.WeightDecay,
			DecayAll:    c.Options.DecayAll, Clip: c.Options.Clip, Average: c.Options.Average, Schedule: "constant",
		}
		m := newModel(t, 3)
		names := []string{"encoder.a", "encoder.b"}
		for i, name := range names {
			if err := m.Write(name, c.Start[i]); err != nil {
				t.Fatal(err)
			}
		}
		s, err := NewOptimizer(m, o, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		mean, err := newAverage(m, o.Average)
		if err != nil {
			t.Fatal(err)
		}
		for step, gradients := range c.Gradients {
			for i, name := range names {
				if err := m.dev.UploadPlain(m.gradients, m.offsets[name], gradients[i]); err != nil {
					t.Fatal(err)
				}
			}
			_, err := s.Take(step, nil)
			if err := errors.Join(err, mean.update(step)); err != nil {
				t.Fatal(err)
			}
			compare := func(what string, want [][]float32) {
				for i, name := range names {
					got, err := m.Read(name)
					if err != nil {
						t.Fatal(err)
					}
					for j := range got {
						// PyTorch rounds to float32 at every step: 2.4e-7 of a value above 2.
						if d := math.Abs(float64(got[j] - want[i][j])); d > 1e-6*math.Max(1,
							math.Abs(float64(want[i][j]))) {
							t.Fatalf("case %d step %d: %s of %s[%d] is %v, want %v", n, step, what, name, j, got[j],
								want[i][j])
						}
					}
				}
			}
			compare("value", c.After[step])
			if err := mean.swapped(func() error { compare("mean", c.Means[step]); return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
}
