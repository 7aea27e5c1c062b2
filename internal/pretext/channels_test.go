package pretext_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/pretext"
	_ "github.com/voxsaw/voxsaw/internal/restoration"
	_ "github.com/voxsaw/voxsaw/internal/rubik"
	_ "github.com/voxsaw/voxsaw/internal/spatial"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	_ "github.com/voxsaw/voxsaw/puzzle3d"
	"github.com/voxsaw/voxsaw/sample"
)

// Every task is learnt from scans of two channels, which its network takes both, and done on them.
func TestTasksOfTwoChannels(t *testing.T) {
	store := traintest.TwoChannels(t, 3, [3]int{40, 36, 36})
	data := sample.Data{Store: store, Train: []string{"case00", "case01"}, Validate: []string{"case02"}}
	held, err := sample.Open(store, data.Validate)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pretext.Scans.Names() {
		t.Run(name, func(t *testing.T) {
			task, err := pretext.Scans.Of(name)
			if err != nil {
				t.Fatal(err)
			}
			c := task.New()
			common := c.Common()
			*common.Network = voxsaw.Network{Preset: "paper", Channels: 4, Levels: 1, Norm: "instance"}
			*common.Crop, *common.Batch, common.Train.Steps = [3]int{32, 32, 32}, 2, 2
			if err := c.Resolve(store); err != nil {
				t.Fatal(err)
			}
			if common.Network.Inputs != 2 {
				t.Errorf("a network of %d inputs", common.Network.Inputs)
			}
			run := filepath.Join(t.TempDir(), "run")
			summary, err := c.Pretrain(t.Context(), traintest.Direct(t), data, voxsaw.RunOptions{Folder: run})
			if err != nil {
				t.Fatal(err)
			}
			_, d, e, err := pretext.Scans.Open(t.Context(), traintest.Direct(t), filepath.Join(run, "last.safetensors"),
				pretext.OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if how, err := d.Preparation(); err != nil || how.Channels != "T1w,FLAIR" {
				t.Errorf("%+v, %v", how, err)
			}
			got, err := e.Evaluate(t.Context(), held)
			if err != nil || math.Abs(got.Final()[got.Score]-summary.Validation.Score) > 1e-6 {
				t.Errorf("%+v, %v; the last validation scored %v", got, err, summary.Validation.Score)
			}
			if _, err := e.Picture(held[0]); err != nil {
				t.Error(err)
			}
			other := traintest.Phantoms(t, 1, [3]int{40, 36, 36})
			one, err := sample.Open(other, []string{"case00"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Evaluate(t.Context(), one); err == nil || !strings.Contains(err.Error(), "in 1 channel") {
				t.Errorf("a scan of one channel: %v", err)
			}
		})
	}
}
