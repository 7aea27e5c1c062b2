package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/fingerprint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pace"
	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file gives a training whose sizes nobody has said those of a plan.

// sizes are the settings that say how large a training is. Once the user gives one, the others have
// their defaults and nothing is planned.
var sizes = []string{"crop", "batch", "grid", "patch", "task", "plans", "train.steps"}

// unsized says whether nobody has said how large the network, the crops or the training are: no
// flag, no --config, no run that is resumed. Ranks would each plan something else: they have the
// defaults.
func unsized(cmd *cobra.Command) bool {
	if cmd.Flags().Changed(config.FileFlag) || resumed(cmd) != "" || jobOf(cmd.Context()).world != nil {
		return false
	}
	none := true
	cmd.Flags().Visit(func(f *pflag.Flag) {
		key := config.Key(f)
		for _, part := range []string{"finetune.", "pretrain."} { // of a study
			key = strings.TrimPrefix(key, part)
		}
		if strings.HasPrefix(key, "network.") {
			none = false
		}
		for _, size := range sizes {
			none = none && key != size
		}
	})
	return none
}

// sayDefaults tells which sizes of a training are the defaults: because the user has said others,
// so that nothing is planned, or because nobody has and there is no plan. What a file, a run that
// goes on, or a checkpoint says is no default.
func (r *runFlags) sayDefaults(cmd *cobra.Command, crop [3]int, n voxsaw.Network, steps int) {
	if cmd.Flags().Changed(config.FileFlag) || resumed(cmd) != "" || r.planned != nil {
		return
	}
	said := map[string]bool{}
	var beside []string // what keeps from planning
	cmd.Flags().Visit(func(f *pflag.Flag) {
		key := config.Key(f)
		said[cmp.Or(key, f.Name)] = true
		if ofNetwork := strings.HasPrefix(key, "network."); ofNetwork || slices.Contains(sizes, key) {
			said["network."] = said["network."] || ofNetwork
			beside = append(beside, "--"+f.Name)
		}
	})
	var left []string
	for _, one := range []struct {
		what string
		by   []string
	}{
		{"crops of " + numbers.Extents(crop[:]), []string{"crop", "plans"}},
		{fmt.Sprintf("%s with %s and %s", n.Kind, numbers.Count(n.Channels, "channel"),
			numbers.Count(n.Levels, "level")), []string{"network.", "plans", "init"}},
		{numbers.Count(steps, "step"), []string{"train.steps", "hours"}},
	} {
		if !slices.ContainsFunc(one.by, func(key string) bool { return said[key] }) {
			left = append(left, one.what)
		}
	}
	if len(left) == 0 {
		return
	}
	why := "nothing is planned"
	if len(beside) > 0 {
		why += " beside " + strings.Join(beside, ", ")
	}
	say(cmd.ErrOrStderr(), "%s, so these are the defaults: %s; voxsaw plan writes a file for --config with sizes that "+
		"fit the data and this machine", why, strings.Join(left, ", "))
}

// untimed are the settings of fine-tuning with which a step or a validation takes other time and
// memory than the plain one that a plan times.
var untimed = []string{"unlabelled", "validate_mirror", "validate_overlap"}

// plainSteps refuses to plan sizes for others than plain steps.
func plainSteps(cmd *cobra.Command) (err error) {
	part := ""
	if cmd.Name() == "crossval" { // where --unlabelled is something else
		part = "finetune."
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		key, of := strings.CutPrefix(config.Key(f), part)
		if of && slices.Contains(untimed, key) && f.Value.String() != f.DefValue {
			err = withHint(usagef("--%s: no sizes were given, and what is planned and timed are steps and validations "+
				"without it", f.Name),
				"say the sizes: voxsaw plan writes them, for --config, and --hours beside that times these very steps")
		}
	})
	return err
}

// defaultHours is the time that is planned for where nobody says one.
var defaultHours = 1.0

// learns makes a fingerprint that of a training on these labels alone; none: all.
func learns(f *planning.Fingerprint, labels []string) (err error) {
	if len(labels) > 0 {
		f.Classes, err = segment.CountClasses(labels, f.Names)
	}
	return err
}

// makePlan plans for a device, and for the memory that there is. m says the hours, and on what
// steps are timed.
func makePlan(ctx context.Context, stderr io.Writer, dev voxsaw.Device, f *planning.Fingerprint, m pace.Machine,
	memory gibibytes) (*planning.Plan, error) {
	d, err := device.From(dev)
	if err != nil {
		return nil, err
	}
	f.Limit = memory.planned()
	if own, ok := d.(device.Accountant); ok {
		if f.Limit, _, err = own.Memory(); err != nil {
			return nil, err
		}
	}
	m.Device, m.Memory = d, f.Limit
	m.Timing = func(what string) { say(stderr, "timing %s", what) }
	return planning.Make(*f, m.On(ctx), m.Hours)
}

// planFor makes the plan of trainings without sizes, and its file.
func planFor(cmd *cobra.Command, f *planning.Fingerprint, dev voxsaw.Device, m pace.Machine, machine deviceOptions,
	memory gibibytes) (*planning.Plan, []byte, error) {
	p, err := makePlan(cmd.Context(), cmd.ErrOrStderr(), dev, f, m, memory)
	if errors.Is(err, context.Canceled) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, withHint(fmt.Errorf("planning for %g h: %w", m.Hours, err),
			"say the sizes by flags or --config; voxsaw %s --help lists them", cmd.Name())
	}
	var text bytes.Buffer
	err = writePlan(&text, p, *f, "", planOptions{Out: train.Planned, Hours: m.Hours,
		Read: dataset.DefaultReadOptions(), Machine: machine})
	return p, text.Bytes(), err
}

