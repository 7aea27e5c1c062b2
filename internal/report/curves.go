package report

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/steplog"
)

// Training is a training's folder and how to call it.
type Training struct {
	Name, Folder string
	logs         *logs // nil: they are read where they are needed
}

// logs are what a training leaves behind.
type logs struct {
	steps       log
	validations *log // nil: it has not validated yet
}

// Read reads what the training has left in its folder, once. One that has left no log of its steps
// is an error.
func (t Training) Read() (Training, error) {
	if t.logs != nil {
		return t, nil
	}
	steps, err := readLog(filepath.Join(t.Folder, stepsFile), t.Name)
	if err != nil {
		return t, err
	}
	read := &logs{steps: steps}
	switch l, err := readLog(filepath.Join(t.Folder, validationsFile), t.Name); {
	case err == nil:
		read.validations = &l
	case !errors.Is(err, fs.ErrNotExist):
		return t, err
	}
	t.logs = read
	return t, nil
}

// The files that a training leaves behind. Both are tables whose first column is the step.
const (
	stepsFile       = "metrics.csv"
	validationsFile = "validation.csv"
)

// titles says what the columns of the two files are. A column that is not here goes by its own
// name; one with an empty title has no chart.
var titles = map[string]string{
	"step": "", "seconds": "", "wait_seconds": "", "grad_norm": "", "score": "", "ceiling": "",
	"loss": "Training loss", "lr": "Learning rate",
	"correct": "Puzzles solved entirely, held-out", "D<=2": "Puzzles with at most two patches misplaced, held-out",
	"patches": "Patches put in their place, held-out",
	"dsc":     "DSC, validation cases", "rounds": "Rounds until nothing moved",
}

// Curves draws how trainings went, a line for each training: loss, learning rate and every measure
// on held-out cases. Measures that exist for every round of a puzzle (columns such as correct@1,
// correct@2) are drawn over the rounds, at the last validation. A training that has not validated
// yet has no such curves; one without a log is an error.
func Curves(trainings ...Training) (Charts, error) {
	var steps, validations []log
	for _, t := range trainings {
		t, err := t.Read()
		if err != nil {
			return nil, err
		}
		steps = append(steps, t.logs.steps)
		if t.logs.validations != nil {
			validations = append(validations, *t.logs.validations)
		}
	}
	charts := Charts{smoothed(steps)}
	charts = append(charts, overSteps(validations)...)
	charts = append(charts, overRounds(validations)...)
	if lr := rates(steps); lr != nil {
		charts = append(charts, *lr)
	}
	for n := range charts {
		if charts[n].Baseline == "" {
			for _, t := range trainings {
				charts[n].Names = append(charts[n].Names, t.Name)
			}
		}
	}
	shareScales(charts)
	return charts, nil
}

// shareScales gives charts over the steps one horizontal axis, and measures that are shares one
// vertical axis, from zero: so they can be compared at a glance.
func shareScales(charts Charts) {
	steps, shares := newSpan(), newSpan()
	for _, c := range charts {
		for _, s := range c.Series {
			if c.X == "step" {
				steps.add(s.X...)
			}
			if c.share {
				shares.add(s.Y...)
			}
		}
		for _, l := range c.Levels {
			if c.share {
				shares.add(l.Y)
			}
		}
	}
	low, high := shares.fromZero()
	for n := range charts {
		if c := &charts[n]; c.X == "step" && steps.low < steps.high {
			c.Across = &[2]float64{steps.low, steps.high}
		}
		if charts[n].share {
			charts[n].Range = &[2]float64{low, min(high, 1)}
		}
	}
}

// isShare says whether a measure on held-out cases lies between 0 and 1.
func isShare(column string) bool {
	base, _, _ := strings.Cut(column, "@")
	return base == "dsc" || strings.HasPrefix(base, "dsc_") || base == "correct" || base == "D<=2" || base == "patches"
}

// log is a table of numbers with names, by columns.
type log struct {
	name    string
	columns []string
	values  map[string][]float64
}

func readLog(path, name string) (log, error) {
	l, err := steplog.Read(path)
	if err != nil {
		return log{}, fmt.Errorf("reading the curves of %s: %w", name, err)
	}
	return log{name: name, columns: l.Columns, values: l.Values}, nil
}

