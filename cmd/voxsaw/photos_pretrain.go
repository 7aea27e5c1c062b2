package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment/photostudy"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/puzzle2d"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

type photoPretrainOptions struct {
	Task    config.OneOf  `yaml:",inline"`
	Data    string        `yaml:"data" help:"folder of prepared photographs; --task labels needs classes"`
	Machine deviceOptions `yaml:"machine"`
	Memory  gibibytes     `yaml:"memory,omitempty" help:"limit of the machine's memory, for a network on the CPU, crops and scans, 32 MiB of it for the program itself; prepared data, which is mapped, does not count: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
}

func newPhotoPretrain() *cobra.Command {
	o := &photoPretrainOptions{Task: photostudy.Tasks(), Machine: defaultDevice()}
	run := &runFlags{}
	var preset, orders string
	cmd := verb("pretrain", "Pretrain a network on photographs by solving jigsaw puzzles",
		`Cuts each photograph into cells, takes a patch of each, shuffles the patches, and trains the network and a head to put them back. Held-out photographs tell
how well puzzles are solved: Correct (whole puzzles), D<=2 (at most two patches misplaced) and the share of patches in place, for each round.

--preset-paper sets what the paper's Table 1 has for a row (U: unary terms, UM: patches mirrored, UBM: binary terms, too, UBM-2x2), with the paper's own ways
where ours differ (docs/paper.md), and prints what the paper does not state and where our value comes from. Flags and --config win over it.

--head kway chooses one of --classes orders, as the puzzle that the paper compares itself with; --orders FILE takes those of the Context Free Network
(permutations_*.bin) or of VISSL (.npy). --task chooses something else to learn.

Ctrl-C saves and stops; --resume continues to the bit.`,
		`  voxsaw 2d pretrain --data photos --backbone resnet18 --out runs/photos
  voxsaw 2d pretrain --resume --out runs/photos
  voxsaw 2d pretrain --data photos --backbone alexnet --preset-paper UBM --batch 32 --out runs/alexnet
  voxsaw 2d pretrain --data photos --grid 3x3 --cell 43 --patch 32 --width 0.5 --head kway --classes 1000 --out runs/kway`,
		cobra.NoArgs, o, func(cmd *cobra.Command, _ []string) error {
			if orders != "" {
				puzzles, ok := o.Task.Value().(*photostudy.Puzzles)
				if !ok || puzzles.Head != puzzle2d.HeadKWay {
					return usagef("--orders is for --head kway")
				}
				if err := puzzles.ReadOrders(orders); err != nil {
					return &usageError{err}
				}
			}
			return runPhotoPretrain(cmd, *o, *run)
		})
	run.bind(cmd)
	cmd.Flags().StringVar(&preset, "preset-paper", "",
		"settings of a row of the paper's Table 1: U, UM, UBM or UBM-2x2")
	cmd.Flags().StringVar(&orders, "orders", "",
		"head kway: file of the orders, .bin of the Context Free Network or .npy")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if preset == "" {
			return nil
		}
		puzzles := o.Task.Option("jigsaw").(*photostudy.Puzzles)
		c, choices, err := puzzle2d.Paper(puzzles.Config, preset)
		if err != nil {
			return &usageError{err}
		}
		puzzles.Config = c
		printChoices(cmd.ErrOrStderr(), preset, choices)
		return nil
	}
	cmd.Annotations = map[string]string{asRanks: "yes"}
	return cmd
}

// printChoices says what the paper does not state.
func printChoices(w io.Writer, preset string, choices []puzzle2d.Choice) {
	fmt.Fprintf(w, "the paper's %s; what it does not state:\n", preset)
	for _, c := range choices {
		fmt.Fprintf(w, "  %-24s %-44s %s\n", c.Setting, c.Value, c.Source)
	}
}

func runPhotoPretrain(cmd *cobra.Command, o photoPretrainOptions, run runFlags) error {
	run.memory = o.Memory
	store, err := openPhotos(o.Data)
	if err != nil {
		return err
	}
	defer store.Close()
	data := puzzle2d.Split(store)
	task := o.Task.Value().(photostudy.Task)
	from := task.StartsFrom()
	if *from, err = startFrom(cmd.ErrOrStderr(), *from, run); err != nil {
		return err
	}
	items, score := task.Names()
	batch := newAutoBatch(task.Batch(), items, 1)
	if err := task.Resolve(data); err != nil {
		return &usageError{err}
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	err = batch.settle(cmd.ErrOrStderr(), &run, func(options voxsaw.RunOptions) error {
		_, err := task.Train(cmd.Context(), dev, data, options)
		return err
	})
	if err != nil {
		return err
	}
	progress := newTrainProgress(cmd.ErrOrStderr(), "pretrain", items)
	options, err := run.options(&o, progress)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "pretraining on %s, %d held out\n", numbers.Count(len(data.Train), "photograph"),
		len(data.Validate))
	summary, err := task.Train(cmd.Context(), dev, data, options)
	progress.finish()
	if err != nil {
		return run.explain(err)
	}
	validated := ""
	if summary.BestStep > 0 {
		validated = fmt.Sprintf("; %s %.1f %% at the end, %.1f %% at best (step %d)", score,
			100*summary.Validation.Score, 100*summary.Best, summary.BestStep)
	}
	return run.finish(summary, fmt.Sprintf("%s: %s%s", run.out, steps(summary), validated))
}

// openPhotos opens prepared photographs, with a hint where there are none.
func openPhotos(dir string) (*photos.Store, error) {
	if dir == "" {
		return nil, withHint(usagef("no prepared photographs"),
			"add --data FOLDER, as voxsaw 2d prepare PHOTOS --out FOLDER makes it")
	}
	return photos.Open(dir)
}
