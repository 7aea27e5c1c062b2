package jigsaw

import (
	"fmt"
	"image"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/tiles"
)

// MostColumns bounds a picture's width: of a longer play the first rounds and the last are drawn.
const MostColumns = 7

// A Column is one arrangement of a play, as a picture shows it.
type Column struct {
	tiles.Heading
	Patches puzzle.Configuration
}

// Strip is the page of a picture whose columns are drawings of one size: see [tiles.Strip].
func Strip(drawing image.Point, columns []Column) (tiles.Page, []image.Point) {
	var headings []tiles.Heading
	for _, c := range columns {
		headings = append(headings, c.Heading)
	}
	return tiles.Strip(drawing, headings)
}

// Columns lists what a picture of a play shows side by side, as the paper's Figure 3: the shuffled
// puzzle, then the puzzle after each round, and at the end the truth, if the play does not end with
// it. Under them stands what became of all puzzles of an evaluation, where there is one.
func (p Play) Columns(all *Evaluation) []Column {
	n := len(p.Arrangements[0])
	there := n
	for patch := range n {
		if p.Missed(patch) {
			there--
		}
	}
	last := len(p.Arrangements) - 1
	var list []Column
	for r, patches := range p.Arrangements {
		if r >= MostColumns-2 && r < last {
			continue
		}
		title := fmt.Sprintf("after round %d", r)
		if r == 0 {
			title = "shuffled"
		}
		wrong := p.Misplaced(r)
		count := fmt.Sprintf("%d of %d in place", there-wrong, there)
		list = append(list, Column{tiles.Heading{Title: title, Count: count, Good: wrong == 0, Under: all.under(r)},
			patches})
	}
	if p.Misplaced(last) > 0 || all != nil && last < len(all.Rounds) {
		truth := Column{tiles.Heading{Title: "truth", Count: fmt.Sprintf("%d of %d in place", there, there)},
			puzzle.Identity(n)}
		if all != nil && last < len(all.Rounds) {
			truth.Under = all.under(len(all.Rounds))
			truth.Under[0] = fmt.Sprintf("after round %d", len(all.Rounds))
		}
		list = append(list, truth)
	}
	return list
}

// under is what became of all puzzles after a round; of round 0 it says what the lines are.
func (e *Evaluation) under(round int) []string {
	switch {
	case e == nil || round > len(e.Rounds):
		return nil
	case round == 0:
		return []string{"of " + numbers.Count(e.Puzzles, "puzzle"), "correct", "D<=2"}
	}
	m := e.Rounds[round-1]
	return []string{"", fmt.Sprintf("%.2f %%", 100*m.Correct), fmt.Sprintf("%.2f %%", 100*m.Near)}
}

// Misplaced is how many patches lie wrong after a round, of those that are there.
func (p Play) Misplaced(round int) int {
	wrong := 0
	for slot, patch := range p.Arrangements[round] {
		if patch != slot && !p.Missed(patch) {
			wrong++
		}
	}
	return wrong
}

// Missed says whether a patch was left out.
func (p Play) Missed(patch int) bool { return p.Missing != nil && p.Missing[patch] }
