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
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/train/safetensors"
)

var options = Options{Steps: 20, LR: 0.1, Momentum: 0.9, WeightDecay: 0.01, Schedule: "poly", Power: 0.9, Warmup: 3, Clip: 2, ValidateEvery: 6, CheckpointEvery: 5}

var identity = Identity{Kind: "test", Config: "train:\n  lr: 0.1\n", Version: "v1", Device: "reference", Fingerprint: "abc"}

func open(t *testing.T, path string, id Identity, mode Mode) *Folder {
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

// A folder is one run's: another that wants it is refused, and changes nothing in it, until the
// first has ended.
func TestFolderIsHeld(t *testing.T) {
	path := t.TempDir()
	second := func() error {
		_, err := Run(t.Context(), &pull{model: newModel(t, 3)}, Setup{Options: options, Folder: open(t, path, identity, Force)})
		return err
	}
	first := &pull{model: newModel(t, 3)}
	first.afterStep = func(step int) {
		if step != 3 {
			return
		}
		if err := second(); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("a second run in the same folder: %v", err)
		}
	}
	want, err := Run(t.Context(), first, Setup{Options: options, Folder: open(t, path, identity, New)})
	if err != nil || want.Step != 20 {
		t.Fatalf("%+v, %v", want, err)
	}
	if err := second(); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
}

// A run that finds, when it starts, that another one has taken the folder meanwhile and ended,
// leaves it alone.
func TestFolderTakenMeanwhile(t *testing.T) {
	path := t.TempDir()
	late := open(t, path, identity, New)
	if _, err := Run(t.Context(), &pull{model: newModel(t, 3)}, Setup{Options: options, Folder: open(t, path, identity, New)}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(path, lastFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), &pull{model: newModel(t, 3)}, Setup{Options: options, Folder: late}); err == nil || !strings.Contains(err.Error(), "already holds a run") {
		t.Errorf("got %v", err)
	}
	if after, err := os.ReadFile(filepath.Join(path, lastFile)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the other run's checkpoint is not what it was: %v", err)
	}
}

