package eval

import (
	"cmp"
	"fmt"
	"slices"
)

// Metric is one number of a [Score].
type Metric struct {
	Key    string // lower case, with the unit where there is one: dsc, hd95_mm
	Ratio  bool   // between 0 and 1
	Better int    // 1: more is better; -1: less is better; 0: neither
	of     func(Score) float64
}

// Of takes the metric from a score.
func (m Metric) Of(s Score) float64 { return m.of(s) }

// Metrics are the numbers of a Score, in the order of the tables.
var Metrics = []Metric{
	{"dsc", true, 1, func(s Score) float64 { return s.DSC }},
	{"hd95_mm", false, -1, func(s Score) float64 { return s.HD95 }},
	{"hd_mm", false, -1, func(s Score) float64 { return s.HD }},
	{"assd_mm", false, -1, func(s Score) float64 { return s.ASSD }},
	{"nsd", true, 1, func(s Score) float64 { return s.NSD }},
	{"predicted_ml", false, 0, func(s Score) float64 { return s.Predicted }},
	{"reference_ml", false, 0, func(s Score) float64 { return s.Reference }},
	{"difference_ml", false, 0, Score.VolumeDifference},
}

// Register adds a metric that follows from the others of a score to [Metrics], in an init function:
// summaries, comparisons and statistics then have it. Ratio says that it is between 0 and 1; better
// is 1 where more is better, -1 where less is, and 0 where neither is. It panics if the key is
// taken.
func Register(key string, ratio bool, better int, of func(Score) float64) {
	if _, err := MetricNamed(key); err == nil {
		panic(fmt.Sprintf("eval: there are two metrics %q", key))
	}
	Metrics = append(Metrics, Metric{key, ratio, better, of})
}

// MetricNamed finds a metric by its key, with or without the unit.
func MetricNamed(key string) (Metric, error) {
	for _, m := range Metrics {
		if m.Key == key || m.Key == key+"_mm" || m.Key == key+"_ml" {
			return m, nil
		}
	}
	return Metric{}, fmt.Errorf("no metric %q: there are dsc, hd95, hd, assd, nsd, predicted, reference and difference",
		key)
}

// LabelSummary sums up the scores of one label over the cases.
type LabelSummary struct {
	Label uint16 // 0: all labels together
	Name  string // of the label, where known
	// In how many cases the reference tells of the label. The others are in no number but Undrawn
	// and Emptied.
	Cases int
	// How often only the reference showed the label, and how often only the prediction did.
	Missed, Invented int
	// How often neither did: there was nothing to measure.
	Absent int
	// How often nobody drew the label in the reference: there is nothing to measure it by.
	Undrawn int
	// How often it was drawn there, and other structures have all its voxels: likewise.
	Emptied int
	// Unlearnt is in how many cases the label is that no training case of the network shows: they
	// are in no other number.
	Unlearnt int
	Metrics  []Spread // in the order of [Metrics]
}

// ByLabel sums up the scores of each label, in ascending order, and, where there are several
// labels, all scores together.
func ByLabel(scores []Score) []LabelSummary {
	var all []LabelSummary
	labels := Labels(scores)
	some := map[uint16][]Score{}
	for _, s := range scores {
		some[s.Label] = append(some[s.Label], s)
	}
	for _, l := range labels {
		all = append(all, summarise(l, some[l][0].Name, some[l]))
	}
	if len(labels) > 1 {
		all = append(all, summarise(0, "", scores))
	}
	return all
}

func summarise(label uint16, name string, scores []Score) LabelSummary {
	s := LabelSummary{Label: label, Name: name}
	cases := map[string]bool{}
	var drawn []Score
	for _, score := range scores {
		outcome := score.Outcome()
		switch outcome {
		case Undrawn:
			s.Undrawn++
			continue
		case Emptied:
			s.Emptied++
			continue
		case Unlearnt:
			s.Unlearnt++
			continue
		}
		cases[score.Case] = true
		drawn = append(drawn, score)
		switch outcome {
		case Missed:
			s.Missed++
		case Invented:
			s.Invented++
		case Absent:
			s.Absent++
		}
	}
	s.Cases = len(cases)
	for _, m := range Metrics {
		s.Metrics = append(s.Metrics, Summarise(values(drawn, m)))
	}
	return s
}

// Labels lists the labels that were scored, in ascending order.
func Labels(scores []Score) []uint16 {
	var labels []uint16
	for _, s := range scores {
		labels = append(labels, s.Label)
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

func values(scores []Score, m Metric) []float64 {
	all := make([]float64, len(scores))
	for n, s := range scores {
		all[n] = m.Of(s)
	}
	return all
}

// Sort puts scores in the order of cases, then labels.
func Sort(scores []Score) {
	slices.SortStableFunc(scores,
		func(a, b Score) int { return cmp.Or(cmp.Compare(a.Case, b.Case), cmp.Compare(a.Label, b.Label)) })
}
