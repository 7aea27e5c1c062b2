// Package auto carries out a whole job within a time: from scans to networks that predict. Each of
// its stages is a command that a person could type, and makes the bytes that it makes then.
//
// Start at [Job.Run]. What a stage does is the matter of its command; this package decides which
// commands there are, how the time is divided among them, and remembers what is done, so that a job
// that was stopped goes on.
//
// The time is divided so: what scans take to be prepared they take. Of the rest nine tenths are for
// the trainings: the pretraining first, where the plan has one, and the fine-tunings alike. What is
// left is for the quality list and the report. The first fine-tuning is given its part as a time,
// from which the number of its steps follows. By what it took, each of the others has the steps
// that fit into its part of what is left then, more or fewer. All of the time is used, but for a
// small reserve that a note states. Where it would have fewer than half as many there is one
// network less, and a training that does not end in time is stopped and saved. Preparing, plans and
// the quality list are not stopped: a job takes longer than its time where these do.
package auto

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/triage"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Names in a job's folder.
const (
	preparedFolder = "prepared"
	prepareFile    = "prepare.yaml"
	planFile       = "plan.yaml"
	pretrained     = "pretrained"
	allFolder      = "all"
	modelFolder    = "model"
	nextFolder     = "next"
	reportFile     = "report.html"
	script         = "commands.sh"
)

// Names of stages: a plan of how scans are prepared, a second plan of the trainings, and what is
// made of all networks.
const (
	lookStage   = "fingerprint"
	againStage  = "plan again"
	listStage   = "quality list"
	reportStage = "report"
)

// The parts of the time.
const (
	trainings  = 0.9  // of what is left when the scans are prepared, until a fine-tuning is done
	reserved   = 0.03 // of all, from then on, for trainings slower than the first, and the end
	ending     = 0.01 // of all is for the report: by then trainings are stopped
	listing    = 0.8  // of the rest, at most, is what the quality list is thought to take
	mostList   = 0.07 // of all, at most, is kept for it
	beside     = 1.05 // of the time of steps is that of a training without validations, but it is
	leastShare = 0.7  // at least of the time of one with them: few steps tell little
	slower     = 1.03 // of the steps that others have, more or fewer are as many
)

// leastPrepared is the share of the scans, and of those with labels, that must be left where some
// cannot be read.
const leastPrepared = "0.5"

// mostFolds is how many fine-tunings there are, in a time that is long enough.
const mostFolds = 5

// A Job is what there is to do.
type Job struct {
	Out   string
	Scans []string // or one folder of prepared cases
	Hours float64
	// Machine are flags for the commands that compute, --name=value, Labels for the fine-tunings. A
	// job that goes on has those that it was begun with: Machine says which are others now.
	Machine, Labels []string
	Modality        string // what the scans are; "": as they say
	// Plans are nnU-Net's, by which scans are prepared and trained on, Network is what is planned
	// without them; "": no plans, the default network
	Plans, Network string
	// Command carries out a command of this program. It returns the command's own error.
	Command func(ctx context.Context, args []string) error
	// Say tells a person a line.
	Say func(format string, args ...any)

	state          state
	labelled, bare [][3]int // shapes of prepared cases, with labels and without
	predicted      []string // cases whose labels are predictions
}

// A Score is how well a structure is found in scans that its network has not seen.
type Score struct {
	Structure string
	DSC       float64 // the mean of the folds; "all" is the mean of the structures
}

// A Result is what a job has made.
type Result struct {
	Model  string // folder of the networks, which predict together; empty: nothing was labelled
	Report string
	Scores []Score
	Folds  int // that were scored
}

// Run carries out what is not done yet. Where it ends early, because ctx is done or a command
// fails, what is finished stays, the error says what can be used, and Run goes on from there when
// it is called again.
func (j *Job) Run(ctx context.Context) (*Result, error) {
	if err := j.mine(); err != nil {
		return nil, err
	}
	if err := atomicfile.MakeFolder(stateFolder(j.Out)); err != nil {
		return nil, err
	}
	release, err := atomicfile.Hold(stateFolder(j.Out))
	if err != nil {
		if held := new(atomicfile.HeldError); errors.As(err, &held) {
			held.Dir = j.Out // the folder that was named
		}
		return nil, err
	}
	defer release()
	if err := j.clean(); err != nil {
		return nil, err
	}
	if err := j.open(); err != nil {
		return nil, err
	}
	r, err := j.stages(ctx)
	if err != nil {
		return nil, j.stopped(ctx, err)
	}
	return r, nil
}

