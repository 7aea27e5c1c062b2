package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

type finetuneOptions struct {
	segment.Config `yaml:",inline"`
	Data           string            `yaml:"data" help:"folder of prepared, labelled cases"`
	Init           string            `yaml:"init" help:"checkpoint to start from, such as a pretrained encoder, or the folder of its run, or a safetensors file of MONAI's VNet, with --preset and --channels, or a model of nnU-Net, a folder or a .pth file; empty: from scratch"`
	Targets        string            `yaml:"targets,omitempty" help:"folder of label maps that teachers predicted for scans without labels, as voxsaw selftrain makes it: every second crop is of these, but in the last steps"`
	Plans          string            `yaml:"plans,omitempty" help:"plans.json of nnU-Net, whose network is trained on crops of its patch size; plans.json:3d_lowres chooses a configuration"`
	Cases          dataset.Selection `yaml:"cases"`
	Machine        deviceOptions     `yaml:"machine"`
	Memory         gibibytes         `yaml:"memory,omitempty" help:"limit of the machine's memory, for a network on the CPU, crops and scans, 32 MiB and 3 % of it for the program itself; prepared data, which is mapped, does not count: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`

	// by which the weights of Init have learnt, or the network is planned; nil: none
	like *nnunet.Plan
}

func newFinetune() *cobra.Command {
	defaults := finetuneOptions{Config: segment.DefaultConfig(), Cases: dataset.DefaultSelection(),
		Machine: defaultDevice()}
	o, run := &finetuneOptions{}, &runFlags{}
	*o = defaults
	cmd := verb(
		"finetune",
		"Train a network to segment, from a pretrained encoder or from scratch",
		`Trains the whole network on labelled, prepared cases. With --init it starts from the weights of
a checkpoint: the network is built as there, but for what flags and --config say, and what was loaded is
told, what was not and why. --load encoder takes its encoder alone; a pretext task that trains the
decoder, too, gives both without it. A safetensors file of another program does not say what it is of:
the network is that of the flags, such as --network resenc for the weights of an nnU-Net, and --preset
monai --channels 16 for those of MONAI's VNet or of vnet.pytorch. A model of nnU-Net (its folder, or a
.pth file) brings the network of its plans.json, and of its head the rows of labels that the data have, too,
by name or number. The held-out cases (--fold of --folds, or a share) are validated on; last.safetensors and best.safetensors
are kept. Best means best on the held-out cases: where these are your test cases, report last.

Without any size, crops, network and steps are planned for the data and this machine, for --hours or one hour:
docs/planning.md.
Ctrl-C saves and stops; --resume continues to the bit.`,
		`  voxsaw finetune --data prepared --init runs/puzzles --fold 1 --folds 4 --fraction 0.1 --out runs/organs
  voxsaw finetune --resume --out runs/organs`,
		cobra.NoArgs,
		o,
		func(cmd *cobra.Command, _ []string) error {
			if err := o.begin(cmd, *run, defaults, o); err != nil {
				return err
			}
			return runFinetune(cmd, *o, *run)
		},
	)
	run.bind(cmd)
	run.local.bind(cmd)
	cmd.Annotations = map[string]string{asRanks: "yes"}
	return cmd
}

// begin resolves the options of a run that starts from weights, if it does. All are the options of
// the verb, which these are a part of.
func (o *finetuneOptions) begin(cmd *cobra.Command, run runFlags, defaults finetuneOptions, all any) error {
	switch {
	case nnunet.IsModel(o.Init):
		return o.startNNUNet(cmd)
	case o.Init != "":
		return o.start(cmd, run, defaults, all)
	}
	return nil
}

// start resolves the options of a run that starts from a checkpoint: its network is the
// checkpoint's, but for what flags and --config say. A run that is resumed has its network already.
func (o *finetuneOptions) start(cmd *cobra.Command, run runFlags, defaults finetuneOptions, all any) error {
	from, err := startFrom(cmd.ErrOrStderr(), o.Init, run)
	if err != nil {
		return err
	}
	if resumed(cmd) != "" {
		o.Init = from
		return nil
	}
	network, foreign, err := networkOf(from, defaults.Network)
	if err != nil {
		return err
	}
	*o = defaults
	o.Network = network
	if err := resolve(cmd, all); err != nil {
		return err
	}
	o.Init = from // a run's folder was read again from the flags
	if vnet := o.Network.Kind == "" || o.Network.Kind == backbone.Default; foreign && vnet &&
		(o.Network.Channels == 0 || o.Network.Preset == "") {
		return withHint(usagef("%s is weights of another program, which do not say what network they are of", o.Init),
			"say it, such as --preset monai --channels 16, or --network resenc; what is not said is that network's own")
	}
	if foreign {
		return nil
	}
	return checkChanges(cmd, from, network, o.Network)
}

