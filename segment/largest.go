package segment

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/train"
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
	l.decided, l.because = nil, nil
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
			if err := l.lookAtDrawn(ctx); err != nil {
				return "", err
			}
			g.drawn, g.one = l.drawn[class], l.one[class]
		}
		if label := l.config.Labels[class-1]; g.holds() {
			l.decided, l.because = append(l.decided, label), append(l.because, g.because())
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

// lookAtDrawn counts, once, in how many of the cases of training and validation each class was
// drawn, and in one component. Several ranks share the cases out.
func (l *learner) lookAtDrawn(ctx context.Context) error {
	if l.drawn != nil {
		return nil
	}
	cases := append([]string{}, l.train...)
	for _, c := range l.held {
		cases = append(cases, c.ID)
	}
	all, err := train.Divide(train.Unwatched(ctx), l.bench.Group, len(cases),
		func(ctx context.Context, i int) (map[uint16]int, error) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			c, err := l.store.Open(cases[i])
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
	l.drawn, l.one = make([]int, len(l.classes)+1), make([]int, len(l.classes)+1)
	for _, found := range all {
		for class, n := range found {
			if int(class) <= len(l.classes) {
				l.drawn[class]++
				if n == 1 {
					l.one[class]++
				}
			}
		}
	}
	return nil
}

// Largest implements [train.Postprocessor].
func (l *learner) Largest() (labels, because string) {
	return strings.Join(l.decided, ","), strings.Join(l.because, "; ")
}

// reasonOf is why predictions keep the largest component alone of a label, given what a checkpoint
// says of all such labels; "" where it says nothing of this one.
func reasonOf(largest, because, label string) string {
	reasons := strings.Split(because, "; ")
	at := slices.Index(strings.Split(largest, ","), label)
	if at < 0 || at >= len(reasons) {
		return ""
	}
	return reasons[at]
}

// DescribeLargest names the labels of which predictions keep the largest component alone, and says
// why, both as a checkpoint has them.
func (c Config) DescribeLargest(largest, because string) string {
	var all []string
	for label := range strings.SplitSeq(largest, ",") {
		name := c.DescribeLabels(label)
		if why := reasonOf(largest, because, label); why != "" {
			name += " (" + why + ")"
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}
