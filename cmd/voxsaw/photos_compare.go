package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/photostudy"
)

type photoCompareOptions struct {
	photostudy.Plan `yaml:",inline"`
	Machine         deviceOptions `yaml:"machine"`
	Memory          gibibytes     `yaml:"memory,omitempty" help:"limit for the networks, 32 MiB of it for the program itself; prepared photographs, which are mapped, do not count: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
}

func newPhotoCompare() *cobra.Command {
	o := &photoCompareOptions{Plan: photostudy.DefaultPlan(), Machine: defaultDevice()}
	var out string
	var asJSON bool
	cmd := verb("compare",
		"Compare what networks learn from photographs: arms x seeds, puzzles solved and features measured",
		`Runs a comparison from one YAML file: each arm is trained with each seed, puzzles of held-out photographs are solved with it round by round (with unary
terms alone and with binary ones, from the same weights), and its features are measured by linear machines on labelled photographs. An arm with random
weights must be among them.

Run it again to go on where it stopped; finished arms are not repeated.`,
		`  voxsaw 2d compare --config configs/photos-cpu.yaml --out runs/photos`,
		cobra.NoArgs, o, func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return withHint(usagef("no folder for the comparison"), "add --out FOLDER")
			}
			return runPhotoCompare(cmd, *o, out, asJSON)
		})
	cmd.Flags().StringVar(&out, "out", "", "folder of the comparison")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the results as JSON")
	return cmd
}

func runPhotoCompare(cmd *cobra.Command, o photoCompareOptions, out string, asJSON bool) error {
	if err := o.Plan.Check(); err != nil {
		return &usageError{err}
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	results, err := photostudy.Run(cmd.Context(), o.Plan, photostudy.Setting{Out: out, Device: dev,
		Memory: o.Memory.planned(), Console: &console{w: cmd.ErrOrStderr()}})
	failed := err
	if failed != nil && len(results) > 0 {
		say(cmd.ErrOrStderr(), "%s", photostudy.Finished(o.Plan, results))
	}
	if failed != nil && (len(results) == 0 || cmd.Context().Err() != nil) {
		return explainStudy(failed)
	}
	// the table of those that are finished, whatever became of the others
	return errors.Join(printComparison(cmd, o, out, asJSON, results), explainStudy(failed))
}

// printComparison prints the tables of the arms that are finished, and writes the report.
func printComparison(cmd *cobra.Command, o photoCompareOptions, out string, asJSON bool,
	results []photostudy.Result) error {
	var err error
	if asJSON {
		err = printJSON(cmd.OutOrStdout(), results)
	} else {
		err = printPhotoTables(cmd.OutOrStdout(), o.Plan, results)
	}
	resolved, wrong := config.Marshal(&o)
	if wrong == nil {
		wrong = writeFile(filepath.Join(out, photostudy.ConfigFile), func(w io.Writer) error {
			_, err := w.Write(resolved)
			return err
		})
	}
	if wrong == nil {
		wrong = atomicfile.Seal(out, photostudy.ConfigFile)
	}
	page := photostudy.Report(o.Plan, results, string(resolved))
	if err := errors.Join(err, wrong, page.Write(out, photostudy.ReportName)); err != nil || asJSON {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "report: %s\n", filepath.Join(out, photostudy.ReportName+".html"))
	return err
}

func printPhotoTables(w io.Writer, plan photostudy.Plan, results []photostudy.Result) error {
	for _, t := range photostudy.Tables(plan, results) {
		if err := printTable(w, t); err != nil {
			return err
		}
	}
	return nil
}
