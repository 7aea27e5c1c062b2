package report

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/table"
)

// Chart is a line chart.
type Chart struct {
	Title  string
	X      string // what is on the axis: something counted, such as steps
	Series []Series
	Levels []Level     // horizontal lines, such as chance
	Range  *[2]float64 // of the vertical axis; from the values when nil
	Points bool        // mark the points: for few of them
}

// Series is one line. Values that are not finite leave a gap.
type Series struct {
	Name  string
	X, Y  []float64
	Faint bool // behind the others and without a name: the raw values of a smoothed line
	Color int  // which of the palette; by the order of the names when 0, counted from 1
}

// Level is a value to compare with.
type Level struct {
	Name string
	Y    float64
}

// palette can be told apart by colour-blind readers and in print.
var palette = []string{"#2463c4", "#d9791f", "#1f8a63", "#a3438c", "#6b7480", "#8a6d1d", "#0f9bb4", "#c43d3d"}

func inkOf(n int) string { return palette[(n%len(palette)+len(palette))%len(palette)] }

// The plot of a chart, in user units, which are pixels at the chart's natural size.
const (
	chartWidth, chartHeight         = 460.0, 250.0
	plotLeft, plotRight             = 46.0, 450.0
	plotTop, plotBottom             = 26.0, 216.0
	gridInk, axisInk, textInk       = "#e6eaee", "#9aa4af", "#5d6875"
	maxPoints                       = 300 // a line has no more: a chart is some 400 pixels wide
	fontSize                        = 11
	textAttributes                  = ` font-size="11" fill="` + textInk + `"`
	endAttributes, middleAttributes = ` text-anchor="end"` + textAttributes, ` text-anchor="middle"` + textAttributes
)

// frame is the transform from values to the plot.
type frame struct{ x0, x1, y0, y1 float64 }

func (f frame) x(v float64) float64 { return plotLeft + (v-f.x0)/(f.x1-f.x0)*(plotRight-plotLeft) }

func (f frame) y(v float64) float64 { return plotBottom - (v-f.y0)/(f.y1-f.y0)*(plotBottom-plotTop) }

// frame fits the axes around the values.
func (c Chart) frame() frame {
	f := frame{math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)}
	for _, s := range c.Series {
		for n, y := range s.Y {
			if numbers.Finite(y) && numbers.Finite(s.X[n]) {
				f.x0, f.x1 = min(f.x0, s.X[n]), max(f.x1, s.X[n])
				f.y0, f.y1 = min(f.y0, y), max(f.y1, y)
			}
		}
	}
	for _, l := range c.Levels {
		if numbers.Finite(l.Y) {
			f.y0, f.y1 = min(f.y0, l.Y), max(f.y1, l.Y)
		}
	}
	if f.x0 > f.x1 {
		f = frame{0, 1, 0, 1} // nothing to draw
	}
	if f.x0 == f.x1 {
		f.x0, f.x1 = f.x0-1, f.x1+1
	}
	f.y0, f.y1 = around(f.y0, f.y1)
	if c.Range != nil {
		f.y0, f.y1 = c.Range[0], c.Range[1]
	}
	return f
}

// around widens a range to whole ticks, and a range of one value to something.
func around(lo, hi float64) (float64, float64) {
	if lo == hi {
		pad := math.Abs(lo) / 2
		if lo == 0 { // nothing but zeros: nothing tells their scale
			pad = 1
		}
		lo, hi = lo-pad, hi+pad
	}
	step := tickStep(lo, hi)
	return math.Floor(lo/step+1e-9) * step, math.Ceil(hi/step-1e-9) * step
}

// tickStep is the 1, 2 or 5 times a power of ten that cuts a range into some five pieces.
func tickStep(lo, hi float64) float64 {
	raw := (hi - lo) / 5
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	switch m := raw / power; {
	case m < 1.5:
		return power
	case m < 3.5:
		return 2 * power
	case m < 7.5:
		return 5 * power
	}
	return 10 * power
}

