//go:build unix

package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/childtest"
)

// notes is an observer that keeps what is noted.
type notes struct {
	silent
	texts []string
	hear  func(text string) // may be nil
}

func (n *notes) Note(text string) {
	n.texts = append(n.texts, text)
	if n.hear != nil {
		n.hear(text)
	}
}

// room lets files of this process grow, or not, which stands for a disk that is full. Not a byte
// can be written while it is.
func room(t *testing.T, is bool) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = 0
	if is {
		limit.Cur = limit.Max
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
}

// A training whose disk is full goes on, and writes what it could not when there is room again: no
// step is lost, and the log has no gap.
func TestTrainingGoesOnWithoutRoom(t *testing.T) {
	if childtest.InChild(t) {
		return
	}
	whole, full := t.TempDir(), t.TempDir()
	if _, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
		Setup{Options: options, Folder: open(t, whole, identity, voxsaw.ModeNew)}); err != nil {
		t.Fatal(err)
	}
	defer room(t, true)
	said := &notes{}
	// saved after 5, 10, 15, 20, validated after 6, 12, 18
	task := &pull{model: newModel(t, 3), afterStep: func(step int) {
		switch step {
		case 3, 17:
			room(t, false)
		case 13:
			room(t, true)
		}
	}}
	_, err := runPull(t, t.Context(), task, Setup{Options: options, Folder: open(t, full, identity, voxsaw.ModeNew),
		Observer: said})
	room(t, true)
	if !atomicfile.NoRoom(err) || !strings.Contains(err.Error(), lastFile) && !strings.Contains(err.Error(),
		metricsFile) || Finished(full) {
		t.Errorf("a run whose last weights were not written: %v, finished %v", err, Finished(full))
	}
	for _, want := range []string{"after step 4: ", "step 5 could not be saved: ", "step 10 could not be saved: ",
		"after step 18: "} {
		if n := len(slices.DeleteFunc(slices.Clone(said.texts),
			func(text string) bool { return !strings.HasPrefix(text, want) })); n != 1 {
			t.Errorf("%q is said %d times, want once", want, n)
		}
	}
	if steps := lines(t, full); len(steps) < 17 || steps[0] != "1" || steps[16] != "17" {
		t.Errorf("the log after there was room again has steps %v", steps)
	}
	said = &notes{}
	if _, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
		Setup{Options: options, Folder: open(t, full, identity, voxsaw.ModeResume), Observer: said}); err != nil {
		t.Fatal(err)
	}
	if len(said.texts) > 0 {
		t.Errorf("said: %q", said.texts)
	}
	for _, name := range []string{metricsFile, validationFile} {
		if got, want := log(t, filepath.Join(full, name)), log(t, filepath.Join(whole, name)); !slices.Equal(got,
			want) {
			t.Errorf("%s is\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if !maps.EqualFunc(tensors(t, filepath.Join(full, lastFile)), tensors(t, filepath.Join(whole, lastFile)),
		slices.Equal) {
		t.Error("other weights")
	}
}

// At the end of the training there is no later checkpoint: a disk that is full then is waited for.
// Who does not want to wait stops it, and goes on from the last checkpoint.
func TestRoomAtTheEnd(t *testing.T) {
	if childtest.InChild(t) {
		return
	}
	whole := t.TempDir()
	if _, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
		Setup{Options: options, Folder: open(t, whole, identity, voxsaw.ModeNew)}); err != nil {
		t.Fatal(err)
	}
	defer room(t, true)
	end := func(step int) {
		if step == options.Steps-1 {
			room(t, false)
		}
	}
	folder := t.TempDir()
	said := &notes{hear: func(text string) {
		if strings.Contains(text, "it is tried again") {
			time.AfterFunc(100*time.Millisecond, func() { room(t, true) })
		}
	}}
	if _, err := runPull(t, t.Context(), &pull{model: newModel(t, 3), afterStep: end},
		Setup{Options: options, Folder: open(t, folder, identity, voxsaw.ModeNew), Observer: said}); err != nil ||
		!Finished(folder) {
		t.Errorf("finished %v, %v", Finished(folder), err)
	}
	if n := strings.Count(strings.Join(said.texts, "\n"), "could not be saved: "); n != 1 {
		t.Errorf("said %q", said.texts)
	}
	for _, name := range []string{metricsFile, validationFile, lastFile, bestFile, runFile} {
		if !slices.Equal(log(t, filepath.Join(folder, name)), log(t, filepath.Join(whole, name))) {
			t.Errorf("%s is not what it should be", name)
		}
	}

	folder = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	said = &notes{hear: func(string) { cancel() }}
	start := time.Now()
	_, err := runPull(t, ctx, &pull{model: newModel(t, 3), afterStep: end},
		Setup{Options: options, Folder: open(t, folder, identity, voxsaw.ModeNew), Observer: said})
	room(t, true)
	if !atomicfile.NoRoom(err) || Finished(folder) || time.Since(start) > 30*time.Second {
		t.Errorf("finished %v, %v", Finished(folder), err)
	}
	if _, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
		Setup{Options: options, Folder: open(t, folder, identity, voxsaw.ModeResume)}); err != nil ||
		!Finished(folder) {
		t.Errorf("resumed: finished %v, %v", Finished(folder), err)
	}
}

