package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/puzzle2d"
)

type photoFinetuneOptions struct {
	Task    config.OneOf  `yaml:",inline"`
	Data    string        `yaml:"data" help:"folder of prepared photographs of Pascal VOC"`
	TrainOn string        `yaml:"train_on" help:"sides that are trained on: trainval, or train, and val is validated on; test is for the end" oneof:"trainval train"`
	Machine deviceOptions `yaml:"machine"`
	Memory  gibibytes     `yaml:"memory,omitempty" help:"limit of the machine's memory, for a network on the CPU, crops and scans, 32 MiB of it for the program itself; prepared data, which is mapped, does not count: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
}

func defaultPhotoFinetune() photoFinetuneOptions {
	classify, detect := puzzle2d.DefaultMultilabel(), puzzle2d.DefaultDetection()
	return photoFinetuneOptions{
		Task: config.NewOneOf("task",
			"what is learnt: classify (which classes are on a photograph) or detect (where they are; Fast R-CNN on proposals of a file)",
			config.Option{Name: puzzle2d.Classify, Value: &classify},
			config.Option{Name: puzzle2d.Detect, Value: &detect}),
		TrainOn: puzzle2d.OnTrainval, Machine: defaultDevice(),
	}
}

func newPhotoFinetune() *cobra.Command {
	o, run := defaultPhotoFinetune(), &runFlags{}
	cmd := verb("finetune",
		"Fine-tune a network on Pascal VOC: classification or detection, scored by VOC's average precision",
		`Trains a whole network on prepared photographs of Pascal VOC, nothing of it frozen, from the weights of --checkpoint, and scores it on the side test:
average precision of each class and its mean, by VOC2007's rule (eleven points) and by that of VOC2010 and later (area). Objects that are marked as difficult
need not be found. The network is that of the checkpoint; of PyTorch's safetensors and for --checkpoint random it is --backbone and --width.

  --task classify   a logit for each class, binary cross-entropy; random crops, mirrored; ten views in the test
  --task detect     Fast R-CNN on --proposals, a CSV file with the columns photo,xmin,ymin,xmax,ymax

Prepare for detection with --fit warp and the size that the network shall see. With --train-on train, val is validated on during training. What is scored
is last.safetensors; the scores are in results.json, too. With --json an event "scored" comes before the last.

Ctrl-C saves and stops; --resume continues to the bit.`,
		`  voxsaw 2d finetune --data voc --checkpoint runs/photos --task classify --out runs/voc
  voxsaw 2d finetune --data voc --checkpoint random --backbone resnet18 --task classify --out runs/voc-random
  voxsaw 2d finetune --data voc600 --checkpoint runs/photos --task detect --proposals selective_search.csv --out runs/detect`,
		cobra.NoArgs, &o, func(cmd *cobra.Command, _ []string) error {
			if err := startPhotoFinetune(cmd, &o, *run); err != nil {
				return err
			}
			return runPhotoFinetune(cmd, o, *run)
		})
	run.bind(cmd)
	return cmd
}

// startPhotoFinetune takes the network of the checkpoint over, but for what flags and --config say.
func startPhotoFinetune(cmd *cobra.Command, o *photoFinetuneOptions, run runFlags) error {
	settings := o.Task.Value().(puzzle2d.Finetuning).Settings()
	if settings.Checkpoint == "" {
		return withHint(usagef("no checkpoint"),
			"add --checkpoint FILE, as voxsaw 2d pretrain makes it, or PyTorch's safetensors, or --checkpoint random")
	}
	path, err := startFrom(cmd.ErrOrStderr(), settings.Checkpoint, run)
	if err != nil {
		return err
	}
	if resumed(cmd) != "" { // the run has its network already
		settings.Checkpoint = path
		return nil
	}
	source, err := puzzle2d.ReadSource(path, settings.Network)
	if err != nil {
		return err
	}
	settings.Start(source)
	if err := resolve(cmd, o); err != nil {
		return err
	}
	if source.Path != "" {
		settings.Checkpoint = source.Path // a run's folder was read again from the flags
	}
	return nil
}

func runPhotoFinetune(cmd *cobra.Command, o photoFinetuneOptions, run runFlags) error {
	run.memory = o.Memory
	store, err := openPhotos(o.Data)
	if err != nil {
		return err
	}
	defer store.Close()
	task := o.Task.Value().(puzzle2d.Finetuning)
	batch := newAutoBatch(task.Items(), "photographs", 1)
	data, err := puzzle2d.SplitMarked(store, o.TrainOn)
	if err == nil {
		err = task.Resolve(data)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.Data, err)
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	stderr := cmd.ErrOrStderr()
	err = batch.settle(stderr, &run, func(options voxsaw.RunOptions) error {
		_, err := task.Run(cmd.Context(), dev, data, options)
		return err
	})
	if err != nil {
		return err
	}
	progress := newTrainProgress(stderr, "finetune", "photographs")
	options, err := run.options(&o, progress)
	if err != nil {
		return err
	}
	// they are recognised by their digest
	options.MayDiffer = append(options.MayDiffer, "proposals")
	say(stderr, "training on %s of %d classes, %d held out, %d to test on",
		numbers.Count(len(data.Train), "photograph"), len(store.Classes()), len(data.Validate), len(data.Test))
	summary, err := task.Run(cmd.Context(), dev, data, options)
	progress.finish()
	if err != nil {
		return run.explain(err)
	}
	say(stderr, "%s: %s", run.out, steps(summary))
	p, err := scorePhotos(cmd, task, dev, data, run)
	if err != nil {
		return withHint(err, "the training is finished: %s --resume --out %s scores it", cmd.CommandPath(), run.out)
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err == nil {
		err = atomicfile.WriteBytes(train.Results(run.out), append(text, '\n'))
	}
	if err == nil {
		err = atomicfile.SealFile(train.Results(run.out))
	}
	if err != nil {
		err = fmt.Errorf("the scores, which are printed: %w", err)
	} else if run.events != nil {
		run.events.scored(train.Results(run.out), summary.Step, p)
	}
	err = errors.Join(run.finish(summary), err)
	if run.events != nil {
		return err
	}
	return errors.Join(printTable(cmd.OutOrStdout(), precisionTable(p)), err)
}

// scorePhotos scores the end of a run on the photographs to test on.
func scorePhotos(cmd *cobra.Command, task puzzle2d.Finetuning, dev voxsaw.Device, data puzzle2d.Marked,
	run runFlags) (puzzle2d.Precision, error) {
	bar := terminal.NewProgress(cmd.ErrOrStderr(), "test", len(data.Test))
	defer bar.Finish()
	shown := 0
	return task.Score(cmd.Context(), dev, train.Last(run.out), data, run.memory.limit(), func(done, _ int) {
		bar.Add(done - shown)
		shown = done
	})
}

// precisionTable is the scores for a person.
func precisionTable(p puzzle2d.Precision) table.Table {
	counted := "photographs with it"
	if p.Task == puzzle2d.Detect {
		counted = "objects"
	}
	t := table.Table{
		Title: fmt.Sprintf("Average precision of %s on %s of %s, in percent", p.Task,
			numbers.Count(p.Photos, "photograph"), p.Side),
		Columns: []table.Column{
			{Key: "class", Title: "class"}, {Key: "positives", Title: counted},
			{Key: "ap_11_points", Title: "11 points (VOC2007)", Digits: 2}, {Key: "ap_area", Title: "area (VOC2010)",
				Digits: 2},
		},
	}
	for _, c := range p.Classes {
		row := []any{c.Class, c.Positives, 100 * c.ElevenPoints, 100 * c.Area}
		if math.IsNaN(c.Area) {
			row[2], row[3] = nil, nil
			t.Notes = append(t.Notes, fmt.Sprintf("%s is on no photograph of %s: the mean is that of the others",
				c.Class, p.Side))
		}
		t.Rows = append(t.Rows, row)
	}
	t.Rows = append(t.Rows, []any{"mean", nil, 100 * p.ElevenPoints, 100 * p.Area})
	return t
}
