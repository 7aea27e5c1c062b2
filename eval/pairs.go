package eval

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Pair is one replicate of a comparison: two runs that differ in one thing, such as their
// initialisation, and share fold and seed, and the fraction unless it is what they differ in. Pairs
// of runs that share fold and draw of the labelled cases (see [Trial]) are one replicate.
type Pair struct {
	Fold     int
	Fraction float64
	Seed     uint64 // the smallest, where it is several pairs of runs
	Runs     int    // pairs of runs that it is the mean of; 1 unless seeds share a draw
	// Differences are initialisation minus baseline (or the second experiment minus the first) for
	// every test case of both runs: means over its labels. Ratios are in percent.
	Differences map[string]float64
	// Infinite counts the labels of single cases that one of the two runs, or both, missed or
	// invented: their distances are infinite, and count in neither run here.
	Infinite int
}

// Mean is the mean difference over the cases.
func (p Pair) Mean() float64 { return Summarise(list(p.Differences)).Mean }

// Pairs lists the replicates that compare an initialisation with the baseline, sorted by fold,
// fraction and seed. Runs without a partner make none.
func Pairs(runs []Trial, initialisation string, o FoldOptions) ([]Pair, error) {
	m, err := o.metric()
	if err != nil {
		return nil, err
	}
	two := slices.DeleteFunc(slices.Clone(levelled(runs, ofFraction)), func(r Trial) bool {
		return r.Initialisation != initialisation && r.Initialisation != o.baseline()
	})
	two, left := o.finite(two, ofFraction, m)
	return pairsOf(between(o.casesOf(two, initialisation, m), o.casesOf(two, o.baseline(), m)), unitsOf(two), left), nil
}

// between are the differences of runs of the same fold, fraction and seed.
func between(own, base map[runKey]map[string]float64) map[runKey]map[string]float64 {
	all := map[runKey]map[string]float64{}
	for key, values := range own {
		if other, ok := base[key]; ok {
			all[key] = differences(values, other)
		}
	}
	return all
}

// pairsOf makes replicates of the differences of pairs of runs. left says how many labels of cases
// are in none of them.
func pairsOf(all map[runKey]map[string]float64, u units, left map[runKey]int) (pairs []Pair) {
	runs, infinite := map[runKey]int{}, map[runKey]int{}
	for key := range all {
		runs[u.of(key)]++
		infinite[u.of(key)] += left[key]
	}
	replicates := u.average(all)
	for _, key := range sortedRuns(replicates) {
		pairs = append(pairs, Pair{Fold: key.fold, Fraction: key.fraction, Seed: key.seed, Runs: runs[key],
			Differences: replicates[key], Infinite: infinite[key]})
	}
	return pairs
}

// differences subtracts case by case, of the cases that both have.
func differences(own, base map[string]float64) map[string]float64 {
	all := map[string]float64{}
	for name, v := range own {
		if w, ok := base[name]; ok {
			all[name] = v - w
		}
	}
	return all
}

// runKey tells which runs of two initialisations are a pair.
type runKey struct {
	fold     int
	fraction float64
	seed     uint64
}

// ofFraction is the key of a run that is compared with others of the same fraction.
func ofFraction(r Trial) runKey { return runKey{r.Fold, r.Fraction, r.Seed} }

// ofAny is the key of a run that is compared with those of all fractions: more labelled cases may
// show labels that fewer do not.
func ofAny(r Trial) runKey { return runKey{fold: r.Fold, seed: r.Seed} }

// casesOf is the metric of every test case of every run of an initialisation.
func (o FoldOptions) casesOf(runs []Trial, initialisation string, m Metric) map[runKey]map[string]float64 {
	all := map[runKey]map[string]float64{}
	for _, r := range levelled(runs, ofFraction) {
		if r.Initialisation == initialisation {
			all[ofFraction(r)] = caseMeans(r.Scores, m, o.Label)
		}
	}
	return all
}