// lines are the steps in metrics.csv.
func lines(t *testing.T, folder string) (steps []string) {
	for _, line := range log(t, filepath.Join(folder, metricsFile))[1:] {
		step, _, _ := strings.Cut(line, ",")
		steps = append(steps, step)
	}
	return steps
}

// A run that is interrupted and cannot be saved says so, and is no run that was saved.
func TestInterruptedWithoutRoom(t *testing.T) {
	if childtest.InChild(t) {
		return
	}
	defer room(t, true)
	ctx, cancel := context.WithCancel(t.Context())
	task := &pull{model: newModel(t, 3), afterStep: func(step int) {
		if step == 7 {
			room(t, false)
			cancel()
		}
	}}
	_, err := runPull(t, ctx, task, Setup{Options: options, Folder: open(t, t.TempDir(), identity, voxsaw.ModeNew)})
	room(t, true)
	if !atomicfile.NoRoom(err) || errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "stopped after step 8, which could not be saved") {
		t.Errorf("got %v", err)
	}
}

// A gap in the log is said when a run is resumed, and what a killed process left is cleaned away.
func TestGapAndLeftOvers(t *testing.T) {
	folder := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	task := &pull{model: newModel(t, 3), afterStep: func(step int) {
		if step == 13 {
			cancel()
		}
	}}
	if _, err := runPull(t, ctx, task, Setup{Options: options,
		Folder: open(t, folder, identity, voxsaw.ModeNew)}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	edit := func(name string, keep func(step string) bool) {
		path := filepath.Join(folder, name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var kept []string
		for line := range strings.Lines(string(data)) {
			if step, _, _ := strings.Cut(line, ","); keep(step) {
				kept = append(kept, line)
			}
		}
		if err := os.WriteFile(path, []byte(strings.Join(kept, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	forget(t, folder)
	edit(metricsFile, func(step string) bool { return !slices.Contains([]string{"4", "8", "9", "10", "14"}, step) })
	edit(validationFile, func(step string) bool { return step != "12" })
	for _, name := range []string{".last.safetensors.4711.tmp", ".run.json.1.tmp"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said := &notes{}
	if _, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
		Setup{Options: options, Folder: open(t, folder, identity, voxsaw.ModeResume), Observer: said}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		fmt.Sprintf("%s has a gap: steps 4, 8 to 10, 14 are missing; the weights are those of step 14",
			filepath.Join(folder, metricsFile)),
		fmt.Sprintf("%s has a gap: it ends at step 6, and step 12 was validated",
			filepath.Join(folder, validationFile)),
	}
	if !slices.Equal(said.texts, want) {
		t.Errorf("said:\n%s\nwant\n%s", strings.Join(said.texts, "\n"), strings.Join(want, "\n"))
	}
	if left, err := filepath.Glob(filepath.Join(folder, ".*.tmp")); err != nil || len(left) > 0 {
		t.Errorf("left over: %q (%v)", left, err)
	}
}

// A batch that cannot be made ends the run, and the steps before it are saved.
func TestABatchThatCannotBeMade(t *testing.T) {
	folder := t.TempDir()
	broken := errors.New("case 3 is damaged")
	task := &brokenBatch{pull: &pull{model: newModel(t, 3)}, err: broken}
	optimizer, err := NewOptimizer(task.model, options, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	defer optimizer.Close()
	if _, err := Train(t.Context(), task, Setup{Options: options, Optimizer: optimizer,
		Folder: open(t, folder, identity, voxsaw.ModeNew)}); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	if d, err := checkpoint.Read(filepath.Join(folder, lastFile)); err != nil || d.Step != 9 {
		t.Errorf("saved after step %d, %v", d.Step, err)
	}
	said := &notes{}
	if s, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
		Setup{Options: options, Folder: open(t, folder, identity, voxsaw.ModeResume), Observer: said}); err != nil ||
		s.Step != 20 || len(said.texts) > 0 {
		t.Errorf("%+v, %v, %q", s, err, said.texts)
	}
	if rows := lines(t, folder); len(rows) != 20 {
		t.Errorf("the log has steps %v", rows)
	}
}

// brokenBatch cannot make the batch of step 9.
type brokenBatch struct {
	*pull
	err error
}

func (b *brokenBatch) Batch(ctx context.Context, step int) (targets, error) {
	if step == 9 {
		return nil, b.err
	}
	return b.pull.Batch(ctx, step)
}

// A validation that fails loses no step: what was trained is saved, at the end of the training
// before it is validated. The run goes on from there, to the same bits.
func TestAValidationThatFails(t *testing.T) {
	straight := t.TempDir()
	if _, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
		Setup{Options: options, Folder: open(t, straight, identity, voxsaw.ModeNew)}); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("case 7 has no label")
	for _, at := range []int{6, 20} { // in the middle, and at the end
		folder := t.TempDir()
		task := &pull{model: newModel(t, 3)}
		task.inValidate = func(step int) error {
			if step != at {
				return nil
			}
			if d, err := checkpoint.Read(filepath.Join(folder, lastFile)); at == options.Steps && (err != nil ||
				d.Step != at) {
				t.Errorf("before the last validation step %d is saved, %v", d.Step, err)
			}
			return broken
		}
		if _, err := runPull(t, t.Context(), task,
			Setup{Options: options, Folder: open(t, folder, identity, voxsaw.ModeNew)}); !errors.Is(err, broken) {
			t.Fatalf("got %v", err)
		}
		if d, err := checkpoint.Read(filepath.Join(folder, lastFile)); err != nil || d.Step != at || d.Validated == at {
			t.Errorf("step %d, validated %d, %v", d.Step, d.Validated, err)
		}
		if s, err := runPull(t, t.Context(), &pull{model: newModel(t, 3)},
			Setup{Options: options, Folder: open(t, folder, identity, voxsaw.ModeResume)}); err != nil || s.Step != 20 {
			t.Errorf("%+v, %v", s, err)
		}
		if want, got := tensors(t, filepath.Join(straight, lastFile)),
			tensors(t, filepath.Join(folder, lastFile)); !reflect.DeepEqual(got, want) {
			t.Errorf("a run whose validation failed after step %d ends with other weights", at)
		}
		if want, got := log(t, filepath.Join(straight, validationFile)),
			log(t, filepath.Join(folder, validationFile)); !slices.Equal(got, want) {
			t.Errorf("validations %q, want %q", got, want)
		}
	}
}
