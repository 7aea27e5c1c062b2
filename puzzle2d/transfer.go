package puzzle2d

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/svm"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/sample"
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

// DefaultTransfer is the paper's measure on Caltech-256 (30 photographs a class, C = 10) on
// features of length 1, as VISSL has them.
func DefaultTransfer() Transfer {
	return Transfer{PerClass: 30, C: []float64{10}, Seeds: 5, Normalise: true}
}

// A Draw is the result of one draw of labelled photographs.
type Draw struct {
	Seed        uint64         `json:"seed"`
	Fitted      int            `json:"fitted"`
	Tested      int            `json:"tested"`
	C           float64        `json:"C"`
	Accuracy    float64        `json:"accuracy"`       // share of right answers
	ClassMean   float64        `json:"class_accuracy"` // mean of the classes' shares
	Converged   bool           `json:"converged"`      // the machines found their optimum
	Photographs []photos.Photo `json:"-"`              // that were tested
	Right       []bool         `json:"-"`              // which of them were told right
}

// check says what is wrong with the settings.
func (t Transfer) check() error {
	if t.PerClass < 0 || t.Seeds < 1 || t.Seeds > 1000 {
		return fmt.Errorf("%d photographs a class (must be 0 or more) and %d seeds (from 1 to 1000)", t.PerClass,
			t.Seeds)
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

// Check says whether there are photographs enough to measure features by, before any is looked at.
func (t Transfer) Check(data sample.Data) error {
	if err := t.check(); err != nil {
		return err
	}
	_, _, err := t.pool(data)
	return err
}

// Run measures the features of a network. Only those of photographs that are drawn are computed.
// Draws that were measured before an error are returned with it.
func (t Transfer) Run(ctx context.Context, f *Features, data sample.Data) ([]Draw, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	byClass, held, err := t.pool(data)
	if err != nil {
		return nil, err
	}
	draws := make([]Draw, t.Seeds)
	fits := make([][]photos.Photo, t.Seeds)
	row := map[photos.Photo]int{}
	var wanted []sample.Sample
	for k := range draws {
		number := t.Seed + uint64(k)
		fit, test := t.draw(seed.Rand(number, "transfer"), byClass, held)
		fits[k], draws[k] = fit, Draw{Seed: number, Fitted: len(fit), Tested: len(test), C: t.C[0], Photographs: test}
		for _, photo := range slices.Concat(fit, test) {
			if _, ok := row[photo]; !ok {
				row[photo] = len(wanted)
				wanted = append(wanted, photo)
			}
		}
	}
	rows, err := f.Extract(ctx, wanted)
	if err != nil {
		return nil, err
	}
	all := svm.Data{Features: rows, Width: f.Width(), Count: len(byClass)}
	for i, photo := range wanted {
		if all.Classes = append(all.Classes, labelOf(photo)); t.Normalise {
			normalise(rows[i*f.Width() : (i+1)*f.Width()])
		}
	}
	of := func(some []photos.Photo) svm.Data {
		list := make([]int, len(some))
		for i, photo := range some {
			list[i] = row[photo]
		}
		return all.Select(list)
	}
	for k := range draws {
		if err := t.measure(ctx, &draws[k], of(fits[k]), of(draws[k].Photographs)); err != nil {
			return draws[:k], fmt.Errorf("after %d of %d draws: %w", k, len(draws), err)
		}
	}
	return draws, nil
}

// pool is the photographs that a machine may be fitted to, by class, and those held out.
func (t Transfer) pool(data sample.Data) (byClass [][]photos.Photo, held []photos.Photo, err error) {
	store, err := folder(data.Store)
	if err != nil {
		return nil, nil, err
	}
	classes := store.Classes()
	if len(classes) < 2 {
		return nil, nil, fmt.Errorf("the photographs have %d classes: telling them apart takes "+
			"two or more, each in a folder of its own", len(classes))
	}
	byClass = make([][]photos.Photo, len(classes))
	add := func(names []string, fit bool) error {
		all, err := photographs(data.Store, names)
		for _, photo := range all {
			switch class := photo.Label(); {
			case class < 0:
			case fit:
				byClass[class] = append(byClass[class], photo)
			default:
				held = append(held, photo)
			}
		}
		return err
	}
	if err := errors.Join(add(data.Train, true), add(data.Validate, t.Mix)); err != nil {
		return nil, nil, err
	}
	for class, all := range byClass {
		if wanted := max(t.PerClass, 1); len(all) < wanted || t.Mix && len(all) <= t.PerClass {
			return nil, nil, fmt.Errorf("class %s has %d photographs to fit to, of which %d are wanted: ask for less "+
				"with --per-class, or leave the class out", classes[class], len(all), wanted)
		}
	}
	if t.Mix && t.PerClass == 0 {
		return nil, nil, errors.New("if all photographs are fitted to, none is left to test: " +
			"say how many of each class with --per-class")
	}
	if n := len(data.Validate); !t.Mix && len(held) == 0 && n > 0 {
		return nil, nil, fmt.Errorf("none of the %s held out has a class to be told: draw from all with "+
			"--mix, or prepare them with their classes", numbers.Count(n, "photograph"))
	}
	if !t.Mix && len(held) == 0 {
		return nil, nil,
			errors.New("no photographs are held out: prepare them with --hold-out, or draw from all with --mix")
	}
	return byClass, held, nil
}

// draw chooses the photographs to fit to and those to test on.
func (t Transfer) draw(r *rand.Rand, byClass [][]photos.Photo, held []photos.Photo) (fit, test []photos.Photo) {
	test = held
	if t.Mix {
		test = nil
	}
	for _, all := range byClass {
		n := t.PerClass
		n = cmp.Or(n, len(all))
		for k, i := range r.Perm(len(all)) {
			if k < n {
				fit = append(fit, all[i])
			} else if t.Mix {
				test = append(test, all[i])
			}
		}
	}
	return fit, test
}

// measure fits a machine and tests it.
func (t Transfer) measure(ctx context.Context, d *Draw, from, to svm.Data) error {
	o := svm.Options{Seed: d.Seed}
	if len(t.C) > 1 {
		accuracy, err := svm.CrossValidate(ctx, from, o, t.C, 3)
		if err != nil {
			return err
		}
		d.C = t.C[slices.Index(accuracy, slices.Max(accuracy))]
	}
	o.C = d.C
	m, err := svm.Train(ctx, from, o)
	if err != nil {
		return err
	}
	d.Converged = m.Converged
	right, count := make([]int, to.Count), make([]int, to.Count)
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
	d.Accuracy, d.ClassMean = float64(placed)/float64(to.Len()), d.ClassMean/float64(present)
	return nil
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

// AtChance says that features told no more classes than blind guessing would, whose share of right
// answers is given: a comparison with them, or of them, says nothing. It is "" where they told
// more, by two standard errors of a share over the tested photographs.
func AtChance(draws []Draw, chance float64) string {
	mean, tested := 0.0, 0
	for _, d := range draws {
		mean += d.ClassMean / float64(len(draws))
		tested = max(tested, d.Tested)
	}
	if tested == 0 || mean > chance+2*math.Sqrt(chance*(1-chance)/float64(tested)) {
		return ""
	}
	return fmt.Sprintf("the features are at chance: %.2f %% right where guessing gives %.2f %%. They tell nothing of "+
		"the classes, and a difference to them says little: narrow networks with random weights lose what they are "+
		"shown; take a larger --width, another --layer or more photographs",
		100*mean, 100*chance)
}
