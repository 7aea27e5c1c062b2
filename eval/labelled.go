package eval

// LabelGain says what more labelled cases are worth to an initialisation: it compares runs of a
// share of the training cases with those of the smallest share, over pairs of runs of the same fold
// and seed.
type LabelGain struct {
	Initialisation string
	// Baseline is empty, or Comparison is of the initialisation's difference to it: by how much that
	// changes where more cases are labelled.
	Baseline    string
	Fewer, More float64 // shares of the training cases, 0 to 1
	// Comparison has no Holm, which is NaN: it is adjusted for nothing.
	Comparison
}

// LabelGains compares the shares of the training cases of an experiment: those of each
// initialisation, and of its difference to the baseline where it is another. Comparisons without a
// pair of runs are left out. Seeds may draw other cases to be labelled for each share: that is part
// of what the pairs differ in.
func LabelGains(runs []Trial, o FoldOptions) ([]LabelGain, error) {
	m, err := o.metric()
	if err != nil {
		return nil, err
	}
	var gains []LabelGain
	shares := fractionsOf(runs)
	add := func(initialisation, baseline string, values map[runKey]map[string]float64) {
		for _, more := range shares[min(1, len(shares)):] {
			if pairs := sharePairs(values, shares[0], more); len(pairs) > 0 {
				gains = append(gains, LabelGain{initialisation, baseline, shares[0], more, comparePairs(pairs, o)})
			}
		}
	}
	initialisations := initialisationsOf(runs, o.baseline())
	for _, name := range initialisations {
		add(name, "", o.casesOf(runs, name, m))
	}
	for _, name := range initialisations {
		if name == o.baseline() {
			continue
		}
		pairs, err := Pairs(runs, name, o)
		if err != nil {
			return nil, err
		}
		differences := map[runKey]map[string]float64{}
		for _, p := range pairs {
			differences[runKey{p.Fold, p.Fraction, p.Seed}] = p.Differences
		}
		add(name, o.baseline(), differences)
	}
	return gains, nil
}

// sharePairs pairs runs of two shares of the training cases by fold and seed.
func sharePairs(values map[runKey]map[string]float64, fewer, more float64) (pairs []Pair) {
	for _, key := range sortedRuns(values) {
		if key.fraction != more {
			continue
		}
		if base, ok := values[runKey{key.fold, fewer, key.seed}]; ok {
			pairs = append(pairs, Pair{Fold: key.fold, Fraction: more, Seed: key.seed, Differences: differences(values[key], base)})
		}
	}
	return pairs
}
