package photostudy

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/puzzle2d"
)

// interval is the bootstrap interval of the share of photographs that are told right: photographs
// are drawn again with replacement, each with its mean over the draws of labels.
func interval(draws []puzzle2d.Draw) *[2]float64 {
	const resamples = 2000
	n := len(draws[0].Right)
	share := make([]float64, n)
	for _, d := range draws {
		for i, right := range d.Right {
			if right {
				share[i] += 1 / float64(len(draws))
			}
		}
	}
	r := seed.Rand(1, "bootstrap")
	means := make([]float64, resamples)
	for k := range means {
		for range n {
			means[k] += share[r.IntN(n)] / float64(n)
		}
	}
	slices.Sort(means)
	return &[2]float64{means[resamples/40], means[resamples-1-resamples/40]}
}

// The ways to solve a puzzle, in the order of the table.
var ways = []string{"unary", "binary", "only"}

// solvedTable is how puzzles of held-out photographs were solved: a row for each arm, way and
// round, the mean over seeds.
func solvedTable(plan Plan, results []Result) table.Table {
	t := table.Table{
		Title: "Puzzles of held-out photographs, in percent, mean over seeds",
		Columns: []table.Column{
			{Key: "arm", Title: "arm"}, {Key: "terms", Title: "terms"}, {Key: "round", Title: "after round"},
			{Key: "seeds", Title: "seeds"},
			{Key: "correct", Title: "Correct", Digits: 2}, {Key: "near", Title: "D<=2", Digits: 2},
			{Key: "patches", Title: "patches", Digits: 2}, {Key: "chance", Title: "by chance", Digits: 2},
		},
		Notes: []string{
			"unary and binary are of the same weights; only: shuffled by a few orders, and answered among them",
			"by chance: patches in place by blind guessing",
		},
	}
	for _, arm := range plan.Arms {
		of := ofArm(results, arm.Name)
		for _, way := range ways {
			rounds := plan.Rounds
			if way == "only" {
				rounds = []int{1}
			}
			for _, round := range rounds {
				t.Rows = appendSolved(t.Rows, of, way, round)
			}
		}
	}
	return t
}

// appendSolved adds the row of an arm, if it was solved this way.
func appendSolved(rows [][]any, of []Result, way string, round int) [][]any {
	var sum, chance puzzle2d.Metrics
	n := 0
	for _, r := range of {
		e, ok := r.Solved[way]
		if !ok || len(e.Rounds) == 0 || round > len(e.Rounds) {
			continue
		}
		m := e.Rounds[round-1]
		sum.Correct, sum.Near, sum.Patches = sum.Correct+m.Correct, sum.Near+m.Near, sum.Patches+m.Patches
		chance.Patches += e.Chance.Patches
		n++
	}
	if n == 0 {
		return rows
	}
	percent := 100 / float64(n)
	return append(rows, []any{of[0].Arm, way, round, n, percent * sum.Correct, percent * sum.Near,
		percent * sum.Patches, percent * chance.Patches})
}

