package photostudy

import (
	"fmt"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/puzzle2d"
)

// A Contrast is a claim of the plan: that one arm is better than another.
type Contrast struct {
	Name    string `yaml:"name" help:"the claim, as it is called in the tables"`
	Arm     string `yaml:"arm" help:"the arm that it says is better"`
	Against string `yaml:"against" help:"the arm to compare with"`
}

// A measurement is a number of a result that arms are compared by.
type measurement struct {
	on string // what is measured, as it is called in the tables
	of number
	// chance is what blind guessing gives: only results that have the same are compared; may be nil
	chance func(Result) float64
}

// said is how the tables of claims call the ways to solve a puzzle.
var said = map[string]string{"unary": "unary terms", "binary": "with binary terms", "only": "among few orders"}

// measurements are what arms are compared by: the features on each target, and the patches in
// place in the puzzles that they have in common.
func measurements(plan Plan) []measurement {
	var all []measurement
	for k, t := range plan.Transfer {
		all = append(all, measurement{on: t.Name,
			of: told(k, func(d puzzle2d.Draw) float64 { return d.ClassMean })})
	}
	for _, way := range ways {
		all = append(all, measurement{
			on:     "patches in place, " + said[way],
			of:     solved(func(m puzzle2d.Metrics) float64 { return m.Patches }, way),
			chance: func(r Result) float64 { return r.Solved[way].Chance.Patches },
		})
	}
	return all
}

// A number is one number of a result, in percent; ok says whether the result has it.
type number func(Result) (percent float64, ok bool)

// told is what a machine on the features for target k tells right, the mean over draws.
func told(k int, pick func(puzzle2d.Draw) float64) number {
	return func(r Result) (percent float64, ok bool) {
		if k >= len(r.Transfer) {
			return 0, false
		}
		draws := r.Transfer[k].Draws
		for _, d := range draws {
			percent += 100 * pick(d) / float64(len(draws))
		}
		return percent, len(draws) > 0
	}
}

// solved is how puzzles were solved after the last round, by the first of the ways that there is.
func solved(pick func(puzzle2d.Metrics) float64, ways ...string) number {
	return func(r Result) (float64, bool) {
		for _, way := range ways {
			if e, ok := r.Solved[way]; ok && len(e.Rounds) > 0 {
				return 100 * pick(e.Final()), true
			}
		}
		return 0, false
	}
}

// A difference is a contrast by one measurement: arm minus against for each seed.
type difference struct {
	Contrast
	on       string
	seeds    []float64
	interval eval.Interval
	test     eval.Test
}

func (d difference) mean() float64 { return eval.Summarise(d.seeds).Mean }

// class colours the difference in a chart: up or down only where the interval leaves no doubt.
func (d difference) class() string {
	switch {
	case d.interval.Low > 0:
		return "up"
	case d.interval.High < 0:
		return "down"
	}
	return "open"
}

// differences are those that the results give. Arms are paired by their seed, for it draws the same
// labels and the same photographs for both.
func differences(plan Plan, results []Result) []difference {
	var all []difference
	for _, c := range plan.Contrasts {
		of, against := ofArm(results, c.Arm), ofArm(results, c.Against)
		for _, m := range measurements(plan) {
			d := difference{Contrast: c, on: m.on}
			for _, r := range of {
				other, paired := ofSeed(against, r.Seed)
				a, ok := m.of(r)
				b, also := m.of(other)
				if paired && ok && also && (m.chance == nil || m.chance(r) == m.chance(other)) {
					d.seeds = append(d.seeds, a-b)
				}
			}
			if len(d.seeds) > 0 {
				d.interval, d.test = eval.MeanTest(d.seeds)
				all = append(all, d)
			}
		}
	}
	return all
}

// contrastTable is the plan's claims: a row for each of them and each measurement.
func contrastTable(plan Plan, results []Result) table.Table {
	t := table.Table{
		Title: "Paired differences between arms, in points",
		Columns: []table.Column{
			{Key: "claim", Title: "claim"}, {Key: "of", Title: "of"}, {Key: "arm"}, {Key: "against"},
			{Key: "on", Title: "on"}, {Key: "seeds", Title: "seeds"},
			{Key: "difference", Title: "difference", Digits: 2}, {Key: "each", Title: "of each seed"},
			{Key: "interval", Title: "95 % over trainings"}, {Key: "p", Title: "p", Digits: 3},
		},
		Notes: []string{
			"of features: the mean over classes; of puzzles: patches in place after the last round",
			"interval and p: paired t-test over trainings, each with its seed, not adjusted for the number of " +
				"claims; of two trainings it sees very even differences alone",
		},
	}
	for _, d := range differences(plan, results) {
		row := []any{d.Name, d.Arm + " - " + d.Against, d.Arm, d.Against, d.on, len(d.seeds), d.mean(), signed(d.seeds),
			nil, nil}
		if len(d.seeds) > 1 {
			row[8], row[9] = table.Interval(d.interval, 1), table.P(d.test.P)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// signed lists differences.
func signed(values []float64) string {
	var all []string
	for _, v := range values {
		all = append(all, fmt.Sprintf("%+.1f", v))
	}
	return strings.Join(all, ", ")
}

// checkContrasts says which contrast names an arm that the plan does not have.
func (p Plan) checkContrasts(arms map[string]bool) error {
	for _, c := range p.Contrasts {
		if c.Name == "" {
			return fmt.Errorf("contrast of %q and %q: it needs a name, the claim", c.Arm, c.Against)
		}
		for _, arm := range []string{c.Arm, c.Against} {
			if !arms[arm] {
				return fmt.Errorf("contrast %q: there is no arm %q", c.Name, arm)
			}
		}
		if c.Arm == c.Against {
			return fmt.Errorf("contrast %q: arm %q is compared with itself", c.Name, c.Arm)
		}
	}
	return nil
}
