package cli

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/table"
)

type compareOptions struct {
	Out      string   `yaml:"out" help:"folder for a report of the comparison and all its scores; empty: none"`
	Baseline string   `yaml:"baseline" help:"initialisation that the others are compared with; empty: scratch, or the first where there is no scratch"`
	Only     []string `yaml:"only" help:"initialisations to look at, beside the baseline; empty: all"`
	Curves   []string `yaml:"curves" help:"curves.csv of the same experiments, for the report: learning curves; [NAME=]FILE"`
	Metric   string   `yaml:"metric" help:"what is printed: dsc, nsd, hd95, hd, assd, predicted, reference or difference"`
	Label    int      `yaml:"label" help:"this label alone; 0: the mean over the labels of a case" most:"65535"`
	JSON     bool     `yaml:"json" help:"print the differences to the baseline as JSON"`
}

func newCompare() *cobra.Command {
	o := &compareOptions{Metric: "dsc"}
	return verb(
		"compare [NAME=]SCORES.csv...",
		"Compare the runs of one experiment, or of several, by their scores alone",
		`Compares initialisations over pairs of runs of the same fold, share of the training cases and
seed: differences with their intervals, p by Holm, a mixed model, and what changes with more labelled
cases and between experiments; in the report of --out also other measures, structures and learning curves. It reads the scores.csv of voxsaw crossval, or folders that hold one, and needs nothing else of
an experiment: runs of several machines, parts of a study in folders of their own, or scores that another
program has made.

NAME= puts a name before the initialisations of a file (NAME/scratch), which tells those of the same name
apart. Of several named experiments, each is compared with that of the baseline. A run that two files
have with the same scores counts once; with other scores it is refused. Runs of a fold whose seeds share
a draw of the labelled cases (column draw) are averaged before anything is tested.

Any table with the columns initialisation, fold, fraction, seed, case, label and dsc will do.`,
		`  voxsaw compare runs/study/scores.csv --baseline scratch
  voxsaw compare part1/scores.csv part2/scores.csv --out compared
  voxsaw compare short=runs/short long=runs/long --baseline short/scratch --only long/scratch`,
		cobra.MinimumNArgs(1),
		o,
		func(cmd *cobra.Command, args []string) error { return runCompare(cmd, *o, args) },
	)
}

// readStudies reads the files of the command line. spare is asked about their paths first.
func readStudies(args []string, spare func(paths []string) error) (s experiment.Studies, paths []string, err error) {
	var names []string
	for _, arg := range args {
		name, path := nameOf(arg)
		if path == "" {
			return s, nil, usagef("%q names no file", arg)
		}
		if strings.Contains(name, "/") {
			return s, nil, withHint(usagef("the name %q has a slash, which "+
				"stands between a name and its initialisations",
				name), "give the experiment a name without one: NAME=%s", path)
		}
		if stat, err := os.Stat(path); err == nil && stat.IsDir() {
			folder := path
			if path = filepath.Join(folder, experiment.ScoresFile); !isThere(path) {
				return s, nil, withHint(fmt.Errorf("%s holds no %s", folder, experiment.ScoresFile),
					"give it the folder of an experiment, where voxsaw crossval writes one")
			}
		}
		names, paths = append(names, name), append(paths, path)
	}
	if err := spare(paths); err != nil {
		return s, nil, err
	}
	for n, path := range paths {
		runs, note, err := readRuns(path)
		if err != nil {
			return s, nil, err
		}
		if note != "" {
			s.Notes = append(s.Notes, note)
		}
		if err := s.Add(names[n], path, runs); err != nil {
			return s, nil, err
		}
	}
	return s, paths, nil
}

// nameOf takes NAME=FILE apart; a file may have a name with an equals sign.
func nameOf(arg string) (name, path string) {
	if _, err := os.Stat(arg); err == nil {
		return "", arg
	}
	if name, path, named := strings.Cut(arg, "="); named && name != "" {
		return name, path
	}
	return "", arg
}

// comparison has the files of a report of voxsaw compare.
var comparison = outdir.Owner{Name: "voxsaw compare", Files: experiment.ReportFiles()}

