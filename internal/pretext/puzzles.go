package pretext

import (
	"fmt"

	"github.com/voxsaw/voxsaw"
)

// OfPuzzles is how well puzzles were solved, of several grids on each; record is what a program
// reads of it.
func OfPuzzles(played voxsaw.PuzzleEvaluation, record any) Evaluation {
	out := Evaluation{
		Cases: played.Items, Items: played.Puzzles, Score: 2,
		Measures: []Measure{{Key: "correct", Title: "correct"}, {Key: "near", Title: "D<=2"},
			{Key: "patches", Title: "patches in place"}},
		Record: record,
		Notes:  []string{fmt.Sprintf("%.2f rounds played, on average", played.Mean)},
	}
	for _, g := range played.Grids {
		out.Measures = append(out.Measures, Measure{Key: "correct_" + g.Grid, Title: "correct " + g.Grid},
			Measure{Key: "patches_" + g.Grid, Title: "patches " + g.Grid})
	}
	if len(played.Grids) > 0 {
		out.Notes = append(out.Notes,
			"the first three columns are the means over the grids, each of which counts the same.")
	}
	row := func(of func(voxsaw.PuzzleEvaluation) voxsaw.PuzzleMetrics) []float64 {
		all := of(played)
		shares := []float64{all.Correct, all.Near, all.Patches}
		for _, g := range played.Grids {
			shares = append(shares, of(g).Correct, of(g).Patches)
		}
		return shares
	}
	out.Chance = row(func(e voxsaw.PuzzleEvaluation) voxsaw.PuzzleMetrics { return e.Chance })
	for i := range played.Rounds {
		out.Rounds = append(out.Rounds,
			row(func(e voxsaw.PuzzleEvaluation) voxsaw.PuzzleMetrics { return e.Rounds[i] }))
	}
	if c := played.Ceiling.Patches; c > 0 && c < 1 {
		out.Ceiling = row(func(e voxsaw.PuzzleEvaluation) voxsaw.PuzzleMetrics { return e.Ceiling })
		out.Notes = append(out.Notes,
			"at most: some patches are identical, such as those of nothing but air; "+
				"nobody can tell which of them goes where.")
	}
	return out
}
