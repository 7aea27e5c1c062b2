package report

import (
	_ "embed"
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
)

//go:embed chart.css
var chartStyle string

// svg is a chart under construction, in user units, which are pixels at its natural size. Its
// colours are those of chart.css, by class, so that one drawing serves light and dark pages.
type svg struct {
	strings.Builder
	width, height float64
}

// newSVG begins a chart. The description is what somebody hears who cannot see it.
func newSVG(width, height float64, description string) *svg {
	s := &svg{width: width, height: height}
	fmt.Fprintf(s, `<svg class="chart" viewBox="0 0 %g %g" role="img" aria-label="%s" font-size="11">`, width, height,
		escape(description))
	return s
}

func (s *svg) end() string {
	s.WriteString("</svg>\n")
	return s.String()
}

// escape makes any text fit for HTML and SVG.
func escape(text string) string { return html.EscapeString(safetext.Text(text)) }

// Where a text stands beside its point.
const (
	fromStart = "start"
	atMiddle  = "middle"
	toEnd     = "end"
)

func (s *svg) text(x, y float64, anchor, text string) { s.textClass(x, y, anchor, "", text) }

func (s *svg) textClass(x, y float64, anchor, class, text string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`, x, y, anchor, class, escape(text))
}

// path draws a line in the colour of a class that has a stroke.
func (s *svg) path(class, d, attributes string) {
	fmt.Fprintf(s, `<path class="%s" d="%s"%s/>`, class, d, attributes)
}

// ink draws a line in the colour of a class such as c1.
func (s *svg) ink(class, d string, width, opacity float64) {
	fmt.Fprintf(s, `<path class="%s" d="%s" stroke="currentColor" stroke-width="%g"`, class, d, width)
	if opacity < 1 {
		fmt.Fprintf(s, ` opacity="%g"`, opacity)
	}
	s.WriteString("/>")
}

// dot draws a filled circle that says what it is when it is pointed at.
func (s *svg) dot(class string, x, y, radius, opacity float64, title string) {
	fmt.Fprintf(s, `<circle class="%s" cx="%.1f" cy="%.1f" r="%g" fill="currentColor"`, class, x, y, radius)
	if opacity < 1 {
		fmt.Fprintf(s, ` opacity="%g"`, opacity)
	}
	fmt.Fprintf(s, `><title>%s</title></circle>`, escape(title))
}

// standalone makes an SVG that stands in a page into a file of its own.
func standalone(drawing string) []byte {
	const attributes = `<svg xmlns="http://www.w3.org/2000/svg" font-family="system-ui, Helvetica, Arial, sans-serif" `
	head, body, _ := strings.Cut(strings.Replace(drawing, "<svg ", attributes, 1), ">")
	return []byte(head + "><style>" + chartStyle + `</style><rect class="paper" width="100%" height="100%"/>` + body)
}

// inkOf is the class of colour n of the palette. Colour 0 is the grey of baselines; the others can
// be told apart by colour-blind readers and in print. The eight colours come again dashed, then
// dotted.
func inkOf(n int) string {
	if n <= 0 {
		return "c0"
	}
	ink := fmt.Sprintf("c%d", (n-1)%8+1)
	if round := (n - 1) / 8 % 3; round > 0 {
		ink += fmt.Sprintf(" d%d", round)
	}
	return ink
}

// widthOf guesses the width of a text: an average letter is half as wide as high.
func widthOf(text string) float64 { return float64(len([]rune(text))) * 11 * 0.56 }

// shorten cuts a text to what fits into a width.
func shorten(text string, width float64) string {
	runes := []rune(safetext.Text(text))
	if most := int(width / (11 * 0.56)); len(runes) > most {
		return string(runes[:max(most-1, 1)]) + "…"
	}
	return string(runes)
}

// nameColumn is the width of a column of names at the left of a chart, as wide as they need and no
// wider than most.
func nameColumn(names []string, most float64) float64 {
	widest := 40.0
	for _, name := range names {
		widest = max(widest, widthOf(safetext.Text(name))+22)
	}
	return min(widest, most)
}

// legend names the inks of a chart in rows from the top, each name behind a piece of its line, and
// returns its height.
func (s *svg) legend(left, right float64, names []string, ink func(int) string) float64 {
	x, y := left, 12.0
	for n, name := range names {
		name = shorten(name, right-left-34)
		width := 22 + widthOf(name) + 12
		if x+width > right+12 && x > left {
			x, y = left, y+16
		}
		s.ink(ink(n), fmt.Sprintf("M%.1f %.1fh14", x, y), 2.5, 1)
		s.text(x+19, y+4, fromStart, name)
		x += width
	}
	return y + 6
}

// legendHeight is what legend will return.
func legendHeight(left, right float64, names []string) float64 {
	return newSVG(0, 0, "").legend(left, right, names, inkOf)
}

// axis is one axis of a chart: values from low to high lie on pixels from start to end.
type axis struct{ low, high, start, end float64 }

func (a axis) at(v float64) float64 { return a.start + (v-a.low)/(a.high-a.low)*(a.end-a.start) }

// inside keeps what lies beyond the axis at its ends.
func (a axis) inside(v float64) float64 { return a.at(min(max(v, a.low), a.high)) }

// span finds the range of values, ignoring what is not finite. Of none it is 0 to 1.
type span struct{ low, high float64 }

func newSpan() span { return span{math.Inf(1), math.Inf(-1)} }

func (s *span) add(values ...float64) {
	for _, v := range values {
		if numbers.Finite(v) {
			s.low, s.high = min(s.low, v), max(s.high, v)
		}
	}
}

func (s span) empty() bool { return s.low > s.high }

// honest is a range for an axis of these values, in whole ticks. It begins at zero where values
// lie nearer to it than to one another, so that lengths can be compared; otherwise cut says that it
// does not, and the chart has to.
func (s span) honest() (low, high float64, cut bool) {
	switch {
	case s.empty():
		return 0, 1, false
	case s.low == 0 && s.high == 0:
		return 0, 1, false
	case s.low > 0 && s.low <= 0.6*s.high:
		s.low = 0
	case s.high < 0 && s.high >= 0.6*s.low:
		s.high = 0
	}
	low, high = around(s.low, s.high)
	return low, high, low > 0 || high < 0
}

// fromZero is a range that holds zero whatever the values.
func (s span) fromZero() (low, high float64) {
	if s.empty() || s.low == 0 && s.high == 0 {
		return 0, 1
	}
	return around(min(s.low, 0), max(s.high, 0))
}

// around widens a range to whole ticks, and a range of one value to something. Values that differ
// in their last digits alone are one.
func around(low, high float64) (float64, float64) {
	const least = 1e-300 // what is smaller cannot be cut into ticks
	if size := max(math.Abs(low), math.Abs(high)); high-low <= max(1e-12*size, least) {
		pad := size / 2
		if size < least {
			pad = 1
		}
		low, high = low-pad, high+pad
	}
	step := tickStep(low, high)
	return math.Floor(low/step+1e-9) * step, math.Ceil(high/step-1e-9) * step
}

// tickStep is the 1, 2 or 5 times a power of ten that cuts a range into some five pieces.
func tickStep(low, high float64) float64 {
	raw := (high - low) / 5
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
func ticks(low, high, apart float64) []float64 {
	var all []float64
	step := max(tickStep(low, high), apart)
	first := math.Ceil(low/step - 1e-9)
	for n := range 100 { // with next to nothing between low and high, a step more changes nothing
		tick := (first + float64(n)) * step
		if !(tick <= high+step*1e-9) {
			break
		}
		all = append(all, tick)
	}
	return all
}

// tickText writes a tick without the dust of binary fractions.
func tickText(v float64) string {
	a := math.Abs(v)
	switch {
	case a < 1e-12:
		return "0"
	case v < 0:
		return "\u2212" + tickText(a)
	case a >= 10000 && math.Mod(a, 100) == 0:
		return strconv.FormatFloat(v/1000, 'g', 6, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}
