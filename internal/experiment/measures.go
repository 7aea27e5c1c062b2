package experiment

import (
	"slices"
	"strconv"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/table"
)

// This file: what the report tells beside the mean DSC: other metrics, and each structure.

// secondary compares the runs by the surface metrics that were measured, and by each structure's
// DSC.
func (r *Result) secondary() (report.Section, error) {
	section := report.Section{Title: "Other measures"}
	metrics := []string{"nsd", "hd95"}
	if r.Plan.Metrics.Overlap {
		metrics = nil
	}
	var measures []table.Measure
	add := func(name string, o eval.FoldOptions) error {
		o.Baseline = r.baseline()
		folds, err := eval.Folds(r.Runs, o)
		if err != nil {
			return err
		}
		measures = append(measures, table.Measure{Name: table.MetricColumn(folds.Metric, true).Title + name, Folds: folds})
		return nil
	}
	for _, metric := range metrics {
		if err := add("", eval.FoldOptions{Metric: metric}); err != nil {
			return section, err
		}
	}
	labels, names := r.structures()
	for _, label := range labels {
		name := " of label " + strconv.Itoa(int(label))
		if names[label] != strconv.Itoa(int(label)) {
			name += ", " + names[label]
		}
		if err := add(name, eval.FoldOptions{Metric: "dsc", Label: label}); err != nil {
			return section, err
		}
	}
	section.Blocks = []report.Block{report.Table{Table: table.Measures(measures)}}
	return section, nil
}

// structures are the labels that were scored, in order, and their names.
func (r *Result) structures() (labels []uint16, names map[uint16]string) {
	names = map[uint16]string{}
	for _, run := range r.Runs {
		for _, s := range run.Scores {
			if _, seen := names[s.Label]; !seen {
				labels = append(labels, s.Label)
			}
			names[s.Label] = s.Name
		}
	}
	slices.Sort(labels)
	return labels, names
}

// perLabel tells each structure's DSC apart.
func (r *Result) perLabel() report.Section {
	section := report.Section{Title: "Structures"}
	dsc := eval.Metrics[0]
	labels, names := r.structures()
	for _, fraction := range r.Plan.Fractions {
		t := table.Table{Title: table.Percent(fraction) + " of the training cases: DSC in percent, over all test cases, folds and seeds", Columns: []table.Column{{Key: "label", Title: "label"}, {Key: "name", Title: "structure"}}}
		for _, i := range r.Plan.Inits {
			t.Columns = append(t.Columns, table.Column{Key: i.Name, Title: i.Name, Digits: 2})
		}
		values := map[uint16]map[string][]float64{}
		for _, run := range r.Runs {
			if run.Fraction != fraction {
				continue
			}
			for _, s := range run.Scores {
				if values[s.Label] == nil {
					values[s.Label] = map[string][]float64{}
				}
				values[s.Label][run.Initialisation] = append(values[s.Label][run.Initialisation], 100*s.DSC)
			}
		}
		for _, label := range labels {
			if values[label] == nil {
				continue
			}
			row := []any{int(label), names[label]}
			for _, i := range r.Plan.Inits {
				row = append(row, eval.Summarise(values[label][i.Name]))
			}
			t.Rows = append(t.Rows, row)
		}
		if len(t.Rows) > 0 {
			section.Blocks = append(section.Blocks, report.Table{Table: t}, report.Figures{report.RunBoxes(r.Runs, fraction, dsc, r.baseline())})
		}
	}
	return section
}
