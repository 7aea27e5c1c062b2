package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/tensorboard"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume"
)

type reportOptions struct {
	Out string `yaml:"out" help:"file to write; empty: report.html in the run's folder"`
}

func newReport() *cobra.Command {
	o := &reportOptions{}
	return verb(
		"report RUN...",
		"Draw the curves of a training, or of several side by side",
		`Writes a page on trainings from what they have left in their folders: how far they have come,
the measures on held-out cases, curves, settings. voxsaw pretrain and finetune keep such a page up to
date while they train. voxsaw crossval and demo write pages of their own, and so does voxsaw evaluate
--out.`,
		`  voxsaw report runs/organs
  voxsaw report runs/scratch runs/puzzles --out compared.html`,
		cobra.MinimumNArgs(1),
		o,
		func(cmd *cobra.Command, args []string) error { return runReport(cmd, *o, args) },
	)
}

func runReport(cmd *cobra.Command, o reportOptions, folders []string) error {
	for n, path := range folders {
		if before := slices.IndexFunc(folders[:n], func(one string) bool { return isSame(one, path) }); before >= 0 {
			return usagef("%s and %s are the same run, which would be compared with itself", folders[before], path)
		}
		if stat, err := os.Stat(path); err == nil && !stat.IsDir() {
			return withHint(usagef("%s is a file, and a page is made of the folder of a run", path), "voxsaw report %s",
				hint.Word(filepath.Dir(path)))
		}
	}
	if o.Out == "" {
		if len(folders) > 1 {
			return withHint(usagef("nowhere to write a page on %d runs", len(folders)), "add --out FILE.html")
		}
		o.Out = filepath.Join(folders[0], train.Page)
	}
	if ext := strings.ToLower(filepath.Ext(o.Out)); ext != ".html" && ext != ".htm" {
		return usagef("%s: a page is HTML: choose a name that ends in .html", o.Out)
	}
	if err := spare(o.Out, aPage); err != nil {
		return err
	}
	if err := writeRunReport(o.Out, folders...); err != nil {
		return err
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), safetext.Text(o.Out))
	return err
}

// writeRunReport writes the page on the trainings in some folders.
func writeRunReport(out string, folders ...string) error {
	return renderRunReport(folders...).write(out, folders[0])
}

// runPage is a page on trainings that is not written yet.
type runPage struct {
	html   []byte
	failed error // of trainings that are not on it
	err    error // of all of it
}

// renderRunReport makes the page on the trainings in some folders.
func renderRunReport(folders ...string) runPage {
	var runs []report.Run
	var states []string
	var failed []error
	running := false
	names := namesApart(folders)
	for n, folder := range folders {
		run, state, finished, err := readRun(folder, names[n])
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if len(folders) > 1 {
			state = names[n] + ": " + state
		}
		runs, states = append(runs, run), append(states, state)
		running = running || !finished
	}
	if len(runs) == 0 {
		return runPage{err: errors.Join(failed...)}
	}
	if len(failed) > 0 { // the page is of the others, and says so
		states = append(states, fmt.Sprintf("without %d of the %d folders, which cannot be read", len(failed),
			len(folders)))
	}
	name := names[0]
	if len(folders) > 1 {
		name = fmt.Sprintf("%d trainings", len(folders))
	}
	page, err := report.Runs(name, strings.Join(states, "; "), runs)
	if err != nil {
		return runPage{err: err}
	}
	if running {
		page.Refresh = refreshEvery
	}
	var text bytes.Buffer
	err = page.HTML(&text)
	return runPage{text.Bytes(), errors.Join(failed...), err}
}

// write writes the page into the folder of its first training.
func (p runPage) write(out, folder string) error {
	if p.err != nil {
		return p.err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
		return err
	}
	err := atomicfile.WriteBytes(out, p.html)
	if err == nil && out == filepath.Join(folder, train.Page) { // a file of the run's
		err = atomicfile.SealFile(out)
	}
	if err != nil || p.failed == nil {
		return err
	}
	return fmt.Errorf("%w (the page on the others is %s)", p.failed, out)
}

