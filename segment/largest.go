package segment

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: of which labels predictions keep the largest connected component alone, where nobody
// says it. What is deleted may be a lesion, so that the rule asks for two things. People drew the
// label in one component in nearly all cases: in 95 % of 20 or more. Of a structure that is in
// several parts in every fifth patient or more, 20 drawn cases show two such with a probability of
// 93 %, and the rule does not hold. And on 5 validation cases or more the mean Dice coefficient
// rises by half a point or more: less does not outweigh a part of the structure that is lost in a
// single case of a hundred, which easily costs 50 points there.
const (
	fewestDrawn     = 20
	fewestValidated = 5
	leastGain       = 0.005
	mostSeveralOf   = 20 // one of so many cases may have several components
)

// A gain is what the largest component alone does to the mean Dice coefficient of a class.
type gain struct {
	cases int // validation cases in which the class is there
	mean  float64
	drawn int // cases, of training and validation, in which people drew the class
	one   int // those of them in which it is one component
}

// promising says whether the validation cases speak for it.
func (g gain) promising() bool { return g.cases >= fewestValidated && g.mean >= leastGain }

// holds says whether the rule holds.
func (g gain) holds() bool {
	return g.promising() && g.drawn >= fewestDrawn && mostSeveralOf*(g.drawn-g.one) <= g.drawn
}

func (g gain) points() string {
	return fmt.Sprintf("%+.2f points of DSC on %s", 100*g.mean, numbers.Count(g.cases, "validation case"))
}

// because are the numbers behind a decision for it.
func (g gain) because() string {
	return fmt.Sprintf("%s, drawn in one component in %d of %s", g.points(), g.one, numbers.Count(g.drawn, "case"))
}

// against says what of the rule does not hold.
func (g gain) against() string {
	switch {
	case g.cases < fewestValidated:
		return fmt.Sprintf("%s, and fewer than %d say too little", g.points(), fewestValidated)
	case g.drawn < fewestDrawn:
		return fmt.Sprintf("%s, but drawn in %s, and fewer than %d say too little", g.points(),
			numbers.Count(g.drawn, "case"), fewestDrawn)
	}
	return g.because()
}

// decide chooses the labels of which predictions keep the largest component, given the mean Dice
// coefficients of all components and of the largest alone, and in how many validation cases each
// class is there: others, in which it was only predicted, decide nothing. What is said of others,
// which that would have raised, too, is for a person.
func (l *learner) decide(ctx context.Context, whole, largest diceMeans, there []int) (refused string, err error) {
	l.decided = nil
	if l.config.MeasureOnly {
		return "", nil
	}
	var against []string
	for class := 1; class <= len(l.classes); class++ {
		g := gain{cases: there[class], mean: largest.mean(class) - whole.mean(class)}
		if !(g.mean >= leastGain) { // or not known
			continue
		}
		if g.promising() {
			if g.drawn, g.one, err = l.drawnInOne(ctx, class); err != nil {
				return "", err
			}
		}
		if label := l.config.Labels[class-1]; g.holds() {
			l.decided = append(l.decided, checkpoint.Kept{Label: label, Because: g.because()})
		} else {
			against = append(against, fmt.Sprintf("of %s the largest alone gives %s", l.config.DescribeLabels(label),
				g.against()))
		}
	}
	if against == nil {
		return "", nil
	}
	return "predictions keep all components: " + strings.Join(against, "; "), nil
}

// keeps says whether predictions keep the largest component alone of a class, from 0.
func (l *learner) keeps(class int) bool {
	return slices.ContainsFunc(l.decided,
		func(k checkpoint.Kept) bool { return k.Label == l.config.Labels[class] })
}

// drawnInOne counts the cases of training and validation in which a class was drawn, and in one
// component. Where the records of cases say that they are too few, no labels are read.
func (l *learner) drawnInOne(ctx context.Context, class int) (drawn, one int, err error) {
	l.countDrawn()
	if l.drawn[class] < fewestDrawn {
		return l.drawn[class], 0, nil
	}
	if l.one == nil {
		if err := l.countComponents(ctx); err != nil {
			return 0, 0, err
		}
	}
	return l.drawn[class], l.one[class], nil
}

// countDrawn counts, once, in how many cases each class was drawn, as their records say.
func (l *learner) countDrawn() {
	if l.drawn != nil {
		return
	}
	l.drawn = make([]int, len(l.classes)+1)
	for _, r := range l.shown() {
		nothing := incomparable(l.classes, r)
		for n, labels := range l.classes {
			if !slices.Contains(nothing, n+1) &&
				slices.ContainsFunc(labels, func(label uint16) bool { return r.LabelCounts[label] > 0 }) {
				l.drawn[n+1]++
			}
		}
	}
}

// shown are the records of the cases of training and validation.
func (l *learner) shown() (all []prepared.Record) {
	for _, id := range l.train {
		if r, found := l.store.Record(id); found {
			all = append(all, r)
		}
	}
	for _, c := range l.held {
		all = append(all, c.Record)
	}
	return all
}

// componentBytes is what counting the components of a drawn label map takes for each voxel: two
// bytes of the label, and 16 for each run of voxels, of which labels that people drew have fewer
// than one for four.
const componentBytes = 2 + 16/4

// drawnBytes is the memory that it takes to count the components of the largest case; 0 where no
// validation can ask for that.
func (l *learner) drawnBytes() (bytes int64) {
	if l.config.MeasureOnly || len(l.held) < fewestValidated {
		return 0
	}
	if l.countDrawn(); slices.Max(l.drawn) < fewestDrawn {
		return 0
	}
	for _, r := range l.shown() {
		bytes = max(bytes, componentBytes*int64(r.Grid.Len()))
	}
	return bytes
}

// countComponents counts, once, in how many of the cases of training and validation each class is
// one component. Several ranks share the cases out.
func (l *learner) countComponents(ctx context.Context) error {
	cases := l.shown()
	if l.note != nil {
		l.note(fmt.Sprintf("the labels of all %s are looked at, once: which structures were drawn in one component",
			numbers.Count(len(cases), "case")))
	}
	all, err := train.Divide(ctx, l.bench.Group, len(cases),
		func(ctx context.Context, i int) (map[uint16]int, error) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			c, err := l.store.Open(cases[i].ID)
			if err != nil {
				return nil, err
			}
			reference, err := c.LabelMap()
			if err != nil {
				return nil, err
			}
			for at, label := range reference.Labels {
				reference.Labels[at] = l.table[label]
			}
			found := quality.CountComponents(reference.Labels, c.Shape)
			for _, class := range incomparable(l.classes, c.Record) {
				delete(found, uint16(class))
			}
			return found, nil
		})
	if err != nil {
		return err
	}
	l.one = make([]int, len(l.classes)+1)
	for _, found := range all {
		for class, n := range found {
			if int(class) <= len(l.classes) && n == 1 {
				l.one[class]++
			}
		}
	}
	return nil
}

// Largest implements [train.Postprocessor].
func (l *learner) Largest() []checkpoint.Kept { return l.decided }

// DescribeLargest names the labels whose largest component alone is kept in predictions, as a
// checkpoint says, and why; "" where there is none.
func (c Config) DescribeLargest(path string) (string, error) {
	d, err := checkpoint.Read(path)
	return c.describeKept(d.Kept()), err
}

func (c Config) describeKept(labels []checkpoint.Kept) string {
	var all []string
	for _, k := range labels {
		name := c.DescribeLabels(k.Label)
		if k.Because != "" {
			name += " (" + k.Because + ")"
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}
