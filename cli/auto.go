package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/voxsaw/voxsaw/internal/auto"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume"
)

type autoOptions struct {
	Hours    float64       `yaml:"hours" help:"time of the whole job" range:"(0,)"`
	Labels   []string      `yaml:"labels" help:"labels to learn, as finetune --labels has them; empty: all"`
	Modality string        `yaml:"modality,omitempty" help:"what the scans are, as prepare --modality has it: CT, MR, PT or another of DICOM's words; empty: as the scans say"`
	Plans    string        `yaml:"plans,omitempty" help:"plans.json of nnU-Net, by which scans are prepared and a network is planned, as plan --plans has it"`
	Network  string        `yaml:"network" help:"network that is planned, as plan --network has it" oneof:"vnet unet resenc"`
	Machine  deviceOptions `yaml:"machine"`
	Memory   gibibytes     `yaml:"memory" help:"limit: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
}

func newAuto() *cobra.Command {
	o := &autoOptions{Hours: defaultHours, Network: backbone.Default, Machine: defaultDevice()}
	var out string
	var resume bool
	cmd := verb(
		"auto SCANS... | PREPARED",
		"The whole job on your scans within a time: from scans to networks that predict",
		`Looks at the scans, prepares them, plans for this machine and this time, pretrains where there
is time, fine-tunes a network for each fold, and puts the networks into one folder, which predict takes;
then it lists the label maps that look doubtful, and writes a report. Where the time is short there are
two networks: one that leaves out a fold, and one of all labelled scans.

Each stage is a command that you could type; commands.sh in the folder has them all, as they make the
same bytes. Scans that need more to be said about them (--pairs, --structures, --channels and the like)
are prepared by hand first: name the prepared folder instead.

Scans that cannot be read are named and left out, as long as half of all, and half of those with labels,
are left.

How the time is divided is said first, and kept: the number of steps follows from it. Ctrl-C saves and
stops, and says what can be used already; the same command, or --resume, goes on from there.`,
		`  voxsaw auto scans --out runs/auto --hours 3
  voxsaw auto --resume --out runs/auto`,
		cobra.ArbitraryArgs,
		o,
		func(cmd *cobra.Command, args []string) error {
			return runAuto(cmd, *o, out, resume, args)
		},
	)
	cmd.Flags().StringVar(&out, "out", "", "folder of the job: prepared cases, plan, runs, model, report")
	cmd.Flags().BoolVar(&resume, "resume", false, "go on with the job in the folder; its scans and its hours lie there")
	return cmd
}

func runAuto(cmd *cobra.Command, o autoOptions, out string, resume bool, scans []string) error {
	if out == "" {
		return withHint(usagef("no folder for the job"), "add --out FOLDER")
	}
	if err := oneNetwork(cmd, o.Plans); err != nil {
		return err
	}
	// what is wrong with the plans is said before a job begins
	how := volume.DefaultPreparation()
	if err := likePlan(cmd, o.Plans, &how); err != nil {
		return err
	}
	before, err := auto.Begun(out)
	if err != nil {
		return err
	}
	begun := len(before.Scans) > 0
	switch {
	case begun && (len(scans) == 0 || before.Has(scans)):
		scans = before.Scans
		if err := absoluteTuning(cmd); err != nil {
			return err
		}
		if o.Plans != "" {
			if o.Plans, err = filepath.Abs(o.Plans); err != nil {
				return err
			}
		}
		moved, err := before.Return(out)
		if err != nil {
			return err
		}
		if moved {
			say(cmd.ErrOrStderr(), "the job was begun in %s: paths below are from there", before.From)
			out = before.Out
		}
	case len(scans) > 0:
	case resume:
		return withHint(usagef("%s holds no job to go on with", out), "voxsaw auto SCANS --out %s begins one",
			hint.Word(out))
	default:
		return withHint(usagef("no scans"), "voxsaw auto SCANS --out %s", hint.Word(out))
	}
	if begun && !givenNow(cmd, cmd.Flags().Lookup("hours")) {
		o.Hours = before.Hours
	}
	store, err := openPrepared(scans)
	if err != nil {
		return err
	}
	if store != nil {
		if err := errors.Join(beforePreparing(cmd, scans[0]), store.Close()); err != nil {
			return err
		}
	}
	var s stageOf
	job := auto.Job{
		Out: out, Scans: scans, Hours: o.Hours, Machine: machineFlags(cmd), Modality: o.Modality,
		Plans:   o.Plans,
		Command: func(ctx context.Context, args []string) error { return carryOut(ctx, cmd, args, &s) },
		Say:     func(format string, args ...any) { say(cmd.ErrOrStderr(), format, args...) },
	}
	if givenNow(cmd, cmd.Flags().Lookup("network")) {
		job.Network = o.Network
	}
	for _, label := range o.Labels {
		job.Labels = append(job.Labels, "--labels", label)
	}
	result, err := job.Run(cmd.Context())
	if err != nil {
		return err
	}
	return printJob(cmd, result)
}

// absoluteTuning makes the path of a tuning file hold in any folder: a job goes on in the one in
// which it was begun.
func absoluteTuning(cmd *cobra.Command) error {
	f := cmd.Flags().Lookup("tuning")
	if f == nil || !givenNow(cmd, f) || f.Value.String() == "" {
		return nil
	}
	path, err := filepath.Abs(f.Value.String())
	if err != nil {
		return err
	}
	return f.Value.Set(path)
}

// machineFlags are the flags about the machine as the user gave them, in a file too.
func machineFlags(cmd *cobra.Command) (flags []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if key := config.Key(f); givenNow(cmd, f) && (key == "memory" || strings.HasPrefix(key, "machine.")) {
			flags = append(flags, fmt.Sprintf("--%s=%s", f.Name, f.Value))
		}
	})
	return flags
}

// stageKey is the context key of a [stageOf], in commands that are stages of a job.
type stageKey struct{}

// stageOf is what the stages of a job have said already.
type stageOf struct {
	fingerprint bool
	decided     map[string]string // by a plan, by what it is about
}

// isStage tells whether a command is a stage of a job, which knows by itself what comes next.
func isStage(ctx context.Context) bool { return ctx.Value(stageKey{}) != nil }

// carryOut carries out a command as if it had been typed.
func carryOut(ctx context.Context, cmd *cobra.Command, args []string, s *stageOf) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(cmd.OutOrStdout())
	root.SetErr(cmd.ErrOrStderr())
	ctx = context.WithValue(ctx, stageKey{}, s)
	defer debug.FreeOSMemory() // the next stage plans with what is free
	return root.ExecuteContext(ctx)
}

// chosenBySameScans says which scores of a job's networks are a little too good, because the scored
// scans also chose what is done after prediction; "" where they chose nothing.
func chosenBySameScans(model string) string {
	members, err := train.Ensemble(model)
	if err != nil {
		return "" // voxsaw predict says what is wrong with the folder
	}
	var labels []string
	networks := 0
	for _, m := range members {
		d, err := checkpoint.Read(m)
		if err != nil || len(d.Kept()) == 0 {
			continue
		}
		networks++
		for _, k := range d.Kept() {
			if !slices.Contains(labels, k.Label) {
				labels = append(labels, k.Label)
			}
		}
	}
	if networks == 0 {
		return ""
	}
	slices.SortFunc(labels, numbers.CompareNatural)
	return fmt.Sprintf("%d of %s keep only the largest component of label %s, which these very scans chose: there the "+
		"DSC is a little too good. Together they do so where all of them chose it; voxsaw crossval measures it on "+
		"scans that chose nothing", networks, numbers.Count(len(members), "network"), strings.Join(labels, ", "))
}

// printJob tells what a job has made.
func printJob(cmd *cobra.Command, r *auto.Result) error {
	stdout := cmd.OutOrStdout()
	if len(r.Scores) > 0 {
		t := terminal.TableData{
			Title: fmt.Sprintf("DSC of held-out scans, %s, as the training measures it",
				numbers.Count(r.Folds, "fold")),
			Header: []string{"structure", "mean DSC (%)"},
		}
		if note := chosenBySameScans(r.Model); note != "" {
			t.Notes = append(t.Notes, note)
		}
		for _, s := range r.Scores {
			dsc := "in no held-out scan"
			if !math.IsNaN(s.DSC) {
				dsc = fmt.Sprintf("%.2f", 100*s.DSC)
			}
			t.Rows = append(t.Rows, []string{s.Structure, dsc})
		}
		if err := terminal.Table(stdout, t); err != nil {
			return err
		}
	}
	say(stdout, "report: %s", r.Report)
	if r.Model == "" {
		say(stdout, "no scan has labels: the encoder is what voxsaw finetune --init takes once some have")
		return nil
	}
	say(stdout, "networks: voxsaw predict SCANS --checkpoint %s --out labels", hint.Word(r.Model))
	return nil
}
