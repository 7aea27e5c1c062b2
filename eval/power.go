package eval

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"
)

// PowerOptions say what a comparison is to be planned for.
type PowerOptions struct {
	Power float64 // probability to find a difference that is there; 0.8 when 0
	Alpha float64 // probability of a false alarm, two-sided; 0.05 when 0
}

func (o PowerOptions) resolve() (PowerOptions, error) {
	o.Power = cmp.Or(o.Power, 0.8)
	o.Alpha = cmp.Or(o.Alpha, 0.05)
	switch {
	case !(o.Alpha > 0 && o.Alpha < 1):
		return o, fmt.Errorf("alpha is %v: want a probability between 0 and 1, such as 0.05", o.Alpha)
	case !(o.Power > o.Alpha && o.Power < 1):
		return o, fmt.Errorf("power is %v: want a probability between alpha (%v) and 1, such as 0.8", o.Power, o.Alpha)
	}
	return o, nil
}

// mostReplicates is where [Replicates] gives up: nobody trains so many networks.
const mostReplicates = 1_000_000

// Replicates is the number of pairs of runs that a two-sided paired t-test needs to find a mean
// difference with the given power, when single differences have the standard deviation sd. Both are
// in the same unit. It is at least 2.
func Replicates(difference, sd float64, o PowerOptions) (int, error) {
	o, err := o.resolve()
	switch {
	case err != nil:
		return 0, err
	case !(math.Abs(difference) > 0) || math.IsInf(difference, 0):
		return 0, fmt.Errorf("a difference of %v: want one that is not 0", difference)
	case !(sd > 0) || math.IsInf(sd, 0):
		return 0, fmt.Errorf("a standard deviation of %v: want one above 0", sd)
	}
	low, high := 1, 2 // too few, and perhaps enough
	for Power(high, difference, sd, o.Alpha) < o.Power {
		if low, high = high, 2*high; high > mostReplicates {
			return 0,
				fmt.Errorf("to find a difference of %v at a standard deviation of %v takes more than %d replicates",
					difference, sd, mostReplicates)
		}
	}
	for high-low > 1 {
		if middle := (low + high) / 2; Power(middle, difference, sd, o.Alpha) < o.Power {
			low = middle
		} else {
			high = middle
		}
	}
	return high, nil
}

// Detectable is the smallest mean difference that a two-sided paired t-test over n pairs finds with
// the given power, in the unit of sd: the inverse of [Replicates].
func Detectable(n int, sd float64, o PowerOptions) (float64, error) {
	o, err := o.resolve()
	switch {
	case err != nil:
		return 0, err
	case n < 2:
		return 0, errors.New("a paired t-test needs at least two pairs")
	case !(sd > 0) || math.IsInf(sd, 0):
		return 0, fmt.Errorf("a standard deviation of %v: want one above 0", sd)
	}
	low, high := 0.0, sd
	for Power(n, high, sd, o.Alpha) < o.Power {
		low, high = high, 2*high
	}
	for range 60 {
		if middle := (low + high) / 2; Power(n, middle, sd, o.Alpha) < o.Power {
			low = middle
		} else {
			high = middle
		}
	}
	return high, nil
}

// Power is the probability that a two-sided paired t-test over n pairs finds a mean difference at
// the level alpha: that |T| exceeds the quantile of Student's t, where T has the noncentral t
// distribution with n-1 degrees of freedom and noncentrality difference/sd * sqrt(n).
func Power(n int, difference, sd, alpha float64) float64 {
	if n < 2 {
		return 0
	}
	nu := float64(n - 1)
	critical := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: nu}.Quantile(1 - alpha/2)
	shift := math.Abs(difference) / sd * math.Sqrt(float64(n))
	// T = (Z + shift) / S with Z normal and S^2 = chi^2 / nu: given S, |T| stays below the critical
	// value where Z + shift lies between -critical S and critical S.
	missed := func(s float64) float64 {
		return (distuv.UnitNormal.CDF(critical*s-shift) - distuv.UnitNormal.CDF(-critical*s-shift)) * chiDensity(s, nu)
	}
	// S has mean near 1 and a standard deviation near sqrt(1 / (2 nu)).
	spread := 9 / math.Sqrt(2*nu)
	return 1 - quad.Fixed(missed, max(0, 1-spread), 1+1.2*spread, 400, quad.Legendre{}, 0)
}

