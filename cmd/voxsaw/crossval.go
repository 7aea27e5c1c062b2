package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/terminal"
)

type crossvalOptions struct {
	experiment.Plan `yaml:",inline"`
	Machine         deviceOptions `yaml:"machine"`
}

func newCrossval() *cobra.Command {
	o := &crossvalOptions{Plan: experiment.DefaultPlan(), Machine: defaultDevice()}
	var out string
	var memory gibibytes
	var dry, asJSON bool
	cmd := verb("crossval", "Run a whole experiment: folds x fractions x initialisations x seeds",
		`Runs the experiment of the paper's Table 3 from one YAML file: for each fold, fraction of the training cases, initialisation and seed a
fine-tuning run, predictions of the test cases and their scores. It ends in the table (mean ± sd, gain over scratch run by run with
its interval) and a report. Encoders are pretrained on the way, on cases that the fold does not test on.

Run it again to go on where it stopped; finished runs are not repeated. An experiment may grow by folds, fractions, seeds and
initialisations; anything else is another experiment, in a folder of its own.`,
		`  voxsaw crossval --config configs/openkbp-cpu.yaml --out runs/table3`,
		cobra.NoArgs, o, func(cmd *cobra.Command, _ []string) error {
			if out == "" && !dry {
				return withHint(usagef("no folder for the experiment"), "add --out FOLDER")
			}
			return runCrossval(cmd, *o, out, memory, dry, asJSON)
		})
	cmd.Flags().StringVar(&out, "out", "", "folder of the experiment")
	cmd.Flags().Var(&memory, "memory", "limit in GiB for the networks, 32 MiB of it for the program itself; scoring a scan is not counted: up to 50 bytes a voxel; 0: what the machine has")
	cmd.Flags().BoolVar(&dry, "plan", false, "list the trials, who trains, who tests and who pretrains, and stop")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the table, or the plan, as JSON")
	return cmd
}

func runCrossval(cmd *cobra.Command, o crossvalOptions, out string, memory gibibytes, dry, asJSON bool) error {
	o.Plan.Follow()
	if err := o.Plan.Check(); err != nil {
		return &usageError{err}
	}
	if dry {
		return printPlan(cmd.OutOrStdout(), o.Plan, asJSON)
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	s := experiment.Setting{Out: out, Device: dev, Memory: memory.planned(), Console: &console{w: cmd.ErrOrStderr()}}
	result, err := experiment.Run(cmd.Context(), o.Plan, s)
	if err != nil {
		if result != nil && len(result.Runs) > 0 {
			say(cmd.ErrOrStderr(), "%d trials are finished", len(result.Runs))
		}
		return explainStudy(err)
	}
	return explainStudy(printResult(cmd.Context(), cmd.OutOrStdout(), result, "Cross-validation", s, asJSON))
}

// explainStudy adds a hint to the error of an experiment: what the user can do about it. Unlike a
// training, one may be stopped where nothing is to be saved: while test cases are scored, or the
// report is drawn.
func explainStudy(err error) error {
	const again = "the same command"
	var training *voxsaw.InterruptedError
	if errors.Is(err, context.Canceled) && !errors.As(err, &training) {
		return withHint(err, "%s goes on from there", again)
	}
	return explain(err, again, "choose another --out folder")
}

// printResult writes the experiment's report and all its scores, and prints its table.
func printResult(ctx context.Context, w io.Writer, r *experiment.Result, title string, s experiment.Setting, asJSON bool) error {
	page, err := r.Report(ctx, title, s)
	if err != nil {
		return err
	}
	if err := page.Write(s.Out, "report"); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(s.Out, "scores.csv"), table.Runs(r.Runs).CSV); err != nil {
		return err
	}
	curves, err := r.LearningCurves(s.Out)
	if err != nil {
		return err
	}
	if len(curves) > 0 {
		if err := writeFile(filepath.Join(s.Out, "curves.csv"), table.Curves(curves).CSV); err != nil {
			return err
		}
	}
	folds, err := r.Table()
	if err != nil {
		return err
	}
	t := table.Folds(folds)
	if asJSON {
		return t.JSON(w)
	}
	if err := printTable(w, t); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "report: %s\n", filepath.Join(s.Out, "report.html"))
	return err
}

// printPlan tells what would run: the trials, then who tests in each fold, then who pretrains.
func printPlan(w io.Writer, p experiment.Plan, asJSON bool) error {
	preview, err := experiment.Look(p)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(w, preview)
	}
	trials := terminal.TableData{Title: fmt.Sprintf("%d trials", len(preview.Trials)), Header: []string{"trial", "training cases", "test cases", "trained on"}, Right: []bool{false, true, true, false}}
	for _, x := range preview.Trials {
		trials.Rows = append(trials.Rows, []string{x.Name(), fmt.Sprint(len(x.Train)), fmt.Sprint(len(x.Test)), list(x.Train)})
	}
	if err := terminal.Table(w, trials); err != nil {
		return err
	}
	tests := terminal.TableData{Title: "Tested on", Header: []string{"fold", "cases", "names"}, Right: []bool{true, true, false}}
	for _, f := range preview.Cases.Folds {
		tests.Rows = append(tests.Rows, []string{fmt.Sprint(f.Fold), fmt.Sprint(len(f.Test)), list(f.Test)})
	}
	tests.Notes = preview.Doubts
	if err := terminal.Table(w, tests); err != nil {
		return err
	}
	if set := preview.Cases.Unlabelled; len(set) > 0 {
		if _, err := fmt.Fprintf(w, "set aside for pretraining, never trained or tested on with labels: %s\n\n", list(set)); err != nil {
			return err
		}
	}
	if len(preview.Encoders) == 0 {
		return nil
	}
	encoders := terminal.TableData{Title: "Pretrained on, without labels", Header: []string{"initialisation", "fold", "cases", "names"}, Right: []bool{false, true, true, false}}
	for _, e := range preview.Encoders {
		fold := "all"
		if e.Fold > 0 {
			fold = fmt.Sprint(e.Fold)
		}
		if p.Encoders > 1 {
			fold += fmt.Sprintf(", encoder %d", e.Number)
		}
		encoders.Rows = append(encoders.Rows, []string{e.Init, fold, fmt.Sprint(len(e.Cases)), list(e.Cases)})
		if len(e.Left) > 0 {
			encoders.Notes = append(encoders.Notes, fmt.Sprintf("%s: left out of %s, for folds test on them or their patients: %s", e.Init, e.Data, list(e.Left)))
		}
	}
	return terminal.Table(w, encoders)
}

// console shows an experiment on standard error.
type console struct {
	w   io.Writer
	now *trainProgress
}

func (c *console) Training(name, items string) voxsaw.Observer {
	c.now = newTrainProgress(c.w, name, items)
	return c.now
}

func (c *console) Trained() {
	if c.now != nil {
		c.now.finish()
		c.now = nil
	}
}

func (c *console) Note(text string) { say(c.w, "%s", text) }
