package segment

import (
	"encoding/csv"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
)

// Gradients that are sent in bfloat16 leave the same weights on all ranks, close to those of
// float32, and a loss curve that is the same to the eye.
func TestGradientsSentInBF16(t *testing.T) {
	store := phantoms(t, 3, [3]int{24, 20, 16})
	run := func(reduce string, ranks int) string {
		c := microBatched(0)
		c.Train.Steps, c.Train.Reduce = 10, reduce
		c = resolved(t, c, store)
		folder, errs := t.TempDir(), make([]error, ranks)
		var all sync.WaitGroup
		for rank, group := range traintest.Ranks(ranks) {
			dev := directDevice(t)
			all.Go(func() {
				_, _, errs[rank] = finetune(t.Context(), dev, c,
					sample.Data{Store: store, Train: []string{"case00", "case01"}}, "",
					voxsaw.RunOptions{Folder: filepath.Join(folder, strconv.Itoa(rank))}, group)
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for rank := 1; rank < ranks; rank++ {
			traintest.Equal(t, filepath.Join(folder, "0", "last.safetensors"), filepath.Join(folder, strconv.Itoa(rank),
				"last.safetensors"), 0)
		}
		return filepath.Join(folder, "0")
	}
	exact := run("fp32", 2)
	for _, ranks := range []int{2, 4} {
		rounded := run("bf16", ranks)
		traintest.Close(t, filepath.Join(exact, "last.safetensors"), filepath.Join(rounded, "last.safetensors"), 5e-4)
		apart := 0.0
		a, b := losses(t, exact), losses(t, rounded)
		for step := range a {
			apart = max(apart, math.Abs(a[step]-b[step])/a[step])
		}
		t.Logf("%d ranks: losses differ by %.2g at most, relatively", ranks, apart)
		if apart == 0 || apart > 5e-4 {
			t.Errorf("%d ranks: losses differ by %.2g, relatively: want more than nothing, and 5e-4 at most", ranks,
				apart)
		}
	}
}

// losses are those of the steps of a run.
func losses(t *testing.T, folder string) (all []float64) {
	t.Helper()
	f, err := os.Open(filepath.Join(folder, "metrics.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 || rows[0][1] != "loss" {
		t.Fatalf("%v, %d rows", err, len(rows))
	}
	for _, row := range rows[1:] {
		loss, err := strconv.ParseFloat(row[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, loss)
	}
	return all
}