// clean removes what a job that was killed had half written of its own files; stages have theirs.
func (j *Job) clean() error {
	for folder, wanted := range map[string]func(string) bool{
		stateFolder(j.Out):    nil,
		j.at(modelFolder):     nil,
		filepath.Clean(j.Out): func(name string) bool { return name == script },
	} {
		if err := atomicfile.Clean(folder, wanted); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// mine makes sure that the job's folder is a job's, or is to be made.
func (j *Job) mine() error {
	names, err := os.ReadDir(j.Out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Lstat(statePath(j.Out)); err == nil {
		return nil
	}
	// a job that was stopped before it wrote anything has a folder for its state, with a lock
	if len(names) == 1 && names[0].Name() == filepath.Base(stateFolder(j.Out)) {
		inside, err := os.ReadDir(stateFolder(j.Out))
		if err != nil || !slices.ContainsFunc(inside, fs.DirEntry.IsDir) {
			return err
		}
	}
	if len(names) > 0 {
		return hint.Addf(fmt.Errorf("%s is there, and holds other files", j.Out), "choose another folder for --out")
	}
	return nil
}

// at is a path in the job's folder.
func (j *Job) at(parts ...string) string { return filepath.Join(append([]string{j.Out}, parts...)...) }

// stages carries out all of them.
func (j *Job) stages(ctx context.Context) (*Result, error) {
	j.tellTime()
	data, err := j.prepare(ctx)
	if err != nil {
		return nil, err
	}
	patients, err := j.look(data)
	if err != nil {
		return nil, err
	}
	plan, err := j.plan(ctx, data, patients)
	if err != nil {
		return nil, err
	}
	j.tellSplit(plan)
	runs, err := j.pretrain(ctx, plan)
	if err != nil {
		return nil, err
	}
	result := &Result{}
	if len(j.labelled) > 0 {
		folds, err := j.finetune(ctx, plan, data)
		if err != nil {
			return nil, err
		}
		runs = append(runs, folds...)
		result.Model = j.at(modelFolder)
		if result.Scores, result.Folds, err = j.scores(); err != nil {
			return nil, err
		}
		if err := j.list(ctx, data); err != nil {
			return nil, err
		}
	}
	if len(runs) == 0 {
		return nil, hint.Addf(errors.New("no scan has labels, and the time is too short to pretrain an encoder, "+
			"or the scans too small"), "label some scans, or give it more --hours")
	}
	result.Report = j.at(reportFile)
	if err := j.stage(ctx, reportStage, slices.Concat([]string{"report"}, runs, []string{"--out", result.Report}),
		nil); err != nil {
		return nil, err
	}
	j.tellEnd()
	return result, nil
}

// tellEnd says what time was used, and where the networks have few steps, in which time they would
// have enough.
func (j *Job) tellEnd() {
	j.Say("time: %s of %s were used", terminal.Duration(j.spent()), terminal.Duration(j.within()))
	least, networks := planning.Enough, 0
	for _, name := range j.state.Folds.names() {
		if !j.done(name) {
			continue
		}
		c, err := settingsOf(j.at(name))
		if err != nil { // the network is there all the same
			continue
		}
		least, networks = min(least, c.Steps), networks+1
	}
	if least < planning.Enough {
		hours := j.Hours * planning.Enough / float64(max(least, 1))
		digits := math.Pow(10, math.Floor(math.Log10(hours))-1)
		j.Say("%s, of %s or more: a first try, for most is learnt after %d steps, for which there is time in about "+
			"%.4g h: voxsaw auto %s --out NEW --hours %.4[4]g", numbers.Count(networks, "network"),
			numbers.Count(least, "step"), planning.Enough, math.Ceil(hours/digits)*digits,
			hint.Words(slices.Concat(j.Scans, j.said(), flag("network", j.Network), j.Labels, j.Machine)...))
	}
}

// prepare looks at the scans and prepares them, unless they are prepared. It gives the folder of
// the prepared cases.
func (j *Job) prepare(ctx context.Context) (data string, err error) {
	if len(j.Scans) == 1 {
		store, err := prepared.Open(j.Scans[0])
		if err == nil {
			return j.Scans[0], store.Close()
		}
		if !errors.Is(err, prepared.ErrNotPrepared) {
			return "", err
		}
	}
	if err := j.stage(ctx, "inspect", slices.Concat([]string{"inspect"}, j.Scans, j.memory()), nil); err != nil {
		return "", err
	}
	data = j.at(preparedFolder)
	if j.done("prepare") {
		return data, j.stage(ctx, "prepare", nil, nil)
	}
	j.state.Files = j.files()
	if r := j.state.find("prepare"); r != nil { // it goes on as it began
		return data, j.stage(ctx, "prepare", r.Command, nil)
	}
	how := j.at(prepareFile)
	look := slices.Concat([]string{"plan"}, j.Scans, []string{"--to", "prepare", "--out", how}, j.said(), j.memory())
	if err := j.stage(ctx, lookStage, anew(look, how), nil); err != nil {
		return "", err
	}
	return data, j.stage(ctx, "prepare", slices.Concat([]string{"prepare"}, j.Scans,
		[]string{"--config", how, "--out", data, "--least-share", leastPrepared}, j.memory()), nil)
}

// memory are the flags about the machine that those commands have, too, which read scans and
// compute nothing.
func (j *Job) memory() (flags []string) {
	for _, flag := range j.Machine {
		if strings.HasPrefix(flag, "--memory=") {
			flags = append(flags, flag)
		}
	}
	return flags
}

// flag is one with its value, if it has one.
func flag(name, value string) []string {
	if value == "" {
		return nil
	}
	return []string{"--" + name, value}
}

// said are the flags that say what the scans are, and by what plans they are prepared.
func (j *Job) said() []string {
	return slices.Concat(flag("modality", j.Modality), flag("plans", j.Plans))
}

// anew is the command of a plan, which takes the place of one that is there.
func anew(args []string, path string) []string {
	if _, err := os.Lstat(path); err == nil {
		return append(args, "--force")
	}
	return args
}

// tellTime says how the time is divided, before anything is known of the scans.
func (j *Job) tellTime() {
	j.Say("time: %s in all, of which %s are left; preparing the scans takes what it takes; of the rest, %.0f %% are "+
		"for trainings, %.0f %% for the plan, the quality list and the report; once a network is trained, later ones "+
		"have what it has left, and %s are kept", terminal.Duration(j.within()), terminal.Duration(j.left()),
		100*trainings, 100*(1-trainings), terminal.Duration(j.share(reserved)))
}

// tellSplit says how long the trainings may take, once the plan is there.
func (j *Job) tellSplit(p *plan) {
	f := *j.state.Folds
	parts, rest := "", j.forTraining()
	if p.Puzzles() > 0 && !j.done(pretrained) {
		puzzling := min(p.puzzling(), rest)
		parts, rest = fmt.Sprintf("%s of pretraining, ", terminal.Duration(puzzling)), rest-puzzling
	}
	waiting := 0
	for _, name := range f.names() {
		if !j.done(name) {
			waiting++
		}
	}
	if waiting > 0 {
		parts += fmt.Sprintf("%s of %s each, ", numbers.Count(waiting, "fine-tuning"),
			terminal.Duration(rest/time.Duration(waiting)))
	}
	j.Say("time: of %s that are left, %s%s for the quality list and the report", terminal.Duration(j.left()), parts,
		terminal.Duration(j.left()-j.forTraining()))
}

// look looks at the prepared cases, and tells of how many patients those with labels are that
// somebody drew, at least 1 where there are labels. Other
// cases than those that the job was begun with are an error.
func (j *Job) look(data string) (patients int, err error) {
	store, err := prepared.Open(data)
	if err != nil {
		return 0, hint.Addf(err, "a job goes on with the cases that it was begun with: where scans have changed, "+
			"begin one with another --out, or bring the earlier ones back")
	}
	defer store.Close()
	if err := j.sameCases(data, store); err != nil {
		return 0, err
	}
	if data == j.at(preparedFolder) {
		j.tellChanges(store)
	}
	with, without := store.ForTraining()
	shapes := func(ids []string) (all [][3]int) {
		for _, id := range ids {
			record, _ := store.Record(id)
			all = append(all, record.Shape)
		}
		return all
	}
	j.labelled, j.bare = shapes(with), shapes(without)
	// cases with predicted labels are in no fold
	j.predicted = store.Predicted()
	drawn := slices.DeleteFunc(slices.Clone(with), func(id string) bool { return slices.Contains(j.predicted, id) })
	return max(dataset.PatientsOf(store.Records()).Count(drawn), min(len(with), 1)), nil
}

// inTime refuses to begin a stage when the time is used up.
func (j *Job) inTime(name string) error {
	if j.state.find(name) != nil || j.left() > 0 {
		return nil
	}
	return j.usedUp("before " + name)
}

// usedUp is the error of a job whose time is used up.
func (j *Job) usedUp(where string) error {
	return hint.Addf(fmt.Errorf("%s: the %g h of the job %w", where, j.Hours, errTime),
		"voxsaw auto --resume --out %s --hours MORE goes on", hint.Word(j.Out))
}

// plan decides on sizes, and on how many fine-tunings there are, given of how many patients scans
// with labels are.
func (j *Job) plan(ctx context.Context, data string, patients int) (*plan, error) {
	path := j.at(planFile)
	learn := slices.Clone(j.Labels)
	for n, word := range learn {
		if n%2 == 0 && word == "--labels" { // another word there, where labels are files
			learn[n] = "--learn"
		}
	}
	carryOut := func(name string, share int) (*plan, error) {
		if err := j.inTime(name); err != nil {
			return nil, err
		}
		hours := hoursOf(j.forTraining() / time.Duration(share))
		args := slices.Concat([]string{"plan", data, "--hours", hours, "--out", path}, learn, flag("plans", j.Plans),
			flag("network", j.Network), j.Machine)
		if err := j.stage(ctx, name, anew(args, path), nil); err != nil {
			return nil, err
		}
		return readPlan(path)
	}
	if j.state.Folds != nil {
		if j.state.Folds.One && !j.done(againStage) {
			return carryOut(againStage, 2)
		}
		return readPlan(path)
	}
	folds := min(mostFolds, patients)
	f := Folds{Of: folds, Scheme: dataset.FoldsShuffled}
	var because string
	p, err := carryOut("plan", max(folds, 1))
	switch {
	case err != nil:
		return nil, err
	case patients == 0:
		because = "no scan has labels: an encoder is pretrained, and that is all"
	case patients == 1:
		f = Folds{All: true}
		because = "one patient has labels: one network is trained on them, and nothing is held out"
		if len(j.predicted) > 0 {
			because = fmt.Sprintf("fewer than two patients have labels that somebody drew, those of %s are "+
				"predictions: one network is trained on all, and nothing is held out",
				numbers.Count(len(j.predicted), "case"))
		}
	case p.Steps() < planning.Enough:
		f.One, f.All = true, true
		because = fmt.Sprintf("in %d folds a network would have %s, fewer than the %d after which most is learnt: so "+
			"there are two, one that leaves out fold 1 and says how good it is, and one of all labelled scans", folds,
			numbers.Count(p.Steps(), "step"), planning.Enough)
	default:
		because = fmt.Sprintf("there is time for %s in each of %d folds: each labelled scan is held out once, and all "+
			"networks predict together", numbers.Count(p.Steps(), "step"), folds)
	}
	// kept before the second plan takes the place of the one that decided
	j.state.Folds = &f
	j.Say("folds: %s", because)
	if err := j.save(); err != nil || !f.One {
		return p, err
	}
	return carryOut(againStage, 2)
}

// share is a part of the time of the whole job.
func (j *Job) share(part float64) time.Duration { return time.Duration(part * float64(j.within())) }

// forTraining is the part of the time that is left which trainings have, when the scans are
// prepared: once a fine-tuning is done it is known what the quality list will take, and how long a
// training takes here.
func (j *Job) forTraining() time.Duration {
	if j.state.Folds == nil || !slices.ContainsFunc(j.state.Folds.names(), j.done) {
		return time.Duration(float64(j.left()) * trainings)
	}
	kept := j.share(reserved)
	if takes, err := j.listTakes(len(j.state.Folds.names())); err == nil {
		kept += min(time.Duration(float64(takes)/listing), j.share(mostList))
	}
	return max(j.left()-kept, 0)
}

// pretrain solves puzzles, where the plan has them. It gives the folder of the run.
func (j *Job) pretrain(ctx context.Context, p *plan) (runs []string, err error) {
	for _, d := range p.Plan.Decisions {
		if d.What == planning.Pretraining {
			j.Say("pretraining: %s; %s", d.Is, d.Because)
		}
	}
	if p.Puzzles() == 0 {
		return nil, nil
	}
	out := j.at(pretrained)
	within := min(p.puzzling(), j.forTraining())
	return []string{out}, j.training(ctx, pretrained, []string{"pretrain", "--config", j.at(planFile)}, nil, within,
		out)
}

// finetune trains the networks, and puts each that is finished into the folder of the model. It
// gives the folders of the runs.
func (j *Job) finetune(ctx context.Context, p *plan, data string) (runs []string, err error) {
	base := slices.Concat([]string{"finetune", "--config", j.at(planFile)}, j.Labels)
	if p.Puzzles() > 0 {
		base = append(base, "--init", j.at(pretrained))
	}
	f := *j.state.Folds
	names := f.names()
	for n, name := range names {
		held := []string{"--hold-out", "0"}
		if n < f.Count() {
			held = f.heldOut(n)
		}
		out, args := j.at(name), slices.Concat(base, held)
		within := j.forTraining() / time.Duration(len(names)-n)
		var steps []string
		switch {
		case j.begun(name): // it goes on as it began
		case n == 0 && p.Steps() >= planning.Most: // more steps gain nothing
			within = 0
		case n > 0 && !slices.Equal(j.state.find(filepath.Base(runs[len(runs)-1])).machine(), j.Machine):
			// the pace of the last one says nothing of this one's: its steps follow from its hours
		case n > 0:
			c, to, err := j.likeFirst(names[0], filepath.Base(runs[len(runs)-1]), within, n < f.Count())
			if err != nil {
				return nil, err
			}
			if to < 0.5 {
				j.Say("%s: none, for in %s it would have fewer than half of the steps that %s has; more --hours and "+
					"--resume train it, too", name, terminal.Duration(within), names[0])
				continue
			}
			steps, within = c.flags(), 0
		}
		switch err := j.training(ctx, name, args, steps, within, out); {
		case errors.Is(err, errTime) && len(runs) > 0:
			j.Say("%s: stopped, for the time is used up: %s instead of %d; voxsaw auto --resume --out %s --hours MORE "+
				"goes on with it", name, numbers.Count(len(runs), "network"), len(names), hint.Word(j.Out))
			return runs, nil
		case err != nil:
			return nil, err
		}
		if err := j.member(ctx, name); err != nil {
			return nil, err
		}
		runs = append(runs, out)
	}
	return runs, nil
}

// likeFirst are the settings of the first fine-tuning, with the steps that fit into a share of the
// time as fast as the last one was that is finished, and how many times as many these are. Of steps
// that differ by little there are as many, and no more than gain something. Where nothing is held
// out there are no validations, and their time is for steps.
func (j *Job) likeFirst(first, last string, share time.Duration, holdsOut bool) (c settings, to float64, err error) {
	if c, err = settingsOf(j.at(first)); err != nil {
		return c, 0, err
	}
	before, err := settingsOf(j.at(last))
	if err != nil {
		return c, 0, err
	}
	took, steps := j.state.find(last).took(), float64(max(c.Steps, 1))
	if !holdsOut {
		status, err := train.ReadStatus(j.at(last))
		if err != nil {
			return c, 0, err
		}
		if alone := time.Duration(float64(status.Time) * beside); alone > 0 {
			took = min(took, max(alone, time.Duration(float64(took)*leastShare)))
		}
	}
	to = float64(share) / max(float64(took), 1) * float64(before.Steps) / steps
	to = min(to, max(planning.Most/steps, 1))
	if to > 1/slower && to < slower {
		return c, 1, nil
	}
	if to < 0.5 {
		return c, to, nil
	}
	n := c.Steps
	c.scale(to)
	what := "took"
	if !holdsOut {
		what = "without its validations took"
	}
	j.Say("%s %s %s for %s; %s are left for each further one, beside %s that are kept for the end: it has %s, "+
		"and %s has %d", last, what, terminal.Duration(took), numbers.Count(before.Steps, "step"),
		terminal.Duration(share),
		terminal.Duration(j.left()-j.forTraining()), numbers.Count(c.Steps, "step"), first, n)
	return c, to, nil
}

// begun tells whether a training has begun to write, by when its steps are chosen: one that was
// stopped before that has the time that there is now.
func (j *Job) begun(name string) bool {
	return j.state.find(name) != nil && (j.done(name) || train.Begun(j.at(name)))
}

// errTime ends a training when the time is used up.
var errTime = errors.New("are used up")

// late tells whether nothing but the end may be carried out any more.
func (j *Job) late() bool { return j.left() <= j.share(ending) }

// until is a context that ends when the time is used up, but for that of the end.
func (j *Job) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	end := train.Now().Add(j.left() - j.share(ending))
	go func() {
		const often = time.Second / 10 // the clock may be another one than the timer's
		for left := end.Sub(train.Now()); left > 0; left = end.Sub(train.Now()) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(min(left, often)):
			}
		}
		cancel(errTime)
	}()
	return ctx, func() { cancel(nil) }
}

