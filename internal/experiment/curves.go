package experiment

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/steplog"
	"github.com/voxsaw/voxsaw/internal/train"
)

// This file: learning curves, as runs leave them. They are measured on training cases of the fold
// that a run does not learn from.

// LearningCurves reads the curves of the finished runs, DSC in percent.
func (r *Result) LearningCurves(out string) ([]eval.LearningCurve, error) {
	var curves []eval.LearningCurve
	for _, t := range r.done() {
		if len(t.Curve) == 0 || r.Plan.averages(t.Init) {
			continue
		}
		c := eval.LearningCurve{Initialisation: t.Init, Fraction: t.Fraction, Fold: t.Fold, Seed: t.Seed,
			Draw: r.Plan.drawShared(t.Seed, t.Fraction)}
		var err error
		if c.Steps, c.Values, err = readCurve(train.Validations(t.Folder(out))); err != nil {
			return nil, fmt.Errorf("the learning curve of trial %s: %w", t.Name(), err)
		}
		curves = append(curves, c)
	}
	return curves, nil
}

// averages says whether runs of an initialisation are of several networks: then a curve, which is
// one network's, says nothing about them.
func (p Plan) averages(init string) bool {
	return slices.ContainsFunc(p.Inits, func(i Initialisation) bool { return i.Name == init && i.networks() > 1 })
}

// readCurve reads the DSC of a run's validations.
func readCurve(path string) (steps, values []float64, err error) {
	l, err := steplog.Read(path)
	if err != nil {
		return nil, nil, err
	}
	if l.Values["dsc"] == nil {
		return nil, nil, fmt.Errorf("%s has no column dsc", path)
	}
	for n, dsc := range l.Values["dsc"] {
		steps, values = append(steps, l.Values["step"][n]), append(values, 100*dsc)
	}
	return steps, values, nil
}
