package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/terminal"
)

type demoOptions struct {
	Quick   bool          `yaml:"quick" help:"about 25 seconds of a processor with AVX2, over all cores: fewer patients and steps; the networks learn little"`
	Out     string        `yaml:"out" help:"folder for scans, runs and report; empty: voxsaw-demo, or voxsaw-demo-quick"`
	Machine deviceOptions `yaml:"machine"`
}

func newDemo() *cobra.Command {
	o := &demoOptions{Machine: defaultDevice()}
	cmd := verb(
		"demo",
		"The whole job on made-up patients: prepare, pretrain, fine-tune, predict, evaluate",
		`Makes CT scans of patients who do not exist, a few of them labelled, and does with them what the
other commands do with real ones: prepare, pretrain an encoder on 3x3x3 puzzles, solve a puzzle,
fine-tune from scratch and from that encoder, predict, evaluate. Prints the table and writes a report
with pictures and curves. Needs nothing but the program.`,
		`  voxsaw demo
  voxsaw demo --quick --out /tmp/demo`,
		cobra.NoArgs,
		o,
		func(cmd *cobra.Command, _ []string) error { return explainStudy(runDemo(cmd, *o)) },
	)
	cmd.Annotations = map[string]string{asSaved: "yes"}
	return cmd
}

func runDemo(cmd *cobra.Command, o demoOptions) error {
	demo := experiment.FullDemo
	if o.Quick {
		demo = experiment.QuickDemo
	}
	if o.Out == "" {
		o.Out = "voxsaw-demo"
		if o.Quick {
			o.Out = "voxsaw-demo-quick"
		}
	}
	return demonstrate(cmd, demo, o)
}

func demonstrate(cmd *cobra.Command, demo experiment.Demo, o demoOptions) error {
	start := time.Now()
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	stdout, stderr, ctx := cmd.OutOrStdout(), cmd.ErrOrStderr(), cmd.Context()
	scans, prepared := filepath.Join(o.Out, experiment.ScansFolder), filepath.Join(o.Out, experiment.PreparedFolder)
	if err := experiment.TakeDemo(o.Out); err != nil {
		return err
	}
	say(stderr, "%d labelled and %d unlabelled scans of made-up patients in %s", demo.Labelled, demo.Unlabelled, scans)
	progress := terminal.NewProgress(stderr, "scans", demo.Labelled+demo.Unlabelled)
	err = demo.WriteScans(ctx, scans, func() { progress.Add(1) })
	progress.Finish()
	if err != nil {
		return err
	}
	progress = terminal.NewProgress(stderr, "prepare", demo.Labelled+demo.Unlabelled)
	err = demo.Prepare(ctx, scans, prepared, func() { progress.Add(1) })
	progress.Finish()
	if err != nil {
		return err
	}
	s := experiment.Setting{Out: o.Out, Device: dev, Memory: memory.Available(), Console: &console{w: stderr}}
	plan, err := demo.Plan(prepared)
	if err != nil {
		return err
	}
	result, err := experiment.Run(ctx, plan, s)
	if err != nil {
		return err
	}
	path, scores, err := demo.PredictScan(ctx, result, s, scans)
	if err == nil {
		say(stdout, "one test scan, predicted from its file: %s\n", path)
		err = printTable(stdout, table.PerCase(scores))
	}
	if err := errors.Join(err, printOutcome(ctx, stdout, result, "Voxsaw demo", s, false)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s in all, on made-up patients: see that it works, not how well\n",
		terminal.Duration(time.Since(start)))
	return err
}
