package eval

import (
	"maps"
	"math"
	"slices"
)

// This file: seeds that share a draw of the labelled cases. They repeat the training and not the
// draw: the runs of one fold and one draw are averaged, and count once wherever something is
// tested.

// units says of the runs that share fold, fraction and draw with others which one stands for all:
// that of the smallest seed. Runs whose seed has a draw of its own are not in it.
type units map[runKey]runKey

func unitsOf(runs []Trial) units {
	type draw struct {
		fold     int
		fraction float64
		number   uint64
	}
	draws, first := map[runKey]draw{}, map[draw]runKey{}
	for _, r := range runs {
		if r.Draw == 0 {
			continue
		}
		d, key := draw{r.Fold, r.Fraction, r.Draw}, ofFraction(r)
		draws[key] = d
		if other, seen := first[d]; !seen || key.seed < other.seed {
			first[d] = key
		}
	}
	u := units{}
	for key, d := range draws {
		u[key] = first[d]
	}
	return u
}

// of is the run that stands for one.
func (u units) of(key runKey) runKey {
	if first, shared := u[key]; shared {
		return first
	}
	return key
}

// average is the values of each case, averaged over the runs that one stands for.
func (u units) average(runs map[runKey]map[string]float64) map[runKey]map[string]float64 {
	if len(u) == 0 {
		return runs
	}
	values := map[runKey]map[string][]float64{}
	for _, key := range sortedRuns(runs) {
		first := u.of(key)
		if values[first] == nil {
			values[first] = map[string][]float64{}
		}
		for id, v := range runs[key] {
			values[first][id] = append(values[first][id], v)
		}
	}
	means := map[runKey]map[string]float64{}
	for key, cases := range values {
		means[key] = map[string]float64{}
		for id, all := range cases {
			means[key][id] = Summarise(all).Mean
		}
	}
	return means
}

// averageOf is the same of one number of each run.
func (u units) averageOf(keys []runKey, values []float64) (means []float64) {
	all := map[runKey][]float64{}
	var order []runKey
	for n, key := range keys {
		first := u.of(key)
		if all[first] == nil {
			order = append(order, first)
		}
		all[first] = append(all[first], values[n])
	}
	for _, key := range order {
		sum := 0.0
		for _, v := range all[key] {
			sum += v
		}
		means = append(means, sum/float64(len(all[key])))
	}
	return means
}

// Noise says how far single runs of an initialisation scatter, each the mean over its test cases: a
// description, which tests nothing. Ratios are in percent.
type Noise struct {
	Initialisation string
	Fraction       float64
	// Training is the standard deviation of training again on the same labelled cases: that of the
	// differences between seeds that share a fold and a draw, divided by the square root of two.
	// NaN for fewer than two Differences.
	Training    float64
	Differences int
	// Draws is that between the draws of a fold, each by its smallest seed: of other labelled
	// cases, and of training again. It is pooled over the folds, and NaN where none has two draws.
	Draws float64
	Runs  int // that Draws comes from
}

// NoiseOf tells the noise of training from that of the draw of the labelled cases: a row for each
// fraction and initialisation some seeds of which share a draw; none where no seeds do. A label
// that one of the runs of a fold could not learn, or whose distance is infinite in a case, counts
// in none of them.
func NoiseOf(runs []Trial, o FoldOptions) ([]Noise, error) {
	m, err := o.metric()
	if err != nil {
		return nil, err
	}
	var all []Noise
	for _, fraction := range fractionsOf(runs) {
		for _, name := range initialisationsOf(runs, o.baseline()) {
			own := slices.DeleteFunc(slices.Clone(runs), func(r Trial) bool {
				return r.Initialisation != name || r.Fraction != fraction || r.Draw == 0
			})
			if n := o.noise(own, m); n.Differences > 0 {
				n.Initialisation, n.Fraction = name, fraction
				all = append(all, n)
			}
		}
	}
	return all, nil
}

// noise is that of the runs of an initialisation on one fraction.
func (o FoldOptions) noise(runs []Trial, m Metric) Noise {
	ofFold := func(r Trial) runKey { return runKey{fold: r.Fold} }
	runs, _ = o.finite(levelled(runs, ofFold), ofFold, m)
	type draw struct {
		fold   int
		number uint64
	}
	values := map[draw][]float64{} // in the order of the seeds
	var order []draw
	slices.SortStableFunc(runs, func(a, b Trial) int { return compareKeys(ofFraction(a), ofFraction(b)) })
	for _, r := range runs {
		v := Summarise(list(caseMeans(r.Scores, m, o.Label))).Mean
		if d := (draw{r.Fold, r.Draw}); !math.IsNaN(v) {
			if values[d] == nil {
				order = append(order, d)
			}
			values[d] = append(values[d], v)
		}
	}
	var between, again pooled
	folds := map[int][]float64{}
	var differences [][]float64 // of the second seed to the first, of the third, and so on
	for _, d := range order {
		v := values[d]
		folds[d.fold] = append(folds[d.fold], v[0])
		for n, next := range v[1:] {
			if n == len(differences) {
				differences = append(differences, nil)
			}
			differences[n] = append(differences[n], next-v[0])
		}
	}
	for _, fold := range slices.Sorted(maps.Keys(folds)) {
		if of := folds[fold]; len(of) > 1 {
			between.add(of)
		}
	}
	for _, of := range differences {
		again.add(of)
	}
	return Noise{Training: again.sd() / math.Sqrt2, Differences: again.n, Draws: between.sd(), Runs: between.n}
}

// pooled is a variance over several samples, each around its own mean.
type pooled struct {
	squares float64
	n, free int // values, and degrees of freedom
}

func (p *pooled) add(sample []float64) {
	if s := Summarise(sample); s.N > 1 {
		p.squares, p.free = p.squares+sq(s.SD)*float64(s.N-1), p.free+s.N-1
	}
	p.n += len(sample)
}

// sd is NaN where no sample has two values.
func (p *pooled) sd() float64 { return math.Sqrt(p.squares / float64(p.free)) }
