package cli

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/table"
)

type powerOptions struct {
	Difference float64 `yaml:"difference" help:"difference to the baseline that is to be found, in the unit of the metric; DSC and NSD: in points of percent"`
	Power      float64 `yaml:"power" help:"probability to find it where it is there" range:"(0,1)"`
	Alpha      float64 `yaml:"alpha" help:"probability of a false alarm, two-sided" range:"(0,1)"`
	Metric     string  `yaml:"metric" help:"dsc, nsd, hd95, hd or assd"`
	Label      int     `yaml:"label" help:"this label alone; 0: the mean over the labels of a case" most:"65535"`
	Baseline   string  `yaml:"baseline" help:"initialisation that the others are compared with"`
	Fraction   float64 `yaml:"fraction" help:"runs on this share of the training cases alone; 0: each share by itself" range:"[0,1]"`
	JSON       bool    `yaml:"json" help:"print the replicates needed as JSON"`
}

func newPower() *cobra.Command {
	o := &powerOptions{Power: 0.8, Alpha: 0.05, Metric: "dsc", Baseline: "scratch"}
	return verb(
		"power SCORES.csv",
		"Say how many replicates find a difference, from the scores of a pilot",
		`Takes from the scores of a small experiment (scores.csv of voxsaw crossval) how much the
difference to the baseline scatters from one pair of runs to the next, and says how many replicates find
a difference of the given size: a replicate is a pair of runs of the same fold and seed, or all pairs of
a fold whose seeds share a draw of the labelled cases. More patients hardly help where runs scatter; more
replicates do.`,
		`  voxsaw power runs/pilot/scores.csv --difference 2`,
		cobra.ExactArgs(1),
		o,
		func(cmd *cobra.Command, args []string) error { return runPower(cmd, *o, args[0]) },
	)
}

func runPower(cmd *cobra.Command, o powerOptions, path string) error {
	stdout := cmd.OutOrStdout()
	if o.Difference == 0 {
		return withHint(usagef("no difference to look for"), "add --difference, such as 2 for two points of DSC")
	}
	metric, err := eval.MetricNamed(o.Metric)
	if err != nil {
		return config.Mistaken(err)
	}
	if o.Label < 0 || o.Label > math.MaxUint16 {
		return usagef("label %d: want 1 to %d, or 0 for the mean over all", o.Label, math.MaxUint16)
	}
	p := eval.PowerOptions{Power: o.Power, Alpha: o.Alpha}
	if _, err := eval.Replicates(o.Difference, 1, p); err != nil {
		return config.Mistaken(err)
	}
	runs, note, err := readRuns(path)
	if err != nil {
		return err
	}
	if note != "" {
		say(cmd.ErrOrStderr(), "WARNING: %s", note)
	}
	if o.Fraction != 0 {
		runs = slices.DeleteFunc(runs, func(r eval.Trial) bool { return r.Fraction != o.Fraction })
		if len(runs) == 0 {
			return withHint(fmt.Errorf("%s: no runs on %s of the training cases", path, table.Percent(o.Fraction)),
				"without --fraction all shares are listed")
		}
	}
	pilots, left, err := eval.Pilots(runs, o.Difference, eval.FoldOptions{Metric: o.Metric, Label: uint16(o.Label),
		Baseline: o.Baseline}, p)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, why := range left {
		say(cmd.ErrOrStderr(), "left out: %v", why)
	}
	if others := compared(pilots); others > 1 {
		say(cmd.ErrOrStderr(), "this is for the p of one comparison; crossval and compare adjust p over all %d "+
			"(Holm): to have the smallest of them below %v, plan with --alpha %.2g", others, o.Alpha,
			o.Alpha/float64(others))
	}
	needed := table.Pilots(pilots, o.Difference, metric, p)
	if o.JSON {
		return needed.JSON(stdout)
	}
	found, err := table.Detectable(pilots, metric, p)
	if err != nil {
		return err
	}
	return errors.Join(printTable(stdout, needed), printTable(stdout, found))
}

// compared is how many initialisations are compared with the baseline, of the share that has most.
func compared(pilots []eval.Pilot) (most int) {
	count := map[float64]int{}
	for _, p := range pilots {
		count[p.Fraction]++
		most = max(most, count[p.Fraction])
	}
	return most
}

// readRuns reads the scores of an experiment's runs. The note says what the file does not tell.
func readRuns(path string) (runs []eval.Trial, note string, err error) {
	text, err := readWritten(path)
	if err != nil {
		return nil, "", err
	}
	runs, column, err := table.ReadRuns(bytes.NewReader(text))
	if err != nil {
		return nil, "", withHint(fmt.Errorf("%s: %w", path, err),
			"give it the scores.csv in the folder of an experiment")
	}
	return runs, experiment.Undrawn(path, runs, column), nil
}
