package eval

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Run is one trained network of an experiment and how it did on its test cases.
type Run struct {
	Initialisation string  // such as scratch or 3x3x3
	Fraction       float64 // of the training cases, 0 to 1
	Fold           int
	Seed           uint64
	Scores         []Score
}

// FoldOptions say what [Folds] tabulates.
type FoldOptions struct {
	Metric   string // a metric's key; dsc when empty
	Label    uint16 // 0: the mean over the labels of a case
	Baseline string // the initialisation that the others are compared with; scratch when empty
}

// FoldTable is the result of an experiment in the shape of the paper's Table 3: a row a fraction of
// the training data, a column an initialisation.
type FoldTable struct {
	Metric          Metric // ratios are in percent
	Baseline        string
	Fractions       []float64
	Initialisations []string     // the baseline first, then in the order of the runs
	Cells           [][]FoldCell // [fraction][initialisation]
}

// FoldCell sums up the runs of one initialisation on one fraction.
type FoldCell struct {
	// Spread is over the runs, folds x seeds, each the mean over its test cases.
	Spread Spread
	// Gain is the difference to the baseline, run by run: a pair is the two runs of one fold and
	// seed, and its difference is the mean over the test cases that both have. Low and High bound
	// the mean difference with a confidence of 95 %, and Test is the paired t-test, both over these
	// pairs.
	//
	// The test cases of one run are no repetitions: they share its training, and when that fails,
	// it fails for all of them. So no test is made over cases or patients. All are NaN for the
	// baseline.
	Gain      Spread
	Low, High float64
	Test      Test
}

// Folds tabulates an experiment. Ratios (DSC and NSD) are in percent. Runs may be missing: the
// experiment may still be under way.
func Folds(runs []Run, o FoldOptions) (FoldTable, error) {
	metric, err := MetricNamed(cmp.Or(o.Metric, "dsc"))
	if err != nil {
		return FoldTable{}, err
	}
	t := FoldTable{Metric: metric, Baseline: cmp.Or(o.Baseline, "scratch")}
	scale := 1.0
	if metric.Ratio {
		scale = 100
	}
	for _, r := range runs {
		if !slices.Contains(t.Fractions, r.Fraction) {
			t.Fractions = append(t.Fractions, r.Fraction)
		}
		if !slices.Contains(t.Initialisations, r.Initialisation) {
			t.Initialisations = append(t.Initialisations, r.Initialisation)
		}
	}
	slices.Sort(t.Fractions)
	slices.SortStableFunc(t.Initialisations, func(a, b string) int {
		switch {
		case a == t.Baseline && b != a:
			return -1
		case b == t.Baseline && b != a:
			return 1
		}
		return 0
	})
	t.Cells = make([][]FoldCell, len(t.Fractions))
	for row, fraction := range t.Fractions {
		t.Cells[row] = make([]FoldCell, len(t.Initialisations))
		baseline := runMeans(runs, t.Baseline, fraction, metric, o.Label, scale)
		for column, initialisation := range t.Initialisations {
			own := runMeans(runs, initialisation, fraction, metric, o.Label, scale)
			t.Cells[row][column] = compareRuns(own, baseline, initialisation == t.Baseline)
		}
	}
	return t, nil
}

// runKey tells which runs of two initialisations are a pair.
type runKey struct {
	fold int
	seed uint64
}

// runMeans is the metric of every test case of every run of one cell.
func runMeans(runs []Run, initialisation string, fraction float64, m Metric, label uint16, scale float64) map[runKey]map[string]float64 {
	all := map[runKey]map[string]float64{}
	for _, r := range runs {
		if r.Fraction == fraction && r.Initialisation == initialisation {
			all[runKey{r.Fold, r.Seed}] = caseMeans(r.Scores, m, label, scale)
		}
	}
	return all
}

// compareRuns sums up the runs of a cell and compares them with those of the baseline.
func compareRuns(own, baseline map[runKey]map[string]float64, isBaseline bool) FoldCell {
	nan := math.NaN()
	cell := FoldCell{Gain: Summarise(nil), Low: nan, High: nan, Test: Test{Statistic: nan, P: nan}}
	var means, gains []float64
	for _, key := range sortedRuns(own) {
		means = append(means, Summarise(list(own[key])).Mean)
		if base, ok := baseline[key]; ok && !isBaseline {
			a, b := both(own[key], base)
			gains = append(gains, Summarise(list(a)).Mean-Summarise(list(b)).Mean)
		}
	}
	cell.Spread = Summarise(means)
	if !isBaseline {
		cell.Gain = Summarise(gains)
		cell.Low, cell.High, cell.Test = MeanTest(gains)
	}
	return cell
}

func sortedRuns(runs map[runKey]map[string]float64) []runKey {
	return slices.SortedFunc(maps.Keys(runs), func(a, b runKey) int {
		return cmp.Or(cmp.Compare(a.fold, b.fold), cmp.Compare(a.seed, b.seed))
	})
}

// caseMeans is the metric of every case of a run, the mean over its labels, or of one label. Cases
// without a finite value are left out.
func caseMeans(scores []Score, m Metric, label uint16, scale float64) map[string]float64 {
	all := map[string][]float64{}
	for _, s := range scores {
		if label == 0 || s.Label == label {
			all[s.Case] = append(all[s.Case], scale*m.Of(s))
		}
	}
	return meansOf(all)
}

// both keeps of two runs the cases that both have.
func both(a, b map[string]float64) (ofA, ofB map[string]float64) {
	ofA, ofB = map[string]float64{}, map[string]float64{}
	for name, v := range a {
		if w, ok := b[name]; ok {
			ofA[name], ofB[name] = v, w
		}
	}
	return ofA, ofB
}

func meansOf(all map[string][]float64) map[string]float64 {
	means := map[string]float64{}
	for name, values := range all {
		if s := Summarise(values); s.N > 0 {
			means[name] = s.Mean
		}
	}
	return means
}

func sortedNames(m map[string]float64) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// list puts a map's values in the order of its keys, so that sums do not depend on the map's order.
func list(m map[string]float64) []float64 {
	values := make([]float64, 0, len(m))
	for _, n := range sortedNames(m) {
		values = append(values, m[n])
	}
	return values
}
