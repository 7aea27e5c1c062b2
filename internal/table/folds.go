package table

import (
	"fmt"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
)

// Folds is the table of an experiment: a row for each share of the training cases; for every
// initialisation mean ± sd and, but for the baseline, the gain over the runs with its interval and
// p.
func Folds(f eval.FoldTable) Table {
	metric := MetricColumn(f.Metric, true)
	t := Table{Title: "Mean " + metric.Title + " by share of the training data", Columns: []Column{{"data", "data", 0}}}
	for _, i := range f.Initialisations {
		key := strings.ReplaceAll(i, " ", "_")
		t.Columns = append(t.Columns, Column{key + "_" + metric.Key, i, metric.Digits})
		if i != f.Baseline {
			t.Columns = append(t.Columns, Column{key + "_gain", "gain", metric.Digits}, Column{key + "_low", "", metric.Digits}, Column{key + "_high", "", metric.Digits},
				Column{key + "_interval", "95 % interval", 0}, Column{key + "_p", "p (runs)", 3})
		}
	}
	runs, pairs := 0, 0
	for row, fraction := range f.Fractions {
		cells := []any{Percent(fraction)}
		for n, c := range f.Cells[row] {
			cells = append(cells, c.Spread)
			runs = max(runs, c.Spread.N)
			if f.Initialisations[n] != f.Baseline {
				cells = append(cells, c.Gain, c.Low, c.High, Interval(c.Low, c.High, metric.Digits), c.Test.P)
				pairs = max(pairs, c.Gain.N)
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	t.Notes = []string{fmt.Sprintf("Mean ± standard deviation over the runs (folds x seeds, up to %d in each cell), each the mean over its test cases.", runs)}
	if len(f.Initialisations) > 1 {
		t.Notes = append(t.Notes, fmt.Sprintf("gain: difference to %s, over pairs of runs of the same fold and seed (up to %d); interval and p: two-sided paired t-test over these pairs. "+
			"Test cases of one run share its training and are no repetitions: nothing is tested over them.", f.Baseline, pairs))
	}
	return t
}