// levelled are the runs with the same labels in their means, where they are compared: of those that
// have a key in common, a label that one could not learn counts in none.
func levelled(runs []Trial, key func(Trial) runKey) []Trial {
	unlearnt := map[runKey]map[uint16]bool{}
	for _, r := range runs {
		for _, s := range r.Scores {
			if !s.Unlearnt {
				continue
			}
			if unlearnt[key(r)] == nil {
				unlearnt[key(r)] = map[uint16]bool{}
			}
			unlearnt[key(r)][s.Label] = true
		}
	}
	if len(unlearnt) == 0 {
		return runs
	}
	level := slices.Clone(runs)
	for n, r := range level {
		labels := unlearnt[key(r)]
		if len(labels) == 0 {
			continue
		}
		level[n].Scores = slices.Clone(r.Scores)
		for k, s := range level[n].Scores {
			level[n].Scores[k].Unlearnt = s.Unlearnt || labels[s.Label]
		}
	}
	return level
}

// finite are the runs with the same labels of each case in their means, where they are compared: of
// those that have a key in common, a label of a case whose metric is infinite in one, as distances
// are of what was missed or invented, counts in none. Otherwise the run that misses more of what is
// hard would have the better mean. left says how many labels of cases that are for a key.
func (o FoldOptions) finite(runs []Trial, key func(Trial) runKey, m Metric) (level []Trial, left map[runKey]int) {
	type place struct {
		key   runKey
		id    string
		label uint16
	}
	infinite := map[place]bool{}
	left = map[runKey]int{}
	for _, r := range runs {
		for _, s := range r.Scores {
			at := place{key(r), s.Case, s.Label}
			if (o.Label == 0 || s.Label == o.Label) && s.Counts() && math.IsInf(m.Of(s), 0) && !infinite[at] {
				infinite[at] = true
				left[at.key]++
			}
		}
	}
	if len(infinite) == 0 {
		return runs, left
	}
	level = slices.Clone(runs)
	for n, r := range level {
		level[n].Scores = slices.DeleteFunc(slices.Clone(r.Scores), func(s Score) bool {
			return infinite[place{key(r), s.Case, s.Label}]
		})
	}
	return level, left
}

func sortedRuns(runs map[runKey]map[string]float64) []runKey {
	return slices.SortedFunc(maps.Keys(runs), compareKeys)
}

func compareKeys(a, b runKey) int {
	return cmp.Or(cmp.Compare(a.fold, b.fold), cmp.Compare(a.fraction, b.fraction), cmp.Compare(a.seed, b.seed))
}

// caseMeans is the metric of every case of a run, the mean over its labels, or of one label. Labels
// that nobody drew in a case, those that the run's training cases do not show, and cases without a
// finite value are left out. Ratios are in percent.
func caseMeans(scores []Score, m Metric, label uint16) map[string]float64 {
	scale := 1.0
	if m.Ratio {
		scale = 100
	}
	all := map[string][]float64{}
	for _, s := range scores {
		if (label == 0 || s.Label == label) && s.Counts() {
			all[s.Case] = append(all[s.Case], scale*m.Of(s))
		}
	}
	means := map[string]float64{}
	for name, values := range all {
		if s := Summarise(values); s.N > 0 {
			means[name] = s.Mean
		}
	}
	return means
}

// list puts a map's values in the order of its keys, so that sums do not depend on the map's order.
func list(m map[string]float64) []float64 {
	values := make([]float64, 0, len(m))
	for _, n := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[n])
	}
	return values
}

