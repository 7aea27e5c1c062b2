package report

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var point = regexp.MustCompile(`[ML](-?[\d.]+) (-?[\d.]+)`)

// Whatever the values, what is drawn lies on the paper.
func TestChartsStayOnThePaper(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	long := make([]float64, 5000)
	for n := range long {
		long[n] = math.Sin(float64(n) / 100)
	}
	for name, y := range map[string][]float64{
		"usual": {3, 2, 1}, "gaps": {nan, 3, inf, 2}, "nothing": {}, "only gaps": {nan, nan}, "one": {5},
		"constant": {0, 0}, "last bit": {0.6931472, math.Nextafter(0.6931472, 1)}, "least": {0, 5e-324},
		"tiny": {1e-9, 2e-9}, "huge": {1e12, -1e12}, "long": long,
	} {
		x := make([]float64, len(y))
		for n := range x {
			x[n] = float64(n)
		}
		svg := Chart{Title: "t", X: "step", Points: true, Series: []Series{{Name: "a", X: x, Y: y, Faint: true},
			{Name: "a", X: x, Y: y}}}.svg()
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s: %s", name, svg)
		}
		points := point.FindAllStringSubmatch(svg, -1)
		if len(points) > 2*maxPoints+20 {
			t.Errorf("%s: %d points", name, len(points))
		}
		for _, p := range points {
			px, _ := strconv.ParseFloat(p[1], 64)
			py, _ := strconv.ParseFloat(p[2], 64)
			if px < 0 || px > chartWidth || py < 0 || py > plotHeight+belowPlot+40 {
				t.Errorf("%s: point %v, %v", name, px, py)
			}
		}
	}
}

// Ticks end, however little lies between the ends of an axis.
func TestTicksEnd(t *testing.T) {
	for _, low := range []float64{0.6931472, 0, 1e300, -3} {
		if n := len(ticks(low, math.Nextafter(low, math.Inf(1)), 0)); n > 100 {
			t.Errorf("%d ticks between %g and the next number", n, low)
		}
	}
}

func TestTicksAreRound(t *testing.T) {
	for _, c := range []struct {
		lo, hi, apart float64
		want          []string
	}{
		{0, 1, 0, []string{"0", "0.2", "0.4", "0.6", "0.8", "1"}},
		{60, 85, 0, []string{"60", "65", "70", "75", "80", "85"}},
		{1, 3, 1, []string{"1", "2", "3"}},
		{0, 20000, 1, []string{"0", "5000", "10k", "15k", "20k"}},
		{-1e-4, 2e-4, 0, []string{"−0.0001", "−5e-05", "0", "5e-05", "0.0001", "0.00015", "0.0002"}},
	} {
		var got []string
		for _, v := range ticks(c.lo, c.hi, c.apart) {
			got = append(got, tickText(v))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v to %v: got %q, want %q", c.lo, c.hi, got, c.want)
		}
	}
}

