package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/cluster"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/experiment/photostudy"
)

type photoCompareOptions struct {
	photostudy.Plan `yaml:",inline"`
	Machine         deviceOptions `yaml:"machine"`
	Memory          gibibytes     `yaml:"memory,omitempty" help:"limit for the networks, 32 MiB of it for the program itself; prepared photographs, which are mapped, do not count: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
}

func newPhotoCompare() *cobra.Command {
	o := &photoCompareOptions{Plan: photostudy.DefaultPlan(), Machine: defaultDevice()}
	f := &studyFlags{}
	cmd := verb("compare",
		"Compare what networks learn from photographs: arms x seeds, puzzles solved and features measured",
		`Runs a comparison from one YAML file: each arm is trained with each seed, puzzles of held-out photographs are solved with it round by round (with unary
terms alone and with binary ones, from the same weights), and its features are measured by linear machines on labelled photographs. An arm with random
weights must be among them.

Run it again to go on where it stopped; finished arms are not repeated. Run it several times at once, on one machine or on many that share the
folder: each process takes the next arm and seed that no other is at work on. --write slurm writes the script of a Slurm job array, --write kubernetes an
Indexed Job, an arm with a seed each.`,
		`  voxsaw 2d compare --config configs/photos-cpu.yaml --out runs/photos
  voxsaw 2d compare --config configs/photos-cpu.yaml --out runs/photos --write slurm`,
		cobra.NoArgs, o, func(cmd *cobra.Command, _ []string) error {
			if f.out == "" {
				return withHint(usagef("no folder for the comparison"), "add --out FOLDER")
			}
			return runPhotoCompare(cmd, *o, *f)
		})
	f.bind(cmd, "comparison")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print the results as JSON")
	return cmd
}

func runPhotoCompare(cmd *cobra.Command, o photoCompareOptions, f studyFlags) error {
	if err := f.check(jobOf(cmd.Context()), false); err != nil {
		return err
	}
	if err := o.Plan.Check(); err != nil {
		return &usageError{err}
	}
	if f.write != "" {
		j := cluster.Job{Ranks: 1, Trials: len(o.Arms) * len(o.Seeds), Paths: [][2]string{{"photos", o.Photos}}}
		for _, t := range o.Transfer {
			j.Paths = append(j.Paths, [2]string{"data of transfer " + t.Name, t.Data})
		}
		return f.writeCluster(cmd, &o, o.Machine, o.Memory, j, o.Plan.Needs)
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	found, failed := photostudy.Run(cmd.Context(), o.Plan, experiment.Setting{Out: f.out, Device: dev,
		Memory: o.Memory.planned(), Console: &console{w: cmd.ErrOrStderr()}, Trial: int(f.trial), Finished: f.finished})
	results := found.Results
	if failed != nil && len(results) > 0 {
		say(cmd.ErrOrStderr(), "%s", photostudy.Finished(o.Plan, results))
	}
	f.noteElsewhere(cmd.ErrOrStderr(), found.Elsewhere, len(results))
	if len(results) == 0 || failed != nil && cmd.Context().Err() != nil {
		return explainStudy(failed)
	}
	if f.trial > 0 {
		return errors.Join(printPhotos(cmd.OutOrStdout(), o.Plan, results, f.asJSON), explainStudy(failed))
	}
	// the table of those that are finished, whatever became of the others
	return errors.Join(printComparison(cmd, o, f, results), explainStudy(failed))
}

// printComparison prints the tables of the arms that are finished, and writes the report.
func printComparison(cmd *cobra.Command, o photoCompareOptions, f studyFlags, results []photostudy.Result) error {
	err := printPhotos(cmd.OutOrStdout(), o.Plan, results, f.asJSON)
	resolved, wrong := config.Marshal(&o)
	if wrong == nil {
		wrong = errors.Join(atomicfile.WriteBytes(filepath.Join(f.out, photostudy.ConfigFile), resolved),
			atomicfile.Seal(f.out, photostudy.ConfigFile))
	}
	page := photostudy.Report(o.Plan, results, string(resolved))
	if err := errors.Join(err, wrong, page.Write(f.out, photostudy.ReportName)); err != nil || f.asJSON {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "report: %s\n", filepath.Join(f.out, photostudy.ReportName+".html"))
	return err
}

// printPhotos prints the tables of the results, or the results.
func printPhotos(w io.Writer, plan photostudy.Plan, results []photostudy.Result, asJSON bool) error {
	if asJSON {
		return printJSON(w, results)
	}
	for _, t := range photostudy.Tables(plan, results) {
		if err := printTable(w, t); err != nil {
			return err
		}
	}
	return nil
}
