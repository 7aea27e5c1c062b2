package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/devicetest"
	"github.com/voxsaw/voxsaw/internal/safetensors"
)

var options = voxsaw.Training{Optimizer: "sgd", DecayAll: true, Steps: 20, LR: 0.1, Momentum: 0.9, WeightDecay: 0.01,
	Schedule: "poly", Power: 0.9, Warmup: 3, Clip: 2, ValidateEvery: 6, CheckpointEvery: 5}

var identity = checkpoint.Description{Kind: "test", Settings: "task: test\n", Run: "train:\n  lr: 0.1\n",
	TrainedOn: []string{"case 1"}, Version: "v1", Device: "reference", Fingerprint: "abc"}

func open(t *testing.T, path string, id checkpoint.Description, mode voxsaw.Mode) *Folder {
	t.Helper()
	f, err := OpenFolder(path, id, mode)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// log reads a CSV file without its two columns of time.
func log(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.TrimSpace(line), ",")
		if strings.HasSuffix(path, metricsFile) {
			cells = cells[:len(cells)-2]
		}
		out = append(out, strings.Join(cells, ","))
	}
	return out
}

// tensors reads a checkpoint whole.
func tensors(t *testing.T, path string) map[string][]float32 {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string][]float32{}
	for _, name := range f.Names() {
		if out[name], err = f.Read(name); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// runPull trains with an optimiser of its own.
func runPull(t *testing.T, ctx context.Context, p *pull, setup Setup) (voxsaw.Summary, error) {
	t.Helper()
	var err error
	if setup.Optimizer, err = NewOptimizer(p.model, setup.Options, nil, !setup.Group.Alone()); err != nil {
		t.Fatal(err)
	}
	defer setup.Optimizer.Close()
	return Train(ctx, p, setup)
}

// A folder is one run's: another that wants it is refused, told that a run goes on there, and
// changes nothing in it, until the first has ended.
func TestFolderIsHeld(t *testing.T) {
	path := t.TempDir()
	before := open(t, path, identity, voxsaw.ModeForce)
	second := func(folder *Folder) error {
		_, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)}, Setup{Options: options, Folder: folder})
		return err
	}
	first := &pull{model: newModel(t, 3)}
	first.afterStep = func(step int) {
		if step != 3 {
			return
		}
		for _, folder := range []*Folder{before, open(t, path, identity, voxsaw.ModeResume)} {
			if err := second(folder); err == nil || !strings.Contains(err.Error(), "in use") {
				t.Errorf("a second run in the same folder: %v", err)
			}
		}
		for _, mode := range []voxsaw.Mode{voxsaw.ModeNew, voxsaw.ModeForce} {
			err := CheckFolder(path, mode)
			if want := path + " is in use by another run (test, now at step 0 or later): wait for it"; !Occupied(err) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("before a second run in the same folder: %v", err)
			}
		}
	}
	want, err := runPull(t, t.Context(), first,
		Setup{Options: options, Folder: open(t, path, identity, voxsaw.ModeNew)})
	if err != nil || want.Step != 20 {
		t.Fatalf("%+v, %v", want, err)
	}
	if err := CheckFolder(path, voxsaw.ModeNew); err == nil || !strings.Contains(err.Error(), "already holds a run") {
		t.Errorf("after the first has ended: %v", err)
	}
	if err := second(open(t, path, identity, voxsaw.ModeForce)); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
}

// A run that finds, when it starts, that another one has taken the folder meanwhile and ended,
// leaves it alone.
func TestFolderTakenMeanwhile(t *testing.T) {
	path := t.TempDir()
	late := open(t, path, identity, voxsaw.ModeNew)
	if _, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
		Setup{Options: options, Folder: open(t, path, identity, voxsaw.ModeNew)}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(path, lastFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
		Setup{Options: options, Folder: late}); err == nil || !strings.Contains(err.Error(), "already holds a run") {
		t.Errorf("got %v", err)
	}
	if after, err := os.ReadFile(filepath.Join(path, lastFile)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the other run's checkpoint is not what it was: %v", err)
	}
}

