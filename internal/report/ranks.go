package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/numbers"
)

// Ranks is a critical-difference diagram (Demsar, Journal of Machine Learning Research 7, 2006):
// methods at their mean rank, the best at the left, and bars over those that cannot be told apart.
type Ranks struct {
	Title string
	eval.Ranking
	// Names are what the page compares, as of a [Chart]; when nil, the methods, of which the first
	// is the baseline.
	Names    []string
	Baseline string
}

func (r Ranks) caption() string { return r.Title }

// groups lists, as ranges of methods in the order of their ranks, the largest sets within which no
// two mean ranks are further apart than the critical difference. Single methods are none.
func (r Ranks) groups(order []int) [][2]int {
	var all [][2]int
	for first := range order {
		last := first
		for last+1 < len(order) && r.Mean[order[last+1]]-r.Mean[order[first]] <= r.Critical {
			last++
		}
		if last > first && (len(all) == 0 || last > all[len(all)-1][1]) {
			all = append(all, [2]int{first, last})
		}
	}
	return all
}

// The plot of a diagram of ranks, in pixels.
const (
	ranksWidth            = 720.0
	ranksLeft, ranksRight = 200.0, 520.0
	ranksTop, ranksRow    = 62.0, 20.0
)

func (r Ranks) svg() string {
	order := make([]int, len(r.Methods))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.Mean[a], r.Mean[b]) })
	groups := r.groups(order)
	baseline := r.Baseline
	if r.Names == nil {
		baseline = r.Methods[0]
	}
	of := colours(r.Names, r.Methods, baseline)
	x := axis{1, float64(max(len(order), 2)), ranksLeft, ranksRight}
	below := ranksTop + 14 + 9*float64(len(groups))
	half := (len(order) + 1) / 2
	s := newSVG(ranksWidth, below+ranksRow*float64(half)+22, fmt.Sprintf("%s: %s", r.Title, r.words()))

	s.path("axis", fmt.Sprintf("M%.1f %.1fH%.1f", x.start, ranksTop, x.end), "")
	for t := 1; t <= len(order); t++ {
		s.path("axis", fmt.Sprintf("M%.1f %.1fv-6", x.at(float64(t)), ranksTop), "")
		s.text(x.at(float64(t)), ranksTop-11, atMiddle, fmt.Sprint(t))
	}
	s.text(x.start-12, ranksTop+4, toEnd, "better")
	s.text(x.end+12, ranksTop+4, fromStart, "worse")
	s.criticalDifference(x, r.Critical)

	for n, m := range order { // the better half is named on the left, the worse on the right
		at, y, side, anchor := x.at(r.Mean[m]), below+ranksRow*float64(n)+8, x.start-16, toEnd
		if n >= half {
			y, side, anchor = below+ranksRow*float64(len(order)-1-n)+8, x.end+16, fromStart
		}
		ink := inkOf(of[r.Methods[m]])
		s.ink(ink, fmt.Sprintf("M%.1f %.1fV%.1fH%.1f", at, ranksTop, y, side), 1.4, 1)
		s.dot(ink, at, ranksTop, 3.5, 1, fmt.Sprintf("%s: mean rank %.2f", r.Methods[m], r.Mean[m]))
		name := fmt.Sprintf("%s (%.2f)", shorten(r.Methods[m], 128), r.Mean[m])
		if anchor == fromStart {
			side += 5
		} else {
			side -= 5
		}
		s.textClass(side, y+4, anchor, "strong", name)
	}
	for n, g := range groups {
		y := ranksTop + 10 + 9*float64(n)
		s.ink("open", fmt.Sprintf("M%.1f %.1fH%.1f", x.at(r.Mean[order[g[0]]])-4, y, x.at(r.Mean[order[g[1]]])+4), 4.5,
			0.8)
	}
	s.text(ranksWidth/2, s.height-4, atMiddle, r.words())
	return s.end()
}

// criticalDifference draws the length that two mean ranks must be apart, as far as the axis has it.
func (s *svg) criticalDifference(x axis, critical float64) {
	end := x.at(min(1+critical, x.high))
	s.path("axis", fmt.Sprintf("M%.1f 20v8m0 -4H%.1f", x.start, end), ` stroke-width="1.5"`)
	label := fmt.Sprintf("critical difference %.2f", critical)
	if 1+critical <= x.high {
		s.path("axis", fmt.Sprintf("M%.1f 20v8", end), ` stroke-width="1.5"`)
	} else {
		label += ": longer than the axis"
	}
	s.text(x.start, 14, fromStart, label)
}

// words is the diagram in a sentence.
func (r Ranks) words() string {
	return fmt.Sprintf("Mean ranks over %s; Friedman's test p %s; bars join what differs by less "+
		"than Nemenyi's critical difference at 0.05.", numbers.Count(r.Blocks, "replicate"), probability(r.Test.P))
}