// training carries out a training, or goes on with it, for the steps that flags give, else for
// those that fit into a time, or for the plan's where that time is 0.
func (j *Job) training(ctx context.Context, name string, args, steps []string, within time.Duration, out string) error {
	if err := j.inTime(name); err != nil {
		return err
	}
	if !j.done(name) && j.late() {
		return j.usedUp("before " + name)
	}
	args = slices.Concat(args, j.Machine)
	tail := []string{"--out", out}
	asked := slices.Concat(args, steps, tail)
	if within > 0 {
		asked = slices.Concat(args, []string{"--hours", hoursOf(within)}, tail)
	}
	if j.begun(name) {
		asked = j.state.find(name).Command // the share of the time was another one then
	}
	if j.done(name) {
		return j.stage(ctx, name, asked, nil) // tells that it is done, however late it is
	}
	j.state.forget(listStage, reportStage) // what is made of the networks is another one then
	timed, cancel := j.until(ctx)
	defer cancel()
	err := j.stage(timed, name, asked, func() ([]string, error) {
		c, err := settingsOf(out)
		if err != nil {
			return nil, err
		}
		return slices.Concat(without(asked, slices.Concat(c.flags(), []string{"--hours", "", "--out", ""})), c.flags(),
			tail), nil
	})
	stopped := errors.Is(err, context.Canceled) || errors.Is(err, errTime)
	if stopped && ctx.Err() == nil && context.Cause(timed) == errTime {
		return j.usedUp(name)
	}
	return err
}

