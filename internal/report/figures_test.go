package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/table"
)

var (
	viewBox = regexp.MustCompile(`viewBox="0 0 ([\d.]+) ([\d.]+)"`)
	circle  = regexp.MustCompile(`cx="([^"]+)" cy="([^"]+)"`)
	moves   = regexp.MustCompile(`M(-?[\d.]+) (-?[\d.]+)`)
	runsTo  = regexp.MustCompile(`H(-?[\d.]+)`)
)

// onPaper checks that all of a drawing lies within it, and that it is well-formed.
func onPaper(t *testing.T, name, drawing string) {
	t.Helper()
	if strings.Contains(drawing, "NaN") || strings.Contains(drawing, "Inf") {
		t.Errorf("%s: %s", name, drawing)
	}
	d := xml.NewDecoder(strings.NewReader(drawing))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	box := viewBox.FindStringSubmatch(drawing)
	width, _ := strconv.ParseFloat(box[1], 64)
	height, _ := strconv.ParseFloat(box[2], 64)
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return v
	}
	for _, p := range slices.Concat(circle.FindAllStringSubmatch(drawing, -1),
		moves.FindAllStringSubmatch(drawing, -1)) {
		if x, y := number(p[1]), number(p[2]); x < 0 || x > width || y < 0 || y > height {
			t.Errorf("%s: point %v, %v of %v x %v", name, x, y, width, height)
		}
	}
	for _, p := range runsTo.FindAllStringSubmatch(drawing, -1) {
		if x := number(p[1]); x < 0 || x > width {
			t.Errorf("%s: line to %v of %v", name, x, width)
		}
	}
}

func TestFiguresStayOnThePaper(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	none := eval.Interval{Low: nan, High: nan}
	long := strings.Repeat("a very long name ", 20)
	for name, f := range map[string]Figure{
		"no boxes": Boxes{Title: "t"},
		"boxes": Boxes{Title: "t", Rows: []BoxRow{{Name: "a", Values: []float64{1, 2, 3, 100}},
			{Name: long, Values: []float64{nan, inf}}, {Name: "none"},
			{Name: "one", Values: []float64{5}, Points: []string{"c"}}}},
		"equal boxes": Boxes{Title: "t", Rows: []BoxRow{{Name: "a", Values: []float64{0, 0, 0}}},
			Range: &[2]float64{0, 1}},
		"no forest": Forest{Title: "t"},
		"forest": Forest{Title: "t", Rows: []ForestRow{
			{Name: "a", Estimate: 3, Interval: eval.Interval{Low: -200, High: 5}, Values: []float64{1, nan, 1e6},
				Class: "open"}, {Name: long, Estimate: nan, Interval: none, Remark: long},
			{Name: "b", Estimate: -4, Interval: none}}},
	} {
		onPaper(t, name, f.svg())
		if alone := string(standalone(f.svg())); !strings.HasPrefix(alone, `<svg xmlns="http://www.w3.org/2000/svg"`) ||
			!strings.Contains(alone, `</style><rect class="paper"`) {
			t.Errorf("%s: %.200s", name, alone)
		}
	}
}

