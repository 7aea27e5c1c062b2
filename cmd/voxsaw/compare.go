package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/voxsaw/voxsaw/internal/plain"
	"github.com/voxsaw/voxsaw/internal/table"
)

type compareOptions struct {
	Out      string   `yaml:"out" help:"folder for a report of the comparison and all its scores; empty: none"`
	Baseline string   `yaml:"baseline" help:"initialisation that the others are compared with; empty: scratch, or the first where there is no scratch"`
	Only     []string `yaml:"only" help:"initialisations to look at, beside the baseline; empty: all"`
	Curves   []string `yaml:"curves" help:"curves.csv of the same experiments, for the report: learning curves; [NAME=]FILE"`
	Metric   string   `yaml:"metric" help:"what is printed: dsc, nsd, hd95, hd, assd, predicted, reference or difference"`
	Label    int      `yaml:"label" help:"this label alone; 0: the mean over the labels of a case"`
	JSON     bool     `yaml:"json" help:"print the differences as JSON"`
}

func newCompare() *cobra.Command {
	o := &compareOptions{Metric: "dsc"}
	return verb("compare [NAME=]SCORES.csv...", "Compare the runs of one experiment, or of several, by their scores alone",
		`Compares initialisations over pairs of runs of the same fold, share of the training cases and seed: differences with their intervals, p by Holm,
a mixed model; in the report of --out also ranks, other measures, structures and learning curves. It reads the scores.csv of voxsaw crossval, or folders that hold one, and needs nothing else of an experiment: runs of
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
	if len(o.Curves) > 0 && o.Out == "" {
		return withHint(usagef("learning curves are for the report, and no report is asked for"), "add --out FOLDER")
	}
	studies, err := newStudies(args)
	if err != nil {
		return err
	}
	if err := o.spareInputs(studies.paths); err != nil {
		return err
	}
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
	left, err := o.choose(&scored)
	if err != nil {
		return err
	}
	tests, err := sameTests(scored, o.Label)
	if err != nil {
		return err
	}
	notes := slices.Concat(studies.notes, tests, scored.Warnings())
	if len(left) > 0 {
		notes = append(notes, fmt.Sprintf("left out: %s. Holm's p is adjusted for the comparisons that are shown, as is right where they were chosen before anybody looked", list(left)))
	}
	options := eval.FoldOptions{Metric: o.Metric, Label: uint16(o.Label), Baseline: scored.Baseline}
	folds, err := eval.Folds(scored.Runs, options)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(folds.Cells, func(row []eval.FoldCell) bool {
		return slices.ContainsFunc(row, func(c eval.FoldCell) bool { return c.Spread.N > 0 })
	}) {
		return withHint(fmt.Errorf("no run has %s of label %d", o.Metric, o.Label), "label 0 is the mean over all; what is measured, the header of a file says")
	}
	if alone := withoutPairs(folds); len(alone) > 0 {
		notes = append(notes, fmt.Sprintf("not compared: no run of %s has one of %s of the same fold, share of the training cases and seed", list(alone), scored.Baseline))
	}
	for _, note := range notes {
		say(cmd.ErrOrStderr(), "WARNING: %s", note)
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	if o.Out != "" {
		if err := o.write(cmd, scored, studies.paths, left); err != nil {
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
		fit, err := eval.Mixed(scored.Runs, options)
		if err != nil {
			say(cmd.ErrOrStderr(), "no mixed model: %v", err)
		} else if err := printTable(cmd.OutOrStdout(), table.Mixed(fit, metric)); err != nil {
			return err
		}
	}
	if o.Out != "" {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "report: %s\n", shown(cmd.OutOrStdout(), filepath.Join(o.Out, experiment.ReportName+".html")))
	}
	return err
}

// spareInputs refuses to leave runs out of a file that is read and written at once.
func (o compareOptions) spareInputs(paths []string) error {
	own := filepath.Join(o.Out, experiment.ScoresFile)
	out, err := os.Stat(own)
	if o.Out == "" || len(o.Only) == 0 || err != nil {
		return nil
	}
	for _, path := range paths {
		if in, err := os.Stat(path); err == nil && os.SameFile(in, out) {
			return withHint(usagef("%s would lose the runs that --only leaves out", own), "choose another --out folder")
		}
	}
	return nil
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
func (o compareOptions) choose(s *experiment.Scored) (left []string, err error) {
	there := s.Initialisations()
	if len(there) == 0 {
		return nil, withHint(fmt.Errorf("no scores to compare"), "the files hold a header and nothing else")
	}
	if s.Baseline == "" {
		s.Baseline = experiment.DefaultBaseline(there)
	}
	for _, name := range append([]string{s.Baseline}, o.Only...) {
		if !slices.Contains(there, name) {
			return nil, &usageError{fmt.Errorf("no runs of %s: there are those of %s", name, list(there))}
		}
	}
	if len(o.Only) == 0 {
		return nil, nil
	}
	left = slices.DeleteFunc(there, func(name string) bool { return name == s.Baseline || slices.Contains(o.Only, name) })
	s.Runs = slices.DeleteFunc(s.Runs, func(r eval.Trial) bool { return slices.Contains(left, r.Initialisation) })
	return left, nil
}

// curves reads the learning curves of the runs that are compared, and says of files that have none.
func (o compareOptions) curves(runs []eval.Trial) (all []eval.LearningCurve, notes []string, err error) {
	type key struct {
		initialisation, share string // as the file rounds it
		fold                  int
		seed                  uint64
	}
	fractions, known := map[key]float64{}, map[key]int{}
	for _, r := range runs {
		fractions[key{r.Initialisation, table.Percent(r.Fraction), r.Fold, r.Seed}] = r.Fraction
	}
	for _, arg := range o.Curves {
		name, path := nameOf(arg)
		curves, err := readCurves(path)
		if err != nil {
			return nil, nil, err
		}
		found := false
		for _, c := range curves {
			c.Initialisation = name + c.Initialisation
			k := key{c.Initialisation, table.Percent(c.Fraction), c.Fold, c.Seed}
			fraction, compared := fractions[k]
			if !compared {
				continue
			}
			c.Fraction, found = fraction, true
			if at, twice := known[k]; !twice {
				known[k] = len(all)
				all = append(all, c)
			} else if !slices.Equal(all[at].Steps, c.Steps) || !slices.Equal(all[at].Values, c.Values) {
				return nil, nil, fmt.Errorf("%s: another learning curve of %s, fold %d, seed %d than an earlier file has", path, c.Initialisation, c.Fold, c.Seed)
			}
		}
		if !found {
			notes = append(notes, fmt.Sprintf("%s: no learning curve of a run that is compared: a name before it must be that of its scores", path))
		}
	}
	return all, notes, nil
}

// describe tells a run from others.
func describe(r eval.Trial) string {
	return fmt.Sprintf("%s, fold %d, %s of the training cases, seed %d", r.Initialisation, r.Fold, table.Percent(r.Fraction), r.Seed)
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
func (o compareOptions) write(cmd *cobra.Command, s experiment.Scored, paths, left []string) error {
	curves, notes, err := o.curves(s.Runs)
	if err != nil {
		return err
	}
	for _, note := range notes {
		say(cmd.ErrOrStderr(), "WARNING: %s", note)
	}
	s.Curves = curves
	// before the work
	if err := claim.Check(o.Out, comparison, experiment.ReportFiles()...); err != nil {
		return err
	}
	subtitle := numbers.Count(len(s.Runs), "run") + " of " + strings.Join(slashed(paths), ", ")
	if len(left) > 0 {
		subtitle += "; left out: " + strings.Join(left, ", ")
	}
	page, err := s.Report("Comparison", subtitle)
	if err != nil {
		return err
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	if err := claim.Take(o.Out, comparison, experiment.ReportFiles()...); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(o.Out, experiment.ScoresFile), table.Runs(s.Runs).CSV); err != nil {
		return err
	}
	of := filepath.Join(o.Out, experiment.CurvesFile)
	if len(s.Curves) > 0 {
		err = writeFile(of, table.Curves(s.Curves).CSV)
	} else if err = os.Remove(of); errors.Is(err, fs.ErrNotExist) {
		err = nil // it would be of an earlier comparison
	}
	if err != nil {
		return err
	}
	return page.Write(o.Out, experiment.ReportName)
}

func slashed(paths []string) (all []string) {
	for _, path := range paths {
		all = append(all, filepath.ToSlash(path))
	}
	return all
}

// studies are the runs of several files.
type studies struct {
	names, paths []string // of each file: what stands before its initialisations
	runs         []eval.Trial
	from         []int // the file of each run
	notes        []string
}

func newStudies(args []string) (*studies, error) {
	s := &studies{}
	for _, arg := range args {
		name, path := nameOf(arg)
		if path == "" {
			return nil, usagef("%q names no file", arg)
		}
		if stat, err := os.Stat(path); err == nil && stat.IsDir() {
			path = filepath.Join(path, experiment.ScoresFile)
		}
		s.names, s.paths = append(s.names, name), append(s.paths, path)
	}
	return s, nil
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
			return withHint(fmt.Errorf("%s and %s have other scores of %s", s.paths[s.from[at]], s.paths[n], describe(r)),
				"if these are two experiments, name them: a=%s b=%s", s.paths[s.from[at]], s.paths[n])
		}
		shared++
	}
	if shared > 0 {
		s.notes = append(s.notes, fmt.Sprintf("%s: %s that another file has, too, with the same scores, counted once", s.paths[n], numbers.Count(shared, "run")))
	}
	return nil
}

// sameScores compares all numbers of all cases and labels, to the bit.
func sameScores(a, b []eval.Score) bool {
	type labelOf struct {
		id    string
		label uint16
	}
	of := func(scores []eval.Score) map[labelOf]string {
		m := map[labelOf]string{}
		for _, s := range scores {
			// the shortest text of each number, which tells it from all others
			m[labelOf{s.Case, s.Label}] = fmt.Sprint(s)
		}
		return m
	}
	return maps.Equal(of(a), of(b))
}

// sameTests makes sure that each run and that of the baseline it is compared with were tested on
// the same cases. Where some differ, those that both have are compared, which it says once for each
// fold. Means over other structures are told, too.
func sameTests(s experiment.Scored, label int) (notes []string, err error) {
	names := map[uint16]string{}
	for _, r := range s.Runs {
		for _, score := range r.Scores {
			if known := names[score.Label]; known != "" && score.Name != "" && known != score.Name {
				return nil, withHint(fmt.Errorf("label %d is %s in some runs and %s in others", score.Label, plain.Text(known), plain.Text(score.Name)), "compare runs that number their structures alike")
			}
			names[score.Label] = cmp.Or(names[score.Label], score.Name)
		}
	}
	told, other := map[int]bool{}, map[string]bool{} // folds, initialisations
	for _, r := range s.Runs {
		at := slices.IndexFunc(s.Runs, func(b eval.Trial) bool {
			return b.Initialisation == s.Baseline && b.Fold == r.Fold && b.Fraction == r.Fraction && b.Seed == r.Seed
		})
		if at < 0 || r.Initialisation == s.Baseline {
			continue
		}
		base := s.Runs[at]
		cases, theirs := casesOf(r), casesOf(base)
		shared := 0
		for id := range cases {
			if theirs[id] {
				shared++
			}
		}
		switch {
		case shared == 0:
			return nil, withHint(fmt.Errorf("no test case of %s is one of %s in the same fold: these are folds of other divisions", describe(r), s.Baseline), "compare runs whose folds test on the same cases")
		case (shared < len(cases) || shared < len(theirs)) && !told[r.Fold]:
			told[r.Fold] = true
			notes = append(notes, fmt.Sprintf("%s was tested on %s, %s on %d, of which %d are the same: differences are over the cases that both have, means over each run's own",
				describe(r), numbers.Count(len(cases), "case"), s.Baseline, len(theirs), shared))
		}
		if labels, of := eval.Labels(r.Scores), eval.Labels(base.Scores); label == 0 && !slices.Equal(labels, of) && !other[r.Initialisation] {
			other[r.Initialisation] = true
			notes = append(notes, fmt.Sprintf("%s was scored on labels %s, %s on %s: their means are of other structures; --label N compares one", describe(r), commas(labels), s.Baseline, commas(of)))
		}
	}
	return notes, nil
}

func casesOf(r eval.Trial) map[string]bool {
	cases := map[string]bool{}
	for _, s := range r.Scores {
		cases[s.Case] = true
	}
	return cases
}

func commas(labels []uint16) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(labels), " ", ", "), "[]")
}
