package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// A Folder is where a run lives:
//
//	config.yaml        the resolved configuration
//	run.json           what the run is and how far it has come
//	metrics.csv        a line for each step
//	validation.csv     a line for each validation
//	last.safetensors   the newest checkpoint, with the state of the optimiser
//	best.safetensors   the checkpoint with the highest score
//	names-DIGEST.txt   the cases that are trained on, where those are many
//	results.json       what the end of the training scored, where its command scores it
//	report.html        the page on the training, where its command writes it
//	cases.png          the held-out cases of the last validation, where its command draws them
//	planned.yaml       the plan that its sizes are of, where its command made one
//	events.out.tfevents.voxsaw, where its command writes for TensorBoard
//	.voxsaw            that these files are the run's, and nobody else's: see package outdir
//	.voxsaw.sums       the digests of all these, once the process that wrote them has ended
//
// Nothing in it is touched before [Train] has all that the training needs: a run that cannot start
// takes no folder, and starting over loses nothing until then.
type Folder struct {
	path      string
	identity  checkpoint.Description
	mode      voxsaw.Mode
	unclaimed bool // a new run, whose files are not there yet; what an older one left may be
	finished  bool
	writing   bool // its files are not what the list of digests says, see [atomicfile.Seal]
	notes     []string
	drifts    []string // what may change a run that goes on, in the last bits
	steps     int      // that the run was to have; 0: as many as it is to have now
	reached   int      // the step that the run in the folder had come to
	best      int      // its best step so far
	changed   bool     // its configuration is to be written again
	engines   []string // of the run that is resumed
	ranks     int      // that train together
	flops     float64  // of a step, over all ranks; 0: nobody counted
	// cases of the validation, and those without labels, which a configuration of many names by a
	// file
	validatedOn, unlabelled []string
}

const (
	configFile     = "config.yaml"
	runFile        = "run.json"
	metricsFile    = "metrics.csv"
	validationFile = "validation.csv"
	lastFile       = "last.safetensors"
	bestFile       = "best.safetensors"
	resultsFile    = "results.json"
)

// owner has the files of a run that it makes, or its command does.
var owner = outdir.Owner{Name: "a training", Files: []string{configFile, runFile, metricsFile, validationFile,
	lastFile, bestFile, resultsFile, Page, Sheet, Events, Planned}}

// Page is the name of the page on a run, in its folder. The run's command writes it.
const Page = "report.html"

// Sheet is the name of the contact sheet of held-out cases in a run's folder, likewise.
const Sheet = "cases.png"

// Events is the name of TensorBoard's file in a run's folder, likewise.
const Events = "events.out.tfevents.voxsaw"

// ScoresFile is the name of the scores of a study's test cases in a run's folder, likewise. The
// study puts it into the folder's list of digests.
const ScoresFile = "scores.csv"

// Planned is the name of the plan that set the sizes of a run, likewise.
const Planned = "planned.yaml"

// PlannedOf is the file of that plan, of the run in a folder.
func PlannedOf(folder string) string { return filepath.Join(folder, Planned) }

// Status is what a run's folder says of it.
type Status struct {
	record
	Logged int           // steps in the log; the last of them may not be saved yet
	Time   time.Duration // that they took, without validations and breaks
}

// ReadStatus reads the status of the run in a folder.
func ReadStatus(folder string) (Status, error) {
	r, err := readRecord(folder)
	if err != nil {
		return Status{}, err
	}
	s := Status{record: r}
	t, err := readTable(filepath.Join(folder, metricsFile), math.MaxInt)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s.Logged, s.Time = t.step, time.Duration(t.seconds*float64(time.Second))
	return s, nil
}

// runFormat is the version of run.json that this program writes.
const runFormat = 1

