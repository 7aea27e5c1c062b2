package table

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/voxsaw/voxsaw/eval"
)

// Curves is every point of learning curves, a row each.
func Curves(curves []eval.LearningCurve) Table {
	t := Table{Title: "Learning curves", Columns: []Column{
		{"initialisation", "initialisation", 0}, {"data", "data", 0}, {"fold", "fold", 0}, {"seed", "seed", 0},
		{"step", "step", 0}, {"dsc", "DSC %", 2},
	}}
	for _, c := range curves {
		for n, step := range c.Steps {
			t.Rows = append(t.Rows, []any{c.Initialisation, Percent(c.Fraction), c.Fold, strconv.FormatUint(c.Seed, 10),
				int(step), c.Values[n]})
		}
	}
	return t
}

// CurveRows is the comparison of learning curves.
func CurveRows(rows []eval.CurveRow, baseline string) Table {
	shared := slices.ContainsFunc(rows, func(r eval.CurveRow) bool { return r.Shared })
	t := Table{Title: "Learning curves, DSC in percent", Columns: slices.Concat([]Column{
		{"initialisation", "initialisation", 0}, {"data", "data", 0}}, counted("runs", "runs", shared), []Column{
		{"last", "last", 2}, {"area", "mean height", 2},
		{"difference", "difference", 2}, {"low", "", 2}, {"high", "", 2}, {"interval", "95 % interval", 0},
		{"p", "p", 3}, {"p_holm", "p, Holm", 3},
		{"steps", "steps to 95 %", 0},
	})}
	for _, r := range rows {
		t.Rows = append(t.Rows, slices.Concat([]any{r.Initialisation, Percent(r.Fraction)},
			counts(r.Runs, r.Last.N, shared), []any{r.Last, r.Area, r.Gain, r.Interval.Low, r.Interval.High,
				Interval(r.Interval, 2), P(r.Test.P), P(r.Holm), r.Steps}))
	}
	t.Notes = []string{
		fmt.Sprintf("Mean height: the area below the curve, divided by its own steps. Difference: of the mean "+
			"heights to %s over the steps that both curves have, over %s; interval and p: two-sided paired t-test "+
			"over these pairs.", baseline, ofPairs(shared)),
		fmt.Sprintf("steps to 95 %%: steps to %.0f %% of the last value of %s in the run of the same fold and seed. "+
			"∞: runs that never got there, which are in no mean.", 100*eval.Reached, baseline),
	}
	return t
}
