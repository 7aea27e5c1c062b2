package eval

// Change says by how much the runs of an initialisation differ between two experiments, over pairs
// of runs of the same fold, fraction and seed.
type Change struct {
	Initialisation string
	// Baseline is empty, or the change is that of the initialisation's difference to it.
	Baseline string
	Fraction float64 // of the training cases, 0 to 1
	// Comparison is the second experiment minus the first. It has no Holm, which is NaN: nothing is
	// adjusted.
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
	var changes []Change
	add := func(c Change, before, after map[runKey]map[string]float64) {
		var pairs []Pair
		for _, key := range sortedRuns(after) {
			if base, ok := before[key]; ok {
				pairs = append(pairs, Pair{Fold: key.fold, Fraction: key.fraction, Seed: key.seed, Differences: differences(after[key], base)})
			}
		}
		if len(pairs) > 0 {
			c.Comparison = comparePairs(pairs, o)
			changes = append(changes, c)
		}
	}
	for _, fraction := range fractionsOf(to) {
		before, after := ofFraction(from, fraction), ofFraction(to, fraction)
		names := initialisationsOf(after, o.baseline())
		for _, name := range names {
			add(Change{Initialisation: name, Fraction: fraction}, o.casesOf(before, name, m), o.casesOf(after, name, m))
		}
		for _, name := range names {
			if name != o.baseline() {
				add(Change{Initialisation: name, Baseline: o.baseline(), Fraction: fraction}, o.differencesOf(before, name, m), o.differencesOf(after, name, m))
			}
		}
	}
	return changes, nil
}

// differencesOf is the difference to the baseline of every test case of every pair of runs.
func (o FoldOptions) differencesOf(runs []Trial, initialisation string, m Metric) map[runKey]map[string]float64 {
	own, baseline := o.casesOf(runs, initialisation, m), o.casesOf(runs, o.baseline(), m)
	all := map[runKey]map[string]float64{}
	for key, values := range own {
		if base, ok := baseline[key]; ok {
			all[key] = differences(values, base)
		}
	}
	return all
}

// LabelGain is what more labelled cases change: Fraction of the training cases instead of Fewer.
type LabelGain struct {
	Fewer float64 // 0 to 1
	Change
}

// LabelGains compares each larger fraction of the training cases with the smallest one of an
// experiment, over pairs of runs of the same fold and seed, as [Changes] compares two experiments.
// Seeds may draw other cases for each fraction: then that is part of what the pairs differ in.
func LabelGains(runs []Trial, o FoldOptions) ([]LabelGain, error) {
	var gains []LabelGain
	fractions := fractionsOf(runs)
	for n, fraction := range fractions {
		if n == 0 {
			continue
		}
		larger := ofFraction(runs, fraction)
		for at := range larger {
			larger[at].Fraction = fractions[0] // so that they are pairs
		}
		changes, err := Changes(ofFraction(runs, fractions[0]), larger, o)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			c.Fraction = fraction
			gains = append(gains, LabelGain{fractions[0], c})
		}
	}
	return gains, nil
}
