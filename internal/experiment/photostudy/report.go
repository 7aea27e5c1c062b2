package photostudy

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/table"
)

// Tables are the results of a comparison that have rows: features, claims, puzzles.
func Tables(plan Plan, results []Result) []table.Table {
	var all []table.Table
	for _, t := range []table.Table{SummaryTable(plan, results), SolvedTable(plan, results), TransferTable(plan, results),
		ContrastTable(plan, results)} {
		if len(t.Rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// Report is the page of a comparison: what features are worth, the plan's claims, how puzzles were
// solved, and how it was made. settings is the resolved configuration.
func Report(plan Plan, results []Result, settings string) report.Report {
	r := report.Report{Title: "What networks learn from photographs", Subtitle: Finished(plan, results)}
	add := func(title string, t table.Table, folded bool, blocks ...report.Block) {
		if len(t.Rows) > 0 {
			r.Sections = append(r.Sections,
				report.Section{Title: title, Blocks: append(blocks, report.Table{Table: t, Folded: folded})})
		}
	}
	add("Arms", SummaryTable(plan, results), false)
	add("What features are worth", TransferTable(plan, results), false, transferFigures(plan, results))
	add("Claims", ContrastTable(plan, results), false, contrastFigures(plan, results))
	add("Puzzles", SolvedTable(plan, results), true, roundCharts(plan, results))
	r.Sections = append(r.Sections, report.Section{Title: "How it was made",
		Blocks: []report.Block{report.Code{Title: "config.yaml", Text: settings}}})
	return r
}

// Finished says how much of a plan the results are of.
func Finished(plan Plan, results []Result) string {
	all := len(plan.Arms) * len(plan.Seeds)
	return fmt.Sprintf("%d of %s finished: %s, %s", len(results), numbers.Count(all, "run"),
		numbers.Count(len(plan.Arms), "arm"), numbers.Count(len(plan.Seeds), "seed"))
}

// transferFigures show every draw of every training, an arm a row.
func transferFigures(plan Plan, results []Result) report.Figures {
	var all report.Figures
	for k, target := range plan.Transfer {
		b := report.Boxes{Title: "A linear machine on the features: " + target.Name,
			X: "photographs told right, mean over classes (%)"}
		for n, arm := range plan.Arms {
			row := report.BoxRow{Name: arm.Name, Color: n}
			if arm.Random {
				row.Color = 0
			}
			for _, result := range ofArm(results, arm.Name) {
				for i, d := range result.Transfer[k].Draws {
					row.Values, row.Points = append(row.Values, 100*d.ClassMean),
						append(row.Points, fmt.Sprintf("seed %d, draw %d", result.Seed, i+1))
				}
			}
			if len(row.Values) > 0 {
				b.Rows = append(b.Rows, row)
			}
		}
		all = append(all, b)
	}
	return all
}

// contrastFigures show the differences of the claims, a chart for each measurement.
func contrastFigures(plan Plan, results []Result) report.Figures {
	var all report.Figures
	of := differences(plan, results)
	for _, m := range measurements(plan) {
		f := report.Forest{Title: m.on + ": paired differences, with their 95 % intervals over trainings",
			X: "difference in points, above 0 is as claimed"}
		for _, d := range of {
			if d.on == m.on {
				f.Rows = append(f.Rows, report.ForestRow{Name: d.Name, Estimate: d.mean(), Interval: d.interval,
					Values: d.seeds, Remark: signed([]float64{d.mean()}), Class: d.class()})
			}
		}
		if len(f.Rows) > 0 {
			all = append(all, f)
		}
	}
	return all
}

// roundCharts show the patches in place round by round, with unary terms alone and with binary
// ones.
func roundCharts(plan Plan, results []Result) report.Charts {
	var all report.Charts
	for _, way := range ways[:2] {
		c := report.Chart{Title: "Patches in place, " + way + " (%)", X: "round", Range: &[2]float64{0, 100}}
		for _, arm := range plan.Arms {
			if s := rounds(ofArm(results, arm.Name), way); len(s.Y) > 0 {
				s.Name = arm.Name
				c.Series = append(c.Series, s)
			}
		}
		if len(c.Series) > 0 {
			all = append(all, c)
		}
	}
	return all
}

// rounds are the patches in place of an arm, the mean over its seeds.
func rounds(of []Result, way string) (s report.Series) {
	for _, r := range of {
		for i, m := range r.Solved[way].Rounds {
			if i == len(s.Y) {
				s.X, s.Y = append(s.X, float64(i+1)), append(s.Y, 0)
			}
			s.Y[i] += 100 * m.Patches / float64(len(of))
		}
	}
	return s
}