// TestResumedRunEqualsUninterrupted stops a run at every step, between steps and in validations,
// resumes it, and compares every file.
func TestResumedRunEqualsUninterrupted(t *testing.T) {
	t.Run("SGD", func(t *testing.T) { testResume(t, options, 1) })
	adam := options
	adam.Optimizer, adam.Beta2, adam.Average, adam.DecayAll = "adamw", 0.999, 0.9, false
	t.Run("AdamW with a moving average", func(t *testing.T) { testResume(t, adam, 3) })
}

// testResume stops at every so many steps.
func testResume(t *testing.T, options voxsaw.Training, every int) {
	whole := t.TempDir()
	task := &pull{model: newModel(t, 3)}
	want, err := runPull(t, t.Context(), task,
		Setup{Options: options, Folder: open(t, whole, identity, voxsaw.ModeNew)})
	if err != nil {
		t.Fatal(err)
	}
	if want.Step != 20 || want.BestStep == 0 {
		t.Fatalf("summary %+v", want)
	}
	final := task.snapshot(t)
	for stop := 0; stop < 20; stop += every {
		for _, validating := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "run")
			ctx, cancel := context.WithCancel(t.Context())
			interrupted := &pull{model: newModel(t, 3)}
			if validating {
				interrupted.inValidate = func(step int) error {
					if step > stop {
						cancel()
					}
					return ctx.Err()
				}
			} else {
				interrupted.afterStep = func(step int) {
					if step == stop {
						cancel()
					}
				}
			}
			_, err := runPull(t, ctx, interrupted,
				Setup{Options: options, Folder: open(t, path, identity, voxsaw.ModeNew)})
			var stopped *voxsaw.InterruptedError
			if err != nil && (!errors.As(err, &stopped) || !errors.Is(err, context.Canceled)) {
				t.Fatalf("stopped at %d: %v", stop, err)
			}
			resumed := &pull{model: newModel(t, 3)}
			got, err := runPull(t, t.Context(), resumed,
				Setup{Options: options, Folder: open(t, path, identity, voxsaw.ModeResume), Loaders: 1 + stop%3})
			if err != nil {
				t.Fatal(err)
			}
			if got.Step != want.Step || got.Best != want.Best || got.BestStep != want.BestStep {
				t.Errorf("stopped at %d: summary %+v, want %+v", stop, got, want)
			}
			if !reflect.DeepEqual(resumed.snapshot(t), final) {
				t.Errorf("stopped at %d (validating: %v): other weights", stop, validating)
			}
			for _, name := range []string{metricsFile, validationFile} {
				if got, want := log(t, filepath.Join(path, name)),
					log(t, filepath.Join(whole, name)); !slices.Equal(got, want) {
					t.Errorf("stopped at %d: %s is\n%s\nwant\n%s", stop, name, strings.Join(got, "\n"),
						strings.Join(want, "\n"))
				}
			}
			for _, name := range []string{lastFile, bestFile} {
				a, err := os.ReadFile(filepath.Join(path, name))
				if err != nil {
					t.Fatal(err)
				}
				b, err := os.ReadFile(filepath.Join(whole, name))
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(a, b) {
					t.Errorf("stopped at %d: %s differs", stop, name)
				}
			}
		}
	}
}