// without leaves flags, each with a value after it, out of a command.
func without(command, flags []string) (rest []string) {
	for n := 0; n < len(command); n++ {
		if at := slices.Index(flags, command[n]); at >= 0 && at%2 == 0 {
			n++
			continue
		}
		rest = append(rest, command[n])
	}
	return rest
}

// hoursOf is a time for --hours.
func hoursOf(d time.Duration) string {
	return strconv.FormatFloat(math.Max(math.Floor(d.Hours()*1e5)/1e5, 1e-5), 'g', -1, 64)
}

// member copies the checkpoint of a finished training into the folder of the model, after the files
// that name its cases where these are many. It is the last one: the best one was chosen by the
// held-out cases that are to judge it.
func (j *Job) member(ctx context.Context, name string) error {
	lists, err := checkpoint.Lists(j.at(name))
	if err != nil {
		return err
	}
	for _, file := range lists {
		if err := j.copied(ctx, name+" "+file, j.at(name, file), file); err != nil {
			return err
		}
	}
	from := train.Last(j.at(name))
	return j.copied(ctx, "model "+name, from, name+filepath.Ext(from))
}

// copied is a stage that copies a file into the folder of the model.
func (j *Job) copied(ctx context.Context, stage, from, name string) error {
	to := j.at(modelFolder, name)
	return j.own(ctx, stage, []string{"cp", from, to}, func() error {
		in, err := os.Open(from)
		if err != nil {
			return err
		}
		defer in.Close()
		if err := atomicfile.MakeFolder(j.at(modelFolder)); err != nil {
			return err
		}
		return atomicfile.Write(to, func(w io.Writer) error {
			_, err := io.Copy(w, in)
			return err
		})
	})
}

