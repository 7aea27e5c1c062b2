package eval_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/table"
)

// statistics is testdata/eval_statistics.json, which testdata/eval_statistics.py wrote with
// statsmodels, scipy, lme4 and lmerTest.
type statistics struct {
	Holm  []struct{ P, Adjusted []float64 }
	Power struct {
		Points []struct {
			N                    int
			Effect, Alpha, Power float64
		}
		Needed []struct {
			Difference, SD, Power float64
			N                     int
		}
	}
	Mixed []struct {
		Factors             []string
		Criterion, Residual float64
		SD                  []float64
		Effects             []struct {
			Name                string
			Estimate, SE, DF, P float64
		}
		Statsmodels struct {
			Criterion, Residual float64
			SD, Estimate, SE    []float64
		}
	}
	Bootstrap []struct{ Fraction, Low, High, SD float64 }
	Folds     []struct{ Fraction, Low, High float64 }
	Labels    []struct {
		Of                     string
		More                   float64
		Pairs                  int
		Mean, SD, Low, High, P float64
		FoldsLow               float64 `json:"folds_low"`
		FoldsHigh              float64 `json:"folds_high"`
	}
}

func readStatistics(t *testing.T) statistics {
	t.Helper()
	data, err := os.ReadFile("../testdata/eval_statistics.json")
	if err != nil {
		t.Fatal(err)
	}
	var s statistics
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Holm) == 0 || len(s.Power.Points) == 0 || len(s.Power.Needed) == 0 ||
		len(s.Mixed) != 2 || len(s.Bootstrap) != 4 || len(s.Folds) != 3 || len(s.Labels) != 6 {
		t.Fatal("the golden file is empty")
	}
	return s
}

// openKBP is the experiment of docs/results/openkbp-cpu.
func openKBP(t *testing.T) []eval.Trial {
	t.Helper()
	f, err := os.Open("../docs/results/openkbp-cpu/scores.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	runs, _, err := table.ReadRuns(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 24 {
		t.Fatalf("%d runs, want 24", len(runs))
	}
	return runs
}

func near(a, b, relative float64) bool { return math.Abs(a-b) <= relative*math.Max(1, math.Abs(b)) }

func TestHolmEqualsStatsmodels(t *testing.T) {
	for _, c := range readStatistics(t).Holm {
		if d := cmp.Diff(c.Adjusted, eval.Holm(c.P), cmpopts.EquateApprox(0, 1e-12)); d != "" {
			t.Errorf("%v: %s", c.P, d)
		}
	}
	nan := math.NaN() // is no test
	if d := cmp.Diff([]float64{nan, 0.04, 0.5}, eval.Holm([]float64{nan, 0.02, 0.5}), cmpopts.EquateNaNs()); d != "" {
		t.Error(d)
	}
}

func TestPowerEqualsStatsmodels(t *testing.T) {
	golden := readStatistics(t).Power
	for _, c := range golden.Points {
		if got := eval.Power(c.N, c.Effect, 1, c.Alpha); math.Abs(got-c.Power) > 1e-8 {
			t.Errorf("%d pairs, effect %v, alpha %v: power %v, want %v", c.N, c.Effect, c.Alpha, got, c.Power)
		}
	}
	for _, c := range golden.Needed {
		o := eval.PowerOptions{Power: c.Power}
		got, err := eval.Replicates(c.Difference, c.SD, o)
		if err != nil || got != c.N {
			t.Errorf("%v at SD %v, power %v: %d replicates, %v, want %d", c.Difference, c.SD, c.Power, got, err, c.N)
		}
		// so many find that difference, one fewer does not
		enough, err := eval.Detectable(got, c.SD, o)
		few, _ := eval.Detectable(got-1, c.SD, o)
		if err != nil || enough > c.Difference*(1+1e-9) || few < c.Difference {
			t.Errorf("%d replicates detect %v, one fewer %v, want %v between: %v", got, enough, few, c.Difference, err)
		}
	}
}

