package eval

import (
	"math"
	"slices"
)

// A LearningCurve is how a metric grew over the steps of one run.
type LearningCurve struct {
	Initialisation string
	Fraction       float64 // of the training cases, 0 to 1
	Fold           int
	Seed           uint64
	Draw           uint64    // of the labelled cases: see [Trial]
	Steps, Values  []float64 // as many of each, steps ascending
}

// Reached is the share of the baseline's last value that [CompareCurves] counts the steps to.
const Reached = 0.95

// A CurveRow sums up the learning curves of one initialisation on one fraction.
type CurveRow struct {
	Initialisation string
	Fraction       float64
	Runs           int
	Shared         bool   // some runs share a draw of the labelled cases, and are averaged first
	Last, Area     Spread // over the runs: the last value, and the mean height of the curve
	// Steps to 95 % of the last value of the baseline's run of the same fold and seed, over the
	// runs; its Infinite are those that never get there.
	Steps Spread
	// Gain in mean height over the baseline, over pairs of runs of the same fold and seed, with its
	// interval and the paired t-test; NaN for the baseline itself. Both heights of a pair are those
	// of the steps that both curves have: training longer makes no curve higher.
	Gain     Spread
	Interval Interval
	Test     Test
	Holm     float64 // P adjusted over the initialisations of the fraction
}

// CompareCurves compares the learning curves of an experiment: a row for each fraction and
// initialisation, the baseline's first. Repetitions are runs, as in [Folds]: what is taken over
// runs or pairs of them is averaged first over seeds that share a draw.
func CompareCurves(curves []LearningCurve, baseline string) []CurveRow {
	runs := make([]Trial, len(curves))
	for n, c := range curves {
		runs[n] = Trial{Initialisation: c.Initialisation, Fraction: c.Fraction, Fold: c.Fold, Seed: c.Seed,
			Draw: c.Draw}
	}
	var rows []CurveRow
	for _, fraction := range fractionsOf(runs) {
		of := slices.DeleteFunc(slices.Clone(curves),
			func(c LearningCurve) bool { return c.Fraction != fraction || len(c.Values) == 0 })
		first := len(rows)
		for _, initialisation := range initialisationsOf(runs, baseline) {
			own := slices.DeleteFunc(slices.Clone(of),
				func(c LearningCurve) bool { return c.Initialisation != initialisation })
			if len(own) > 0 {
				rows = append(rows, curveRow(own, of, baseline, unitsOf(runs)))
			}
		}
		p := make([]float64, len(rows)-first)
		for n := range p {
			p[n] = rows[first+n].Test.P
		}
		for n, adjusted := range Holm(p) {
			rows[first+n].Holm = adjusted
		}
	}
	return rows
}

// curveRow sums up the curves of one initialisation, among all of a fraction.
func curveRow(own, all []LearningCurve, baseline string, u units) CurveRow {
	r := CurveRow{Initialisation: own[0].Initialisation, Fraction: own[0].Fraction, Runs: len(own)}
	var keys, paired []runKey
	var last, area, steps, gains []float64
	for _, c := range own {
		key := runKey{c.Fold, c.Fraction, c.Seed}
		keys = append(keys, key)
		last = append(last, c.Values[len(c.Values)-1])
		area = append(area, AreaUnderCurve(c.Steps, c.Values))
		at := slices.IndexFunc(all, func(o LearningCurve) bool {
			return o.Initialisation == baseline && o.Fold == c.Fold && o.Seed == c.Seed
		})
		if at < 0 {
			continue
		}
		base := all[at]
		paired = append(paired, key)
		steps = append(steps, StepsTo(c.Steps, c.Values, Reached*base.Values[len(base.Values)-1]))
		if c.Initialisation != baseline {
			from := max(c.Steps[0], base.Steps[0])
			to := min(c.Steps[len(c.Steps)-1], base.Steps[len(base.Steps)-1])
			gains = append(gains, c.height(from, to)-base.height(from, to))
		}
	}
	r.Shared = len(u.averageOf(keys, last)) < len(keys)
	r.Last, r.Area = Summarise(u.averageOf(keys, last)), Summarise(u.averageOf(keys, area))
	r.Steps = Summarise(u.averageOf(paired, steps))
	gains = u.averageOf(paired[:len(gains)], gains)
	r.Gain = Summarise(gains)
	r.Interval, r.Test = MeanTest(gains)
	return r
}

// height is the mean height of the part of a curve between two steps that it has, interpolated
// linearly where there is no point.
func (c LearningCurve) height(from, to float64) float64 {
	if !(from < to) {
		return math.NaN()
	}
	steps, values := []float64{from}, []float64{c.at(from)}
	for k, step := range c.Steps {
		if from < step && step < to {
			steps, values = append(steps, step), append(values, c.Values[k])
		}
	}
	return AreaUnderCurve(append(steps, to), append(values, c.at(to)))
}

// at is the value of a curve at a step between its first and its last.
func (c LearningCurve) at(step float64) float64 {
	k, found := slices.BinarySearch(c.Steps, step)
	if found {
		return c.Values[k]
	}
	share := (step - c.Steps[k-1]) / (c.Steps[k] - c.Steps[k-1])
	return c.Values[k-1] + share*(c.Values[k]-c.Values[k-1])
}

// MeanCurve is the mean over runs at each step that all of them have.
func MeanCurve(curves []LearningCurve) (steps, values []float64) {
	if len(curves) == 0 {
		return nil, nil
	}
	for k, step := range curves[0].Steps {
		sum := 0.0
		for _, c := range curves {
			if k >= len(c.Steps) || c.Steps[k] != step {
				sum = math.NaN()
				break
			}
			sum += c.Values[k]
		}
		if !math.IsNaN(sum) {
			steps, values = append(steps, step), append(values, sum/float64(len(curves)))
		}
	}
	return steps, values
}