// ticks lists the round values within a range, at least so far apart.
func ticks(lo, hi, apart float64) []float64 {
	var all []float64
	step := max(tickStep(lo, hi), apart)
	for n := math.Ceil(lo/step - 1e-9); n*step <= hi+step*1e-9; n++ {
		all = append(all, n*step)
	}
	return all
}

// tickText writes a tick without the dust of binary fractions.
func tickText(v float64) string {
	a := math.Abs(v)
	switch {
	case a < 1e-12:
		return "0"
	case a >= 10000 && math.Mod(a, 100) == 0:
		return strconv.FormatFloat(v/1000, 'g', 6, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// svg draws the chart.
func (c Chart) svg() string {
	var b strings.Builder
	f := c.frame()
	open(&b, c.Title)
	yAxis(&b, f)
	for _, t := range ticks(f.x0, f.x1, 1) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f"%s>%s</text>`, f.x(t), plotBottom+16, middleAttributes, tickText(t))
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%.1f"%s>%s</text>`, plotRight, chartHeight-4, endAttributes, html.EscapeString(c.X))
	for _, l := range c.Levels {
		if y := f.y(l.Y); numbers.Finite(l.Y) && y >= plotTop-0.1 && y <= plotBottom+0.1 {
			fmt.Fprintf(&b, `<path d="M%.1f %.1fH%.1f" stroke="%s" stroke-dasharray="4 3"/><text x="%.1f" y="%.1f"%s>%s</text>`, plotLeft, y, plotRight, axisInk, plotRight, y-4, endAttributes, html.EscapeString(l.Name))
		}
	}
	colors, names := map[string]int{}, []string(nil)
	for _, s := range c.Series {
		if _, seen := colors[s.Name]; !seen {
			colors[s.Name] = len(names)
			names = append(names, s.Name)
		}
		if s.Color > 0 {
			colors[s.Name] = s.Color - 1
		}
	}
	for _, faint := range []bool{true, false} {
		for _, s := range c.Series {
			if s.Faint == faint {
				c.line(&b, f, s, inkOf(colors[s.Name]))
			}
		}
	}
	if len(names) > 1 {
		legend(&b, names, func(n int) string { return inkOf(colors[names[n]]) })
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func open(b *strings.Builder, title string) {
	fmt.Fprintf(b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s" fill="none" stroke-linejoin="round" stroke-linecap="round">`, chartWidth, chartHeight, html.EscapeString(title))
}

// standalone makes an SVG that stands in a page into a file of its own.
func standalone(svg string) []byte {
	return []byte(strings.Replace(svg, "<svg ", fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" font-family="system-ui, Helvetica, Arial, sans-serif" style="background:#fff" `, chartWidth, chartHeight), 1))
}

func yAxis(b *strings.Builder, f frame) {
	for _, t := range ticks(f.y0, f.y1, 0) {
		y := f.y(t)
		fmt.Fprintf(b, `<path d="M%.1f %.1fH%.1f" stroke="%s"/><text x="%.1f" y="%.1f"%s>%s</text>`, plotLeft, y, plotRight, gridInk, plotLeft-6, y+4, endAttributes, tickText(t))
	}
	fmt.Fprintf(b, `<path d="M%.1f %.1fH%.1f" stroke="%s"/>`, plotLeft, plotBottom, plotRight, axisInk)
}

// legend writes the names above the plot, each behind a piece of its line. The widths are guessed:
// an average letter is half as wide as high.
func legend(b *strings.Builder, names []string, ink func(int) string) {
	x := plotLeft
	for n, name := range names {
		width := 22 + float64(len([]rune(name)))*fontSize*0.56 + 12
		if x+width > chartWidth && n > 0 {
			break // no room: the line keeps its colour, and the table beside it its name
		}
		fmt.Fprintf(b, `<path d="M%.1f 12h14" stroke="%s" stroke-width="2.5"/><text x="%.1f" y="16"%s>%s</text>`, x, ink(n), x+19, textAttributes, html.EscapeString(name))
		x += width
	}
}

// line draws a series, thinned out to what can be seen.
func (c Chart) line(b *strings.Builder, f frame, s Series, ink string) {
	xs, ys := thin(s.X, s.Y)
	var path, marks strings.Builder
	pen := false
	for n, y := range ys {
		if !numbers.Finite(y) || !numbers.Finite(xs[n]) {
			pen = false
			continue
		}
		px, py := f.x(xs[n]), min(max(f.y(y), plotTop-2), plotBottom+2)
		if pen {
			fmt.Fprintf(&path, "L%.1f %.1f", px, py)
		} else {
			fmt.Fprintf(&path, "M%.1f %.1f", px, py)
		}
		pen = true
		if c.Points && len(ys) <= 40 && !s.Faint {
			fmt.Fprintf(&marks, `<circle cx="%.1f" cy="%.1f" r="2.8" fill="%s"><title>%s: %s</title></circle>`, px, py, ink, tickText(xs[n]), strconv.FormatFloat(y, 'g', 4, 64))
		}
	}
	weight := `stroke-width="1.9"`
	if s.Faint {
		weight = `stroke-width="1" opacity=".28"`
	}
	fmt.Fprintf(b, `<path d="%s" stroke="%s" %s/>%s`, path.String(), ink, weight, marks.String())
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

// svg draws mean and standard deviation of every initialisation, side by side at each fraction.
func (f Folds) svg() string {
	var b strings.Builder
	open(&b, f.column().Title+" by share of the training data")
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, row := range f.Cells {
		for _, c := range row {
			sd := c.Spread.SD
			if math.IsNaN(sd) {
				sd = 0
			}
			if numbers.Finite(c.Spread.Mean) {
				lo, hi = min(lo, c.Spread.Mean-sd), max(hi, c.Spread.Mean+sd)
			}
		}
	}
	if lo > hi {
		lo, hi = 0, 1
	}
	lo, hi = around(lo, hi)
	axes := frame{0, float64(len(f.Fractions)), lo, hi}
	yAxis(&b, axes)
	ink := func(n int) string {
		if f.Initialisations[n] == f.Baseline {
			return "#6b7480"
		}
		if f.Initialisations[0] == f.Baseline {
			n--
		}
		return inkOf(n)
	}
	apart := min(0.7/float64(max(len(f.Initialisations), 1)), 0.14)
	at := func(row, n int) float64 {
		return axes.x(float64(row) + 0.5 + apart*(float64(n)-float64(len(f.Initialisations)-1)/2))
	}
	for n := range f.Initialisations { // a thin line through the means shows the trend
		var path strings.Builder
		command := "M"
		for row := range f.Fractions {
			if m := f.Cells[row][n].Spread.Mean; numbers.Finite(m) {
				fmt.Fprintf(&path, "%s%.1f %.1f", command, at(row, n), axes.y(m))
				command = "L"
			}
		}
		fmt.Fprintf(&b, `<path d="%s" stroke="%s" stroke-width="1" opacity=".4"/>`, path.String(), ink(n))
	}
	for row, fraction := range f.Fractions {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f"%s>%s</text>`, axes.x(float64(row)+0.5), plotBottom+16, middleAttributes, strings.ReplaceAll(fmt.Sprintf("%.4g %%", 100*fraction), " ", "\u00a0"))
		for n, c := range f.Cells[row] {
			if !numbers.Finite(c.Spread.Mean) {
				continue
			}
			x, y := at(row, n), axes.y(c.Spread.Mean)
			if numbers.Finite(c.Spread.SD) {
				fmt.Fprintf(&b, `<path d="M%.1f %.1fV%.1f" stroke="%s" stroke-width="2" opacity=".55"/>`, x, axes.y(c.Spread.Mean+c.Spread.SD), axes.y(c.Spread.Mean-c.Spread.SD), ink(n))
			}
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="5" fill="%s" stroke="#fff" stroke-width="1.5"><title>%s, %.4g %%: %s</title></circle>`, x, y, ink(n), html.EscapeString(f.Initialisations[n]), 100*fraction, html.EscapeString(table.Spread(c.Spread, f.column().Digits)))
		}
	}
	legend(&b, f.Initialisations, ink)
	b.WriteString("</svg>\n")
	return b.String()
}
