package auto

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// errCut is what a command ends with that is cut off.
var errCut = errors.New("cut off")

// verbs stand in for the commands: each leaves the files that the job looks at.
type verbs struct {
	t     *testing.T
	store string // prepared cases
	steps int    // that the plan has
	solve int    // steps of puzzles
	calls []string
	// cut ends a call early: the number of the call, and whether its work is done by then
	lock   sync.Mutex // of the clock
	cut    int
	whole  bool
	before func(args []string)
	// takes, where it is there, says how long a command takes by the clock, which goes on by that;
	// end is when a job is to have ended.
	takes func(args []string) time.Duration
	now   time.Time
	end   time.Time
	last  time.Duration // that the last command took
	share float64       // of a training's time is that of its steps; the rest is for validations
}

// clock makes the jobs' clock the one of the commands.
func (v *verbs) clock(hours float64) {
	now := train.Now
	v.t.Cleanup(func() { train.Now = now })
	v.now = time.Unix(1e9, 0)
	v.end = v.now.Add(time.Duration(hours * float64(time.Hour)))
	train.Now = func() time.Time {
		v.lock.Lock()
		defer v.lock.Unlock()
		return v.now
	}
}

// pass lets the time of a command go by. A training that would not end within the job's is stopped
// before that.
func (v *verbs) pass(ctx context.Context, args []string) error {
	takes := v.takes(args)
	v.last = takes
	until := v.now.Add(takes)
	late := until.After(v.end)
	if late {
		until = v.end.Add(-time.Second)
	}
	v.lock.Lock()
	v.now = until
	v.lock.Unlock()
	if !late || args[0] != "finetune" {
		return nil
	}
	select {
	case <-ctx.Done():
		v.begin(args)
		return &voxsaw.InterruptedError{Cause: context.Cause(ctx)}
	case <-time.After(time.Minute):
		v.t.Errorf("%v would take %v, more than is left, and is not stopped", args, takes)
		return nil
	}
}

func (v *verbs) run(ctx context.Context, args []string) error {
	v.calls = append(v.calls, strings.Join(args, " "))
	cut := len(v.calls) == v.cut
	if v.before != nil {
		v.before(args)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	if cut && !v.whole {
		v.begin(args) // a training has its folder then
		return errCut
	}
	if v.takes != nil {
		if err := v.pass(ctx, args); err != nil {
			return err
		}
	}
	v.work(args)
	if cut {
		return errCut
	}
	return nil
}

func flagOf(args []string, name string) string {
	if n := slices.Index(args, name); n >= 0 {
		return args[n+1]
	}
	return ""
}

func (v *verbs) write(path, text string) {
	v.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		v.t.Fatal(err)
	}
}

func (v *verbs) begin(args []string) {
	if out := flagOf(args, "--out"); args[0] == "finetune" || args[0] == "pretrain" {
		steps := flagOf(args, "--steps")
		if steps == "" {
			steps = "700" // as --hours has chosen them
			if !slices.Contains(args, "--hours") {
				steps = strconv.Itoa(v.steps)
			}
		}
		if slices.Contains(args, "--resume") {
			if _, err := os.Stat(train.ConfigOf(out)); err == nil {
				return
			}
		}
		v.write(train.ConfigOf(out), "crop: [8, 8, 8]\nvalidate_overlap: 0.25\nlabels: [2+3]\n"+
			"train: {schedule: step, steps: "+steps+", warmup: 30, step_size: 90, tooth: 9, "+
			"validate_every: 200, checkpoint_every: 100}\n")
	}
}

func (v *verbs) work(args []string) {
	out := flagOf(args, "--out")
	switch args[0] {
	case "prepare":
		os.RemoveAll(out)
		if err := os.CopyFS(out, os.DirFS(v.store)); err != nil {
			v.t.Fatal(err)
		}
	case "plan":
		if _, err := os.Stat(out); err == nil && !slices.Contains(args, "--force") {
			v.t.Errorf("%v: the plan is there already", args)
		}
		text := fmt.Sprintf("plan:\n  puzzle_seconds: 0.001\n"+
			"  decisions: [{what: pretraining, is: so, because: thus}]\n"+
			"finetune:\n  train: {steps: %d}\n", v.steps)
		if v.solve > 0 {
			text += fmt.Sprintf("pretrain:\n  train: {steps: %d}\n", v.solve)
		}
		v.write(out, text)
	case "pretrain", "finetune":
		v.begin(args)
		v.write(filepath.Join(out, "run.json"), `{"format": 1, "kind": "segmentation", "finished": true, "step": 700}`)
		v.write(filepath.Join(out, "metrics.csv"), fmt.Sprintf("step,seconds\n700,%g\n", v.share*v.last.Seconds()))
		v.write(train.Last(out), "weights of "+out)
		v.write(train.Validations(out), "step,score,dsc,dsc_liver,dsc_2\n700,0.5,0.5,0."+strconv.Itoa(len(out))+
			",0.5\n")
	case "next", "report":
		v.write(filepath.Join(out, "made"), "")
	}
}