// plan gives the settings o of a training without sizes those of a plan for its cases, which is
// kept in the run's folder.
func (r *runFlags) plan(cmd *cobra.Command, o any, t *voxsaw.Training, store *prepared.Store, labels []string,
	dev voxsaw.Device, machine deviceOptions) error {
	mode, err := r.mode()
	if err == nil {
		err = plainSteps(cmd)
	}
	if err != nil {
		return err
	}
	if err := train.CheckFolder(r.out, mode); err != nil { // before steps are timed for nothing
		return err
	}
	f := fingerprint.OfRecords(store)
	if err := learns(&f, labels); err != nil {
		return err
	}
	f.Puzzles = planning.NoPuzzles
	if cmd.Name() == "pretrain" {
		f.Puzzles = planning.PuzzlesApart
	}
	hours := float64(r.hours)
	hours = cmp.Or(hours, defaultHours)
	p, text, err := planFor(cmd, &f, dev, pace.Machine{Store: store, Labels: labels, Loaders: r.loaders.n,
		Hours: hours}, machine, r.memory)
	if err != nil {
		return err
	}
	if err := r.follow(cmd, o, t, train.PlannedOf(r.out), text); err != nil {
		return err
	}
	what := p.Finetune
	steps := p.Steps
	if f.Puzzles == planning.PuzzlesApart {
		what, steps = p.Puzzle.Work, p.Pretrain
	}
	count := numbers.Count(steps, "step")
	if r.hours > 0 {
		count = "steps as --hours says"
	}
	say(cmd.ErrOrStderr(),
		"no sizes were given, so they are planned for %g h: %s, %s; %s will say why", hours, sizesOf(what), count,
		train.PlannedOf(r.out))
	return nil
}

// sizesOf tells the crop and the network of a planned training.
func sizesOf(w planning.Work) string {
	return fmt.Sprintf("crops of %s, %s with %s and %s", numbers.Extents(w.Crop[:]), w.Network.Kind,
		numbers.Count(w.Network.Channels, "channel"), numbers.Count(w.Network.Levels, "level"))
}

// planOf gives the settings of a training without sizes those of the plan that the run was made
// with which it starts from, if it was made with one.
func (r *runFlags) planOf(cmd *cobra.Command, o any, t *voxsaw.Training, checkpoint string) error {
	path := train.PlannedOf(filepath.Dir(checkpoint))
	text, err := smallfile.Read(path, smallfile.Settings)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := r.follow(cmd, o, t, path, text); err != nil {
		return err
	}
	r.sizesOf = path
	say(cmd.ErrOrStderr(), "no sizes were given: crop and steps are those of %s", path)
	return nil
}

// follow reads the settings of this command from a plan. Of what it says, the user may have said
// how often to validate and to save.
func (r *runFlags) follow(cmd *cobra.Command, o any, t *voxsaw.Training, path string, text []byte) error {
	said, given := *t, givenSettings(cmd)
	if err := config.ParseSection(path, text, section(cmd), o); err != nil {
		return err
	}
	if given("validate_every") {
		t.ValidateEvery = said.ValidateEvery
	}
	if given("checkpoint_every") {
		t.CheckpointEvery = said.CheckpointEvery
	}
	r.planned = text
	return nil
}

// plan gives the trainings of a study without sizes those of a plan for its cases, each of them for
// the same time; a study that has begun has kept it. Who trains and tests stays as it is.
func (o *crossvalOptions) plan(cmd *cobra.Command, f *studyFlags) error {
	if o.Data == "" || !unsized(cmd) {
		return nil
	}
	p, path := o.Plan, train.PlannedOf(f.out)
	if f.root != "" || (f.dry || f.write != "") && (f.out == "" || !isThere(path)) {
		say(cmd.ErrOrStderr(), "no sizes were given: these are the defaults; a study that is run here plans its own, "+
			"which --plan, --write and --data-root do not")
		return nil
	}
	if checkFolds(cmd, &p) != nil || p.Check() != nil {
		return nil // whoever runs it says what is wrong
	}
	text, err := smallfile.Read(path, smallfile.Settings)
	switch {
	case err == nil:
		say(cmd.ErrOrStderr(), "no sizes were given: they are those of %s", path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case isThere(experiment.PlanOf(f.out)): // it began with the defaults
		return nil
	default:
		if err := plainSteps(cmd); err != nil {
			return err
		}
		store, err := openStore(o.Data)
		if err != nil {
			return err
		}
		defer store.Close()
		dev, closeDevice, err := o.Machine.open()
		if err != nil {
			return err
		}
		defer closeDevice()
		of := fingerprint.OfRecords(store)
		if err := learns(&of, o.Finetune.Labels); err != nil {
			return err
		}
		of.Puzzles = planning.PuzzlesApart
		var p *planning.Plan
		if p, text, err = planFor(cmd, &of, dev, pace.Machine{Store: store, Labels: o.Finetune.Labels,
			Hours: defaultHours}, o.Machine, o.Memory); err != nil {
			return err
		}
		say(cmd.ErrOrStderr(),
			"no sizes were given, so they are planned, each training for %g h: %s of puzzles; %s, %s; %s will say why",
			defaultHours, numbers.Count(p.Pretrain, "step"), sizesOf(p.Finetune), numbers.Count(p.Steps, "step"), path)
	}
	f.planned = text
	if err := config.ParseSection(path, text, "finetune", &o.Finetune); err != nil {
		return err
	}
	if err := config.ParseSection(path, text, "pretrain", &o.Pretrain); err != nil {
		return err
	}
	return resolve(cmd, o) // flags win
}
