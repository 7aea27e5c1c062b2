package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

const selftrainVerb = "selftrain"

type selftrainOptions struct {
	finetuneOptions `yaml:",inline"`
	Teacher         []string `yaml:"teacher,flow" help:"checkpoints of voxsaw finetune, or the folders of their runs (the best one of each), that label the scans: those of one fold, or they would know held-out cases"`
	Agreement       float64  `yaml:"agreement" help:"a structure is ignored in a scan where pairs of teachers agree less: their mean DSC; 0: wherever" range:"[0,1]"`
	Rounds          int      `yaml:"rounds" help:"how many students are trained, one after the other: each joins the teachers of the next" range:"[1,)"`
	Same            float64  `yaml:"same" help:"a scan is left out whose label maps of two rounds have a lower DSC, in the mean over structures" range:"[0,1]"`
}

func newSelftrain() *cobra.Command {
	defaults := selftrainOptions{finetuneOptions: finetuneOptions{Config: segment.DefaultConfig(),
		Cases: dataset.DefaultSelection(), Machine: defaultDevice()}, Agreement: 0.5, Rounds: 1, Same: 0.8}
	o, run := &selftrainOptions{}, &runFlags{}
	*o = defaults
	cmd := verb(selftrainVerb, "Train on scans without labels by the label maps of teachers",
		`Asks teachers, networks that voxsaw finetune has trained on the labelled cases, what the scans without labels
in the same folder show, and trains a student on both. What is kept of a label map is the mean of the
teachers' probabilities. Structures are ignored in a scan where teachers disagree or where voxsaw next would
doubt them: there they are one with the background, as what nobody drew is. Every second crop is of a labelled
case, and so are all of the last tenth of the steps (--labelled-last).

The settings are those of voxsaw finetune, and so is the training. In OUT/round-1 lie targets, the label maps
with what became of them (scans.json), and student, the run. With --rounds 2 the student joins the teachers,
and another one begins anew.

Run it again to go on where it stopped, to the bit. To divide the training over ranks, use voxsaw finetune
--targets OUT/round-1/targets.`,
		`  voxsaw selftrain --data prepared --teacher runs/a,runs/b,runs/c --out runs/student`,
		cobra.NoArgs, o, func(cmd *cobra.Command, _ []string) error { return runSelftrain(cmd, o, run, defaults) })
	run.bind(cmd)
	run.local.bind(cmd)
	return cmd
}

func runSelftrain(cmd *cobra.Command, o *selftrainOptions, run *runFlags, defaults selftrainOptions) error {
	switch {
	case len(o.Teacher) == 0:
		return withHint(usagef("no teachers to label the scans"),
			"add --teacher CHECKPOINT,CHECKPOINT, as voxsaw finetune makes them: three of other seeds, for one")
	case run.out == "":
		return withHint(usagef("no folder for the rounds"), "add --out FOLDER")
	case o.Data == "":
		return withHint(usagef("no prepared cases"), "add --data FOLDER, as voxsaw prepare makes it")
	case o.Unlabelled || o.Targets != "":
		return usagef("selftrain makes label maps of its own: leave --unlabelled and --targets out")
	case run.force:
		return withHint(usagef("selftrain goes on with what is there, and starts nothing over"),
			"choose another folder for --out")
	}
	stderr, out := cmd.ErrOrStderr(), run.out
	teachers, err := checkpointsOf(stderr, o.Teacher)
	if err != nil {
		return err
	}
	if err := o.known(cmd, teachers); err != nil {
		return err
	}
	if err := o.sameTeachers(cmd, run); err != nil {
		return err
	}
	before := ""
	for round := range o.Rounds {
		folder := filepath.Join(out, fmt.Sprintf("round-%d", round+1))
		targets, student := filepath.Join(folder, "targets"), filepath.Join(folder, "student")
		if o.Rounds > 1 {
			say(stderr, "round %d of %d", round+1, o.Rounds)
		}
		if err := o.check(cmd, run, student); err != nil { // before the teachers take their time
			return err
		}
		if err := o.mayLearn(cmd, *run, student, defaults, teachers, round+1 < o.Rounds); err != nil {
			return err
		}
		if err := o.teach(cmd, teachers, targets, before); err != nil {
			return err
		}
		// the student's settings are read as those of a run of finetune that may have begun
		resume := "false"
		if train.Begun(student) {
			resume = "true"
		}
		if err := setFlags(cmd, "out", student, "resume", resume); err != nil {
			return err
		}
		*o = defaults
		if err := resolve(cmd, o); err != nil {
			return err
		}
		if err := o.begin(cmd, *run, defaults.finetuneOptions, o); err != nil {
			return err
		}
		o.Targets, run.again = targets, "the same command"
		if err := runFinetune(cmd, o.finetuneOptions, *run); err != nil {
			return err
		}
		if err := setFlags(cmd, "out", out, "resume", "false"); err != nil {
			return err
		}
		teachers, before = append(teachers, train.Last(student)), targets
	}
	return nil
}