// A checkpoint of very many cases has their names beside it, in the folder of the model too.
func TestNamesOfManyCasesAreCopied(t *testing.T) {
	store := cases(t, 6)
	t.Chdir(t.TempDir())
	const file = "names-0123456789abcdef.txt"
	v := &verbs{t: t, store: store, steps: planning.Most}
	v.before = func(args []string) {
		if args[0] == "finetune" {
			v.write(filepath.Join(flagOf(args, "--out"), file), "case00\n")
		}
	}
	r, err := v.job("job", quiet).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(r.Model, file)); err != nil || string(text) != "case00\n" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := os.ReadFile("job/commands.sh"); err != nil ||
		!strings.Contains(string(text), "\ncp job/fold1/"+file+" job/model/"+file+"\n") {
		t.Errorf("%v\n%s", err, text)
	}
	if members, err := train.Ensemble(r.Model); err != nil || len(members) != 5 {
		t.Errorf("%q, %v", members, err)
	}
}

// What cannot be written in the midst of a stage, for a minute, does not end the job.
func TestFailsToWriteForAWhile(t *testing.T) {
	store := cases(t, 6)
	t.Chdir(t.TempDir())
	defer func(usual time.Duration) { often = usual }(often)
	often = time.Millisecond
	v := &verbs{t: t, store: store, steps: planning.Most}
	v.before = func(args []string) {
		if args[0] != "finetune" {
			return
		}
		err := errors.ErrUnsupported
		for err != nil { // it is written again meanwhile, perhaps
			os.Remove("job/commands.sh")
			err = os.Mkdir("job/commands.sh", 0o755)
		}
		time.Sleep(50 * time.Millisecond)
		if err := os.Remove("job/commands.sh"); err != nil {
			t.Fatal(err)
		}
	}
	r, err := v.job("job", quiet).Run(t.Context())
	if err != nil || len(r.Scores) == 0 {
		t.Errorf("%v, %v", r, err)
	}
}

// cases is a folder of n prepared cases with labels.
func cases(t *testing.T, n int) string { return casesOf(t, n, n) }

