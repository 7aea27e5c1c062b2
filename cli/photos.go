package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/puzzle2d"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/sample"
)

// newPhotos is the group of commands for photographs.
func newPhotos() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "2d",
		Short: "Puzzles on photographs instead of scans",
		Long: `The same puzzles, solver and training on photographs: any folder of JPEG, PNG, GIF, BMP,
WebP or TIFF files, with subfolders as classes where there are any.`,
		Example: `  voxsaw 2d prepare PHOTOS --out photos
  voxsaw 2d pretrain --data photos --out runs/photos
  voxsaw 2d solve --data photos --checkpoint runs/photos --picture puzzle.png
  voxsaw 2d transfer --data photos --checkpoint runs/photos
  voxsaw 2d finetune --data voc --checkpoint runs/photos --task classify --out runs/voc`,
		Args: verbMistake,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPhotoPrepare(), newPhotoPretrain(), newPhotoSolve(), newPhotoTransfer(), newPhotoFinetune(),
		newPhotoCompare(), newPhotoConvert(), newPhotoPropose())
	return cmd
}

// forPhotos puts "2d" before pretrain and solve where --data names prepared photographs, so that
// one verb serves scans and photographs. Of crossval and 2d compare it takes the one whose plan
// this is. A line that begins otherwise stays as it is.
func forPhotos(args []string) []string {
	if len(args) == 0 {
		return args
	}
	given := func(flags ...string) (value string) {
		for k, arg := range args {
			for _, flag := range flags {
				if with, ok := strings.CutPrefix(arg, flag+"="); ok {
					value = with
				} else if arg == flag && k+1 < len(args) {
					value = args[k+1]
				}
			}
		}
		return value
	}
	switch args[0] {
	case "crossval":
		if config.Gives(given("--config", "-c"), "", "photos") {
			return append([]string{"2d", "compare"}, args[1:]...)
		}
	case "2d":
		if len(args) > 1 && args[1] == "compare" && config.Gives(given("--config", "-c"), "", "data") {
			return append([]string{"crossval"}, args[2:]...)
		}
	case "pretrain", "solve":
		data := given("--data")
		if data == "" {
			return args
		}
		// otherwise it is of scans, or of nothing: the verb says what is wrong
		if store, err := photos.Open(data); err == nil {
			store.Close()
			return append([]string{"2d"}, args...)
		}
	}
	return args
}

// withoutGroup is an annotation of the root: the verb on photographs was called without "2d".
const withoutGroup = "without 2d"

// asCalled is a command's path or usage, without "2d" where the command line has none.
func asCalled(cmd *cobra.Command, path string) string {
	if cmd.Root().Annotations[withoutGroup] == "" {
		return path
	}
	return strings.Replace(path, " 2d ", " ", 1)
}