// namesApart calls each folder by the last part of its path, or as many of them as no other has.
func namesApart(folders []string) (names []string) {
	parts := make([][]string, len(folders))
	for n, folder := range folders {
		full, err := filepath.Abs(folder)
		if err != nil {
			full = filepath.Clean(folder)
		}
		parts[n] = strings.Split(filepath.ToSlash(full), "/")
	}
	last := func(n, count int) string { return strings.Join(parts[n][max(0, len(parts[n])-count):], "/") }
	for n := range folders {
		count := 1
		for other := range folders {
			for other != n && count < len(parts[n]) && last(other, count) == last(n, count) {
				count++
			}
		}
		names = append(names, last(n, count))
	}
	return names
}

// readRun reads what the page says of the run in a folder, which it calls by a name.
func readRun(folder, name string) (run report.Run, state string, finished bool, err error) {
	if err := train.Compare(folder); err != nil {
		return run, "", false, err
	}
	status, err := train.ReadStatus(folder)
	if _, missing := os.Stat(folder); errors.Is(missing, fs.ErrNotExist) {
		return run, "", false, withHint(fmt.Errorf("%s: there is no such folder", folder),
			"name the folders that voxsaw pretrain and finetune have made")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return run, "", false, withHint(fmt.Errorf("%s holds no run", folder), "%s",
			hintOfRuns(folder, "name the folders that voxsaw pretrain and finetune have made"))
	}
	if err != nil {
		return run, "", false, err
	}
	settings, err := smallfile.Read(train.ConfigOf(folder), smallfile.Settings)
	if err != nil {
		return run, "", false, err
	}
	run, state = describeRun(folder, name, status, settings)
	if run.Training, err = run.Training.Read(); err != nil {
		return run, "", false, err
	}
	if run.Sheet, err = sheetIn(folder); err != nil {
		return run, "", false, err
	}
	return run, state, status.Finished, nil
}

// describeRun says what a run is and how far it has come.
func describeRun(folder, name string, s train.Status, settings []byte) (report.Run, string) {
	step := max(s.Step, s.Logged)
	state := fmt.Sprintf("%s, step %d", s.Kind, step)
	if steps := stepsOf(settings); steps > 0 {
		state += fmt.Sprintf(" of %d", steps)
	}
	if s.Finished {
		state += ", finished"
	} else {
		state += fmt.Sprintf(", not finished at %s", time.Now().Format("2006-01-02 15:04"))
	}
	facts := report.Facts{
		{Name: "What is learnt", Value: s.Kind}, {Name: "Steps done", Value: strconv.Itoa(step)},
		{Name: "Time of its steps", Value: terminal.Duration(s.Time)},
		{Name: "Program", Value: "voxsaw " + s.Version}, {Name: "Device", Value: s.Device},
		{Name: "Data", Value: report.Shortened(s.Fingerprint)},
	}
	if s.StepFLOPs > 0 {
		facts = append(facts, report.Fact{Name: "Arithmetic of its steps",
			Value: fmt.Sprintf("%.4g TFLOP", s.StepFLOPs*float64(step)/1e12)})
	}
	if s.BestStep > 0 {
		facts = append(facts, report.Fact{Name: "Best score", Value: fmt.Sprintf("%.4f at step %d", s.Best,
			s.BestStep)})
	}
	return report.Run{Training: report.Training{Name: name, Folder: folder}, Facts: facts, Settings: string(settings)},
		state
}

// stepsOf reads the number of steps from a resolved configuration; 0 if it does not say it.
func stepsOf(settings []byte) int {
	var values map[string]any
	if err := config.Unmarshal("configuration", settings, &values); err != nil {
		return 0
	}
	training, _ := values["train"].(map[string]any)
	n, _ := strconv.Atoi(fmt.Sprint(training["steps"]))
	return n
}

// How often the page of a training is written and looked at anew.
const (
	reportEvery  = 30 * time.Second
	refreshEvery = 60 // seconds
)

// reporter keeps the page of a training up to date.
type reporter struct {
	voxsaw.Observer
	folder   string
	last     time.Time
	making   chan runPage    // where the page that is being made will be; nil: none is
	failed   map[string]bool // what was said not to be written
	sheet    *heldOutSheet   // nil: none
	task     *taskPicture    // of a pretraining, for TensorBoard; nil: none
	forBoard bool            // write for TensorBoard
	planned  []byte          // for the file of the plan; nil: there is none
	board    *tensorboard.Board
	pictured int // the last step whose picture of the task TensorBoard has
}

