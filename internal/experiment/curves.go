package experiment

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/train"
)

// This file: learning curves, as runs leave them. They are measured on training cases of the fold
// that a run does not learn from.

// LearningCurves reads the curves of the finished runs, DSC in percent.
func (r *Result) LearningCurves(out string) ([]eval.LearningCurve, error) {
	var curves []eval.LearningCurve
	for _, t := range r.Plan.trials(r.Cases) {
		if len(t.Curve) == 0 || !slices.ContainsFunc(r.Runs, t.is) {
			continue
		}
		c := eval.LearningCurve{Initialisation: t.Init, Fraction: t.Fraction, Fold: t.Fold, Seed: t.Seed,
			Draw: r.Plan.drawShared(t.Seed)}
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
	text, err := smallfile.Read(path, smallfile.Log)
	if err != nil {
		return nil, nil, err
	}
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
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
