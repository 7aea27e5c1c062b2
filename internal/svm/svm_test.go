package svm

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/asmtest"
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

// onEach runs a test with the processor's vectors and without.
func onEach(t *testing.T, test func(t *testing.T)) {
	best := fastest
	defer func() { fastest = best }()
	for name, v := range map[string]*vectors{"fastest": best, "generic": {}} {
		fastest = v
		t.Run(name, test)
	}
}

func TestTrainEqualsScikitLearn(t *testing.T) { onEach(t, equalsScikitLearn) }

func equalsScikitLearn(t *testing.T) {
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
		m, err := Train(context.Background(), all.Select(first), Options{C: c.C, Hinge: c.Hinge, Positive: c.Positive,
			Sweeps: 20000, Seed: 1})
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
					t.Errorf("%d samples, C %v, class %d: weight %d is %v, scikit-learn has %v", c.Samples, c.C, k, i,
						m.Weights[k][i], w)
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
	if accuracy, err = CrossValidate(context.Background(), d, Options{Seed: 1}, []float64{0.1}, 3); err != nil ||
		accuracy[0] > 0.5 {
		t.Errorf("random labels: %v, %v", accuracy, err)
	}
}

// Scores and steps are those of plain loops, whatever is left over from whole vectors.
func TestVectors(t *testing.T) {
	r := seed.Rand(3, "vectors")
	for _, n := range []int{1, 3, 15, 16, 17, 31, 32, 100, 512} {
		w, x := make([]float64, n+1), make([]float32, n)
		for i := range w {
			w[i] = r.NormFloat64()
		}
		want, moved := w[n], slices.Clone(w)
		const step = 0.37
		for i := range x {
			x[i] = float32(r.NormFloat64())
			want += w[i] * float64(x[i])
			moved[i] += step * float64(x[i])
		}
		moved[n] += step
		onEach(t, func(t *testing.T) {
			if got := fastest.score(w, x); math.Abs(got-want) > 1e-12*float64(n) {
				t.Errorf("%d features: score %v, want %v", n, got, want)
			}
			got := slices.Clone(w)
			fastest.add(got, x, step)
			for i := range got {
				if math.Abs(got[i]-moved[i]) > 1e-14 {
					t.Errorf("%d features: weight %d is %v after a step, want %v", n, i, got[i], moved[i])
				}
			}
		})
	}
}

// Classes are fitted side by side, and to the same bits whatever the number of threads.
func TestThreadsDoNotMatter(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	d := draw(120, 20, 7, 3)
	var want [][]float64
	for _, threads := range []int{1, 2, 5} {
		runtime.GOMAXPROCS(threads)
		m, err := Train(context.Background(), d, Options{C: 1, Seed: 4})
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = m.Weights
		}
		for class := range want {
			if !slices.Equal(m.Weights[class], want[class]) {
				t.Errorf("%d threads: class %d has other weights than with one", threads, class)
			}
		}
	}
}

// What is checked in is what the generator makes.
func TestGenerated(t *testing.T) {
	asmtest.Generated(t, "./asm", "svm", "kernels_amd64.s", "kernels_amd64.go")
	asmtest.Generated(t, "./asm", "svm", "kernels_arm64.s", "kernels_arm64.go")
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