// casesOf is the same, of so many patients; the labels of some are predicted.
func casesOf(t *testing.T, n, patients int, predicted ...int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cases")
	w, err := prepared.NewWriter(dir, volume.DefaultPreparation())
	for i := range n {
		scan, organs, failed := phantom.New(uint64(i), phantom.Options{Shape: [3]int{12, 12, 12}})
		if err = errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		if _, err = w.Add(prepared.Input{ID: fmt.Sprintf("case%02d", i), Image: scan, Labels: organs,
			Patient: fmt.Sprint("patient ", i%patients), Predicted: slices.Contains(predicted, i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// job is a job on the cases of a store.
func (v *verbs) job(out string, say func(string, ...any)) *Job {
	return &Job{Out: out, Scans: []string{"scans"}, Hours: 1, Command: v.run, Say: say}
}

// Wherever a job is cut off, it goes on with the command that was cut off, repeats none that had
// ended, and makes the same. Here trainings take no time, so the first one leaves the later ones
// as many steps as gain something.
func TestGoesOn(t *testing.T) {
	store := cases(t, 6)
	t.Chdir(t.TempDir())
	for _, test := range []struct {
		name         string
		steps, solve int
		want         []string // how the commands begin
	}{
		{"folds", 3000, 1200, []string{"inspect scans", "plan scans --to prepare --out job/prepare.yaml",
			"prepare scans --config job/prepare.yaml --out job/prepared", "plan job/prepared --hours 0.",
			"pretrain --config",
			"finetune --config job/plan.yaml --init job/pretrained --fold 1 " +
				"--folds 5 --fold-scheme shuffled --hours 0.",
			"finetune --config job/plan.yaml --init job/pretrained --fold 2 --folds 5 --fold-scheme shuffled " +
				"--steps 10000 --warmup 429",
			"finetune", "finetune", "finetune", "next job/prepared --drawn", "report job/pretrained job/fold1 "}},
		{"one and all", 100, 0, []string{"inspect scans", "plan scans", "prepare", "plan", "plan",
			"finetune --config job/plan.yaml --fold 1 --folds 5 --fold-scheme shuffled --hours ",
			"finetune --config job/plan.yaml --hold-out 0 --steps 10000 --warmup 429 --step-size 1286 " +
				"--validate-every 2857 --checkpoint-every 1429",
			"next", "report job/fold1 job/all"}},
		{"no need of more steps", planning.Most, 0, []string{"inspect", "plan", "prepare", "plan",
			"finetune --config job/plan.yaml --fold 1 --folds 5 --fold-scheme shuffled --out",
			"finetune", "finetune", "finetune", "finetune",
			"next", "report"}},
	} {
		for cut := range len(test.want) + 1 {
			if cut > 0 && test.steps == planning.Most {
				break // as the first one
			}
			for _, whole := range []bool{false, true} {
				if whole && (cut == 0 || test.solve == 0) {
					continue
				}
				v := &verbs{t: t, store: store, steps: test.steps, solve: test.solve, cut: cut, whole: whole}
				if err := os.RemoveAll("job"); err != nil {
					t.Fatal(err)
				}
				say := func(string, ...any) {}
				r, err := v.job("job", say).Run(t.Context())
				if (cut > 0) != errors.Is(err, errCut) {
					t.Fatalf("%s, cut %d: %v", test.name, cut, err)
				}
				if err != nil {
					if r, err = v.job("job", say).Run(t.Context()); err != nil {
						t.Fatalf("%s, cut %d: %v", test.name, cut, err)
					}
				}
				done := slices.Clone(v.calls)
				if cut > 0 {
					if again := strings.Fields(done[cut]); again[0] != strings.Fields(done[cut-1])[0] {
						t.Errorf("%s, cut %d: %s goes on with %s", test.name, cut, done[cut-1], done[cut])
					}
					done = slices.Delete(done, cut-1, cut)
				}
				if len(done) != len(test.want) {
					t.Fatalf("%s, cut %d: %q", test.name, cut, v.calls)
				}
				for n, want := range test.want {
					if !strings.HasPrefix(done[n], want) {
						t.Errorf("%s, cut %d: %q, want %q", test.name, cut, done[n], want)
					}
				}
				members, err := train.Ensemble(r.Model)
				if trainings := strings.Count(strings.Join(done, "\n")+"\n", "finetune"); err != nil ||
					len(members) != trainings {
					t.Errorf("%s, cut %d: %d members of %d: %v", test.name, cut, len(members), trainings, err)
				}
				if len(r.Scores) != 3 || r.Scores[0].DSC != 0.5 || r.Scores[1].Structure != "liver" ||
					r.Scores[2].Structure != "label 2" {
					t.Errorf("%s, cut %d: %v", test.name, cut, r.Scores)
				}
				// What is done is not done again.
				calls := len(v.calls)
				if _, err := v.job("job", say).Run(t.Context()); err != nil || len(v.calls) != calls {
					t.Errorf("%s, cut %d: again: %v, %q", test.name, cut, err, v.calls[calls:])
				}
			}
		}
	}
}

// Who starts a job in the folder of one that runs is told of that folder.
func TestOneJobAtATime(t *testing.T) {
	v := &verbs{t: t, store: cases(t, 6), steps: planning.Most}
	t.Chdir(t.TempDir())
	var second error
	v.before = func([]string) {
		if second == nil {
			_, second = (&verbs{t: t}).job("job", func(string, ...any) {}).Run(t.Context())
		}
	}
	if _, err := v.job("job", func(string, ...any) {}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if second == nil || !strings.HasPrefix(second.Error(), "job is in use by another run") {
		t.Errorf("the second job: %v", second)
	}
}

// A job on other prepared cases than it was begun with is refused, before a command and after the
// last one, and goes on once the earlier ones are back.
func TestChangedCases(t *testing.T) {
	first, other := cases(t, 6), cases(t, 7)
	t.Chdir(t.TempDir())
	is := func(store string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll("store"), os.CopyFS("store", os.DirFS(store))); err != nil {
			t.Fatal(err)
		}
	}
	v := &verbs{t: t, steps: 3000, cut: 3}
	job := func() *Job {
		j := v.job("job", quiet)
		j.Scans = []string{"store"}
		return j
	}
	is(first)
	if _, err := job().Run(t.Context()); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	for range 2 { // in the middle, and at the end
		calls := len(v.calls)
		is(other)
		if _, err := job().Run(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "the cases in store have changed") {
			t.Errorf("other cases: %v", err)
		}
		if len(v.calls) != calls {
			t.Errorf("other cases: %q", v.calls[calls:])
		}
		is(first)
		if _, err := job().Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A job goes on with scans as it prepared them, and says which have come and gone since. One that
// holds other data now is refused.
func TestChangedScans(t *testing.T) {
	t.Chdir(t.TempDir())
	v := &verbs{t: t, store: "store", steps: 100}
	v.write("scans/a.nii", "a")
	v.write("scans/b.nii", "b")
	w, err := prepared.NewWriter("store", volume.DefaultPreparation())
	for _, id := range []string{"a", "b"} {
		scan, organs, failed := phantom.New(1, phantom.Options{Shape: [3]int{12, 12, 12}})
		source, missing := prepared.NewSource("scans/" + id + ".nii")
		if err = errors.Join(err, failed, missing); err != nil {
			t.Fatal(err)
		}
		if _, err = w.Add(prepared.Input{ID: id, Image: scan, Labels: organs,
			Sources: []prepared.Source{source}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	run := func() (warning string, err error) {
		_, err = v.job("scans/job", func(format string, args ...any) {
			if text := fmt.Sprintf(format, args...); strings.HasPrefix(text, "WARNING") {
				warning += text
			}
		}).Run(t.Context())
		return warning, err
	}
	for range 2 {
		if said, err := run(); said != "" || err != nil {
			t.Fatal(said, err)
		}
	}
	v.write("scans/c.nii", "c")
	v.write("scans/d.nii", "d")
	if err := os.Remove("scans/b.nii"); err != nil {
		t.Fatal(err)
	}
	const want = "(no longer there: scans/b.nii; 3 files where there were 2)"
	if said, err := run(); !strings.Contains(said, want) || err != nil {
		t.Error(said, err)
	}
	v.write("scans/a.nii", "corrected")
	if _, err := run(); err == nil || !strings.Contains(err.Error(), "scans/a.nii changed") {
		t.Errorf("a scan that has changed: %v", err)
	}
}

// Ctrl-C says what can be used, at every stage.
func TestStopped(t *testing.T) {
	store := cases(t, 6)
	t.Chdir(t.TempDir())
	for at, want := range map[string]string{
		"inspect":      "voxsaw auto --resume --out job goes on from there",
		"prepare.yaml": "voxsaw auto --resume --out job goes on from there",
		"plan.yaml":    "the prepared cases are in job/prepared; voxsaw auto --resume",
		"fold1":        "an encoder is there to start from: voxsaw finetune --init job/pretrained; ",
		"fold2":        "1 network of 5 predict: voxsaw predict SCANS --checkpoint job/model; ",
		"report":       "5 networks of 5 predict: voxsaw predict SCANS --checkpoint job/model; ",
	} {
		if err := os.RemoveAll("job"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		v := &verbs{t: t, store: store, steps: 3000, solve: 2000}
		v.before = func(args []string) {
			if args[0] == at || filepath.Base(flagOf(args, "--out")) == at {
				cancel()
			}
		}
		_, err := v.job("job", func(string, ...any) {}).Run(ctx)
		var hinted interface{ Advice() string }
		if !errors.Is(err, context.Canceled) || !errors.As(err, &hinted) || !strings.HasPrefix(hinted.Advice(), want) {
			t.Errorf("%s: %v, hint %v", at, err, hinted)
		}
	}
}

// A job that is late trains less: the time is kept.
func TestLate(t *testing.T) {
	store := cases(t, 6)
	t.Chdir(t.TempDir())
	v := &verbs{t: t, store: store, steps: 3000}
	j := v.job("job", func(string, ...any) {})
	v.takes = func(args []string) time.Duration {
		if flagOf(args, "--fold") == "1" {
			return 30 * time.Minute // of an hour, 10.8 are its part
		}
		steps, _ := strconv.Atoi(flagOf(args, "--steps"))
		return time.Duration(steps) * 30 * time.Minute / 700
	}
	v.clock(1)
	r, err := j.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := 0
	for _, call := range v.calls {
		args := strings.Fields(call)
		if fold := flagOf(args, "--fold"); fold == "" || fold == "1" {
			continue
		}
		late++
		if steps, err := strconv.Atoi(flagOf(args, "--steps")); err != nil || steps < 350 || steps >= 700 {
			t.Errorf("a fold that has less time than the first one is given %d steps of 700", steps)
		}
	}
	if late > 2 {
		t.Errorf("%d further folds fit into half of the time that one takes", late)
	}
	if r.Folds != 1+late {
		t.Errorf("the scores are of %d folds, and %d were trained", r.Folds, 1+late)
	}

	// With more time the others are trained, too, and what is made of all is made again.
	v.calls, v.takes = nil, nil
	j = v.job("job", func(string, ...any) {})
	j.Hours = 10
	if r, err = j.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(v.calls) != 4-late+2 || r.Folds != 5 || !strings.HasPrefix(v.calls[len(v.calls)-1], "report") {
		t.Errorf("with ten hours: %q", v.calls)
	}
}

// Another job's folder, and a folder of other files, are left alone.
func TestOtherFolders(t *testing.T) {
	store := cases(t, 6)
	t.Chdir(t.TempDir())
	v := &verbs{t: t, store: store, steps: 3000}
	say := func(string, ...any) {}
	v.write("full/notes.txt", "mine")
	_, err := v.job("full", say).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "holds other files") {
		t.Errorf("a folder of other files: %v", err)
	}
	if _, err := v.job("job", say).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	j := v.job("job", say)
	j.Scans = []string{"others"}
	if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "is of other scans: scans") {
		t.Errorf("other scans: %v", err)
	}
}

func quiet(string, ...any) {}

// cutShort begins a job in the current folder, of the scans in it, which ends at its sixth command.
func cutShort(t *testing.T, store string) *verbs {
	t.Helper()
	v := &verbs{t: t, store: store, steps: 3000, cut: 6}
	v.write("scans/scan", "")
	if _, err := v.job("job", quiet).Run(t.Context()); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	return v
}

// A folder that was moved with the scans and the job in it goes on where it is now, and is known
// there from elsewhere.
func TestFolderMovedAsAWhole(t *testing.T) {
	store, root := cases(t, 6), t.TempDir()
	began, now := filepath.Join(root, "began"), filepath.Join(root, "now")
	if err := os.Mkdir(began, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(began)
	v := cutShort(t, store)
	t.Chdir(root)
	if err := os.Rename(began, now); err != nil {
		t.Fatal(err)
	}
	t.Chdir(now)
	before, err := Begun("job")
	if err != nil || !before.Has([]string{"scans"}) {
		t.Fatalf("%+v, %v", before, err)
	}
	if moved, err := before.Return("job"); moved || err != nil {
		t.Fatalf("moved as a whole: %v, %v", moved, err)
	}
	if _, err := v.job("job", quiet).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	if before, err = Begun(filepath.Join(now, "job")); err != nil || !sameFolder(before.From, now) {
		t.Errorf("afterwards it is from %s, want %s: %v", before.From, now, err)
	}
}

// A job goes on from another folder: its paths are from where it began. A folder that was moved is
// refused.
func TestFromAnotherFolder(t *testing.T) {
	store, began, elsewhere := cases(t, 6), t.TempDir(), t.TempDir()
	t.Chdir(began)
	v := cutShort(t, store)
	t.Chdir(elsewhere)
	out := filepath.Join(began, "job")
	before, err := Begun(out)
	if err != nil || before.Out != "job" || before.Hours != 1 {
		t.Fatalf("%+v, %v", before, err)
	}
	if !before.Has([]string{filepath.Join(began, "scans")}) || before.Has([]string{"scans"}) || before.Has(nil) {
		t.Error("the scans of another folder are the job's, or its own are not")
	}
	other := filepath.Join(elsewhere, "moved")
	if err := os.Rename(out, other); err != nil {
		t.Fatal(err)
	}
	if _, err := before.Return(other); err == nil || !strings.Contains(err.Error(), "was begun as "+out) {
		t.Errorf("a moved folder: %v", err)
	}
	if err := os.Rename(other, out); err != nil {
		t.Fatal(err)
	}
	moved, err := before.Return(out)
	if here, _ := os.Getwd(); err != nil || !moved || !sameFolder(here, began) {
		t.Fatalf("%v, %v, in %s", moved, err, here)
	}
	if moved, err := before.Return("job"); err != nil || moved {
		t.Errorf("again: %v, %v", moved, err)
	}
	if _, err := v.job(before.Out, quiet).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, call := range v.calls {
		if strings.Contains(call, began) {
			t.Errorf("%s: another command than without the way round", call)
		}
	}
}

// A job that goes on has the labels and the machine that it was begun with; other labels are
// refused.
func TestGoesOnAsItBegan(t *testing.T) {
	store := cases(t, 6)
	t.Chdir(t.TempDir())
	say := func(string, ...any) {}
	v := &verbs{t: t, store: store, steps: 3000, cut: 6} // in fold 2
	j := v.job("job", say)
	j.Labels, j.Modality = []string{"--labels", "1"}, "MR"
	j.Machine = []string{"--device=cuda", "--memory=2GiB"}
	if _, err := j.Run(t.Context()); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	for _, call := range v.calls[:3] { // these compute nothing
		if !strings.Contains(call, "--memory=2GiB") || strings.Contains(call, "--device") {
			t.Errorf("%q", call)
		}
	}
	if plan := v.calls[3]; !strings.HasPrefix(plan, "plan") || !strings.Contains(plan, "--learn 1 ") {
		t.Errorf("%q", plan)
	}
	j = v.job("job", say)
	j.Labels = []string{"--labels", "2"}
	if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "other labels: --labels 1") {
		t.Errorf("other labels: %v", err)
	}
	// of a job that was killed while it wrote
	half := []string{"job/auto/.state.json.7.tmp", "job/.commands.sh.8.tmp"}
	for _, name := range append(half, "job/.notes.9.tmp") {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j = v.job("job", say)
	j.Modality = "CT"
	if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `begun with --modality MR`) {
		t.Errorf("another modality: %v", err)
	}
	for _, name := range half {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
	if _, err := os.Lstat("job/.notes.9.tmp"); err != nil {
		t.Errorf("another's file: %v", err)
	}
	text, err := os.ReadFile("job/commands.sh")
	if err != nil || strings.Count(string(text), "--to prepare --out job/prepare.yaml --modality MR") != 1 {
		t.Errorf("the modality is not said where scans are looked at: %v\n%s", err, text)
	}
	v.calls, v.cut = nil, 0
	j = v.job("job", say)
	j.Machine = []string{"--memory=1GiB", "--threads=4"}
	if _, err := j.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	// of the flags about the machine those are others that somebody has named; the first training
	// had another pace than the second one has
	const now = "--device=cuda --memory=1GiB --threads=4 "
	for _, call := range v.calls {
		fold := flagOf(strings.Fields(call), "--fold")
		if strings.HasPrefix(call, "finetune") && !strings.Contains(call, "--labels 1") ||
			!strings.HasPrefix(call, "report") && !strings.Contains(call, now) ||
			strings.Contains(call, "--hours ") != (fold == "2") {
			t.Errorf("fold %q: %q", fold, call)
		}
	}
	text, err = os.ReadFile("job/commands.sh")
	if n := strings.Count(string(text), "--labels 1 "); err != nil || n != 5 {
		t.Errorf("%d of 5 fine-tunings have the labels: %v\n%s", n, err, text)
	}
}

// Scans of one patient are in one fold: there are no more folds than patients.
func TestFoldsOfPatients(t *testing.T) {
	for patients, want := range map[int]string{3: "--fold 3 --folds 3 --fold-scheme shuffled", 1: "--hold-out 0"} {
		store := casesOf(t, 6, patients)
		t.Chdir(t.TempDir())
		v := &verbs{t: t, store: store, steps: 3000}
		if _, err := v.job("job", func(string, ...any) {}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(strings.Join(v.calls, "\n"), "finetune "); n != patients ||
			!strings.Contains(strings.Join(v.calls, "\n"), want) {
			t.Errorf("%d patients: %d fine-tunings: %q", patients, n, v.calls)
		}
	}
}

// Patients with predicted labels alone are held out in no fold.
func TestFoldsWithoutPredictedLabels(t *testing.T) {
	for _, c := range []struct {
		predicted []int
		folds     int
		want      string
	}{
		{[]int{0, 1}, 2, "--fold 2 --folds 2"}, {[]int{1, 2, 3}, 1, "--hold-out 0"},
		{[]int{0, 1, 2, 3}, 1, "--hold-out 0"},
	} {
		store := casesOf(t, 4, 4, c.predicted...)
		t.Chdir(t.TempDir())
		v := &verbs{t: t, store: store, steps: 3000}
		if _, err := v.job("job", func(string, ...any) {}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if calls := strings.Join(v.calls, "\n"); strings.Count(calls, "finetune ") != c.folds ||
			!strings.Contains(calls, c.want) {
			t.Errorf("predicted %v: not %d trainings with %s: %q", c.predicted, c.folds, c.want, v.calls)
		}
	}
}

// A job that has begun to prepare goes on with the command of then, and one that has chosen how to
// prepare with what it chose, whatever the scans are like now.
func TestPreparesAsItBegan(t *testing.T) {
	store := cases(t, 6)
	const earlier = "prepare scans --spacing 1x1x2 --out job/prepared"
	state := func(stages string) string {
		return `{"version": 1, "scans": ["scans"], "hours": 1, "stages": [{"name": "inspect", "command": ["inspect", ` +
			`"scans"], "seconds": 1, "done": true}` + stages + `]}`
	}
	for name, test := range map[string]struct{ stages, want string }{
		"in the middle": {`, {"name": "prepare", "command": ["` + strings.Join(strings.Fields(earlier), `", "`) +
			`"], "seconds": 5, "done": false}`, earlier},
		"before that": {"", "plan scans --to prepare --out job/prepare.yaml"},
		"by now": {`, {"name": "fingerprint", "command": ["plan"], "seconds": 1, "done": true}`,
			"prepare scans --config job/prepare.yaml --out job/prepared --least-share 0.5"},
	} {
		t.Chdir(t.TempDir())
		v := &verbs{t: t, store: store, steps: 3000}
		v.write("job/auto/state.json", state(test.stages))
		if _, err := v.job("job", quiet).Run(t.Context()); err != nil || v.calls[0] != test.want {
			t.Errorf("%s: %v, %q, want %q", name, err, v.calls, test.want)
		}
	}
}

// Where the time is used up nothing begins, with a note.
func TestNoTimeIsLeft(t *testing.T) {
	store := cases(t, 6)
	t.Chdir(t.TempDir())
	v := &verbs{t: t, store: store, steps: 3000}
	said := ""
	j := v.job("job", func(format string, args ...any) { said += fmt.Sprintf(format+"\n", args...) })
	j.Hours = 1e-9
	_, err := j.Run(t.Context())
	var hinted interface{ Advice() string }
	if err == nil || !strings.Contains(err.Error(), "before plan: the 1e-09 h of the job are used up") ||
		!errors.As(err, &hinted) || !strings.Contains(hinted.Advice(), "--hours MORE") {
		t.Errorf("%v, hint %v", err, hinted)
	}
	if !strings.Contains(said, "the prepared cases are in job/prepared\n") ||
		strings.Contains(said, "goes on from there") {
		t.Errorf("that cannot be, without more hours:\n%s", said)
	}
	if len(v.calls) != 3 {
		t.Errorf("%q", v.calls)
	}
}

// The first plan decides on the folds, also where a job is cut off when the second one is there,
// which has more steps.
func TestSecondPlanDecidesNothing(t *testing.T) {
	store := cases(t, 6)
	t.Chdir(t.TempDir())
	v := &verbs{t: t, store: store, steps: 100, cut: 5, whole: true}
	v.before = func(args []string) {
		if args[0] == "plan" && slices.Contains(args, "--force") {
			v.steps = 3700
		}
	}
	if _, err := v.job("job", func(string, ...any) {}).Run(t.Context()); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	if _, err := v.job("job", func(string, ...any) {}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(strings.Join(v.calls, "\n"), "finetune "); n != 2 {
		t.Errorf("%d fine-tunings: %q", n, v.calls)
	}
}

// The folder around a job is none.
func TestFolderOfJobs(t *testing.T) {
	store := cases(t, 6)
	t.Chdir(t.TempDir())
	v := &verbs{t: t, store: store, steps: 3000}
	say := func(string, ...any) {}
	if _, err := v.job("runs/auto", say).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := v.job("runs", say).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "holds other files") {
		t.Errorf("the folder around a job: %v", err)
	}
}

// A job that could train little says so at its end, and in which time it could train enough.
func TestFirstTry(t *testing.T) {
	store := cases(t, 6)
	t.Chdir(t.TempDir())
	for _, steps := range []int{100, planning.Most} {
		v := &verbs{t: t, store: store, steps: steps}
		var said []string
		j := v.job(fmt.Sprint("job", steps), func(f string, a ...any) { said = append(said, fmt.Sprintf(f, a...)) })
		if _, err := j.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		const want = "2 networks, of 700 steps or more: a first try, for most is learnt after 2500 steps, for which " +
			"there is time in about 3.6 h: voxsaw auto scans --out NEW --hours 3.6"
		if got := said[len(said)-1]; steps == 100 && got != want ||
			steps > 100 && !strings.HasSuffix(got, "of 1 h 00 min were used") {
			t.Errorf("%d steps: %q", steps, got)
		}
	}
}

// A job takes no longer than its time, whatever its machine does, and most of it where that is
// steady: what the first training does not use of its part the later ones have. Times are by a
// clock that goes on by what each command takes.
func TestTheTimeIsUsed(t *testing.T) {
	store := cases(t, 6)
	for name, test := range map[string]struct {
		steps  int
		begins float64       // part of its time that the first training takes
		drift  float64       // how many times slower later ones are
		least  time.Duration // of the hour that is used
		most   int           // networks that are finished
		share  float64       // of the time is that of steps, in a training that holds cases out
	}{
		"as planned":              {3000, 1, 1, 56 * time.Minute, 5, 1},
		"faster than planned":     {3000, 0.83, 1, 56 * time.Minute, 5, 1},
		"two, faster":             {100, 0.83, 1, 56 * time.Minute, 2, 1},
		"two, the second slower":  {100, 0.83, 1.02, 56 * time.Minute, 2, 1},
		"two, the second crawls":  {100, 0.83, 3, 56 * time.Minute, 1, 1},
		"slower than planned":     {3000, 1.3, 1, 54 * time.Minute, 5, 1},
		"slower and slower":       {3000, 1.3, 1.5, 50 * time.Minute, 4, 1},
		"the first takes it all":  {3000, 9, 1, 56 * time.Minute, 0, 1},
		"no steps to be had more": {planning.Most, 0.1, 1, 0, 5, 1},
		"two, much validation":    {100, 0.9, 1, 56 * time.Minute, 2, 0.7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			v := &verbs{t: t, store: store, steps: test.steps, share: test.share}
			each := 0.0
			v.takes = func(args []string) time.Duration {
				switch args[0] {
				case "prepare", "plan", "next", "report":
					return 15 * time.Second
				case "finetune":
				default:
					return 0
				}
				steps, _ := strconv.ParseFloat(flagOf(args, "--steps"), 64)
				if steps == 0 {
					hours, _ := strconv.ParseFloat(flagOf(args, "--hours"), 64)
					if hours == 0 {
						hours = 0.18
					}
					steps = 700
					each = hours * test.begins / steps
					return time.Duration(steps * each * float64(time.Hour))
				}
				all := steps * each * test.drift * float64(time.Hour)
				if flagOf(args, "--hold-out") != "" { // it has no validations
					all *= test.share
				}
				return time.Duration(all)
			}
			v.clock(1)
			var said []string
			say := func(f string, a ...any) { said = append(said, fmt.Sprintf(f, a...)) }
			_, err := v.job("job", say).Run(t.Context())
			if (err != nil) != (test.most == 0) {
				t.Fatal(err)
			}
			if err != nil && !strings.Contains(err.Error(), "fold1: the 1 h of the job are used up") {
				t.Error(err)
			}
			used := v.now.Sub(time.Unix(1e9, 0))
			if used > time.Hour || used < test.least {
				t.Errorf("%v of an hour are used", used)
			}
			members, _ := train.Ensemble("job/model")
			if len(members) != test.most {
				t.Errorf("%d networks: %q", len(members), v.calls)
			}
			t.Logf("%v used, %d networks\n%s", used, len(members), strings.Join(said, "\n"))
			if test.most == 1 { // the other one goes on when it has time
				calls := len(v.calls)
				if _, err := v.job("job", quiet).Run(t.Context()); err != nil || len(v.calls) != calls {
					t.Errorf("again: %v, %q", err, v.calls[calls:])
				}
				v.takes = nil
				j := v.job("job", quiet)
				j.Hours = 3
				if _, err := j.Run(t.Context()); err != nil || len(v.calls) != calls+3 ||
					!strings.HasSuffix(v.calls[calls], "--resume") {
					t.Errorf("with three hours: %v, %q", err, v.calls[calls:])
				}
			}
		})
	}
}

// A training that was stopped before it chose its steps has the time that there is when it goes on.
func TestStoppedBeforeTheSteps(t *testing.T) {
	t.Chdir(t.TempDir())
	v := &verbs{t: t, store: cases(t, 6), steps: 3000}
	ctx, cancel := context.WithCancel(t.Context())
	v.before = func(args []string) {
		if args[0] == "finetune" {
			cancel()
		}
	}
	if _, err := v.job("job", quiet).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	first := len(v.calls) - 1
	v.before = nil
	j := v.job("job", quiet)
	j.Hours = 10
	if _, err := j.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	was, _ := strconv.ParseFloat(flagOf(strings.Fields(v.calls[first]), "--hours"), 64)
	is, _ := strconv.ParseFloat(flagOf(strings.Fields(v.calls[first+1]), "--hours"), 64)
	if was <= 0 || is < 9*was {
		t.Errorf("%q goes on as %q", v.calls[first], v.calls[first+1])
	}
}

// The quality list takes the time of its windows, each as long as one of a validation. 20 voxels
// are 3 windows of 8 that share a quarter, and 4 that share half.
func TestTimeOfTheList(t *testing.T) {
	t.Chdir(t.TempDir())
	v := &verbs{t: t, last: 100 * time.Second, share: 0.46}
	v.work([]string{"finetune", "--out", "job/fold1"})
	j := v.job("job", quiet)
	j.state.Folds = &Folds{Of: 2, One: true, All: true}
	j.state.Stages = []*record{{Name: "fold1", Seconds: 100}} // 54 of 2 cases of 27 windows
	j.labelled, j.bare = make([][3]int, 4), make([][3]int, 12)
	for _, all := range [][][3]int{j.labelled, j.bare} {
		for n := range all {
			all[n] = [3]int{20, 20, 20}
		}
	}
	for networks, want := range map[int]int{
		1: 64 * (12 + 2 + 10 + 10), // the two held-out cases among them
		2: 64 * 2 * (2*12 + 10 + 10),
	} {
		if got, err := j.listTakes(networks); err != nil || got.Round(time.Second) != time.Duration(want)*time.Second {
			t.Errorf("%d networks: %v, want %d s: %v", networks, got, want, err)
		}
	}
	// A training that had its steps timed has spent time on that, too: the next one tells better.
	v.last, v.share = 73*time.Second, 46./73
	v.work([]string{"finetune", "--out", "job/fold2"})
	j.state.Folds = &Folds{Of: 2}
	j.state.Stages = append(j.state.Stages, &record{Name: "fold2", Seconds: 73, Done: true})
	if got, err := j.listTakes(1); err != nil || got.Round(time.Second) != 32*34*time.Second {
		t.Errorf("by the second network: %v, %v", got, err)
	}
	j.bare = nil
	if got, err := j.listTakes(1); err != nil || got != 0 {
		t.Errorf("no scans: %v, %v", got, err)
	}
}

// Where the list by all networks does not fit into what is left there are fewer, and the job ends
// in its time.
func TestListInTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cases")
	w, err := prepared.NewWriter(dir, volume.DefaultPreparation())
	for i := range 14 {
		scan, organs, failed := phantom.New(uint64(i), phantom.Options{Shape: [3]int{20, 20, 20}})
		if err = errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		if i >= 4 {
			organs = nil
		}
		if _, err = w.Add(prepared.Input{ID: fmt.Sprintf("case%02d", i), Image: scan, Labels: organs}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	for window, want := range map[time.Duration]string{ // that is validated
		10 * time.Millisecond: "next job/prepared --checkpoint job/model --out",
		80 * time.Millisecond: "next job/prepared --checkpoint job/model/fold1.safetensors --out",
		time.Second:           "next job/prepared --drawn --out",
	} {
		t.Chdir(t.TempDir())
		v := &verbs{t: t, store: dir, steps: 100}
		v.takes = func(args []string) time.Duration {
			networks := 0
			switch {
			case args[0] == "finetune":
				training, validation := 27*time.Minute, 54*window // 1 case, twice
				if flagOf(args, "--hold-out") == "" {
					training, validation = 26*time.Minute, 27*window
				}
				v.share = training.Seconds() / (training + validation).Seconds()
				return training + validation
			case args[0] == "next" && strings.Contains(strings.Join(args, " "), "fold1"):
				networks = 1
			case args[0] == "next" && !slices.Contains(args, "--drawn"):
				networks = 2
			}
			return time.Duration(64*networks*(networks*10+20)) * window
		}
		v.clock(1)
		if _, err := v.job("job", quiet).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(v.calls); n < 2 || !strings.HasPrefix(v.calls[n-2], want) {
			t.Errorf("%v a window: %q, want %s", window, v.calls, want)
		}
		if used := v.now.Sub(time.Unix(1e9, 0)); used > time.Hour {
			t.Errorf("%v a window: %v of an hour are used", window, used)
		}
	}
}

// What a list and a report took that are made anew for more networks is time of the job.
func TestForgottenTimeIsSpent(t *testing.T) {
	store := cases(t, 6)
	t.Chdir(t.TempDir())
	v := &verbs{t: t, store: store, steps: 100, share: 1}
	v.takes = func(args []string) time.Duration {
		switch args[0] {
		case "finetune":
			if flagOf(args, "--hold-out") == "" {
				return 40 * time.Minute // the second training is left out
			}
			return 20 * time.Minute
		case "next", "report":
			return 4 * time.Minute
		}
		return 0
	}
	v.clock(1)
	if _, err := v.job("job", quiet).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(v.calls, "\n"); strings.Contains(text, "job/all ") {
		t.Fatalf("%q", v.calls)
	}
	v.end = v.end.Add(time.Hour)
	j := v.job("job", quiet)
	j.Hours = 2
	if _, err := j.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	const all = (40 + 20 + 2*8) * time.Minute
	if passed := v.now.Sub(time.Unix(1e9, 0)); passed != all || j.spent().Round(time.Second) != all {
		t.Errorf("%v have passed, and %v are said to be spent, of %v", passed, j.spent(), all)
	}
}
