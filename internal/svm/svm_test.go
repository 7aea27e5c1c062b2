package svm

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/voxsaw/voxsaw/internal/seed"
)

// draw makes the data of testdata/svm.py.
func draw(samples, width, classes int, noise float64) Data {
	state := uint64(12345)
	uniform := func() float64 {
		state = state*6364136223846793005 + 1442695040888963407
		return float64(state>>40)/(1<<24) - 0.5
	}
	centres := make([]float64, classes*width)
	for i := range centres {
		centres[i] = uniform()
	}
	d := Data{Width: width, Count: classes}
	for i := range samples {
		d.Classes = append(d.Classes, i%classes)
		for k := range width {
			d.Features = append(d.Features, float32(centres[i%classes*width+k]+noise*uniform()))
		}
	}
	return d
}

func TestTrainEqualsScikitLearn(t *testing.T) {
	text, err := os.ReadFile("testdata/svm.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Samples, Width, Classes int
		Noise, C, Positive      float64
		Hinge                   bool
		Objectives              []float64
		Weights                 [][]float64
		Predictions             []int
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		all := draw(2*c.Samples, c.Width, c.Classes, c.Noise)
		var first []int
		for i := range c.Samples {
			first = append(first, i)
		}
		// The default tolerance, as a user has it.
		m, err := Train(context.Background(), all.Select(first), Options{C: c.C, Hinge: c.Hinge, Positive: c.Positive, Sweeps: 20000, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if !m.Converged {
			t.Errorf("%d samples, C %v: no convergence", c.Samples, c.C)
		}
		for k, want := range c.Objectives {
			if got := m.Objective[k]; math.Abs(got-want) > 1e-4*want {
				t.Errorf("%d samples, C %v, class %d: objective %v, scikit-learn %v", c.Samples, c.C, k, got, want)
			}
			for i, w := range c.Weights[k] {
				if math.Abs(m.Weights[k][i]-w) > 2e-3 {
					t.Errorf("%d samples, C %v, class %d: weight %d is %v, scikit-learn has %v", c.Samples, c.C, k, i, m.Weights[k][i], w)
				}
			}
		}
		same := 0
		for i, class := range m.Predict(all.Features[c.Samples*c.Width:]) {
			if class == c.Predictions[i] {
				same++
			}
		}
		if float64(same) < 0.995*float64(c.Samples) {
			t.Errorf("%d samples, C %v: %d of %d predictions equal", c.Samples, c.C, same, c.Samples)
		}
	}
}

// Folds answer for samples that their machines have not seen: what is learnt by heart does not
// count.
func TestCrossValidate(t *testing.T) {
	d := draw(150, 40, 3, 1)
	accuracy, err := CrossValidate(context.Background(), d, Options{Seed: 1}, []float64{0.1, 10}, 3)
	if err != nil {
		t.Fatal(err)
	}
	if accuracy[0] < 0.98 || accuracy[1] < 0.98 || accuracy[1] > 1+1e-9 {
		t.Errorf("accuracies %v of classes that are far apart", accuracy)
	}
	// Labels that mean nothing cannot be told apart.
	r := seed.Rand(2, "labels")
	for i := range d.Classes {
		d.Classes[i] = r.IntN(3)
	}
	if accuracy, err = CrossValidate(context.Background(), d, Options{Seed: 1}, []float64{0.1}, 3); err != nil || accuracy[0] > 0.5 {
		t.Errorf("random labels: %v, %v", accuracy, err)
	}
}

func TestTrainRefuses(t *testing.T) {
	good := draw(10, 4, 2, 1)
	for name, change := range map[string]func(*Data, *Options){
		"no C":           func(_ *Data, o *Options) { o.C = 0 },
		"NaN":            func(d *Data, _ *Options) { d.Features[3] = float32(math.NaN()) },
		"a class beyond": func(d *Data, _ *Options) { d.Classes[1] = 2 },
		"no samples":     func(d *Data, _ *Options) { d.Classes, d.Features = nil, nil },
		"cut off":        func(d *Data, _ *Options) { d.Features = d.Features[:5] },
	} {
		d, o := good.Select([]int{0, 1, 2, 3, 4}), Options{C: 1}
		change(&d, &o)
		if _, err := Train(context.Background(), d, o); err == nil {
			t.Errorf("%s is let pass", name)
		}
	}
}

func BenchmarkTrain(b *testing.B) {
	d := draw(600, 128, 10, 2)
	for b.Loop() {
		if _, err := Train(context.Background(), d, Options{C: 10, Seed: 1}); err != nil {
			b.Fatal(err)
		}
	}
}