// The table "Replicates needed" that the protocol of docs/results is planned by: 80 % power, by the
// standard deviation over runs.
func TestReplicatesNeeded(t *testing.T) {
	for sd, want := range map[float64][3]int{8: {505, 128, 58}, 4: {128, 34, 16}, 2: {34, 10, 6}, 1: {10, 5, 4}} {
		for n, difference := range []float64{1, 2, 3} {
			if got, err := eval.Replicates(difference, sd, eval.PowerOptions{}); err != nil || got != want[n] {
				t.Errorf("+%v at SD %v: %d, %v, want %d", difference, sd, got, err, want[n])
			}
		}
	}
	for want, c := range map[string]struct {
		difference, sd float64
		o              eval.PowerOptions
	}{
		"a difference of 0":        {0, 1, eval.PowerOptions{}},
		"a standard deviation of":  {1, 0, eval.PowerOptions{}},
		"power is 1":               {1, 1, eval.PowerOptions{Power: 1}},
		"alpha is 2":               {1, 1, eval.PowerOptions{Alpha: 2}},
		"takes more than 1000000 ": {1e-6, 1, eval.PowerOptions{}},
	} {
		if _, err := eval.Replicates(c.difference, c.sd, c.o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ...%s...", err, want)
		}
	}
	// chi-squared with 3 degrees of freedom has its 20 % quantile at 1.00517
	if got, want := eval.SDLimit(2, 4, 0.8), 2*math.Sqrt(3/1.00517); !near(got, want, 1e-5) {
		t.Errorf("limit of the standard deviation %v, want %v", got, want)
	}
}

