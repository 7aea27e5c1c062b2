package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// runFlags say what to do with the run's folder. They are no part of the configuration: a resumed
// run has the same one.
type runFlags struct {
	out           string
	resume, force bool
	memory        gibibytes  // of the verb's options
	local         localFlags // of verbs that read prepared cases
	loaders       count
	hours         hours
	json          bool
	tensorboard   bool
	cmd           *cobra.Command
	events        *events // with --json
	page          *reporter
	again         string // the command that goes on, where it is not the verb with --resume
	planned       []byte // the plan that set the sizes; nil: the user did
	sizesOf       string // the file of another run's plan that set them; "": none did
}

func (r *runFlags) bind(cmd *cobra.Command) {
	r.cmd = cmd
	f := cmd.Flags()
	f.StringVar(&r.out, "out", "", "folder of the run: configuration, log, checkpoints")
	f.BoolVar(&r.resume, "resume", false,
		"continue the run in the folder, to the bit; its settings lie there, and --steps may be raised")
	r.hours.bind(cmd)
	f.BoolVar(&r.force, "force", false,
		"start over in a folder that holds a run, and write over files there that no run made")
	r.loaders.most = 256
	f.Var(&r.loaders, "loaders",
		"threads that prepare crops ahead of their use; 0: 2, with a GPU one less than there are cores")
	f.BoolVar(&r.tensorboard, "tensorboard", false,
		"write losses, validations and pictures (of held-out cases; of the task at checkpoints) "+
			"into the run's folder as TensorBoard reads them")
	f.BoolVar(&r.json, "json", false,
		"write what happens to standard output as JSON, one line an event: "+
			"started, step, validated, saved, note, finished")
}

// resumed is the configuration of the run that a command line resumes: a file, or "" where no run
// is resumed or there is none yet.
func resumed(cmd *cobra.Command) string {
	resume, out := cmd.Flags().Lookup("resume"), cmd.Flags().Lookup("out")
	if resume == nil || out == nil || resume.Value.String() != "true" || out.Value.String() == "" {
		return ""
	}
	if folder := out.Value.String(); train.Begun(folder) {
		return train.ConfigOf(folder)
	}
	return ""
}

// resolve gives o its final values: the defaults that it holds, the configuration of the run that
// is resumed, --config, flags.
func resolve(cmd *cobra.Command, o any) error {
	if path := resumed(cmd); path != "" {
		if study := experiment.StudyOf(filepath.Dir(path)); study != "" {
			return withHint(usagef("%s is a run of the study %s, which alone goes on with it", filepath.Dir(path),
				study),
				"voxsaw crossval --config %s --out %s", hint.Word(experiment.PlanOf(study)), hint.Word(study))
		}
		if err := config.Load(path, o); err != nil {
			return otherRun(cmd, filepath.Dir(path), err)
		}
		if err := findAgain(cmd, filepath.Dir(path)); err != nil {
			return err
		}
	}
	if err := config.Resolve(cmd.Flags(), section(cmd), o); err != nil {
		return fileMistake(cmd, err)
	}
	return nil
}

// section is what a file for several commands calls the settings of this one. Students are
// fine-tuned as all networks are.
func section(cmd *cobra.Command) string {
	if cmd.Name() == selftrainVerb {
		return "finetune"
	}
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// otherRun explains why the configuration of a run that is to be resumed cannot be read: perhaps
// another command's run lives there.
func otherRun(cmd *cobra.Command, folder string, err error) error {
	s, none := train.ReadStatus(folder)
	if none != nil || (s.Kind == checkpoint.Segmentation) == (cmd.Name() == "finetune") {
		return &usageError{err}
	}
	return withHint(usagef("%s holds a run of another kind (%s), which %s cannot resume", folder, s.Kind,
		cmd.CommandPath()), "name the folder of a run that %s made", cmd.CommandPath())
}

// noRun says that there is nothing to resume, where a new run cannot begin for want of data either.
func noRun(cmd *cobra.Command, data string) error {
	resume, out := cmd.Flags().Lookup("resume"), cmd.Flags().Lookup("out")
	if data != "" || resume == nil || resume.Value.String() != "true" || out.Value.String() == "" ||
		resumed(cmd) != "" {
		return nil
	}
	return withHint(usagef("%s holds no run to resume", out.Value),
		"name the folder of a run; or add --data FOLDER to begin one there")
}

// mode says how the run uses its folder.
func (r *runFlags) mode() (voxsaw.Mode, error) {
	switch {
	case r.out == "":
		return 0, withHint(usagef("no folder for the run"), "add --out FOLDER")
	case r.resume && r.force:
		return 0, usagef("--resume goes on with a run, --force starts it over: choose one")
	case r.resume:
		return voxsaw.ModeResume, nil
	case r.force:
		return voxsaw.ModeForce, nil
	}
	return voxsaw.ModeNew, nil
}

// options are those of a run with the resolved configuration o. Where it goes wrong, explain says
// what to do.
func (r *runFlags) options(o any, observer voxsaw.Observer) (voxsaw.RunOptions, error) {
	mode, err := r.mode()
	if err != nil {
		return voxsaw.RunOptions{}, err
	}
	resolved, err := config.Marshal(o)
	if err != nil {
		return voxsaw.RunOptions{}, err
	}
	if r.json {
		r.events = newEvents(r.cmd.OutOrStdout(), observer)
		observer = r.events
	}
	job, folder := jobOf(r.cmd.Context()), r.out
	if job.silent() {
		folder = ""
	}
	r.page = &reporter{Observer: observer, folder: folder, last: time.Now(), forBoard: r.tensorboard,
		planned: r.planned}
	return voxsaw.RunOptions{
		Folder: folder, Ranks: job.ranks(), Mode: mode, Settings: resolved, Observer: r.page,
		Memory: r.memory.planned(), Loaders: r.loaders.n,
		// The data are recognised by their fingerprint, wherever they lie. Another device is noted,
		// and the choices of a tuning file are in machine.choices.
		MayDiffer: append(r.foundAgain(), "data", "targets", "memory", "machine.threads", "machine.tuning",
			"machine.device", "machine.precision", "machine.gpu_memory"),
	}, nil
}

// explain adds a hint to the error of a run: how the run is resumed, or started over.
func explain(err error, resume, restart string) error {
	var changed *voxsaw.ChangedError
	var stopped *voxsaw.InterruptedError
	var partial *voxsaw.PartialError
	switch {
	case errors.As(err, &changed):
		return withHint(err, "take these changes back, or %s", restart)
	case errors.As(err, &partial):
		return withHint(err,
			"build the network that the checkpoint is of; or add --init-partial "+
				"(init_partial in a file), which takes what fits")
	case errors.As(err, &stopped) && stopped.Path != "":
		return withHint(err, "%s goes on from there", resume)
	case atomicfile.NoRoom(err):
		return withHint(err, "make room; then %s goes on from the last checkpoint", resume)
	}
	return err
}

// explain adds a hint to the error of the run: what the user can do about it.
func (r *runFlags) explain(err error) error {
	if _, stopped := errors.AsType[*voxsaw.InterruptedError](err); stopped {
		r.page.write()
	}
	if changed, is := errors.AsType[*voxsaw.ChangedError](err); is {
		if shorter := r.shortened(changed); shorter != nil {
			return shorter
		}
		changed.Changes = r.asGiven(changed.Changes)
	}
	if r.again != "" {
		return explain(err, r.again, "choose another folder for --out")
	}
	return explain(err, fmt.Sprintf("%s --resume --out %s", r.cmd.CommandPath(), hint.Word(r.out)),
		"start over with --force")
}

// asGiven names settings by the flags that gave them, instead of by their keys.
func (r *runFlags) asGiven(changes []string) (named []string) {
	flags := map[string]string{}
	r.cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if key := config.Key(f); key != "" && f.Changed {
			flags[key] = "--" + f.Name
		}
	})
	for _, change := range changes {
		key, values, _ := strings.Cut(change, ":")
		if flag := flags[key]; flag != "" {
			change = flag + ":" + values
		}
		named = append(named, change)
	}
	return named
}