// checkChanges says what is wrong with a network that is a checkpoint's but for what the user said:
// of another kind, or one that there cannot be. Neither is a matter of settings that only the
// checkpoint has.
func checkChanges(cmd *cobra.Command, path string, there, now voxsaw.Network) error {
	if a, b := cmp.Or(there.Kind, backbone.Default), cmp.Or(now.Kind, backbone.Default); a != b {
		return withHint(usagef("%s is of network %s, whose weights do not fit network %s", path, a, b),
			"leave --network out to build the network of the checkpoint; or "+
				"name a checkpoint of %s; or leave --init out", b)
	}
	_, err := backbone.Resolve(now)
	if err == nil {
		return nil
	}
	var changes []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && strings.HasPrefix(config.Key(f), "network.") {
			changes = append(changes, fmt.Sprintf("--%s %v", f.Name, f.Value))
		}
	})
	if file := cmd.Flags().Lookup(config.FileFlag); file != nil && file.Changed {
		changes = append(changes, "--"+config.FileFlag)
	}
	if len(changes) == 0 {
		return nil // it is the checkpoint's own: who builds it says what is wrong
	}
	return withHint(usagef("the network of %s, changed by %s, cannot be: %v", path, strings.Join(changes, " "), err),
		"leave these out to build the network of the checkpoint")
}

// networkOf is the network of a checkpoint, with the classes of another network, and with deep
// supervision where that has it. A file of another program does not name its network: settings with
// a default stay empty.
func networkOf(path string, other voxsaw.Network) (network voxsaw.Network, foreign bool, err error) {
	d, err := checkpoint.Read(path)
	if errors.Is(err, checkpoint.ErrForeign) {
		return voxsaw.Network{Kind: other.Kind, Dropout: other.Dropout, Classes: other.Classes}, true, nil
	}
	if err != nil {
		return other, false, err
	}
	network, err = d.Network()
	network.DeepSupervision = other.DeepSupervision // which is of a training, not of weights
	if network.Classes = other.Classes; err == nil && backbone.Idle(network) != nil {
		network.Dropout = -1 // it does nothing there
	}
	return network, false, err
}

// choose divides the labelled cases into those to train on and those held out.
func (o *finetuneOptions) choose(cmd *cobra.Command, store *prepared.Store) (ids, training, held []string, err error) {
	if ids, err = labelledIn(store); err != nil {
		return nil, nil, nil, withHint(err,
			"voxsaw inspect shows what a data set holds; labels are paired with scans by name")
	}
	if err := checkSelection(cmd, &o.Cases); err != nil {
		return nil, nil, nil, err
	}
	o.Cases = o.Cases.Of(store)
	_, plain := store.ForTraining()
	if training, held, err = o.Cases.Choose(ids, plain...); err != nil {
		return nil, nil, nil, config.Mistaken(err)
	}
	return ids, training, held, nil
}

// target gives a run the teachers' label maps that it learns from, and their scans.
func (o *finetuneOptions) target(training, held []string) ([]string, error) {
	targets, err := segment.ReadTargets(o.Targets)
	if err != nil {
		return nil, withHint(&usageError{err}, "voxsaw selftrain --teacher CHECKPOINT,CHECKPOINT makes such a folder")
	}
	o.Config.Targets, o.Predicted = o.Targets, targets.Digest
	kept := slices.DeleteFunc(targets.Kept(), among(o.Cases.Exclude))
	if free := o.Cases.WithoutLabels(kept, training, held); len(free) < len(kept) {
		return nil, withHint(usagef("%s has label maps of cases that are trained on or held out here, "+
			"or of their patients", o.Targets),
			"hold the same cases out as when the label maps were made (--fold, --folds, --splits)")
	}
	return kept, nil
}