// list ranks the scans without labels by what is doubtful about their label maps; where all have
// labels, or there is no time for the networks, it ranks the labels that people drew.
func (j *Job) list(ctx context.Context, data string) error {
	if j.done(listStage) {
		return j.stage(ctx, listStage, nil, nil)
	}
	args, bare := []string{"next", data}, len(j.bare)
	if bare > 0 {
		members := j.state.members()
		room := time.Duration(float64(max(j.left()-j.share(ending), 0)) * listing)
		takes := make([]time.Duration, len(members)+1) // of the list by so many of them
		fit := 0
		for n := range members {
			var err error
			if takes[n+1], err = j.listTakes(n + 1); err != nil {
				return err
			}
			if takes[n+1] <= room {
				fit = n + 1
			}
		}
		switch all := j.at(modelFolder); {
		case takes[len(members)] == 0:
			j.Say("quality list: of drawn labels alone, since it is not known how long a network takes for the scans "+
				"without labels: voxsaw next %s --checkpoint %s --out NEW", hint.Word(data), hint.Word(all))
			bare = 0
		case fit >= len(members):
			args = append(args, "--checkpoint", all)
		case fit >= 1:
			some := members[:fit]
			for _, m := range some {
				args = append(args, "--checkpoint", filepath.Join(all, m))
			}
			j.Say("quality list: by %s of %d, for all take about %s and %s are left",
				numbers.Count(fit, "network"), len(members), terminal.Duration(takes[len(members)]),
				terminal.Duration(room))
		default:
			j.Say("quality list: of drawn labels alone; a network would take about %s for the scans without "+
				"labels, and %s are left: voxsaw next %s --checkpoint %s --out NEW", terminal.Duration(takes[1]),
				terminal.Duration(room), hint.Word(data), hint.Word(all))
			bare = 0
		}
	}
	if bare == 0 {
		if len(j.labelled) < 2 {
			return nil
		}
		args = append(args, "--drawn")
	}
	out := j.at(nextFolder) // maps that somebody has corrected in an earlier list stay
	for n := 2; ; n++ {
		if _, err := os.Lstat(out); err != nil || triage.Untouched(out) == nil {
			break
		}
		out = j.at(fmt.Sprint(nextFolder, n))
	}
	return j.stage(ctx, listStage, slices.Concat(args, j.Machine, []string{"--out", out}), nil)
}

