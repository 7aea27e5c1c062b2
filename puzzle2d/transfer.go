package puzzle2d

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/svm"
)

// Transfer says how the features of a network are measured: a linear machine is fitted to those of
// a few labelled photographs, and tells the classes of others.
type Transfer struct {
	PerClass int       // photographs of each class that the machine is fitted to; 0: all
	C        []float64 // weight of the losses; of several, cross-validation in three folds chooses
	Seeds    int       // draws of the photographs that the machine is fitted to
	Seed     uint64    // of the first
	// Mix draws from all photographs, and tells the classes of all that are left; false: those to
	// train on, and the held-out ones.
	Mix bool
	// Normalise makes each feature of length 1.
	Normalise bool
}

// DefaultTransfer is the paper's measure on Caltech-256: 30 photographs a class, C = 10.
func DefaultTransfer() Transfer { return Transfer{PerClass: 30, C: []float64{10}, Seeds: 5} }

// A Draw is the result of one draw of labelled photographs.
type Draw struct {
	Seed        uint64  `json:"seed"`
	Fitted      int     `json:"fitted"`
	Tested      int     `json:"tested"`
	C           float64 `json:"C"`
	Accuracy    float64 `json:"accuracy"`       // share of right answers
	ClassMean   float64 `json:"class_accuracy"` // mean over the classes of that share in each
	Converged   bool    `json:"converged"`      // whether the machines found their optimum
	Photographs []int   `json:"-"`              // that were tested
	Right       []bool  `json:"-"`              // which of them were told right
}

// check says what is wrong with the settings.
func (t Transfer) check() error {
	if t.PerClass < 0 || t.Seeds < 1 || t.Seeds > 1000 {
		return fmt.Errorf("%d photographs a class and %d seeds: must be 0 or more, and from 1 to 1000", t.PerClass, t.Seeds)
	}
	if len(t.C) == 0 {
		return errors.New("there is no C")
	}
	for _, c := range t.C {
		if !(c > 0) || math.IsInf(c, 1) {
			return fmt.Errorf("weight C is %v, must be a number above 0", c)
		}
	}
	return nil
}

// Run measures the features of a network.
func (t Transfer) Run(ctx context.Context, f *Features, data Data) ([]Draw, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	classes := data.Photos.Classes()
	if len(classes) < 2 {
		return nil, fmt.Errorf("the photographs have %d classes: telling them apart takes two or more, each in a folder of its own", len(classes))
	}
	var numbers []int // photographs with a label, in the rows of the features
	held := map[int]bool{}
	for _, list := range [][]int{data.Train, data.Validate} {
		for _, n := range list {
			if data.Photos.Label(n) >= 0 {
				numbers = append(numbers, n)
			}
		}
	}
	for _, n := range data.Validate {
		held[n] = true
	}
	rows, err := f.Extract(ctx, data.Photos, numbers)
	if err != nil {
		return nil, err
	}
	if t.Normalise {
		for i := range numbers {
			normalise(rows[i*f.Width() : (i+1)*f.Width()])
		}
	}
	all := svm.Data{Features: rows, Width: f.Width(), Count: len(classes)}
	byClass := make([][]int, len(classes)) // rows that may be fitted to
	var tested []int
	for row, n := range numbers {
		class := data.Photos.Label(n)
		all.Classes = append(all.Classes, class)
		if t.Mix || !held[n] {
			byClass[class] = append(byClass[class], row)
		} else {
			tested = append(tested, row)
		}
	}
	for class, rows := range byClass {
		if len(rows) < max(t.PerClass, 1) || t.Mix && len(rows) <= t.PerClass {
			return nil, fmt.Errorf("class %s has %d photographs to fit to, of which %d are wanted: ask for less with --per-class, or leave the class out", classes[class], len(rows), max(t.PerClass, 1))
		}
	}
	if t.Mix && t.PerClass == 0 {
		return nil, errors.New("if all photographs are fitted to, none is left to test: say how many of each class with --per-class")
	}
	if !t.Mix && len(tested) == 0 {
		return nil, errors.New("no photographs are held out: prepare them with --hold-out, or draw from all with --mix")
	}
	draws := make([]Draw, t.Seeds)
	for k := range draws {
		fit, test := t.draw(seed.Rand(t.Seed+uint64(k), "transfer"), byClass, tested)
		if draws[k], err = t.measure(ctx, all, fit, test, t.Seed+uint64(k)); err != nil {
			return nil, err
		}
		for _, row := range test {
			draws[k].Photographs = append(draws[k].Photographs, numbers[row])
		}
	}
	return draws, nil
}

// draw chooses the rows to fit to and those to test on.
func (t Transfer) draw(r *rand.Rand, byClass [][]int, held []int) (fit, test []int) {
	test = held
	if t.Mix {
		test = nil
	}
	for _, rows := range byClass {
		n := t.PerClass
		if n == 0 {
			n = len(rows)
		}
		order := r.Perm(len(rows))
		for k, i := range order {
			if k < n {
				fit = append(fit, rows[i])
			} else if t.Mix {
				test = append(test, rows[i])
			}
		}
	}
	return fit, test
}

// measure fits a machine and tests it.
func (t Transfer) measure(ctx context.Context, all svm.Data, fit, test []int, number uint64) (Draw, error) {
	d := Draw{Seed: number, Fitted: len(fit), Tested: len(test), C: t.C[0]}
	from, to := all.Select(fit), all.Select(test)
	o := svm.Options{Seed: number}
	if len(t.C) > 1 {
		accuracy, err := svm.CrossValidate(ctx, from, o, t.C, 3)
		if err != nil {
			return d, err
		}
		best := 0
		for k, a := range accuracy {
			if a > accuracy[best] {
				best = k
			}
		}
		d.C = t.C[best]
	}
	o.C = d.C
	m, err := svm.Train(ctx, from, o)
	if err != nil {
		return d, err
	}
	d.Converged = m.Converged
	right, count := make([]int, all.Count), make([]int, all.Count)
	for i, class := range m.Predict(to.Features) {
		truth := to.Classes[i]
		count[truth]++
		d.Right = append(d.Right, class == truth)
		if class == truth {
			right[truth]++
		}
	}
	placed, present := 0, 0
	for class, n := range count {
		if n > 0 {
			placed, present = placed+right[class], present+1
			d.ClassMean += float64(right[class]) / float64(n)
		}
	}
	d.Accuracy, d.ClassMean = float64(placed)/float64(len(test)), d.ClassMean/float64(present)
	return d, nil
}

// normalise makes a vector of length 1, if it has one.
func normalise(v []float32) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= scale
	}
}
