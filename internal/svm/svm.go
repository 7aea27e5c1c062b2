// Package svm is linear support vector machines: how well classes can be told apart by features
// that stay as they are, which is how pretrained networks are compared.
//
// Start at [Train] and [Model.Predict]. [CrossValidate] chooses C. The method is dual coordinate
// descent (Hsieh et al., A Dual Coordinate Descent Method for Large-scale Linear SVM, ICML 2008),
// as in liblinear and scikit-learn's LinearSVC, whose results it gives.
package svm

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/seed"
)

// Data is features with their classes.
type Data struct {
	Features []float32 // (samples, Width), row after row
	Width    int
	Classes  []int // of each sample, from 0 to Count - 1
	Count    int   // of classes
}

// Len is the number of samples.
func (d Data) Len() int { return len(d.Classes) }

func (d Data) row(i int) []float32 { return d.Features[i*d.Width : (i+1)*d.Width] }

func (d Data) check() error {
	if d.Width < 1 || d.Len() < 1 || len(d.Features) != d.Len()*d.Width || d.Count < 1 {
		return fmt.Errorf("%d features for %d samples of %d classes: need %d each", len(d.Features), d.Len(), d.Count,
			d.Width)
	}
	for i, c := range d.Classes {
		if c < 0 || c >= d.Count {
			return fmt.Errorf("sample %d has class %d of %d", i, c, d.Count)
		}
	}
	for i, v := range d.Features {
		if !numbers.Finite(v) {
			return fmt.Errorf("feature %d of sample %d is %v", i%d.Width, i/d.Width, v)
		}
	}
	return nil
}

// Select is some of the samples.
func (d Data) Select(samples []int) Data {
	s := Data{Width: d.Width, Count: d.Count}
	for _, i := range samples {
		s.Features = append(s.Features, d.row(i)...)
		s.Classes = append(s.Classes, d.Classes[i])
	}
	return s
}

// Options are those of LinearSVC.
type Options struct {
	C         float64 // weight of the losses against the norm of the weights
	Hinge     bool    // the hinge loss; false: its square
	Positive  float64 // factor of C for the samples of a class against all others; 0: 1
	Tolerance float64 // when to stop: the largest violation of optimality; 0: 1e-4
	Sweeps    int     // over all samples, at most; 0: 1000
	Seed      uint64
}

// A Model tells classes apart: the class of a sample is that with the highest score, which is
// linear in the features.
type Model struct {
	Width   int
	Weights [][]float64 // of each class: Width, then the intercept
	// Objective is what was minimised for each class against all others: |w|^2/2 + C sum of losses,
	// where w includes the intercept
	Objective []float64
	Converged bool // false: some class had no sweeps left
}

// Train fits one machine a class, each class against all others. With two classes both are fitted.
func Train(ctx context.Context, d Data, o Options) (*Model, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	if !(o.C > 0) || math.IsInf(o.C, 1) {
		return nil, fmt.Errorf("weight C is %v, must be a number above 0", o.C)
	}
	o.Positive = cmp.Or(o.Positive, 1)
	o.Tolerance = cmp.Or(o.Tolerance, 1e-4)
	o.Sweeps = cmp.Or(o.Sweeps, 1000)
	m := &Model{Width: d.Width, Weights: make([][]float64, d.Count), Objective: make([]float64, d.Count),
		Converged: true}
	squares := make([]float64, d.Len())
	for i := range squares {
		squares[i] = 1 // of the intercept's feature
		for _, v := range d.row(i) {
			squares[i] += float64(v) * float64(v)
		}
	}
	converged := make([]bool, d.Count)
	classes := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), d.Count) {
		wg.Go(func() {
			for class := range classes {
				p := problem{Data: d, o: o, class: class, squares: squares}
				converged[class] = p.solve(ctx)
				m.Weights[class], m.Objective[class] = p.w, p.objective()
			}
		})
	}
	for class := range d.Count {
		classes <- class
	}
	close(classes)
	wg.Wait()
	m.Converged = !slices.Contains(converged, false)
	return m, ctx.Err()
}

// problem is one class against all others.
type problem struct {
	Data
	o       Options
	class   int
	squares []float64 // of the norm of each sample
	w       []float64
}

func (p *problem) sign(i int) float64 {
	if p.Classes[i] == p.class {
		return 1
	}
	return -1
}

func (p *problem) c(i int) float64 {
	if p.Classes[i] == p.class {
		return p.o.C * p.o.Positive
	}
	return p.o.C
}

// score is the sample's, before its sign.
func (p *problem) score(i int) float64 { return fastest.score(p.w, p.row(i)) }

