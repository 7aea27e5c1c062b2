package eval

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// Ranking compares several methods by their ranks within each block (Demsar, Journal of Machine
// Learning Research 7, 2006). A block is what all methods were tried on in the same way, such as a
// replicate: fold, fraction and seed.
type Ranking struct {
	Methods []string
	Mean    []float64 // rank of each method, 1 for the best, ties shared
	Blocks  int
	// Test is Friedman's, corrected for ties: whether the methods differ at all.
	Test Test
	// Critical is Nemenyi's critical difference: two mean ranks that are closer cannot be told
	// apart at the level alpha, all pairs of methods considered.
	Critical float64
}

// Rank ranks methods by values[block][method], where more is better. It needs at least two methods
// and two blocks, and a finite value of each method in each block.
func Rank(methods []string, values [][]float64, alpha float64) (Ranking, error) {
	k, n := len(methods), len(values)
	if k < 2 || n < 2 {
		return Ranking{},
			fmt.Errorf("a ranking needs at least two methods and two replicates that all of them have, not %d and %d",
				k, n)
	}
	if !(alpha > 0 && alpha < 1) {
		return Ranking{}, fmt.Errorf("alpha is %v: want a probability between 0 and 1, such as 0.05", alpha)
	}
	r := Ranking{Methods: methods, Mean: make([]float64, k), Blocks: n}
	var ties float64 // sum of t^3 - t over groups of t equal values
	for _, block := range values {
		if len(block) != k || slices.ContainsFunc(block, func(v float64) bool { return !numbers.Finite(v) }) {
			return Ranking{}, fmt.Errorf("a ranking needs a finite value of each of the %d methods in each replicate",
				k)
		}
		ties += addRanks(r.Mean, block)
	}
	var squares float64
	for m := range r.Mean {
		squares += sq(r.Mean[m])
		r.Mean[m] /= float64(n)
	}
	kf, nf := float64(k), float64(n)
	r.Test = Test{P: math.NaN(), Statistic: math.NaN(), Pairs: n}
	if correction := 1 - ties/(nf*kf*(kf*kf-1)); correction > 0 {
		r.Test.Statistic = (12/(nf*kf*(kf+1))*squares - 3*nf*(kf+1)) / correction
		r.Test.P = distuv.ChiSquared{K: kf - 1}.Survival(r.Test.Statistic)
	}
	r.Critical = rangeQuantile(1-alpha, k) / math.Sqrt2 * math.Sqrt(kf*(kf+1)/(6*nf))
	return r, nil
}

// addRanks adds the ranks of a block's values, 1 for the largest, and returns t^3 - t summed over
// groups of t equal ones.
func addRanks(to, values []float64) (ties float64) {
	order := make([]int, len(values))
	for n := range order {
		order[n] = n
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[b], values[a]) })
	for start := 0; start < len(order); {
		end := start
		for end < len(order) && values[order[end]] == values[order[start]] {
			end++
		}
		for _, m := range order[start:end] {
			to[m] += float64(start+1+end) / 2
		}
		t := float64(end - start)
		ties += t * (t*t - 1)
		start = end
	}
	return ties
}

// rangeQuantile is the quantile of the range of k independent standard normal values: the
// studentized range with infinitely many degrees of freedom.
func rangeQuantile(p float64, k int) float64 {
	// The range is at most q where all values lie within q above the smallest: the density of the
	// smallest, times the probability that the others do.
	below := func(q float64) float64 {
		return quad.Fixed(func(z float64) float64 {
			return float64(k) * distuv.UnitNormal.Prob(z) * math.Pow(distuv.UnitNormal.CDF(z+
				q)-distuv.UnitNormal.CDF(z), float64(k-1))
		}, -9, 9, 300, quad.Legendre{}, 0)
	}
	low, high := 0.0, 20.0
	for range 60 {
		if middle := (low + high) / 2; below(middle) < p {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// RankRuns ranks the initialisations of an experiment over the replicates (fold, fraction and seed,
// or draw where seeds share one) that all of them have, at the level 0.05.
func RankRuns(runs []Trial, o FoldOptions) (Ranking, error) {
	m, err := o.metric()
	if err != nil {
		return Ranking{}, err
	}
	if m.Better == 0 {
		return Ranking{}, fmt.Errorf("metric %s has no better and worse to rank by", m.Key)
	}
	methods := initialisationsOf(runs, o.baseline())
	if len(methods) == 0 {
		return Ranking{}, errors.New("no runs to rank")
	}
	runs, _ = o.finite(levelled(runs, ofFraction), ofFraction, m)
	var of []map[runKey]map[string]float64
	for _, name := range methods {
		of = append(of, o.casesOf(runs, name, m))
	}
	var keys []runKey
	values := make([][]float64, len(methods)) // [method][run]
	for _, key := range sortedRuns(of[0]) {
		block := make([]float64, len(methods))
		for n := range methods {
			// NaN where there is no such run
			block[n] = float64(m.Better) * Summarise(list(of[n][key])).Mean
		}
		if slices.ContainsFunc(block, math.IsNaN) {
			continue
		}
		keys = append(keys, key)
		for n, v := range block {
			values[n] = append(values[n], v)
		}
	}
	var blocks [][]float64
	u := unitsOf(runs)
	for n, of := range values {
		for b, v := range u.averageOf(keys, of) {
			if n == 0 {
				blocks = append(blocks, make([]float64, len(methods)))
			}
			blocks[b][n] = v
		}
	}
	return Rank(methods, blocks, 0.05)
}
