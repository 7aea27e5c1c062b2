package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/bench"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/puzzle3d"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

type planOptions struct {
	Out      string          `yaml:"out" help:"file for the plan, which --config of prepare, pretrain, finetune and crossval takes"`
	To       string          `yaml:"to" help:"nnunet and nnunet-resencm write plans.json of nnU-Net instead, for a folder of nnUNet_raw and a GPU of 8 GB, as nnUNetv2_plan_experiment does with its default planner and with nnUNetPlannerResEncM" oneof:"voxsaw nnunet nnunet-resencm"`
	Hours    float64         `yaml:"hours" help:"time of one training with its pretraining" range:"(0,)"`
	Dataset  dataset.Options `yaml:"dataset"`
	Channels string          `yaml:"channels,omitempty" help:"channels of each scan, as prepare --channels has them"`
	Memory   gibibytes       `yaml:"memory" help:"limit: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
	Machine  deviceOptions   `yaml:"machine"`
	Force    bool            `yaml:"force" help:"replace a file that is there"`
}

func newPlan() *cobra.Command {
	o := &planOptions{To: toVoxsaw, Hours: defaultHours, Machine: defaultDevice()}
	return verb("plan PREPARED | SCANS...",
		"Decide on spacing, crop, network and steps for this data, this machine and this time",
		`Looks at a folder of prepared cases, or at scans by their headers, times a few training steps on this machine, and writes a plan: spacing, intensities, crop, network,
steps of pretraining and of fine-tuning, folds, each with its reason. Spacing and the largest crop follow nnU-Net's rules; how much of that fits into the time is
measured. The plan is a file that other commands take as --config, each its own section, and that may be edited.

--to nnunet reads the scans of a folder of nnUNet_raw and writes plans.json for nnU-Net itself.`,
		`  voxsaw plan scans --hours 3 --out plan.yaml
  voxsaw plan prepared --hours 0.5 --out plan.yaml
  voxsaw plan nnUNet_raw/Dataset001_NAME --to nnunet --out nnUNetPlans.json`,
		cobra.MinimumNArgs(1), o, func(cmd *cobra.Command, args []string) error { return runPlan(cmd, *o, args) })
}

func runPlan(cmd *cobra.Command, o planOptions, paths []string) error {
	if o.Out == "" {
		return withHint(usagef("no file for the plan"), "add --out plan.yaml")
	}
	if _, err := os.Lstat(o.Out); err == nil && !o.Force {
		return withHint(fmt.Errorf("%s is there already", o.Out),
			"choose another --out, or say --force, which replaces it")
	}
	if o.To != toVoxsaw {
		return planNNUNet(cmd, o, paths)
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	f, from, err := o.fingerprint(cmd, paths)
	if err != nil {
		return err
	}
	p, err := makePlan(cmd.Context(), cmd.ErrOrStderr(), dev, &f, o.Memory, o.Hours)
	if err != nil {
		return err
	}
	if err := writeFile(o.Out, func(w io.Writer) error { return writePlan(w, p, f, from, o) }); err != nil {
		return err
	}
	rows := make([][]string, len(p.Decisions))
	for n, d := range p.Decisions {
		rows[n] = []string{d.What, d.Is, d.Because}
	}
	if err := terminal.Table(cmd.OutOrStdout(), terminal.TableData{Title: o.Out, Header: []string{"", "", "because"},
		Rows: rows, Remarks: true}); err != nil {
		return err
	}
	if isStage(cmd.Context()) {
		return nil
	}
	say(cmd.ErrOrStderr(), "%s", strings.Join(nextSteps(p, f, from, paths, o.Out), "\n  "))
	return nil
}

// nextSteps are the commands that carry the plan out.
func nextSteps(p *planning.Plan, f planning.Fingerprint, from string, paths []string, out string) []string {
	all := []string{"what carries it out:"}
	data := ""
	if from == "" {
		data = " --data prepared"
		all = append(all, fmt.Sprintf("voxsaw prepare %s --config %s --out prepared", hint.Words(paths...),
			hint.Word(out)))
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

// fingerprint looks at prepared cases, whose folder it names, or at the headers of scans.
func (o planOptions) fingerprint(cmd *cobra.Command, paths []string) (f planning.Fingerprint, from string, err error) {
	if len(paths) == 1 {
		store, err := prepared.Open(paths[0])
		if err == nil {
			defer store.Close()
			return fingerprintOf(store), paths[0], nil
		}
		if !errors.Is(err, prepared.ErrNotPrepared) {
			return f, "", err
		}
	}
	how := volume.DefaultPreparation()
	how.Channels = o.Channels
	o.Dataset.Channels = how.ChannelsAsked()
	d, err := dataset.DetectAll(paths, o.Dataset)
	if err != nil {
		return f, "", withHint(err, "voxsaw inspect %s shows what is there", hint.Words(paths...))
	}
	say(cmd.ErrOrStderr(), "%s", d)
	d, how, note, err := d.ChooseModality(how, dataset.DefaultReadOptions(), 0)
	if err != nil {
		return f, "", explainPrepare(cmd.Context(), err, nil, d)
	}
	if note != "" {
		say(cmd.ErrOrStderr(), "%s", note)
	}
	f = planning.Fingerprint{Modality: how.ModalityName(), Intensity: how.Scheme(), Channels: 1,
		Classes: 1 + len(d.LabelNames), ChannelNames: how.Channels}
	unread := 0
	for _, c := range d.Cases {
		if c.Group != "" { // held back for testing
			continue
		}
		g, _, known := c.Extent()
		if known {
			g, err = g.Oriented(how.Axcodes)
		}
		if !known || err != nil {
			unread++
			continue
		}
		f.Channels = max(f.Channels, 1+len(c.More))
		f.Scans = append(f.Scans, planning.Scan{Spacing: g.Spacing(), Shape: g.Shape, Labels: c.Labels != ""})
	}
	if unread > 0 {
		say(cmd.ErrOrStderr(),
			"WARNING: the size of %d of %d scans is not known from their headers: the plan is made without them",
			unread, len(d.Cases))
	}
	return f, "", nil
}

// fingerprintOf is that of prepared cases.
func fingerprintOf(store *prepared.Store) planning.Fingerprint {
	how := store.Preparation()
	f := planning.Fingerprint{
		Modality: how.ModalityName(), Intensity: how.Scheme(), Channels: 1, Classes: 1 + len(store.LabelNames()),
		Prepared: how.Spacing,
	}
	var labelled []string
	for r := range store.Records() {
		if r.Group != "" {
			continue
		}
		if r.HasLabels {
			labelled = append(labelled, r.ID)
		}
		s := planning.Scan{Spacing: r.Spacing, Shape: r.Shape, Labels: r.HasLabels}
		if original, err := r.Original.Oriented(how.Axcodes); err == nil {
			own := original.Spacing()
			for a := range 3 { // what was prepared of the scan, in voxels of the scan
				s.Shape[a] = max(1, int(float64(s.Shape[a])*s.Spacing[a]/own[a]+0.5))
			}
			s.Spacing = own
		}
		f.Scans = append(f.Scans, s)
	}
	f.Patients = dataset.PatientsOf(store.Records()).Count(labelled)
	return f
}

// stepTimer is the machine that a plan is made for.
type stepTimer struct {
	ctx    context.Context
	dev    device.Device
	limit  int64
	stderr io.Writer
	hours  float64 // that are planned
}

func (m *stepTimer) network(w planning.Work) bench.Network {
	return bench.Network{Settings: w.Network, Crop: w.Crop, Batch: w.Batch, Memory: m.limit,
		Clip: segment.DefaultConfig().Train.Clip}
}

// Needs implements [planning.Machine].
func (m *stepTimer) Needs(w planning.Work) (planning.Cost, error) {
	if err := m.ctx.Err(); err != nil {
		return planning.Cost{}, err
	}
	s, err := m.network(w).Plan(m.dev)
	return planning.Cost{FLOPs: s.FLOPs, Bytes: s.Total}, err
}

// Steps that are run before those that are timed, and those.
const planWarmup, planTimed = 1, 3

// ofPrepared is what a validation takes for a voxel of a prepared case beside its windows: labels
// as drawn and as predicted, and their components.
const ofPrepared = 12

// windows are those of a validation.
func windows(w planning.Work) sliding.Options {
	return sliding.Options{Size: w.Crop, Batch: 1, Overlap: segment.DefaultConfig().ValidateOverlap,
		Inputs: w.Network.InputChannels()}
}

// Beside implements [planning.Machine]. A GPU has its own memory.
func (m *stepTimer) Beside(w planning.Work, shape [3]int) (program, validation int64) {
	if _, own := m.dev.(device.Accountant); own {
		return 0, 0
	}
	voxels := int64(shape[0]) * int64(shape[1]) * int64(shape[2])
	return memory.GarbageLimit, windows(w).Bytes(shape, w.Network.Classes) + ofPrepared*voxels
}

// Validate implements [planning.Machine].
func (m *stepTimer) Validate(w planning.Work, shapes [][3]int) (all time.Duration, err error) {
	pace, err := bench.Validation{Settings: w.Network, Options: windows(w), Memory: m.limit}.Run(m.ctx, m.dev)
	for _, shape := range shapes {
		all += pace.Of(shape)
	}
	return all, err
}

// Finetune implements [planning.Machine].
func (m *stepTimer) Finetune(w planning.Work) (time.Duration, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	say(m.stderr, "timing fine-tuning on crops of %dx%dx%d, %d channels", w.Crop[0], w.Crop[1], w.Crop[2],
		w.Network.Channels)
	t, err := m.network(w).Run(m.ctx, m.dev, planWarmup, planTimed, bench.Options{})
	if more := m.moreSteps(t.Mean); err == nil && more > 0 {
		t, err = m.network(w).Run(m.ctx, m.dev, planWarmup, more, bench.Options{})
	}
	return t.Mean, err
}

// moreSteps is how many steps are timed again, so that a moment in which the machine is idle or
// busy does not decide: those of ten seconds, or of a hundredth of the time that is planned, unless
// the few that were timed have taken that already.
func (m *stepTimer) moreSteps(step time.Duration) int {
	const most = 100
	long := min(10*time.Second, time.Duration(m.hours*float64(time.Hour)/100))
	if n := int(long / max(step, 1)); n > planTimed {
		return min(n, most)
	}
	return 0
}

// Pretrain implements [planning.Machine].
func (m *stepTimer) Pretrain(p planning.Puzzle) (time.Duration, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	say(m.stderr, "timing puzzles of %dx%dx%d patches", p.Grid[0], p.Grid[1], p.Grid[2])
	b, err := backbone.Of(p.Network)
	if err != nil {
		return 0, err
	}
	c := puzzle3d.DefaultConfig()
	game := jigsaw.Config{Grid: puzzle.Grid{p.Grid[0], p.Grid[1], p.Grid[2]}, Shuffles: 1,
		Puzzle: voxsaw.Puzzle{Head: c.Head, Features: c.Features, Hidden: c.Hidden, Rounds: 1, Distance: 2, Batch: p.Batch}}
	t, err := bench.Puzzle{Game: game, Encoder: backbone.Patches{Backbone: b, Size: p.Patch},
		Memory: m.limit}.Run(m.ctx, m.dev, planWarmup, planTimed, bench.Options{})
	return t.Median, err
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
	Decisions     []planning.Decision `yaml:"decisions" help:"with their reasons"`
}

// puzzlesValidated is how often a pretraining is validated.
const puzzlesValidated = 4

// writePlan writes a plan as the settings of each command.
func writePlan(w io.Writer, p *planning.Plan, f planning.Fingerprint, from string, o planOptions) error {
	head, err := config.Marshal(&planFile{
		1, o.Hours, o.Machine.Device, len(f.Scans), f.Labelled(), round(p.Step.Seconds(), 5),
		round(p.Takes().Seconds(), 1), round(p.Puzzling.Seconds(), 5), p.Decisions,
	})
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		"# What voxsaw plan decided on. Each command reads its own section of this file: voxsaw finetune --config %s ...\n",
		hint.Word(filepath.Base(o.Out)))
	fmt.Fprintf(&b, "plan:\n%s", indented(string(head), "  "))
	s := p.Spacing
	values := fmt.Sprintf("modality: %s, intensity: %s", f.Modality, f.Intensity)
	if f.ChannelNames != "" { // which say the modality and the intensities of each
		values = fmt.Sprintf("channels: %q", f.ChannelNames)
	}
	fmt.Fprintf(&b, "prepare:\n  preparation: {spacing: [%g, %g, %g], %s}\n", s[0], s[1], s[2], values)
	n := p.Finetune.Network
	network := fmt.Sprintf("network: {kind: %s, channels: %d, levels: %d, norm: %s}\n", n.Kind, n.Channels, n.Levels,
		n.Norm)
	train := func(steps, validations int) string {
		return fmt.Sprintf("train: {steps: %d, validate_every: %d, checkpoint_every: %d}\n", steps,
			max((steps+validations-1)/validations, 1), max(steps/10, 1))
	}
	q := p.Puzzle
	pretrain := "task: jigsaw\n" + network + fmt.Sprintf("grid: [%d, %d, %d]\n", q.Grid[0], q.Grid[1], q.Grid[2]) +
		fmt.Sprintf("crop: [%d, %d, %d]\n", q.Crop[0], q.Crop[1], q.Crop[2]) + fmt.Sprintf("patch: [%d, %d, %d]\n",
		q.Patch[0], q.Patch[1], q.Patch[2]) +
		fmt.Sprintf("batch: %d\n", q.Batch) + train(p.Pretrain, puzzlesValidated)
	finetune := network + fmt.Sprintf("crop: [%d, %d, %d]\nbatch: %d\n", p.Finetune.Crop[0], p.Finetune.Crop[1],
		p.Finetune.Crop[2], p.Finetune.Batch) + train(p.Steps, max(p.Validations, 1))
	data := ""
	if from != "" {
		data = fmt.Sprintf("data: %q\n", from)
	}
	if p.Pretrain > 0 {
		fmt.Fprintf(&b, "pretrain:\n%s", indented(data+pretrain, "  "))
	}
	fmt.Fprintf(&b, "finetune:\n%s", indented(data+finetune, "  "))
	if p.Folds > 0 {
		inits := "  - {name: scratch}\n"
		if p.Pretrain > 0 {
			inits += "  - {name: puzzles, pretrain: {}}\npretrain:\n" + indented(pretrain, "  ")
		}
		study := data +
			fmt.Sprintf("folds: %d\nfold_scheme: shuffled\nfractions: [1]\nseeds: [1]\ninitialisations:\n%sfinetune:\n%s", p.Folds, inits, indented(finetune, "  "))
		fmt.Fprintf(&b, "crossval:\n%s", indented(study, "  "))
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// indented puts a margin before each line.
func indented(text, margin string) string {
	return margin + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+margin) + "\n"
}