func runCompare(cmd *cobra.Command, o compareOptions, args []string) error {
	metric, err := o.check()
	if err != nil {
		return err
	}
	studies, paths, err := readStudies(args, o.spareInputs)
	if err != nil {
		return err
	}
	scored := experiment.Scored{Runs: studies.Runs, Baseline: o.Baseline}
	left, err := o.choose(&scored)
	if err != nil {
		return err
	}
	tests, err := scored.SameTests(o.Metric, o.Label)
	if err != nil {
		return err
	}
	options := eval.FoldOptions{Metric: o.Metric, Label: uint16(o.Label), Baseline: scored.Baseline}
	folds, err := eval.Folds(scored.Runs, options)
	if err != nil {
		return err
	}
	found, alone := measured(folds)
	if !found {
		return withHint(fmt.Errorf("no run has %s of label %d", o.Metric, o.Label),
			"label 0 is the mean over all; what is measured, the header of a file says")
	}
	notes := slices.Concat(studies.Notes, tests, scored.Warnings())
	if len(left) > 0 {
		notes = append(notes,
			fmt.Sprintf("left out: %s. Holm's p is adjusted for the comparisons that are shown, as is right "+
				"where they were chosen before anybody looked", list(left)))
	}
	if len(alone) > 0 {
		notes = append(notes,
			fmt.Sprintf("not compared: no run of %s has one of %s of the same "+
				"fold, share of the training cases and seed", list(alone), scored.Baseline))
	}
	for _, note := range notes {
		say(cmd.ErrOrStderr(), "WARNING: %s", note)
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	printed := o.print(cmd, scored, folds, metric, options)
	if o.Out == "" {
		return printed
	}
	if err := o.write(cmd, scored, paths, left); err != nil {
		return errors.Join(printed, fmt.Errorf("%w (the tables are printed)", err))
	}
	if o.JSON || printed != nil {
		return printed
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "report: %s\n",
		safetext.Text(filepath.Join(o.Out, experiment.ReportName+".html")))
	return err
}

// print prints the tables, each of which stands whatever becomes of the next.
func (o compareOptions) print(cmd *cobra.Command, scored experiment.Scored, folds eval.FoldTable, metric eval.Metric,
	options eval.FoldOptions) error {
	w := cmd.OutOrStdout()
	if o.JSON {
		return table.Differences(folds).JSON(w)
	}
	if err := errors.Join(printTable(w, table.Means(folds)), printTable(w, scored.Postprocessing())); err != nil {
		return err
	}
	if len(folds.Initialisations) > 1 {
		if err := printTable(w, table.Differences(folds)); err != nil {
			return err
		}
		runs, without := scored.Paired()
		if len(without) == len(folds.Initialisations)-1 {
			runs = scored.Runs // of which too few are pairs, as the error says
		}
		if fit, err := eval.Mixed(runs, options); err != nil {
			say(cmd.ErrOrStderr(), "no mixed model: %v", err)
		} else {
			t := table.Mixed(fit, metric)
			t.Notes = append(t.Notes, experiment.Without(without)...)
			if err := printTable(w, t); err != nil {
				return err
			}
		}
	}
	noise, err := eval.NoiseOf(scored.Runs, options)
	if err != nil {
		return err
	}
	if len(noise) > 0 {
		if err := printTable(w, table.Noise(noise, metric)); err != nil {
			return err
		}
	}
	changes, err := scored.Changes(metric, options.Label)
	if err != nil {
		return err
	}
	for _, t := range changes {
		if err := printTable(w, t.Table); err != nil {
			return err
		}
	}
	return nil
}

// check refuses what makes no sense, before anything is read.
func (o compareOptions) check() (eval.Metric, error) {
	metric, err := eval.MetricNamed(o.Metric)
	if err != nil {
		return metric, config.Mistaken(err)
	}
	if o.Label < 0 || o.Label > math.MaxUint16 {
		return metric, usagef("label %d: want 1 to %d, or 0 for the mean over all", o.Label, math.MaxUint16)
	}
	if len(o.Curves) > 0 && o.Out == "" {
		return metric, withHint(usagef("learning curves are for the report, and no report is asked for"),
			"add --out FOLDER")
	}
	return metric, nil
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

// measured says whether any run has what is compared, and which initialisations nothing compares
// with the baseline.
func measured(f eval.FoldTable) (found bool, alone []string) {
	for n, name := range f.Initialisations {
		pairs := 0
		for _, row := range f.Cells {
			found = found || row[n].Spread.N > 0
			pairs += row[n].Gain.N
		}
		if name != f.Baseline && pairs == 0 {
			alone = append(alone, name)
		}
	}
	return found, alone
}

// choose settles the baseline, and leaves out the initialisations that nobody asked for.
func (o compareOptions) choose(s *experiment.Scored) (left []string, err error) {
	there := s.Initialisations()
	if len(there) == 0 {
		return nil, withHint(fmt.Errorf("no scores to compare"), "the files hold a header and nothing else")
	}
	s.Names = slices.Clone(there)
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
	left = slices.DeleteFunc(there,
		func(name string) bool { return name == s.Baseline || slices.Contains(o.Only, name) })
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
	of, known := map[key]eval.Trial{}, map[key]int{}
	for _, r := range runs {
		of[key{r.Initialisation, table.Percent(r.Fraction), r.Fold, r.Seed}] = r
	}
	for _, arg := range o.Curves {
		name, path := nameOf(arg)
		curves, err := readCurves(path)
		if err != nil {
			return nil, nil, err
		}
		found := false
		for _, c := range curves {
			c.Initialisation = experiment.InStudy(name, c.Initialisation)
			k := key{c.Initialisation, table.Percent(c.Fraction), c.Fold, c.Seed}
			run, compared := of[k]
			if !compared {
				continue
			}
			c.Fraction, c.Draw, found = run.Fraction, run.Draw, true
			if at, twice := known[k]; !twice {
				known[k] = len(all)
				all = append(all, c)
			} else if !slices.Equal(all[at].Steps, c.Steps) || !slices.Equal(all[at].Values, c.Values) {
				return nil, nil,
					fmt.Errorf("%s: another learning curve of %s, fold %d, seed %d than an earlier file has", path,
						c.Initialisation, c.Fold, c.Seed)
			}
		}
		if !found {
			notes = append(notes,
				fmt.Sprintf("%s: no learning curve of a run that is compared: a "+
					"name before it must be that of its scores", path))
		}
	}
	return all, notes, nil
}

func readCurves(path string) ([]eval.LearningCurve, error) {
	text, err := readWritten(path)
	if err != nil {
		return nil, err
	}
	curves, err := table.ReadCurves(bytes.NewReader(text))
	if err != nil {
		return nil, withHint(fmt.Errorf("%s: %w", path, err), "give it the curves.csv in the folder of an experiment")
	}
	return curves, nil
}

// ofLabel are the runs with the scores of one label.
func ofLabel(runs []eval.Trial, label uint16) []eval.Trial {
	all := slices.Clone(runs)
	for n, r := range all {
		all[n].Scores = slices.DeleteFunc(slices.Clone(r.Scores), func(s eval.Score) bool { return s.Label != label })
	}
	return all
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
	if err := comparison.Check(o.Out); err != nil {
		return err
	}
	subtitle := numbers.Count(len(s.Runs), "run") + " of " + strings.Join(slashed(paths), ", ")
	if len(left) > 0 {
		subtitle += "; left out: " + strings.Join(left, ", ")
	}
	shown := s
	if o.Label != 0 { // as what is printed; the file of scores keeps all
		shown.Runs = ofLabel(s.Runs, uint16(o.Label))
		shown.Curves = nil
		subtitle += fmt.Sprintf("; label %d alone", o.Label)
		if len(s.Curves) > 0 {
			say(cmd.ErrOrStderr(), "learning curves are of the mean over all labels: the report on label %d has none",
				o.Label)
		}
	}
	page, err := shown.Report("Comparison", subtitle)
	if err != nil {
		return err
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	release, err := comparison.Hold(o.Out)
	if err != nil {
		return err
	}
	defer release()
	scores := filepath.Join(o.Out, experiment.ScoresFile)
	parts := []atomicfile.File{{Path: scores, Write: table.Runs(s.Runs).CSV}}
	if len(s.Curves) > 0 {
		parts = append(parts, atomicfile.File{Path: filepath.Join(o.Out, experiment.CurvesFile),
			Write: table.Curves(s.Curves).CSV})
	}
	// what an earlier comparison made of its scores goes; these are replaced, for they may be read
	earlier := func() error {
		return atomicfile.RemoveFrom(o.Out, experiment.CurvesFile, experiment.ReportName+".html",
			experiment.ReportName+".md")
	}
	if err := atomicfile.WriteTogether(earlier, parts...); err != nil {
		return err
	}
	if err := (experiment.Setting{Out: o.Out}).Seal(); err != nil {
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
