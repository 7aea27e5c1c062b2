package eval

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
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
	Baseline string // the initialisation that the others are tested against; scratch when empty
	// Patients are those of the cases, by their names. A case without one is the only one of its
	// patient.
	Patients map[string]string
}

// FoldTable is the result of an experiment in the shape of the paper's Table 3: a row a fraction of
// the training data, a column an initialisation.
type FoldTable struct {
	Metric          Column
	Baseline        string
	Fractions       []float64
	Initialisations []string     // the baseline first, then in the order of the runs
	Cells           [][]FoldCell // [fraction][initialisation]
	Cases, Patients int          // that are compared, in the cell that has most
}

// FoldCell sums up the runs of one initialisation on one fraction.
type FoldCell struct {
	// Spread is over the runs, folds x seeds, each the mean over its test cases.
	Spread Spread
	// Gain is the mean difference to the baseline over the patients of the test cases that both
	// have, and Test is Wilcoxon's on the same pairs. A patient counts once, as the mean over the
	// cases, each of which is the mean over its seeds: runs on the same case are not independent,
	// nor are scans of one patient. NaN for the baseline itself.
	Gain float64
	Test Test
}

// Folds tabulates an experiment. Ratios (DSC and NSD) are in percent. Runs may be missing: the
// experiment may still be under way.
func Folds(runs []Run, o FoldOptions) (FoldTable, error) {
	metric, err := MetricNamed(cmp.Or(o.Metric, "dsc"))
	if err != nil {
		return FoldTable{}, err
	}
	t := FoldTable{Metric: metric.Column, Baseline: cmp.Or(o.Baseline, "scratch")}
	scale := 1.0
	if metric.Key == "dsc" || metric.Key == "nsd" {
		scale = 100
		t.Metric = Column{metric.Key + "_percent", metric.Title + " (%)", 2}
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
		baseline := cases(runs, t.Baseline, fraction, metric, o.Label, scale)
		for column, initialisation := range t.Initialisations {
			cell := &t.Cells[row][column]
			var means []float64
			for _, r := range runs {
				if r.Fraction == fraction && r.Initialisation == initialisation {
					means = append(means, Summarise(list(caseMeans(r.Scores, metric, o.Label, scale))).Mean)
				}
			}
			cell.Spread = Summarise(means)
			cell.Gain, cell.Test = math.NaN(), Test{P: math.NaN()}
			if initialisation == t.Baseline {
				continue
			}
			own, base := both(cases(runs, initialisation, fraction, metric, o.Label, scale), baseline)
			a, b := list(patientMeans(own, o.Patients)), list(patientMeans(base, o.Patients))
			t.Cases, t.Patients = max(t.Cases, len(own)), max(t.Patients, len(a))
			difference := make([]float64, len(a))
			for n := range a {
				difference[n] = a[n] - b[n]
			}
			cell.Gain = Summarise(difference).Mean
			if cell.Test, err = Wilcoxon(a, b); err != nil {
				return FoldTable{}, err
			}
		}
	}
	return t, nil
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

// cases is the metric of every test case of one cell, the mean over the seeds.
func cases(runs []Run, initialisation string, fraction float64, m Metric, label uint16, scale float64) map[string]float64 {
	all := map[string][]float64{}
	for _, r := range runs {
		if r.Initialisation == initialisation && r.Fraction == fraction {
			for name, v := range caseMeans(r.Scores, m, label, scale) {
				all[name] = append(all[name], v)
			}
		}
	}
	return meansOf(all)
}

// both keeps of two cells the cases that both have.
func both(a, b map[string]float64) (ofA, ofB map[string]float64) {
	ofA, ofB = map[string]float64{}, map[string]float64{}
	for name, v := range a {
		if w, ok := b[name]; ok {
			ofA[name], ofB[name] = v, w
		}
	}
	return ofA, ofB
}

// patientMeans is the mean over the cases of every patient, under the name of the first: where each
// case is of a patient of its own, nothing changes.
func patientMeans(cases map[string]float64, patients map[string]string) map[string]float64 {
	first, all := map[string]string{}, map[string][]float64{}
	for _, name := range sortedNames(cases) {
		key := name
		if patient := patients[name]; patient != "" {
			key = cmp.Or(first[patient], name)
			first[patient] = key
		}
		all[key] = append(all[key], cases[name])
	}
	return meansOf(all)
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

// Table is the fold table for [Table]'s writers: a row a fraction; for every initialisation mean ±
// sd and, but for the baseline, gain and p.
func (f FoldTable) Table() Table {
	t := Table{Title: "Mean " + f.Metric.Title + " by share of the training data", Columns: []Column{{"data", "data", 0}}}
	for _, i := range f.Initialisations {
		key := strings.ReplaceAll(i, " ", "_")
		t.Columns = append(t.Columns, Column{key + "_" + f.Metric.Key, i, f.Metric.Digits})
		if i != f.Baseline {
			t.Columns = append(t.Columns, Column{key + "_gain", "gain", f.Metric.Digits}, Column{key + "_p", "p", 3})
		}
	}
	runs := 0
	for row, fraction := range f.Fractions {
		cells := []any{Percent(fraction)}
		for n, c := range f.Cells[row] {
			cells = append(cells, c.Spread)
			runs = max(runs, c.Spread.N)
			if f.Initialisations[n] != f.Baseline {
				cells = append(cells, c.Gain, c.Test.P)
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	t.Notes = []string{fmt.Sprintf("Mean ± standard deviation over the runs (folds x seeds, up to %d a cell), each the mean over its test cases.", runs)}
	if len(f.Initialisations) > 1 {
		over, averaged := "same test cases", "seeds"
		if f.Patients < f.Cases {
			over, averaged = fmt.Sprintf("%d patients of the same %d test cases", f.Patients, f.Cases), "seeds and the cases of a patient"
		}
		t.Notes = append(t.Notes, fmt.Sprintf("gain: mean difference to %s over the %s; p: paired Wilcoxon signed-rank test over them, two-sided, %s averaged first.", f.Baseline, over, averaged))
	}
	return t
}

// Percent writes a share the way the tables do: 10 %.
func Percent(share float64) string { return fmt.Sprintf("%.4g %%", 100*share) }
