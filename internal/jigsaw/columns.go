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

// A Drawing is how a picture shows the patches of a play.
type Drawing struct {
	Grid  puzzle.Grid
	Size  image.Point                      // of a column
	Place func(cell []int) image.Rectangle // of a cell's tile, in the column
	Tile  func(patch int) image.Image
	Same  func(a, b int) bool // whether patches look the same; nil: none do
}

// Picture draws a play, as the paper's Figure 3: a column for each arrangement, from the shuffled
// one to the truth; in a column the patch that lies in each cell, and its number, which is that of
// its place. Patches that lie where they do not belong have a red frame; a thin one if the patch
// that belongs there looks the same. The slots of missing patches are empty, with a thin frame.
func (p Play) Picture(all *Evaluation, d Drawing) image.Image {
	const frame, numberSize = 3, 14 // pixels
	columns := p.Columns(OnGrid(all, d.Grid))
	var headings []tiles.Heading
	for _, c := range columns {
		headings = append(headings, c.Heading)
	}
	page, corners := tiles.Strip(d.Size, headings)
	numbers := tiles.NewFace(numberSize)
	at := make([]int, len(d.Grid))
	for x, c := range columns {
		for slot, patch := range c.Patches {
			d.Grid.Coordinates(at, slot)
			place := d.Place(at).Add(corners[x])
			if p.Missed(patch) {
				page.Frame(place, 1, tiles.Pale)
				continue
			}
			page.Tile(place, d.Tile(patch))
			page.Number(numbers, place, patch)
			switch {
			case patch == slot:
			case d.Same != nil && d.Same(patch, slot):
				page.Frame(place, 1, tiles.Pale)
			default:
				page.Frame(place, frame, tiles.Wrong)
			}
		}
	}
	return page.RGBA
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
		list = append(list, Column{tiles.Heading{Title: title, Count: count, Good: wrong == 0, Under: under(all, r)},
			patches})
	}
	if p.Misplaced(last) > 0 || all != nil && last < len(all.Rounds) {
		truth := Column{tiles.Heading{Title: "truth", Count: fmt.Sprintf("%d of %d in place", there, there)},
			puzzle.Identity(n)}
		if all != nil && last < len(all.Rounds) {
			truth.Under = under(all, len(all.Rounds))
			truth.Under[0] = fmt.Sprintf("after round %d", len(all.Rounds))
		}
		list = append(list, truth)
	}
	return list
}

// under is what became of all puzzles after a round; of round 0 it says what the lines are.
func under(e *Evaluation, round int) []string {
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
