package cli

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/nnplan"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

// What a plan is written for.
const (
	toVoxsaw  = "voxsaw"
	toPrepare = "prepare"
)

// encoders are those that it is written for as plans.json of nnU-Net.
var encoders = map[string]planning.Encoder{"nnunet": planning.Plain, "nnunet-resencm": planning.Residual,
	"nnunet-resencl": planning.ResidualL, "nnunet-resencxl": planning.ResidualXL}

// plannedResidual is what --network says of nnU-Net's residual encoder.
const plannedResidual = "resenc"

// planNNUNet writes plans.json of nnU-Net.
func planNNUNet(cmd *cobra.Command, o planOptions, encoder planning.Encoder, paths []string) error {
	if len(paths) > 1 {
		return withHint(usagef("--to %s plans for one folder of nnUNet_raw", o.To), "name one folder")
	}
	var unused []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains([]string{"to", "out", "force", "gpu-memory-target", config.FileFlag}, f.Name) {
			unused = append(unused, f.Name)
		}
	})
	if err := notBeside(cmd, "nnU-Net's plan knows no time and no machine, and reads the folder as its dataset.json "+
		"has it", o.To, unused...); err != nil {
		return err
	}
	var progress terminal.Progress
	f, err := nnplan.Extract(cmd.Context(), paths[0], dataset.DefaultReadOptions(), func(_, of int) {
		if progress == nil {
			progress = terminal.NewProgress(cmd.ErrOrStderr(), "plan", of)
		}
		progress.Add(1)
	})
	if progress != nil {
		progress.Finish()
	}
	if err != nil {
		return err
	}
	if n := len(f.Spacings); n != f.Training {
		say(cmd.ErrOrStderr(), "WARNING: dataset.json says numTraining %d, and %s with labels are there: nnU-Net's "+
			"batches go by what it says; write the right number into it", f.Training, numbers.Count(n, "case"))
	}
	text, p, err := f.Plans(encoder, o.Target)
	if err != nil {
		return err
	}
	if err := o.write(func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}); err != nil {
		return err
	}
	row := func(name string, c planning.Configuration, first int) []string {
		var spacing []float64
		for _, s := range c.Spacing[first:] {
			spacing = append(spacing, round(s, 5))
		}
		return []string{name, numbers.Extents(spacing), numbers.Extents(c.Patch[first:]), fmt.Sprint(c.Batch),
			fmt.Sprint(len(c.Strides))}
	}
	t := terminal.TableData{Title: o.Out, Header: []string{"", "spacing (mm)", "patch", "batch", "stages"},
		Rows:  [][]string{row("2d", p.Flat, 1), row("3d_fullres", p.Full, 0)},
		Notes: []string{"axes as nnU-Net has them, the one of the largest spacing first"}}
	if p.Low != nil {
		t.Rows = append(t.Rows, row("3d_lowres", *p.Low, 0))
	}
	if err := terminal.Table(cmd.OutOrStdout(), t); err != nil {
		return err
	}
	say(cmd.ErrOrStderr(), "for nnU-Net: put it into nnUNet_preprocessed/%s as %s.json, with dataset.json beside it; "+
		"then nnUNetv2_preprocess -d NUMBER -plans_name %s", f.Name, encoder.PlansName, encoder.PlansName)
	return nil
}