// training writes the files of a run of 80 steps whose loss is the step, and whose held-out
// measures are known.
func training(t *testing.T, validations bool) string {
	t.Helper()
	dir := t.TempDir()
	var steps strings.Builder
	steps.WriteString("step,loss,lr,grad_norm,seconds,wait_seconds\n")
	for n := 1; n <= 80; n++ {
		fmt.Fprintf(&steps, "%d,%d,0.1,1,1,0\n", n, n)
	}
	steps.WriteString("81,81,0.1,1,1,1.2e-") // cut short
	files := map[string]string{stepsFile: steps.String()}
	if validations {
		files[validationsFile] = "step,score,loss,patches,ceiling,patches@1,patches@2,dsc_liver\n40,1,2,0.3,0.9," +
			"0.2,0.3,0.5\n80,1,1,0.6,0.9,0.4,0.6,0.7\n"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A label that has no name but its number is called a label.
func TestTitlesOfNumbers(t *testing.T) {
	for column, want := range map[string]string{
		"dsc_1": "DSC of label 1", "dsc_left_kidney": "DSC of left kidney", "loss": "Loss", "dsc": "DSC",
	} {
		if got := measureName(column); got != want {
			t.Errorf("%s is called %q, want %q", column, got, want)
		}
	}
	if got := inWords("12"); got != "label 12" {
		t.Error(got)
	}
}

func TestCurves(t *testing.T) {
	charts, err := Curves(Training{Name: "a", Folder: training(t, true)},
		Training{Name: "b", Folder: training(t, false)})
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	for _, c := range charts {
		titles = append(titles, c.Title)
	}
	if want := []string{"Training loss", "Loss, held-out", "Patches put in their place, held-out",
		"DSC of liver, validation cases", "Patches put in their place, held-out, by round",
		"Learning rate, the same in all"}; !slices.Equal(titles, want) {
		t.Fatalf("got %q, want %q", titles, want)
	}
	if loss := charts[0]; len(loss.Series) != 4 || len(loss.Series[0].Y) != 80 || loss.Series[0].Y[79] != 80 {
		t.Errorf("loss: %d series", len(loss.Series))
	}
	if patches := charts[2]; !slices.Equal(patches.Levels, []Level{{"at most", 0.9}}) {
		t.Errorf("the most that can be reached: %v", patches.Levels)
	}
	if rounds := charts[4]; len(rounds.Series) != 1 || !slices.Equal(rounds.Series[0].Y, []float64{0.4, 0.6}) ||
		!slices.Equal(rounds.Series[0].X, []float64{1, 2}) {
		t.Errorf("rounds: %+v", rounds)
	}
	if lr := charts[5]; len(lr.Series) != 1 {
		t.Errorf("the same learning rate is drawn %d times", len(lr.Series))
	}
}

func TestCurvesNameTheFileThatIsWrong(t *testing.T) {
	dir := training(t, true)
	if err := os.WriteFile(filepath.Join(dir, validationsFile), []byte("step,loss\n1,much\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]string{t.TempDir(): "metrics.csv: no such file",
		dir: `validation.csv, line 2: loss "much" is not a number`} {
		if _, err := Curves(Training{Name: "a", Folder: folder}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ...%s...", err, want)
		}
	}
}

func TestRunningMeanOfAConstantIsTheConstant(t *testing.T) {
	for _, v := range runningMean([]float64{2, 2, math.NaN(), 2, 2}, 3) {
		if math.Abs(v-2) > 1e-12 {
			t.Errorf("got %v", v)
		}
	}
}

// Each training has one colour on the page, whatever a chart shows of it, and is named wherever the
// page is of several.
func TestCurvesOfSeveralKeepTheirColours(t *testing.T) {
	write := func(name, rate, validation string) Training {
		dir := t.TempDir()
		files := map[string]string{stepsFile: "step,loss,lr\n1,2," + rate + "\n2,1," + rate + "\n"}
		if validation != "" {
			files[validationsFile] = validation
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		return Training{Name: name, Folder: dir}
	}
	trainings := []Training{write("scratch", "0.1", ""), write("puzzles", "0.1", "step,patches\n1,0.5\n2,0.7\n"),
		write("third", "0.2", "")}
	charts, err := Curves(trainings...)
	if err != nil || len(charts) != 3 {
		t.Fatalf("%d charts, %v", len(charts), err)
	}
	legend := regexp.MustCompile(`<path class="(\w+)" d="[^"]*h14"[^>]*/><text[^>]*>([^<]+)</text>`)
	of := func(c Chart) (names string) {
		for _, m := range legend.FindAllStringSubmatch(c.svg(), -1) {
			names += m[2] + " " + m[1] + ";"
		}
		return names
	}
	for n, want := range []string{"scratch c1;puzzles c2;third c3;", "puzzles c2;", "scratch c1;puzzles c2;third c3;"} {
		if got := of(charts[n]); got != want {
			t.Errorf("%s: legend %q, want %q", charts[n].Title, got, want)
		}
	}
	if svg := charts[1].svg(); strings.Contains(svg, `"c1"`) || !strings.Contains(svg, "held-out: puzzles\"") {
		t.Errorf("a chart of puzzles alone: %s", svg)
	}
	charts, err = Curves(trainings[:2]...)
	if err != nil {
		t.Fatal(err)
	}
	if c := charts[2]; c.Title != "Learning rate, the same in all" || len(c.Series) != 1 || of(c) != "" ||
		strings.Contains(c.svg(), `"c1"`) {
		t.Errorf("one rate of all: %q, %d lines", c.Title, len(c.Series))
	}
}

// A legend tells any two of many lines apart, and the baseline has its grey.
func TestInksOfManyLines(t *testing.T) {
	c := Chart{Baseline: "3"}
	for n := range 24 {
		c.Series = append(c.Series, Series{Name: strconv.Itoa(n), X: []float64{1, 2}, Y: []float64{0, float64(n)}})
	}
	_, ink, _ := c.inks()
	seen := map[string]string{}
	for name, class := range ink {
		if other, ok := seen[class]; ok {
			t.Errorf("%s and %s have one ink, %s", name, other, class)
		}
		seen[class] = name
		for part := range strings.FieldsSeq(class) {
			if !strings.Contains(chartStyle, ".chart ."+part+" {") {
				t.Errorf("%s has no style", part)
			}
		}
	}
	if ink["3"] != "c0" || ink["0"] != "c1" || ink["4"] != "c4" {
		t.Errorf("the baseline is %s, its neighbours %s and %s", ink["3"], ink["0"], ink["4"])
	}
}