// record is run.json.
type record struct {
	Format      int      `json:"format"`
	Kind        string   `json:"kind"`
	Version     string   `json:"version"`
	Device      string   `json:"device"`
	Engines     []string `json:"engines,omitempty"`
	Fingerprint string   `json:"fingerprint"`
	Finished    bool     `json:"finished"`
	Step        int      `json:"step"`
	BestStep    int      `json:"best_step"`
	Best        float64  `json:"best"`
	Ranks       int      `json:"ranks,omitempty"` // that train together; 0: one
	// StepFLOPs is the arithmetic of a step, as [voxsaw.Summary] counts it; 0: nobody counted
	StepFLOPs float64 `json:"flops_per_step,omitempty"`
	// RelativeTo is the absolute folder that relative paths in config.yaml begin in: the working
	// directory of the process that trained last. Empty where that was not known.
	RelativeTo string `json:"relative_to,omitempty"`
}

// FLOPs is the arithmetic of the steps that are saved; 0: nobody counted.
func (r record) FLOPs() float64 { return r.StepFLOPs * float64(r.Step) }

// An Identity is what a run is, beside its options.
type Identity struct {
	Kind        string   // what is trained: a pretext task, or checkpoint.Segmentation
	Settings    []byte   // of the task, YAML
	TrainedOn   []string // names of cases
	ValidatedOn []string // names of cases
	Unlabelled  []string // names of cases that are learnt from without labels, beside labelled ones
	Learnt      checkpoint.Learnt
	Init        string // checkpoint with the first weights; empty: they are random
	Fingerprint string // of the data set
}

// text is what a run is compared with when it is resumed, where its owner says nothing else.
func (id Identity) text() ([]byte, error) {
	data, err := config.Marshal(&struct {
		TrainedOn   []string `yaml:"trained_on,flow"`
		ValidatedOn []string `yaml:"validated_on,flow"`
		Unlabelled  []string `yaml:"without_labels,flow,omitempty"`
		Init        string   `yaml:"init"`
	}{checkpoint.ListForConfig(id.TrainedOn), checkpoint.ListForConfig(id.ValidatedOn),
		checkpoint.ListForConfig(id.Unlabelled), id.Init})
	return slices.Concat(id.Settings, data), err
}

// OpenRun opens the folder that the options of a run name, see [OpenFolder]; nil where they name
// none.
func OpenRun(dev device.Device, id Identity, o voxsaw.RunOptions) (*Folder, error) {
	if o.Folder == "" {
		return nil, nil
	}
	run := o.Settings
	if run == nil {
		var err error
		if run, err = id.text(); err != nil {
			return nil, err
		}
	}
	f, err := OpenFolder(o.Folder, checkpoint.Description{
		Kind: id.Kind, Settings: string(id.Settings), Run: string(run), TrainedOn: append([]string{}, id.TrainedOn...),
		Learnt:  id.Learnt,
		Version: voxsaw.Version(), Device: dev.Describe(), Fingerprint: id.Fingerprint,
	}, o.Mode, o.MayDiffer...)
	if err != nil {
		return nil, err
	}
	f.validatedOn, f.unlabelled = id.ValidatedOn, id.Unlabelled
	return f, nil
}

// OpenFolder looks at a folder and says whether a run may live there: a new one, or the one that it
// holds. To resume where there is no run yet starts one. A run can only be resumed with the
// configuration and the data that it was started with; otherwise a
// [voxsaw.ChangedError] says what differs. Noted, and allowed, are another version of the program
// or another device, with which the result may differ in the last bits, and other values of the
// settings named by mayDiffer (dotted keys), on which the result does not depend. A run may have
// more steps than it was started with.
func OpenFolder(path string, id checkpoint.Description, mode voxsaw.Mode, mayDiffer ...string) (
	*Folder, error) {
	f := &Folder{path: path, identity: id, mode: mode, unclaimed: true}
	old, err := f.look()
	switch {
	case err != nil:
		return nil, err
	case old == nil && mode == voxsaw.ModeResume:
		f.notes = append(f.notes, path+" holds no run: starting one")
	case mode == voxsaw.ModeResume:
		if err := f.checkSame(*old, mayDiffer); err != nil {
			return nil, err
		}
		f.unclaimed, f.finished, f.engines, f.ranks = false, old.Finished && f.steps == 0, old.Engines, old.Ranks
		f.reached, f.best = old.Step, old.BestStep
	}
	return f, nil
}

