package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/table"
)

// Scores is the page on label maps that were compared with references: the summary by label, box
// plots of every case, the cases to look at first, and all scores. Remarks say what a reader should
// know first, such as predictions that were missing.
func Scores(title, subtitle string, scores []eval.Score, remarks []string) Report {
	r := Report{Title: title, Subtitle: subtitle}
	var summary []Block
	for _, remark := range remarks {
		summary = append(summary, Text(remark))
	}
	r.Sections = append(r.Sections, Section{"Summary",
		append(summary, Table{Table: table.PerLabel(scores).Hide("hd_mm", "assd_mm", "predicted_ml", "reference_ml")})})
	var plots Figures
	for _, key := range []string{"dsc", "nsd", "hd95"} {
		m, err := eval.MetricNamed(key)
		if plot := LabelBoxes(scores, m); err == nil && plot.drawable() {
			plots = append(plots, plot)
		}
	}
	if len(plots) > 0 {
		r.Sections = append(r.Sections, Section{"Cases", []Block{plots}})
	}
	all := []Block{Table{Table: table.PerCase(scores), Folded: len(scores) > 20}}
	if worst := worstCases(scores, 10); len(worst.Rows) > 0 {
		all = append([]Block{Table{Table: worst}}, all...)
	}
	r.Sections = append(r.Sections, Section{"Scores", all})
	return r
}

// worstCases are the cases with the lowest mean DSC, where there are enough for it to be a choice.
func worstCases(scores []eval.Score, most int) table.Table {
	values := map[string][]float64{}
	poorest := map[string]eval.Score{}
	var names []string
	for _, s := range scores {
		if math.IsNaN(s.DSC) {
			continue
		}
		if values[s.Case] == nil {
			names = append(names, s.Case)
		}
		if p, seen := poorest[s.Case]; !seen || s.DSC < p.DSC {
			poorest[s.Case] = s
		}
		values[s.Case] = append(values[s.Case], s.DSC)
	}
	if len(names) <= most {
		return table.Table{}
	}
	mean := func(name string) float64 { return eval.Summarise(values[name]).Mean }
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(mean(a), mean(b)) })
	t := table.Table{Title: "Look at these first: the lowest mean DSC", Columns: []table.Column{
		{Key: "case", Title: "case"}, {Key: "mean_dsc", Title: "mean DSC", Digits: 4},
		{Key: "lowest", Title: "lowest label"}, {Key: "lowest_dsc", Title: "its DSC", Digits: 4},
		{Key: "outcome", Title: "which was"},
	}}
	for _, name := range names[:most] {
		p := poorest[name]
		t.Rows = append(t.Rows, []any{name, mean(name), cmp.Or(p.Name, fmt.Sprint(p.Label)), p.DSC,
			string(p.Outcome())})
	}
	return t
}

// drawable tells whether there is a finite value to draw.
func (b Boxes) drawable() bool {
	return slices.ContainsFunc(b.Rows, func(r BoxRow) bool { return slices.ContainsFunc(r.Values, numbers.Finite[float64]) })
}