// Lengths on a chart can be compared, or it says that they cannot.
func TestAxesBeginAtZeroOrSaySo(t *testing.T) {
	for _, c := range []struct {
		values []float64
		low    float64
		cut    bool
	}{
		{[]float64{69, 75}, 65, true}, {[]float64{30, 75}, 0, false}, {[]float64{0, 0}, 0, false},
		{[]float64{0, 5}, 0, false}, {[]float64{-1, 5}, -2, false}, {nil, 0, false}, {[]float64{3}, 1, true},
	} {
		s := newSpan()
		s.add(c.values...)
		low, high, cut := s.honest()
		if cut != c.cut || cut == (low <= 0 && high >= 0) || !cut && low != c.low && c.low >= 0 {
			t.Errorf("%v: %v to %v, cut %v", c.values, low, high, cut)
		}
		drawing := Chart{Title: "t", Series: []Series{{Name: "a", X: make([]float64, len(c.values)),
			Y: c.values}}}.svg()
		if strings.Contains(drawing, "axis begins at "+tickText(low)) != c.cut {
			t.Errorf("%v: cut %v, and the chart says\n%s", c.values, c.cut, drawing)
		}
	}
	run := func(initialisation string, dsc float64) eval.Trial {
		return eval.Trial{Initialisation: initialisation, Fraction: 1,
			Scores: []eval.Score{{Case: "c", Label: 1, DSC: dsc}}}
	}
	for name, dsc := range map[string][2]float64{"a gain": {0.69, 0.75}, "a tie at 0": {0, 0}} {
		table, err := eval.Folds([]eval.Trial{run("scratch", dsc[0]), run("a", dsc[1])}, eval.FoldOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f := Folds{FoldTable: table}
		if drawing := f.svg(); !strings.Contains(drawing, ">0</text>") || strings.Contains(drawing, ">-") {
			t.Errorf("%s: no axis from 0: %s", name, drawing)
		}
		var b strings.Builder
		if err := f.html(&b); err != nil || strings.Contains(b.String(), `class="down"`) ||
			strings.Contains(b.String(), `class="up"`) {
			t.Errorf("%s: one pair of runs is coloured: %s", name, b.String())
		}
	}
}

// Each initialisation keeps the colour of its place among all that a page compares where one of
// them is left out, or has no run yet; the baseline is grey.
func TestColoursAreThoseOfThePlan(t *testing.T) {
	plan := []string{"a", "scratch", "b", "c"}
	var runs []eval.Trial
	for seed := range uint64(2) {
		for n, name := range []string{"scratch", "c"} {
			runs = append(runs, eval.Trial{Initialisation: name, Fraction: 1, Seed: seed,
				Scores: []eval.Score{{Case: "c", Label: 1, DSC: 0.5 + 0.1*float64(n)}}})
		}
	}
	table, err := eval.Folds(runs, eval.FoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	chart := Chart{Names: plan, Baseline: "scratch", Series: []Series{{Name: "scratch", X: []float64{1, 2},
		Y: []float64{1, 2}}, {Name: "c", X: []float64{1, 2}, Y: []float64{2, 3}}}}
	for name, drawing := range map[string]string{
		"folds": Folds{FoldTable: table, Names: plan}.svg(),
		"boxes": RunBoxes(runs, 1, eval.Metrics[0], plan, "scratch").svg(),
		"chart": chart.svg(),
	} {
		used := map[string]bool{}
		for _, ink := range regexp.MustCompile(`\bc[0-8]\b`).FindAllString(drawing, -1) {
			used[ink] = true
		}
		if !used["c0"] || !used["c3"] || len(used) != 2 {
			t.Errorf("%s: the colours %v, want that of the baseline and the third", name, used)
		}
	}
}

// No axis of a score goes below 0, though the mean less its standard deviation does.
func TestScoresAreNeverBelowZero(t *testing.T) {
	run := func(seed uint64, dsc float64) eval.Trial {
		return eval.Trial{Initialisation: "scratch", Fraction: 1, Seed: seed,
			Scores: []eval.Score{{Case: "c", Label: 1, DSC: dsc}}}
	}
	table, err := eval.Folds([]eval.Trial{run(1, 0), run(2, 0), run(3, 0.05)}, eval.FoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if drawing := (Folds{FoldTable: table}).svg(); !strings.Contains(drawing, ">0</text>") ||
		strings.Contains(drawing, ">-") {
		t.Errorf("the axis goes below 0: %s", drawing)
	}
}

// Only what holds for all initialisations of a row is coloured; for distances less is better.
func TestDirection(t *testing.T) {
	dsc, _ := eval.MetricNamed("dsc")
	hd95, _ := eval.MetricNamed("hd95")
	for _, c := range []struct {
		metric eval.Metric
		gain   float64
		holm   float64
		want   string
	}{{dsc, 3, 0.01, "up"}, {dsc, -3, 0.01, "down"}, {hd95, -3, 0.01, "up"}, {hd95, 3, 0.01, "down"},
		{dsc, 3, 0.2, "open"}, {dsc, 0, math.NaN(), "open"}} {
		if got := direction(c.metric, eval.Comparison{Gain: eval.Spread{Mean: c.gain}, Holm: c.holm,
			Test: eval.Test{P: 0.01}}); got != c.want {
			t.Errorf("%s %v, Holm %v: %s, want %s", c.metric.Key, c.gain, c.holm, got, c.want)
		}
	}
}

// Names from files are text in every block of a page, and nothing else.
func TestNamesFromFilesAreOnlyText(t *testing.T) {
	const hostile = "<script>x</script>\x1b[31m\u202egnp\xff|`*[a](b)\n# b"
	scores := []eval.Score{{Case: hostile, Label: 1, Name: hostile, DSC: 0.5},
		{Case: "b", Label: 1, Name: hostile, DSC: 0.25}}
	runs := []eval.Trial{{Initialisation: "scratch", Fraction: 1, Scores: scores},
		{Initialisation: hostile, Fraction: 1, Scores: scores}}
	folds, err := eval.Folds(runs, eval.FoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dsc, _ := eval.MetricNamed("dsc")
	page := Scores(hostile, hostile, scores, []string{hostile})
	page.Sections = append(page.Sections, Section{hostile, []Block{
		Text(hostile), Facts{{hostile, hostile}}, Folds{FoldTable: folds},
		Figures{Differences(folds), RunBoxes(runs, 1, dsc, nil, "scratch")},
		Charts{{Title: hostile, X: hostile, Levels: []Level{{hostile, 1}},
			Series: []Series{{Name: hostile, X: []float64{1, 2}, Y: []float64{1, 2}},
				{Name: "b", X: []float64{1, 2}, Y: []float64{1, 2}}}}}, Code{hostile, hostile},
	}})
	var html strings.Builder
	if err := page.HTML(&html); err != nil {
		t.Fatal(err)
	}
	if err := page.Write(t.TempDir(), "page"); err != nil {
		t.Fatal(err)
	}
	markdown, _, err := page.Markdown("page_files")
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"HTML": html.String(), "Markdown": string(markdown)} {
		for _, raw := range []string{"\x1b", "\u202e", "\xff", "\n# b"} {
			// a line of the code block
			if n := strings.Count(text, raw); n > 0 && !(raw == "\n# b" && n == 1) {
				t.Errorf("%s holds %q %d times", what, raw, n)
			}
		}
	}
	if strings.Contains(html.String(), "<script") {
		t.Error("HTML holds a script")
	}
	outside, _, _ := strings.Cut(string(markdown), "```")
	if regexp.MustCompile(`(^|[^\\])<script`).MatchString(outside) ||
		regexp.MustCompile(`(^|[^\\])\[a`).MatchString(outside) {
		t.Errorf("Markdown holds markup:\n%s", outside)
	}
	onPage := xml.NewDecoder(strings.NewReader(html.String()))
	onPage.Entity = xml.HTMLEntity
	for {
		if _, err := onPage.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(fmt.Errorf("the page is not well-formed: %w", err))
		}
	}
}

func TestScoresPage(t *testing.T) {
	var scores []eval.Score
	for n := range 12 {
		s := eval.Score{Case: fmt.Sprintf("case_%02d", n), Label: 2, Name: "spleen", DSC: 0.5 + float64(n)/100,
			NSD: 0.9, HD95: 3, Tolerance: 2, Predicted: 1, Reference: 1}
		if n == 7 {
			s.DSC, s.HD95, s.Predicted = 0, math.Inf(1), 0
		}
		scores = append(scores, s)
	}
	var b strings.Builder
	if err := Scores("Evaluation", "a compared with b", scores, []string{"remark"}).HTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"<p>remark</p>", "DSC of every case", "NSD of every case", "HD95 (mm) of every case",
		"1 ∞</text>", "<td>case_07</td><td class=\"n\">0.0000</td><td>spleen</td>", "<dt>NSD</dt>",
		"case_11: 0.6100</title>"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(page, "<td>case_11</td><td class=\"n\">0.6100</td><td>spleen</td>") {
		t.Error("the best case is among those to look at first")
	}
}

// Pages write a minus sign where programs write a hyphen, in numbers alone.
func TestMinus(t *testing.T) {
	for text, want := range map[string]string{
		"-12.89 ± 21.45": "−12.89 ± 21.45", "-∞": "−∞", "-31.46": "−31.46",
		"+1.20 to -3.40":      "+1.20 to −3.40",
		"-0.5 (-1.0 to -0.1)": "−0.5 (−1.0 to −0.1)", "– (8 ∞)": "– (8 ∞)", "2026-03-01": "2026-03-01",
		"patient -3": "patient -3", "-50 %": "−50 %", "": "", "T1-weighted": "T1-weighted", "1e-05": "1e-05",
	} {
		if got := minus(text); got != want {
			t.Errorf("%q is written %q, want %q", text, got, want)
		}
	}
	page := Report{Title: "t", Sections: []Section{{"s", []Block{Table{Table: table.Table{
		Columns: []table.Column{{Key: "difference", Title: "difference", Digits: 1}}, Rows: [][]any{{-2.5}}}}}}}}
	var b strings.Builder
	if err := page.HTML(&b); err != nil || !strings.Contains(b.String(), "<td class=\"n\">−2.5</td>") {
		t.Errorf("%v, %s", err, b.String()[max(0, b.Len()-400):])
	}
	if got := tickText(-20000); got != "−20k" {
		t.Error(got)
	}
}

// A row whose values are all the same is a line, not a heap of points in a box without width.
func TestBoxOfOneValue(t *testing.T) {
	drawing := Boxes{Title: "DSC", Range: &[2]float64{0, 1}, Rows: []BoxRow{{Name: "liver", Values: []float64{0, 0, 0},
		Points: []string{"a", "b", "c"}}}}.svg()
	heights := map[string]bool{}
	for _, m := range regexp.MustCompile(`cy="([0-9.]+)"`).FindAllStringSubmatch(drawing, -1) {
		heights[m[1]] = true
	}
	if len(heights) != 1 || strings.Contains(drawing, "z\"") {
		t.Errorf("points at the heights %v in %s", heights, drawing)
	}
}
