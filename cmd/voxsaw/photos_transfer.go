package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat"

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/puzzle2d"
)

type photoTransferOptions struct {
	Data       string           `yaml:"data" help:"folder of prepared photographs with classes"`
	Checkpoint string           `yaml:"checkpoint" help:"checkpoint of voxsaw 2d pretrain, the folder of its run (its best one), PyTorch's safetensors of this backbone, or random"`
	Network    puzzle2d.Network `yaml:"network"`
	Layer      string           `yaml:"layer" help:"what is measured: last (fc6 of AlexNet, the mean over the image of a ResNet) or conv5" oneof:"last conv5"`
	Side       int              `yaml:"side" help:"width and height of the middle of a photograph that is looked at; 0: all of the shorter side"`
	PerClass   int              `yaml:"per_class" help:"photographs of each class that the machine is fitted to; 0: all"`
	C          []float64        `yaml:"C" flag:"C" help:"weight of the losses; of several, cross-validation chooses" range:"(0,)"`
	Seeds      int              `yaml:"seeds" help:"draws of the photographs that the machine is fitted to" range:"[1,1000]"`
	Seed       uint64           `yaml:"seed" help:"of the first draw, and of random weights"`
	Mix        bool             `yaml:"mix" help:"draw from all photographs, and test on those that are left; false: fit to those to train on, test on those held out"`
	Normalise  bool             `yaml:"normalise" help:"features have length 1"`
	JSON       bool             `yaml:"json" help:"print as JSON"`
	Machine    deviceOptions    `yaml:"machine"`
}

func newPhotoTransfer() *cobra.Command {
	t := puzzle2d.DefaultTransfer()
	o := &photoTransferOptions{
		Network: puzzle2d.DefaultConfig().Network, Layer: "last", PerClass: t.PerClass, C: t.C, Seeds: t.Seeds,
		Normalise: t.Normalise, Machine: defaultDevice(),
	}
	return verb("transfer",
		"Measure what a network's features are worth: a linear classifier of a few labelled photographs",
		`Computes the features of labelled photographs with a pretrained network, which stays as it is, fits a linear support vector machine to those of a few
photographs of each class, and tells the classes of others. --checkpoint random is the row that must never be missing: the same network with random
weights. Of that, and of PyTorch's safetensors, the network is --backbone and --width.`,
		`  voxsaw 2d transfer --data caltech --checkpoint runs/photos --mix
  voxsaw 2d transfer --data caltech --checkpoint random --backbone resnet18 --mix`,
		cobra.NoArgs, o, func(cmd *cobra.Command, _ []string) error { return runPhotoTransfer(cmd, *o) })
}

func runPhotoTransfer(cmd *cobra.Command, o photoTransferOptions) error {
	if o.Checkpoint == "" {
		return withHint(usagef("no checkpoint"),
			"add --checkpoint FILE, as voxsaw 2d pretrain makes it, or --checkpoint random")
	}
	var err error
	if _, err := os.Stat(o.Checkpoint); o.Checkpoint == "labels" && err != nil {
		return withHint(usagef("--checkpoint labels: there is no network that learnt labels yet, and no file of that name"), "train one with voxsaw 2d pretrain --task labels --data PHOTOS --out RUN, and name its folder: --checkpoint RUN")
	}
	if o.Checkpoint, err = checkpointOf(cmd.ErrOrStderr(), o.Checkpoint); err != nil {
		return err
	}
	store, err := openPhotos(o.Data)
	if err != nil {
		return err
	}
	defer store.Close()
	data := puzzle2d.Split(store)
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	width, height := store.Size()
	options := puzzle2d.FeatureOptions{Random: o.Network, Seed: o.Seed, Side: o.Side, Memory: memory.Available()}
	if options.Side == 0 {
		options.Side = min(width, height)
	}
	if o.Layer != "last" {
		options.Layer = o.Layer
	}
	var progress terminal.Progress
	shown := 0
	options.Progress = func(done, total int) {
		if progress == nil {
			progress = terminal.NewProgress(cmd.ErrOrStderr(), "features", total)
		}
		progress.Add(done - shown)
		shown = done
	}
	path := o.Checkpoint
	if path == puzzle2d.Random {
		path = ""
		if options.Input, err = puzzle2d.DefaultConfig().Input.Of(data); err != nil {
			return err
		}
	}
	features, err := puzzle2d.OpenFeatures(dev, path, options)
	if err != nil {
		return err
	}
	defer features.Close()
	if note := features.Note(); note != "" {
		say(cmd.ErrOrStderr(), "%s", note)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s of %d classes, %s each\n", numbers.Count(store.Len(), "photograph"),
		len(store.Classes()), numbers.Count(features.Width(), "feature"))
	draws, err := puzzle2d.Transfer{
		PerClass: o.PerClass, C: o.C, Seeds: o.Seeds, Seed: o.Seed, Mix: o.Mix, Normalise: o.Normalise,
	}.Run(cmd.Context(), features, data)
	if progress != nil {
		progress.Finish()
	}
	if len(draws) == 0 && err != nil {
		return err
	}
	chance := 1 / float64(len(store.Classes()))
	if o.JSON {
		return errors.Join(printJSON(cmd.OutOrStdout(), struct {
			Checkpoint string          `json:"checkpoint"`
			Layer      string          `json:"layer"`
			Width      int             `json:"width"`
			Draws      []puzzle2d.Draw `json:"draws"`
		}{o.Checkpoint, o.Layer, features.Width(), draws}), err)
	}
	if note := puzzle2d.AtChance(draws, chance); note != "" {
		say(cmd.ErrOrStderr(), "WARNING: %s", note)
	}
	return errors.Join(printTable(cmd.OutOrStdout(), transferTable(draws, chance)), err)
}

// transferTable is the draws for a person, and what blind guessing would tell.
func transferTable(draws []puzzle2d.Draw, chance float64) table.Table {
	t := table.Table{
		Title: "Linear support vector machines on the features, in percent",
		Columns: []table.Column{
			{Key: "seed", Title: "draw"}, {Key: "fitted", Title: "fitted to"}, {Key: "tested", Title: "tested on"},
			{Key: "C", Title: "C", Digits: 2},
			{Key: "accuracy", Title: "right", Digits: 2}, {Key: "class_accuracy", Title: "mean over classes",
				Digits: 2},
		},
	}
	var values []float64
	for _, d := range draws {
		t.Rows = append(t.Rows, []any{fmt.Sprint(d.Seed), d.Fitted, d.Tested, d.C, 100 * d.Accuracy, 100 * d.ClassMean})
		values = append(values, 100*d.ClassMean)
		if !d.Converged {
			t.Notes = append(t.Notes, fmt.Sprintf("draw %d: the machines had not found their optimum after 1000 sweeps",
				d.Seed))
		}
	}
	mean, sd := stat.MeanStdDev(values, nil)
	note := fmt.Sprintf("mean over classes: %.2f", mean)
	if len(values) > 1 {
		note += fmt.Sprintf(", standard deviation over draws %.2f", sd)
	}
	t.Notes = append(t.Notes, note+fmt.Sprintf("; by chance %.2f", 100*chance))
	return t
}
