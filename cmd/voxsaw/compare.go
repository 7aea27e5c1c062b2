package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/claim"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/table"
)

type compareOptions struct {
	Out      string   `yaml:"out" help:"folder for a report of the comparison and all its scores; empty: none"`
	Baseline string   `yaml:"baseline" help:"initialisation that the others are compared with; empty: scratch, or the first where there is no scratch"`
	Only     []string `yaml:"only" help:"initialisations to look at, beside the baseline; empty: all"`
	Curves   []string `yaml:"curves" help:"curves.csv of the same experiments, for the report: learning curves; [NAME=]FILE"`
	Metric   string   `yaml:"metric" help:"what is printed: dsc, nsd, hd95, hd or assd"`
	Label    int      `yaml:"label" help:"this label alone; 0: the mean over the labels of a case"`
	JSON     bool     `yaml:"json" help:"print the differences as JSON"`
}

func newCompare() *cobra.Command {
	o := &compareOptions{Metric: "dsc"}
	return verb("compare [NAME=]SCORES.csv...", "Compare the runs of one experiment, or of several, by their scores alone",
		`Compares initialisations over pairs of runs of the same fold, share of the training cases and seed: differences with their intervals, p by Holm,
a mixed model, ranks. It reads the scores.csv of voxsaw crossval, or folders that hold one, and needs nothing else of an experiment: runs of
several machines, parts of a study in folders of their own, or scores that another program has made.

NAME= puts a name before the initialisations of a file (NAME/scratch), which tells those of the same name apart. A run that two files have with
the same scores counts once; with other scores it is refused.

Any table with the columns initialisation, fold, fraction, seed, case, label and dsc will do.`,
		`  voxsaw compare runs/study/scores.csv --baseline scratch
  voxsaw compare part1/scores.csv part2/scores.csv --out compared
  voxsaw compare short=runs/short long=runs/long --baseline short/scratch --only long/scratch`,
		cobra.MinimumNArgs(1), o, func(cmd *cobra.Command, args []string) error { return runCompare(cmd, *o, args) })
}

// comparison is whose files a report of voxsaw compare is.
const comparison = "voxsaw compare"

func runCompare(cmd *cobra.Command, o compareOptions, args []string) error {
	metric, err := eval.MetricNamed(o.Metric)
	if err != nil {
		return &usageError{err}
	}
	if o.Label < 0 || o.Label > math.MaxUint16 {
		return usagef("label %d: want 1 to %d, or 0 for the mean over all", o.Label, math.MaxUint16)
	}
	studies := newStudies(args)
	for n, path := range studies.paths {
		runs, err := readRuns(path)
		if err != nil {
			return err
		}
		if err := studies.add(n, runs); err != nil {
			return err
		}
	}
	scored := experiment.Scored{Runs: studies.runs, Baseline: o.Baseline}
	if err := o.choose(&scored); err != nil {
		return err
	}
	notes, err := sameTests(scored.Runs)
	if err != nil {
		return err
	}
	for _, note := range slices.Concat(studies.notes, notes, scored.Warnings()) {
		say(cmd.ErrOrStderr(), "WARNING: %s", note)
	}
	options := eval.FoldOptions{Metric: o.Metric, Label: uint16(o.Label), Baseline: scored.Baseline}
	folds, err := eval.Folds(scored.Runs, options)
	if err != nil {
		return err
	}
	if alone := withoutPairs(folds); len(alone) > 0 {
		say(cmd.ErrOrStderr(), "WARNING: not compared: no run of %s has one of %s of the same fold, share of the training cases and seed", list(alone), scored.Baseline)
	}
	if o.Out != "" {
		if scored.Curves, err = o.curves(scored.Runs); err != nil {
			return err
		}
		if err := o.write(cmd.Context(), scored, studies.paths); err != nil {
			return err
		}
	}
	if o.JSON {
		return table.Differences(folds).JSON(cmd.OutOrStdout())
	}
	if err := printTable(cmd.OutOrStdout(), table.Means(folds)); err != nil {
		return err
	}
	if len(folds.Initialisations) > 1 {
		if err := printTable(cmd.OutOrStdout(), table.Differences(folds)); err != nil {
			return err
		}
		// a model needs more runs than a small experiment has
		if fit, err := eval.Mixed(scored.Runs, options); err == nil {
			if err := printTable(cmd.OutOrStdout(), table.Mixed(fit, metric)); err != nil {
				return err
			}
		}
	}
	if o.Out != "" {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "report: %s\n", shown(cmd.OutOrStdout(), filepath.Join(o.Out, experiment.ReportName+".html")))
	}
	return err
}