// listTakes estimates what the quality list takes by so many networks, by what the validations of
// one took: a window takes as long in both, and the list has more of them.
func (j *Job) listTakes(networks int) (time.Duration, error) {
	f := *j.state.Folds
	if f.Count() == 0 || len(j.bare) == 0 {
		return 0, nil
	}
	windows, err := windowsOf(j.at(f.names()[0]))
	if err != nil {
		return 0, err
	}
	var window float64 // seconds; 0: none is known
	for _, name := range f.names()[:f.Count()] {
		if name != f.names()[0] && !j.done(name) {
			break
		}
		each, err := j.validationTakes(name)
		if err != nil {
			return 0, err
		}
		// The first training has timed its first steps and a validation before it began.
		if window == 0 || each > 0 && each < window {
			window = each
		}
	}
	held := max(len(j.labelled)/max(f.Of, 2), 1)
	window /= float64(held) * windows.mean(j.labelled)
	windows.Overlap = segment.DefaultInference().Overlap
	scans := len(j.bare)
	if networks == 1 {
		scans += held // whose labels it has not seen
	}
	passes := triage.Passes(scans, min(triage.Count, len(j.bare)), networks)
	listed := float64(passes*networks) * windows.mean(j.bare)
	return time.Duration(window * listed * float64(time.Second)), nil
}

