package eval

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Mixed fits a mixed model to an experiment. An observation is the metric of one test case of one
// run, the mean over its labels; ratios are in percent. Fixed effects are "intercept", each
// initialisation but the baseline under its name, and each fraction but the smallest ("fraction
// 0.2"); random intercepts are those of the replicate (fold, fraction and seed), of the run and of
// the case. Runs of seeds that share a draw of the labelled cases are averaged, and are one here.
// It looks at all fractions at once, where [Folds] goes one by one. The effect of an initialisation
// is its mean difference to the baseline.
//
// Each initialisation needs two replicates that it shares with the baseline. Where the runs do not
// scatter more than their cases explain, their variance is zero, and a test would be one over
// cases, which are no repetitions of the training: then no effect is tested, and P and Interval are
// NaN.
//
// The time that a fit takes grows with the third power of the replicates, runs and cases together:
// of more than [MixedLevels] it makes none.
func Mixed(runs []Trial, o FoldOptions) (MixedFit, error) {
	metric, err := o.metric()
	if err != nil {
		return MixedFit{}, err
	}
	methods := initialisationsOf(runs, o.baseline())
	if len(methods) < 2 || methods[0] != o.baseline() {
		return MixedFit{}, fmt.Errorf("a mixed model of methods needs runs of %s and of another initialisation",
			o.baseline())
	}
	for _, name := range methods[1:] {
		if pairs, err := Pairs(runs, name, o); err != nil || len(pairs) < 2 {
			return MixedFit{},
				fmt.Errorf("a mixed model of methods needs two pairs of runs of %s and %s with "+
					"the same fold, fraction and seed, not %d", name, o.baseline(), len(pairs))
		}
	}
	d := newDesign(methods[1:], fractionsOf(runs)[1:])
	// fractions are effects of the model, too
	runs, _ = o.finite(levelled(runs, ofAny), ofAny, metric)
	u := unitsOf(runs)
	for _, name := range methods {
		cases := u.average(o.casesOf(runs, name, metric))
		for _, key := range sortedRuns(cases) {
			for _, id := range slices.Sorted(maps.Keys(cases[key])) {
				d.add(name, key, id, cases[key][id])
			}
		}
	}
	_, sizes, err := d.levels()
	if err != nil {
		return MixedFit{}, err
	}
	if levels := sizes[0] + sizes[1] + sizes[2]; levels > MixedLevels {
		return MixedFit{}, fmt.Errorf("%w: %d, and %d are fitted at most", ErrManyLevels, levels, MixedLevels)
	}
	fit, err := d.MixedModel.Fit()
	if err == nil && fit.Random[runFactor].SD == 0 {
		for n := range fit.Effects {
			e := &fit.Effects[n]
			e.Test.P, e.Interval = math.NaN(), Interval{math.NaN(), math.NaN()}
		}
	}
	return fit, err
}

// MixedLevels is how many replicates, runs and cases together [Mixed] fits a model of: some seconds
// of one core.
const MixedLevels = 800

// ErrManyLevels is the error where there are more.
var ErrManyLevels = errors.New("too many replicates, runs and cases for a mixed model")

// runFactor is the place of the runs among the random intercepts.
const runFactor = 1

// fractionsOf lists the fractions of the runs in ascending order.
func fractionsOf(runs []Trial) []float64 {
	var all []float64
	for _, r := range runs {
		all = append(all, r.Fraction)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// design collects the observations of a mixed model of methods.
type design struct {
	MixedModel
	methods   []string  // with an effect of their own
	fractions []float64 // likewise
}

func newDesign(methods []string, fractions []float64) *design {
	d := &design{methods: methods, fractions: fractions}
	d.Fixed = []Fixed{{Name: "intercept"}}
	for _, m := range methods {
		d.Fixed = append(d.Fixed, Fixed{Name: m})
	}
	for _, f := range fractions {
		d.Fixed = append(d.Fixed, Fixed{Name: fmt.Sprintf("fraction %g", f)})
	}
	d.Random = []Factor{{Name: "replicate"}, {Name: "run"}, {Name: "case"}}
	return d
}

func (d *design) add(method string, key runKey, id string, value float64) {
	d.Y = append(d.Y, value)
	row := []float64{1}
	for _, m := range d.methods {
		row = append(row, indicator(m == method))
	}
	for _, f := range d.fractions {
		row = append(row, indicator(f == key.fraction))
	}
	for n, v := range row {
		d.Fixed[n].Values = append(d.Fixed[n].Values, v)
	}
	replicate := fmt.Sprintf("%d/%g/%d", key.fold, key.fraction, key.seed)
	for n, level := range []string{replicate, method + "/" + replicate, id} {
		d.Random[n].Levels = append(d.Random[n].Levels, level)
	}
}

func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
