package experiment

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/train"
)

// This file: learning curves, which say what pretraining is worth at every budget of fine-tuning
// and not at one. They are measured on training cases of the fold that a run does not learn from.

// LearningCurves reads the curves of the finished runs, DSC in percent.
func (r *Result) LearningCurves(out string) ([]eval.LearningCurve, error) {
	var curves []eval.LearningCurve
	for _, t := range r.Plan.trials(r.Cases) {
		if len(t.Curve) == 0 || !slices.ContainsFunc(r.Runs, t.is) {
			continue
		}
		c := eval.LearningCurve{Initialisation: t.Init, Fraction: t.Fraction, Fold: t.Fold, Seed: t.Seed}
		var err error
		if c.Steps, c.Values, err = readCurve(train.Validations(t.Folder(out))); err != nil {
			return nil, fmt.Errorf("the learning curve of trial %s: %w", t.Name(), err)
		}
		curves = append(curves, c)
	}
	return curves, nil
}

// readCurve reads the DSC of a run's validations.
func readCurve(path string) (steps, values []float64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(lines) == 0 || !slices.Contains(lines[0], "dsc") {
		return nil, nil, fmt.Errorf("%s has no column dsc", path)
	}
	column := slices.Index(lines[0], "dsc")
	for n, line := range lines[1:] {
		step, errStep := strconv.ParseFloat(line[0], 64)
		dsc, err := strconv.ParseFloat(line[column], 64)
		if err := errors.Join(errStep, err); err != nil {
			return nil, nil, fmt.Errorf("%s, line %d: %w", path, n+2, err)
		}
		steps, values = append(steps, step), append(values, 100*dsc)
	}
	return steps, values, nil
}

// learning is the section on the learning curves.
func (r *Result) learning(out string) (report.Section, error) {
	section := report.Section{Title: "Learning curves"}
	curves, err := r.LearningCurves(out)
	if err != nil || len(curves) == 0 {
		return section, err
	}
	rows := eval.CompareCurves(curves, r.baseline())
	var charts report.Charts
	for _, fraction := range r.Plan.Fractions {
		chart := report.Chart{Title: "DSC in percent, " + table.Percent(fraction) + " of the training cases", X: "step", Points: true}
		for _, i := range r.Plan.Inits {
			own := slices.DeleteFunc(slices.Clone(curves), func(c eval.LearningCurve) bool { return c.Fraction != fraction || c.Initialisation != i.Name })
			if x, y := eval.MeanCurve(own); len(x) > 0 {
				chart.Series = append(chart.Series, report.Series{Name: i.Name, X: x, Y: y})
			}
		}
		if len(chart.Series) > 0 {
			charts = append(charts, chart)
		}
	}
	section.Blocks = []report.Block{
		report.Text("Mean over folds and seeds. Measured on the prepared voxels of training cases of the fold that a run does not learn from; no network is chosen by them."),
		charts, report.Table{Table: table.CurveRows(rows, r.baseline())},
	}
	return section, nil
}
