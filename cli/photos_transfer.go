package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment/photostudy"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/puzzle2d"
	"github.com/voxsaw/voxsaw/sample"
)

type photoTransferOptions struct {
	Data       string           `yaml:"data" help:"folder of prepared photographs with classes"`
	Checkpoint string           `yaml:"checkpoint" help:"checkpoint of voxsaw 2d pretrain, the folder of its run (its best one), PyTorch's safetensors of this backbone, or random"`
	Network    puzzle2d.Network `yaml:"network"`
	Layer      string           `yaml:"layer" help:"what is measured: last (fc6 of AlexNet, the mean over the image of a ResNet) or conv5" oneof:"last conv5"`
	Side       int              `yaml:"side" help:"side of the middle square; 0: the shorter side" most:"4096"`
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
	return verb(
		"transfer",
		"Measure what a network's features are worth: a linear classifier of a few labelled photographs",
		`Computes the features of labelled photographs with a pretrained network, which stays as it is,
fits a linear support vector machine to those of a few photographs of each class, and tells the classes
of others. --checkpoint random is the row that must never be missing: the same network with random
weights. Of that, and of PyTorch's safetensors, the network is --backbone and --width.`,
		`  voxsaw 2d transfer --data caltech --checkpoint runs/photos --mix
  voxsaw 2d transfer --data caltech --checkpoint random --backbone resnet18 --mix`,
		cobra.NoArgs,
		o,
		func(cmd *cobra.Command, _ []string) error { return runPhotoTransfer(cmd, *o) },
	)
}

func runPhotoTransfer(cmd *cobra.Command, o photoTransferOptions) error {
	if o.Checkpoint == "" {
		return withHint(usagef("no checkpoint"),
			"add --checkpoint FILE, as voxsaw 2d pretrain makes it, or --checkpoint random")
	}
	var err error
	if _, err := os.Stat(o.Checkpoint); o.Checkpoint == "labels" && err != nil {
		return withHint(usagef("--checkpoint labels: there is no network that "+
			"learnt labels yet, and no file of that name"), "train one with voxsaw 2d pretrain --task labels --data "+
			"PHOTOS --out RUN, and name its folder: --checkpoint RUN")
	}
	if o.Checkpoint, err = checkpointOf(cmd.ErrOrStderr(), o.Checkpoint); err != nil {
		return err
	}
	source, err := puzzle2d.ReadSource(o.Checkpoint, o.Network)
	if err == nil {
		err = sameNetwork(cmd, o.Network, source)
	}
	if err != nil {
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
		if options.Input, err = puzzle2d.DefaultConfig().Input.Of(store); err != nil {
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
	network := fmt.Sprintf("%s of width %v", source.Network.Backbone, source.Network.Width)
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s of %d classes, %s each\n", network,
		numbers.Count(store.Len(), "photograph"), len(store.Classes()), numbers.Count(features.Width(), "feature"))
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
			Network    string          `json:"network"`
			Layer      string          `json:"layer"`
			Width      int             `json:"width"`
			Draws      []puzzle2d.Draw `json:"draws"`
		}{o.Checkpoint, network, o.Layer, features.Width(), draws}), err)
	}
	if note := puzzle2d.AtChance(draws, chance); note != "" {
		say(cmd.ErrOrStderr(), "WARNING: %s", note)
	}
	return errors.Join(printTable(cmd.OutOrStdout(), transferTable(network, draws, chance)), err)
}

// sameNetwork refuses network settings other than the checkpoint's, which states its own.
func sameNetwork(cmd *cobra.Command, asked puzzle2d.Network, source puzzle2d.Source) error {
	usual, is := puzzle2d.DefaultConfig().Network, source.Network
	for _, s := range []struct {
		name             string
		asked, usual, is any
	}{
		{"backbone", asked.Backbone, usual.Backbone, is.Backbone},
		{"width", asked.Width, usual.Width, is.Width},
		{"norm", asked.Norm, usual.Norm, is.Norm},
	} {
		if given := s.asked != s.usual || cmd.Flags().Changed(s.name); given && s.asked != s.is {
			return usagef("--%s %v, and the network of %s is of %v: leave it away, the checkpoint says what it is of",
				s.name, s.asked, source.Path, s.is)
		}
	}
	return nil
}

