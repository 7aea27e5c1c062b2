package experiment

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/table"
)

// This file: what scores alone tell, without the folder of the experiment that they come from.

// Scored are runs that were scored, of one experiment or of several.
type Scored struct {
	Runs     []eval.Trial
	Curves   []eval.LearningCurve // DSC in percent; may be none
	Baseline string               // the initialisation that the others are compared with
	// Names are the initialisations of the plan, or of all files, some of which may have no run
	// here: each keeps its colour. When nil, those of the runs.
	Names []string
	About string   // what else is known of the runs, for the report; may be empty
	Notes []string // what is to be known beside their scores; may be none
	// Published are scores of others to show beside these; none without scores.
	Published table.Published
}

// Scored are the runs that are finished, without their learning curves.
func (r *Result) Scored() Scored {
	about := "Test cases were not looked at in training: the networks are those after the last step."
	if r.Seen {
		about = "The networks are those after the last step of fine-tuning, which did not look at test cases; " +
			"what some had learnt from before is said below."
	}
	if r.Plan.Subsets == subsetsShared && len(r.Plan.Seeds) > 1 {
		about += " All seeds of a fold have the same labelled cases (subsets: shared): their runs are averaged, and " +
			"a fold counts once in intervals and p, which do not tell of other labelled cases."
	}
	var names []string
	for _, i := range r.Plan.Inits {
		names = append(names, i.Name)
	}
	return Scored{Runs: r.Runs, Baseline: r.baseline(), Names: names, Published: r.Plan.published(),
		About: about, Notes: r.Notes}
}

// published are the scores that the plan has of others.
func (p Plan) published() table.Published {
	of := table.Published{By: p.Published, Scores: map[string]map[float64]float64{}}
	for _, i := range p.Inits {
		if len(i.Published) > 0 {
			of.Scores[i.Name] = i.Published
		}
	}
	return of
}

// Table is the table of the runs in the shape of the paper's Table 3: DSC in percent, a row a
// fraction, a column an initialisation, each but the baseline with its difference over the runs,
// the difference's interval and p.
func (s Scored) Table() (eval.FoldTable, error) { return s.TableOf("dsc") }

// TableOf is the table of another metric of [eval.Metrics].
func (s Scored) TableOf(metric string) (eval.FoldTable, error) {
	return eval.Folds(s.Runs, eval.FoldOptions{Metric: metric, Baseline: s.Baseline})
}

// Initialisations are those of the runs, in their order.
func (s Scored) Initialisations() (names []string) {
	for _, r := range s.Runs {
		if !slices.Contains(names, r.Initialisation) {
			names = append(names, r.Initialisation)
		}
	}
	return names
}

// Measured says whether any run has a metric of [eval.Metrics].
func (s Scored) Measured(metric string) bool {
	m, err := eval.MetricNamed(metric)
	return err == nil && slices.ContainsFunc(s.Runs, func(r eval.Trial) bool {
		return slices.ContainsFunc(r.Scores, func(score eval.Score) bool { return !math.IsNaN(m.Of(score)) })
	})
}

// Paired are the runs of the baseline and of the initialisations that share at least two replicates
// with it, as a model needs; and the names of the others.
func (s Scored) Paired() (runs []eval.Trial, without []string) {
	for _, name := range s.Initialisations() {
		pairs, err := eval.Pairs(s.Runs, name, eval.FoldOptions{Baseline: s.Baseline})
		if name != s.Baseline && (err != nil || len(pairs) < 2) {
			without = append(without, name)
		}
	}
	return slices.DeleteFunc(slices.Clone(s.Runs),
		func(r eval.Trial) bool { return slices.Contains(without, r.Initialisation) }), without
}

// Without says below a table which initialisations are not in it.
func Without(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	return []string{"Without " + table.List(names, 0) + ": of fewer than two pairs of runs there is no model."}
}