// Comparison says how much better an initialisation is than the baseline, or the second than the
// first of what a [Change] is about, over pairs of runs.
//
// The test cases of one run are no repetitions: they share its training, and when that fails, it
// fails for all of them. So nothing is tested over cases; Cases only describes them.
type Comparison struct {
	Gains     []float64 // of the pairs, each the mean over its test cases
	Runs      int       // pairs of runs: more than there are Gains where some share a draw
	Gain      Spread    // over the pairs
	Interval  Interval  // of the mean gain, by the t distribution, 95 %
	Test      Test      // paired t-test over the pairs
	Holm      float64   // P of Test, adjusted for the number of initialisations compared
	Ranks     Test      // Wilcoxon's test over the same pairs, which assumes no normal distribution
	Bootstrap Interval  // of the mean gain, by [Bootstrap], 95 %
	// Folds is the interval of the mean of the folds' means, by the t distribution, 95 %. Runs of
	// one fold share their test cases and, where encoders are pretrained for each fold, an encoder:
	// where that makes them alike, Interval is too narrow, and this one is not. NaN with fewer than
	// two folds.
	Folds Interval
	Cases CaseDifferences
}

// Interval bounds a value.
type Interval struct{ Low, High float64 }

// CaseDifferences describes how single test cases fare, each with its mean difference over all
// pairs that tested it. It is a description and no evidence: see [Comparison].
type CaseDifferences struct {
	Higher, Lower, Same int     // cases whose metric is higher, lower or the same as the baseline's
	Median              float64 // difference
	// RankBiserial is the share of Wilcoxon's rank sum that favours the initialisation minus the
	// share against it (Kerby, Comprehensive Psychology 3, 2014): 1 where every case is higher, -1
	// where every case is lower.
	RankBiserial float64
}

// undefined is the comparison of nothing, and of the baseline with itself.
func undefined() Comparison {
	nan := math.NaN()
	test := Test{Statistic: nan, P: nan}
	return Comparison{Gain: Summarise(nil), Interval: Interval{nan, nan}, Test: test, Holm: nan, Ranks: test,
		Bootstrap: Interval{nan, nan}, Folds: Interval{nan, nan},
		Cases: CaseDifferences{Median: nan, RankBiserial: nan}}
}

// comparePairs sums up pairs. Holm needs the other comparisons, too: [adjust] sets it.
func comparePairs(pairs []Pair, o FoldOptions) Comparison {
	c := undefined()
	for _, p := range pairs {
		c.Gains = append(c.Gains, p.Mean())
		c.Runs += p.Runs
	}
	c.Gain = Summarise(c.Gains)
	for _, p := range pairs {
		c.Gain.Infinite += p.Infinite
	}
	c.Interval, c.Test = MeanTest(c.Gains)
	if c.Gain.N > 1 {
		c.Ranks, _ = Wilcoxon(c.Gains, make([]float64, len(c.Gains))) // of one length
	}
	c.Bootstrap = Bootstrap(pairs, 0.95, cmp.Or(o.Resamples, 5000), o.BootstrapSeed)
	c.Folds, _ = MeanTest(foldMeans(pairs))
	c.Cases = describeCases(pairs)
	return c
}

// foldMeans is the mean over the pairs of each fold.
func foldMeans(pairs []Pair) (means []float64) {
	gains := map[int][]float64{}
	for _, p := range pairs {
		gains[p.Fold] = append(gains[p.Fold], p.Mean())
	}
	for _, fold := range slices.Sorted(maps.Keys(gains)) {
		means = append(means, Summarise(gains[fold]).Mean)
	}
	return means
}

func describeCases(pairs []Pair) CaseDifferences {
	all := map[string][]float64{}
	for _, p := range pairs {
		for name, d := range p.Differences {
			all[name] = append(all[name], d)
		}
	}
	means := map[string]float64{}
	for name, differences := range all {
		means[name] = Summarise(differences).Mean
	}
	differences := list(means)
	c := CaseDifferences{RankBiserial: math.NaN()}
	var changed []float64
	for _, d := range differences {
		switch {
		case d > 0:
			c.Higher++
		case d < 0:
			c.Lower++
		default:
			c.Same++
			continue
		}
		changed = append(changed, d)
	}
	if len(changed) > 0 {
		r := rankSigned(changed)
		c.RankBiserial = float64(r.plus-r.minus) / float64(r.plus+r.minus)
	}
	slices.Sort(differences)
	c.Median = Quantile(differences, 0.5)
	return c
}
