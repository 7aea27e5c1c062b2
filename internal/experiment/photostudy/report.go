package photostudy

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/table"
)

// Finished implements [experiment.Outcome], as the methods below do.
func (f *Found) Finished() int { return len(f.Results) }

func (f *Found) Warnings() []string { return nil }
func (f *Found) JSON() any          { return f.Results }

// Write leaves the settings: each result is in its own folder.
func (f *Found) Write(s experiment.Setting) (without, err error) {
	return nil, errors.Join(atomicfile.WriteBytes(filepath.Join(s.Out, configFile), s.Settings),
		atomicfile.Seal(s.Out, configFile))
}

// Tables are the results of a comparison that have rows: features, claims, puzzles.
func (f *Found) Tables(experiment.Setting) (all []table.Table, err error) {
	for _, of := range []func(Plan, []Result) table.Table{summaryTable, solvedTable, transferTable, contrastTable} {
		if t := of(f.Plan, f.Results); len(t.Rows) > 0 {
			all = append(all, t)
		}
	}
	return all, nil
}

// Report is the page of a comparison: what features are worth, the plan's claims, how puzzles were
// solved, and how it was made.
func (f *Found) Report(_ context.Context, title string, s experiment.Setting) (report.Report, error) {
	plan, results := f.Plan, f.Results
	r := report.Report{Title: title, Subtitle: fmt.Sprintf("%d of %s finished: %s, %s", len(results),
		numbers.Count(len(plan.Arms)*len(plan.Seeds), "run"), numbers.Count(len(plan.Arms), "arm"),
		numbers.Count(len(plan.Seeds), "seed"))}
	add := func(title string, t table.Table, folded bool, blocks ...report.Block) {
		if len(t.Rows) > 0 {
			r.Sections = append(r.Sections,
				report.Section{Title: title, Blocks: append(blocks, report.Table{Table: t, Folded: folded})})
		}
	}
	add("Arms", summaryTable(plan, results), false)
	add("What features are worth", transferTable(plan, results), false, transferFigures(plan, results))
	add("Claims", contrastTable(plan, results), false, contrastFigures(plan, results))
	add("Puzzles", solvedTable(plan, results), true, roundCharts(plan, results))
	r.Sections = append(r.Sections, report.Section{Title: "How it was made",
		Blocks: []report.Block{report.Code{Title: configFile, Text: string(s.Settings)}}})
	return r, nil
}

// transferFigures show every draw of every training, an arm a row.
func transferFigures(plan Plan, results []Result) report.Figures {
	var all report.Figures
	for k, target := range plan.Transfer {
		b := report.Boxes{Title: "A linear machine on the features: " + target.Name,
			X: "photographs told right, mean over classes (%)"}
		trained := trainedArms(plan)
		for _, arm := range plan.Arms { // the index of a random one is -1, and its colour grey
			row := report.BoxRow{Name: arm.Name, Color: slices.Index(trained, arm.Name) + 1}
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
		c := report.Chart{Title: "Patches in place, " + way + " (%)", X: "round", Range: &[2]float64{0, 100},
			Names: trainedArms(plan)}
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

// trainedArms are the names of the arms that are trained, in the order of their colours.
func trainedArms(plan Plan) (names []string) {
	for _, arm := range plan.Arms {
		if !arm.Random {
			names = append(names, arm.Name)
		}
	}
	return names
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