// CheckFolder refuses a folder that [OpenFolder] would refuse whatever the run is: before work that
// the run alone needs.
func CheckFolder(path string, mode voxsaw.Mode) error {
	_, err := (&Folder{path: path, mode: mode}).look()
	return err
}

// look gives the record of the run that a folder holds, nil where there is none or none that
// matters, and refuses a folder where no run of the mode may live.
func (f *Folder) look() (*record, error) {
	if info, err := os.Stat(f.path); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is a file, not a folder for a run", f.path)
	}
	old, err := readRecord(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, f.checkForeign()
	case err == nil && f.mode != voxsaw.ModeResume && !old.Finished && atomicfile.Held(f.path):
		return nil, old.running(f.path)
	case f.mode == voxsaw.ModeForce:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w: start over with --force, or choose another folder", err)
	case f.mode == voxsaw.ModeNew:
		return nil, old.taken(f.path)
	}
	return &old, nil
}

// among says how many ranks train together, which a run that is resumed may have had more or fewer
// of.
func (f *Folder) among(group Group) {
	if f == nil {
		return
	}
	if before, now := max(f.ranks, 1), max(group.Size, 1); !f.unclaimed && before != now {
		f.drifts = append(f.drifts,
			fmt.Sprintf("the run was trained by %s, now there are %d: results may differ in the last bits",
				numbers.Count(before, "rank"), now))
	}
	f.ranks = group.Size
}

// until says how many steps the run is to have. One that came to its end with fewer is not
// finished.
func (f *Folder) until(steps int) {
	if f != nil && f.reached < steps {
		f.finished = false
	}
}

// goOn writes down what a run that goes on is to be. One that has come to its end and is to have
// more steps is first said to be unfinished, and what its end scored goes: whenever the process
// ends, nobody takes the run of fewer steps for that of more.
func (f *Folder) goOn(steps int) error {
	old, err := readRecord(f.path)
	if err != nil {
		return err
	}
	if old.Finished && old.Step < steps {
		p := checkpoint.Progress{Step: old.Step, BestStep: old.BestStep, Best: old.Best}
		if err := f.record(p, false); err != nil {
			return err
		}
		if err := f.forgetScores(); err != nil {
			return err
		}
	}
	if !f.changed {
		return nil
	}
	return f.writeConfig()
}

// forgetScores removes what the end of the run scored, here or in a study. A table of scores that
// is not in the list of what this program has written is somebody else's.
func (f *Folder) forgetScores() error {
	names := []string{resultsFile}
	listed, err := atomicfile.Sums(f.path)
	if err != nil {
		return err
	}
	if listed[ScoresFile] != "" {
		names = append(names, ScoresFile)
	}
	return atomicfile.RemoveFrom(f.path, names...)
}

// hold makes the folder where there is none, takes it for this process, and cleans up what one that
// was killed has left.
func (f *Folder) hold() (release func(), err error) {
	return outdir.Hold(f.path, func() error { return atomicfile.Clean(f.path, nil) })
}

// tidy cleans up what a process has left that was killed after the last step, while it wrote the
// page on the run. The run is whole without it: where the folder is another process's, or cannot be
// written, it stays.
func (f *Folder) tidy() {
	if release, err := f.hold(); err == nil {
		release()
	}
}

// own lists the files of a run that are in its folder.
func own(folder string) ([]string, error) {
	lists, err := checkpoint.Lists(folder)
	return slices.Concat(owner.Files, lists, []string{outdir.File}), err
}