// shortened is the error of a run that is resumed with nothing changed but fewer steps; nil for
// another one.
func (r *runFlags) shortened(changed *voxsaw.ChangedError) error {
	before, now, ok := train.Shortened(changed)
	if !ok {
		return nil
	}
	status, err := train.ReadStatus(r.out)
	if err != nil {
		return nil
	}
	err = fmt.Errorf("%s was started with %s, and has done %d: --steps may be "+
		"raised when it is resumed, not lowered to %d", r.out, numbers.Count(before, "step"), status.Step, now)
	if status.Finished {
		return withHint(err, "give --steps a number above %d, or choose another --out for a run of %s", before,
			numbers.Count(now, "step"))
	}
	return withHint(err, "leave --steps out to go on to step %d, or choose another --out for a run of %s", before,
		numbers.Count(now, "step"))
}

// finish writes the result of a run that came to its end: lines for people, or the last event.
func (r *runFlags) finish(s voxsaw.Summary, lines ...string) error {
	failed := r.page.finish()
	if r.events != nil {
		return errors.Join(r.events.finished(r.out, s), failed)
	}
	for _, line := range lines {
		say(r.cmd.OutOrStdout(), "%s", line)
	}
	return failed
}

// steps says what a run has done.
func steps(s voxsaw.Summary) string {
	if s.Elapsed == 0 {
		return fmt.Sprintf("%s, done before", numbers.Count(s.Step, "step"))
	}
	return fmt.Sprintf("%s in %s, %.1f %% of it waiting for data", numbers.Count(s.Step, "step"),
		terminal.Duration(s.Elapsed), 100*s.WaitShare)
}

// sayNote prints a note, unless it is empty.
func sayNote(stderr io.Writer, note string) {
	if note != "" {
		say(stderr, "%s", note)
	}
}

// openStore opens prepared cases, with a hint where there are none.
func openStore(dir string) (*prepared.Store, error) {
	if dir == "" {
		return nil, withHint(usagef("no prepared cases"),
			"add --data FOLDER, as voxsaw prepare SCANS --out FOLDER makes it")
	}
	store, err := prepared.Open(dir)
	if errors.Is(err, prepared.ErrNotPrepared) {
		err = notPrepared(err, dir, "scans", "voxsaw prepare", "prepared")
	}
	return store, err
}

// notPrepared says of a folder that holds nothing prepared what to do: which command prepares such
// things, and what its folder may be called.
func notPrepared(err error, dir, things, command, out string) error {
	if _, gone := os.Stat(dir); gone != nil {
		return withHint(fmt.Errorf("%w (there is no such folder)", err), "%s %s --out %s makes it", command,
			strings.ToUpper(things), hint.Word(dir))
	}
	if outdir.Remark(dir) != "" { // which the error has
		return err
	}
	return withHint(err, "if these are %s: %s %s --out %s", things, command, hint.Word(dir), out)
}

// labelledIn lists the labelled cases that a run may use.
func labelledIn(store *prepared.Store) ([]string, error) {
	ids, _ := store.ForTraining()
	if len(ids) == 0 {
		return nil, fmt.Errorf("none of the %d prepared cases has labels", store.Len())
	}
	return ids, nil
}

// list writes case names, the first few of many.
func list(ids []string) string {
	if len(ids) == 0 {
		return "none"
	}
	return safetext.List(ids)
}