// The same models, by lme4 with lmerTest's degrees of freedom, and by statsmodels, whose optimiser
// is content a little earlier.
func TestMixedModelEqualsLme4AndStatsmodels(t *testing.T) {
	runs := openKBP(t)
	for _, c := range readStatistics(t).Mixed {
		fit, err := caseModel(runs, c.Factors).Fit()
		if err != nil {
			t.Fatal(err)
		}
		if !near(fit.Criterion, c.Criterion, 1e-9) || !near(fit.Residual, c.Residual, 1e-5) || fit.Observations != 588 {
			t.Errorf("%v: criterion %v, residual %v, want %v, %v", c.Factors, fit.Criterion, fit.Residual, c.Criterion,
				c.Residual)
		}
		if s := c.Statsmodels; !near(fit.Criterion, s.Criterion, 1e-8) || !near(fit.Residual, s.Residual, 1e-4) {
			t.Errorf("%v: criterion %v, residual %v, statsmodels has %v, %v", c.Factors, fit.Criterion, fit.Residual,
				s.Criterion, s.Residual)
		}
		for n, sd := range c.SD {
			if !near(fit.Random[n].SD, sd, 1e-4) || !near(fit.Random[n].SD, c.Statsmodels.SD[n], 1e-2) {
				t.Errorf("%v: SD of %s %v, want %v, statsmodels has %v", c.Factors, c.Factors[n], fit.Random[n].SD, sd,
					c.Statsmodels.SD[n])
			}
		}
		for n, e := range c.Effects {
			got := fit.Effects[n]
			if !near(got.Estimate, e.Estimate, 1e-5) || !near(got.SE, e.SE, 1e-5) || !near(got.DF, e.DF, 1e-3) ||
				!near(got.Test.P, e.P, 1e-4) {
				t.Errorf("%v: %s %+v, want %+v", c.Factors, e.Name, got, e)
			}
			if s := c.Statsmodels; !near(got.Estimate, s.Estimate[n], 1e-4) || !near(got.SE, s.SE[n], 2e-3) {
				t.Errorf("%v: %s %+v, statsmodels has %v ± %v", c.Factors, e.Name, got, s.Estimate[n], s.SE[n])
			}
		}
	}
	// The model of the experiment is the second of them.
	fit, err := eval.Mixed(runs, eval.FoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := readStatistics(t).Mixed[1]
	if e := fit.Effects[1]; e.Name != "3x3x3" || !near(e.Estimate, want.Effects[1].Estimate, 1e-5) ||
		!near(e.Test.P, want.Effects[1].P, 1e-4) || !near(fit.Criterion, want.Criterion, 1e-9) {
		t.Errorf("got %+v, want %+v", fit, want)
	}
}

// caseModel is the mixed model of the mean DSC of each case of each run.
func caseModel(runs []eval.Trial, factors []string) eval.MixedModel {
	m := eval.MixedModel{Fixed: []eval.Fixed{{Name: "intercept"}, {Name: "method"}, {Name: "f20"}, {Name: "f100"}}}
	for _, f := range factors {
		m.Random = append(m.Random, eval.Factor{Name: f})
	}
	is := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	for _, r := range runs {
		sum, n := map[string]float64{}, map[string]float64{}
		for _, s := range r.Scores {
			sum[s.Case] += 100 * s.DSC
			n[s.Case]++
		}
		for id, total := range sum {
			m.Y = append(m.Y, total/n[id])
			for k, v := range []float64{1, is(r.Initialisation != "scratch"), is(r.Fraction == 0.2),
				is(r.Fraction == 1)} {
				m.Fixed[k].Values = append(m.Fixed[k].Values, v)
			}
			replicate := fmt.Sprint(r.Fold, r.Fraction, r.Seed)
			level := map[string]string{"replicate": replicate, "run": r.Initialisation + replicate, "case": id}
			for k, f := range m.Random {
				m.Random[k].Levels = append(m.Random[k].Levels, level[f.Name])
			}
		}
	}
	return m
}

// A factor without any effect has variance 0, and the rest is plain least squares: worked out by
// hand, y = 1, 2, 3, 4 on x = 0, 0, 1, 1 gives 1.5 and 2, residual variance (4 * 0.25) / 2.
func TestMixedModelWithoutRandomEffect(t *testing.T) {
	m := eval.MixedModel{Y: []float64{1, 2, 3, 4}, Fixed: []eval.Fixed{{"one", []float64{1, 1, 1, 1}},
		{"x", []float64{0, 0, 1, 1}}}}
	for _, random := range [][]eval.Factor{nil, {{"group", []string{"a", "b", "b", "a"}}}} {
		m.Random = random
		fit, err := m.Fit()
		if err != nil {
			t.Fatal(err)
		}
		got := []float64{fit.Effects[0].Estimate, fit.Effects[1].Estimate, fit.Effects[1].SE, fit.Effects[1].DF,
			fit.Residual}
		if d := cmp.Diff([]float64{1.5, 2, math.Sqrt(0.5), 2, math.Sqrt(0.5)}, got,
			cmpopts.EquateApprox(0, 1e-4)); d != "" {
			t.Error(d)
		}
		if len(fit.Random) > 0 && fit.Random[0].SD != 0 {
			t.Errorf("SD of a factor without effect: %v", fit.Random[0])
		}
	}
}

func TestMixedModelRefuses(t *testing.T) {
	one := eval.Fixed{Name: "one", Values: []float64{1, 1, 1}}
	for want, m := range map[string]eval.MixedModel{
		"not independent":     {Y: []float64{1, 2, 3}, Fixed: []eval.Fixed{one, {"two", []float64{2, 2, 2}}}},
		"cannot have 1 fixed": {Y: []float64{1}, Fixed: []eval.Fixed{{"one", []float64{1}}}},
		"has 1 values":        {Y: []float64{1, 2, 3}, Fixed: []eval.Fixed{{"one", []float64{1}}}},
		"finite values":       {Y: []float64{1, 2, math.NaN()}, Fixed: []eval.Fixed{one}},
		"random intercept run has 1": {Y: []float64{1, 2, 3}, Fixed: []eval.Fixed{one},
			Random: []eval.Factor{{"run", []string{"a"}}}},
	} {
		if _, err := m.Fit(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ...%s...", err, want)
		}
	}
	if _, err := eval.Mixed([]eval.Trial{{Initialisation: "scratch"}}, eval.FoldOptions{}); err == nil ||
		!strings.Contains(err.Error(), "another initialisation") {
		t.Errorf("a single method: %v", err)
	}
}

// Numpy draws other random numbers, so the bounds agree up to the noise of 20,000 resamples: a
// tenth of the bootstrap's standard deviation is more than three times that.
func TestBootstrapEqualsNumpy(t *testing.T) {
	runs := openKBP(t)
	for _, c := range readStatistics(t).Bootstrap {
		of := slices.DeleteFunc(
			slices.Clone(runs),
			func(r eval.Trial) bool { return c.Fraction != 0 && r.Fraction != c.Fraction },
		)
		pairs, err := eval.Pairs(of, "3x3x3", eval.FoldOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := eval.Bootstrap(pairs, 0.95, 20000, 1)
		if math.Abs(got.Low-c.Low) > 0.1*c.SD || math.Abs(got.High-c.High) > 0.1*c.SD {
			t.Errorf("fraction %v: %+v, want %v to %v", c.Fraction, got, c.Low, c.High)
		}
		if again := eval.Bootstrap(pairs, 0.95, 20000, 1); again != got {
			t.Errorf("the same seed gives %+v, then %+v", got, again)
		}
	}
}

func TestIntervalOverFoldsEqualsScipy(t *testing.T) {
	folds, err := eval.Folds(openKBP(t), eval.FoldOptions{Resamples: 1})
	if err != nil {
		t.Fatal(err)
	}
	for n, c := range readStatistics(t).Folds {
		got := folds.Cells[n][1].Comparison
		if folds.Fractions[n] != c.Fraction || !near(got.Folds.Low, c.Low, 1e-9) ||
			!near(got.Folds.High, c.High, 1e-9) {
			t.Errorf("fraction %v: %+v, want %v to %v", c.Fraction, got.Folds, c.Low, c.High)
		}
	}
	one := slices.DeleteFunc(openKBP(t), func(r eval.Trial) bool { return r.Fold > 1 })
	if folds, err = eval.Folds(one, eval.FoldOptions{Resamples: 1}); err != nil ||
		!math.IsNaN(folds.Cells[0][1].Folds.Low) {
		t.Errorf("one fold has the interval %+v, %v", folds.Cells[0][1].Folds, err)
	}
}

func TestLabelGainsEqualScipy(t *testing.T) {
	gains, err := eval.LabelGains(openKBP(t), eval.FoldOptions{Resamples: 1})
	want := readStatistics(t).Labels
	if err != nil || len(gains) != len(want) {
		t.Fatalf("%d gains, %v", len(gains), err)
	}
	for _, w := range want {
		of, baseline, _ := strings.Cut(w.Of, " - ")
		at := slices.IndexFunc(gains, func(g eval.LabelGain) bool {
			return g.Initialisation == of && g.Baseline == baseline && g.Fraction == w.More
		})
		if at < 0 {
			t.Fatalf("no gain of %+v", w)
		}
		if g := gains[at]; g.Fewer != 0.1 || g.Gain.N != w.Pairs || !near(g.Gain.Mean, w.Mean, 1e-9) ||
			!near(g.Gain.SD, w.SD, 1e-9) || !near(g.Interval.Low, w.Low, 1e-9) ||
			!near(g.Interval.High, w.High, 1e-9) || !near(g.Test.P, w.P, 1e-9) ||
			!near(g.Folds.Low, w.FoldsLow, 1e-9) || !near(g.Folds.High, w.FoldsHigh, 1e-9) {
			t.Errorf("%+v %+v p %v, want %+v", g.Gain, g.Interval, g.Test.P, w)
		}
	}
}

// A run without a partner is left out, and an experiment of one share has nothing to compare.
func TestLabelGainsOfSomeRuns(t *testing.T) {
	all := openKBP(t)
	one := slices.DeleteFunc(slices.Clone(all), func(r eval.Trial) bool { return r.Fraction != 0.2 })
	for _, runs := range [][]eval.Trial{nil, one} {
		if gains, err := eval.LabelGains(runs, eval.FoldOptions{Resamples: 1}); err != nil || len(gains) != 0 {
			t.Errorf("%d runs: %+v, %v", len(runs), gains, err)
		}
	}
	// of scratch one run with the smallest share is missing, which takes a pair from its rows and
	// from those of the difference
	lone := all[slices.IndexFunc(all,
		func(r eval.Trial) bool { return r.Initialisation == "scratch" && r.Fraction == 0.1 })]
	some := slices.DeleteFunc(slices.Clone(all), func(r eval.Trial) bool {
		return r.Initialisation == "scratch" && r.Fraction == 0.1 && r.Fold == lone.Fold && r.Seed == lone.Seed
	})
	gains, err := eval.LabelGains(some, eval.FoldOptions{Resamples: 1})
	if err != nil || len(gains) != 6 {
		t.Fatal(gains, err)
	}
	for n, pairs := range []int{3, 3, 4, 4, 3, 3} {
		if gains[n].Gain.N != pairs {
			t.Errorf("row %d: %d pairs, want %d", n, gains[n].Gain.N, pairs)
		}
	}
	// without any, the smallest share of scratch is the next one
	none := slices.DeleteFunc(
		slices.Clone(all),
		func(r eval.Trial) bool { return r.Initialisation == "scratch" && r.Fraction == 0.1 },
	)
	if gains, err = eval.LabelGains(none, eval.FoldOptions{Resamples: 1}); err != nil || len(gains) != 4 {
		t.Fatal(gains, err)
	}
	for n, fewer := range []float64{0.2, 0.1, 0.1, 0.2} {
		if gains[n].Fewer != fewer {
			t.Errorf("row %d: from %v, want %v", n, gains[n].Fewer, fewer)
		}
	}
	if _, err := eval.LabelGains(all, eval.FoldOptions{Metric: "none"}); err == nil {
		t.Error("a metric that there is not")
	}
}

// Shares of one experiment are what two experiments would be.
func TestChangesBetweenExperiments(t *testing.T) {
	o := eval.FoldOptions{Resamples: 1}
	var first, second []eval.Trial
	for _, r := range openKBP(t) {
		if r.Fraction == 0.1 {
			first = append(first, r)
		}
		if r.Fraction == 0.2 {
			r.Fraction = 0.1
			second = append(second, r)
		}
	}
	gains, err := eval.LabelGains(openKBP(t), o)
	if err != nil {
		t.Fatal(err)
	}
	gains = slices.DeleteFunc(gains, func(g eval.LabelGain) bool { return g.Fraction != 0.2 })
	changes, err := eval.Changes(first, second, o)
	if err != nil || len(changes) != 3 || len(gains) != 3 {
		t.Fatal(changes, gains, err)
	}
	for n, c := range changes {
		if g := gains[n]; c.Initialisation != g.Initialisation || c.Baseline != g.Baseline || c.Gain != g.Gain ||
			c.Interval != g.Interval || c.Fraction != 0.1 {
			t.Errorf("%+v, want %+v", c, g)
		}
	}

	// what one of the two lacks is left out
	other := slices.DeleteFunc(slices.Clone(second), func(r eval.Trial) bool { return r.Initialisation == "scratch" })
	if changes, err = eval.Changes(first, other, o); err != nil || len(changes) != 1 ||
		changes[0].Initialisation != "3x3x3" || changes[0].Baseline != "" {
		t.Errorf("without scratch: %+v, %v", changes, err)
	}
	strangers := slices.Clone(second)
	for n := range strangers {
		strangers[n].Scores = []eval.Score{{Case: "nobody", Label: 1, DSC: 0.5}}
	}
	if changes, err = eval.Changes(first, strangers, o); err != nil || len(changes) != 0 {
		t.Errorf("of other cases: %+v, %v", changes, err)
	}
	if _, err := eval.Changes(first, second, eval.FoldOptions{Metric: "none"}); err == nil {
		t.Error("a metric that there is not")
	}
}

// One case in one fold leaves the plain bootstrap of the mean: that is mean ± 1.96 standard errors.
func TestBootstrapOfManyPairsIsNormal(t *testing.T) {
	var pairs []eval.Pair
	var means []float64
	for n := range 400 {
		d := math.Mod(float64(n)*0.618, 1) // evenly spread over 0 to 1
		pairs = append(pairs, eval.Pair{Seed: uint64(n), Differences: map[string]float64{"a": d}})
		means = append(means, d)
	}
	s := eval.Summarise(means)
	half := 1.96 * s.SD / 20
	if got := eval.Bootstrap(pairs, 0.95, 4000, 3); math.Abs(got.Low-(s.Mean-half)) > 0.1*half ||
		math.Abs(got.High-(s.Mean+half)) > 0.1*half {
		t.Errorf("got %+v, want %v ± %v", got, s.Mean, half)
	}
	if got := eval.Bootstrap(pairs[:1], 0.95, 100, 1); !math.IsNaN(got.Low) {
		t.Errorf("one pair has the interval %+v", got)
	}
}

// The time of a fit grows with the third power of the levels: of too many there is none, and it
// says so.
func TestMixedModelOfTooManyCases(t *testing.T) {
	var runs []eval.Trial
	for _, initialisation := range []string{"scratch", "3x3x3"} {
		for seed := range uint64(2) {
			r := eval.Trial{Initialisation: initialisation, Fold: 1, Fraction: 1, Seed: seed}
			for n := range eval.MixedLevels {
				r.Scores = append(r.Scores, eval.Score{Case: fmt.Sprint(n), Label: 1, DSC: 0.5})
			}
			runs = append(runs, r)
		}
	}
	if _, err := eval.Mixed(runs, eval.FoldOptions{}); !errors.Is(err, eval.ErrManyLevels) ||
		!strings.Contains(err.Error(), ": 806, ") {
		t.Errorf("got %v", err)
	}
}

// Patients never stand in for runs: with one pair of runs there is no model, and where runs do not
// scatter there is no test, however many patients agree.
func TestMixedModelNeverTestsOverCases(t *testing.T) {
	run := func(initialisation string, seed uint64, gain float64) eval.Trial {
		r := eval.Trial{Initialisation: initialisation, Fraction: 1, Seed: seed}
		for n := range 40 {
			// the runs scatter less than the cases: each seed orders the same values in another way
			noise := math.Mod(float64(n)*0.618+0.1*float64(seed)*float64(n%7), 1) / 100
			r.Scores = append(r.Scores, eval.Score{Case: fmt.Sprint(n), Label: 1, DSC: 0.5 + float64(n)/200 + gain +
				noise})
		}
		return r
	}
	one := []eval.Trial{run("scratch", 1, 0), run("a", 1, 0.05)}
	if _, err := eval.Mixed(one, eval.FoldOptions{}); err == nil || !strings.Contains(err.Error(), "two pairs") {
		t.Errorf("one pair: %v", err)
	}
	fit, err := eval.Mixed(append(one, run("scratch", 2, 0), run("a", 2, 0.05), run("scratch", 3, 0),
		run("a", 3, 0.05)), eval.FoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if fit.Random[1].SD != 0 || math.Abs(fit.Effects[1].Estimate-5) > 0.5 || !math.IsNaN(fit.Effects[1].Test.P) ||
		!math.IsNaN(fit.Effects[1].Interval.Low) {
		t.Errorf("got %+v", fit)
	}
}

func TestLearningCurves(t *testing.T) {
	x, y := []float64{100, 200, 400}, []float64{10, 30, 50}
	if got := eval.AreaUnderCurve(x, y); !near(got, (20*100+40*200)/300., 1e-12) {
		t.Errorf("area %v", got)
	}
	for _, c := range []struct {
		y     []float64
		level float64
		want  float64
	}{
		{y, 5, 100}, {y, 10, 100}, {y, 20, 150}, {y, 30, 200}, {y, 45, 350}, {y, 51, math.Inf(1)},
		{[]float64{10, math.NaN(), 50}, 20, 400}, {nil, 1, math.Inf(1)},
	} {
		if got := eval.StepsTo(x, c.y, c.level); got != c.want {
			t.Errorf("%v reaches %v at %v, want %v", c.y, c.level, got, c.want)
		}
	}
	for _, bad := range [][]float64{{1}, {1, math.NaN(), 2}, {1, math.Inf(1), 2}} {
		if got := eval.AreaUnderCurve(x, bad); !math.IsNaN(got) {
			t.Errorf("area under %v: %v", bad, got)
		}
	}
}

// docs/results/openkbp-cpu.md: the gain over all 12 pairs, and what its cases look like, which is a
// description.
func TestComparison(t *testing.T) {
	folds, err := eval.Folds(openKBP(t), eval.FoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := folds.Cells[1][1] // 20 %
	if !near(c.Gain.Mean, 3.6587, 1e-4) || !near(c.Test.P, 0.4083, 1e-3) || !near(c.Interval.Low, -8.48, 1e-3) ||
		c.Holm != c.Test.P {
		t.Errorf("got %+v", c.Comparison)
	}
	// 3 of 4 pairs are up, the largest rank among them
	if c.Ranks.P != 0.625 || c.Ranks.Pairs != 4 || !c.Ranks.Exact {
		t.Errorf("Wilcoxon over the pairs: %+v", c.Ranks)
	}
	if n := c.Cases; n.Higher+n.Lower+n.Same != 49 || n.Higher <= n.Lower || !(n.RankBiserial > 0.5) ||
		!(n.Median > 0) {
		t.Errorf("cases: %+v", n)
	}
	if c.Spread.Infinite != 0 {
		t.Errorf("%d infinite values of DSC", c.Spread.Infinite)
	}
	hd, err := eval.Folds(openKBP(t), eval.FoldOptions{Metric: "hd95"})
	if err != nil {
		t.Fatal(err)
	}
	// the brainstem is hardly ever found
	if s := hd.Cells[0][0].Spread; s.Infinite < 90 || math.IsNaN(s.Mean) {
		t.Errorf("HD95 of scratch: %+v", s)
	}
}