// unseal begins to write into the folder, and refuses one whose files are not what was written,
// unless they are to be replaced.
func (f *Folder) unseal() error {
	names, err := own(f.path)
	if err != nil {
		return err
	}
	if !f.unclaimed {
		if _, err := atomicfile.Compare(f.path, names...); err != nil {
			return err
		}
	}
	f.writing = true
	return atomicfile.Unseal(f.path, names...)
}

// seal keeps the digests of what was written.
func (f *Folder) seal() error {
	if !f.writing {
		return nil
	}
	f.writing = false
	names, err := own(f.path)
	if err != nil {
		return err
	}
	return atomicfile.Seal(f.path, names...)
}

// A TakenError says that a folder that a new run was to live in holds a run already.
type TakenError struct{ message string }

func (e *TakenError) Error() string { return e.message }

// Occupied reports whether an error says that another process has a run: that it holds the folder,
// or has begun a run there since this one looked.
func Occupied(err error) bool {
	var held *atomicfile.HeldError
	var taken *TakenError
	return errors.As(err, &held) || errors.As(err, &taken)
}

// taken says that a folder holds a run already.
func (r record) taken(path string) error {
	state := "unfinished"
	if r.Finished {
		state = "finished"
	}
	return &TakenError{fmt.Sprintf("%s already holds a run (%s, %s at step %d): continue it with --resume, start "+
		"over with --force, or choose another folder", path, r.Kind, state, r.Step)}
}

// running says that a folder holds a run that another process trains just now.
func (r record) running(path string) error {
	return &TakenError{fmt.Sprintf("%s is in use by another run (%s, now at step %d or later): "+
		"wait for it to end, or choose another folder", path, r.Kind, r.Step)}
}

// checkForeign refuses a folder without a run where somebody else's files have the names of a
// run's, unless the run is to be started there whatever there is.
func (f *Folder) checkForeign() error {
	if f.mode == voxsaw.ModeForce {
		return nil
	}
	err := owner.Check(f.path)
	if foreign := (*outdir.ForeignError)(nil); errors.As(err, &foreign) {
		return fmt.Errorf("%w; --force writes over it", err)
	}
	return err
}

