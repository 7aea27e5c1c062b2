package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/table"
)

// Boxes is a chart of box plots, one below the other, with every value as a point: median,
// quartiles, and whiskers to the last value within one and a half times the box (Tukey). Values
// that are not finite are counted at the right end.
type Boxes struct {
	Title string
	X     string // what is measured, with its unit
	Rows  []BoxRow
	Range *[2]float64 // of the axis; from zero when nil
}

// BoxRow is one box plot.
type BoxRow struct {
	Name   string
	Values []float64
	Points []string // names of the values, shown when they are pointed at; may be empty
	Color  int      // which of the palette; 0: grey
}

// LabelBoxes are box plots of a metric over the cases, one for each label.
func LabelBoxes(scores []eval.Score, m eval.Metric) Boxes {
	column := table.MetricColumn(m, false)
	b := Boxes{Title: column.Title + " of every case", X: column.Title, Range: unit(m)}
	for n, label := range eval.Labels(scores) {
		row := BoxRow{Color: n + 1}
		for _, s := range scores {
			if s.Label == label {
				row.Name = cmp.Or(row.Name, s.Name)
				row.Values, row.Points = append(row.Values, m.Of(s)), append(row.Points, s.Case)
			}
		}
		row.Name = cmp.Or(row.Name, fmt.Sprintf("label %d", label))
		b.Rows = append(b.Rows, row)
	}
	return b
}

// RunBoxes are box plots of a metric over the test cases of an experiment's runs on one share of
// the training cases: one for each label and initialisation. A case tested by several runs is the
// mean of its finite values. names are what the page compares, as of a [Chart].
func RunBoxes(runs []eval.Trial, fraction float64, m eval.Metric, names []string, baseline string) Boxes {
	column := table.MetricColumn(m, false)
	b := Boxes{Title: fmt.Sprintf("%s of every test case, %s of the training cases", column.Title,
		table.Percent(fraction)), X: column.Title, Range: unit(m)}
	var initialisations []string
	var labels []uint16
	for _, r := range runs {
		if r.Fraction != fraction {
			continue
		}
		labels = append(labels, eval.Labels(r.Scores)...)
		switch {
		case slices.Contains(initialisations, r.Initialisation):
		case r.Initialisation == baseline:
			initialisations = slices.Insert(initialisations, 0, baseline)
		default:
			initialisations = append(initialisations, r.Initialisation)
		}
	}
	slices.Sort(labels)
	of := colours(names, initialisations, baseline)
	for _, label := range slices.Compact(labels) {
		for _, name := range initialisations {
			if row := runBox(runs, fraction, m, label, name); len(row.Values) > 0 {
				row.Color = of[name]
				b.Rows = append(b.Rows, row)
			}
		}
	}
	return b
}

// runBox collects the cases of one label and initialisation.
func runBox(runs []eval.Trial, fraction float64, m eval.Metric, label uint16, initialisation string) BoxRow {
	values, organ := map[string][]float64{}, fmt.Sprintf("label %d", label)
	for _, r := range runs {
		if r.Fraction != fraction || r.Initialisation != initialisation {
			continue
		}
		for _, s := range r.Scores {
			if s.Label == label && !s.Unlearnt {
				values[s.Case] = append(values[s.Case], m.Of(s))
				organ = cmp.Or(s.Name, organ)
			}
		}
	}
	row := BoxRow{Name: organ + ", " + initialisation}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		s := eval.Summarise(values[name])
		v := s.Mean
		if s.N == 0 && s.Infinite > 0 {
			v = math.Inf(1)
		}
		row.Values, row.Points = append(row.Values, v), append(row.Points, name)
	}
	return row
}

// unit is the range of a ratio.
func unit(m eval.Metric) *[2]float64 {
	if m.Ratio {
		return &[2]float64{0, 1}
	}
	return nil
}

func (b Boxes) caption() string { return b.Title }

// The columns of a chart of boxes, in pixels.
const (
	boxesWidth, boxesRow   = 720.0, 30.0
	boxesNames, boxesRight = 190.0, 650.0
)