// withoutPairs are the initialisations that nothing compares with the baseline.
func withoutPairs(f eval.FoldTable) (alone []string) {
	for n, name := range f.Initialisations {
		if name != f.Baseline && !slices.ContainsFunc(f.Cells, func(row []eval.FoldCell) bool { return row[n].Gain.N > 0 }) {
			alone = append(alone, name)
		}
	}
	return alone
}

// choose settles the baseline, and leaves out the initialisations that nobody asked for.
func (o compareOptions) choose(s *experiment.Scored) error {
	there := s.Initialisations()
	if len(there) == 0 {
		return withHint(fmt.Errorf("no scores to compare"), "the files hold a header and nothing else")
	}
	if s.Baseline == "" {
		s.Baseline = there[0]
		if slices.Contains(there, experiment.Scratch) {
			s.Baseline = experiment.Scratch
		}
	}
	for _, name := range append([]string{s.Baseline}, o.Only...) {
		if !slices.Contains(there, name) {
			return &usageError{fmt.Errorf("no runs of %s: there are those of %s", name, list(there))}
		}
	}
	if len(o.Only) > 0 {
		s.Runs = slices.DeleteFunc(s.Runs, func(r eval.Trial) bool {
			return r.Initialisation != s.Baseline && !slices.Contains(o.Only, r.Initialisation)
		})
	}
	return nil
}

// curves reads the learning curves of the runs that are compared.
func (o compareOptions) curves(runs []eval.Trial) (all []eval.LearningCurve, err error) {
	for _, arg := range o.Curves {
		name, path := nameOf(arg)
		curves, err := readCurves(path)
		if err != nil {
			return nil, err
		}
		for _, c := range curves {
			c.Initialisation = name + c.Initialisation
			same := func(c eval.LearningCurve, fraction float64, other string, fold int, seed uint64) bool {
				return c.Initialisation == other && table.Percent(c.Fraction) == table.Percent(fraction) && c.Fold == fold && c.Seed == seed
			}
			at := slices.IndexFunc(runs, func(r eval.Trial) bool { return same(c, r.Fraction, r.Initialisation, r.Fold, r.Seed) })
			known := slices.ContainsFunc(all, func(k eval.LearningCurve) bool { return same(c, k.Fraction, k.Initialisation, k.Fold, k.Seed) })
			if at < 0 || known { // not compared, or in two files, as its run is
				continue
			}
			c.Fraction = runs[at].Fraction // which the file has rounded
			all = append(all, c)
		}
	}
	return all, nil
}

func readCurves(path string) ([]eval.LearningCurve, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	curves, err := table.ReadCurves(f)
	if err != nil {
		return nil, withHint(fmt.Errorf("%s: %w", path, err), "give it the curves.csv in the folder of an experiment")
	}
	return curves, nil
}

// write leaves a report and all scores in the folder.
func (o compareOptions) write(ctx context.Context, s experiment.Scored, paths []string) error {
	if err := claim.Take(o.Out, comparison, experiment.ReportFiles()...); err != nil {
		return err
	}
	var names []string
	for _, path := range paths {
		names = append(names, filepath.ToSlash(path))
	}
	page, err := s.Report("Comparison", fmt.Sprintf("%s of %s", numbers.Count(len(s.Runs), "run"), strings.Join(names, ", ")))
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := page.Write(o.Out, experiment.ReportName); err != nil {
		return err
	}
	if len(s.Curves) > 0 {
		if err := writeFile(filepath.Join(o.Out, experiment.CurvesFile), table.Curves(s.Curves).CSV); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(o.Out, experiment.ScoresFile), table.Runs(s.Runs).CSV)
}