// Report is the page on the runs.
func (s Scored) Report(title, subtitle string) (report.Report, error) {
	page := report.Report{Title: title, Subtitle: subtitle}
	of, err := s.sections()
	page.Sections = slices.Concat([]report.Section{of.means}, of.differences, of.learning,
		[]report.Section{of.structures})
	return page, err
}

// scoredSections are the parts of a report that need nothing but scores.
type scoredSections struct {
	means                 report.Section
	differences, learning []report.Section // none where there is nothing to compare, or no curve
	structures            report.Section
}

func (s Scored) sections() (of scoredSections, err error) {
	folds, err := s.Table()
	if err != nil {
		return of, err
	}
	if of.means, err = s.means(folds); err != nil {
		return of, err
	}
	if len(folds.Initialisations) > 1 {
		others, err := s.otherMeasures()
		if err != nil {
			return of, err
		}
		of.differences = []report.Section{s.comparison(folds), others}
	}
	changes, err := s.Changes(folds.Metric, 0)
	if err != nil {
		return of, err
	}
	for _, t := range changes {
		of.differences = append(of.differences,
			report.Section{Title: t.Section, Blocks: []report.Block{report.Table{Table: t.Table}}})
	}
	if len(s.Curves) > 0 {
		of.learning = []report.Section{s.learning(folds.Fractions)}
	}
	of.structures = s.perLabel(folds.Fractions)
	return of, nil
}

// means is the section with the table of all runs, and what is to be known of it.
func (s Scored) means(folds eval.FoldTable) (report.Section, error) {
	var others []eval.FoldTable
	if s.Measured("hd95") {
		hd95, err := s.TableOf("hd95")
		if err != nil {
			return report.Section{}, err
		}
		others = append(others, hd95)
	}
	about := "Mean DSC over the test cases of each fold, in percent: mean ± standard deviation over folds and seeds. "
	if len(folds.Initialisations) > 1 {
		about += "The difference compares each run with that of " + s.Baseline +
			" of the same fold and seed; its interval and p are over these pairs of runs (paired " +
			"t-test), not over the patients of one run. "
	}
	noise, err := eval.NoiseOf(s.Runs, eval.FoldOptions{Baseline: s.Baseline})
	if err != nil {
		return report.Section{}, err
	}
	if len(noise) > 0 {
		about += table.SharedDraws + ". "
	}
	section := report.Section{Title: "Segmentation of unseen cases", Blocks: []report.Block{
		report.Text(about + s.About),
		report.Folds{FoldTable: folds, Others: others, Published: s.Published, Names: s.Names},
	}}
	for _, note := range s.Notes {
		section.Blocks = append(section.Blocks, report.Text(note+"."))
	}
	for _, warning := range s.Warnings() {
		section.Blocks = append(section.Blocks, report.Text(warning+"."))
	}
	section.Blocks = append(section.Blocks, report.Table{Table: s.Postprocessing()})
	if len(noise) > 0 {
		section.Blocks = append(section.Blocks, report.Table{Table: table.Noise(noise, folds.Metric)})
	}
	return section, nil
}

// comparison tells the initialisations apart, as far as the runs do: the differences with their
// intervals, and a mixed model over all runs.
func (s Scored) comparison(folds eval.FoldTable) report.Section {
	section := report.Section{Title: "Comparison", Blocks: []report.Block{report.Figures{report.Differences(folds)},
		report.Table{Table: table.Differences(folds)}}}
	o := eval.FoldOptions{Metric: "dsc", Baseline: s.Baseline}
	// A model needs more runs than a small experiment has, or one that began has yet.
	runs, without := s.Paired()
	fit, err := eval.Mixed(runs, o)
	switch {
	case err == nil:
		t := table.Mixed(fit, folds.Metric)
		t.Notes = append(t.Notes, Without(without)...)
		section.Blocks = append(section.Blocks, report.Table{Table: t})
	case errors.Is(err, eval.ErrManyLevels):
		section.Blocks = append(section.Blocks, report.Text("No mixed model: "+err.Error()+"."))
	}
	return section
}

