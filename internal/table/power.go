package table

import (
	"fmt"

	"github.com/voxsaw/voxsaw/eval"
)

// Pilots is the table of replicates needed to find a difference.
func Pilots(pilots []eval.Pilot, difference float64, metric eval.Metric, o eval.PowerOptions) Table {
	column := MetricColumn(metric, true)
	t := Table{Title: fmt.Sprintf("Replicates needed to find a difference of %g in %s", difference, column.Title),
		Columns: []Column{
			{"initialisation", "initialisation", 0}, {"data", "data", 0}, {"difference", "difference", column.Digits},
			{"sd_limit", "limit of the SD", column.Digits},
			{"replicates", "replicates", 0}, {"replicates_at_limit", "at the limit", 0},
		}}
	shared := false
	for _, p := range pilots {
		t.Rows = append(t.Rows, []any{p.Initialisation, Percent(p.Fraction), p.Gain, p.Limit, p.Replicates,
			p.ReplicatesAtLimit})
		shared = shared || p.Shared
		over := "all such pairs of runs"
		if shared {
			over = ofPairs(shared) + ", which are a replicate"
		}
		t.Notes = []string{fmt.Sprintf("Difference: of a run to the baseline's run of the same fold and seed, each "+
			"the mean over its test cases. Mean ± standard deviation (SD) of this difference over %s. %s", over,
			planned(o))}
	}
	t.Notes = append(t.Notes,
		"The SD of few pairs is itself uncertain. The limit is above the true SD with a confidence of 80 %: "+
			"planning with it is seldom too optimistic.")
	return t
}

// Detectable is the table of the differences that a number of replicates finds, by their standard
// deviation.
func Detectable(pilots []eval.Pilot, metric eval.Metric, o eval.PowerOptions) (Table, error) {
	column := MetricColumn(metric, true)
	t := Table{Title: fmt.Sprintf("Smallest difference in %s that is found", column.Title),
		Columns: []Column{{"replicates", "replicates", 0}}}
	for _, p := range pilots {
		name := fmt.Sprintf("%s, %s", p.Initialisation, Percent(p.Fraction))
		t.Columns = append(t.Columns, Column{name, name, column.Digits},
			Column{name + "_limit", "at the limit", column.Digits})
	}
	for _, n := range []int{3, 4, 6, 8, 10, 12, 16, 24, 32} {
		row := []any{n}
		for _, p := range pilots {
			for _, sd := range []float64{p.Gain.SD, p.Limit} {
				d, err := eval.Detectable(n, sd, o)
				if err != nil {
					return t, err
				}
				row = append(row, d)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

func planned(o eval.PowerOptions) string {
	return fmt.Sprintf("Two-sided paired t-test at the level %g, power %g.", o.Alpha, o.Power)
}