// scans are those that teachers label, and who is trained on and held out beside.
func (o selftrainOptions) scans(cmd *cobra.Command, store *prepared.Store) (scans, training, held []string,
	err error) {
	if _, training, held, err = o.choose(cmd, store); err != nil {
		return nil, nil, nil, err
	}
	_, plain := store.ForTraining()
	if scans = o.Cases.WithoutLabels(plain, training, held); len(scans) == 0 {
		err = withHint(usagef("there is no scan without labels to learn from in %s", o.Data),
			"voxsaw prepare FOLDER FOLDER puts labelled and unlabelled scans into one folder")
	}
	return scans, training, held, err
}

// known refuses, before anything is timed, teachers that may not label the scans, and to begin
// students that are to be teachers with weights of which nobody knows what they have learnt from,
// where cases are held out.
func (o selftrainOptions) known(cmd *cobra.Command, teachers []string) error {
	store, err := openStore(o.Data)
	if err != nil {
		return err
	}
	defer store.Close()
	_, training, held, err := o.scans(cmd, store)
	if err != nil {
		return err
	}
	if err := segment.MayTeach(teachers, store, held); err != nil {
		return err
	}
	if o.Rounds < 2 || o.Init == "" || nnunet.IsModel(o.Init) {
		return nil
	}
	init, err := train.CheckpointOf(o.Init)
	if err != nil {
		return nil // whoever begins with it says what is wrong
	}
	of := segment.TargetOptions{Drawn: training, Held: held}
	if err := segment.CheckTeachers(o.Config, init, store, of); err != nil {
		return withHint(
			&usageError{fmt.Errorf("the student of the first round is to be a teacher in the second: %w", err)},
			"start from another checkpoint, or leave --rounds out")
	}
	return nil
}

// mayLearn refuses a student that has not begun and could not learn from the teachers, or not join
// them.
func (o selftrainOptions) mayLearn(cmd *cobra.Command, run runFlags, student string, defaults selftrainOptions,
	teachers []string, joins bool) error {
	switch {
	case train.Begun(student):
		return nil
	case joins && o.Init == "" && unsized(cmd):
		return withHint(
			usagef("the student of round 1 joins the teachers, whose network it must have, and no size says it"),
			"add --config FILE with the settings of the teachers: the plan that they were trained by, or the "+
				"planned.yaml of one's run")
	case o.Init != "": // whose network it has
		o = defaults
		stderr := cmd.ErrOrStderr()
		cmd.SetErr(io.Discard) // the training says it
		err := resolve(cmd, &o)
		if err == nil {
			err = o.begin(cmd, run, defaults.finetuneOptions, &o)
		}
		cmd.SetErr(stderr)
		if err != nil {
			return err
		}
	default:
		if _, err := planned(&o.Network, o.Plans); err != nil {
			return err
		}
	}
	store, err := openStore(o.Data)
	if err != nil {
		return err
	}
	defer store.Close()
	c, err := o.Config.Resolve(store)
	if err != nil {
		return nil // sizes that are not known yet do not fit the scans
	}
	if err := segment.MayLearnFrom(teachers[0], c, joins); err != nil {
		return &usageError{err}
	}
	return nil
}

// sameTeachers refuses more steps for a student that has already labelled scans for the next round:
// it would be another teacher, and what was learnt from it is not made again.
func (o selftrainOptions) sameTeachers(cmd *cobra.Command, run *runFlags) error {
	if !givenSettings(cmd)("steps") || run.hours > 0 { // the run knows how many steps it has
		return nil
	}
	for round := 1; round < o.Rounds; round++ {
		next := filepath.Join(run.out, fmt.Sprintf("round-%d", round+1), "targets")
		s, err := train.ReadStatus(filepath.Join(run.out, fmt.Sprintf("round-%d", round), "student"))
		if err != nil || !isThere(next) || s.Step >= o.Config.Train.Steps {
			continue
		}
		return withHint(usagef("%s has label maps of the student of round %d, who had %s: with %d it would be another "+
			"teacher", next, round, numbers.Count(s.Step, "step"), o.Config.Train.Steps),
			"choose another folder for --out, or leave --steps as it was")
	}
	return nil
}

