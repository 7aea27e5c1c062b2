package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

type pretrainOptions struct {
	Task      config.OneOf      `yaml:",inline"`
	Data      string            `yaml:"data" help:"folder of prepared cases; labels are not used"`
	Cases     dataset.Selection `yaml:"cases"`
	TrainedOn []string          `yaml:"trained_on" flag:"-" help:"the cases that were trained on, from the data and the selection"`
	Machine   deviceOptions     `yaml:"machine"`
	Memory    gibibytes         `yaml:"memory,omitempty" help:"limit of the machine's memory, for a network on the CPU, crops and scans, 32 MiB and 3 % of it for the program itself; prepared data, which is mapped, does not count: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
}

func newPretrain() *cobra.Command {
	o := &pretrainOptions{Task: pretext.Scans.Choice(), Cases: dataset.DefaultSelection(), Machine: defaultDevice()}
	run := &runFlags{}
	cmd := verb(
		"pretrain",
		"Pretrain the encoder on unlabelled scans by solving jigsaw puzzles",
		`Cuts crops into cells, shuffles patches of them, and trains the network's encoder and a head to
put them back. Held-out cases tell how well puzzles of unseen patients are solved: Correct (whole
puzzles), D<=2 (at most two patches misplaced) and the share of patches in place, for each round. --task
chooses something else to learn from scans without labels.

Cases are held out of the labelled ones, so that the same --fold or --hold-out holds out the same cases
here and in voxsaw finetune; cases without labels are all trained on. --network plans.json pretrains the
network of an nnU-Net, on data that voxsaw prepare --plans made. If less than two cases are labelled,
cases are held out of all.

The default head (symmetric) learns in a short run. The sizes are the paper's, of crops of 120: --grid
3x3x3 has cells of 40 and patches of 32, --grid 2x2x2 cells of 60 and patches of 48. Of 4D scans,
--grid 2x2x2x4 has four cells along time, too. The paper's head (--head paper) wants many cases and very
many steps. --head kway chooses one of --classes orders instead of a place for each patch: what others
call a 3D jigsaw. Begin with --lr 0.001: the default of 0.01 has killed the ReLUs of its hidden layer,
after which nothing is learnt.

Without any size, crops, network and steps are planned for the data and this machine, for --hours or one hour:
docs/planning.md.
Ctrl-C saves and stops; --resume continues to the bit.`,
		`  voxsaw pretrain --data prepared --grid 3x3x3 --steps 2000 --out runs/puzzles
  voxsaw pretrain --resume --out runs/puzzles
  voxsaw pretrain --data prepared --grid 2x2x2 --head paper --rounds 20 --out runs/paper
  voxsaw pretrain --data prepared --grid 2x2x2 --head kway --classes 100 --lr 0.001 --out runs/kway
  voxsaw pretrain --data prepared --task rotation --crop 64x64x64 --out runs/rotation`,
		cobra.NoArgs,
		o,
		func(cmd *cobra.Command, _ []string) error { return runPretrain(cmd, *o, *run) },
	)
	run.bind(cmd)
	run.local.bind(cmd)
	cmd.Annotations = map[string]string{asRanks: "yes"}
	return cmd
}

func runPretrain(cmd *cobra.Command, o pretrainOptions, run runFlags) error {
	run.memory = o.Memory
	if err := run.hours.check(cmd); err != nil {
		return err
	}
	if err := noRun(cmd, o.Data); err != nil {
		return err
	}
	store, err := openStore(o.Data)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := run.local.keep(cmd, store); err != nil {
		return err
	}
	labelled, unlabelled := store.ForTraining()
	if err := checkSelection(cmd, &o.Cases); err != nil {
		return err
	}
	o.Cases = o.Cases.Of(store)
	training, held, err := o.Cases.ChooseWith(labelled, unlabelled)
	if err != nil {
		return config.Mistaken(err)
	}
	o.TrainedOn = checkpoint.ListForConfig(training)
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	task, settings := pretext.Scans.Chosen(&o.Task)
	if timed, is := settings.(interface{ WithoutTimes() }); is && resumed(cmd) == "" &&
		(cmd.Flags().Changed("grid") || cmd.Flags().Changed("grids")) {
		timed.WithoutTimes()
	}
	if unsized(cmd) {
		if err := run.plan(cmd, &o, settings.Common().Train, store, nil, dev, o.Machine); err != nil {
			return err
		}
	}
	plan, err := planned(settings.Common().Network, "")
	if err != nil {
		return err
	}
	sayUnlike(cmd.ErrOrStderr(), plan, store)
	batch := newAutoBatch(settings.Common().Batch, task.Items, settings.Common().Train.Accumulate)
	if err := settings.Resolve(store); err != nil {
		return config.Mistaken(err)
	}
	common := settings.Common()
	run.sayDefaults(cmd, *common.Crop, *common.Network, common.Train.Steps)
	data := sample.Data{Store: store, Train: training, Validate: held}
	return run.pretrain(cmd, trainingRun{
		verb: "pretrain", items: task.Items, batch: batch, settings: &o, training: settings.Common().Train,
		told: func(stderr io.Writer) error {
			say(stderr, "pretraining on %s (%s), %d held out (%s)", numbers.Count(len(training), "case"),
				list(training), len(held), list(held))
			noteTorn(stderr, o.Cases, training, held)
			return noteLeftOut(stderr, o.Cases, labelled, unlabelled)
		},
		run: func(ctx context.Context, options voxsaw.RunOptions) (voxsaw.Summary, error) {
			defer run.pictureTask(options.Folder, onCases(ctx, store))()
			return settings.Pretrain(ctx, dev, data, options)
		},
	}, task.Score)
}