// claim makes the folder that of a new run: it forgets an older one, if that was asked for, and
// says what this one is. The folder is held, and was perhaps taken by another run between
// OpenFolder and now.
func (f *Folder) claim() error {
	if f.mode != voxsaw.ModeForce {
		switch other, err := readRecord(f.path); {
		case err == nil:
			return other.taken(f.path)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if err := f.checkForeign(); err != nil {
			return err
		}
	}
	if err := owner.Mark(f.path); err != nil {
		return err
	}
	if err := f.unseal(); err != nil {
		return err
	}
	for _, name := range []string{runFile, metricsFile, validationFile, lastFile, bestFile, resultsFile,
		Sheet, Events, Planned} {
		if err := atomicfile.Remove(filepath.Join(f.path, name)); err != nil {
			return err
		}
	}
	for _, names := range [][]string{f.identity.TrainedOn, f.validatedOn, f.unlabelled} {
		if err := checkpoint.WriteList(f.path, names); err != nil {
			return err
		}
	}
	if err := f.writeConfig(); err != nil {
		return err
	}
	f.unclaimed = false
	return f.record(checkpoint.Progress{}, false)
}

// writeConfig writes config.yaml.
func (f *Folder) writeConfig() error {
	return atomicfile.WriteBytes(filepath.Join(f.path, configFile), []byte(f.identity.Run))
}

// ConfigOf is the file of the resolved configuration, of the run in a folder.
func ConfigOf(folder string) string { return filepath.Join(folder, configFile) }

// Begun says whether a run has begun in a folder, so far that its configuration is there.
func Begun(folder string) bool {
	if _, err := os.Stat(ConfigOf(folder)); err != nil {
		return false
	}
	_, err := os.Stat(filepath.Join(folder, runFile))
	return err == nil || (outdir.Owner{Name: owner.Name, Files: []string{configFile}}).Check(folder) == nil
}

// checkSame compares the run in the folder with the one that is to continue it.
func (f *Folder) checkSame(old record, mayDiffer []string) error {
	config, err := smallfile.Read(filepath.Join(f.path, configFile), smallfile.Settings)
	if err != nil {
		return fmt.Errorf("resuming: %w", err)
	}
	var differ []string
	if old.Kind != f.identity.Kind {
		differ = append(differ, fmt.Sprintf("kind: %s in the run, %s now", old.Kind, f.identity.Kind))
	}
	for _, difference := range Differences(string(config), f.identity.Run) {
		key, values, _ := strings.Cut(difference, ":")
		if before, ok := fewerSteps(values); ok && key == stepsKey {
			f.steps = before
		} else if slices.Contains(mayDiffer, key) {
			f.notes = append(f.notes, difference+": the run goes on with it")
		} else {
			differ = append(differ, difference)
			continue
		}
		f.changed = true
	}
	if old.Fingerprint != f.identity.Fingerprint {
		differ = append(differ,
			fmt.Sprintf("data set: fingerprint %s in the run, %s now: the data has changed since the run was started",
				old.Fingerprint, f.identity.Fingerprint))
	}
	if len(differ) > 0 {
		return &voxsaw.ChangedError{Path: f.path, Changes: differ}
	}
	if old.Version != f.identity.Version {
		f.drifts = append(f.drifts,
			fmt.Sprintf("the run was started with version %s, this is %s: results may differ (CHANGELOG.md)",
				old.Version, f.identity.Version))
	}
	if before, now := device.Computer(old.Device), device.Computer(f.identity.Device); device.Unlike(before, now) {
		f.drifts = append(f.drifts, fmt.Sprintf("WARNING: the run was computed by %s, and goes on with %s: results "+
			"differ in more than the last bits", before, now))
	} else if old.Device != f.identity.Device {
		f.drifts = append(f.drifts,
			fmt.Sprintf("the run was started on %s, this is %s: results may differ in the last bits", old.Device,
				f.identity.Device))
	}
	return nil
}

// stepsKey is the setting that says how many steps a training has.
const stepsKey = "train.steps"

// fewerSteps reads a difference of the steps; ok is false where the run had no fewer.
func fewerSteps(difference string) (before int, ok bool) {
	before, now, ok := twoSteps(difference)
	return before, ok && before < now
}

func twoSteps(difference string) (before, now int, ok bool) {
	n, err := fmt.Sscanf(difference, " %d in the run, %d now", &before, &now)
	return before, now, n == 2 && err == nil
}

// Shortened says whether all that has changed is that a run is to have fewer steps than it had.
func Shortened(changed *voxsaw.ChangedError) (before, now int, ok bool) {
	if len(changed.Changes) != 1 {
		return 0, 0, false
	}
	key, values, _ := strings.Cut(changed.Changes[0], ":")
	before, now, ok = twoSteps(values)
	return before, now, ok && key == stepsKey && now < before
}

// longer says what it means that a run has more steps than it was started with; "" if it has not.
// byShare is what, besides the learning rate, depends on the share of the steps that are done.
func (f *Folder) longer(o voxsaw.Training, byShare string) string {
	if f == nil || f.steps == 0 {
		return ""
	}
	text := fmt.Sprintf("the run goes on to step %d, and was to have %d", o.Steps, f.steps)
	before := o
	before.Steps = f.steps
	at := max(f.steps-1, 0)
	const others = "the result is not that of a run that was to have %d steps from the start"
	if before.Rate(at) != o.Rate(at) {
		return fmt.Sprintf("%s: its learning rate (schedule %s) falls with the share of the steps that are done, "+
			"and now falls to its end anew: at step %d it would have been %.3g and is %.3g; "+others,
			text, o.Schedule, f.steps, before.Rate(at), o.Rate(at), o.Steps)
	}
	if byShare != "" {
		return fmt.Sprintf("%s: %s, and so it has learnt in another way; "+others, text, byShare, o.Steps)
	}
	text += ": its learning rate does not depend on that, so that its weights are those of a run that was to have " +
		"so many"
	if f.best == f.steps && !due(o, o.ValidateEvery, f.best) {
		text += fmt.Sprintf("; the best so far are those of step %d, which that run would not have validated", f.best)
	}
	return text
}

// Differences lists for a person the settings in which two YAML texts differ, by their dotted keys.
func Differences(old, now string) []string {
	differences, err := config.Differences(old, now)
	if err != nil {
		return []string{"configuration: the text differs, and is not valid YAML"}
	}
	var out []string
	for _, d := range differences {
		switch {
		case d.New == "":
			out = append(out, fmt.Sprintf("%s: %s in the run, not set now", d.Key, d.Old))
		case d.Old == "":
			out = append(out, fmt.Sprintf("%s: not set in the run, %s now", d.Key, d.New))
		default:
			out = append(out, fmt.Sprintf("%s: %s in the run, %s now", d.Key, d.Old, d.New))
		}
	}
	return out
}

// Last is the path of the newest checkpoint of the run in a folder.
func Last(folder string) string { return filepath.Join(folder, lastFile) }

// Validations is the path of the validations of the run in a folder: a table in CSV, a line each.
func Validations(folder string) string { return filepath.Join(folder, validationFile) }

// Last is the path of the newest checkpoint.
func (f *Folder) Last() string { return Last(f.path) }

// Best is the path of the checkpoint with the highest score, of the run in a folder.
func Best(folder string) string { return filepath.Join(folder, bestFile) }

// CheckpointOf is the checkpoint of a run's folder that predicts: the best one, or the last where
// nothing was scored. A path that is no folder is the checkpoint itself. A folder without one is
// an [fs.ErrNotExist].
func CheckpointOf(path string) (string, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return path, nil // whoever reads it says what is wrong
	}
	for _, file := range []string{Best(path), Last(path)} {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	return "", fmt.Errorf("%s holds no checkpoint, %s or %s: %w", path, bestFile, lastFile, fs.ErrNotExist)
}

// Ensemble lists the checkpoints in a folder that is no run's: the networks that predict together.
func Ensemble(path string) (files []string, err error) {
	if Begun(path) {
		return nil, nil
	}
	names, err := os.ReadDir(path)
	for _, n := range names { // sorted
		if filepath.Ext(n.Name()) == filepath.Ext(lastFile) && !n.IsDir() && !strings.HasPrefix(n.Name(), ".") {
			files = append(files, filepath.Join(path, n.Name()))
		}
	}
	return files, err
}

// Results is the path of the scores that the run in a folder ended with. Whoever scores it writes
// the file; it goes when the run is started over.
func Results(folder string) string { return filepath.Join(folder, resultsFile) }

// Best is the path of the checkpoint with the highest score.
func (f *Folder) Best() string { return Best(f.path) }

// Started says whether there is a folder, and it holds a checkpoint to continue from.
func (f *Folder) Started() bool {
	if f == nil || f.unclaimed {
		return false
	}
	_, err := os.Stat(f.Last())
	return err == nil
}

// Finished says whether there is a folder, and its run had come to its end when it was opened.
func (f *Folder) Finished() bool { return f != nil && f.finished }

// Tell tells an observer, if there is one, what was noted when the folder was opened; of a run that
// had come to its end, nothing about bits that may differ.
func (f *Folder) Tell(o voxsaw.Observer) {
	if o == nil {
		return
	}
	for _, note := range f.notes {
		o.Note(note)
	}
	if f.finished {
		return
	}
	for _, note := range f.drifts {
		o.Note(note)
	}
}

// computeWith notes which algorithms were chosen for the convolutions that are compiled by now:
// they stand in the log, in the run's record and in its checkpoints. What is told besides is which
// choices were not followed, and what a resumed run was computed with before.
func (f *Folder) computeWith(dev device.Device) (notes []string) {
	teller, ok := dev.(device.EngineTeller)
	if !ok {
		return nil
	}
	engines, refused := teller.Engines()
	for _, e := range engines {
		notes = append(notes, "by measurement: "+e)
	}
	notes = append(notes, refused...)
	if f == nil {
		return notes
	}
	if f.Started() && !slices.Equal(f.engines, engines) {
		const others = "the run was computed with other algorithms, and results may differ in the last bits: "
		for _, e := range f.engines {
			if !slices.Contains(engines, e) {
				notes = append(notes, others+e+" before")
			}
		}
		for _, e := range engines {
			if !slices.Contains(f.engines, e) {
				notes = append(notes, others+e+" is new")
			}
		}
	}
	f.identity.Engines = engines
	return notes
}

// Finished says whether a folder holds a run that has come to its end.
func Finished(path string) bool {
	r, err := readRecord(path)
	return err == nil && r.Finished
}

// ComputerOf is the [device.Computer] that trained the run in a folder, at last; "" where none did.
func ComputerOf(path string) string {
	r, err := readRecord(path)
	if err != nil || r.Device == "" {
		return ""
	}
	return device.Computer(r.Device)
}

// Summary is that of a run that has come to its end.
func (f *Folder) Summary() (voxsaw.Summary, error) {
	r, err := readRecord(f.path)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	last, err := lastValidation(filepath.Join(f.path, validationFile))
	return voxsaw.Summary{Step: r.Step, BestStep: r.BestStep, Best: r.Best, Validation: last, FLOPs: r.FLOPs()}, err
}

// LastValidation is what the last validation of the run in a folder found, to seven digits; empty
// where nothing was validated.
func LastValidation(folder string) (voxsaw.Validation, error) {
	return lastValidation(filepath.Join(folder, validationFile))
}

// CountValidations is how often the run in a folder was validated.
func CountValidations(folder string) (int, error) {
	t, err := readTable(filepath.Join(folder, validationFile), math.MaxInt)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return t.rows, err
}

// lastValidation is the last line of a run's validation.csv, to seven digits; empty if there is
// none.
func lastValidation(path string) (voxsaw.Validation, error) {
	t, err := readTable(path, math.MaxInt)
	if errors.Is(err, fs.ErrNotExist) {
		return voxsaw.Validation{}, nil
	}
	if err != nil {
		return voxsaw.Validation{}, err
	}
	return t.validation(), nil
}

// description is what a checkpoint of the run says about itself.
func (f *Folder) description(p checkpoint.Progress) checkpoint.Description {
	d := f.identity
	d.Progress = p
	return d
}

func readRecord(path string) (record, error) {
	var r record
	name := filepath.Join(path, runFile)
	data, err := smallfile.Read(name, smallfile.List)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%s is damaged, or not of a run: %w", name, err)
	}
	if r.Kind == "" {
		return r, fmt.Errorf("%s is not of a run: it names no kind of training", name)
	}
	if r.Format != runFormat {
		return r, fmt.Errorf("%s has format %d, this program reads %d: use the program that wrote it (%s), or "+
			"another folder", name, r.Format, runFormat, r.Version)
	}
	r.RelativeTo = safetext.Unpack(r.RelativeTo)
	return r, nil
}

// record writes run.json.
func (f *Folder) record(p checkpoint.Progress, finished bool) error {
	id := f.identity
	working, err := os.Getwd()
	if err != nil {
		working = "" // relative paths are then looked for in the working directory alone
	}
	data, err := json.MarshalIndent(record{
		Format: runFormat, Kind: id.Kind, Version: id.Version, Device: id.Device, Engines: id.Engines,
		Fingerprint: id.Fingerprint, Finished: finished, Step: p.Step, BestStep: p.BestStep, Best: p.Best,
		Ranks: f.ranks, StepFLOPs: f.flops, RelativeTo: safetext.Pack(working),
	}, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(f.path, runFile), func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
}