// check makes sure that a student that has not begun can be trained with these settings.
func (o selftrainOptions) check(cmd *cobra.Command, run *runFlags, student string) error {
	if train.Begun(student) {
		return nil
	}
	// Sizes are planned once teachers have worked, and the network of --init is read then.
	if unsized(cmd) && o.Init == "" {
		if err := plainSteps(cmd); err != nil {
			return err
		}
	}
	if unsized(cmd) && (o.LabelledLast == 0 || o.Init != "") {
		dev, closeDevice, err := o.Machine.open()
		if err != nil {
			return err
		}
		defer closeDevice()
		o.LabelledLast = 0
		return learnsFromTargets(dev, o.Config)
	}
	plan, err := planned(&o.Network, o.Plans)
	if err != nil {
		return err
	}
	cropOfPlan(cmd, plan, &o.Crop)
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
	r := *run
	r.out, r.memory = student, o.Memory
	if unsized(cmd) {
		if err := r.plan(cmd, &o.finetuneOptions, &o.Train, store, o.Labels, dev, o.Machine); err != nil {
			return err
		}
	}
	newAutoBatch(&o.Batch, "crops", o.Config.Train.Accumulate)
	c, err := o.Config.Resolve(store)
	if err != nil {
		return config.Mistaken(err)
	}
	switch {
	case run.hours > 0 && o.Init != "": // how many steps there are is known with its network
		c.LabelledLast = 0
	case run.hours > 0 && c.LabelledLast > 0:
		if err := o.steps(cmd, r, store, dev, &c); err != nil {
			return err
		}
	}
	return learnsFromTargets(dev, c)
}

// steps times steps of labelled cases, as those with label maps of teachers, which are not there
// yet, take as long at least: no more of these fit into the hours.
func (o selftrainOptions) steps(cmd *cobra.Command, r runFlags, store *prepared.Store, dev voxsaw.Device,
	c *segment.Config) error {
	_, training, held, err := o.choose(cmd, store)
	if err != nil {
		return err
	}
	say(cmd.ErrOrStderr(), "--labelled-last %d: whether there are more steps is looked at before teachers work",
		c.LabelledLast)
	r.out = "" // nothing of this is kept
	return r.hours.settle(cmd.Context(), cmd.ErrOrStderr(), &r, &c.Train,
		func(ctx context.Context, options voxsaw.RunOptions) error {
			trial := *c
			trial.MeasureOnly, trial.LabelledLast = true, 0
			_, _, err := segment.Finetune(ctx, dev, trial,
				sample.Data{Store: store, Train: training, Validate: held}, o.Init, options)
			return err
		})
}

// learnsFromTargets says whether a device can train a student with some structures ignored.
func learnsFromTargets(dev voxsaw.Device, c segment.Config) error {
	err := segment.CheckTargets(dev, c)
	if err != nil && !errors.As(err, new(*config.Mistake)) {
		return withHint(err, "--undrawn background leaves out scans in which a structure is ignored")
	}
	return err
}

func setFlags(cmd *cobra.Command, values ...string) error {
	for n := 0; n < len(values); n += 2 {
		if err := cmd.Flags().Set(values[n], values[n+1]); err != nil {
			return err
		}
	}
	return nil
}

// teach has the teachers label the scans without labels, and says which label maps are not
// believed.
func (o *selftrainOptions) teach(cmd *cobra.Command, teachers []string, folder, before string) error {
	stderr := cmd.ErrOrStderr()
	store, err := openStore(o.Data)
	if err != nil {
		return err
	}
	defer store.Close()
	scans, training, held, err := o.scans(cmd, store)
	if err != nil {
		return err
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	targets, err := askTeachers(cmd.Context(), stderr, dev, teachers, store, folder, o.Memory, segment.TargetOptions{
		Scans: scans, Drawn: training, Held: held, Agreement: o.Agreement, Before: before, Same: o.Same})
	if err != nil {
		return err
	}
	sayTargets(stderr, targets)
	return nil
}

// askTeachers makes label maps of scans.
func askTeachers(ctx context.Context, stderr io.Writer, dev voxsaw.Device, teachers []string, store *prepared.Store,
	folder string, memory gibibytes, o segment.TargetOptions) (*segment.Targets, error) {
	network, err := segment.NewPredictor(dev, teachers, segment.DefaultInference(), memory.planned())
	if err != nil {
		return nil, err
	}
	defer network.Close()
	begin, end := oneByOne(stderr, "label")
	o.Begin = begin
	targets, err := network.MakeTargets(ctx, store, folder, o)
	end(err)
	if err != nil && ctx.Err() != nil {
		err = withHint(err, "the same command goes on from there")
	}
	return targets, err
}

// sayTargets says what became of the label maps.
func sayTargets(stderr io.Writer, targets *segment.Targets) {
	ignored := 0
	for _, s := range targets.Scans {
		if s.Dropped == "" {
			ignored += len(s.Ignored)
		}
		for _, text := range s.Ignored {
			say(stderr, "%s: ignored: %s", s.ID, text)
		}
		if s.Dropped != "" {
			say(stderr, "%s: left out: %s", s.ID, s.Dropped)
		}
	}
	say(stderr, "teachers have labelled %s: %d left out, %s ignored in the others",
		numbers.Count(len(targets.Scans), "scan"), len(targets.Scans)-len(targets.Kept()),
		numbers.Count(ignored, "structure"))
}
