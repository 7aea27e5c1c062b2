package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// Chart is a line chart. Its vertical axis begins at zero, or the chart says where it begins.
type Chart struct {
	Title  string
	X      string // what is on the axis: something counted, such as steps
	Series []Series
	Levels []Level     // horizontal lines, such as chance
	Range  *[2]float64 // of the vertical axis; from the values when nil
	Across *[2]float64 // the range of the horizontal axis; from the values when nil
	share  bool        // its values lie between 0 and 1
	Points bool        // mark the points: for few of them
	// Names are what the page compares, of which this chart may show a part: each has one colour in
	// all its charts, and they are named. When nil, those of Series.
	Names    []string
	Baseline string // which of them is grey, as in the other charts of the page; "": none
}

// Series is one line. Values that are not finite leave a gap.
type Series struct {
	Name  string
	X, Y  []float64
	Faint bool // behind the others and without a name: the raw values of a smoothed line
}

// Level is a value to compare with.
type Level struct {
	Name string
	Y    float64
}

// The plot of a chart, in pixels at its natural size. A legend of several rows makes it higher.
const (
	chartWidth, plotHeight = 460.0, 190.0
	plotLeft, plotRight    = 46.0, 450.0
	belowPlot              = 34.0
	maxPoints              = 300 // a line has no more: a chart is some 400 pixels wide
)

func (c Chart) caption() string { return c.Title }

// axes fits the axes around the values, below a legend of the given height. cut says that the
// vertical axis does not hold zero.
func (c Chart) axes(top float64) (x, y axis, cut bool) {
	xs, ys := newSpan(), newSpan()
	for _, s := range c.Series {
		for n, v := range s.Y {
			if numbers.Finite(v) && numbers.Finite(s.X[n]) {
				xs.add(s.X[n])
				ys.add(v)
			}
		}
	}
	for _, l := range c.Levels {
		ys.add(l.Y)
	}
	if xs.empty() {
		xs = span{0, 1}
	}
	if xs.low == xs.high {
		xs = span{xs.low - 1, xs.high + 1}
	}
	if c.Across != nil {
		xs = span{c.Across[0], c.Across[1]}
	}
	low, high, cut := ys.honest()
	if c.Range != nil {
		low, high = c.Range[0], c.Range[1]
		cut = low > 0 || high < 0
	}
	return axis{xs.low, xs.high, plotLeft, plotRight}, axis{low, high, top + plotHeight, top}, cut
}

// inks gives every name a colour, and lists the names of the lines that there are, which a legend
// has to tell apart unless there is only one anywhere.
func (c Chart) inks() (names []string, ink map[string]string, legend bool) {
	for _, s := range c.Series {
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	all := c.Names
	if all == nil {
		all = names
	}
	ink = map[string]string{}
	of := colours(all, nil, c.Baseline)
	for _, name := range all {
		ink[name] = inkOf(of[name])
	}
	return names, ink, len(all) > 1
}

// svg draws the chart.
func (c Chart) svg() string {
	names, ink, legend := c.inks()
	top, description := 12.0, c.Title
	if legend {
		description += ": " + strings.Join(names, ", ")
		top = legendHeight(plotLeft, plotRight, names) + 8
	}
	x, y, cut := c.axes(top)
	if cut {
		description += fmt.Sprintf(" (the vertical axis begins at %s)", tickText(y.low))
	}
	s := newSVG(chartWidth, top+plotHeight+belowPlot, description)
	s.verticalAxis(y, plotLeft, plotRight)
	for _, t := range ticks(x.low, x.high, 1) {
		s.text(x.at(t), y.start+16, atMiddle, tickText(t))
	}
	s.text(plotRight, s.height-4, toEnd, c.X)
	if cut {
		s.axisBreak(y, plotLeft, s.height-4)
	}
	for _, l := range c.Levels {
		if numbers.Finite(l.Y) && l.Y >= y.low && l.Y <= y.high {
			s.path("axis", fmt.Sprintf("M%.1f %.1fH%.1f", plotLeft, y.at(l.Y), plotRight), ` stroke-dasharray="4 3"`)
			s.text(plotRight, y.at(l.Y)-4, toEnd, l.Name)
		}
	}
	for _, faint := range []bool{true, false} {
		for _, series := range c.Series {
			if series.Faint == faint {
				c.line(s, x, y, series, ink[series.Name])
			}
		}
	}
	if legend {
		s.legend(plotLeft, plotRight, names, func(n int) string { return ink[names[n]] })
	}
	return s.end()
}

// verticalAxis draws ticks, grid and the line at the bottom.
func (s *svg) verticalAxis(y axis, left, right float64) {
	for _, t := range ticks(y.low, y.high, 0) {
		s.path("grid", fmt.Sprintf("M%.1f %.1fH%.1f", left, y.at(t), right), "")
		s.text(left-6, y.at(t)+4, toEnd, tickText(t))
	}
	s.path("axis", fmt.Sprintf("M%.1f %.1fH%.1f", left, y.start, right), "")
}

// axisBreak says that an axis does not begin at zero: a break at its foot, and words below.
func (s *svg) axisBreak(y axis, left, below float64) {
	s.path("axis", fmt.Sprintf("M%.1f %.1fl-3 -4l6 -4l-3 -4", left, y.start), "")
	s.text(left, below, fromStart, "axis begins at "+tickText(y.low))
}

// line draws a series, thinned out to what can be seen.
func (c Chart) line(s *svg, x, y axis, series Series, ink string) {
	xs, ys := thin(series.X, series.Y)
	var path strings.Builder
	pen := "M"
	marks := c.Points && len(ys) <= 40 && !series.Faint
	for n, v := range ys {
		if !numbers.Finite(v) || !numbers.Finite(xs[n]) {
			pen = "M"
			continue
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", pen, x.at(xs[n]), y.inside(v))
		pen = "L"
	}
	weight, opacity := 1.9, 1.0
	if series.Faint {
		weight, opacity = 1, 0.28
	}
	s.ink(ink, path.String(), weight, opacity)
	for n, v := range ys {
		if marks && numbers.Finite(v) && numbers.Finite(xs[n]) {
			s.dot(ink, x.at(xs[n]), y.inside(v), 2.8, 1, tickText(xs[n])+": "+strconv.FormatFloat(v, 'g', 4, 64))
		}
	}
}

// thin replaces neighbours by their mean until no more than maxPoints are left. Gaps stay where all
// the neighbours are gaps.
func thin(x, y []float64) ([]float64, []float64) {
	group := (len(y) + maxPoints - 1) / maxPoints
	if group <= 1 {
		return x, y
	}
	var xs, ys []float64
	for start := 0; start < len(y); start += group {
		var sx, sy, n float64
		for k := start; k < min(start+group, len(y)); k++ {
			if numbers.Finite(y[k]) {
				sx, sy, n = sx+x[k], sy+y[k], n+1
			}
		}
		xs, ys = append(xs, sx/n), append(ys, sy/n) // 0/0 is NaN, a gap
	}
	return xs, ys
}
