// Package voc scores answers about photographs by the rules of the Pascal VOC challenge: which of
// several classes are on a photograph, and where.
//
// Start at [AveragePrecision] for classification and at [Detections.AveragePrecision] for
// detection; [Suppress] is the non-maximum suppression that comes before. The rules are those of
// the VOC2007 and VOC2010 development kits (VOCevalcls.m, VOCevaldet.m, VOCap.m), beside
// scikit-learn's average precision. Files are not read here: that is puzzle2d/photos's.
package voc

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A Rule says how precisions become one number.
type Rule string

// The rules.
const (
	// ElevenPoints is that of VOC2007 to VOC2009: the mean, over recalls of 0, 0.1, ..., 1, of the
	// best precision at that recall or more.
	ElevenPoints Rule = "11 points"
	// Area is that of VOC2010 and later: the area below the best precision at each recall or more.
	Area Rule = "area"
	// Steps is scikit-learn's average_precision_score: the mean precision at the positives, without
	// looking ahead for a better one. Samples of the same score are taken together.
	Steps Rule = "steps"
)

// A Truth says whether a class is on a photograph.
type Truth int8

const (
	Absent  Truth = -1
	Ignored Truth = 0 // as VOC does with photographs on which the class is difficult alone
	Present Truth = 1
)

// AveragePrecision scores one class: a confidence and the truth for each photograph. Photographs of
// the same confidence are ranked in the order in which they come. It is NaN where the class is on
// no photograph.
func AveragePrecision(confidences []float64, truths []Truth, rule Rule) (float64, error) {
	if len(confidences) != len(truths) {
		return 0, fmt.Errorf("average precision of %d confidences for %d photographs", len(confidences), len(truths))
	}
	positives := 0
	var ranked []answer
	for n, truth := range truths {
		if math.IsNaN(confidences[n]) {
			return 0, fmt.Errorf("the confidence of photograph %d is not a number", n)
		}
		if truth == Present {
			positives++
		}
		if truth != Ignored {
			ranked = append(ranked, answer{confidences[n], truth == Present})
		}
	}
	return curveOf(ranked, positives).average(rule)
}

// answer is one of those that are ranked.
type answer struct {
	confidence float64
	right      bool
}

// curve is precision and recall down the ranking.
type curve struct {
	positives         int
	confidences       []float64
	precision, recall []float64
}

func curveOf(answers []answer, positives int) curve {
	answers = slices.Clone(answers)
	slices.SortStableFunc(answers, func(a, b answer) int { return cmp.Compare(b.confidence, a.confidence) })
	c := curve{positives: positives}
	right := 0
	for n, a := range answers {
		if a.right {
			right++
		}
		c.confidences = append(c.confidences, a.confidence)
		c.precision = append(c.precision, float64(right)/float64(n+1))
		c.recall = append(c.recall, float64(right)/float64(positives))
	}
	return c
}

func (c curve) average(rule Rule) (float64, error) {
	if c.positives == 0 {
		return math.NaN(), nil
	}
	switch rule {
	case ElevenPoints:
		return c.elevenPoints(), nil
	case Area:
		return c.area(), nil
	case Steps:
		return c.steps(), nil
	}
	return 0, fmt.Errorf("unknown rule %q of average precision: the valid ones are %q, %q and %q", rule, ElevenPoints,
		Area, Steps)
}

// elevenPoints is the loop of VOCevaldet.m (2007).
func (c curve) elevenPoints() (average float64) {
	for n := range 11 {
		least := float64(n) * 0.1 // as the kit's 0:0.1:1 has it: 0.3 is a little more than 3/10
		best := 0.0
		for k, recall := range c.recall {
			if recall >= least {
				best = max(best, c.precision[k])
			}
		}
		average += best / 11
	}
	return average
}

// area is VOCap.m (2010).
func (c curve) area() (area float64) {
	best := 0.0
	for k := len(c.recall) - 1; k >= 0; k-- {
		best = max(best, c.precision[k])
		before := 0.0
		if k > 0 {
			before = c.recall[k-1]
		}
		area += (c.recall[k] - before) * best
	}
	return area
}

// steps adds up precision times the recall that each confidence brings.
func (c curve) steps() (sum float64) {
	before := 0.0
	for k, recall := range c.recall {
		if k+1 < len(c.recall) && c.confidences[k+1] == c.confidences[k] {
			continue
		}
		sum += (recall - before) * c.precision[k]
		before = recall
	}
	return sum
}

// Mean is that of the classes that are there: those whose average precision is a number. It is NaN
// where there is none.
func Mean(averages []float64) float64 {
	sum, n := 0.0, 0
	for _, a := range averages {
		if !math.IsNaN(a) {
			sum, n = sum+a, n+1
		}
	}
	return sum / float64(n)
}