// chiDensity is the density of sqrt(chi^2 / nu) at s.
func chiDensity(s, nu float64) float64 {
	if s <= 0 {
		if nu == 1 {
			return math.Sqrt(2 / math.Pi)
		}
		return 0
	}
	lgamma, _ := math.Lgamma(nu / 2)
	return math.Exp(math.Ln2 + nu/2*math.Log(nu/2) - lgamma + (nu-1)*math.Log(s) - nu*s*s/2)
}

// SDLimit is the one-sided upper limit of a standard deviation with the given confidence, from a
// sample of n values whose standard deviation is sd. A pilot of a few runs may well have been
// lucky: planning with its limit at 80 % guards against that (Browne, Statistics in Medicine 14,
// 1995).
func SDLimit(sd float64, n int, confidence float64) float64 {
	if n < 2 {
		return math.NaN()
	}
	nu := float64(n - 1)
	return sd * math.Sqrt(nu/distuv.ChiSquared{K: nu}.Quantile(1-confidence))
}

// Pilot is a small experiment that tells how large the next must be: how much the gain of an
// initialisation over the baseline scatters, and how many replicates find a difference.
type Pilot struct {
	Initialisation string
	Fraction       float64
	Shared         bool    // some seeds share a draw of the labelled cases
	Gain           Spread  // over the pairs of runs, or over folds and draws where seeds share one
	Limit          float64 // upper limit of the standard deviation, by [SDLimit] at 80 %
	// Replicates needed at the standard deviation that was seen, and at its limit.
	Replicates, ReplicatesAtLimit int
}

// Pilots tells for each initialisation and fraction how many replicates find a difference, in
// percent where the metric is a ratio. Each needs at least two pairs of runs, whose gains differ:
// others are left out, with the reason.
func Pilots(runs []Trial, difference float64, f FoldOptions, o PowerOptions) (all []Pilot, left []error, err error) {
	for _, fraction := range fractionsOf(runs) {
		of := slices.DeleteFunc(slices.Clone(runs), func(r Trial) bool { return r.Fraction != fraction })
		methods := initialisationsOf(of, f.baseline())
		if methods[0] != f.baseline() {
			continue
		}
		for _, name := range methods[1:] {
			p, err := pilot(of, name, difference, f, o)
			if err != nil {
				err = fmt.Errorf("%s on %g %% of the training cases: %w", name, 100*fraction, err)
			}
			if errors.Is(err, errNoSpread) {
				left = append(left, err)
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			p.Fraction = fraction
			all = append(all, p)
		}
	}
	switch {
	case len(all) > 0:
		return all, left, nil
	case len(left) > 0:
		return nil, nil, errors.Join(left...)
	}
	return nil, nil, fmt.Errorf("there is nothing to compare: no runs of %s and of another initialisation",
		f.baseline())
}

// errNoSpread says that pairs of runs do not tell how much they scatter.
var errNoSpread = errors.New("no standard deviation can be told")

func pilot(runs []Trial, name string, difference float64, f FoldOptions, o PowerOptions) (Pilot, error) {
	p := Pilot{Initialisation: name}
	pairs, err := Pairs(runs, name, f)
	if err != nil {
		return p, err
	}
	var gains []float64
	for _, pair := range pairs {
		gains = append(gains, pair.Mean())
		p.Shared = p.Shared || pair.Runs > 1
	}
	if p.Gain = Summarise(gains); p.Gain.N < 2 {
		return p, fmt.Errorf("%w: it needs at least two pairs of runs that share fold and seed with %s, "+
			"not %d", errNoSpread, f.baseline(), p.Gain.N)
	}
	if p.Gain.SD == 0 {
		return p, fmt.Errorf("%w: all %d pairs have the same difference to %s", errNoSpread, p.Gain.N, f.baseline())
	}
	p.Limit = SDLimit(p.Gain.SD, p.Gain.N, 0.8)
	if p.Replicates, err = Replicates(difference, p.Gain.SD, o); err != nil {
		return p, err
	}
	p.ReplicatesAtLimit, err = Replicates(difference, p.Limit, o)
	return p, err
}