// TestResumedRunEqualsUninterrupted stops a run at every step, between steps and in validations,
// resumes it, and compares every file.
func TestResumedRunEqualsUninterrupted(t *testing.T) {
	whole := t.TempDir()
	task := &pull{model: newModel(t, 3)}
	want, err := Run(t.Context(), task, Setup{Options: options, Folder: open(t, whole, identity, New)})
	if err != nil {
		t.Fatal(err)
	}
	if want.Step != 20 || want.BestStep == 0 {
		t.Fatalf("summary %+v", want)
	}
	final := task.snapshot(t)
	for stop := range 20 {
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
			_, err := Run(ctx, interrupted, Setup{Options: options, Folder: open(t, path, identity, New)})
			var stopped *InterruptedError
			if err != nil && (!errors.As(err, &stopped) || !errors.Is(err, context.Canceled)) {
				t.Fatalf("stopped at %d: %v", stop, err)
			}
			resumed := &pull{model: newModel(t, 3)}
			got, err := Run(t.Context(), resumed, Setup{Options: options, Folder: open(t, path, identity, Resume), Loaders: 1 + stop%3})
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
				if got, want := log(t, filepath.Join(path, name)), log(t, filepath.Join(whole, name)); !slices.Equal(got, want) {
					t.Errorf("stopped at %d: %s is\n%s\nwant\n%s", stop, name, strings.Join(got, "\n"), strings.Join(want, "\n"))
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

// A run that dies leaves its last checkpoint and a longer log, perhaps with half a line.
func TestResumeAfterACrash(t *testing.T) {
	whole, crashed := t.TempDir(), t.TempDir()
	if _, err := Run(t.Context(), &pull{model: newModel(t, 3)}, Setup{Options: options, Folder: open(t, whole, identity, New)}); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the power went")
	dies := &pull{model: newModel(t, 3), inValidate: func(step int) error {
		if step == 12 {
			return broken
		}
		return nil
	}}
	if _, err := Run(t.Context(), dies, Setup{Options: options, Folder: open(t, crashed, identity, New)}); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if m, err := ReadMeta(filepath.Join(crashed, lastFile)); err != nil || m.Step != 10 {
		t.Fatalf("last checkpoint at %d, %v", m.Step, err)
	}
	f, err := os.OpenFile(filepath.Join(crashed, metricsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, "13,0.1"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := Run(t.Context(), &pull{model: newModel(t, 3)}, Setup{Options: options, Folder: open(t, crashed, identity, Resume)}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{metricsFile, validationFile} {
		if got, want := log(t, filepath.Join(crashed, name)), log(t, filepath.Join(whole, name)); !slices.Equal(got, want) {
			t.Errorf("%s is\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if !maps.EqualFunc(tensors(t, filepath.Join(crashed, lastFile)), tensors(t, filepath.Join(whole, lastFile)), slices.Equal) {
		t.Error("other weights")
	}
}

func TestInfiniteLossKeepsTheLastCheckpoint(t *testing.T) {
	path := t.TempDir()
	task := &pull{model: newModel(t, 3), badStep: 8}
	_, err := Run(t.Context(), task, Setup{Options: options, Folder: open(t, path, identity, New)})
	var diverged *DivergedError
	if !errors.As(err, &diverged) || diverged.Step != 8 || diverged.Path != filepath.Join(path, lastFile) || !strings.Contains(err.Error(), "case 8") {
		t.Fatalf("got %v", err)
	}
	if m, err := ReadMeta(diverged.Path); err != nil || m.Step != 5 || m.Kind != "test" || m.Config != identity.Config {
		t.Errorf("checkpoint %+v, %v", m, err)
	}
}

func TestFinishedRunIsNotRunAgain(t *testing.T) {
	path := t.TempDir()
	if _, done := FinishedRun(path); done {
		t.Error("an empty folder is finished")
	}
	first, err := Run(t.Context(), &pull{model: newModel(t, 3)}, Setup{Options: options, Folder: open(t, path, identity, New)})
	if err != nil {
		t.Fatal(err)
	}
	if m, done := FinishedRun(path); !done || m.Best != first.Best || m.Step != 20 {
		t.Errorf("finished %v, %+v", done, m)
	}
	f := open(t, path, identity, Resume)
	if !f.Finished() {
		t.Error("not finished")
	}
	again, err := Run(t.Context(), &pull{model: newModel(t, 3), afterStep: func(int) { t.Error("a step was done") }}, Setup{Options: options, Folder: f})
	if err != nil || again.Best != first.Best || again.Step != first.Step {
		t.Errorf("%+v, %v", again, err)
	}
	if a, b := again.Validation, first.Validation; math.Abs(a.Score-b.Score) > 1e-6 || len(a.Metrics) != 1 || a.Metrics[0].Name != "distance" {
		t.Errorf("validation %+v, was %+v", a, b)
	}
}

func TestFolderRefuses(t *testing.T) {
	path := t.TempDir()
	if err := open(t, path, identity, Resume).claim(); err != nil { // nothing to resume: starts
		t.Fatal(err)
	}
	_, err := OpenFolder(path, identity, New)
	if err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("a second run: %v", err)
	}
	for want, change := range map[string]func(*Identity){
		"train.lr: 0.1 in the run, 0.2 now":                  func(id *Identity) { id.Config = "train:\n  lr: 0.2\n" },
		"train.steps: not set in the run, 3 now":             func(id *Identity) { id.Config = "train:\n  lr: 0.1\n  steps: 3\n" },
		"fingerprint abc in the run, def now":                func(id *Identity) { id.Fingerprint = "def" },
		"kind: test in the run, finetune now":                func(id *Identity) { id.Kind = "finetune" },
		"train.lr: 0.1 in the run, not set now\n  wd: not s": func(id *Identity) { id.Config = "wd: 1\n" },
	} {
		id := identity
		change(&id)
		if _, err := OpenFolder(path, id, Resume); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	other := identity
	other.Version, other.Config = "v2", "# the same\ntrain: {lr: 0.1}\n"
	if f := open(t, path, other, Resume); len(f.notes) != 1 {
		t.Errorf("notes %q", f.notes)
	}
	other.Config = "train:\n  lr: 0.2\nthreads: 2\n"
	if _, err := OpenFolder(path, other, Resume, "threads"); err == nil || strings.Contains(err.Error(), "threads") || !strings.Contains(err.Error(), "train.lr") {
		t.Errorf("a setting that may differ and one that may not: %v", err)
	}
	other = identity
	other.Config += "threads: 2\n"
	if f, err := OpenFolder(path, other, Resume, "threads"); err != nil || !slices.Equal(f.notes, []string{"threads: not set in the run, 2 now: the run goes on with it"}) {
		t.Errorf("a setting that may differ: %+v, %v", f, err)
	}
	if _, err := OpenFolder(filepath.Join(path, configFile), identity, New); err == nil || !strings.Contains(err.Error(), "is a file") {
		t.Errorf("a file as a folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(path, runFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFolder(path, identity, Resume); err == nil {
		t.Error("a damaged run was resumed")
	}
	open(t, path, identity, Force)
}

// A run that cannot start takes no folder; one that starts over loses nothing of the old run until
// it starts.
func TestFolderIsClaimedByTheRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	open(t, path, identity, New)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that was only looked at: %v", err)
	}
	impossible := options
	impossible.Schedule = "never"
	if _, err := Run(t.Context(), &pull{model: newModel(t, 3)}, Setup{Options: impossible, Folder: open(t, path, identity, New)}); err == nil {
		t.Fatal("a run of no known schedule")
	}
	if _, err := Run(t.Context(), &pull{model: newModel(t, 3)}, Setup{Options: options, Folder: open(t, path, identity, New)}); err != nil {
		t.Fatal(err)
	}
	before := tensors(t, filepath.Join(path, bestFile))
	again := open(t, path, identity, Force)
	if again.Started() {
		t.Error("starting over continues")
	}
	if !maps.EqualFunc(before, tensors(t, filepath.Join(path, bestFile)), slices.Equal) {
		t.Error("the old run is gone before there is a new one")
	}
	m := newModel(t, 3)
	if _, err := LoadWeights(again.Best(), m, nil); err != nil {
		t.Fatal(err)
	}
	short := options
	short.Steps = 1
	if s, err := Run(t.Context(), &pull{model: m}, Setup{Options: short, Folder: again}); err != nil || s.Step != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if lines := log(t, filepath.Join(path, metricsFile)); len(lines) != 2 {
		t.Errorf("log of the new run %q", lines)
	}
}

// A disk that fills up half way through a checkpoint leaves the one before, and nothing else.
func TestFullDiskKeepsTheLastCheckpoint(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, lastFile)
	if err := SaveCheckpoint(path, newModel(t, 3), Meta{Identity: identity, Step: 4}); err != nil {
		t.Fatal(err)
	}
	err := atomicfile.Write(path, func(w io.Writer) error {
		if _, err := w.Write(make([]byte, 100)); err != nil {
			return err
		}
		return &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "make room") || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if m, err := ReadMeta(path); err != nil || m.Step != 4 {
		t.Errorf("%+v, %v", m, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

// Weights that overflowed would be resumed from for ever: they never take the place of good ones.
func TestWeightsThatAreNotFiniteAreNotSaved(t *testing.T) {
	path := filepath.Join(t.TempDir(), lastFile)
	m := newModel(t, 3)
	if err := SaveCheckpoint(path, m, Meta{Identity: identity, Step: 4}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(-1)} {
		if err := m.Write("head", []float32{1, float32(bad), 3}); err != nil {
			t.Fatal(err)
		}
		if err := SaveCheckpoint(path, m, Meta{Identity: identity, Step: 5}); err == nil || !strings.Contains(err.Error(), `"head"`) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if m, err := ReadMeta(path); err != nil || m.Step != 4 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestLoadWeightsSaysWhatItDid(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, lastFile)
	from := newModel(t, 4)
	for _, name := range from.names {
		_, bytes, _ := from.Range(name)
		v := make([]float32, bytes/4)
		for i := range v {
			v[i] = float32(i) + 100
		}
		if err := from.Write(name, v); err != nil {
			t.Fatal(err)
		}
	}
	s, err := NewSGD(from, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeCheckpoint(path, from, s.velocity, Meta{Identity: identity}); err != nil {
		t.Fatal(err)
	}
	to := newModel(t, 3)
	to.names = append(to.names, "encoder.new")
	to.shapes["encoder.new"] = []int{1}
	r, err := LoadWeights(path, to, nil)
	want := Report{
		Path: path, Loaded: []string{"encoder.a", "encoder.mean", "encoder.b"}, Missing: []string{"encoder.new"},
		Skipped: []Skip{{"head", "shape [4] in the checkpoint, [3] in the network"}},
	}
	if err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v, %v, want %+v", r, err, want)
	}
	if v := to.snapshot(t); v["encoder.b"][4] != 104 || v["encoder.mean"][1] != 101 || v["head"][0] == 100 {
		t.Errorf("values %v", v)
	}
	if s := r.String(); !strings.Contains(s, "3 tensors loaded, 1 skipped, 1 missing") || !strings.Contains(s, "skipped, shape [4]") {
		t.Error(s)
	}
	r, err = LoadWeights(path, newModel(t, 4), func(name string) bool { return name == "head" })
	if err != nil || !slices.Equal(r.Loaded, []string{"head"}) || len(r.Skipped) != 3 || len(r.Missing) != 0 {
		t.Errorf("filtered: %+v, %v", r, err)
	}
	if _, err := LoadWeights(path, newModel(t, 3), func(name string) bool { return name == "head" }); err == nil || !strings.Contains(err.Error(), "no weights") {
		t.Errorf("nothing fits: %v", err)
	}
	if _, err := LoadWeights(filepath.Join(dir, "none"), to, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestResumeRefusesAnotherNetwork(t *testing.T) {
	path := t.TempDir()
	if _, err := Run(t.Context(), &pull{model: newModel(t, 3)}, Setup{Options: options, Folder: open(t, path, identity, New)}); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), &pull{model: newModel(t, 4)}, Setup{Options: options, Folder: open(t, path, identity, Resume)}); err == nil || !strings.Contains(err.Error(), `"head"`) {
		t.Errorf("got %v", err)
	}
}

func TestReadMetaRefusesOtherFiles(t *testing.T) {
	if _, err := ReadMeta("../../testdata/train_numpy.safetensors"); err == nil || !strings.Contains(err.Error(), "not a checkpoint") {
		t.Errorf("got %v", err)
	}
}

func TestLinesObserver(t *testing.T) {
	var b bytes.Buffer
	o := options
	o.Steps = 6
	if _, err := Run(t.Context(), &pull{model: newModel(t, 3)}, Setup{Options: o, Observer: Lines(&b, 3)}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "step 3/6 loss ") || !strings.HasPrefix(lines[2], "validation after step 6: distance ") || !strings.HasSuffix(lines[2], "the best so far") {
		t.Error(b.String())
	}
}

func ExampleOptions_Rate() {
	o := Options{Steps: 100, LR: 0.01, Schedule: "poly", Power: 0.9, Warmup: 10}
	for _, step := range []int{0, 9, 50, 99} {
		fmt.Printf("%.5f\n", o.Rate(step))
	}
	// Output:
	// 0.00100
	// 0.00919
	// 0.00536
	// 0.00016
}
