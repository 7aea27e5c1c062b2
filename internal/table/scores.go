package table

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/numbers"
)

// metricColumns says how the metrics of package eval are called and rounded, by their keys.
var metricColumns = map[string]Column{
	"dsc":           {"dsc", "DSC", 4},
	"hd95_mm":       {"hd95_mm", "HD95 (mm)", 2},
	"hd_mm":         {"hd_mm", "HD (mm)", 2},
	"assd_mm":       {"assd_mm", "ASSD (mm)", 2},
	"nsd":           {"nsd", "NSD", 4},
	"predicted_ml":  {"predicted_ml", "predicted (ml)", 2},
	"reference_ml":  {"reference_ml", "reference (ml)", 2},
	"difference_ml": {"difference_ml", "difference (ml)", 2},
}

// MetricColumn is the column of a metric. Ratios can be given in percent.
func MetricColumn(m eval.Metric, percent bool) Column {
	c, known := metricColumns[m.Key]
	if !known {
		c = Column{m.Key, m.Key, 4}
	}
	if percent && m.Ratio {
		return Column{c.Key + "_percent", c.Title + " (%)", 2}
	}
	return c
}

// scoreColumns are the columns of all metrics, with the tolerance in NSD's title.
func scoreColumns(tolerance float64) []Column {
	all := make([]Column, len(eval.Metrics))
	for n, m := range eval.Metrics {
		all[n] = MetricColumn(m, false)
		if m.Key == "nsd" {
			all[n].Title = fmt.Sprintf("NSD (%g mm)", tolerance)
		}
	}
	return all
}

// nameOf is the name of a label; "" where it is called by its number, which is not shown twice.
func nameOf(label uint16, name string) string {
	if name == strconv.Itoa(int(label)) {
		return ""
	}
	return name
}

// nameColumn is the column of the labels' names, which people see where there are any.
func nameColumn(any bool) Column {
	if any {
		return Column{"name", "name", 0}
	}
	return Column{Key: "name"}
}

// named tells whether a label has a name.
func named(s eval.Score) bool { return nameOf(s.Label, s.Name) != "" }

// PerCase is the table of all scores, a row for each case and label. Programs also get its outcome:
// scored, missed, invented, absent, undrawn, emptied or unlearnt.
func PerCase(scores []eval.Score) Table {
	t := Table{Title: "Per case", Columns: []Column{{"case", "case", 0}, {"label", "label", 0},
		nameColumn(slices.ContainsFunc(scores, named)), {Key: "outcome"}}}
	t.Columns = append(append(t.Columns, scoreColumns(toleranceOf(scores))...), Column{Key: "tolerance_mm"})
	for _, s := range scores {
		row := []any{s.Case, int(s.Label), s.Name, string(s.Outcome())}
		for _, m := range eval.Metrics {
			row = append(row, m.Of(s))
		}
		t.Rows = append(t.Rows, append(row, s.Tolerance))
	}
	return t
}

func toleranceOf(scores []eval.Score) float64 {
	if len(scores) == 0 {
		return eval.DefaultOptions().Tolerance
	}
	return scores[0].Tolerance
}

// PerLabel is the table of mean ± standard deviation over the cases, a row for each label and, for
// several labels, a last row over all scores. Cases in which nobody drew the label are in no number
// of its row.
func PerLabel(scores []eval.Score) Table {
	labels := eval.ByLabel(scores)
	t := Table{Title: "Per label", Columns: []Column{{"label", "label", 0},
		nameColumn(len(labels) > 1 || slices.ContainsFunc(scores, named)), {"cases", "cases", 0},
		{"missed", "missed", 0}, {"invented", "invented", 0}}}
	t.Columns = append(t.Columns, scoreColumns(toleranceOf(scores))...)
	infinite := false
	for _, s := range labels {
		row := []any{int(s.Label), nameOf(s.Label, s.Name), s.Cases, s.Missed, s.Invented}
		if s.Label == 0 {
			row[0], row[1] = nil, "all"
		}
		for _, spread := range s.Metrics {
			row = append(row, spread)
			infinite = infinite || spread.Infinite > 0
		}
		t.Rows = append(t.Rows, row)
	}
	t.Notes = append(t.Notes,
		"Mean ± standard deviation over the cases. Missed: only the reference shows the "+
			"label; invented: only the prediction does.")
	t.Notes = append(t.Notes, nowhere(labels)...)
	if text := Undrawn(labels); text != "" {
		t.Notes = append(t.Notes, text+".")
	}
	for _, s := range labels {
		if s.Label > 0 && s.Emptied > 0 {
			t.Notes = append(t.Notes,
				fmt.Sprintf("%s: not scored in %s, where it was drawn and other structures have all its voxels.",
					callLabel(s), numbers.Count(s.Emptied, "reference")))
		}
		if s.Label > 0 && s.Unlearnt > 0 {
			t.Notes = append(t.Notes,
				fmt.Sprintf("%s: in no number, for no training case shows it: the "+
					"network cannot have learnt it (%d test cases).", callLabel(s), s.Unlearnt))
		}
	}
	if infinite {
		t.Notes = append(t.Notes,
			"∞: so many labels that were missed or invented, whose distances are not in the mean.")
	}
	return t
}

// nowhere explains the dashes of labels that no case shows.
func nowhere(labels []eval.LabelSummary) []string {
	var names []string
	for _, s := range labels {
		if s.Label > 0 && s.Cases > 0 && s.Absent == s.Cases {
			names = append(names, callLabel(s))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{"–: in no prediction and no reference, so that nothing can be measured: " + List(names, 20) + "."}
}

// Undrawn says in how many cases labels were left out, because nobody drew them there; "" for none.
func Undrawn(labels []eval.LabelSummary) string {
	var parts []string
	for _, s := range labels {
		if s.Label > 0 && s.Undrawn > 0 {
			parts = append(parts, fmt.Sprintf("%s in %d of %d", callLabel(s), s.Undrawn, s.Cases+s.Undrawn))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Not drawn in every reference, and not scored where it is not: " + List(parts, 20)
}

// callLabel names a label for people.
func callLabel(s eval.LabelSummary) string {
	return cmp.Or(nameOf(s.Label, s.Name), fmt.Sprintf("label %d", s.Label))
}
