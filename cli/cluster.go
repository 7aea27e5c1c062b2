package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/cluster"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
)

// studyFlags are what the plan of a study does not say.
type studyFlags struct {
	of       string // "experiment", or "comparison"
	out      string
	root     string // of the data sets
	asJSON   bool
	dry      bool // of a verb with --plan
	finished bool
	local    localFlags
	trial    count
	write    string
}

// bind makes the flags of a study that several processes may share.
func (f *studyFlags) bind(cmd *cobra.Command, of, printed string) {
	f.of = of
	cmd.Flags().StringVar(&f.out, "out", "", "folder of the "+of)
	cmd.Flags().BoolVar(&f.finished, "finished", false,
		"carry out nothing: the table and the report of the trials that are finished, while others are at work on the rest")
	cmd.Flags().Var(&f.trial, "trial",
		"run one trial alone, by its number in the plan, 1 for the first, and make no report; 0: all")
	cmd.Flags().StringVar(&f.write, "write", "",
		"write the script that runs the "+of+" on a cluster, and stop: slurm or kubernetes")
	f.local.bind(cmd)
	cmd.Flags().StringVar(&f.root, "data-root", "",
		"folder below which the plan's data sets lie, prepared or as published: says first what is there, "+
			"what is missing and how long all will take, and prepares what is not yet")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print "+printed+" as JSON")
	cmd.Annotations = map[string]string{asClaimed: "yes"}
}

// where says whether there is a folder for the study, or none is needed.
func (f studyFlags) where() error {
	if f.out == "" && !f.dry && f.root == "" {
		return withHint(usagef("no folder for the %s", f.of), "add --out FOLDER")
	}
	return nil
}

// setting is where and on what the study runs.
func (f studyFlags) setting(cmd *cobra.Command, dev voxsaw.Device, memory gibibytes) experiment.Setting {
	return experiment.Setting{Out: f.out, Device: dev, Memory: memory.planned(),
		Console: &console{w: cmd.ErrOrStderr()}, Trial: int(f.trial), Finished: f.finished,
		Opened: func(store experiment.Store) error { return f.local.keep(cmd, store) }}
}

// check refuses flags that do not go together, and what --write would leave out of account.
func (f studyFlags) check(j *job, together bool) error {
	if f.finished && (f.trial > 0 || f.write != "" || f.dry || together) {
		return usagef("--finished makes a table of what is there: it goes with none of --trial, --write, --ranks and --plan")
	}
	if f.write == "" {
		return nil
	}
	if _, known := cluster.Schedulers[f.write]; !known {
		return usagef("--write %s: there are slurm and kubernetes", f.write)
	}
	for _, other := range []struct {
		flag  string
		given bool
	}{{"plan", f.dry}, {"trial", f.trial > 0}, {"json", f.asJSON}} {
		if other.given {
			return usagef("--write makes a script for all trials, and takes no --%s: leave one of the two out",
				other.flag)
		}
	}
	if j.launch.Ranks > 1 {
		return withHint(usagef("%d processes were started (%s), and --write is the work of one", j.launch.Ranks,
			j.launch.By), "run it without a launcher: the script that it writes starts the ranks")
	}
	return nil
}

// noteElsewhere says of how many trials the table is not.
func (f studyFlags) noteElsewhere(stderr io.Writer, others, done int) {
	switch {
	case others > 0 && f.finished:
		say(stderr, "not finished: %d of %s", others, numbers.Count(others+done, "trial"))
	case others > 0:
		say(stderr, "%s with other processes: the same command, once they have ended, makes the whole table",
			numbers.Count(others, "trial"))
	}
}

// writeCluster writes a job for the scheduler, with the settings o, in the study's folder: a person
// reads it, changes it, and submits it. needs rehearses the trials.
func (f studyFlags) writeCluster(cmd *cobra.Command, o any, machine deviceOptions, memory gibibytes, j cluster.Job,
	needs func(context.Context, voxsaw.Device) (cluster.Needs, error)) error {
	to := cluster.Schedulers[f.write]
	j.Program = strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	j.Verb, j.Out, j.Cores, j.Limit = section(cmd), f.out, cmp.Or(machine.Threads, 8), memory.bytes()
	if f.local.folder != "" {
		j.Flags = []string{"--local", hint.ShellWord(f.local.folder), "--local-size", f.local.size.String()}
	}
	if memory > 0 {
		j.Flags = append(j.Flags, "--memory", memory.String())
	}
	var err error
	if j.Settings, err = config.Marshal(o); err != nil {
		return err
	}
	if j.Folder, err = filepath.Abs("."); err != nil {
		return err
	}
	// A processor's memory is planned by the same rules on any machine.
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{Threads: j.Cores, Conv: machine.Conv})
	if err != nil {
		return err
	}
	defer dev.Close()
	if err := to.Check(j); err != nil {
		return &usageError{err}
	}
	if j.Needs, err = needs(cmd.Context(), dev); err != nil {
		return err
	}
	script, settings, err := to.Files(j)
	if err != nil {
		return err
	}
	if err := atomicfile.MakeFolder(f.out); err != nil {
		return err
	}
	for _, file := range []cluster.File{settings, script} {
		if err := spare(file.Path, theText(file.Text)); err != nil {
			return err
		}
	}
	if err := errors.Join(atomicfile.WriteBytes(settings.Path, settings.Text),
		atomicfile.WriteBytes(script.Path, script.Text)); err != nil {
		return err
	}
	say(cmd.OutOrStdout(), "%s: %s; %s %s", script.Path, numbers.Count(j.Trials, "trial"), to.Submit,
		hint.ShellWord(script.Path))
	return nil
}
