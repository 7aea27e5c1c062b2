package eval

import (
	"maps"
	"slices"
)

// Change says by how much the runs of an initialisation differ between two experiments, or between
// two fractions of the training cases, over pairs of runs of the same fold and seed and the test
// cases that both have. Ratios are in percentage points, distances in mm.
type Change struct {
	Initialisation string
	// Baseline is empty, or the change is that of the initialisation's difference to it.
	Baseline string
	Fraction float64 // of the training cases, 0 to 1
	// Comparison is the second minus the first. It has no Holm, which is NaN: nothing is adjusted.
	Comparison
}

// Changes compares two experiments that have initialisations in common, such as one with more steps
// of fine-tuning: each initialisation, and its difference to the baseline where it is another, by
// fractions. What no pair of runs tells is left out.
func Changes(from, to []Trial, o FoldOptions) ([]Change, error) {
	m, err := o.metric()
	if err != nil {
		return nil, err
	}
	both, _ := o.finite(levelled(slices.Concat(from, to), ofFraction), ofFraction, m)
	from, to = both[:len(from)], both[len(from):]
	u := unitsOf(both)
	var changes []Change
	before := o.series(from, m, u)
	for _, after := range o.series(to, m, u) {
		at := slices.IndexFunc(before,
			func(s series) bool { return s.Initialisation == after.Initialisation && s.Baseline == after.Baseline })
		if at < 0 {
			continue
		}
		for _, fraction := range after.fractions() {
			if c, ok := after.change(before[at], fraction, fraction, o); ok {
				changes = append(changes, c)
			}
		}
	}
	return changes, nil
}

// LabelGain is what more labelled cases change: a Fraction of the training cases instead of a
// smaller one.
type LabelGain struct {
	Fewer float64 // 0 to 1
	Change
}

// LabelGains compares each larger fraction of the training cases with the smallest one: of each
// initialisation, and of its difference to the baseline where it is another. What no pair of runs
// tells is left out. Seeds may draw other cases for each fraction: then that is part of what the
// runs of a pair differ in.
func LabelGains(runs []Trial, o FoldOptions) ([]LabelGain, error) {
	m, err := o.metric()
	if err != nil {
		return nil, err
	}
	runs, _ = o.finite(levelled(runs, ofAny), ofAny, m)
	var gains []LabelGain
	for _, s := range o.series(runs, m, unitsOf(runs)) {
		fractions := s.fractions()
		for _, fraction := range fractions[min(1, len(fractions)):] {
			if c, ok := s.change(s, fractions[0], fraction, o); ok {
				gains = append(gains, LabelGain{Fewer: fractions[0], Change: c})
			}
		}
	}
	return gains, nil
}

// series is the scores of every test case in every run of an initialisation, or their differences
// to the baseline.
type series struct {
	Initialisation, Baseline string
	values                   map[runKey]map[string]float64
	units                    units
}

// series lists those of the initialisations, and then those of the differences to the baseline.
func (o FoldOptions) series(runs []Trial, m Metric, u units) []series {
	var own, differing []series
	baseline := o.casesOf(runs, o.baseline(), m)
	for _, name := range initialisationsOf(runs, o.baseline()) {
		s := series{name, "", o.casesOf(runs, name, m), u}
		own = append(own, s)
		if name == o.baseline() {
			continue
		}
		differing = append(differing, series{name, o.baseline(), between(s.values, baseline), u})
	}
	return slices.Concat(own, differing)
}

// fractions are those of the runs in ascending order.
func (s series) fractions() []float64 {
	seen := map[float64]bool{}
	for key := range s.values {
		seen[key.fraction] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// of are the values of the runs of a fraction, under another one.
func (s series) of(fraction, as float64) map[runKey]map[string]float64 {
	values := map[runKey]map[string]float64{}
	for key, v := range s.values {
		if key.fraction == fraction {
			values[runKey{key.fold, as, key.seed}] = v
		}
	}
	return values
}

// change compares the runs of a fraction with those of the same fold and seed that another series
// has of a fraction. It is not ok where no pair of runs has a value.
func (s series) change(before series, fewer, fraction float64, o FoldOptions) (c Change, ok bool) {
	pairs := pairsOf(between(s.of(fraction, fraction), before.of(fewer, fraction)), s.units, nil)
	c = Change{s.Initialisation, s.Baseline, fraction, comparePairs(pairs, o)}
	return c, c.Gain.N > 0
}
