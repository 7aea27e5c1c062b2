package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/puzzle3d"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

type pretrainOptions struct {
	puzzle3d.Config `yaml:",inline"`
	Data            string            `yaml:"data" help:"folder of prepared cases; labels are not used"`
	Cases           dataset.Selection `yaml:"cases"`
	TrainedOn       []string          `yaml:"trained_on" flag:"-" help:"the cases that were trained on, from the data and the selection"`
	Machine         deviceOptions     `yaml:"machine"`
}

func newPretrain() *cobra.Command {
	o := &pretrainOptions{Config: puzzle3d.DefaultConfig(), Cases: dataset.DefaultSelection(), Machine: defaultDevice()}
	run := &runFlags{}
	var preset string
	cmd := verb("pretrain", "Pretrain the encoder on unlabelled scans by solving jigsaw puzzles",
		`Cuts crops into cells, shuffles patches of them, and trains VNet's encoder and a head to put them back. Held-out cases tell how well puzzles of unseen
patients are solved: Correct (whole puzzles), D<=2 (at most two patches misplaced) and the share of patches in place, for each round.

Cases are held out of the labelled ones, so that the same --fold or --hold-out holds out the same cases here and in voxsaw finetune; cases without labels are
all trained on. If less than two cases are labelled, cases are held out of all.

The default head (symmetric) learns in a short run. The paper's settings: --preset-paper 3x3x3 or 2x2x2 with --head paper, many cases and very many steps.

Ctrl-C saves and stops; --resume continues to the bit.`,
		`  voxsaw pretrain --data prepared --grid 3x3x3 --steps 2000 --out runs/puzzles
  voxsaw pretrain --data prepared --preset-paper 2x2x2 --head paper --rounds 20 --out runs/paper`,
		cobra.NoArgs, o, func(cmd *cobra.Command, _ []string) error {
			if err := applyPaper(cmd, preset, &o.Config); err != nil {
				return err
			}
			return runPretrain(cmd, *o, *run)
		})
	cmd.Flags().StringVar(&preset, "preset-paper", "", "the paper's sizes: 3x3x3 (cells of 40, patches of 32) or 2x2x2 (cells of 60, patches of 48), of crops of 120")
	run.bind(cmd)
	return cmd
}

// applyPaper sets the sizes of section 4.3 of the paper, but for those that the command line sets
// itself.
func applyPaper(cmd *cobra.Command, preset string, c *puzzle3d.Config) error {
	var grid, patch int
	switch preset {
	case "":
		return nil
	case "3x3x3":
		grid, patch = 3, 32
	case "2x2x2":
		grid, patch = 2, 48
	default:
		return usagef("--preset-paper %s: the paper has 3x3x3 and 2x2x2", preset)
	}
	cube := func(n int) [3]int { return [3]int{n, n, n} }
	for name, set := range map[string]func(){
		"grid": func() { c.Grid = cube(grid) }, "crop": func() { c.Crop = cube(120) }, "patch": func() { c.Patch = cube(patch) },
	} {
		if !cmd.Flags().Changed(name) {
			set()
		}
	}
	return nil
}

func runPretrain(cmd *cobra.Command, o pretrainOptions, run runFlags) error {
	cache, err := openCache(o.Data)
	if err != nil {
		return err
	}
	defer cache.Close()
	ids, err := caseIDs(cache, false, false)
	if err != nil {
		return err
	}
	labelled, unlabelled := divideLabelled(cache, ids)
	o.Cases.Patients = dataset.PatientsOf(cache.Records())
	training, held, err := o.Cases.ChooseWith(labelled, unlabelled)
	if err != nil {
		return &usageError{err}
	}
	o.TrainedOn = training
	if o.Config, err = o.Config.Resolve(cache.Preparation()); err != nil {
		return &usageError{err}
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	folder, err := run.open(puzzle3d.Kind, &o, dev, cache)
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	fmt.Fprintf(stderr, "pretraining on %d cases (%s), %d held out (%s)\n", len(training), list(training), len(held), list(held))
	noteTorn(stderr, o.Cases.Patients, training, held)
	progress := newTrainProgress(stderr, "pretrain", "puzzles")
	summary, err := puzzle3d.Pretrain(cmd.Context(), dev, o.Config, puzzle3d.Data{Cache: cache, Train: training, Validate: held},
		puzzle3d.Run{Folder: folder, Observer: progress, Memory: run.memory.limit(), Loaders: run.loaders})
	progress.finish()
	if err != nil {
		return run.explain(err)
	}
	validated := ""
	if summary.BestStep > 0 {
		validated = fmt.Sprintf("; patches of held-out cases in place %.1f %% at the end, %.1f %% at best (step %d)", 100*summary.Validation.Score, 100*summary.Best, summary.BestStep)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %d steps in %s, %.1f %% of it waiting for data%s\n",
		folder.Path(), summary.Step, terminal.Duration(summary.Elapsed), 100*summary.WaitShare, validated)
	return nil
}
