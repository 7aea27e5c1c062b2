package segment

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
)

// microBatched is a configuration whose batch of 4 goes through the network in n micro-batches.
func microBatched(n int) Config {
	c := tiny()
	c.Crop, c.Batch, c.Train.Steps, c.Train.Accumulate = [3]int{16, 16, 8}, 4, 4, n
	return c
}

// Micro-batches, and micro-batches on ranks, leave the weights of the whole batch at once: the Dice
// loss of a batch is no mean of its parts' losses.
func TestMicroBatchesEqualTheBatch(t *testing.T) {
	store := phantoms(t, 3, [3]int{24, 20, 16})
	data := sample.Data{Store: store, Train: []string{"case00", "case01"}, Validate: []string{"case02"}}
	for _, optimizer := range []string{"sgd", "adamw"} {
		run := func(n int) string {
			c := microBatched(n)
			if c.Train.Optimizer = optimizer; optimizer == "adamw" {
				c.Train.LR = 1e-4 // see rates in mpi_test.go
			}
			folder := filepath.Join(t.TempDir(), "run")
			if _, _, err := Finetune(t.Context(), directDevice(t), resolved(t, c, store), data, "",
				voxsaw.RunOptions{Folder: folder}); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(folder, "last.safetensors")
		}
		whole := run(0)
		for _, n := range []int{2, 4} {
			traintest.Close(t, whole, run(n), 1e-5)
		}
	}
	twoRanks(t, data, resolved(t, microBatched(2), store))
}

// A run of micro-batches that is stopped and resumed leaves the bits of one that ran through.
func TestMicroBatchesResumeToTheBit(t *testing.T) {
	store := phantoms(t, 3, [3]int{24, 20, 16})
	data, c := sample.Data{Store: store, Train: []string{"case00", "case01"}}, resolved(t, microBatched(2), store)
	folder := t.TempDir()
	run := func(ctx context.Context, name string, mode voxsaw.Mode, watch voxsaw.Observer) error {
		_, _, err := Finetune(ctx, directDevice(t), c, data, "", voxsaw.RunOptions{Folder: filepath.Join(folder, name),
			Mode: mode, Observer: watch})
		return err
	}
	if err := run(t.Context(), "through", voxsaw.ModeNew, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stopped *voxsaw.InterruptedError
	if err := run(ctx, "stopped", voxsaw.ModeNew, &observer{stepped: func(step int) {
		if step == 2 {
			cancel()
		}
	}}); !errors.As(err, &stopped) {
		t.Fatalf("the run was not stopped: %v", err)
	}
	if err := run(t.Context(), "stopped", voxsaw.ModeResume, nil); err != nil {
		t.Fatal(err)
	}
	traintest.Equal(t, filepath.Join(folder, "through", "last.safetensors"),
		filepath.Join(folder, "stopped", "last.safetensors"), 0)
}

func TestMicroBatchesThatCannotBe(t *testing.T) {
	store := phantoms(t, 3, [3]int{24, 20, 16})
	for want, c := range map[string]func(*Config){
		"cannot be divided evenly over 3 micro-batches: take a multiple of 3, such as 3 or 6": func(c *Config) {
			c.Train.Accumulate = 3
		},
		"several micro-batches cannot share": func(c *Config) {
			c.Network.Norm = "batch"
		},
	} {
		settings, folder := microBatched(2), filepath.Join(t.TempDir(), "run")
		c(&settings)
		_, _, err := Finetune(t.Context(), directDevice(t), resolved(t, settings, store),
			sample.Data{Store: store, Train: []string{"case00"}}, "", voxsaw.RunOptions{Folder: folder})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// One rank's loss that is not finite ends the step on all.
func TestMicroBatchesThatDivergeOnOneRank(t *testing.T) {
	store := phantoms(t, 3, [3]int{24, 20, 16})
	c := microBatched(2)
	c.Train.LR, c.Train.Clip, c.Train.Warmup, c.Train.Steps = 1e30, 0, 0, 20
	c = resolved(t, c, store)
	errs, devices := make([]error, 2), []voxsaw.Device{directDevice(t), directDevice(t)}
	var all sync.WaitGroup
	for rank, group := range traintest.Ranks(2) {
		all.Go(func() {
			_, _, errs[rank] = finetune(t.Context(), devices[rank], c,
				sample.Data{Store: store, Train: []string{"case00"}}, "",
				voxsaw.RunOptions{}, group)
		})
	}
	all.Wait()
	for rank, err := range errs {
		if diverged := (*voxsaw.DivergedError)(nil); !errors.As(err, &diverged) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}
