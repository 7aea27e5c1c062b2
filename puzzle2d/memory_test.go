package puzzle2d

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw"
)

// An estimate is what a run plans, to the byte: with so much it runs as without a limit, with a
// KiB less it saves some or has too little; and it leaves no folder.
func TestEstimates(t *testing.T) {
	store, root := vocOf(t, nil)
	dev, data := open(t), Split(store)
	sides, _ := roles(t, store, OnTrain)
	puzzles, classes := small(), DefaultClassification(Rotation)
	classes.Network, classes.Train, classes.Crop, classes.Batch = puzzles.Network, puzzles.Train, 56, 8
	type runOf func(context.Context, voxsaw.RunOptions) (voxsaw.Summary, error)
	type estimateOf func(context.Context, voxsaw.RunOptions) (voxsaw.MemoryNeed, error)
	check := func(name string, run runOf, estimate estimateOf) {
		folder := filepath.Join(t.TempDir(), "run")
		need, err := estimate(t.Context(), voxsaw.RunOptions{Folder: folder, Memory: 1 << 30})
		if err != nil || need.Bytes <= 0 || need.Limit != 1<<30 || need.FLOPs <= 0 {
			t.Fatalf("%s: %+v, %v", name, need, err)
		}
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%s: the estimate took the folder", name)
		}
		step := func(memory int64) []string {
			var notes noteTaker
			if _, err := run(t.Context(), voxsaw.RunOptions{Memory: memory, Observer: &notes}); err != nil {
				return []string{err.Error()}
			}
			return notes
		}
		free, just, less := step(0), step(need.Bytes), step(need.Bytes-1<<10)
		if !slices.Equal(free, just) || slices.Equal(free, less) {
			t.Errorf("%s: without a limit %q; with what is needed %q; with a KiB less %q", name, free, just, less)
		}
	}
	puzzles.Train.Steps, classes.Train.Steps = 1, 1
	puzzles.Train.Warmup, classes.Train.Warmup = 0, 0
	check("puzzles", func(ctx context.Context, o voxsaw.RunOptions) (voxsaw.Summary, error) {
		return Pretrain(ctx, dev, puzzles, data, o)
	}, func(ctx context.Context, o voxsaw.RunOptions) (voxsaw.MemoryNeed, error) {
		return EstimateMemory(ctx, dev, puzzles, data, o)
	})
	check("classes", func(ctx context.Context, o voxsaw.RunOptions) (voxsaw.Summary, error) {
		return TrainClassifier(ctx, dev, classes, data, o)
	}, func(ctx context.Context, o voxsaw.RunOptions) (voxsaw.MemoryNeed, error) {
		return EstimateClassifierMemory(ctx, dev, classes, data, o)
	})
	for name, task := range map[string]Finetuning{Classify: smallClassify(), Detect: smallDetect(root)} {
		task.Settings().Train.Steps, task.Settings().Train.Warmup, task.Settings().Checkpoint = 1, 0, Random
		task = resolvedFor(t, task, store, OnTrain)
		check(name, func(ctx context.Context, o voxsaw.RunOptions) (voxsaw.Summary, error) {
			return task.Run(ctx, dev, sides, o)
		}, func(ctx context.Context, o voxsaw.RunOptions) (voxsaw.MemoryNeed, error) {
			return EstimateFinetuneMemory(ctx, dev, task, sides, o)
		})
	}
}