// The moving average of a run that was stopped before its first step is the first weights: who
// predicts with the checkpoint, or begins with it, takes the average.
func TestAverageBeforeTheFirstStep(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path, averaged := t.TempDir(), options
	averaged.Average = 0.9
	if _, err := runPull(t, ctx, &pull{model: newModel(t, 3)},
		Setup{Options: averaged, Folder: open(t, path, identity, voxsaw.ModeNew)}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	got, compared := tensors(t, filepath.Join(path, lastFile)), 0
	for name, values := range got {
		if mean, ok := got[checkpoint.AveragePrefix+name]; ok {
			compared++
			if !slices.Equal(mean, values) {
				t.Errorf("%s: the average is %v, the weights %v", name, mean, values)
			}
		}
	}
	if compared == 0 {
		t.Error("there is no average")
	}
}

// forget removes the digests of a run's files, as a run has none that was killed.
func forget(t *testing.T, folder string) {
	t.Helper()
	if err := os.Remove(filepath.Join(folder, atomicfile.SumsFile)); err != nil {
		t.Fatal(err)
	}
}

// A run that was stopped has the digests of what it left. A changed byte of any file is noticed
// before the run goes on, and a file that is deleted is none of its business.
func TestResumeComparesFiles(t *testing.T) {
	folder := t.TempDir()
	stop := errors.New("stop")
	stops := func(at int) *pull {
		return &pull{model: newModel(t, 3), inValidate: func(step int) error {
			if step == at {
				return stop
			}
			return nil
		}}
	}
	if _, err := runPull(t, t.Context(), stops(12),
		Setup{Options: options, Folder: open(t, folder, identity, voxsaw.ModeNew)}); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	for _, name := range []string{metricsFile, validationFile, lastFile, bestFile, configFile, runFile} {
		path := filepath.Join(folder, name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := slices.Clone(data)
		if name == runFile || name == configFile {
			changed = append(changed, '\n') // it says the same
		} else {
			changed[len(data)-2] ^= 1 // a digit, or of a tensor
		}
		if err := os.WriteFile(path, changed, 0o666); err != nil {
			t.Fatal(err)
		}
		setup := Setup{Options: options, Folder: open(t, folder, identity, voxsaw.ModeResume)}
		var damaged *atomicfile.DamagedError
		if _, err := runPull(t, t.Context(), stops(0), setup); !errors.As(err, &damaged) || damaged.Path != path {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(folder, bestFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := runPull(t, t.Context(), stops(0),
		Setup{Options: options, Folder: open(t, folder, identity, voxsaw.ModeResume)}); err != nil {
		t.Error(err)
	}
	if listed, err := atomicfile.Compare(folder); err != nil || len(listed) < 6 {
		t.Errorf("listed are %q, %v", listed, err)
	}
}

// A run that dies leaves its last checkpoint and a longer log, perhaps with half a line.
func TestResumeAfterACrash(t *testing.T) {
	whole, crashed := t.TempDir(), t.TempDir()
	if _, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
		Setup{Options: options, Folder: open(t, whole, identity, voxsaw.ModeNew)}); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the power went")
	dies := &pull{model: newModel(t, 3), inValidate: func(step int) error {
		if step == 12 {
			panic(broken)
		}
		return nil
	}}
	func() {
		defer func() {
			if p := recover(); p != broken {
				t.Fatal(p)
			}
		}()
		_, err := runPull(t, t.Context(), dies,
			Setup{Options: options, Folder: open(t, crashed, identity, voxsaw.ModeNew)})
		t.Fatalf("it went on: %v", err)
	}()
	if m, err := checkpoint.Read(filepath.Join(crashed, lastFile)); err != nil || m.Step != 10 {
		t.Fatalf("last checkpoint at %d, %v", m.Step, err)
	}
	forget(t, crashed)
	f, err := os.OpenFile(filepath.Join(crashed, metricsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, "13,0.1"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
		Setup{Options: options, Folder: open(t, crashed, identity, voxsaw.ModeResume)}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{metricsFile, validationFile} {
		if got, want := log(t, filepath.Join(crashed, name)), log(t, filepath.Join(whole, name)); !slices.Equal(got,
			want) {
			t.Errorf("%s is\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if !maps.EqualFunc(tensors(t, filepath.Join(crashed, lastFile)), tensors(t, filepath.Join(whole, lastFile)),
		slices.Equal) {
		t.Error("other weights")
	}
}

// A run that dies after a new best, and before its next checkpoint, goes on where scores may be
// others: what its files call the best are the weights in best.safetensors.
func TestBestIsThatOfTheFile(t *testing.T) {
	folder, broken := t.TempDir(), errors.New("the power went")
	dies := &pull{model: newModel(t, 3), score: func(step int) float64 { return 1 + float64(step)/100 },
		afterStep: func(step int) {
			if step == 13 {
				panic(broken)
			}
		}}
	func() {
		defer func() {
			if p := recover(); p != broken {
				t.Fatal(p)
			}
		}()
		_, err := runPull(t, t.Context(), dies,
			Setup{Options: options, Folder: open(t, folder, identity, voxsaw.ModeNew)})
		t.Fatalf("it went on: %v", err)
	}()
	forget(t, folder)
	last, err := checkpoint.Read(Last(folder))
	best, errBest := checkpoint.Read(Best(folder))
	if err := errors.Join(err, errBest); err != nil || last.Step != 10 || last.BestStep != 6 || best.Step != 12 {
		t.Fatalf("last of step %d, best of %d, %v", last.Step, best.Step, err)
	}
	lower := &pull{model: newModel(t, 3), score: func(step int) float64 { return 1 - float64(step)/100 }}
	summary, err := runPull(t, t.Context(), lower,
		Setup{Options: options, Folder: open(t, folder, identity, voxsaw.ModeResume)})
	if err != nil {
		t.Fatal(err)
	}
	best, err = checkpoint.Read(Best(folder))
	if err != nil || best.Step != 12 || best.Best != 0.88 || summary.BestStep != 12 || summary.Best != 0.88 {
		t.Errorf("best of step %d with %g, told are %d and %g: %v", best.Step, best.Best, summary.BestStep,
			summary.Best, err)
	}
	if problems := Verify(folder); len(problems) > 0 {
		t.Errorf("%q", problems)
	}
	best.Step, best.BestStep = 18, 18
	if err := checkpoint.Write(Best(folder), best, lower.model); err != nil {
		t.Fatal(err)
	}
	if problems := Verify(folder); len(problems) != 1 || !strings.Contains(problems[0], "safetensors is of step 18") {
		t.Errorf("%q", problems)
	}
}

func TestInfiniteLossKeepsTheLastCheckpoint(t *testing.T) {
	path := t.TempDir()
	task := &pull{model: newModel(t, 3), badStep: 8}
	_, err := runPull(t, t.Context(), task, Setup{Options: options, Folder: open(t, path, identity, voxsaw.ModeNew)})
	var diverged *voxsaw.DivergedError
	if !errors.As(err, &diverged) || diverged.Step != 8 || diverged.Path != filepath.Join(path, lastFile) ||
		!strings.Contains(err.Error(), "case 8") {
		t.Fatalf("got %v", err)
	}
	if m, err := checkpoint.Read(diverged.Path); err != nil || m.Step != 5 || m.Kind != "test" ||
		m.Run != identity.Run {
		t.Errorf("checkpoint %+v, %v", m, err)
	}
}

func TestFinishedRunIsNotRunAgain(t *testing.T) {
	path := t.TempDir()
	if Finished(path) {
		t.Error("an empty folder is finished")
	}
	first, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
		Setup{Options: options, Folder: open(t, path, identity, voxsaw.ModeNew)})
	if err != nil {
		t.Fatal(err)
	}
	if !Finished(path) {
		t.Error("not finished")
	}
	f := open(t, path, identity, voxsaw.ModeResume)
	if s, err := f.Summary(); !f.Finished() || err != nil || s.Best != first.Best || s.Step != 20 ||
		math.Abs(s.Validation.Score-first.Validation.Score) > 1e-6 {
		t.Errorf("finished %v, %+v, %v", f.Finished(), s, err)
	}
	again, err := runPull(t, t.Context(),
		&pull{model: newModel(t, 3), afterStep: func(int) { t.Error("a step was done") }},
		Setup{Options: options, Folder: f})
	if err != nil || again.Best != first.Best || again.Step != first.Step {
		t.Errorf("%+v, %v", again, err)
	}
	if a, b := again.Validation, first.Validation; math.Abs(a.Score-b.Score) > 1e-6 || len(a.Metrics) != 1 ||
		a.Metrics[0].Name != "distance" {
		t.Errorf("validation %+v, was %+v", a, b)
	}
}

func TestFolderRefuses(t *testing.T) {
	path := t.TempDir()
	// nothing to resume: starts
	if err := open(t, path, identity, voxsaw.ModeResume).claim(); err != nil {
		t.Fatal(err)
	}
	_, err := OpenFolder(path, identity, voxsaw.ModeNew)
	if err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("a second run: %v", err)
	}
	for want, change := range map[string]func(*checkpoint.Description){
		"train.lr: 0.1 in the run, 0.2 now": func(id *checkpoint.Description) {
			id.Run = "train:\n  lr: 0.2\n"
		},
		"train.steps: not set in the run, 3 now": func(id *checkpoint.Description) {
			id.Run = "train:\n  lr: 0.1\n  steps: 3\n"
		},
		"fingerprint abc in the run, def now": func(id *checkpoint.Description) {
			id.Fingerprint = "def"
		},
		"kind: test in the run, finetune now":                func(id *checkpoint.Description) { id.Kind = "finetune" },
		"train.lr: 0.1 in the run, not set now\n  wd: not s": func(id *checkpoint.Description) { id.Run = "wd: 1\n" },
	} {
		id := identity
		change(&id)
		if _, err := OpenFolder(path, id, voxsaw.ModeResume); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	other := identity
	other.Version, other.Run = "v2", "# the same\ntrain: {lr: 0.1}\n"
	if f := open(t, path, other, voxsaw.ModeResume); len(f.drifts) != 1 {
		t.Errorf("notes %q", f.drifts)
	}
	for before, notes := range map[string]int{"cpu, 1 thread": 0, "cpu, 2 threads": 1} {
		old := record{Device: before, Version: "v1", Fingerprint: identity.Fingerprint, Kind: identity.Kind}
		other := identity
		other.Device = "cpu, 1 thread"
		f := &Folder{path: path, identity: other}
		if err := f.checkSame(old, nil); err != nil || len(f.drifts) != notes {
			t.Errorf("begun on %s: %v, notes %q", before, err, f.drifts)
		}
	}
	other.Run = "train:\n  lr: 0.2\nthreads: 2\n"
	if _, err := OpenFolder(path, other, voxsaw.ModeResume, "threads"); err == nil ||
		strings.Contains(err.Error(), "threads") || !strings.Contains(err.Error(), "train.lr") {
		t.Errorf("a setting that may differ and one that may not: %v", err)
	}
	other = identity
	other.Run += "threads: 2\n"
	if f, err := OpenFolder(path, other, voxsaw.ModeResume, "threads"); err != nil ||
		!slices.Equal(f.notes, []string{"threads: not set in the run, 2 now: the run goes on with it"}) {
		t.Errorf("a setting that may differ: %+v, %v", f, err)
	}
	if _, err := OpenFolder(filepath.Join(path, configFile), identity, voxsaw.ModeNew); err == nil ||
		!strings.Contains(err.Error(), "is a file") {
		t.Errorf("a file as a folder: %v", err)
	}
	later := fmt.Sprintf(`{"format": %d, "kind": "test", "version": "v9"}`, runFormat+1)
	if err := os.WriteFile(filepath.Join(path, runFile), []byte(later), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFolder(path, identity, voxsaw.ModeResume); err == nil ||
		!strings.Contains(err.Error(), "has format 2, this program reads 1: use the program that wrote it (v9)") {
		t.Errorf("a later format: %v", err)
	}
	if err := os.WriteFile(filepath.Join(path, runFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFolder(path, identity, voxsaw.ModeResume); err == nil {
		t.Error("a damaged run was resumed")
	}
	open(t, path, identity, voxsaw.ModeForce)
}

// A run that cannot start takes no folder; one that starts over loses nothing of the old run until
// it starts.
func TestFolderIsClaimedByTheRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	open(t, path, identity, voxsaw.ModeNew)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that was only looked at: %v", err)
	}
	impossible := options
	impossible.Schedule = "never"
	if _, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
		Setup{Options: impossible, Folder: open(t, path, identity, voxsaw.ModeNew)}); err == nil {
		t.Fatal("a run of no known schedule")
	}
	if _, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
		Setup{Options: options, Folder: open(t, path, identity, voxsaw.ModeNew)}); err != nil {
		t.Fatal(err)
	}
	before := tensors(t, filepath.Join(path, bestFile))
	again := open(t, path, identity, voxsaw.ModeForce)
	if again.Started() {
		t.Error("starting over continues")
	}
	if !maps.EqualFunc(before, tensors(t, filepath.Join(path, bestFile)), slices.Equal) {
		t.Error("the old run is gone before there is a new one")
	}
	m := newModel(t, 3)
	if _, err := checkpoint.Load(again.Best(), m); err != nil {
		t.Fatal(err)
	}
	short := options
	short.Steps = 1
	if s, err := runPull(t, t.Context(), &pull{model: m}, Setup{Options: short, Folder: again}); err != nil ||
		s.Step != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if lines := log(t, filepath.Join(path, metricsFile)); len(lines) != 2 {
		t.Errorf("log of the new run %q", lines)
	}
}

func TestResumeRefusesAnotherNetwork(t *testing.T) {
	path := t.TempDir()
	if _, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
		Setup{Options: options, Folder: open(t, path, identity, voxsaw.ModeNew)}); err != nil {
		t.Fatal(err)
	}
	if _, err := runPull(t, t.Context(), &pull{model: newModel(t, 4)},
		Setup{Options: options, Folder: open(t, path, identity, voxsaw.ModeResume)}); err == nil ||
		!strings.Contains(err.Error(), `"head"`) {
		t.Errorf("got %v", err)
	}
}

// ownMemory is a device with memory of its own.
type ownMemory struct{ device.Device }

func (ownMemory) Memory() (free, total int64, err error) { return 1 << 30, 1 << 30, nil }

func (ownMemory) Staging(device.Tensor) int64 { return 0 }

func TestLoaders(t *testing.T) {
	cpu := devicetest.NewReference()
	for _, c := range []struct {
		asked, cores, want int
		dev                device.Device
	}{{0, 8, 2, cpu}, {5, 8, 5, cpu}, {0, 8, 7, ownMemory{cpu}}, {0, 1, 2, ownMemory{cpu}}, {0, 64, 16, ownMemory{cpu}},
		{3, 64, 3, ownMemory{cpu}}} {
		before := runtime.GOMAXPROCS(c.cores)
		got := Setup{Loaders: c.asked}.loaders(c.dev)
		runtime.GOMAXPROCS(before)
		if got != c.want {
			t.Errorf("%d asked for, %d cores: %d loaders, want %d", c.asked, c.cores, got, c.want)
		}
	}
}

// TestNextBatchIsSentAhead: each batch but the first is sent to the device after the step before,
// where it is there in time, and the step is given that very batch. A batch that was sent and not
// used is drawn again when the run goes on.
func TestNextBatchIsSentAhead(t *testing.T) {
	for _, steps := range []int{1, 2, 7} {
		synctest.Test(t, func(t *testing.T) {
			o := options
			o.Steps, o.Warmup = steps, 0
			task := &pull{model: newModel(t, 3), afterStep: func(int) { synctest.Wait() }}
			if _, err := runPull(t, t.Context(), task, Setup{Options: o}); err != nil {
				t.Fatal(err)
			}
			if task.sends != steps-1 {
				t.Errorf("%d steps: %d batches were sent ahead, want %d", steps, task.sends, steps-1)
			}
		})
	}
}

// Long lists of cases that the configuration names by their files lie beside it, those of the
// validation, too.
func TestListsOfCasesAreWritten(t *testing.T) {
	names := func(prefix string) (list []string) {
		for n := range 1001 {
			list = append(list, fmt.Sprint(prefix, n))
		}
		return list
	}
	f := open(t, filepath.Join(t.TempDir(), "run"), checkpoint.Description{Kind: "test", TrainedOn: names("a")},
		voxsaw.ModeNew)
	f.validatedOn = names("b")
	if err := atomicfile.MakeFolder(f.path); err != nil {
		t.Fatal(err)
	}
	if err := f.claim(); err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]string{names("a"), names("b")} {
		text := checkpoint.ListForConfig(list)[0]
		_, name, _ := strings.Cut(text, "those in ")
		name, _, _ = strings.Cut(name, ",")
		if _, err := os.Stat(filepath.Join(f.path, name)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