func (r *reporter) Started(step, steps int) {
	r.Observer.Started(step, steps)
	if r.planned != nil && r.folder != "" {
		r.complain("the plan", atomicfile.WriteBytes(train.PlannedOf(r.folder), r.planned))
	}
	if r.forBoard && r.folder != "" {
		var err error
		r.board, err = tensorboard.Open(filepath.Join(r.folder, train.Events), step, reportEvery)
		r.complain("events for TensorBoard", err)
	}
}

// complain says what could not be shown of a run, once for each kind. The training goes on.
func (r *reporter) complain(what string, err error) {
	if err != nil && !r.failed[what] {
		if r.failed == nil {
			r.failed = map[string]bool{}
		}
		r.failed[what] = true
		r.Observer.Note(fmt.Sprintf("%s could not be written: %v: the training goes on", what, err))
	}
}

func (r *reporter) Stepped(p voxsaw.Progress) {
	r.Observer.Stepped(p)
	r.complain("events for TensorBoard", r.board.Step(p))
	r.written(false)
	if r.folder != "" && r.making == nil && time.Since(r.last) > reportEvery {
		r.last = time.Now()
		made := make(chan runPage, 1)
		r.making = made
		go func() { made <- renderRunReport(r.folder) }() // a long training's takes seconds
	}
}

// written writes the page that was made beside the steps, once it is, or waits until it is.
func (r *reporter) written(wait bool) {
	if r.making == nil || !wait && len(r.making) == 0 {
		return
	}
	page := <-r.making
	r.making = nil
	r.complain(thePage, page.write(filepath.Join(r.folder, train.Page), r.folder))
}

const thePage = "the page on the training"

func (r *reporter) Validating(step, done, of int) { passValidating(r.Observer, step, done, of) }

// CaseValidated implements [segment.CaseObserver].
func (r *reporter) CaseValidated(id string, dsc float64, prediction, reference *volume.LabelMap) {
	if r.sheet != nil && r.folder != "" {
		r.sheet.add(id, dsc, prediction, reference)
	}
}

func (r *reporter) Validated(step int, v voxsaw.Validation, best bool) {
	r.Observer.Validated(step, v, best)
	if r.folder == "" {
		return
	}
	var pictures *tensorboard.PNG
	if r.sheet != nil {
		var err error
		pictures, err = r.sheet.write(r.folder, step)
		r.complain("pictures of held-out cases", err)
	}
	r.complain("events for TensorBoard", r.board.Validated(step, v, pictures))
}

func (r *reporter) Saved(path string, step int) {
	r.Observer.Saved(path, step)
	r.complain("the picture of the task for TensorBoard", r.solved(step))
	r.complain("events for TensorBoard", r.board.Write())
	r.write()
}

// solved draws how a pretraining does its task after a step. It may be told of a step twice: as a
// checkpoint, and as the last one.
func (r *reporter) solved(step int) error {
	if r.board == nil || r.task == nil || r.pictured == step {
		return nil
	}
	r.pictured = step
	made, err := r.task.draw()
	if err != nil {
		return err
	}
	file, err := encodePNG(made.Image)
	if err == nil {
		r.board.Solved(step, file)
	}
	return err
}

// write writes the page, if there is a folder; a training does not end where that fails.
func (r *reporter) write() { r.complain(thePage, r.page()) }

func (r *reporter) page() error {
	if r.folder == "" {
		return nil
	}
	r.written(true) // an older one
	r.last = time.Now()
	return writeRunReport(filepath.Join(r.folder, train.Page), r.folder)
}

// finish writes the page on a training that has ended. Where that fails, the weights are safe.
func (r *reporter) finish() error {
	r.complain("events for TensorBoard", r.board.Close())
	if err := r.page(); err != nil {
		return withHint(fmt.Errorf("the page on the training: %w (its weights are safe in %s)", err,
			train.Last(r.folder)), "voxsaw report %s writes it again", hint.Word(r.folder))
	}
	return nil
}