func title(column string) string {
	if t, ok := titles[column]; ok {
		return t
	}
	if label, ok := strings.CutPrefix(column, "dsc_"); ok {
		return "DSC of " + inWords(strings.ReplaceAll(label, "_", " ")) + ", validation cases"
	}
	return column
}

// smoothed is the chart of the loss: every step, faint, and a running mean over a fortieth of the
// steps.
func smoothed(logs []log) Chart {
	c := Chart{Title: titles["loss"], X: "step"}
	for _, l := range logs {
		x, y := l.values["step"], l.values["loss"]
		c.Series = append(c.Series, Series{Name: l.name, X: x, Y: y, Faint: true},
			Series{Name: l.name, X: x, Y: runningMean(y, float64(len(y))/40)})
	}
	return c
}

// runningMean is the exponential moving average over some n values, corrected for its start at
// zero.
func runningMean(y []float64, n float64) []float64 {
	decay := 1 - 1/math.Max(n, 1)
	var mean, weight float64
	smooth := make([]float64, len(y))
	for k, v := range y {
		if numbers.Finite(v) {
			mean, weight = decay*mean+(1-decay)*v, decay*weight+(1-decay)
		}
		smooth[k] = mean / weight
	}
	return smooth
}

// overSteps is a chart for every measure on held-out cases that is a single number.
func overSteps(logs []log) Charts {
	var charts Charts
	for _, column := range columnsOf(logs) {
		if strings.Contains(column, "@") || title(column) == "" {
			continue
		}
		c := Chart{Title: title(column), X: "step", Points: true, share: isShare(column)}
		switch column {
		case "loss":
			c.Title = "Loss, held-out"
		case "patches":
			c.Levels = ceilings(logs)
		}
		for _, l := range logs {
			if y := l.values[column]; y != nil {
				c.Series = append(c.Series, Series{Name: l.name, X: l.values["step"], Y: y})
			}
		}
		charts = append(charts, c)
	}
	return charts
}

// ceilings are the most patches that can be put in their place where some are identical, one line
// for each value.
func ceilings(logs []log) []Level {
	var levels []Level
	for _, l := range logs {
		if y := l.values["ceiling"]; len(y) > 0 &&
			!slices.ContainsFunc(levels, func(v Level) bool { return v.Y == y[len(y)-1] }) {
			levels = append(levels, Level{"at most", y[len(y)-1]})
		}
	}
	return levels
}

// overRounds is a chart for every measure that is taken after each round, at the last validation.
func overRounds(logs []log) Charts {
	var charts Charts
	for _, column := range columnsOf(logs) {
		base, isFirst := strings.CutSuffix(column, "@1")
		if !isFirst || title(base) == "" {
			continue
		}
		c := Chart{Title: title(base) + ", by round", X: "round", Points: true, share: isShare(column)}
		for _, l := range logs {
			var x, y []float64
			for round := 1; l.values[fmt.Sprintf("%s@%d", base, round)] != nil; round++ {
				values := l.values[fmt.Sprintf("%s@%d", base, round)]
				x, y = append(x, float64(round)), append(y, values[len(values)-1])
			}
			if len(x) > 1 {
				c.Series = append(c.Series, Series{Name: l.name, X: x, Y: y})
			}
		}
		if len(c.Series) > 0 {
			charts = append(charts, c)
		}
	}
	return charts
}

// rates is the chart of the learning rate, one grey line where all trainings have the same.
func rates(logs []log) *Chart {
	c := Chart{Title: titles["lr"], X: "step"}
	same := true
	for _, l := range logs {
		if l.values["lr"] != nil {
			c.Series = append(c.Series, Series{Name: l.name, X: l.values["step"], Y: l.values["lr"]})
		}
		same = same && slices.Equal(l.values["lr"], logs[0].values["lr"])
	}
	if len(c.Series) == 0 {
		return nil
	}
	if same && len(logs) > 1 {
		c.Title, c.Series, c.Baseline = c.Title+", the same in all", c.Series[:1], c.Series[0].Name
	}
	return &c
}

// columnsOf lists the columns of all logs, each once, in the order of their first appearance.
func columnsOf(logs []log) []string {
	var all []string
	for _, l := range logs {
		for _, c := range l.columns {
			if !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all
}
