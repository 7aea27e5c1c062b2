package eval

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// Bootstrap is the percentile interval of the mean difference at a level such as 0.95, from
// resamples at three levels: folds are drawn with replacement; then, in each fold, its pairs of
// runs (replicates); and its test cases, which all pairs of the fold share. A resample's value is
// the mean over the pairs drawn of the mean over the cases drawn. Drawing the cases once for all
// pairs of a fold keeps what the pairs have in common (Owen's pigeonhole bootstrap, Annals of
// Applied Statistics 1(2), 2007).
//
// The same seed gives the same interval. With few folds and pairs the interval is too narrow; rely
// on that of [MeanTest] then. It is NaN for fewer than two pairs.
func Bootstrap(pairs []Pair, level float64, resamples int, seed uint64) Interval {
	if len(pairs) < 2 || resamples < 1 {
		return Interval{math.NaN(), math.NaN()}
	}
	folds := resampleFolds(pairs)
	r := rand.New(rand.NewPCG(seed, 0x626f6f7473747261))
	means := make([]float64, 0, resamples)
	for range resamples {
		var total, n float64
		for range folds {
			sum, count := folds[r.IntN(len(folds))].draw(r)
			total, n = total+sum, n+count
		}
		if n > 0 {
			means = append(means, total/n)
		}
	}
	slices.Sort(means)
	return Interval{Quantile(means, (1-level)/2), Quantile(means, (1+level)/2)}
}

// resampled is the differences of one fold by pair and case; NaN where a pair lacks a case.
type resampled struct {
	differences [][]float64 // [pair][case]
	cases       int
	drawn       []int // scratch: the cases of a resample
}

// resampleFolds sorts pairs into folds.
func resampleFolds(pairs []Pair) []*resampled {
	byFold := map[int][]Pair{}
	for _, p := range pairs {
		byFold[p.Fold] = append(byFold[p.Fold], p)
	}
	var folds []*resampled
	for _, fold := range slices.Sorted(maps.Keys(byFold)) {
		at := map[string]int{}
		for _, p := range byFold[fold] {
			for name := range p.Differences {
				at[name] = 0
			}
		}
		for n, name := range slices.Sorted(maps.Keys(at)) {
			at[name] = n
		}
		f := &resampled{cases: len(at), drawn: make([]int, len(at))}
		for _, p := range byFold[fold] {
			row := slices.Repeat([]float64{math.NaN()}, len(at))
			for name, d := range p.Differences {
				row[at[name]] = d
			}
			f.differences = append(f.differences, row)
		}
		folds = append(folds, f)
	}
	return folds
}

// draw draws pairs and cases of a fold: the sum of the pairs' means, and how many there are.
func (f *resampled) draw(r *rand.Rand) (sum, n float64) {
	if f.cases == 0 {
		return 0, 0
	}
	for k := range f.drawn {
		f.drawn[k] = r.IntN(f.cases)
	}
	for range f.differences {
		row := f.differences[r.IntN(len(f.differences))]
		var total, count float64
		for _, k := range f.drawn {
			if d := row[k]; !math.IsNaN(d) {
				total, count = total+d, count+1
			}
		}
		if count > 0 {
			sum, n = sum+total/count, n+1
		}
	}
	return sum, n
}
