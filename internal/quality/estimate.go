package quality

import (
	"cmp"
	"math"
	"slices"
)

// fewestCalibrated is how many cases of known DSC an estimate takes: the interval leaves out a
// tenth of them.
const fewestCalibrated = 10

// An Estimate is the DSC that label maps like this one have had, as shares of 1, and where nine
// tenths of such cases lie.
type Estimate struct{ DSC, Low, High float64 }

// An Estimator tells DSC from what is seen of a label map, by cases in which both are known. nil
// tells nothing.
type Estimator struct{ of map[string]*steps }

// seen is the number that DSC rises with: the agreement of networks or of mirror images where that
// is known, and the volume on the scale of the set otherwise, an unusual one being a bad sign
// whatever its direction.
func seen(c Case, one Structure, s *Set) float64 {
	if x, known := c.Agreement[one.Label]; known {
		return x
	}
	return -math.Abs(s.VolumeZ(one))
}

// NewEstimator learns from cases whose DSC is known, a curve for each structure that enough of them
// have; nil where none has.
func NewEstimator(cases []Case, s *Set) *Estimator {
	e := &Estimator{of: map[string]*steps{}}
	type pairs struct{ x, y []float64 }
	all := map[string]*pairs{}
	for _, c := range cases {
		for _, one := range c.Structures {
			dsc, known := c.DSC[one.Label]
			if !known || math.IsNaN(dsc) {
				continue
			}
			if all[one.Key()] == nil {
				all[one.Key()] = &pairs{}
			}
			p := all[one.Key()]
			p.x, p.y = append(p.x, seen(c, one, s)), append(p.y, dsc)
		}
	}
	for key, p := range all {
		if len(p.x) < fewestCalibrated {
			continue
		}
		curve := isotonic(p.x, p.y)
		for n := range p.x { // each as if it had not been there
			x, y := slices.Delete(slices.Clone(p.x), n, n+1), slices.Delete(slices.Clone(p.y), n, n+1)
			left := isotonic(x, y)
			curve.errors = append(curve.errors, p.y[n]-left.at(p.x[n]))
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
func (e *Estimator) Of(c Case, one Structure, s *Set) (Estimate, bool) {
	if e == nil || e.of[one.Key()] == nil {
		return Estimate{}, false
	}
	curve := e.of[one.Key()]
	dsc := curve.at(seen(c, one, s))
	clip := func(x float64) float64 { return min(max(x, 0), 1) }
	n := len(curve.errors)
	out := (n + 1) / 20 // at each end
	return Estimate{clip(dsc), clip(dsc + curve.errors[out]), clip(dsc + curve.errors[n-1-out])}, true
}

// steps is a function that never falls: y[n] at x[n], ascending, linear between.
type steps struct{ x, y, errors []float64 }

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
