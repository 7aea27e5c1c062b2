package eval

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Trial is one run of an experiment: a trained network, and how it did on its test cases.
type Trial struct {
	Initialisation string  // such as scratch or 3x3x3
	Fraction       float64 // of the training cases, 0 to 1
	Fold           int
	Seed           uint64
	// Draw is the draw of the labelled cases that the run learnt from, where seeds may share one:
	// runs of the same fold, fraction and draw have the same labelled cases. 0: the seed has a draw
	// of its own, or nobody recorded it.
	Draw uint64
	// Components is the post-processing: which connected components its predictions keep, such as
	// "all", "largest" or "largest of liver, spleen"; "" where nobody recorded it.
	Components string
	// Device is who computed the training, and how a GPU multiplied: "cpu", "cuda bf16"; "" where
	// nobody recorded it.
	Device string
	Scores []Score
}

// FoldOptions say what [Folds], [Pairs], [Changes], [LabelGains] and [Mixed] look at.
type FoldOptions struct {
	Metric        string // a metric's key; dsc when empty
	Label         uint16 // 0: the mean over the labels of a case
	Baseline      string // the initialisation that the others are compared with; scratch when empty
	Resamples     int    // of the bootstrap; 5000 when 0
	BootstrapSeed uint64
}

func (o FoldOptions) metric() (Metric, error) { return MetricNamed(cmp.Or(o.Metric, "dsc")) }

func (o FoldOptions) baseline() string { return cmp.Or(o.Baseline, "scratch") }

// FoldTable is the result of an experiment in the shape of the paper's Table 3: a row for each
// fraction of the training data, a column for each initialisation.
type FoldTable struct {
	Metric          Metric // ratios are in percent
	Baseline        string
	Fractions       []float64
	Initialisations []string     // the baseline first, then in the order of the runs
	Cells           [][]FoldCell // [fraction][initialisation]
	// Unlearnt are the labels that are left out of the means of some runs.
	Unlearnt []UnlearntLabel
}

// UnlearntLabel is a label that the training cases of some runs do not show. Their networks cannot
// have learnt it, and it is in none of their means.
type UnlearntLabel struct {
	Label    uint16
	Name     string
	Runs, Of int // so many of all runs
}

// FoldCell sums up the runs of one initialisation on one fraction.
type FoldCell struct {
	// Spread is over the runs, folds x seeds, each the mean over its test cases; those of seeds
	// that share a draw of the labelled cases are averaged first, and count once. Its Infinite
	// counts the labels of single cases that were missed or invented, which are in no mean of
	// distances.
	Spread Spread
	Runs   int // that have a mean: more than Spread.N where some share a draw
	// Comparison is with the baseline, Holm's adjustment over the initialisations of the row. All
	// is NaN for the baseline itself.
	Comparison
}

// Folds tabulates an experiment. Ratios (DSC and NSD) are in percent. Runs may be missing: the
// experiment may still be under way.
func Folds(runs []Trial, o FoldOptions) (FoldTable, error) {
	metric, err := o.metric()
	if err != nil {
		return FoldTable{}, err
	}
	t := FoldTable{Metric: metric, Baseline: o.baseline(), Initialisations: initialisationsOf(runs, o.baseline()),
		Fractions: fractionsOf(runs)}
	t.Unlearnt = unlearntIn(runs, o.Label)
	t.Cells = make([][]FoldCell, len(t.Fractions))
	for row, fraction := range t.Fractions {
		of := slices.DeleteFunc(slices.Clone(runs), func(r Trial) bool { return r.Fraction != fraction })
		for _, initialisation := range t.Initialisations {
			cell := FoldCell{Comparison: undefined()}
			cell.Spread, cell.Runs = o.spread(of, initialisation, metric)
			if initialisation != t.Baseline {
				if cell.Comparison, err = o.compare(of, initialisation); err != nil {
					return t, err
				}
			}
			t.Cells[row] = append(t.Cells[row], cell)
		}
		adjust(t.Cells[row])
	}
	return t, nil
}

// unlearntIn counts, for each label, the runs whose training cases do not show it. Labels are in
// ascending order, and those that all runs show are left out.
func unlearntIn(runs []Trial, only uint16) (all []UnlearntLabel) {
	of := map[uint16]*UnlearntLabel{}
	for _, r := range runs {
		seen := map[uint16]bool{}
		for _, s := range r.Scores {
			if !s.Unlearnt || seen[s.Label] || only > 0 && s.Label != only {
				continue
			}
			seen[s.Label] = true
			if of[s.Label] == nil {
				of[s.Label] = &UnlearntLabel{Label: s.Label, Name: s.Name, Of: len(runs)}
			}
			of[s.Label].Runs++
		}
	}
	for _, label := range slices.Sorted(maps.Keys(of)) {
		all = append(all, *of[label])
	}
	return all
}

// initialisationsOf lists the initialisations in the order of the runs, but the baseline first.
func initialisationsOf(runs []Trial, baseline string) []string {
	var all []string
	for _, r := range runs {
		if !slices.Contains(all, r.Initialisation) {
			all = append(all, r.Initialisation)
		}
	}
	if at := slices.Index(all, baseline); at > 0 {
		all = slices.Insert(slices.Delete(all, at, at+1), 0, baseline)
	}
	return all
}

// compare compares an initialisation with the baseline, over the pairs of their runs.
func (o FoldOptions) compare(runs []Trial, initialisation string) (Comparison, error) {
	pairs, err := Pairs(runs, initialisation, o)
	return comparePairs(pairs, o), err
}

// spread sums up the runs of an initialisation, and says how many have a mean.
func (o FoldOptions) spread(runs []Trial, initialisation string, m Metric) (s Spread, n int) {
	var keys []runKey
	var means []float64
	cases := o.casesOf(runs, initialisation, m)
	for _, key := range sortedRuns(cases) {
		if mean := Summarise(list(cases[key])).Mean; !math.IsNaN(mean) {
			keys, means = append(keys, key), append(means, mean)
		}
	}
	own := slices.DeleteFunc(slices.Clone(runs), func(r Trial) bool { return r.Initialisation != initialisation })
	s = Summarise(unitsOf(own).averageOf(keys, means))
	for _, r := range own {
		for _, score := range r.Scores {
			if (o.Label == 0 || score.Label == o.Label) && math.IsInf(m.Of(score), 0) && score.Counts() {
				s.Infinite++
			}
		}
	}
	return s, len(means)
}

// adjust sets Holm's P of a row.
func adjust(row []FoldCell) {
	p := make([]float64, len(row))
	for n, c := range row {
		p[n] = c.Test.P
	}
	for n, q := range Holm(p) {
		row[n].Holm = q
	}
}