// transferTable is the draws for a person, and what blind guessing would tell.
func transferTable(network string, draws []puzzle2d.Draw, chance float64) table.Table {
	t := table.Table{
		Title: "Linear support vector machines on the features of " + network + ", in percent",
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

type photoFinetuneOptions struct {
	Task    config.OneOf  `yaml:",inline"`
	Data    string        `yaml:"data" help:"folder of prepared photographs of Pascal VOC"`
	TrainOn string        `yaml:"train_on" help:"sides that are trained on: trainval, or train, and val is validated on; test is for the end" oneof:"trainval train"`
	Machine deviceOptions `yaml:"machine"`
	Memory  gibibytes     `yaml:"memory,omitempty" help:"limit of the machine's memory, for a network on the CPU, crops and scans, 32 MiB and 3 % of it for the program itself; prepared data, which is mapped, does not count: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
}

func defaultPhotoFinetune() photoFinetuneOptions {
	return photoFinetuneOptions{Task: photostudy.Finetunings(), TrainOn: puzzle2d.OnTrainval, Machine: defaultDevice()}
}

func newPhotoFinetune() *cobra.Command {
	o, run := defaultPhotoFinetune(), &runFlags{}
	cmd := verb(
		"finetune",
		"Fine-tune a network on Pascal VOC: classification or detection, scored by VOC's average precision",
		`Trains a whole network on prepared photographs of Pascal VOC, nothing of it frozen, from the
weights of --checkpoint, and scores it on the side test: average precision of each class and its mean, by
VOC2007's rule (eleven points) and by that of VOC2010 and later (area). Objects that are marked as
difficult need not be found. The network is that of the checkpoint; of PyTorch's safetensors and for
--checkpoint random it is --backbone and --width.

  --task classify   a logit for each class, binary cross-entropy; random crops, mirrored; ten views in the test
  --task detect     Fast R-CNN on --proposals, a CSV file with the columns photo,xmin,ymin,xmax,ymax

Prepare for detection with --fit warp and the size that the network shall see. With --train-on train, val
is validated on during training. What is scored is last.safetensors; the scores are in results.json, too.
With --json an event "scored" comes before the last.

Ctrl-C saves and stops; --resume continues to the bit.`,
		`  voxsaw 2d finetune --data voc --checkpoint runs/photos --task classify --out runs/voc
  voxsaw 2d finetune --data voc --checkpoint random --backbone resnet18 --task classify --out runs/voc-random
  voxsaw 2d finetune --data voc600 --checkpoint runs/photos --task detect --proposals selective_search.csv --out runs/detect`,
		cobra.NoArgs,
		&o,
		func(cmd *cobra.Command, _ []string) error {
			if err := startPhotoFinetune(cmd, &o, *run); err != nil {
				return err
			}
			return runPhotoFinetune(cmd, o, *run)
		},
	)
	run.bind(cmd)
	run.local.bind(cmd)
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
	store, err := run.openPhotos(o.Data, o.Memory)
	if err != nil {
		return err
	}
	defer store.Close()
	task := o.Task.Value().(puzzle2d.Finetuning)
	batch := newAutoBatch(task.Items(), "photographs", 1)
	task.Settings().TrainOn = o.TrainOn
	resolved, err := task.Resolve(store)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Data, err)
	}
	o.Task.Set(resolved)
	data, err := puzzle2d.SplitVOC(store, o.TrainOn)
	if err != nil {
		return err
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	stderr := cmd.ErrOrStderr()
	summary, err := run.train(cmd, trainingRun{
		verb: "finetune", items: "photographs", batch: batch, settings: &o, training: &task.Settings().Train,
		mayDiffer: []string{"proposals"}, // they are recognised by their digest
		told: func(stderr io.Writer) error {
			say(stderr, "training on %s of %d classes, %d held out, %d to test on",
				numbers.Count(len(data.Train), "photograph"), len(store.Classes()), len(data.Validate), len(data.Test))
			return nil
		},
		run: func(ctx context.Context, options voxsaw.RunOptions) (voxsaw.Summary, error) {
			return task.Run(ctx, dev, data, options)
		},
	})
	if err != nil {
		return err
	}
	say(stderr, "%s: %s", run.out, steps(summary))
	p, err := scorePhotos(cmd, task, dev, data, run)
	if err != nil {
		return withHint(err, "the training is finished: %s --resume --out %s scores it", cmd.CommandPath(),
			hint.Word(run.out))
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
func scorePhotos(cmd *cobra.Command, task puzzle2d.Finetuning, dev voxsaw.Device, data sample.Data,
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

type photoCompareOptions struct {
	photostudy.Plan `yaml:",inline"`
	Machine         deviceOptions `yaml:"machine"`
	Memory          gibibytes     `yaml:"memory,omitempty" help:"limit for the networks, 32 MiB and 3 % of it for the program itself; prepared photographs, which are mapped, do not count: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
}

func newPhotoCompare() *cobra.Command {
	o := &photoCompareOptions{Plan: photostudy.DefaultPlan(), Machine: defaultDevice()}
	f := studyFlags{of: "comparison", printed: "the results, or the plan,",
		plans: "list the trials and what each is trained on, and stop"}
	cmd := verb(
		"compare",
		"Compare what networks learn from photographs: arms x seeds, puzzles solved and features measured",
		`Runs a comparison from one YAML file: each arm is trained with each seed, puzzles of held-out
photographs are solved with it round by round (with unary terms alone and with binary ones, from the same
weights), and its features are measured by linear machines on labelled photographs. The whole network may
be fine-tuned for tasks of Pascal VOC, too (finetune). An arm with random weights must be among them.

--data-root FOLDER looks for the data sets of a plan with a section sources, such as
configs/paper-table1.yaml: what is there, prepared or as published, what is missing, and how long the
trainings will take. Without --out that is all. What is missing stops the command; what is not prepared
is prepared.

Run it again to go on where it stopped; finished arms are not repeated. Run it several times at once, on
one machine or on many that share the folder: each process takes the next arm and seed that no other is
at work on. With --ranks 4 the four ranks of an MPI job train each arm together, of networks without
batch norm, and rank 0 measures it: mpirun -n 4 voxsaw 2d compare ... --ranks 4.

--write slurm writes the script of a Slurm job array, --write kubernetes an Indexed Job, an arm with a
seed each.`,
		`  voxsaw 2d compare --config configs/photos-cpu.yaml --out runs/photos
  voxsaw 2d compare --config configs/photos-cpu.yaml --out runs/photos --write slurm
  voxsaw 2d compare --config configs/paper-table1.yaml --data-root /data`,
		cobra.NoArgs,
		o,
		func(cmd *cobra.Command, _ []string) error {
			if err := f.where(); err != nil {
				return err
			}
			return f.run(cmd, study{Study: &o.Plan, title: "What networks learn from photographs", settings: o,
				machine: o.Machine, memory: o.Memory, show: func(w io.Writer) error {
					return printPhotoPlan(w, o.Plan, f.asJSON)
				}})
		},
	)
	f.bind(cmd)
	return cmd
}

// printPhotoPlan tells what would run.
func printPhotoPlan(w io.Writer, p photostudy.Plan, asJSON bool) error {
	trials, err := p.Look()
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(w, trials)
	}
	t := table.Table{Title: numbers.Count(len(trials), "trial"), Columns: []table.Column{{Title: "arm"},
		{Title: "seed"}, {Title: "task"}, {Title: "trained on"}, {Title: "photographs"}, {Title: "held out"}}}
	for _, x := range trials {
		row := []any{x.Arm, fmt.Sprint(x.Seed), x.Task, x.Photos, x.Train, x.Validate}
		if x.Task == "" {
			row = []any{x.Arm, fmt.Sprint(x.Seed), "random weights", nil, nil, nil}
		}
		t.Rows = append(t.Rows, row)
	}
	return printTable(w, t)
}

type photoConvertOptions struct {
	Out     string           `yaml:"out" help:"safetensors file to write"`
	Network puzzle2d.Network `yaml:"network"`
	Patch   int              `yaml:"patch" help:"side of what the network looks at" range:"[1,)" most:"4096"`
	JSON    bool             `yaml:"json" help:"print the report as JSON"`
	Machine deviceOptions    `yaml:"machine"`
}

func newPhotoConvert() *cobra.Command {
	o := &photoConvertOptions{Network: puzzle2d.DefaultConfig().Network, Patch: 64, Machine: defaultDevice()}
	return verb(
		"convert FILE",
		"PyTorch's weights of a network on photographs to a checkpoint, and back",
		`Of a checkpoint it writes the network's weights as PyTorch has them: torchvision's resnet18 and
resnet50 of --width 1 load the file with load_state_dict(safetensors.torch.load_file(FILE),
strict=False), which leaves what the file has not, such as fc, as it is. Of a network that tells classes,
the file has fc, and the model needs as many: resnet18(num_classes=20). How many is told.

Of a safetensors file of PyTorch's it makes a checkpoint of --backbone and --width: torchvision's names
for a ResNet; for alexnet those of Caffe's layers (conv1 to conv5, fc6) or of the context-free network in
PyTorch. In Python: safetensors.torch.save_file(model.state_dict(), FILE). What was loaded, what was not
and why is told. The other commands take such a file as it is, too, with --checkpoint and --backbone.`,
		`  voxsaw 2d convert runs/photos --out resnet18_jigsaw.safetensors
  voxsaw 2d convert resnet50_torchvision.safetensors --backbone resnet50 --out resnet50.safetensors`,
		cobra.ExactArgs(1),
		o,
		func(cmd *cobra.Command, args []string) error {
			path, err := checkpointOf(cmd.ErrOrStderr(), args[0])
			if err != nil {
				return err
			}
			if err := checkConvertOut(path, o.Out); err != nil {
				return err
			}
			source, err := puzzle2d.ReadSource(path, o.Network)
			if err != nil {
				return err
			}
			if !source.PyTorch {
				if err := sameNetwork(cmd, o.Network, source); err != nil {
					return err
				}
				return toPyTorch(cmd, path, *o)
			}
			return fromPyTorch(cmd, path, *o)
		},
	)
}

// checkConvertOut says whether a conversion may be written to a file, or into a folder.
func checkConvertOut(from, out string) error {
	if out == "" {
		return withHint(usagef("nowhere to write"), "add --out FILE")
	}
	if isSame(from, out) {
		return usagef("%s is the file itself, which would be lost", out)
	}
	if there, err := os.Lstat(out); err == nil && !there.IsDir() {
		return withHint(usagef("%s is there already, and would be written over", out),
			"choose another name, or remove it")
	}
	return nil
}

func toPyTorch(cmd *cobra.Command, path string, o photoConvertOptions) error {
	n, classes, left, err := puzzle2d.ToPyTorch(path, o.Out)
	if err != nil {
		return err
	}
	if o.JSON {
		return printJSON(cmd.OutOrStdout(), map[string]any{"out": o.Out, "backbone": n.Backbone, "width": n.Width,
			"num_classes": classes, "left_out": append([]string{}, left...)})
	}
	say(cmd.ErrOrStderr(), "%s of width %v, with PyTorch's names", n.Backbone, n.Width)
	if classes > 0 {
		say(cmd.ErrOrStderr(), "its fc is of %d classes: torchvision's model needs num_classes=%d", classes, classes)
	}
	if len(left) > 0 {
		say(cmd.ErrOrStderr(), "left out, because PyTorch's network has no such layer: %s", list(left))
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), o.Out)
	return err
}

func fromPyTorch(cmd *cobra.Command, path string, o photoConvertOptions) error {
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	loaded, err := puzzle2d.FromPyTorch(dev, path, o.Out, o.Network, o.Patch)
	if err != nil {
		return err
	}
	if o.JSON {
		skipped := map[string]string{}
		for _, s := range loaded.Skipped {
			skipped[s.Name] = s.Reason
		}
		return printJSON(cmd.OutOrStdout(), map[string]any{
			"out": o.Out, "backbone": o.Network.Backbone, "width": o.Network.Width, "loaded": loaded.Loaded,
			"skipped": skipped, "missing": append([]string{}, loaded.Missing...),
		})
	}
	say(cmd.ErrOrStderr(), "%v", loaded)
	_, err = fmt.Fprintln(cmd.OutOrStdout(), o.Out)
	return err
}
