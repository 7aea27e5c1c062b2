package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/table"
)

// Folds is the table of an experiment with a chart beside it. Others are the tables of other
// metrics over the same runs, such as HD95. Each cell shows their means in small type.
type Folds struct {
	eval.FoldTable
	Others []eval.FoldTable
	// Published are scores of others, which stand in grey below ours; may be none.
	Published table.Published
	// Names are what the page compares, as in a [Chart]; the table may have only some of them. When
	// nil, the initialisations of the table.
	Names []string
}

// column says how the metric is called and rounded.
func (f Folds) column() table.Column { return table.MetricColumn(f.Metric, true) }

func (f Folds) chartTitle() string { return f.column().Title + " by share of the training data" }

// cell is a place in the table: the row of a fraction and the column of an initialisation.
type cell struct{ fraction, initialisation int }

// grid lays the table out: fractions below one another and initialisations side by side, or, where
// there are many of these, the other way round.
func (f Folds) grid() (header, names []string, rows [][]cell) {
	var fractions []string
	for _, fraction := range f.Fractions {
		fractions = append(fractions, table.Percent(fraction))
	}
	if f.stacked() {
		header, names = append([]string{"initialisation"}, fractions...), f.Initialisations
	} else {
		header, names = append([]string{"data"}, f.Initialisations...), fractions
	}
	for r := range names {
		var row []cell
		for c := range len(header) - 1 {
			if f.stacked() {
				row = append(row, cell{c, r})
			} else {
				row = append(row, cell{r, c})
			}
		}
		rows = append(rows, row)
	}
	return header, names, rows
}

// stacked tells whether there are so many initialisations that each has a row of its own.
func (f Folds) stacked() bool { return len(f.Initialisations) > 3 }

func (f Folds) html(b *strings.Builder) error {
	layout := "pair"
	if f.stacked() || len(f.Initialisations) > 2 {
		layout = "stack"
	}
	header, names, rows := f.grid()
	fmt.Fprintf(b, "<div class=\"%s\"><div class=\"scroll\"><table class=\"folds\">\n<thead><tr>", layout)
	for _, h := range header {
		fmt.Fprintf(b, "<th>%s</th>", escape(h))
	}
	b.WriteString("</tr></thead>\n<tbody>\n")
	for n, row := range rows {
		fmt.Fprintf(b, "<tr><td>%s</td>", escape(names[n]))
		for _, at := range row {
			f.htmlCell(b, at)
		}
		b.WriteString("</tr>\n")
	}
	fmt.Fprintf(b, "</tbody>\n</table></div>\n<figure><figcaption>%s</figcaption>\n%s</figure></div>\n",
		escape(f.chartTitle()), f.svg())
	notes(b, f.notes("Differences with p below 0.05 are coloured: green where they are for the initialisation."))
	return nil
}

func (f Folds) htmlCell(b *strings.Builder, at cell) {
	c, digits := f.Cells[at.fraction][at.initialisation], f.column().Digits
	class := direction(f.Metric, c.Comparison)
	fmt.Fprintf(b, "<td><b class=\"%s\">%s</b>", class, minus(table.Rounded(c.Spread.Mean, digits)))
	if !math.IsNaN(c.Spread.SD) {
		fmt.Fprintf(b, " ± %s", table.Rounded(c.Spread.SD, digits))
	}
	line := func(text string) { fmt.Fprintf(b, "<small>%s</small>", escape(minus(text))) }
	switch {
	case math.IsNaN(c.Gain.Mean):
		line(counted(c.Runs > c.Spread.N, c.Runs, c.Spread.N, "run", "runs"))
	case math.IsNaN(c.Test.P):
		line(f.difference(c.Comparison))
		line(counted(c.Comparison.Runs > len(c.Gains), c.Comparison.Runs, c.Gain.N, "pair of runs", "pairs of runs"))
	default:
		fmt.Fprintf(b, "<small><span class=\"%s\">%s</span> (%s)</small>", class,
			minus(f.difference(c.Comparison)), minus(table.Interval(c.Interval, digits)))
		line(f.test(c.Comparison))
	}
	for _, other := range f.others(at) {
		line(other)
	}
	if text := f.published(at); text != "" {
		line(text)
	}
	b.WriteString("</td>")
}

