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
		"constant": {0, 0}, "tiny": {1e-9, 2e-9}, "huge": {1e12, -1e12}, "long": long,
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
	steps.WriteString("81,8") // cut short
	files := map[string]string{stepsFile: steps.String()}
	if validations {
		files[validationsFile] = "step,score,loss,patches,ceiling,patches@1,patches@2,dsc_liver\n40,1,2,0.3,0.9,0.2,0.3,0.5\n80,1,1,0.6,0.9,0.4,0.6,0.7\n"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCurves(t *testing.T) {
	charts, err := Curves(Training{"a", training(t, true)}, Training{"b", training(t, false)})
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	for _, c := range charts {
		titles = append(titles, c.Title)
	}
	if want := []string{"Training loss", "Loss, held-out", "Patches put in their place, held-out",
		"DSC of liver, validation cases", "Patches put in their place, held-out, by round",
		"Learning rate"}; !slices.Equal(titles, want) {
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
		if _, err := Curves(Training{"a", folder}); err == nil || !strings.Contains(err.Error(), want) {
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