func runFinetune(cmd *cobra.Command, o finetuneOptions, run runFlags) error {
	run.memory = o.Memory
	if err := run.hours.check(cmd); err != nil {
		return err
	}
	if resumed(cmd) == "" {
		plan, err := planned(&o.Network, o.Plans)
		if err != nil {
			return err
		}
		cropOfPlan(cmd, plan, &o.Crop)
		o.like = cmp.Or(plan, o.like)
	}
	if o.Load != "" && o.Init == "" {
		return withHint(usagef("--load %s without a checkpoint to load from", o.Load),
			"add --init CHECKPOINT, or leave --load out to start from scratch")
	}
	if o.Unlabelled && o.Train.Average == 0 {
		return withHint(usagef("--unlabelled: the teacher is the moving average of the weights, and there is none"),
			"add --average 0.99")
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
	sayUnlike(cmd.ErrOrStderr(), o.like, store)
	ids, training, held, err := o.choose(cmd, store)
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	data := sample.Data{Store: store, Train: training, Validate: held}
	if o.Config.Unlabelled {
		_, unlabelled := store.ForTraining()
		if data.Unlabelled = o.Cases.WithoutLabels(unlabelled, training, held); len(data.Unlabelled) == 0 {
			return withHint(usagef("--unlabelled: there is no scan without labels to learn from in %s", o.Data),
				"voxsaw prepare FOLDER FOLDER puts labelled and unlabelled scans into one folder; "+
					"or leave --unlabelled out")
		}
	}
	if o.Targets == "" && o.LabelledLast > 0 {
		return withHint(usagef("--labelled-last counts steps without the label maps of teachers, and there are none"),
			"add --targets FOLDER, or leave --labelled-last out")
	}
	if o.Targets != "" {
		if data.Unlabelled, err = o.target(training, held); err != nil {
			return err
		}
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	switch {
	case !unsized(cmd):
	case o.Init == "":
		err = run.plan(cmd, &o, &o.Train, store, o.Labels, dev, o.Machine)
	default:
		network := o.Network // the checkpoint's
		err = run.planOf(cmd, &o, &o.Train, o.Init)
		o.Network = network
	}
	if err != nil {
		return err
	}
	batch := newAutoBatch(&o.Config.Batch, "crops", o.Config.Train.Accumulate)
	if o.Config, err = o.Config.Resolve(store); err != nil {
		return &config.Mistake{Err: err, From: run.sizesOf}
	}
	run.sayDefaults(cmd, o.Crop, o.Network, o.Train.Steps)
	summary, err := run.train(cmd, trainingRun{
		verb: "finetune", items: "crops", batch: batch, settings: &o, training: &o.Config.Train,
		told: func(stderr io.Writer) error {
			say(stderr, "training on %s (%s), %d held out (%s)", numbers.Count(len(training), "case"),
				list(training), len(held), list(held))
			if len(data.Unlabelled) > 0 {
				how := "without labels"
				if o.Targets != "" {
					how = "that teachers have labelled"
				}
				say(stderr, "and on %s %s (%s)", numbers.Count(len(data.Unlabelled), "scan"), how,
					list(data.Unlabelled))
			}
			if err := noteLeftOut(stderr, o.Cases, ids, nil); err != nil {
				return err
			}
			noteTorn(stderr, o.Cases, training, held)
			if len(held) > 0 {
				sayNote(stderr, o.Cases.NotePredicted(ids))
			}
			noteUndrawn(stderr, store, o.Config, training, held)
			run.page.sheet = newHeldOutSheet(onPrepared(store))
			err := noteInit(stderr, o.Init, store, training, held, o.Config)
			if run.resume && errors.Is(err, fs.ErrNotExist) {
				return nil // a run that has begun does without
			}
			return err
		},
		run: func(ctx context.Context, options voxsaw.RunOptions) (voxsaw.Summary, error) {
			c := o.Config
			if options.Settings == nil {
				// A trial has learnt nothing: components of what it predicts are too many. Its
				// steps are others than those that end with labelled cases alone.
				c.MeasureOnly, c.LabelledLast = true, 0
			}
			summary, _, err := segment.Finetune(ctx, dev, c, data, o.Init, options)
			return summary, err
		},
	})
	if err != nil {
		return err
	}
	lines := []string{fmt.Sprintf("%s: %s", run.out, steps(summary))}
	if summary.BestStep > 0 {
		lines = append(lines, fmt.Sprintf("DSC of the held-out cases: %.4f at the end, %.4f at best (step %d)",
			summary.Validation.Score, summary.Best, summary.BestStep))
	}
	if kept, err := o.Config.DescribeLargest(train.Last(run.out)); err == nil && kept != "" {
		lines = append(lines, fmt.Sprintf("predictions keep the largest connected component alone of %s "+
			"(voxsaw predict --components all keeps all)", kept))
	}
	lines = append(lines, summary.Validation.Decisions...)
	for _, note := range summary.Validation.Notes {
		say(stderr, "WARNING: %s", note)
	}
	return run.finish(summary, lines...)
}