func (f Folds) markdown(m *markdown) error {
	header, names, rows := f.grid()
	for _, h := range header {
		fmt.Fprintf(m, "| %s ", table.EscapeMarkdown(h))
	}
	m.WriteString("|\n" + strings.Repeat("|---", len(header)) + "|\n")
	for n, row := range rows {
		fmt.Fprintf(m, "| %s |", table.EscapeMarkdown(names[n]))
		for _, at := range row {
			fmt.Fprintf(m, " %s |", f.markdownCell(at))
		}
		m.WriteString("\n")
	}
	for _, note := range f.notes("Bold: the difference is for the initialisation, and its p below 0.05.") {
		fmt.Fprintf(m, "\n%s\n", table.EscapeMarkdown(note))
	}
	m.WriteString("\n")
	m.picture(standalone(f.svg()), "svg", f.chartTitle())
	return nil
}

func (f Folds) markdownCell(at cell) string {
	c, digits := f.Cells[at.fraction][at.initialisation], f.column().Digits
	text := table.Rounded(c.Spread.Mean, digits)
	if direction(f.Metric, c.Comparison) == "up" {
		text = "**" + text + "**"
	}
	if !math.IsNaN(c.Spread.SD) {
		text += " ± " + table.Rounded(c.Spread.SD, digits)
	}
	parts := []string{text}
	switch {
	case math.IsNaN(c.Gain.Mean):
	case math.IsNaN(c.Test.P):
		parts = append(parts, f.difference(c.Comparison))
	default:
		parts = append(parts, fmt.Sprintf("%s (%s), %s", f.difference(c.Comparison), table.Interval(c.Interval, digits),
			f.test(c.Comparison)))
	}
	parts = append(parts, f.others(at)...)
	if text := f.published(at); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// published is what others have in a cell.
func (f Folds) published(at cell) string {
	score, ok := f.Published.Of(f.Initialisations[at.initialisation], f.Fractions[at.fraction])
	if !ok {
		return ""
	}
	return "published: " + table.Rounded(score, f.column().Digits)
}

// notes are those of the table, and of the other metrics, and how it marks a difference with a p
// below 0.05.
func (f Folds) notes(mark string) []string {
	all := table.FoldNotes(f.FoldTable)
	for _, o := range f.Others {
		for _, note := range table.FoldNotes(o) {
			if strings.HasPrefix(note, "∞") && !slices.Contains(all, note) {
				all = append(all, note)
			}
		}
	}
	if len(f.Initialisations) > 1 {
		all = append(all, mark)
	}
	if len(f.Published.Scores) > 0 {
		all = append(all, "Published: "+f.Published.By+".")
	}
	return all
}

// others are the means of the other metrics in a cell.
func (f Folds) others(at cell) (all []string) {
	for _, o := range f.Others {
		r, c := slices.Index(o.Fractions, f.Fractions[at.fraction]), slices.Index(o.Initialisations,
			f.Initialisations[at.initialisation])
		if r < 0 || c < 0 {
			continue
		}
		column, s := table.MetricColumn(o.Metric, true), o.Cells[r][c].Spread
		text := column.Title + " " + table.Rounded(s.Mean, column.Digits)
		if s.Infinite > 0 {
			text += fmt.Sprintf(" (%d\u00a0∞)", s.Infinite)
		}
		all = append(all, text)
	}
	return all
}

// difference writes the difference to the baseline with its sign.
func (f Folds) difference(c eval.Comparison) string {
	return fmt.Sprintf("%+.*f", f.column().Digits, c.Gain.Mean)
}

// test writes p over the runs, adjusted where there are several initialisations.
func (f Folds) test(c eval.Comparison) string {
	name, p := "p", c.Test.P
	if len(f.Initialisations) > 2 {
		name, p = "Holm's p", c.Holm
	}
	return fmt.Sprintf("%s %s, %s", name, probability(p), counted(c.Runs > len(c.Gains), c.Runs, c.Gain.N,
		"pair", "pairs"))
}

// counted says of how many runs, or pairs of them, something is, and where seeds share draws, which
// are averaged first, over how many folds and draws.
func counted(shared bool, runs, replicates int, one, many string) string {
	if !shared {
		return numbers.Count(replicates, one, many)
	}
	return fmt.Sprintf("%s of %s", numbers.Count(runs, one, many),
		numbers.Count(replicates, "fold and draw", "folds and draws"))
}

// probability writes p with its sign of equality.
func probability(p float64) string {
	if text := table.P(p).String(); strings.HasPrefix(text, "<") {
		return text
	}
	return "= " + table.P(p).String()
}

// direction is the class that colours a comparison: up or down only where the runs leave no doubt,
// all initialisations of the row considered.
func direction(m eval.Metric, c eval.Comparison) string {
	switch better := float64(m.Better) * c.Gain.Mean; {
	case !(c.Holm < 0.05):
		return "open"
	case better > 0:
		return "up"
	case better < 0:
		return "down"
	}
	return "open"
}

// colours are those of the palette, by name: grey (0) for the baseline, and for each of the others
// the colour of its place among all that a page compares, whichever of them are shown.
func colours(all, shown []string, baseline string) map[string]int {
	next, of := 1, map[string]int{baseline: 0}
	for _, name := range slices.Concat(all, shown) {
		if _, known := of[name]; !known {
			of[name] = next
			next++
		}
	}
	return of
}

// svg draws mean and standard deviation of every initialisation, side by side at each fraction, on
// an axis from zero.
func (f Folds) svg() string {
	top := legendHeight(plotLeft, plotRight, f.Initialisations) + 8
	values := newSpan()
	for _, row := range f.Cells {
		for _, c := range row {
			values.add(c.Spread.Mean, c.Spread.Mean-c.Spread.SD, c.Spread.Mean+c.Spread.SD)
		}
	}
	// scores and distances are never below 0, though a mean less its SD is
	if f.Metric.Better != 0 {
		values.low = max(values.low, 0)
	}
	low, high := values.fromZero()
	y := axis{low, high, top + plotHeight, top}
	x := axis{0, float64(len(f.Fractions)), plotLeft, plotRight}
	s := newSVG(chartWidth, top+plotHeight+belowPlot-8, f.chartTitle())
	s.verticalAxis(y, plotLeft, plotRight)
	of := colours(f.Names, f.Initialisations, f.Baseline)
	ink := func(n int) string { return inkOf(of[f.Initialisations[n]]) }
	apart := min(0.7/float64(max(len(f.Initialisations), 1)), 0.14)
	at := func(row, n int) float64 {
		return x.at(float64(row) + 0.5 + apart*(float64(n)-float64(len(f.Initialisations)-1)/2))
	}
	for n := range f.Initialisations { // a thin line through the means shows the trend
		var path strings.Builder
		pen := "M"
		for row := range f.Fractions {
			if m := f.Cells[row][n].Spread.Mean; numbers.Finite(m) {
				fmt.Fprintf(&path, "%s%.1f %.1f", pen, at(row, n), y.at(m))
				pen = "L"
			}
		}
		s.ink(ink(n), path.String(), 1, 0.4)
	}
	for row, fraction := range f.Fractions {
		s.text(x.at(float64(row)+0.5), y.start+16, atMiddle, table.Percent(fraction))
		for n, c := range f.Cells[row] {
			if !numbers.Finite(c.Spread.Mean) {
				continue
			}
			if numbers.Finite(c.Spread.SD) {
				s.ink(ink(n), fmt.Sprintf("M%.1f %.1fV%.1f", at(row, n), y.inside(c.Spread.Mean+c.Spread.SD),
					y.inside(c.Spread.Mean-c.Spread.SD)), 2, 0.55)
			}
			s.dot(ink(n), at(row, n), y.at(c.Spread.Mean), 5, 1, fmt.Sprintf("%s, %s: %s", f.Initialisations[n],
				table.Percent(fraction), table.Spread(c.Spread, f.column().Digits)))
		}
	}
	s.legend(plotLeft, plotRight, f.Initialisations, ink)
	return s.end()
}
