package jigsaw

import (
	"errors"
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
)

// This file: settings of a game that do nothing beside the others. They are no matter of
// CheckSettings: a run that has begun may go on with them.

// Idle says which settings do nothing, so that a new run is refused with them; nil: none.
func Idle(p voxsaw.Puzzle) error {
	var idle []error
	var keys []string
	binary := p.Binary && p.Head != KWay
	if !binary && p.BinaryWeight != 0 {
		keys = append(keys, "binary_weight")
	}
	if !binary && p.SearchOnce {
		keys = append(keys, "search_once")
	}
	if keys != nil {
		idle = append(idle, &config.IdleError{Keys: keys, Advice: "binary_weight and search_once are of binary " +
			"terms, and there are none: set binary to true and take another head than kway, or set " +
			"binary_weight to 0 and search_once to false"})
	}
	if p.Head == KWay && p.ColSum > 0 {
		idle = append(
			idle,
			&config.IdleError{Keys: []string{"column_sum"}, Advice: fmt.Sprintf("column_sum is of heads "+
				"that tell the place of each patch, and %s is a choice among orders: set column_sum to 0", KWay)},
		)
	}
	if p.Head == KWay && p.Share < 1 {
		idle = append(idle, &config.IdleError{Keys: []string{"share"}, Advice: fmt.Sprintf("share is of all "+
			"configurations, and head %s trains on its %d orders alone: set share to 1, or choose fewer classes",
			KWay, p.Classes)})
	}
	return errors.Join(idle...)
}

// Unused warns of settings that have a value by default, where another one does nothing.
func Unused(p, usual voxsaw.Puzzle) (notes []string) {
	without := func(why, name string, values ...any) {
		notes = append(notes, fmt.Sprintf("WARNING: "+name+" does nothing: "+why, values...))
	}
	if single := p.Head == Symmetric || p.Head == KWay; single && p.Rounds != usual.Rounds && p.Rounds > 1 {
		without("head %s gives the same answer every round, and one is played", "rounds %d", p.Rounds, p.Head)
	} else if single && p.PaperRounds {
		without("head %s plays one round", "paper_rounds", p.Head)
	}
	if p.Head != KWay && (p.Classes != usual.Classes || p.Criterion != usual.Criterion) {
		without("they are of the orders of head %s, and the head is %s", "classes %d, criterion %s", p.Classes,
			p.Criterion, KWay, p.Head)
	}
	if (!p.Binary || p.Head == KWay) && p.Distance != usual.Distance {
		without("it is of the search with binary terms, and there are none", "distance %d", p.Distance)
	}
	if p.Head == Paper && p.Hidden != usual.Hidden {
		without("head paper has no hidden layer", "hidden %d", p.Hidden)
	}
	return notes
}

// UnusedToPlay says where it makes no difference that who plays with a trained network wishes so
// many rounds at most: only is the number of orders to choose among, 0: all.
func UnusedToPlay(p voxsaw.Puzzle, rounds, only int) []string {
	switch {
	case rounds <= 1:
	case only > 0:
		return []string{"an answer among some orders is given at once: one round is played"}
	case p.Head == Symmetric:
		return []string{"the symmetric head gives the same answer every round: one is played"}
	case p.Head == KWay:
		return []string{"the K-way head gives one answer: one round is played"}
	}
	return nil
}
