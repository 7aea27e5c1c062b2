package experiment

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/table"
)

// repeated says which runs of a plan are others once more, by what they learn from: two shares that
// round to the same cases, encoders that no seed starts from and draws that no seed has; and which
// have no learning curve.
func (p Plan) repeated(c Cases) (doubts []string) {
	for n, fraction := range p.Fractions {
		for _, other := range p.Fractions[n+1:] {
			if where := p.alike(c, fraction, other); len(where) > 0 {
				doubts = append(doubts, fmt.Sprintf("WARNING: %s and %s of the training cases are the same ones in "+
					"%s: runs on both are the same, and say nothing of more labels. Leave one out of fractions",
					table.Percent(fraction), table.Percent(other), table.List(where, 10)))
			}
		}
	}
	pretrains := slices.ContainsFunc(p.Inits, Initialisation.pretrains)
	if made := len(p.encoderNumbers()); pretrains && made < p.Encoders {
		doubts = append(doubts, fmt.Sprintf("WARNING: encoders is %d, and runs start from %d of them: one of seed s "+
			"starts from encoder s modulo %d, and these seeds leave others out. Take seeds that follow one another",
			p.Encoders, made, p.Encoders))
	}
	var drawn []uint64
	for _, seed := range p.Seeds {
		if d := p.draw(seed); !slices.Contains(drawn, d) {
			drawn = append(drawn, d)
		}
	}
	if len(drawn) < min(p.Draws, len(p.Seeds)) {
		doubts = append(doubts, fmt.Sprintf("WARNING: draws is %d, and runs have %d of them: seed s has draw s modulo "+
			"%d. Take seeds that follow one another", p.Draws, len(drawn), p.Draws))
	}
	for _, i := range p.Inits {
		if p.Curve > 0 && i.networks() > 1 {
			doubts = append(doubts, fmt.Sprintf("%s has no learning curve: one is of a single network, and its runs "+
				"average %d", i.Name, i.networks()))
		}
	}
	return doubts
}

// alike are the folds in which two shares are the same cases for each seed.
func (p Plan) alike(c Cases, fraction, other float64) (folds []string) {
	for _, f := range c.Folds {
		if !slices.ContainsFunc(p.Seeds, func(seed uint64) bool {
			return !slices.Equal(f.Fractions[p.subset(fraction, seed)], f.Fractions[p.subset(other, seed)])
		}) {
			folds = append(folds, fmt.Sprintf("fold %d", f.Fold))
		}
	}
	return folds
}