func (b Boxes) svg() string {
	values := newSpan()
	for _, r := range b.Rows {
		values.add(r.Values...)
	}
	low, high := values.fromZero()
	if b.Range != nil {
		low, high = b.Range[0], b.Range[1]
	}
	var names []string
	for _, r := range b.Rows {
		names = append(names, r.Name)
	}
	left := nameColumn(names, boxesNames)
	x := axis{low, high, left, boxesRight}
	bottom := 8 + boxesRow*float64(len(b.Rows))
	s := newSVG(boxesWidth, bottom+38, b.Title)
	for _, t := range ticks(low, high, 0) {
		s.path("grid", fmt.Sprintf("M%.1f 4V%.1f", x.at(t), bottom), "")
		s.text(x.at(t), bottom+16, atMiddle, tickText(t))
	}
	s.path("axis", fmt.Sprintf("M%.1f %.1fH%.1f", left, bottom, boxesRight), "")
	s.text((left+boxesRight)/2, bottom+32, atMiddle, b.X)
	for n, r := range b.Rows {
		s.box(r, x, 8+boxesRow*(float64(n)+0.5))
	}
	return s.end()
}

// box draws one box plot around the height y.
func (s *svg) box(r BoxRow, x axis, y float64) {
	s.textClass(x.start-14, y+4, toEnd, "strong", shorten(r.Name, x.start-18))
	ink := inkOf(r.Color)
	high := r.spread(x)
	var sorted []float64
	infinite := 0
	for n, v := range r.Values {
		switch {
		case math.IsInf(v, 0):
			infinite++
		case numbers.Finite(v):
			sorted = append(sorted, v)
			name := ""
			if n < len(r.Points) {
				name = r.Points[n] + ": "
			}
			s.dot(ink, x.inside(v), y+high*scatter(n), 2.2, 0.5, name+table.Rounded(v, 4))
		}
	}
	if infinite > 0 {
		s.text(boxesRight+14, y+4, fromStart, fmt.Sprintf("%d ∞", infinite))
	}
	if len(sorted) == 0 {
		return
	}
	slices.Sort(sorted)
	first, median, third := eval.Quantile(sorted, 0.25), eval.Quantile(sorted, 0.5), eval.Quantile(sorted, 0.75)
	reach := 1.5 * (third - first)
	from := sorted[slices.IndexFunc(sorted, func(v float64) bool { return v >= first-reach })]
	last, _ := slices.BinarySearchFunc(sorted, third+reach, func(v, limit float64) int {
		if v <= limit {
			return -1
		}
		return 1
	})
	to := sorted[last-1]
	const half = 8.0
	if high > 0 {
		s.ink(ink, fmt.Sprintf("M%.1f %.1fH%.1fM%.1f %.1fH%.1f", x.inside(from), y, x.inside(first), x.inside(third),
			y, x.inside(to)), 1.3, 1)
		s.ink(ink, fmt.Sprintf("M%.1f %.1fH%.1fv%.1fH%.1fz", x.inside(first), y-half, x.inside(third), 2*half,
			x.inside(first)), 1.3, 1)
	}
	s.ink(ink, fmt.Sprintf("M%.1f %.1fv%.1f", x.inside(median), y-half, 2*half), 3, 1)
}

// spread is how far points of a row are moved up and down: not at all where all lie at one place,
// since a heap would say no more than a point, and less where they lie close together.
func (r BoxRow) spread(x axis) float64 {
	values := newSpan()
	values.add(r.Values...)
	if values.empty() {
		return 0
	}
	const full = 10 // pixels from which on the points are moved all the way
	return min(math.Abs(x.inside(values.high)-x.inside(values.low))/full, 1)
}

// scatter moves points of a row up and down so that they hide one another less: the same for each
// number, evenly spread by the golden ratio.
func scatter(n int) float64 {
	_, part := math.Modf(float64(n+1) * 0.6180339887)
	return 11 * (part - 0.5)
}
