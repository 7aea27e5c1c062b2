package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// A study is a plan as its verb has it.
type study struct {
	experiment.Study
	title    string // of the report
	settings any    // of the verb
	machine  deviceOptions
	memory   gibibytes
	// show lists the trials, and what is to be known of them.
	show func(w io.Writer) error
}

// studyFlags are what the plan of a study does not say.
type studyFlags struct {
	of       string // "experiment", or "comparison"
	printed  string // what --json prints
	plans    string // what --plan lists
	out      string
	root     string // of the data sets
	asJSON   bool
	dry      bool
	finished bool
	local    localFlags
	trial    count
	write    string
	ranks    count
	planned  []byte // the plan that set the sizes; nil: the user did
}

// bind makes the flags of a study that several processes may share.
func (f *studyFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.out, "out", "", "folder of the "+f.of)
	cmd.Flags().BoolVar(&f.dry, "plan", false, f.plans)
	cmd.Flags().BoolVar(&f.finished, "finished", false,
		"carry out nothing: the table and the report of the trials that are finished, while others are at work on "+
			"the rest")
	f.trial.most = 1_000_000
	cmd.Flags().Var(&f.trial, "trial",
		"run one trial alone, by its number in the plan, 1 for the first, and make no report; 0: all")
	cmd.Flags().StringVar(&f.write, "write", "",
		"write the script that runs the "+f.of+" on a cluster, and stop: slurm or kubernetes")
	f.local.bind(cmd)
	cmd.Flags().StringVar(&f.root, "data-root", "",
		"folder below which the plan's data sets lie, prepared or as published: says first what is there, "+
			"what is missing and how long all will take, and prepares what is not yet")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print "+f.printed+" as JSON")
	f.ranks.most = 65_536
	cmd.Flags().Var(&f.ranks, ranksFlag, "ranks of an MPI job that carry out each trial together, as many as the "+
		"launcher starts; 0: each process has trials of its own")
	cmd.Annotations = map[string]string{asClaimed: "yes", asRanks: "yes"}
}

// where says whether there is a folder for the study, or none is needed.
func (f studyFlags) where() error {
	if f.out == "" && !f.dry && f.root == "" {
		return withHint(usagef("no folder for the %s", f.of), "add --out FOLDER")
	}
	return nil
}

// together is how many ranks carry out a trial.
func (f studyFlags) together() int { return max(f.ranks.n, 1) }

// run carries out a study, or what the flags ask for instead.
func (f studyFlags) run(cmd *cobra.Command, s study) error {
	ctx, stdout, stderr := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	ranks := jobOf(ctx)
	if err := cmp.Or(s.Check(), s.CheckRanks(f.together())); err != nil {
		return config.Mistaken(err)
	}
	if err := f.check(ranks); err != nil {
		return err
	}
	if f.root != "" {
		s.Paths().Below(f.root, s.DataSets())
	}
	// before anything is prepared for it; without a folder it is of none, whatever lies here
	if !ranks.silent() && (f.out == "" || !s.Begun(f.out)) {
		if err := config.Mistaken(s.Idle()); err != nil {
			return err
		}
	}
	if ready, err := f.find(cmd, s); err != nil || !ready {
		return err
	}
	if f.dry {
		return s.show(stdout)
	}
	if f.write != "" {
		return f.writeCluster(cmd, s)
	}
	if err := f.checkLauncher(cmd, ranks); err != nil {
		return err
	}
	dev, closeDevice, err := s.machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	in := experiment.Setting{Out: f.out, Device: dev, Memory: s.memory.planned(), Console: &console{w: stderr},
		Trial: f.trial.n, Finished: f.finished, Ranks: ranks.ranks(), Planned: f.planned,
		Opened: func(store experiment.Store) error { return f.local.keep(cmd, store) }}
	if in.Settings, err = config.Marshal(s.settings); err != nil {
		return err
	}
	outcome, failed := s.Start(ctx, in)
	done := 0
	if outcome != nil {
		done = outcome.Finished()
	}
	if failed != nil {
		if done > 0 {
			tables := ""
			if (outcome == nil || !outcome.OthersWentOn()) && f.trial.n == 0 {
				tables = "; the same command with --finished makes tables of them"
				if f.ranks.n > 0 {
					tables = strings.Replace(tables, "--finished", "--finished and without --ranks", 1)
				}
			}
			say(stderr, "finished: %s%s", numbers.Count(done, "trial"), tables)
		}
		// the table of the others, where a trial has failed and nobody has stopped them
		if failed = explainStudy(failed); outcome == nil || !outcome.OthersWentOn() || f.trial.n > 0 {
			return failed
		}
	}
	if ranks.silent() { // rank 0 has the scores, and writes; what has failed it tells, too
		return nil
	}
	f.noteElsewhere(stderr, outcome.ByOthers(), done)
	if done == 0 {
		// an array would count it as done
		if failed == nil && f.trial.n > 0 && outcome.ByOthers() > 0 {
			return withHint(
				fmt.Errorf("trial %d was not carried out here: another process is at work on it", f.trial.n),
				"the same command, once that has ended, goes on with what it left, or finds it finished",
			)
		}
		return failed
	}
	for _, warning := range outcome.Warnings() {
		say(stderr, "WARNING: %s", warning)
	}
	if f.trial.n > 0 {
		return printTables(stdout, outcome, in, f.asJSON)
	}
	return errors.Join(explainStudy(printOutcome(ctx, stdout, outcome, s.title, in, f.asJSON)), failed)
}

