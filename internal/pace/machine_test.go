package pace

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

func machine(t *testing.T, store *prepared.Store) *Machine {
	t.Helper()
	dev := cputest.New(t, cpu.Options{Threads: 1})
	return Machine{Device: dev, Hours: 0.001, Store: store, Timing: func(string) {}}.On(t.Context())
}

var small = planning.Work{Network: voxsaw.Network{Channels: 2, Levels: 1, Norm: "instance", Classes: 4},
	Crop: [3]int{16, 16, 16}, Batch: 1}

// Steps are those of the training on the user's cases. Where there are none to learn from, they are
// those on a made-up scan, of as many channels and labels as the plan is for, of which nothing
// stays.
func TestMachine(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	puzzle := planning.Puzzle{Work: small, Grid: [3]int{2, 2, 1}, Patch: [3]int{8, 8, 8}}
	puzzle.Crop, puzzle.Batch = [3]int{20, 20, 10}, 2
	two := small
	two.Network.Inputs = 2
	for _, c := range []struct {
		store  *prepared.Store
		work   planning.Work
		madeUp [2]bool // fine-tuning, puzzles
	}{
		{store(t, true), small, [2]bool{}}, {store(t, false), small, [2]bool{true, false}},
		{nil, small, [2]bool{true, true}}, {nil, two, [2]bool{true, true}},
	} {
		m := machine(t, c.store)
		if puzzle.Work.Network = c.work.Network; c.store == nil {
			m.Timing = func(what string) {
				if !strings.HasPrefix(what, "fine-tuning on crops of 16x16x16, 2 channels") &&
					what != "puzzles of 2x2x1 patches" {
					t.Errorf("timing %s", what)
				}
			}
		}
		tuned, err := m.Finetune(c.work)
		solved, errPuzzles := m.Pretrain(puzzle)
		if err := errors.Join(err, errPuzzles); err != nil {
			t.Fatal(err)
		}
		for n, got := range []planning.Timing{tuned, solved} {
			if got.Step <= 0 || got.Start < got.Step/4 || got.Steps < 1 || got.MadeUp != c.madeUp[n] {
				t.Errorf("training %d: %+v", n, got)
			}
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	m := machine(t, nil)
	m.Hours = 1000 // however long the plan is for, the later half of a hundred steps is enough
	if got, err := m.Finetune(small); err != nil || got.Steps > mostPlanned/2 {
		t.Errorf("%+v, %v", got, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	m = machine(t, nil)
	m.Timing = func(what string) { t.Errorf("timing %s, after the end", what) }
	if _, err := m.On(ctx).Finetune(small); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	if _, err := m.On(ctx).Pretrain(puzzle); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// The loop is the training's own: what it says of the cases, the trial says.
func TestMachineLearnsFromTheCases(t *testing.T) {
	v, l, err := phantom.New(1, phantom.Options{Shape: [3]int{30, 30, 30}})
	if err != nil {
		t.Fatal(err)
	}
	clear(l.Labels)
	bare := traintest.Store(t, volume.DefaultPreparation(), prepared.Input{ID: "a", Image: v, Labels: l})
	c := segment.DefaultConfig()
	c.Network, c.Crop, c.Train.Steps = small.Network, small.Crop, 1
	_, _, want := segment.Finetune(t.Context(), traintest.CPU(t), c, sample.Data{Store: bare, Train: []string{"a"}}, "",
		voxsaw.RunOptions{})
	if want == nil {
		t.Fatal("a training learns from a case without labels")
	}
	if _, err := machine(t, bare).Finetune(small); err == nil || err.Error() != want.Error() {
		t.Errorf("%v, want %v", err, want)
	}
}

// It learns the labels that will be learnt, and no others.
func TestMachineLearnsTheLabels(t *testing.T) {
	m := machine(t, store(t, true))
	one := small
	one.Network.Classes = 2
	m.Labels = []string{"liver"}
	if timing, err := m.Finetune(one); err != nil || timing.MadeUp {
		t.Errorf("%+v, %v", timing, err)
	}
	m.Labels = []string{"no organ"}
	if _, err := m.Finetune(one); err == nil || !strings.Contains(err.Error(), "no organ") {
		t.Errorf("a label that the cases have not: %v", err)
	}
}