// studies are the runs of several files.
type studies struct {
	names, paths []string // of each file: what stands before its initialisations
	runs         []eval.Trial
	from         []int // the file of each run
	notes        []string
}

func newStudies(args []string) *studies {
	s := &studies{}
	for _, arg := range args {
		name, path := nameOf(arg)
		if stat, err := os.Stat(path); err == nil && stat.IsDir() {
			path = filepath.Join(path, experiment.ScoresFile)
		}
		s.names, s.paths = append(s.names, name), append(s.paths, path)
	}
	return s
}

// nameOf takes NAME=FILE apart; a file may have a name with an equals sign.
func nameOf(arg string) (name, path string) {
	if _, err := os.Stat(arg); err == nil {
		return "", arg
	}
	if name, path, named := strings.Cut(arg, "="); named && name != "" {
		return name + "/", path
	}
	return "", arg
}

// add adds the runs of file n. One that is there already must be the same.
func (s *studies) add(n int, runs []eval.Trial) error {
	shared := 0
	for _, r := range runs {
		r.Initialisation = s.names[n] + r.Initialisation
		at := slices.IndexFunc(s.runs, func(o eval.Trial) bool {
			return o.Initialisation == r.Initialisation && o.Fold == r.Fold && o.Fraction == r.Fraction && o.Seed == r.Seed
		})
		if at < 0 {
			s.runs, s.from = append(s.runs, r), append(s.from, n)
			continue
		}
		if !sameScores(s.runs[at].Scores, r.Scores) {
			return withHint(fmt.Errorf("%s and %s have other scores of %s, fold %d, %s of the training cases, seed %d", s.paths[s.from[at]], s.paths[n], r.Initialisation, r.Fold, table.Percent(r.Fraction), r.Seed),
				"if these are two experiments, name them: a=%s b=%s", s.paths[s.from[at]], s.paths[n])
		}
		shared++
	}
	if shared > 0 {
		s.notes = append(s.notes, fmt.Sprintf("%s: %s that another file has, too, with the same scores, counted once", s.paths[n], numbers.Count(shared, "run")))
	}
	return nil
}

// sameScores compares DSC of all cases and labels, to the bit.
func sameScores(a, b []eval.Score) bool {
	type what struct {
		id    string
		label uint16
	}
	of := func(scores []eval.Score) map[what]uint64 {
		m := map[what]uint64{}
		for _, s := range scores {
			m[what{s.Case, s.Label}] = math.Float64bits(s.DSC)
		}
		return m
	}
	return maps.Equal(of(a), of(b))
}

// sameTests makes sure that the runs of a fold were tested on the same cases: else they are no
// pairs. Where some cases differ, those that both have are compared, which it says.
func sameTests(runs []eval.Trial) (notes []string, err error) {
	cases := func(r eval.Trial) map[string]bool {
		m := map[string]bool{}
		for _, s := range r.Scores {
			m[s.Case] = true
		}
		return m
	}
	name := func(r eval.Trial) string {
		return fmt.Sprintf("%s, %s of the training cases, seed %d", r.Initialisation, table.Percent(r.Fraction), r.Seed)
	}
	first := map[int]eval.Trial{}
	told := map[int]bool{}
	for _, r := range runs {
		f, seen := first[r.Fold]
		if !seen {
			first[r.Fold] = r
			continue
		}
		own, other := cases(r), cases(f)
		shared := 0
		for id := range own {
			if other[id] {
				shared++
			}
		}
		switch {
		case shared == 0:
			return nil, withHint(fmt.Errorf("fold %d: no test case of %s is one of %s: these are folds of other divisions", r.Fold, name(r), name(f)),
				"compare runs whose folds test on the same cases")
		case (shared < len(own) || shared < len(other)) && !told[r.Fold]:
			told[r.Fold] = true
			notes = append(notes, fmt.Sprintf("fold %d: %s was tested on %s, %s on %d, of which %d are the same: differences are over the cases that both have, means over each run's own",
				r.Fold, name(f), numbers.Count(len(other), "case"), name(r), len(own), shared))
		}
	}
	return notes, nil
}
