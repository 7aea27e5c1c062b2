package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"

	// The guests: networks and pretext tasks, which nothing else here names.
	_ "github.com/voxsaw/voxsaw/internal/backbone/all"
	_ "github.com/voxsaw/voxsaw/internal/restoration"
	_ "github.com/voxsaw/voxsaw/internal/rubik"
	_ "github.com/voxsaw/voxsaw/internal/spatial"
	_ "github.com/voxsaw/voxsaw/puzzle3d"
)

// newRoot is the command line: one verb a file.
func newRoot() *cobra.Command { return rootOf("") }

// rootOf is the command line with the verb of that name alone, and with all verbs where there is
// none. To bind the settings of all takes longer than many a command.
func rootOf(name string) *cobra.Command {
	cobra.EnableCommandSorting = false
	root := &cobra.Command{
		Use:   "voxsaw",
		Short: "Pretrain 3D networks on unlabelled CT with jigsaw puzzles, then segment organs",
		Long: `Voxsaw pretrains a network on scans without labels by solving 3D jigsaw puzzles,
fine-tunes it on a few labelled ones, writes label maps and reports Dice fold by fold.

See it work:           voxsaw demo
On your own scans:     voxsaw auto SCANS --out runs/auto --hours 3
or step by step:       voxsaw inspect SCANS
                       voxsaw prepare SCANS --out prepared
                       voxsaw pretrain --data prepared --out runs/puzzles
                       voxsaw finetune --data prepared --init runs/puzzles --out runs/organs
                       voxsaw predict SCANS --checkpoint runs/organs --out labels

Results go to standard output, progress and messages to standard error. Exit codes: 0 success, 1 failure,
2 a mistake on the command line or in a configuration file, 130 interrupted, with everything saved that
can be resumed.

Flags are keys of the YAML file of --config, but for those about one command line: docs/settings.md lists
both. voxsaw completion writes completions for your shell.`,
		Version:       voxsaw.About(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          verbMistake,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagMistake)
	root.AddGroup(&cobra.Group{ID: "data", Title: "Scans:"}, &cobra.Group{ID: "train", Title: "Learning:"},
		&cobra.Group{ID: "result", Title: "Results:"}, &cobra.Group{ID: "machine", Title: "This machine:"})
	all := allVerbs()
	known := slices.ContainsFunc(all, func(v makeVerb) bool { return v.name == name })
	for _, v := range all {
		if !known || v.name == name {
			cmd := v.make()
			cmd.GroupID = v.group
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(ofReleases...)
	helpOnVerbs(root)
	eachCommand(root, completeFlags)
	eachCommand(root, helpOf)
	return root
}

// A makeVerb makes a verb of a group.
type makeVerb struct {
	group, name string
	make        func() *cobra.Command
}

// allVerbs are in the order of the help.
func allVerbs() []makeVerb {
	return []makeVerb{
		{"data", "inspect", newInspect}, {"data", "plan", newPlan}, {"data", "prepare", newPrepare},

		{"train", "auto", newAuto}, {"train", "pretrain", newPretrain}, {"train", "solve", newSolve},
		{"train", "finetune", newFinetune}, {"train", selftrainVerb, newSelftrain}, {"train", "2d", newPhotos},

		{"result", "predict", newPredict}, {"result", "next", newNext}, {"result", "evaluate", newEvaluate},
		{"result", "crossval", newCrossval}, {"result", "compare", newCompare}, {"result", "power", newPower},
		{"result", "report", newReport}, {"result", "view", newView}, {"result", "verify", newVerify},
		{"result", "convert", newConvert}, {"result", "export", newExport}, {"result", "demo", newDemo},

		{"machine", "doctor", newDoctor}, {"machine", "tune", newTune}, {"machine", "bench", newBench},
		{"machine", "version", newVersion},
	}
}

// ofReleases are verbs that only the making of a release has.
var ofReleases []*cobra.Command

// eachCommand visits a command and all below it.
func eachCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		eachCommand(c, visit)
	}
}

// verb makes a command whose options are the struct cfg: flags and YAML file are bound to it, and
// run is called once it has its final values.
func verb(use, short, long, example string, args cobra.PositionalArgs, cfg any,
	run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example,
		Args: func(cmd *cobra.Command, a []string) error {
			if err := bareFlag(cmd, a); err != nil {
				return err
			}
			if args(cmd, a) != nil {
				return argumentMistake(cmd, a)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, a []string) error {
			j := jobOf(cmd.Context())
			j.saves.Store(saves(cmd))
			if err := j.join(cmd); err != nil {
				return err
			}
			if err := resolve(cmd, cfg); err != nil {
				return err
			}
			if err := checkOut(cmd); err != nil {
				return err
			}
			if text := idleOnCPU(cfg); text != "" {
				say(cmd.ErrOrStderr(), "WARNING: %s", text)
			}
			return whence(cmd, memoryHint(cmd, run(cmd, a)))
		},
	}
	cmd.Flags().SortFlags = false
	config.Bind(cmd.Flags(), cfg)
	return cmd
}
