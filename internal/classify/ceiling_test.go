package classify_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/classify/classifytest"
	"github.com/voxsaw/voxsaw/internal/pretext"
	_ "github.com/voxsaw/voxsaw/internal/rubik"
	_ "github.com/voxsaw/voxsaw/internal/spatial"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Nobody can tell anything about air: of the classes that look the same one is told at most, and
// whether a patch was turned only by guessing.
func TestCeilingOfAir(t *testing.T) {
	grid := volume.Grid{Shape: [3]int{20, 20, 400}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	air := &volume.Volume{Grid: grid, Int16: make([]int16, grid.Len())}
	for i := range air.Int16 {
		air.Int16[i] = -1000
	}
	air.Int16[grid.Len()-1] = 0 // in no crop of this test: a scan of air alone cannot be prepared
	store := traintest.Store(t, volume.DefaultPreparation(), prepared.Input{ID: "air", Image: air})
	data := sample.Data{Store: store, Train: []string{"air"}}
	for name, want := range map[string][]float64{"rotation": {1.0 / 10}, "position": {1.0 / 26},
		"rubik": {1, 1.0 / 3, 2.0 / 3}} {
		task, err := pretext.Scans.Of(name)
		if err != nil {
			t.Fatal(err)
		}
		c := task.New()
		common := c.Common()
		*common.Network, *common.Crop, *common.Batch, common.Train.Steps = classifytest.Tiny(), [3]int{18, 18, 18}, 1, 1
		if err := c.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err != nil {
			t.Fatal(err)
		}
		run := filepath.Join(t.TempDir(), "run")
		if _, err := c.Pretrain(t.Context(), traintest.Direct(t), data, voxsaw.RunOptions{Folder: run}); err != nil {
			t.Fatal(err)
		}
		_, _, e, err := pretext.Scans.Open(t.Context(), traintest.Direct(t), filepath.Join(run, "last.safetensors"),
			pretext.OpenOptions{Items: 3})
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Evaluate(t.Context(), classifytest.Open(t, store, "air"))
		e.Close()
		if err != nil || len(got.Ceiling) != len(want) || len(got.Notes) != 1 {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		for k, ceiling := range got.Ceiling {
			if math.Abs(ceiling-want[k]) > 1e-12 {
				t.Errorf("%s: ceiling %v, want %v", name, got.Ceiling, want)
			}
		}
		if name == "rubik" && got.Items != 3 {
			t.Errorf("3 cubes were asked for, %d were made", got.Items)
		}
	}
}