// solve is Algorithm 3 of Hsieh et al. (2008): coordinate descent in random order, with shrinking.
// The dual problem is min over 0 <= a_i <= U_i of a'(Q + D)a/2 - sum a, with Q_ij = y_i y_j
// x_i.x_j; U = C and D = 0 for the hinge loss, U = inf and D = 1/(2C) for its square.
func (p *problem) solve(ctx context.Context) bool {
	n := p.Len()
	p.w = make([]float64, p.Width+1)
	alpha := make([]float64, n)
	active := make([]int, n)
	for i := range active {
		active[i] = i
	}
	r := seed.Rand(p.o.Seed, "svm", uint64(p.class))
	// projected gradients of the last sweep: those beyond are shrunk
	highest, lowest := math.Inf(1), math.Inf(-1)
	for range p.o.Sweeps {
		if ctx.Err() != nil {
			return false
		}
		r.Shuffle(len(active), func(a, b int) { active[a], active[b] = active[b], active[a] })
		high, low := math.Inf(-1), math.Inf(1)
		left := active[:0]
		for _, i := range active {
			upper, diagonal := p.c(i), 0.0
			if !p.o.Hinge {
				upper, diagonal = math.Inf(1), 0.5/p.c(i)
			}
			y := p.sign(i)
			gradient := y*p.score(i) - 1 + diagonal*alpha[i]
			projected := gradient
			switch {
			case alpha[i] == 0:
				if gradient > highest {
					continue // shrunk
				}
				projected = min(gradient, 0)
			case alpha[i] == upper:
				if gradient < lowest {
					continue
				}
				projected = max(gradient, 0)
			}
			left = append(left, i)
			high, low = max(high, projected), min(low, projected)
			if math.Abs(projected) <= 1e-12 {
				continue
			}
			before := alpha[i]
			alpha[i] = min(max(before-gradient/(p.squares[i]+diagonal), 0), upper)
			fastest.add(p.w, p.row(i), (alpha[i]-before)*y)
		}
		active = left
		if high-low <= p.o.Tolerance && math.Abs(high) <= p.o.Tolerance && math.Abs(low) <= p.o.Tolerance ||
			len(active) == 0 {
			if len(active) == n {
				return true
			}
			// Optimal over those that are left: look at all once more.
			active = active[:0]
			for i := range n {
				active = append(active, i)
			}
			highest, lowest = math.Inf(1), math.Inf(-1)
			continue
		}
		if highest, lowest = high, low; highest <= 0 {
			highest = math.Inf(1)
		}
		if lowest >= 0 {
			lowest = math.Inf(-1)
		}
	}
	return false
}

// objective is the primal one.
func (p *problem) objective() float64 {
	sum := 0.0
	for _, w := range p.w {
		sum += w * w / 2
	}
	for i := range p.Len() {
		loss := max(0, 1-p.sign(i)*p.score(i))
		if !p.o.Hinge {
			loss *= loss
		}
		sum += p.c(i) * loss
	}
	return sum
}

// Scores are those of all classes for one sample.
func (m *Model) Scores(features []float32) []float64 {
	scores := make([]float64, len(m.Weights))
	for c, w := range m.Weights {
		scores[c] = fastest.score(w, features)
	}
	return scores
}

// Predict gives each sample its class.
func (m *Model) Predict(features []float32) []int {
	var classes []int
	for row := range slices.Chunk(features, m.Width) {
		scores := m.Scores(row)
		best := 0
		for c, s := range scores {
			if s > scores[best] {
				best = c
			}
		}
		classes = append(classes, best)
	}
	return classes
}

// CrossValidate gives the share of right answers for each C: samples are divided into folds, class
// by class, and each fold is answered by machines that were fitted to the others.
func CrossValidate(ctx context.Context, d Data, o Options, cs []float64, folds int) ([]float64, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	if folds < 2 {
		return nil, fmt.Errorf("%d folds: need at least 2", folds)
	}
	byClass := make([][]int, d.Count)
	for i, c := range d.Classes {
		byClass[c] = append(byClass[c], i)
	}
	fold := make([]int, d.Len())
	r := seed.Rand(o.Seed, "svm folds")
	for _, samples := range byClass {
		r.Shuffle(len(samples), func(a, b int) { samples[a], samples[b] = samples[b], samples[a] })
		for k, i := range samples {
			fold[i] = k % folds
		}
	}
	accuracy := make([]float64, len(cs))
	for f := range folds {
		var fit, answer []int
		for i, of := range fold {
			if of == f {
				answer = append(answer, i)
			} else {
				fit = append(fit, i)
			}
		}
		if len(answer) == 0 {
			return nil, fmt.Errorf("%d samples cannot be divided into %d folds", d.Len(), folds)
		}
		from, to := d.Select(fit), d.Select(answer)
		for k, c := range cs {
			o.C = c
			m, err := Train(ctx, from, o)
			if err != nil {
				return nil, err
			}
			for i, class := range m.Predict(to.Features) {
				if class == to.Classes[i] {
					accuracy[k] += 1 / float64(d.Len())
				}
			}
		}
	}
	return accuracy, nil
}