// ChangeTable is what more labelled cases change, or what changes between experiments.
type ChangeTable struct {
	Section string // of the report
	table.Table
}

// Changes tells by a metric of [eval.Metrics], over all labels (0) or by one, what changes with
// more labelled cases, where runs have several shares of the training cases, and what changes
// between experiments, where the names of the initialisations begin with those of several.
func (s Scored) Changes(metric eval.Metric, label uint16) (tables []ChangeTable, err error) {
	// The tables have no bootstrap.
	o := eval.FoldOptions{Metric: metric.Key, Label: label, Baseline: s.Baseline, Resamples: 1}
	from, baseline := study(s.Baseline)
	names, of := studies(s.Runs)
	var labelled []eval.LabelGain
	var between []table.StudyChange
	told := true // by the differences to the baseline
	for _, name := range names {
		o.Baseline = baseline
		gains, err := eval.LabelGains(of[name], o)
		if err != nil {
			return nil, err
		}
		for _, g := range gains {
			g.Initialisation = InStudy(name, g.Initialisation)
			if g.Baseline != "" {
				g.Baseline = InStudy(name, g.Baseline)
			}
			labelled = append(labelled, g)
		}
		if name == from || name == "" || from == "" {
			continue
		}
		changes, err := eval.Changes(of[from], of[name], o)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			told = told && c.Initialisation == baseline
			between = append(between, table.StudyChange{From: from, To: name, Change: c})
		}
	}
	if len(labelled) > 0 {
		tables = append(tables, ChangeTable{"More labels", table.LabelGains(labelled, metric)})
	}
	if !told {
		tables = append(tables, ChangeTable{"Between experiments", table.StudyChanges(between, metric)})
	}
	return tables, nil
}

// study takes apart what [InStudy] puts together. Plans have no initialisation with a slash; other
// programs may, and then what stands before it is what they are told apart by.
func study(initialisation string) (name, rest string) {
	if before, after, several := strings.Cut(initialisation, "/"); several && before != "" && after != "" {
		return before, after
	}
	return "", initialisation
}

// InStudy is the name of an initialisation of an experiment among those of several: long/scratch.
// It is the initialisation's own where the experiment has no name.
func InStudy(name, initialisation string) string {
	if name == "" {
		return initialisation
	}
	return name + "/" + initialisation
}

// studies are the experiments that the names of the initialisations begin with, in the order of the
// runs, and the runs of each under the initialisations' own names. Those without are of one that
// has no name.
func studies(runs []eval.Trial) (names []string, of map[string][]eval.Trial) {
	of = map[string][]eval.Trial{}
	for _, r := range runs {
		var name string
		name, r.Initialisation = study(r.Initialisation)
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		of[name] = append(of[name], r)
	}
	return names, of
}