// checkLauncher makes sure that a launcher has started as many ranks as are to carry out a trial.
func (f studyFlags) checkLauncher(cmd *cobra.Command, j *job) error {
	want, there := f.together(), j.size()
	if want == there {
		return nil
	}
	if there == 1 {
		return withHint(usagef("--%s %d: this process was started alone", ranksFlag, want),
			"start it by mpirun -n %d %s ... --%s %d, or leave --%s out", want, cmd.CommandPath(), ranksFlag, want,
			ranksFlag)
	}
	return withHint(usagef("--%s %d: the launcher started %d", ranksFlag, want, there), "give both the same number")
}

// explainStudy adds a hint to the error of an experiment: what the user can do about it. Unlike a
// training, one may be stopped where nothing is to be saved: while test cases are scored, or the
// report is drawn.
func explainStudy(err error) error {
	const again = "the same command"
	var training *voxsaw.InterruptedError
	if errors.Is(err, context.Canceled) && !errors.As(err, &training) {
		return withHint(err, "%s goes on from there", again)
	}
	return explain(err, again, "choose another --out folder")
}

// printOutcome writes all results of a study and prints its tables, and then writes the report:
// what is left out of it, or cannot be written, is an error at the end, when all else is safe.
func printOutcome(ctx context.Context, w io.Writer, o experiment.Outcome, title string, s experiment.Setting,
	asJSON bool) error {
	without, err := o.Write(s)
	if err != nil {
		return errors.Join(printTables(w, o, s, asJSON), fmt.Errorf("%w (the tables are printed)", err))
	}
	failed := errors.Join(without, printTables(w, o, s, asJSON))
	page, err := o.Report(ctx, title, s)
	if ctx.Err() != nil {
		return errors.Join(failed, err)
	}
	if err = errors.Join(err, page.Write(s.Out, experiment.ReportName)); err != nil {
		err = fmt.Errorf("the report: %w (all scores are safe in %s)", err, s.Out)
	}
	if err = errors.Join(failed, err); err != nil || asJSON {
		return err
	}
	_, err = fmt.Fprintf(w, "report: %s\n", filepath.Join(s.Out, experiment.ReportName+".html"))
	return err
}

// printTables prints the tables of a study, or its results as JSON.
func printTables(w io.Writer, o experiment.Outcome, s experiment.Setting, asJSON bool) error {
	if all := o.JSON(); asJSON && all != nil {
		return printJSON(w, all)
	}
	tables, err := o.Tables(s)
	for n, t := range tables {
		switch {
		case !asJSON:
			err = errors.Join(err, printTable(w, t))
		case n == 0:
			err = errors.Join(err, t.JSON(w))
		}
	}
	return err
}

// check refuses flags that do not go together, and what --write would leave out of account.
func (f studyFlags) check(j *job) error {
	if f.finished && (f.trial.n > 0 || f.write != "" || f.dry || f.ranks.n > 0) {
		return usagef("--finished makes a table of what is there: it goes with none of --trial, --write, --ranks " +
			"and --plan")
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
	}{{"plan", f.dry}, {"trial", f.trial.n > 0}, {"json", f.asJSON}} {
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

// writeCluster writes a job for the scheduler in the study's folder: a person reads it, changes it,
// and submits it.
func (f studyFlags) writeCluster(cmd *cobra.Command, s study) (err error) {
	to := cluster.Schedulers[f.write]
	j := cluster.Job{Program: strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"), Verb: section(cmd), Out: f.out,
		Ranks: f.together(), Paths: s.Paths().Named(), Cores: cmp.Or(s.machine.Threads, 8), Limit: s.memory.bytes()}
	if j.Trials, err = s.Trials(f.out); err != nil {
		return err
	}
	if f.local.folder != "" {
		j.Flags = []string{"--local", hint.ShellWord(f.local.folder), "--local-size", f.local.size.String()}
	}
	if s.memory > 0 {
		j.Flags = append(j.Flags, "--memory", s.memory.String())
	}
	if j.Settings, err = config.Marshal(s.settings); err != nil {
		return err
	}
	if j.Folder, err = filepath.Abs("."); err != nil {
		return err
	}
	// A processor's memory is planned by the same rules on any machine.
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{Threads: j.Cores, Conv: s.machine.Conv})
	if err != nil {
		return err
	}
	defer dev.Close()
	if err := to.Check(j); err != nil {
		return config.Mistaken(err)
	}
	if j.Needs, err = experiment.Needs(cmd.Context(), s, dev, j.Ranks); err != nil {
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

// console shows an experiment on standard error.
type console struct {
	w   io.Writer
	now *trainProgress
}

func (c *console) Training(name, items string) voxsaw.Observer {
	c.now = newTrainProgress(c.w, name, items)
	return c.now
}

func (c *console) Trained() {
	if c.now != nil {
		c.now.finish()
		c.now = nil
	}
}

func (c *console) Note(text string) { say(c.w, "%s", text) }
