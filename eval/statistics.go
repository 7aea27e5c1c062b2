package eval

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// Spread sums up a set of values. Mean and SD are taken over the finite ones; SD is
// the sample's (n-1), NaN for a single value.
type Spread struct {
	Mean, SD  float64
	N         int // finite values
	Infinite  int // labels missed or invented, whose distance is not defined
	Undefined int // NaN: nothing to measure
}

// Summarise takes the mean and the standard deviation of the finite values and counts the rest.
func Summarise(values []float64) Spread {
	var s Spread
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			s.Undefined++
		case math.IsInf(v, 0):
			s.Infinite++
		default:
			s.N++
			s.Mean += v
		}
	}
	s.Mean /= float64(s.N) // 0/0 is NaN: no mean
	var squares float64
	for _, v := range values {
		if numbers.Finite(v) {
			squares += sq(v - s.Mean)
		}
	}
	s.SD = math.NaN()
	if s.N > 1 {
		s.SD = math.Sqrt(squares / float64(s.N-1))
	}
	return s
}

// Quantile is the q-quantile of sorted values, interpolated linearly between neighbours as numpy
// does; NaN of none.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	below := int(at)
	if below >= len(sorted)-1 {
		return sorted[len(sorted)-1]
	}
	return sorted[below] + (at-float64(below))*(sorted[below+1]-sorted[below])
}

// Test is the outcome of a paired test.
type Test struct {
	Statistic float64 // of Wilcoxon's test the smaller of the two sums of ranks, otherwise t
	P         float64 // two-sided; NaN where there is no difference to test
	Pairs     int     // that were tested; of Wilcoxon's test those that differ
	Exact     bool    // P was enumerated, not approximated
}

// MeanTest is the two-sided t-test of differences against a mean of 0, and the interval that holds
// their mean with a confidence of 95 %. It assumes that the differences are independent and normal,
// as those of repeated runs are and those of the cases of one run are not. Values that are not
// finite are left out. All is NaN where there are fewer than two.
func MeanTest(differences []float64) (Interval, Test) {
	nan := math.NaN()
	s := Summarise(differences)
	if s.N < 2 {
		return Interval{nan, nan}, Test{Statistic: nan, P: nan, Pairs: s.N}
	}
	of := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(s.N - 1)}
	sem := s.SD / math.Sqrt(float64(s.N))
	half := of.Quantile(0.975) * sem
	t := Test{Statistic: s.Mean / sem, Pairs: s.N} // 0/0 is NaN: nothing differs
	t.P = 2 * of.Survival(math.Abs(t.Statistic))
	return Interval{s.Mean - half, s.Mean + half}, t
}

// Holm adjusts the P of several tests. Comparing the adjusted ones with a level such as 0.05 keeps
// the probability of any false alarm among all tests at or below that level (Holm, Scandinavian
// Journal of Statistics 6, 1979). NaN stays NaN and does not count as a test.
func Holm(p []float64) []float64 {
	adjusted := slices.Repeat([]float64{math.NaN()}, len(p))
	var order []int
	for n, v := range p {
		if !math.IsNaN(v) {
			order = append(order, n)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	least := 0.0
	for rank, n := range order {
		least = max(least, min(1, float64(len(order)-rank)*p[n]))
		adjusted[n] = least
	}
	return adjusted
}