// otherMeasures compares the runs by the surface metrics that were measured, and by each
// structure's DSC.
func (s Scored) otherMeasures() (report.Section, error) {
	section := report.Section{Title: "Other measures"}
	var measures []table.Measure
	add := func(name string, o eval.FoldOptions) error {
		o.Baseline, o.Resamples = s.Baseline, 1 // the table has no bootstrap
		folds, err := eval.Folds(s.Runs, o)
		if err != nil {
			return err
		}
		measures = append(measures, table.Measure{Name: table.MetricColumn(folds.Metric, true).Title + name,
			Folds: folds})
		return nil
	}
	for _, metric := range []string{"nsd", "hd95"} {
		if !s.Measured(metric) || metric == "nsd" && len(s.tolerances()) > 1 {
			continue
		}
		if err := add("", eval.FoldOptions{Metric: metric}); err != nil {
			return section, err
		}
	}
	labels, names := s.structures()
	for _, label := range labels {
		name := " of label " + strconv.Itoa(int(label))
		if names[label] != "" && names[label] != strconv.Itoa(int(label)) {
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
func (s Scored) structures() (labels []uint16, names map[uint16]string) {
	names = map[uint16]string{}
	for _, run := range s.Runs {
		for _, score := range run.Scores {
			if _, seen := names[score.Label]; !seen {
				labels = append(labels, score.Label)
			}
			names[score.Label] = cmp.Or(names[score.Label], score.Name)
		}
	}
	slices.Sort(labels)
	return labels, names
}

// perLabel tells each structure's DSC apart.
func (s Scored) perLabel(fractions []float64) report.Section {
	section := report.Section{Title: "Structures"}
	dsc := eval.Metrics[0]
	labels, names := s.structures()
	for _, fraction := range fractions {
		t := table.Table{Title: table.Percent(fraction) +
			" of the training cases: DSC in percent, over all test cases, folds and seeds",
			Columns: []table.Column{{Key: "label", Title: "label"}, {Key: "name", Title: "structure"}}}
		for _, init := range s.Initialisations() {
			t.Columns = append(t.Columns, table.Column{Key: init, Title: init, Digits: 2})
		}
		values := map[uint16]map[string][]float64{}
		var of []eval.Trial
		unlearnt := map[uint16]bool{}
		for _, run := range s.Runs {
			if run.Fraction != fraction {
				continue
			}
			of = append(of, run)
			for _, score := range run.Scores {
				if values[score.Label] == nil {
					values[score.Label] = map[string][]float64{}
				}
				if score.Unlearnt {
					unlearnt[score.Label] = true
					continue
				}
				values[score.Label][run.Initialisation] = append(values[score.Label][run.Initialisation], 100*score.DSC)
			}
		}
		for _, label := range labels {
			if values[label] == nil {
				continue
			}
			name := names[label]
			if unlearnt[label] {
				name = cmp.Or(name, strconv.Itoa(int(label))) + " *"
			}
			row := []any{int(label), name}
			for _, init := range s.Initialisations() {
				row = append(row, eval.Summarise(values[label][init]))
			}
			t.Rows = append(t.Rows, row)
		}
		t.Notes = append(t.Notes, unlearntNotes(of)...)
		if len(t.Rows) > 0 {
			section.Blocks = append(section.Blocks, report.Table{Table: t},
				report.Figures{report.RunBoxes(s.Runs, fraction, dsc, s.Names, s.Baseline)})
		}
	}
	return section
}

// learning is the section on the learning curves, which say what pretraining is worth at every
// budget of fine-tuning and not at one.
func (s Scored) learning(fractions []float64) report.Section {
	var charts report.Charts
	for _, fraction := range fractions {
		chart := report.Chart{Title: "DSC in percent, " + table.Percent(fraction) + " of the training cases", X: "step",
			Points: true, Names: s.Names, Baseline: s.Baseline}
		if s.Names == nil {
			chart.Names = s.Initialisations()
		}
		for _, init := range s.Initialisations() {
			own := slices.DeleteFunc(slices.Clone(s.Curves),
				func(c eval.LearningCurve) bool { return c.Fraction != fraction || c.Initialisation != init })
			if x, y := eval.MeanCurve(own); len(x) > 0 {
				chart.Series = append(chart.Series, report.Series{Name: init, X: x, Y: y})
			}
		}
		if len(chart.Series) > 0 {
			charts = append(charts, chart)
		}
	}
	return report.Section{Title: "Learning curves", Blocks: []report.Block{
		report.Text("Mean over folds and seeds. Measured on the prepared voxels of training cases of the fold that a " +
			"run does not learn from; no network is chosen by them. Where encoders are pretrained on the fold's " +
			"training cases (plans without unlabelled), they have seen the images of these, without labels, which " +
			"may flatter their curves: scores of test cases, which nobody has seen, are above."),
		charts, report.Table{Table: table.CurveRows(eval.CompareCurves(s.Curves, s.Baseline), s.Baseline)},
	}}
}
