package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
)

// Folds is the table of an experiment, with a row for each share of the training cases. Each
// initialisation has its mean ± sd; all but the baseline also have the difference to the baseline,
// its interval and p over the runs. CSV and JSON also have the other figures of [Differences].
func Folds(f eval.FoldTable) Table {
	metric := MetricColumn(f.Metric, true)
	t := Table{Title: "Mean " + metric.Title + " by share of the training data", Columns: []Column{{"data", "data", 0}}}
	several := len(f.Initialisations) > 2
	for _, i := range f.Initialisations {
		key := strings.ReplaceAll(i, " ", "_")
		t.Columns = append(t.Columns, Column{key + "_" + metric.Key, i, metric.Digits})
		if i != f.Baseline {
			t.Columns = append(t.Columns, differenceColumns(key+"_", metric.Digits, several)...)
		}
	}
	for row, fraction := range f.Fractions {
		cells := []any{Percent(fraction)}
		for n, c := range f.Cells[row] {
			cells = append(cells, c.Spread)
			if f.Initialisations[n] != f.Baseline {
				cells = append(cells, differenceCells(c.Comparison, metric.Digits)...)
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	t.Notes = FoldNotes(f)
	return t
}

// Means is the table of all initialisations, a row for each and each share of the training cases.
func Means(f eval.FoldTable) Table {
	metric, shared := MetricColumn(f.Metric, true), shares(f)
	t := Table{Title: "Mean " + metric.Title, Columns: slices.Concat([]Column{
		{"initialisation", "initialisation", 0}, {"data", "data", 0}}, counted("runs", "runs", shared),
		[]Column{{metric.Key, metric.Title, metric.Digits}})}
	for row, fraction := range f.Fractions {
		for n, c := range f.Cells[row] {
			if c.Spread.N > 0 {
				t.Rows = append(t.Rows, slices.Concat([]any{f.Initialisations[n], Percent(fraction)},
					counts(c.Runs, c.Spread.N, shared), []any{c.Spread}))
			}
		}
	}
	t.Notes = FoldNotes(f)[:1]
	if note := infiniteNote(f); note != "" {
		t.Notes = append(t.Notes, note)
	}
	if text := Unlearnt(f.Unlearnt); text != "" {
		t.Notes = append(t.Notes, text+".")
	}
	return t
}

// differenceColumns are the columns of a comparison. With several of them p is adjusted, and the
// plain one is for programs.
func differenceColumns(prefix string, digits int, several bool) []Column {
	p, holm := Column{prefix + "p", "p (runs)", 3}, Column{prefix + "p_holm", "", 3}
	if several {
		p.Title, holm.Title = "", "p (runs, Holm)"
	}
	return []Column{
		{prefix + "difference", "difference", digits}, {prefix + "low", "", digits}, {prefix + "high", "", digits},
		{prefix + "interval", "95 % interval", 0}, p, holm,
		{prefix + "p_wilcoxon_runs", "", 3}, {prefix + "bootstrap_low", "", digits},
		{prefix + "bootstrap_high", "", digits},
		{prefix + "folds_low", "", digits}, {prefix + "folds_high", "", digits},
		{prefix + "cases_higher", "", 0}, {prefix + "cases_lower", "", 0}, {prefix + "cases_median", "", digits},
	}
}

func differenceCells(c eval.Comparison, digits int) []any {
	return []any{
		c.Gain, c.Interval.Low, c.Interval.High, Interval(c.Interval, digits), P(c.Test.P), P(c.Holm),
		P(c.Ranks.P), c.Bootstrap.Low, c.Bootstrap.High, c.Folds.Low, c.Folds.High, c.Cases.Higher, c.Cases.Lower,
		c.Cases.Median,
	}
}

// Unlearnt says which labels are left out of the means of which share of the runs, because no
// training case of these shows them; "" for none.
func Unlearnt(labels []eval.UnlearntLabel) string {
	var parts []string
	for _, l := range labels {
		parts = append(parts, fmt.Sprintf("%s in %d of %d runs",
			cmp.Or(nameOf(l.Label, l.Name), fmt.Sprintf("label %d", l.Label)), l.Runs, l.Of))
	}
	if len(parts) == 0 {
		return ""
	}
	return "In no mean, for no training case of the run shows it: " + List(parts, 20)
}

// infiniteNote says what the infinite values of a fold table are; "" where there are none.
func infiniteNote(f eval.FoldTable) string {
	for _, c := range slices.Concat(f.Cells...) {
		if c.Spread.Infinite > 0 {
			return "∞: so many labels of single cases that were missed or invented, whose distances are in no " +
				"mean; beside a difference, those of either run, which count in neither."
		}
	}
	return ""
}

// SharedDraws says what becomes of seeds that share a draw of the labelled cases.
const SharedDraws = "Seeds that share a draw of the labelled cases repeat the training and not the draw: their " +
	"runs of one fold are averaged first, and count once"

// ofPairs says what differences are taken over. shared says that seeds share draws of the labelled
// cases.
func ofPairs(shared bool) string {
	if shared {
		return "folds and draws of the labelled cases, each the mean over its pairs of runs of the same fold and seed"
	}
	return "pairs of runs of the same fold and seed"
}

// shares says whether a table has seeds with the same draw of labelled cases.
func shares(f eval.FoldTable) bool {
	return slices.ContainsFunc(slices.Concat(f.Cells...), func(c eval.FoldCell) bool {
		return c.Runs > c.Spread.N || pairsShare(c.Comparison)
	})
}

func pairsShare(c eval.Comparison) bool { return c.Runs > len(c.Gains) }

// counted are the columns that say of how many runs, or pairs of them, a mean is. Where seeds share
// draws, standard deviations, intervals and p are over fewer than these: that number has a column
// of its own.
func counted(key, of string, shared bool) []Column {
	if !shared {
		return []Column{{key, key, 0}}
	}
	return []Column{{key, of, 0}, {"replicates", "folds and draws", 0}}
}

// counts are the cells of these columns.
func counts(runs, replicates int, shared bool) []any {
	if !shared {
		return []any{replicates}
	}
	return []any{runs, replicates}
}

// FoldNotes say what the numbers of a fold table are.
func FoldNotes(f eval.FoldTable) []string {
	runs, pairs, shared := 0, 0, shares(f)
	for _, row := range f.Cells {
		for _, c := range row {
			runs, pairs = max(runs, c.Spread.N), max(pairs, c.Gain.N)
		}
	}
	notes := []string{fmt.Sprintf("Mean ± standard deviation over the runs (folds x seeds, up to %d in each "+
		"cell), each the mean over its test cases.", runs)}
	switch {
	case shared:
		notes[0] = fmt.Sprintf("Mean ± standard deviation over folds and draws of the labelled cases (up to %d in "+
			"each cell), of the means over test cases. %s.", runs, SharedDraws)
	case runs == 1:
		notes[0] = "Of one run in each cell: the mean over its test cases."
	}
	if text := Unlearnt(f.Unlearnt); text != "" {
		notes = append(notes, text+".")
	}
	if note := infiniteNote(f); note != "" {
		notes = append(notes, note)
	}
	if len(f.Initialisations) > 1 && pairs > 1 {
		note := fmt.Sprintf("Difference: to %s, over %s (up to %d); its 95 %% interval and p: two-sided paired t-test "+
			"over these", f.Baseline, ofPairs(shared), pairs)
		if !shared {
			note += " pairs"
		}
		if len(f.Initialisations) > 2 {
			note += ", p adjusted by Holm's method for the initialisations of a row"
		}
		notes = append(notes,
			note+". Test cases of one run share its training and are no repetitions: nothing is tested over them.")
		notes = append(notes, lessIsBetter(f)...)
	}
	return notes
}

const pairsOfRuns = "pairs of runs"

// Differences is the table of all comparisons with the baseline: a row for each initialisation and
// share of the training cases.
func Differences(f eval.FoldTable) Table {
	metric, shared := MetricColumn(f.Metric, true), shares(f)
	holm := "p, Holm"
	if len(f.Initialisations) < 3 {
		holm = "" // one comparison needs no adjustment
	}
	t := Table{Title: metric.Title + ": difference to " + f.Baseline, Columns: slices.Concat([]Column{
		{"initialisation", "initialisation", 0}, {"data", "data", 0}}, counted("pairs", pairsOfRuns, shared), []Column{
		{"difference", "difference", metric.Digits},
		{"low", "", metric.Digits}, {"high", "", metric.Digits}, {"interval", "95 % interval", 0}, {"p", "p", 3},
		{"p_holm", holm, 3}, {"p_wilcoxon_runs", "p, Wilcoxon", 3},
		{"bootstrap_low", "", metric.Digits}, {"bootstrap_high", "", metric.Digits}, {"bootstrap", "bootstrap", 0},
		{"folds_low", "", metric.Digits}, {"folds_high", "", metric.Digits}, {"folds", "over folds", 0},
		{"cases_higher", "", 0}, {"cases_lower", "", 0}, {"cases", "cases higher, lower", 0},
		{"cases_median", "", metric.Digits}, {"cases_rank_biserial", "", 3},
	})}
	for row, fraction := range f.Fractions {
		for n, c := range f.Cells[row] {
			if f.Initialisations[n] == f.Baseline {
				continue
			}
			t.Rows = append(t.Rows, slices.Concat([]any{f.Initialisations[n], Percent(fraction)},
				counts(c.Comparison.Runs, c.Gain.N, shared), []any{c.Gain, c.Interval.Low, c.Interval.High,
					Interval(c.Interval, metric.Digits), P(c.Test.P), P(c.Holm), P(c.Ranks.P),
					c.Bootstrap.Low, c.Bootstrap.High, Interval(c.Bootstrap, metric.Digits),
					c.Folds.Low, c.Folds.High, Interval(c.Folds, metric.Digits), c.Cases.Higher, c.Cases.Lower,
					fmt.Sprintf("%d, %d", c.Cases.Higher, c.Cases.Lower), c.Cases.Median, c.Cases.RankBiserial,
				}))
		}
	}
	t.Notes = []string{
		"Intervals and p are over " + ofPairs(shared) + ". 95 % interval, p: two-sided paired " +
			"t-test. p, Wilcoxon: signed-rank test over the same pairs, which assumes no normal distribution.",
		"Bootstrap: 95 % interval from drawing folds, their pairs of runs and their test cases again. " +
			"With few folds and pairs it is too narrow.",
		"Over folds: 95 % interval of a t-test over the means of the folds. Runs of one fold share their " +
			"test cases, and an encoder where each fold has one: they are less independent than the first " +
			"interval takes them for. Wide with few folds.",
		"Cases higher, lower: how many test cases have a higher or lower value than the baseline's, on average over " +
			"the pairs. They share the training of their runs: a description, no evidence.",
	}
	if holm != "" {
		t.Notes[0] += " p, Holm: p adjusted for the initialisations that share the data."
	}
	if shared {
		t.Notes = append(t.Notes, SharedDraws+".")
	}
	t.Notes = append(t.Notes, lessIsBetter(f)...)
	if !f.Metric.Ratio {
		t.Notes = append(t.Notes, distancesNote)
	}
	return t
}

// distancesNote stands below tables that compare distances.
const distancesNote = "Distances: a label that one of the runs that are compared missed or invented in a case counts " +
	"for none of them there, and penalise gives it the image's diagonal. ∞: so many of these."

// Measure is a table of an experiment by one metric, or by one structure.
type Measure struct {
	Name  string // with its unit
	Folds eval.FoldTable
}

// Measures is the table of all comparisons with the baseline by several measures: a row for each
// measure, initialisation and share of the training cases that has pairs of runs.
func Measures(list []Measure) Table {
	shared := slices.ContainsFunc(list, func(m Measure) bool { return shares(m.Folds) })
	t := Table{Title: "Difference by other measures", Columns: slices.Concat([]Column{
		{"measure", "measure", 0}, {"initialisation", "initialisation", 0}, {"data", "data", 0}},
		counted("pairs", pairsOfRuns, shared), []Column{
			{"difference", "difference", 2},
			{"low", "", 2}, {"high", "", 2}, {"interval", "95 % interval", 0}, {"p", "p", 3},
		})}
	for _, m := range list {
		f := m.Folds
		t.Title = "Difference to " + f.Baseline + " by other measures"
		name := m.Name
		if f.Metric.Better < 0 {
			name += ", less is better"
		}
		for row, fraction := range f.Fractions {
			for n, c := range f.Cells[row] {
				if c.Gain.N > 0 {
					t.Rows = append(t.Rows, slices.Concat([]any{name, f.Initialisations[n], Percent(fraction)},
						counts(c.Comparison.Runs, c.Gain.N, shared), []any{c.Gain, c.Interval.Low, c.Interval.High,
							Interval(c.Interval, 2), P(c.Test.P)}))
				}
			}
		}
	}
	t.Notes = []string{"Over " + ofPairs(shared) + ": two-sided paired t-test. p is adjusted for " +
		"nothing: of twenty such rows without any effect one has a p below 0.05."}
	if slices.ContainsFunc(list, func(m Measure) bool { return !m.Folds.Metric.Ratio }) {
		t.Notes = append(t.Notes, distancesNote)
	}
	return t
}

// LabelGains is the table of what changes with more labelled cases, by a metric of [eval.Metrics]:
// a row for each initialisation and larger share of the training cases.
func LabelGains(gains []eval.LabelGain, m eval.Metric) Table {
	var list []eval.Change
	common := "" // where rows are not independent
	for n, g := range gains {
		if n > 0 && g.Initialisation == gains[n-1].Initialisation && g.Baseline == gains[n-1].Baseline {
			common = " Rows of one initialisation have the runs of its smallest share in common."
		}
		list = append(list, g.Change)
	}
	t := changes("what changes with more labelled cases", list, m)
	t.Notes[0] = "Each pair is two runs of one initialisation with the same fold and " +
		"seed, and other shares of the training cases." + common + " " + t.Notes[0]
	columns := []Column{{"from", "from", 0}, {"to", "to", 0}}
	return t.with(columns, func(n int) []any { return []any{Percent(gains[n].Fewer), Percent(gains[n].Fraction)} })
}

// StudyChange is what changes from one experiment to another.
type StudyChange struct {
	From, To string // their names
	eval.Change
}

// StudyChanges is the table of what changes between experiments, by a metric of [eval.Metrics]: a
// row for each initialisation and share of the training cases that both have.
func StudyChanges(studies []StudyChange, m eval.Metric) Table {
	var list []eval.Change
	for _, c := range studies {
		list = append(list, c.Change)
	}
	t := changes("what changes between experiments", list, m)
	t.Notes[0] = "Each pair is two runs of one initialisation with the same fold, share of the " +
		"training cases and seed, of other experiments. " + t.Notes[0]
	columns := []Column{{"data", "data", 0}, {"from", "from", 0}, {"to", "to", 0}}
	return t.with(columns,
		func(n int) []any { return []any{Percent(studies[n].Fraction), studies[n].From, studies[n].To} })
}

// changes is the table of changes, but for what they are between.
func changes(title string, list []eval.Change, m eval.Metric) Table {
	metric := MetricColumn(m, true)
	shared := slices.ContainsFunc(list, func(c eval.Change) bool { return pairsShare(c.Comparison) })
	over := "the pairs"
	if shared {
		over = ofPairs(shared)
	}
	t := Table{Title: metric.Title + ": " + title, Columns: slices.Concat([]Column{
		{"initialisation", "initialisation", 0}}, counted("pairs", pairsOfRuns, shared), []Column{
		{"change", "change", metric.Digits},
		{"low", "", metric.Digits}, {"high", "", metric.Digits},
		{"interval", "95 % interval", 0}, {"p", "p", 3}, {"folds_low", "", metric.Digits},
		{"folds_high", "", metric.Digits}, {"folds", "over folds", 0},
	}), Notes: []string{
		"Compared are the test cases that both have. 95 % interval, p: two-sided paired t-test over " + over +
			"; p is adjusted for nothing. Over folds: 95 % interval of a t-test over the means of the folds.",
	}}
	first, baseline := "", "" // of the first row of a difference
	for _, c := range list {
		name := c.Initialisation
		if c.Baseline != "" {
			name += " - " + c.Baseline
			if first == "" {
				first, baseline = c.Initialisation, c.Baseline
			}
		}
		t.Rows = append(t.Rows, slices.Concat([]any{name}, counts(c.Runs, c.Gain.N, shared), []any{
			c.Gain, c.Interval.Low, c.Interval.High, Interval(c.Interval, metric.Digits), P(c.Test.P),
			c.Folds.Low, c.Folds.High, Interval(c.Folds, metric.Digits),
		}))
	}
	if shared {
		t.Notes = append(t.Notes, SharedDraws+".")
	}
	if first != "" {
		t.Notes = append(t.Notes, fmt.Sprintf("%s - %s: by how much the difference of the two changes.", first,
			baseline))
	}
	if m.Better < 0 {
		note := LessIsBetter + ": below 0, it became less"
		if first != "" {
			note += fmt.Sprintf("; of %s - %s, the difference moved in favour of %s", first, baseline, first)
		}
		t.Notes = append(t.Notes, note+".", distancesNote)
	}
	return t
}

// with puts columns after the first, and their cells into each row.
func (t Table) with(columns []Column, cells func(row int) []any) Table {
	t.Columns = slices.Insert(t.Columns, 1, columns...)
	for n, row := range t.Rows {
		t.Rows[n] = slices.Insert(row, 1, cells(n)...)
	}
	return t
}

// Noise is the table of how far single runs scatter, by a metric of [eval.Metrics]: a row for each
// initialisation and share of the training cases some seeds of which share a draw.
func Noise(list []eval.Noise, m eval.Metric) Table {
	metric := MetricColumn(m, true)
	t := Table{Title: metric.Title + ": how far single runs scatter", Columns: []Column{
		{"initialisation", "initialisation", 0}, {"data", "data", 0},
		{"training_sd", "SD of training", metric.Digits}, {"differences", "differences", 0},
		{"draws_sd", "SD between draws", metric.Digits}, {"runs", "runs", 0},
	}}
	for _, n := range list {
		t.Rows = append(t.Rows, []any{n.Initialisation, Percent(n.Fraction), n.Training, n.Differences, n.Draws,
			n.Runs})
	}
	t.Notes = []string{
		"A description: nothing is tested. SD of training: the standard deviation of the differences between seeds " +
			"that share a fold and a draw of the labelled cases, divided by the square root of two.",
		"SD between draws: that of the runs of a fold with other draws, each by its smallest seed, pooled over the " +
			"folds: it holds the noise of training, too.",
	}
	if !m.Ratio {
		t.Notes = append(t.Notes, distancesNote)
	}
	return t
}

// LessIsBetter begins the note of tables of distances.
const LessIsBetter = "Less is better"

// lessIsBetter says of distances which sign a good difference has.
func lessIsBetter(f eval.FoldTable) []string {
	if f.Metric.Better >= 0 {
		return nil
	}
	return []string{LessIsBetter + ": a difference below 0 is for the initialisation, one above 0 for " + f.Baseline +
		"."}
}

// Mixed is the table of a mixed model's fixed effects.
func Mixed(f eval.MixedFit, metric eval.Metric) Table {
	digits := MetricColumn(metric, true).Digits
	t := Table{Title: MetricColumn(metric, true).Title + ": linear mixed model over all runs and cases",
		Columns: []Column{
			{"effect", "effect", 0}, {"estimate", "estimate", digits}, {"se", "standard error", digits},
			{"df", "degrees of freedom", 1}, {"low", "", digits}, {"high", "", digits},
			{"interval", "95 % interval", 0}, {"t", "t", 2}, {"p", "p", 3},
		}}
	for _, e := range f.Effects {
		t.Rows = append(t.Rows, []any{e.Name, e.Estimate, e.SE, e.DF, e.Interval.Low, e.Interval.High,
			Interval(e.Interval, digits), e.Test.Statistic, P(e.Test.P)})
	}
	note := fmt.Sprintf("REML, Satterthwaite's degrees of freedom, %d observations. Standard deviations: ",
		f.Observations)
	for _, r := range f.Random {
		note += r.Name + " " + Rounded(r.SD, digits) + ", "
	}
	for _, r := range f.Random {
		if r.Name == "run" && r.SD == 0 {
			t.Notes = append(t.Notes,
				"The runs scatter no more than their cases explain, so nothing can "+
					"be tested: a test would be one over cases.")
		}
	}
	t.Notes = append([]string{note + "residual " + Rounded(f.Residual, digits) + "."}, t.Notes...)
	return t
}
