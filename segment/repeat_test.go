package segment

import (
	"maps"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
)

// A training with the same number of threads ends with the same bits, whatever the threads do when.
// With another number convolutions are cut and added up in other places: the weights differ by
// rounding.
func TestRepeatable(t *testing.T) {
	if testing.Short() {
		t.Skip("trains four times")
	}
	store := phantoms(t, 2, [3]int{40, 36, 33})
	c := tiny()
	c.Network = voxsaw.Network{Preset: "paper", Channels: 8, Levels: 3, Norm: "instance"}
	c.Crop = [3]int{24, 24, 24}
	c.Train.Steps, c.Train.Warmup = 2, 0
	c = resolved(t, c, store)
	weights := func(threads int) map[string][]float32 {
		dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		run := filepath.Join(t.TempDir(), "run")
		if _, _, err := Finetune(t.Context(), dev, c, sample.Data{Store: store, Train: []string{"case00", "case01"}},
			"",
			voxsaw.RunOptions{Folder: run}); err != nil {
			t.Fatal(err)
		}
		return tensors(t, filepath.Join(run, "last.safetensors"))
	}
	want := weights(2)
	for _, threads := range []int{2, 1, 3} {
		got := weights(threads)
		difference, norm, equal := 0.0, 0.0, true
		for name, values := range want {
			for i, w := range values {
				g := got[name][i]
				equal = equal && math.Float32bits(g) == math.Float32bits(w)
				difference += float64(g-w) * float64(g-w)
				norm += float64(w) * float64(w)
			}
		}
		relative := math.Sqrt(difference / norm)
		t.Logf("%d threads against 2: relative difference of the weights after %d steps %.1e", threads, c.Train.Steps,
			relative)
		if threads == 2 && !equal {
			t.Errorf("two trainings with 2 threads differ by %v", relative)
		}
		if !(relative < 1e-4) {
			t.Errorf("%d threads and 2 differ by %v", threads, relative)
		}
	}
}

// tensors reads the weights of a checkpoint.
func tensors(t *testing.T, path string) map[string][]float32 {
	t.Helper()
	all := traintest.Tensors(t, path)
	maps.DeleteFunc(all, func(name string, _ []float32) bool { return strings.HasPrefix(name, checkpoint.StatePrefix) })
	return all
}