// transferTable is what features are worth: a row for each arm and target.
func transferTable(plan Plan, results []Result) table.Table {
	t := table.Table{
		Title: "Linear machines on the features, in percent of photographs told right",
		Columns: []table.Column{
			{Key: "target", Title: "on"}, {Key: "arm", Title: "arm"}, {Key: "seeds", Title: "seeds"},
			{Key: "right", Title: "right", Digits: 2},
			{Key: "class_mean", Title: "mean over classes", Digits: 2}, {Key: "sd_seeds", Title: "SD over seeds",
				Digits: 2}, {Key: "sd_draws", Title: "SD over draws", Digits: 2},
			{Key: "interval", Title: "95 % over photographs"}, {Key: "gain", Title: "gain on random", Digits: 2},
			{Key: "gain_low", Title: "least gain of a draw", Digits: 2},
			{Key: "gain_seeds", Title: "seeds of the gain"},
		},
		Notes: []string{
			"the interval is over the tested photographs of the networks at " +
				"hand: it says nothing about other trainings",
			"gain on random: the mean over seeds and draws of the difference, in the mean over classes, to random " +
				"weights, of the same network where there is such an arm, with the same seed and on the same draw of " +
				"labels; seeds of the gain: that both arms have",
		},
	}
	for k, target := range plan.Transfer {
		for _, arm := range plan.Arms {
			base := ofArm(results, plan.randomFor(arm))
			if of := ofArm(results, arm.Name); len(of) > 0 {
				t.Rows = append(t.Rows, transferRow(target.Name, of, base, k))
				var draws []puzzle2d.Draw
				for _, r := range of {
					draws = append(draws, r.Transfer[k].Draws...)
				}
				if note := puzzle2d.AtChance(draws, of[0].Transfer[k].Chance); note != "" {
					t.Notes = append(t.Notes, fmt.Sprintf("WARNING: %s on %s: %s", arm.Name, target.Name, note))
				}
				if n := unfinished(draws); n > 0 {
					t.Notes = append(t.Notes, fmt.Sprintf("WARNING: %s on %s: in %d of %d draws the "+
						"machines had not found their optimum after 1000 sweeps: what they tell "+
						"right, and the gain, is of an unfinished one", arm.Name, target.Name, n, len(draws)))
				}
			}
		}
	}
	return t
}

// unfinished is how many draws have machines that had not found their optimum.
func unfinished(draws []puzzle2d.Draw) (n int) {
	for _, d := range draws {
		if !d.Converged {
			n++
		}
	}
	return n
}

// transferRow is one arm on target k.
func transferRow(target string, of, base []Result, k int) []any {
	var right, class, draws, low, high float64
	var perSeed []float64
	bounded := true
	for _, r := range of {
		m := r.Transfer[k]
		var values []float64
		for _, d := range m.Draws {
			right += 100 * d.Accuracy / float64(len(m.Draws)*len(of))
			values = append(values, 100*d.ClassMean)
		}
		mean, sd := stat.MeanStdDev(values, nil)
		class, draws = class+mean/float64(len(of)), draws+sd/float64(len(of))
		perSeed = append(perSeed, mean)
		if m.Interval == nil {
			bounded = false
			continue
		}
		low, high = low+100*m.Interval[0]/float64(len(of)), high+100*m.Interval[1]/float64(len(of))
	}
	_, seeds := stat.MeanStdDev(perSeed, nil)
	row := []any{target, of[0].Arm, len(of), right, class, nil, nil, nil, nil, nil, nil}
	if len(of) > 1 {
		row[5] = seeds
	}
	if !math.IsNaN(draws) { // of one draw it is
		row[6] = draws
	}
	if bounded {
		row[7] = fmt.Sprintf("%.1f to %.1f", low, high)
	}
	if gain, least, seeds := gains(of, base, k); seeds > 0 && of[0].Arm != base[0].Arm {
		row[8], row[9], row[10] = gain, least, seeds
	}
	return row
}

// gains compares draws of the same labels, of the seeds that both arms have, which it counts: the
// mean difference, and the smallest.
func gains(of, base []Result, k int) (mean, least float64, seeds int) {
	n := 0
	least = math.Inf(1)
	for _, r := range of {
		from, ok := ofSeed(base, r.Seed)
		if !ok {
			continue
		}
		seeds++
		for j, d := range r.Transfer[k].Draws {
			difference := 100 * (d.ClassMean - from.Transfer[k].Draws[j].ClassMean)
			mean, least, n = mean+difference, min(least, difference), n+1
		}
	}
	return mean / float64(n), least, seeds
}

// ofSeed is the result of an arm with a seed; an arm that failed has none.
func ofSeed(of []Result, seed uint64) (Result, bool) {
	at := slices.IndexFunc(of, func(r Result) bool { return r.Seed == seed })
	if at < 0 {
		return Result{}, false
	}
	return of[at], true
}

func ofArm(results []Result, arm string) (of []Result) {
	for _, r := range results {
		if r.Arm == arm {
			of = append(of, r)
		}
	}
	return of
}