// validationTakes is the mean time of a fine-tuning's validations, in seconds: what it took beside
// its steps.
func (j *Job) validationTakes(name string) (float64, error) {
	status, err := train.ReadStatus(j.at(name))
	if err != nil {
		return 0, err
	}
	validations, err := train.CountValidations(j.at(name))
	if err != nil || validations == 0 {
		return 0, err
	}
	return max(j.state.find(name).took()-status.Time, 0).Seconds() / float64(validations), nil
}

// scores are those of the held-out cases at the end of the trainings, the mean over the folds.
func (j *Job) scores() (scores []Score, folds int, err error) {
	at := map[string]int{}
	var counts []float64
	for _, name := range j.state.Folds.names()[:j.state.Folds.Count()] {
		if !j.done(name) {
			continue
		}
		v, err := train.LastValidation(j.at(name))
		if err != nil {
			return nil, 0, err
		}
		folds++
		for _, m := range v.Metrics {
			name := "all"
			if m.Name != "dsc" {
				name = strings.ReplaceAll(strings.TrimPrefix(m.Name, "dsc_"), "_", " ")
				if _, err := strconv.Atoi(name); err == nil { // it has none
					name = "label " + name
				}
			}
			k, there := at[name]
			if !there {
				k = len(scores)
				at[name] = k
				scores, counts = append(scores, Score{Structure: name}), append(counts, 0)
			}
			if !math.IsNaN(m.Value) {
				scores[k].DSC, counts[k] = scores[k].DSC+m.Value, counts[k]+1
			}
		}
	}
	for k := range scores {
		scores[k].DSC /= counts[k] // 0/0 is NaN: in no held-out case
	}
	return scores, folds, nil
}

