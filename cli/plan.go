package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/fingerprint"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pace"
	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/unet"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

type planOptions struct {
	Out      string              `yaml:"out" help:"file for the plan, which other commands take as --config"`
	To       string              `yaml:"to" help:"what the plan is for" oneof:"voxsaw prepare nnunet nnunet-resencm nnunet-resencl nnunet-resencxl"`
	Target   float64             `yaml:"gpu_memory_target" help:"--to nnunet...: GB of a GPU that are planned for, as nnUNetv2_plan_experiment -gpu_memory_target; 0: what its planner plans for by itself" range:"[0,)"`
	Plans    string              `yaml:"plans,omitempty" help:"plans.json of nnU-Net, whose spacing, intensities, patch, batch and network are planned with; plans.json:3d_lowres chooses a configuration"`
	Network  string              `yaml:"network" help:"network that is planned: the default one, or by nnU-Net's rules its plain U-Net or its residual encoder (ResEncM)" oneof:"vnet unet resenc"`
	Hours    float64             `yaml:"hours" help:"time of one training with its pretraining" range:"(0,)"`
	Dataset  dataset.Options     `yaml:"dataset"`
	Read     dataset.ReadOptions `yaml:"read"`
	Channels string              `yaml:"channels,omitempty" help:"channels of each scan, as prepare --channels has them"`
	Modality string              `yaml:"modality,omitempty" help:"what the scans are, as prepare --modality has it: CT, MR, PT or another of DICOM's words; empty: as the scans say"`
	Learn    []string            `yaml:"learn" help:"labels to learn, as finetune --labels has them; empty: all"`
	Memory   gibibytes           `yaml:"memory" help:"limit: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
	Machine  deviceOptions       `yaml:"machine"`
	Force    bool                `yaml:"force" help:"replace a file that is there"`

	machine string // settings of Machine that are not the usual ones
	// how scans are prepared by Plans, as its file has it that differs from the usual; empty: not
	how string
}

func newPlan() *cobra.Command {
	o := &planOptions{To: toVoxsaw, Network: backbone.Default, Hours: defaultHours,
		Read: dataset.DefaultReadOptions(), Machine: defaultDevice()}
	return verb("plan PREPARED | SCANS...",
		"Decide on spacing, crop, network and steps for this data, this machine and this time",
		`Reads a folder of prepared cases, or scans, for their fingerprint: sizes, the box of the body,
values under the labels. Times the first steps of the training on this machine, and writes a plan: what
is cut out, spacing, intensities, crop, network, steps of pretraining and of fine-tuning, folds, each
with its reason. Spacing and the largest crop follow nnU-Net's rules; how much of that fits into the time
is measured. The plan is a file that other commands take as --config, each its own section, and that may
be edited.

--plans takes nnU-Net's plan of the data instead: its spacing, intensities, patch, batch and network; the
steps are those that fit into the time. --network unet or resenc plans a network by nnU-Net's rules.

--to prepare plans what is cut out, spacing and intensities alone, and times nothing. --to nnunet reads
the scans of a folder of nnUNet_raw and writes plans.json for nnU-Net itself, as nnUNetv2_plan_experiment
does with its default planner, for a GPU of 8 GB; --to nnunet-resencm, -resencl and -resencxl those of
nnUNetPlannerResEncM, L and XL, for 8, 24 and 40 GB. --gpu-memory-target plans for another GPU.`,
		`  voxsaw plan scans --hours 3 --out plan.yaml
  voxsaw plan prepared --hours 0.5 --out plan.yaml
  voxsaw plan scans --plans nnUNetPlans.json --hours 12 --out plan.yaml
  voxsaw plan nnUNet_raw/Dataset001_NAME --to nnunet --out nnUNetPlans.json`,
		cobra.MinimumNArgs(1), o, func(cmd *cobra.Command, args []string) error { return runPlan(cmd, *o, args) })
}

// free refuses to replace what is there.
func (o planOptions) free() error {
	stat, err := os.Lstat(o.Out)
	if err == nil && stat.IsDir() {
		return withHint(usagef("%s is a folder", o.Out), "name a file: --out %s",
			hint.Word(filepath.Join(o.Out, "plan.yaml")))
	}
	if err == nil && !o.Force {
		return withHint(fmt.Errorf("%s is there already", o.Out),
			"choose another --out, or say --force, which replaces it")
	}
	return nil
}

// write writes the plan, unless another process has written one there meanwhile.
func (o planOptions) write(write func(io.Writer) error) error {
	return place(o.Out, func() error {
		return atomicfile.WriteTogether(o.free, atomicfile.File{Path: o.Out, Write: write})
	})
}

func runPlan(cmd *cobra.Command, o planOptions, paths []string) error {
	if o.Out == "" {
		return withHint(usagef("no file for the plan"), "add --out plan.yaml")
	}
	if err := o.free(); err != nil {
		return err
	}
	o.Memory.limitAll() // before scans are read
	if encoder, theirs := encoders[o.To]; theirs {
		return planNNUNet(cmd, o, encoder, paths)
	}
	if err := notBeside(cmd, "that is for --to nnunet, and --memory for a plan of this program", o.To,
		"gpu-memory-target"); err != nil {
		return err
	}
	if o.To == toPrepare {
		return planPreparation(cmd, o, paths)
	}
	if err := oneNetwork(cmd, o.Plans); err != nil {
		return err
	}
	usual := defaultDevice()
	var err error
	if o.machine, err = unlike(&o.Machine, &usual); err != nil { // opening adds to it
		return err
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	f, store, err := o.fingerprint(cmd, paths)
	if err != nil {
		return err
	}
	from := ""
	if store != nil {
		defer store.Close()
		from = paths[0]
	}
	if err := learns(&f, o.Learn); err != nil {
		return err
	}
	p, err := makePlan(cmd.Context(), cmd.ErrOrStderr(), dev, &f, pace.Machine{Store: store, Labels: o.Learn,
		Hours: o.Hours}, o.Memory)
	if err != nil {
		return err
	}
	if err := o.write(func(w io.Writer) error { return writePlan(w, p, f, from, o) }); err != nil {
		return err
	}
	if err := showPlan(cmd, p, f, o.Out); err != nil || isStage(cmd.Context()) {
		return err
	}
	say(cmd.ErrOrStderr(), "%s", strings.Join(nextSteps(p, f, from, paths, o.Out), "\n  "))
	return nil
}

// oneNetwork refuses a network beside plans that have one.
func oneNetwork(cmd *cobra.Command, plans string) error {
	if plans != "" && givenNow(cmd, cmd.Flags().Lookup("network")) {
		return usagef("--network beside --plans, which says it already: leave one of them out")
	}
	return nil
}

// planPreparation plans how scans are prepared, and no training of them.
func planPreparation(cmd *cobra.Command, o planOptions, paths []string) error {
	if err := notBeside(cmd, "how scans are prepared depends on no network, no machine and no time", o.To, "hours",
		"learn", "network", "device", "gpu-memory", "precision", "threads", "conv", "tuning"); err != nil {
		return err
	}
	f, store, err := o.fingerprint(cmd, paths)
	if err != nil {
		return err
	}
	if store != nil {
		defer store.Close()
		return withHint(usagef("%s holds cases that are prepared already", paths[0]), "name the scans")
	}
	p, err := planning.Preparation(f)
	if err != nil {
		return err
	}
	if err := o.write(func(w io.Writer) error { return writePreparation(w, p, f, o) }); err != nil {
		return err
	}
	if err := showPlan(cmd, p, f, o.Out); err != nil || isStage(cmd.Context()) {
		return err
	}
	say(cmd.ErrOrStderr(), "what carries it out: %s", prepareBy(paths, o.Out))
	return nil
}

// notBeside refuses settings that a kind of plan does not go by.
func notBeside(cmd *cobra.Command, why, kind string, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f != nil && givenNow(cmd, f) {
			return usagef("--%s beside --to %s: %s", name, kind, why)
		}
	}
	return nil
}

// showPlan prints what the scans are like, and what was decided. In a job the first is printed
// once, and of the other what an earlier plan did not say.
func showPlan(cmd *cobra.Command, p *planning.Plan, f planning.Fingerprint, title string) error {
	s, job := cmd.Context().Value(stageKey{}).(*stageOf)
	if !job || !s.fingerprint {
		if err := showFingerprint(cmd, f); err != nil {
			return err
		}
	}
	var rows [][]string
	for _, d := range p.Decisions {
		if !job || s.decided[d.What] != d.Is {
			rows = append(rows, []string{d.What, d.Is, d.Because})
		}
	}
	if job {
		s.fingerprint, s.decided = true, map[string]string{}
		for _, d := range p.Decisions {
			s.decided[d.What] = d.Is
		}
		switch {
		case len(rows) == 0:
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: all as before\n", safetext.Text(title))
			return err
		case len(rows) < len(p.Decisions):
			title += ": what is new"
		}
	}
	return terminal.Table(cmd.OutOrStdout(), terminal.TableData{Title: title, Header: []string{"", "", "because"},
		Rows: rows, Remarks: true})
}

func showFingerprint(cmd *cobra.Command, f planning.Fingerprint) error {
	var found [][]string
	for _, row := range f.Facts().Text() {
		found = append(found, row[:])
	}
	return terminal.Table(cmd.OutOrStdout(), terminal.TableData{
		Title:  "Fingerprint: " + numbers.Count(len(f.Scans), "scan"),
		Header: []string{"", "median (least to most)"}, Rows: found, Remarks: true,
	})
}

// prepareBy is the command that prepares scans as a plan says.
func prepareBy(paths []string, plan string) string {
	return fmt.Sprintf("voxsaw prepare %s --config %s --out prepared", hint.Words(paths...), hint.Word(plan))
}

// nextSteps are the commands that carry the plan out.
func nextSteps(p *planning.Plan, f planning.Fingerprint, from string, paths []string, out string) []string {
	all := []string{"what carries it out:"}
	data := ""
	if from == "" {
		data = " --data prepared"
		all = append(all, prepareBy(paths, out))
	}
	init := ""
	if p.Pretrain > 0 {
		init = " --init runs/pretrained"
		all = append(all, fmt.Sprintf("voxsaw pretrain --config %s%s --out runs/pretrained", hint.Word(out), data))
	}
	if f.Labelled() == 0 {
		return append(all, "voxsaw finetune: once some scans have labels")
	}
	return append(all, fmt.Sprintf("voxsaw finetune --config %s%s%s --out runs/organs", hint.Word(out), data, init))
}

// fingerprint looks at prepared cases, whose store it gives, or at scans, and tells how far it is.
func (o *planOptions) fingerprint(cmd *cobra.Command, paths []string) (f planning.Fingerprint, store *prepared.Store,
	err error) {
	progress := terminal.Progress(nil)
	told := func(_, of int) {
		if progress == nil {
			progress = terminal.NewProgress(cmd.ErrOrStderr(), "fingerprint", of)
		}
		progress.Add(1)
	}
	finish := func() {
		if progress != nil {
			progress.Finish()
		}
	}
	n := voxsaw.Network{}
	p, err := planned(&n, o.Plans)
	if err != nil {
		return f, nil, err
	}
	if _, err := backbone.Resolve(n); err != nil {
		return f, nil, fmt.Errorf("%s: %w", o.Plans, err)
	}
	if store, err = openPrepared(paths); err != nil {
		return f, nil, err
	}
	if store != nil {
		if err = beforePreparing(cmd, paths[0]); err == nil {
			sayUnlike(cmd.ErrOrStderr(), p, store)
			f, err = fingerprint.OfPrepared(cmd.Context(), store, told)
			finish()
		}
		if err == nil {
			err = o.follow(&f, p, volume.Preparation{}) // they are prepared as they are
		}
		if err != nil {
			store.Close()
			return f, nil, err
		}
		return f, store, nil
	}
	d, how, err := o.detect(cmd, paths)
	if err != nil {
		return f, nil, err
	}
	if err := o.sameChannels(p, max(1, how.Inputs())); err != nil { // before all scans are read
		return f, nil, err
	}
	f, left, err := fingerprint.OfScans(cmd.Context(), d, how, o.Read, told)
	if finish(); err != nil {
		return f, nil, err
	}
	if err := o.follow(&f, p, how); err != nil {
		return f, nil, err
	}
	for _, why := range left {
		say(cmd.ErrOrStderr(), "WARNING: the plan is made without a scan: %v", why)
	}
	return f, nil, nil
}

// beforePreparing refuses what is said of scans where they are prepared cases.
func beforePreparing(cmd *cobra.Command, path string) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		part, _, _ := strings.Cut(config.Key(f), ".")
		if slices.Contains([]string{"modality", "channels", "dataset", "read"}, part) && givenNow(cmd, f) {
			err = withHint(usagef("--%s: %s holds cases that are prepared already", f.Name, path),
				"leave --%s out, or name the scans", f.Name)
		}
	})
	return err
}

// openPrepared opens a folder of prepared cases; nil where the paths are something else.
func openPrepared(paths []string) (*prepared.Store, error) {
	if len(paths) != 1 {
		return nil, nil
	}
	store, err := prepared.Open(paths[0])
	if errors.Is(err, prepared.ErrNotPrepared) && !errors.Is(err, prepared.ErrInterrupted) {
		return nil, nil
	}
	return store, err
}

// follow makes a fingerprint that of a set whose network is not the default one: that of nnU-Net's
// plans, if there are some, of scans that are prepared in a way; or one by nnU-Net's rules.
func (o *planOptions) follow(f *planning.Fingerprint, p *nnunet.Plan, how volume.Preparation) error {
	if err := o.sameChannels(p, f.Channels); err != nil {
		return err
	}
	switch {
	case p != nil:
		f.Brought = &planning.Brought{Name: filepath.Base(o.Plans), Crop: how.Crop, Spacing: how.Spacing,
			Intensity: how.Intensity, Foreground: how.Foreground, Network: p.Network, Patch: p.PatchSize(),
			Batch: p.Batch}
	case o.Network != backbone.Default:
		encoder := planning.Plain
		if o.Network == plannedResidual {
			encoder = planning.Residual
		}
		f.Encoder = &encoder
	}
	return nil
}

// sameChannels refuses plans of nnU-Net, if there are some, for scans of another number of
// channels.
func (o *planOptions) sameChannels(p *nnunet.Plan, here int) error {
	if p == nil || len(p.Channels) == here {
		return nil
	}
	return withHint(usagef("%s is for scans of %s, and these have %d", o.Plans,
		numbers.Count(len(p.Channels), "channel"), here),
		"take the plans that were made for these scans; a job that was begun with others needs another --out")
}

// detect finds scans, and how they are prepared.
func (o *planOptions) detect(cmd *cobra.Command, paths []string) (*dataset.Dataset, volume.Preparation, error) {
	how := volume.DefaultPreparation()
	how.Channels, how.Modality = o.Channels, o.Modality
	if err := likePlan(cmd, o.Plans, &how); err != nil {
		return nil, how, err
	}
	if o.Plans != "" {
		usual := volume.DefaultPreparation()
		var err error
		if o.how, err = unlike(&how, &usual); err != nil {
			return nil, how, err
		}
	}
	set := o.Dataset
	set.Channels = how.ChannelsAsked()
	if err := o.Dataset.Check(); err != nil {
		return nil, how, config.Mistaken(err)
	}
	d, err := dataset.DetectAll(paths, set)
	if err != nil {
		return nil, how, withHint(err, "voxsaw inspect %s shows what is there", hint.Words(paths...))
	}
	say(cmd.ErrOrStderr(), "%s", d)
	if err := checkOrder(cmd.ErrOrStderr(), d, o.Read); err != nil {
		return nil, how, err
	}
	d, how, note, err := d.ChooseModality(how, o.Read, 0)
	if err != nil {
		return nil, how, explainPrepare(cmd.Context(), err, nil, d)
	}
	if note != "" {
		say(cmd.ErrOrStderr(), "%s", note)
	}
	return d, how, nil
}

// planFile is what a plan says beside the settings of the commands.
type planFile struct {
	Version       int                 `yaml:"version" help:"of this file's format"`
	Hours         float64             `yaml:"hours" help:"that it is for: one training with its pretraining"`
	Device        string              `yaml:"device" help:"that steps were timed on"`
	Scans         int                 `yaml:"scans" help:"that it was made from"`
	Labelled      int                 `yaml:"labelled" help:"of these"`
	Seconds       float64             `yaml:"seconds" help:"that a step of fine-tuning takes"`
	Takes         float64             `yaml:"takes" help:"seconds that a fine-tuning takes, with its validations"`
	PuzzleSeconds float64             `yaml:"puzzle_seconds" help:"that a step of pretraining takes; 0: none was timed"`
	Fingerprint   planning.Facts      `yaml:"fingerprint" help:"what the scans are like"`
	Decisions     []planning.Decision `yaml:"decisions" help:"with their reasons"`
}

// puzzlesValidated is how often a pretraining is validated.
const puzzlesValidated = 4

// writePlan writes a plan as the settings of each command.
func writePlan(w io.Writer, p *planning.Plan, f planning.Fingerprint, from string, o planOptions) error {
	head, err := config.Marshal(&planFile{
		1, o.Hours, o.Machine.Device, len(f.Scans), f.Labelled(), round(p.Step.Seconds(), 5),
		round(p.Takes().Seconds(), 1), round(p.Puzzling.Seconds(), 5), f.Facts(), p.Decisions,
	})
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		"# What voxsaw plan decided on. Each command reads its own section of "+
			"this file: voxsaw finetune --config %s ...\n",
		hint.Word(filepath.Base(o.Out)))
	usual := dataset.DefaultReadOptions()
	read, err := unlike(&o.Read, &usual)
	if err != nil {
		return err
	}
	if read != "" {
		read = "read:\n" + indented(read, "  ")
	}
	prepare, err := sectionOfPrepare(p, f, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "plan:\n%s%s", indented(string(head), "  "), prepare)
	n := p.Finetune.Network
	network := fmt.Sprintf("network: {kind: %s, channels: %d, levels: %d, norm: %s}\n", n.Kind, n.Channels, n.Levels,
		n.Norm)
	if n.Kind == unet.Kind {
		network = fmt.Sprintf("network: {kind: %s, architecture: '%s'}\n", n.Kind, n.Architecture)
	}
	train := func(steps, validations int) string {
		return fmt.Sprintf("train: {steps: %d, validate_every: %d, checkpoint_every: %d}\n", steps,
			max((steps+validations-1)/validations, 1), max(steps/10, 1))
	}
	q := p.Puzzle
	pretrain := "task: jigsaw\n" + network + fmt.Sprintf("grid: [%d, %d, %d]\n", q.Grid[0], q.Grid[1], q.Grid[2]) +
		fmt.Sprintf("crop: [%d, %d, %d]\n", q.Crop[0], q.Crop[1], q.Crop[2]) + fmt.Sprintf("patch: [%d, %d, %d]\n",
		q.Patch[0], q.Patch[1], q.Patch[2]) +
		fmt.Sprintf("batch: %d\n", q.Batch) + train(p.Pretrain, puzzlesValidated)
	finetune := network
	if len(o.Learn) > 0 {
		labels, err := config.Marshal(&struct {
			Labels []string `yaml:"labels"`
		}{o.Learn})
		if err != nil {
			return err
		}
		finetune = string(labels) + network
	}
	finetune += fmt.Sprintf("crop: [%d, %d, %d]\nbatch: %d\n", p.Finetune.Crop[0], p.Finetune.Crop[1],
		p.Finetune.Crop[2], p.Finetune.Batch) + train(p.Steps, max(p.Validations, 1))
	machine := ""
	if o.machine != "" {
		machine = "machine:\n" + indented(o.machine, "  ")
	}
	data := machine
	if from != "" {
		data += fmt.Sprintf("data: %q\n", from)
	}
	section := func(command, settings string) {
		if settings == "" {
			fmt.Fprintf(&b, "%s: {}\n", command) // it is taken, and the usual settings hold
			return
		}
		fmt.Fprintf(&b, "%s:\n%s", command, indented(settings, "  "))
	}
	if p.Pretrain > 0 {
		section("pretrain", data+pretrain)
		section("solve", data)
	}
	section("finetune", data+finetune)
	if p.Folds > 0 {
		inits := "  - {name: scratch}\n"
		if p.Pretrain > 0 {
			inits += "  - {name: puzzles, pretrain: {}}\npretrain:\n" + indented(pretrain, "  ")
		}
		section("crossval", data+fmt.Sprintf("folds: %d\nfold_scheme: shuffled\nfractions: [1]\nseeds: [1]\n"+
			"initialisations:\n%sfinetune:\n%s", p.Folds, inits, indented(finetune, "  ")))
	}
	section("predict", machine+read)
	section("next", machine)
	section("evaluate", read) // references are read as the scans' labels were
	section("view", read)
	network += fmt.Sprintf("crop: [%d, %d, %d]\n", p.Finetune.Crop[0], p.Finetune.Crop[1], p.Finetune.Crop[2])
	section("doctor", network+machine)
	network += fmt.Sprintf("batch: %d\ninputs: %d\n", p.Finetune.Batch, max(f.Channels, 1))
	timed := network
	for line := range strings.Lines(o.machine) {
		if key, _, _ := strings.Cut(line, ":"); key == "device" || key == "precision" || key == "threads" {
			network += line
		}
	}
	section("tune", network)
	section("bench layers", timed+machine)
	_, err = io.WriteString(w, b.String())
	return err
}

// preparationFile is what a plan of the preparation alone says beside the settings of prepare.
type preparationFile struct {
	Version     int                 `yaml:"version" help:"of this file's format"`
	Scans       int                 `yaml:"scans" help:"that it was made from"`
	Labelled    int                 `yaml:"labelled" help:"of these"`
	Fingerprint planning.Facts      `yaml:"fingerprint" help:"what the scans are like"`
	Decisions   []planning.Decision `yaml:"decisions" help:"with their reasons"`
}

// writePreparation writes a plan as the settings of prepare.
func writePreparation(w io.Writer, p *planning.Plan, f planning.Fingerprint, o planOptions) error {
	head, err := config.Marshal(&preparationFile{1, len(f.Scans), f.Labelled(), f.Facts(), p.Decisions})
	if err != nil {
		return err
	}
	prepare, err := sectionOfPrepare(p, f, o)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "# How the scans are prepared: voxsaw prepare SCANS --config %s ...\nplan:\n%s%s",
		hint.Word(filepath.Base(o.Out)), indented(string(head), "  "), prepare)
	return err
}

// sectionOfPrepare are the settings of prepare, with what was said of the data set. The modality is
// not in it unless somebody has said it: prepare finds it as the plan does, and then holds each
// scan against it; it does not where somebody says it.
func sectionOfPrepare(p *planning.Plan, f planning.Fingerprint, o planOptions) (text string, err error) {
	values := "intensity: " + p.Intensity
	if f.ChannelNames != "" { // they say modality and intensities of each
		values = fmt.Sprintf("channels: %q", f.ChannelNames)
	}
	if v := p.Foreground; v != [4]float64{} {
		values += fmt.Sprintf(", foreground: [%g, %g, %g, %g]", v[0], v[1], v[2], v[3])
	}
	if p.Crop != "" {
		values += ", crop: " + p.Crop
	}
	if o.Modality != "" {
		values += fmt.Sprintf(", modality: %q", o.Modality)
	}
	s := p.Spacing
	text = fmt.Sprintf("prepare:\n  preparation: {spacing: [%g, %g, %g], %s}\n", s[0], s[1], s[2], values)
	if o.how != "" {
		text = "prepare:\n  preparation:\n" + indented(o.how, "    ")
	}
	usual := dataset.DefaultReadOptions()
	reading, err := unlike(&o.Read, &usual)
	set, failed := unlike(&o.Dataset, &dataset.Options{})
	for _, part := range [][2]string{{"work", reading}, {"dataset", set}} {
		if part[1] != "" {
			text += "  " + part[0] + ":\n" + indented(part[1], "    ")
		}
	}
	return text, errors.Join(err, failed)
}

// unlike are the lines of settings, as a file has them, that are not the usual ones.
func unlike(settings, usual any) (text string, err error) {
	set, err := config.Marshal(settings)
	known, failed := config.Marshal(usual)
	theirs := slices.Collect(strings.Lines(string(known)))
	for line := range strings.Lines(string(set)) {
		if !slices.Contains(theirs, line) {
			text += line
		}
	}
	return text, errors.Join(err, failed)
}

// indented puts a margin before each line.
func indented(text, margin string) string {
	return margin + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+margin) + "\n"
}