// describePhotos says in a line what a folder of photographs is.
func describePhotos(s *photos.Set) string {
	sides := map[string]int{}
	unlabelled, objects := 0, 0
	for _, p := range s.Photos {
		sides[p.Split]++
		objects += len(p.Objects)
		if p.Class == photos.Unlabelled {
			unlabelled++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", safetext.Text(s.Root), numbers.Count(len(s.Photos), "photograph"))
	switch {
	case objects > 0:
		fmt.Fprintf(&b, " with %d objects of %s", objects, classCount(s))
	case len(s.Classes) == 0:
		b.WriteString(" without classes")
	default:
		fmt.Fprintf(&b, " in %s", classCount(s))
	}
	if objects == 0 && len(s.Classes) > 0 && unlabelled > 0 {
		fmt.Fprintf(&b, " (%d of them in none)", unlabelled)
	}
	fmt.Fprintf(&b, ", layout %s", s.Layout)
	if sides[""] < len(s.Photos) {
		fmt.Fprintf(&b, ": %s", sideCounts(sides))
	}
	return b.String()
}

func classCount(s *photos.Set) string {
	switch len(s.Classes) {
	case 0:
		return "no classes"
	case 1:
		return "one class"
	}
	return fmt.Sprintf("%d classes", len(s.Classes))
}

func sideCounts(sides map[string]int) string {
	var parts []string
	for _, side := range []string{photos.Train, photos.Val, photos.Test} {
		if sides[side] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", side, sides[side]))
		}
	}
	return strings.Join(parts, ", ")
}

type photoPrepareOptions struct {
	Out     string         `yaml:"out" help:"folder for the prepared photographs"`
	Options photos.Options `yaml:",inline"`
	JSON    bool           `yaml:"json" help:"print the summary as JSON"`
}

func newPhotoPrepare() *cobra.Command {
	o := &photoPrepareOptions{Options: photos.DefaultOptions()}
	return verb("prepare PHOTOS", "Decode a folder of photographs once, into one size",
		`Decodes photographs and writes their pixels, at one size, into a folder that training maps into
memory.

  ImageNet             train/CLASS/*.JPEG and val/CLASS/*.JPEG, perhaps test
  Tiny ImageNet        the same, with val/val_annotations.txt
  Pascal VOC           JPEGImages, Annotations, ImageSets/Main
  Caltech              CLASS/*.jpg with train.txt and test.txt beside the classes
  anything else        a tree of photographs; subfolders are classes, and a tenth is held out

What a file is, its content says. Files that cannot be read are skipped and named; more than 5 % of them
stop the command. A photograph that is on two sides of the split is left out of the one that is held out.
A second run does nothing; an interrupted one is taken up again.`,
		`  voxsaw 2d prepare imagenette --out photos
  voxsaw 2d prepare holidays --out photos --size 129x129 --fit crop --hold-out 0.2 --seed 1`,
		cobra.ExactArgs(1), o, func(cmd *cobra.Command, args []string) error {
			return runPhotoPrepare(cmd, *o, args[0])
		})
}

func runPhotoPrepare(cmd *cobra.Command, o photoPrepareOptions, root string) error {
	if o.Out == "" {
		return withHint(usagef("no folder for the prepared photographs"), "add --out FOLDER")
	}
	if err := o.Options.Check(); err != nil {
		return config.Mistaken(err)
	}
	stderr := cmd.ErrOrStderr()
	set, err := photos.Find(root, o.Options.HoldOut, o.Options.Seed)
	switch {
	case errors.Is(err, photos.ErrScans):
		return withHint(err, "voxsaw prepare %s --out %s", hint.Word(root), hint.Word(o.Out))
	case err != nil:
		return err
	}
	fmt.Fprintln(stderr, describePhotos(set))
	for _, note := range set.Notes {
		fmt.Fprintln(stderr, safetext.Text(note))
	}
	progress := terminal.NewProgress(stderr, "prepare", len(set.Photos))
	defer progress.Finish()
	summary, err := photos.Prepare(cmd.Context(), set, o.Out, o.Options, func(r photos.Result) {
		switch {
		case r.Err != nil:
			progress.Note(safetext.Text(fmt.Sprintf("skipped: %s: %v", r.Path, r.Err)))
			progress.Add(1)
		case r.Kept:
			progress.Skip(1)
		default:
			progress.Add(1)
		}
	})
	progress.Finish()
	if summary != nil && summary.Fingerprint != "" {
		if printErr := printPreparedPhotos(cmd.OutOrStdout(), o, set, summary); printErr != nil {
			return printErr
		}
		const most = 10 // lines that people read; all are in index.json
		for _, d := range summary.LeftOut[:min(len(summary.LeftOut), most)] {
			fmt.Fprintln(stderr, safetext.Text(fmt.Sprintf("left out: %s: the same photograph as %s", d.Path, d.Of)))
		}
		if more := len(summary.LeftOut) - most; more > 0 {
			fmt.Fprintf(stderr, "and %s: index.json lists all\n", numbers.Count(more, "more such line"))
		}
	}
	if stopped := cmd.Context().Err(); stopped != nil && err != nil {
		return withHint(fmt.Errorf("stopped after %d of %s: %w", summary.Prepared+summary.Kept,
			numbers.Count(len(set.Photos), "photograph"), stopped), "the same command goes on from there")
	}
	var replaced *photos.ReplaceError
	switch {
	case errors.As(err, &replaced):
		return withHint(&usageError{err}, "choose another folder for --out; --force replaces them")
	case atomicfile.NoRoom(err):
		return withHint(err, "make room; then the same command goes on from there")
	case photos.Machine(err):
		return withHint(err,
			"this is the machine's fault, not a photograph's; once it is mended, the same command goes on from there")
	}
	return err
}

func printPreparedPhotos(w io.Writer, o photoPrepareOptions, set *photos.Set, s *photos.Summary) error {
	if o.JSON {
		failed, leftOut := s.Failed, s.LeftOut
		if failed == nil {
			failed = []photos.Failure{}
		}
		return printJSON(w, map[string]any{
			"layout": set.Layout, "prepared": s.Prepared, "kept": s.Kept, "failed": failed, "left_out": leftOut,
			"repeated": s.Repeated, "classes": len(set.Classes), "sides": s.Sides,
			"fingerprint": s.Fingerprint, "out": o.Out,
		})
	}
	fmt.Fprintf(w, "%s: %s prepared, %d kept from before, %d failed (layout %s, %s, %s, fingerprint %.12s)\n",
		safetext.Text(o.Out), numbers.Count(s.Prepared, "photograph"), s.Kept, len(s.Failed), set.Layout,
		classCount(set), sideCounts(s.Sides), s.Fingerprint)
	if len(s.LeftOut) > 0 {
		fmt.Fprintf(w, "left out of the held-out side, for being on the other, too: %s\n",
			numbers.Count(len(s.LeftOut), "photograph"))
	}
	if s.Repeated > 0 {
		fmt.Fprintf(w, "there more than once on their side: %s\n", numbers.Count(s.Repeated, "photograph"))
	}
	return nil
}

type photoPretrainOptions struct {
	Task    config.OneOf  `yaml:",inline"`
	Data    string        `yaml:"data" help:"folder of prepared photographs; --task labels needs classes"`
	Machine deviceOptions `yaml:"machine"`
	Memory  gibibytes     `yaml:"memory,omitempty" help:"limit of the machine's memory, for a network on the CPU, crops and scans, 32 MiB and 3 % of it for the program itself; prepared data, which is mapped, does not count: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
}

func newPhotoPretrain() *cobra.Command {
	o := &photoPretrainOptions{Task: pretext.Photographs.Choice(), Machine: defaultDevice()}
	run := &runFlags{}
	var preset, orders string
	var choices []puzzle2d.Choice
	cmd := verb(
		"pretrain",
		"Pretrain a network on photographs by solving jigsaw puzzles",
		`Cuts each photograph into cells, takes a patch of each, shuffles the patches, and trains the
network and a head to put them back. Held-out photographs tell how well puzzles are solved: Correct
(whole puzzles), D<=2 (at most two patches misplaced) and the share of patches in place, for each round.

--preset-paper sets what the paper's Table 1 has for a row (U: unary terms, UM: patches mirrored, UBM:
binary terms, too, UBM-2x2), with the paper's own ways where ours differ (docs/paper.md), and prints what
the paper does not state and where our value comes from. Flags and --config win over it.

--head kway chooses one of --classes orders, as the puzzle that the paper compares itself with; --orders
FILE takes those of the Context Free Network (permutations_*.bin) or of VISSL (.npy). --task chooses
something else to learn.

Ctrl-C saves and stops; --resume continues to the bit.`,
		`  voxsaw 2d pretrain --data photos --backbone resnet18 --out runs/photos
  voxsaw 2d pretrain --resume --out runs/photos
  voxsaw 2d pretrain --data photos --backbone alexnet --preset-paper UBM --batch 32 --out runs/alexnet
  voxsaw 2d pretrain --data photos --grid 3x3 --cell 43 --patch 32 --width 0.5 --head kway --classes 1000 --out runs/kway`,
		cobra.NoArgs,
		o,
		func(cmd *cobra.Command, _ []string) error {
			if preset != "" {
				_, c, _ := puzzle2d.SettingsOf(o.Task.Option(pretext.Default))
				if resumed(cmd) == "" {
					*c, choices = paperLast(cmd, *c, choices)
				}
				printChoices(cmd.ErrOrStderr(), preset, choices)
			}
			if orders != "" {
				_, puzzles, _ := puzzle2d.SettingsOf(o.Task.Value())
				if puzzles == nil || puzzles.Head != puzzle2d.HeadKWay {
					return usagef("--orders is for --head kway")
				}
				if err := puzzles.ReadOrders(orders); err != nil {
					return config.Mistaken(err)
				}
			}
			return runPhotoPretrain(cmd, *o, *run)
		},
	)
	run.bind(cmd)
	run.local.bind(cmd)
	cmd.Flags().StringVar(&preset, "preset-paper", "",
		"settings of a row of the paper's Table 1: U, UM, UBM or UBM-2x2")
	cmd.Flags().StringVar(&orders, "orders", "",
		"head kway: file of the orders, .bin of the Context Free Network or .npy")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if preset == "" {
			return nil
		}
		_, puzzles, _ := puzzle2d.SettingsOf(o.Task.Option(pretext.Default))
		var c puzzle2d.Config
		var err error
		if c, choices, err = puzzle2d.Paper(*puzzles, preset); err != nil {
			return config.Mistaken(err)
		}
		*puzzles = c
		return nil
	}
	cmd.Annotations = map[string]string{asRanks: "yes"}
	return cmd
}

// paperLast sets what of the paper's own ways, and which learning rate and weight decay, go by what
// the other settings are now, but for those that are given. It leaves out of the choices what is
// given.
func paperLast(cmd *cobra.Command, c puzzle2d.Config, choices []puzzle2d.Choice) (puzzle2d.Config, []puzzle2d.Choice) {
	given := func(name string) bool {
		f := cmd.Flags().Lookup(strings.ReplaceAll(name, "_", "-"))
		return f != nil && givenNow(cmd, f)
	}
	by, terms := puzzle2d.PaperTerms(c)
	if given("sum_loss") {
		by.SumLoss = c.SumLoss
	}
	if given("binary_weight") {
		by.BinaryWeight = c.BinaryWeight
	}
	if given("search_once") {
		by.SearchOnce = c.SearchOnce
	}
	if given("paper_rounds") {
		by.PaperRounds = c.PaperRounds
	}
	c, choices = by, append(choices, terms...)
	by, rates := puzzle2d.PaperRates(c)
	if !given("lr") {
		c.Train.LR = by.Train.LR
	}
	if !given("weight_decay") {
		c.Train.WeightDecay = by.Train.WeightDecay
	}
	for n, choice := range choices {
		for _, rate := range rates {
			if rate.Setting == choice.Setting {
				choices[n] = rate
			}
		}
	}
	return c, slices.DeleteFunc(choices, func(c puzzle2d.Choice) bool {
		return given(c.Setting) || slices.ContainsFunc(c.Keys, given)
	})
}

// printChoices says what the paper does not state.
func printChoices(w io.Writer, preset string, choices []puzzle2d.Choice) {
	fmt.Fprintf(w, "the paper's %s; what it does not state:\n", preset)
	for _, c := range choices {
		fmt.Fprintf(w, "  %-24s %-44s %s\n", c.Setting, c.Value, c.Source)
	}
}

func runPhotoPretrain(cmd *cobra.Command, o photoPretrainOptions, run runFlags) error {
	store, err := run.openPhotos(o.Data, o.Memory)
	if err != nil {
		return err
	}
	defer store.Close()
	data := puzzle2d.Split(store)
	task, settings := pretext.Photographs.Chosen(&o.Task)
	c := settings.Common()
	if *c.Checkpoint, err = startFrom(cmd.ErrOrStderr(), *c.Checkpoint, run); err != nil {
		return err
	}
	batch := newAutoBatch(c.Batch, task.Items, 1)
	if err := settings.Resolve(store); err != nil {
		return config.Mistaken(err)
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	return run.pretrain(cmd, trainingRun{
		verb: "pretrain", items: task.Items, batch: batch, settings: &o, training: c.Train,
		told: func(stderr io.Writer) error {
			say(stderr, "pretraining on %s, %d held out", numbers.Count(len(data.Train), "photograph"),
				len(data.Validate))
			return nil
		},
		run: func(ctx context.Context, options voxsaw.RunOptions) (voxsaw.Summary, error) {
			defer run.pictureTask(options.Folder, onPhotographs(ctx, store))()
			return settings.Pretrain(ctx, dev, data, options)
		},
	}, task.Score)
}

// openPhotos opens prepared photographs, with a hint where there are none.
func openPhotos(dir string) (*photos.Store, error) {
	if dir == "" {
		return nil, withHint(usagef("no prepared photographs"),
			"add --data FOLDER, as voxsaw 2d prepare PHOTOS --out FOLDER makes it")
	}
	store, err := photos.Open(dir)
	if errors.Is(err, photos.ErrNotPrepared) {
		err = notPrepared(err, dir, "photographs", "voxsaw 2d prepare", "photos")
	}
	return store, err
}

// openPhotos opens prepared photographs to train on.
func (r *runFlags) openPhotos(dir string, memory gibibytes) (*photos.Store, error) {
	r.memory = memory
	if err := r.hours.check(r.cmd); err != nil {
		return nil, err
	}
	store, err := openPhotos(dir)
	if err != nil {
		return nil, err
	}
	if err := r.local.keep(r.cmd, store); err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}

type photoSolveOptions struct {
	Data        string        `yaml:"data" help:"folder of prepared photographs"`
	Checkpoint  string        `yaml:"checkpoint" help:"checkpoint of voxsaw 2d pretrain, or the folder of its run (its best one)"`
	All         bool          `yaml:"all" help:"solve puzzles of all photographs, those to train on among them"`
	Photos      int           `yaml:"photos" help:"photographs to solve puzzles of, spread evenly; 0: all of them"`
	Rounds      int           `yaml:"rounds" help:"rounds at most; 0: as in training"`
	Shuffles    int           `yaml:"shuffles" help:"puzzles made of each photograph; 0: as in training"`
	OnlyClasses int           `yaml:"only_classes" help:"shuffle by this many orders alone and look for the answer among them, as a K-way puzzle; 0: all orders"`
	Unary       bool          `yaml:"unary" help:"leave out the binary terms of a network that was trained with them"`
	Picture     string        `yaml:"picture" help:"file for a puzzle of the first photograph, round by round: .png or .jpg"`
	JSON        bool          `yaml:"json" help:"print as JSON"`
	Machine     deviceOptions `yaml:"machine"`
}

func newPhotoSolve() *cobra.Command {
	o := &photoSolveOptions{Machine: defaultDevice()}
	return verb(
		"solve",
		"Solve puzzles of photographs with a pretrained network: accuracy round by round, and a picture",
		`Makes puzzles of held-out photographs (the middle of each, patches from the middle of their
cells) and solves them: Correct, D<=2 and the share of patches in their place after each round, beside
chance. The picture shows one puzzle being solved, as the paper's Figure 3: the number of each patch is
that of its place, misplaced ones are marked, and under each round stands what became of all puzzles.
Checkpoints of other tasks are put to their own task.

--only-classes K compares a network with a K-way one: both choose among the same K orders, if they were
trained with the same seed.`,
		`  voxsaw 2d solve --data photos --checkpoint runs/photos --picture puzzle.png
  voxsaw 2d solve --data photos --checkpoint runs/photos --only-classes 1000 --json`,
		cobra.NoArgs,
		o,
		func(cmd *cobra.Command, _ []string) error { return runPhotoSolve(cmd, *o) },
	)
}

func runPhotoSolve(cmd *cobra.Command, o photoSolveOptions) error {
	encode, err := openSolving(cmd.ErrOrStderr(), "voxsaw 2d pretrain", &o.Checkpoint, o.Picture)
	if err != nil {
		return err
	}
	store, err := openPhotos(o.Data)
	if err != nil {
		return err
	}
	defer store.Close()
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	task, _, evaluator, err := pretext.Photographs.Open(cmd.Context(), dev, o.Checkpoint, pretext.OpenOptions{
		Rounds: o.Rounds, Items: o.Shuffles, Only: o.OnlyClasses, Unary: o.Unary, Memory: memory.Available(),
	})
	if err != nil {
		return err
	}
	defer evaluator.Close()
	for _, note := range evaluator.Notes() {
		say(cmd.ErrOrStderr(), "%s", note)
	}
	data := puzzle2d.Split(store)
	chosen := data.Validate
	if o.All || len(chosen) == 0 {
		if !o.All {
			fmt.Fprintln(cmd.ErrOrStderr(), "no photographs are held out: taking all")
		}
		chosen = append(data.Train, data.Validate...)
	}
	photographs, err := sample.Open(store, puzzle2d.Spread(chosen, o.Photos))
	if err != nil {
		return err
	}
	e, err := evaluator.Evaluate(cmd.Context(), photographs)
	if err != nil {
		return err
	}
	of := numbers.Count(e.Cases, "photograph")
	if task.Searched {
		of = numbers.Count(e.Items, strings.TrimSuffix(task.Items, "s")) + " of " + of
	}
	if o.JSON {
		err = printJSON(cmd.OutOrStdout(), e.Record)
	} else {
		err = printTable(cmd.OutOrStdout(), solved(e, of+", in percent"))
	}
	if encode == nil {
		return err
	}
	picture, wrong := evaluator.Picture(photographs[0])
	return errors.Join(err, savePicture(cmd.ErrOrStderr(), o.Picture, encode, picture.Image, wrong))
}

type photoProposeOptions struct {
	Out                     string `yaml:"out" help:"file of the proposals, CSV in gzip"`
	puzzle2d.ProposeOptions `yaml:",inline"`
}

func newPhotoPropose() *cobra.Command {
	o := &photoProposeOptions{ProposeOptions: puzzle2d.DefaultProposeOptions()}
	return verb(
		"propose PHOTOS",
		"Propose boxes that may hold objects, for finetune --task detect: selective search",
		`Divides each photograph, at its own size, into regions that look alike, joins those that are
most alike again and again, and writes the box of every region that there was, the most promising first:
selective search (Uijlings et al., IJCV 2013), its fast version. A photograph of 500x375 pixels takes a
core about a second.

The folder is the data set as it is published, as voxsaw 2d prepare reads it. An interrupted run is taken
up again by the same command.`,
		"  voxsaw 2d propose VOCdevkit/VOC2007 --out proposals.csv.gz",
		cobra.ExactArgs(1),
		o,
		func(cmd *cobra.Command, args []string) error {
			return runPhotoPropose(cmd, *o, args[0])
		},
	)
}

func runPhotoPropose(cmd *cobra.Command, o photoProposeOptions, root string) error {
	if o.Out == "" {
		return withHint(usagef("no file for the proposals"), "add --out proposals.csv.gz")
	}
	set, err := photos.Find(root, 0, 0)
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	fmt.Fprintln(stderr, describePhotos(set))
	progress := terminal.NewProgress(stderr, "propose", len(set.Photos))
	defer progress.Finish()
	boxes, fresh, kept, failed := 0, 0, 0, 0
	err = puzzle2d.Propose(cmd.Context(), set, o.Out, o.ProposeOptions, func(p puzzle2d.Proposed) {
		switch {
		case p.Err != nil:
			progress.Note(safetext.Text(fmt.Sprintf("skipped: %s: %v", p.Path, p.Err)))
			progress.Add(1)
			failed++
		case p.Kept:
			progress.Skip(1)
			kept++
		default:
			progress.Add(1)
			boxes, fresh = boxes+p.Boxes, fresh+1
		}
	})
	progress.Finish()
	if stopped := cmd.Context().Err(); stopped != nil && err != nil {
		return withHint(
			fmt.Errorf("stopped after %d of %s: %w", fresh+kept, numbers.Count(len(set.Photos), "photograph"),
				stopped),
			"the same command goes on from there",
		)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %.0f boxes each, %d kept from before, %d failed\n",
		safetext.Text(o.Out), numbers.Count(fresh, "photograph"), float64(boxes)/float64(max(fresh, 1)), kept, failed)
	return err
}
