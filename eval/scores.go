package eval

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Metric is one number of a [Score].
type Metric struct {
	Column
	Of func(Score) float64
}

// Metrics are the numbers of a Score, in the order of the tables.
var Metrics = []Metric{
	{Column{"dsc", "DSC", 4}, func(s Score) float64 { return s.DSC }},
	{Column{"hd95_mm", "HD95 (mm)", 2}, func(s Score) float64 { return s.HD95 }},
	{Column{"hd_mm", "HD (mm)", 2}, func(s Score) float64 { return s.HD }},
	{Column{"assd_mm", "ASSD (mm)", 2}, func(s Score) float64 { return s.ASSD }},
	{Column{"nsd", "NSD", 4}, func(s Score) float64 { return s.NSD }},
	{Column{"predicted_ml", "predicted (ml)", 2}, func(s Score) float64 { return s.Predicted }},
	{Column{"reference_ml", "reference (ml)", 2}, func(s Score) float64 { return s.Reference }},
	{Column{"difference_ml", "difference (ml)", 2}, Score.VolumeDifference},
}

// MetricNamed finds a metric by its key, with or without the unit.
func MetricNamed(key string) (Metric, error) {
	for _, m := range Metrics {
		if m.Key == key || m.Key == key+"_mm" || m.Key == key+"_ml" {
			return m, nil
		}
	}
	return Metric{}, fmt.Errorf("no metric %q: there are dsc, hd95, hd, assd, nsd, predicted, reference and difference", key)
}

// columns are the metrics' columns, with the tolerance in NSD's title.
func columns(scores []Score) []Column {
	all := make([]Column, len(Metrics))
	for n, m := range Metrics {
		all[n] = m.Column
		if m.Key == "nsd" && len(scores) > 0 {
			all[n].Title = fmt.Sprintf("NSD (%g mm)", scores[0].Tolerance)
		}
	}
	return all
}

// PerCase is the table of all scores, a row a case and label.
func PerCase(scores []Score) Table {
	t := Table{Title: "Per case", Columns: append([]Column{{"case", "case", 0}, {"label", "label", 0}, {"name", "name", 0}}, columns(scores)...)}
	t.Columns = append(t.Columns, Column{Key: "tolerance_mm"})
	for _, s := range scores {
		row := []any{s.Case, int(s.Label), s.Name}
		for _, m := range Metrics {
			row = append(row, m.Of(s))
		}
		t.Rows = append(t.Rows, append(row, s.Tolerance))
	}
	return t
}

// PerLabel is the table of mean ± standard deviation over the cases, a row a label, and, for
// several labels, a last row over all scores.
func PerLabel(scores []Score) Table {
	t := Table{Title: "Per label", Columns: append([]Column{{"label", "label", 0}, {"name", "name", 0}, {"cases", "cases", 0}}, columns(scores)...)}
	row := func(label any, name string, some []Score) {
		r := []any{label, name, len(some)}
		for _, m := range Metrics {
			r = append(r, Summarise(values(some, m)))
		}
		t.Rows = append(t.Rows, r)
	}
	labels := Labels(scores)
	infinite := false
	for _, l := range labels {
		some := slices.DeleteFunc(slices.Clone(scores), func(s Score) bool { return s.Label != l })
		row(int(l), some[0].Name, some)
	}
	if len(labels) > 1 {
		row(nil, "all", scores)
	}
	for _, r := range t.Rows {
		for _, c := range r {
			s, is := c.(Spread)
			infinite = infinite || is && s.Infinite > 0
		}
	}
	t.Notes = append(t.Notes, "Mean ± standard deviation over the cases.")
	if infinite {
		t.Notes = append(t.Notes, "∞: cases whose label was missed or invented. Their distances are not in the mean.")
	}
	return t
}

// Labels lists the labels that were scored, in ascending order.
func Labels(scores []Score) []uint16 {
	var labels []uint16
	for _, s := range scores {
		labels = append(labels, s.Label)
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

func values(scores []Score, m Metric) []float64 {
	all := make([]float64, len(scores))
	for n, s := range scores {
		all[n] = m.Of(s)
	}
	return all
}

// ReadCSV reads back the scores that [PerCase] wrote as CSV, every digit of them. An experiment
// that is resumed gets its finished runs this way.
func ReadCSV(r io.Reader) ([]Score, error) {
	records, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading scores: %w", err)
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("reading scores: no header")
	}
	at := map[string]int{}
	for n, key := range records[0] {
		at[key] = n
	}
	for _, key := range []string{"case", "label", "name"} {
		if _, ok := at[key]; !ok {
			return nil, fmt.Errorf("reading scores: no column %q: not a table of scores", key)
		}
	}
	var scores []Score
	for line, record := range records[1:] {
		label, err := strconv.ParseUint(record[at["label"]], 10, 16)
		if err != nil {
			return nil, fmt.Errorf("reading scores: line %d: label %q is not a number up to 65535", line+2, record[at["label"]])
		}
		s := Score{Case: record[at["case"]], Label: uint16(label), Name: record[at["name"]]}
		for key, dst := range map[string]*float64{
			"dsc": &s.DSC, "hd95_mm": &s.HD95, "hd_mm": &s.HD, "assd_mm": &s.ASSD, "nsd": &s.NSD, "predicted_ml": &s.Predicted, "reference_ml": &s.Reference, "tolerance_mm": &s.Tolerance,
		} {
			n, ok := at[key]
			if !ok {
				return nil, fmt.Errorf("reading scores: no column %q", key)
			}
			if *dst, err = strconv.ParseFloat(record[n], 64); err != nil {
				return nil, fmt.Errorf("reading scores: line %d: %s %q is not a number", line+2, key, record[n])
			}
		}
		scores = append(scores, s)
	}
	return scores, nil
}

// Sort puts scores in the order of cases, then labels.
func Sort(scores []Score) {
	slices.SortStableFunc(scores, func(a, b Score) int { return cmp.Or(cmp.Compare(a.Case, b.Case), cmp.Compare(a.Label, b.Label)) })
}
