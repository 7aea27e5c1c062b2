package quality

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/safetext"
)

const (
	// fewestCalibrated is how many cases of known DSC an estimate takes.
	fewestCalibrated = 10
	// fewestBounded is how many its interval takes: of fewer, a new case lies beyond the smallest
	// or the largest error more often than in a tenth of the cases.
	fewestBounded = 19
)

// An Estimate is the DSC that label maps like this one have had, as shares of 1, and where about
// nine tenths of such cases lie. Low and High are NaN where too few cases tell that.
type Estimate struct{ DSC, Low, High float64 }

// An Estimator tells DSC from what is seen of a label map, by cases in which both are known. nil
// tells nothing.
type Estimator struct {
	set *Set // those cases
	of  map[string]*steps
}

// seen is the number that DSC rises with: the agreement of networks or of mirror images, or how
// near the volume is to what is usual among the cases of known DSC. known is false where it is the
// agreement, and nobody asked for that.
func (e *Estimator) seen(c Case, one Structure, agreement bool) (x float64, known bool) {
	if agreement {
		x, known = c.Agreement[one.Label]
		return x, known
	}
	return -math.Abs(e.set.VolumeZ(one)), true
}

// NewEstimator learns from cases whose DSC is known, a curve for each structure that enough of them
// have: by agreement, where all of these know it. It is nil where no structure has enough.
func NewEstimator(cases []Case) *Estimator {
	e := &Estimator{set: NewSet(cases), of: map[string]*steps{}}
	for key := range e.set.structures {
		agreement := true
		var x, y []float64
		each := func(visit func(c Case, one Structure, dsc float64)) {
			for _, c := range cases {
				for _, one := range c.Structures {
					if dsc, known := c.DSC[one.Label]; known && one.Key() == key && !math.IsNaN(dsc) {
						visit(c, one, dsc)
					}
				}
			}
		}
		each(func(c Case, one Structure, _ float64) {
			_, known := c.Agreement[one.Label]
			agreement = agreement && known
		})
		each(func(c Case, one Structure, dsc float64) {
			number, _ := e.seen(c, one, agreement)
			x, y = append(x, number), append(y, dsc)
		})
		if len(x) < fewestCalibrated {
			continue
		}
		curve := isotonic(x, y)
		curve.agreement = agreement
		for n := range x { // each as if it had not been there
			left := isotonic(slices.Delete(slices.Clone(x), n, n+1), slices.Delete(slices.Clone(y), n, n+1))
			curve.errors = append(curve.errors, y[n]-left.at(x[n]))
		}
		slices.Sort(curve.errors)
		e.of[key] = curve
	}
	if len(e.of) == 0 {
		return nil
	}
	return e
}

// Of estimates the DSC of a structure; false where nothing is known.
func (e *Estimator) Of(c Case, one Structure) (Estimate, bool) {
	if e == nil || e.of[one.Key()] == nil {
		return Estimate{}, false
	}
	curve := e.of[one.Key()]
	x, known := e.seen(c, one, curve.agreement)
	if !known {
		return Estimate{}, false
	}
	dsc := curve.at(x)
	clip := func(x float64) float64 { return min(max(x, 0), 1) }
	low, high := interval(curve.errors)
	return Estimate{clip(dsc), clip(dsc + low), clip(dsc + high)}, true
}

// ByAgreement says whether the DSC of a structure is told by agreement, without which there is no
// estimate of it.
func (e *Estimator) ByAgreement() bool {
	if e == nil {
		return false
	}
	for _, curve := range e.of {
		if curve.agreement {
			return true
		}
	}
	return false
}

// interval is where the error of a new case lies with a probability of about nine tenths, by n
// errors in ascending order. Were they of one curve that has seen none of the cases, the new one
// would be as likely in any of the n+1 gaps, so that the rank of either end, counted from 1, is the
// twentieth part of n+1, rounded down. They are of curves that each leave one case out (the
// jackknife), whose errors are nearly those. Where the rank is 0 there is no such interval: NaN.
func interval(errors []float64) (low, high float64) {
	n := len(errors)
	if n < fewestBounded {
		return math.NaN(), math.NaN()
	}
	rank := (n + 1) / 20
	return errors[rank-1], errors[n-rank]
}

// Note says for a person of which structures the DSC is estimated without an interval; "" where
// there are none.
func (e *Estimator) Note() string {
	if e == nil {
		return ""
	}
	var short []string
	for _, key := range slices.Sorted(maps.Keys(e.of)) {
		if n := len(e.of[key].errors); n < fewestBounded {
			short = append(short, fmt.Sprintf("%s (%d)", safetext.Text(key), n))
		}
	}
	if len(short) == 0 {
		return ""
	}
	return fmt.Sprintf("the estimated DSC has no interval, dsc_low and dsc_high, where fewer than %d cases with a "+
		"known DSC show the structure: %s", fewestBounded, safetext.List(short))
}

// steps is a function that never falls: y[n] at x[n], ascending, linear between.
type steps struct {
	x, y      []float64
	agreement bool      // x is one
	errors    []float64 // of cases that were left out, ascending
}

// isotonic is the function that never falls with the least squared error, by pooling adjacent
// violators; points of one x are averaged first.
func isotonic(x, y []float64) *steps {
	order := make([]int, len(x))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	type block struct {
		x           []float64
		sum, weight float64
	}
	var blocks []block
	for n, at := range order {
		if n > 0 && x[at] == x[order[n-1]] {
			last := &blocks[len(blocks)-1]
			last.sum, last.weight = last.sum+y[at], last.weight+1
			continue
		}
		blocks = append(blocks, block{[]float64{x[at]}, y[at], 1})
	}
	var pooled []block
	for _, b := range blocks {
		pooled = append(pooled, b)
		for n := len(pooled) - 1; n > 0 && pooled[n-1].sum*pooled[n].weight >= pooled[n].sum*pooled[n-1].weight; n-- {
			a, b := pooled[n-1], pooled[n]
			pooled = append(pooled[:n-1], block{append(a.x, b.x...), a.sum + b.sum, a.weight + b.weight})
		}
	}
	s := &steps{}
	for _, b := range pooled {
		for _, at := range b.x {
			s.x, s.y = append(s.x, at), append(s.y, b.sum/b.weight)
		}
	}
	return s
}

// at is the value at x: that of the nearest end beyond the ends.
func (s *steps) at(x float64) float64 {
	n, found := slices.BinarySearch(s.x, x)
	switch {
	case found:
		return s.y[n]
	case n == 0:
		return s.y[0]
	case n == len(s.x):
		return s.y[n-1]
	}
	share := (x - s.x[n-1]) / (s.x[n] - s.x[n-1])
	return s.y[n-1] + share*(s.y[n]-s.y[n-1])
}
