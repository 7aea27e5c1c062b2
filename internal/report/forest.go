package report

import (
	"fmt"
	"math"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/table"
)

// Forest is a chart of estimates with their intervals, one below the other, beside a line of no
// difference.
type Forest struct {
	Title string
	X     string // what is estimated, with its unit
	Rows  []ForestRow
}

// ForestRow is one estimate. Single values behind it are small dots.
type ForestRow struct {
	Name     string
	Estimate float64
	Interval eval.Interval // NaN where there is none
	Values   []float64
	Remark   string // at the right end, such as p
	Class    string // up, down or open, as [direction] has it
}

// Differences is the forest plot of an experiment: the difference of each initialisation to the
// baseline, for each share of the training cases, with the 95 % interval over pairs of runs and the
// difference of each pair.
func Differences(f eval.FoldTable) Forest {
	column := table.MetricColumn(f.Metric, true)
	plot := Forest{Title: fmt.Sprintf("%s: difference to %s, with its 95 %% interval over pairs of runs", column.Title,
		f.Baseline), X: "difference in " + column.Title}
	switch {
	case f.Metric.Better < 0:
		plot.X += ", below 0 is better"
	case f.Metric.Better > 0:
		plot.X += ", above 0 is better"
	}
	for n, name := range f.Initialisations {
		if name == f.Baseline {
			continue
		}
		for row, fraction := range f.Fractions {
			c := f.Cells[row][n].Comparison
			if math.IsNaN(c.Gain.Mean) {
				continue
			}
			r := ForestRow{Name: name + ", " + table.Percent(fraction), Estimate: c.Gain.Mean, Interval: c.Interval,
				Values: c.Gains, Class: direction(f.Metric, c)}
			r.Remark = fmt.Sprintf("%+.*f", column.Digits, c.Gain.Mean)
			if numbers.Finite(c.Interval.Low) {
				r.Remark += fmt.Sprintf(" (%s)", table.Interval(c.Interval, column.Digits))
			} else {
				r.Remark += " (one pair: no interval)"
			}
			plot.Rows = append(plot.Rows, r)
		}
	}
	return plot
}

func (f Forest) caption() string { return f.Title }

// The columns of a forest plot, in pixels.
const (
	forestWidth, forestRow   = 720.0, 26.0
	forestNames, forestRight = 190.0, 520.0
)

func (f Forest) svg() string {
	values := newSpan()
	values.add(0)
	for _, r := range f.Rows {
		values.add(r.Estimate, r.Interval.Low, r.Interval.High)
		values.add(r.Values...)
	}
	low, high := values.fromZero()
	var names []string
	for _, r := range f.Rows {
		names = append(names, r.Name)
	}
	left := nameColumn(names, forestNames)
	x := axis{low, high, left, forestRight}
	bottom := 8 + forestRow*float64(len(f.Rows))
	s := newSVG(forestWidth, bottom+38, f.Title)
	for _, t := range ticks(low, high, 0) {
		s.path("grid", fmt.Sprintf("M%.1f 4V%.1f", x.at(t), bottom), "")
		s.text(x.at(t), bottom+16, atMiddle, tickText(t))
	}
	s.path("axis", fmt.Sprintf("M%.1f 4V%.1f", x.at(0), bottom), ` stroke-width="1.5"`)
	s.text((left+forestRight)/2, bottom+32, atMiddle, f.X)
	for n, r := range f.Rows {
		y := 8 + forestRow*(float64(n)+0.5)
		s.textClass(left-14, y+4, toEnd, "strong", shorten(r.Name, left-18))
		if numbers.Finite(r.Interval.Low) && numbers.Finite(r.Interval.High) {
			s.ink(r.Class, fmt.Sprintf("M%.1f %.1fv8m0 -4H%.1fm0 -4v8", x.at(r.Interval.Low), y-4,
				x.at(r.Interval.High)), 2, 1)
		}
		for _, v := range r.Values {
			if numbers.Finite(v) {
				s.dot(r.Class, x.at(v), y+7, 2, 0.55, table.Rounded(v, 2))
			}
		}
		if numbers.Finite(r.Estimate) {
			s.dot(r.Class, x.at(r.Estimate), y, 5, 1, r.Name+": "+r.Remark)
		}
		s.text(forestRight+16, y+4, fromStart, shorten(minus(r.Remark), forestWidth-forestRight-20))
	}
	return s.end()
}
