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
// know first, such as predictions that were missing; more are sections that stand after the box
// plots.
func Scores(title, subtitle string, scores []eval.Score, remarks []string,
	more ...Section) Report {
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
	r.Sections = append(r.Sections, more...)
	perCase := table.PerCase(sortedByWorst(scores))
	perCase.Title += ", the lowest mean DSC first"
	all := []Block{Table{Table: perCase, Folded: len(scores) > 20}}
	if worst := worstCases(scores, 10); len(worst.Rows) > 0 {
		all = append([]Block{Table{Table: worst}}, all...)
	}
	r.Sections = append(r.Sections, Section{"Scores", all})
	return r
}

// WorstFirst lists the cases by their mean DSC over labels, the lowest first, and those that have
// none at the end. Labels that could not be learnt do not count.
func WorstFirst(scores []eval.Score) (names []string, means map[string]float64) {
	values := map[string][]float64{}
	for _, s := range scores {
		if values[s.Case] == nil {
			names, values[s.Case] = append(names, s.Case), []float64{}
		}
		if !math.IsNaN(s.DSC) && !s.Unlearnt {
			values[s.Case] = append(values[s.Case], s.DSC)
		}
	}
	means = map[string]float64{}
	for name, v := range values {
		means[name] = eval.Summarise(v).Mean
	}
	key := func(name string) float64 {
		if math.IsNaN(means[name]) {
			return math.Inf(1)
		}
		return means[name]
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(key(a), key(b)) })
	return names, means
}

// sortedByWorst puts scores in the order of [WorstFirst], and those of a case by their DSC.
func sortedByWorst(scores []eval.Score) []eval.Score {
	names, _ := WorstFirst(scores)
	at := map[string]int{}
	for n, name := range names {
		at[name] = n
	}
	sorted := slices.Clone(scores)
	slices.SortStableFunc(sorted, func(a, b eval.Score) int {
		return cmp.Or(at[a.Case]-at[b.Case], cmp.Compare(a.DSC, b.DSC))
	})
	return sorted
}

// worstCases are the cases with the lowest mean DSC, where there are enough for it to be a choice.
func worstCases(scores []eval.Score, most int) table.Table {
	poorest := map[string]eval.Score{}
	for _, s := range scores {
		if p, seen := poorest[s.Case]; !math.IsNaN(s.DSC) && (!seen || s.DSC < p.DSC) {
			poorest[s.Case] = s
		}
	}
	names, means := WorstFirst(scores)
	if names = slices.DeleteFunc(names, func(n string) bool { return math.IsNaN(means[n]) }); len(names) <= most {
		return table.Table{}
	}
	t := table.Table{Title: "Look at these first: the lowest mean DSC", Columns: []table.Column{
		{Key: "case", Title: "case"}, {Key: "mean_dsc", Title: "mean DSC", Digits: 4},
		{Key: "lowest", Title: "lowest label"}, {Key: "lowest_dsc", Title: "its DSC", Digits: 4},
		{Key: "outcome", Title: "which was"},
	}}
	for _, name := range names[:most] {
		p := poorest[name]
		t.Rows = append(t.Rows, []any{name, means[name], cmp.Or(p.Name, fmt.Sprint(p.Label)), p.DSC,
			string(p.Outcome())})
	}
	return t
}

// drawable tells whether there is a finite value to draw.
func (b Boxes) drawable() bool {
	return slices.ContainsFunc(b.Rows,
		func(r BoxRow) bool { return slices.ContainsFunc(r.Values, numbers.Finite[float64]) })
}
