package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/triage"
	"github.com/voxsaw/voxsaw/segment"
)

type nextOptions struct {
	Checkpoint []string          `yaml:"checkpoint" help:"run of voxsaw finetune (its best checkpoint), or one checkpoint; several, or all in a folder that is no run's, are averaged, and how little they agree counts"`
	Drawn      bool              `yaml:"drawn" help:"rank the labels that people drew instead: which to look at again; with --checkpoint by what the network draws, too"`
	Out        string            `yaml:"out" help:"new folder for the tables, and for pictures and label maps of the first cases"`
	Count      int               `yaml:"count" help:"how many cases get a picture and a label map" range:"[0,)"`
	Format     string            `yaml:"format" help:"of label maps; scan: DICOM SEG of DICOM scans" oneof:"scan nifti"`
	Inference  segment.Inference `yaml:"inference"`
	JSON       bool              `yaml:"json" help:"print as JSON"`
	Machine    deviceOptions     `yaml:"machine"`
	Memory     gibibytes         `yaml:"memory" help:"limit: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
}

func newNext() *cobra.Command {
	o := &nextOptions{Count: triage.Count, Format: triage.AsScan, Inference: segment.DefaultInference(),
		Machine: defaultDevice()}
	return verb("next PREPARED", "Say which scan to label next, or which labels to look at again",
		`Segments the prepared cases that have no labels and ranks them by what is doubtful about the label maps:
volumes and heights unlike those of the labelled cases, missing structures, components, a partner on the
other side that differs, an edge of the scan that cuts a structure, checkpoints that disagree. Where
labelled cases are there that the network has not learnt from, they tell how much DSC such label maps have.
--drawn does the same to labels that people drew, with a network or without.
A folder gets next.csv, quality.csv (a row for each structure), and of the first cases label maps to correct
and pictures of the slices where label maps differ most, or the structure in doubt is largest.`,
		`  voxsaw next prepared --checkpoint runs/a,runs/b --out next
  voxsaw next prepared --drawn --out doubts`,
		cobra.ExactArgs(1), o, func(cmd *cobra.Command, args []string) error { return runNext(cmd, *o, args[0]) })
}

func runNext(cmd *cobra.Command, o nextOptions, data string) error {
	if len(o.Checkpoint) == 0 && !o.Drawn {
		return withHint(usagef("no checkpoint to segment the scans with"),
			"add --checkpoint FILE, as voxsaw finetune makes it; --drawn ranks drawn labels without any")
	}
	if o.Out == "" {
		return withHint(usagef("nowhere to write"), "add --out FOLDER")
	}
	if err := triage.Untouched(o.Out); err != nil {
		return withHint(&usageError{err},
			"what an earlier run left there was changed, perhaps corrected: choose a new folder for --out")
	}
	memory, stderr := o.Memory.planned(), cmd.ErrOrStderr()
	store, err := openStore(data)
	if err != nil {
		return err
	}
	defer store.Close()
	var network *segment.Predictor
	if len(o.Checkpoint) > 0 {
		if o.Checkpoint, err = checkpointsOf(stderr, o.Checkpoint); err != nil {
			return err
		}
		dev, closeDevice, err := o.Machine.open()
		if err != nil {
			return err
		}
		defer closeDevice()
		if network, err = segment.NewPredictor(dev, o.Checkpoint, o.Inference, memory); err != nil {
			return err
		}
		defer network.Close()
		for _, note := range network.Notes() {
			say(stderr, "%s", note)
		}
	}
	begin, end := oneByOne(stderr, "next")
	ranking, err := triage.Rank(cmd.Context(), store, triage.Options{Drawn: o.Drawn, Network: network, Begin: begin})
	end(err)
	const again = "the same command begins anew"
	if errors.Is(err, context.Canceled) {
		return withHint(err, again)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", data, err)
	}
	// what fails does not cost the table
	failed := ranking.Write(cmd.Context(), o.Out, o.Count, o.Format, func(text string) { say(stderr, "%s", text) })
	if o.JSON {
		err = ranking.Table().JSON(cmd.OutOrStdout())
	} else {
		err = printTable(cmd.OutOrStdout(), ranking.Table())
	}
	if errors.Is(failed, context.Canceled) {
		failed = withHint(failed, again)
	}
	return cmp.Or(failed, err)
}