// stopped says of an error what can be used of the job, and how it goes on.
func (j *Job) stopped(ctx context.Context, err error) error {
	again := fmt.Sprintf("voxsaw auto --resume --out %s goes on from there", hint.Word(j.Out))
	usable := j.usable()
	if ctx.Err() == nil {
		switch {
		case usable == "":
		case errors.Is(err, errTime): // which says what goes on
			j.Say("%s", usable)
		default:
			j.Say("%s; %s", usable, again)
		}
		return err
	}
	if usable != "" {
		again = usable + "; " + again
	}
	return hint.Addf(err, "%s", again)
}

// usable says what is there to be used; "" where that is nothing.
func (j *Job) usable() string {
	if members := j.state.members(); len(members) > 0 {
		return fmt.Sprintf("%s of %d predict: voxsaw predict SCANS --checkpoint %s",
			numbers.Count(len(members), "network"), len(j.state.Folds.names()), hint.Word(j.at(modelFolder)))
	}
	names := []string{}
	if j.state.Folds != nil {
		names = j.state.Folds.names()
	}
	for _, name := range names {
		if _, err := os.Stat(train.Last(j.at(name))); err == nil {
			return fmt.Sprintf("a network predicts that has not learnt to its end: voxsaw predict SCANS "+
				"--checkpoint %s", hint.Word(j.at(name)))
		}
	}
	if _, err := os.Stat(train.Last(j.at(pretrained))); err == nil {
		return fmt.Sprintf("an encoder is there to start from: voxsaw finetune --init %s", hint.Word(j.at(pretrained)))
	}
	if j.done("prepare") {
		return fmt.Sprintf("the prepared cases are in %s", hint.Word(j.at(preparedFolder)))
	}
	return ""
}
