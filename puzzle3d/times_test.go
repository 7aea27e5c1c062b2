package puzzle3d

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/patches"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
)

// frames is a 4D scan whose voxels say where and when they are: i + 10j + 100k + 1000t.
type frames struct{ size [3]int }

func (f frames) Name() string                             { return "frames" }
func (f frames) Size() [3]int                             { return f.size }
func (f frames) Channels() int                            { return 7 }
func (f frames) AirFraction(_, _ [3]int) (float64, error) { return 0, nil }
func (f frames) Range(int) [2]float32                     { return [2]float32{0, 7000} }
func (f frames) Crop(dst []float32, at, size [3]int) error {
	n := 0
	for t := range f.Channels() {
		for k := range size[2] {
			for j := range size[1] {
				for i := range size[0] {
					dst[n] = float32(at[0] + i + 10*(at[1]+j) + 100*(at[2]+k) + 1000*t)
					n++
				}
			}
		}
	}
	return nil
}

// A patch of a 4D puzzle is one time of its cell, in voxels of its cell: of seven times in three
// cells, two each, the seventh is left over.
func TestPatchesOfTimes(t *testing.T) {
	layout := patches.Layout{Grid: [3]int{2, 1, 2}, Crop: [3]int{8, 4, 6}, Patch: [3]int{3, 2, 2}, Channels: 7,
		Times: 3}
	if layout.Cells() != 12 || layout.Values() != 12 {
		t.Fatalf("%d cells of %d values", layout.Cells(), layout.Values())
	}
	cut := make([]float32, layout.Cells()*layout.Values())
	shown := map[int]bool{}
	for seed := range uint64(40) {
		var r *rand.Rand
		if seed > 0 {
			r = rand.New(rand.NewPCG(seed, 0))
		}
		if err := layout.Cut(cut, frames{[3]int{20, 20, 20}}, [3]int{1, 3, 5}, r); err != nil {
			t.Fatal(err)
		}
		for cell := range layout.Cells() {
			first := int(cut[cell*layout.Values()])
			at := [4]int{first % 10, first / 10 % 10, first / 100 % 10, first / 1000}
			// cells in row-major order, the last axis fastest
			want := [4]int{cell / 6, 0, cell / 3 % 2, cell % 3}
			within := [4]int{(at[0] - 1) / 4, (at[1] - 3) / 4, (at[2] - 5) / 3, at[3] / 2}
			if within != want {
				t.Fatalf("seed %d: the patch of cell %d begins at %v, in cell %v, want %v", seed, cell, at, within,
					want)
			}
			shown[at[3]] = true
			if last := int(cut[(cell+1)*layout.Values()-1]); last != first+2+10+100 {
				t.Fatalf("seed %d: a patch goes from %d to %d", seed, first, last)
			}
		}
	}
	if len(shown) != 6 || shown[6] {
		t.Errorf("times %v were shown, want 0 to 5", shown)
	}
}

// bolus is a 4D scan that grows brighter with time, and the store of one such scan a name.
type bolus struct{ frames }

func (b bolus) Crop(dst []float32, at, size [3]int) error {
	r := rand.New(rand.NewPCG(uint64(at[0]), uint64(at[1])))
	for n := range dst {
		dst[n] = float32(r.NormFloat64()/8) + float32(n*b.Channels()/len(dst))/8
	}
	return nil
}

func (b bolus) Sample(string) (sample.Sample, error) { return b, nil }
func (b bolus) Fingerprint() string                  { return "bolus" }
func (b bolus) Preparation() volume.Preparation {
	how := volume.DefaultPreparation()
	how.Channels = "1,2,3,4,5,6,7"
	return how
}

// Puzzles of time alone are learnt: of a scan that grows brighter, each patch tells when it is.
func TestTimesAreLearnt(t *testing.T) {
	c := tiny()
	c.Grid, c.Patch, c.MaxAir = [4]int{1, 1, 1, 3}, [3]int{8, 8, 8}, 1
	c.Network.Norm, c.Batch = "none", 4
	c.Train.Steps, c.Train.LR, c.Train.Warmup = 60, 0.02, 0
	store := bolus{frames{[3]int{40, 40, 40}}}
	data := sample.Data{Store: store, Train: []string{"a", "b"}, Validate: []string{"c", "d", "e", "f"}}
	summary, err := Pretrain(t.Context(), testDevice(t), c, data, voxsaw.RunOptions{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if summary.Validation.Score < 0.9 {
		t.Errorf("%.2f of the patches are in their place, by chance 0.33", summary.Validation.Score)
	}
}

// The network of a 4D puzzle looks at one time, and the puzzles have a fourth axis. What cannot be
// is refused.
func TestTimes(t *testing.T) {
	how := volume.DefaultPreparation()
	how.Channels = "a,b,c"
	c := tiny()
	c.Grid[3] = 3
	c, err := c.Resolve(traintest.Prepared{How: how})
	if err != nil {
		t.Fatal(err)
	}
	game, err := c.game(t.Context())
	if err != nil || game.Grid.String() != "2x2x2x3" || game.Channels != 1 || c.Network.InputChannels() != 1 {
		t.Errorf("grid %v, %d channels, network of %d: %v", game.Grid, game.Channels, c.Network.InputChannels(), err)
	}
	for _, broken := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Grid[3] = 4 }, "the grid has 4 cells along time, and the samples have 3 channels"},
		{func(c *Config) { c.Preparation = volume.DefaultPreparation() }, "along time, and the samples have 1 channel"},
		{func(c *Config) { c.Grid[3] = -1 }, "at least one cell"},
		{func(c *Config) { c.Times = 3 }, "leave times out of the file"},
		{func(c *Config) { c.Grids = []string{"2x2x2x3", "2x2x2"} }, "2x2x2x3 has 4 axes and 2x2x2 has 3"},
		{func(c *Config) { c.Restore = 1 }, "cannot be restored"},
		{func(c *Config) { c.Preparation.Modality = "CT,MR,CT" }, "channels a and b are prepared as different things"},
	} {
		wrong := c
		broken.change(&wrong)
		if err := wrong.Check(); err == nil || !strings.Contains(err.Error(), broken.want) {
			t.Errorf("%v, want %q", err, broken.want)
		}
	}
	several := c
	several.Grid, several.Grids = DefaultConfig().Grid, []string{"2x1x1x2", "2x2x2x3"}
	if several, err = several.Resolve(traintest.Prepared{How: how}); err != nil {
		t.Fatal(err)
	}
	if list, err := several.grids(); err != nil || list[0].String() != "2x1x1x2" || list[1].String() != "2x2x2x3" {
		t.Errorf("grids %v, %v", list, err)
	}
	if several.Grid != [4]int{2, 2, 2, 3} || several.on(puzzle.Grid{2, 1, 1, 2}).layout().Times != 2 {
		t.Errorf("the finest grid is %v", several.Grid)
	}
}

// Settings of earlier runs, whose fourth axis is apart, make the same puzzles. They stay as they
// are written, so that these runs are resumed.
func TestTimesApart(t *testing.T) {
	how := volume.DefaultPreparation()
	how.Channels = "a,b,c"
	for spelled, apart := range map[string]string{
		"grid: 2x2x2x3":               "{grid: [2, 2, 2], times: 3}",
		"grids: [2x2x2x3, 2x2x1x3]":   "{grids: [2x2x2, 2x2x1], times: 3}",
		"{grid: [1, 1, 1, 2]}":        "{grid: 1, times: 2}",
		"grids: [2x1x1x3, 2x2x1x3]\n": "{grids: [2x1x1, 2x2x1], times: 3, grid: [2, 2, 1]}",
	} {
		var written [2]string
		var games [2]jigsaw.Config
		var layouts [2]patches.Layout
		for n, text := range []string{spelled, apart} {
			c := settings{tiny()}
			c.Grid = DefaultConfig().Grid
			err := config.Stored("settings", []byte(text), &c)
			if err == nil {
				err = c.Resolve(traintest.Prepared{How: how})
			}
			if err == nil {
				games[n], err = c.game(t.Context())
			}
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			layouts[n] = c.smallestCells()
			out, err := config.Marshal(&c)
			if err != nil {
				t.Fatal(err)
			}
			written[n] = string(out)
		}
		if !reflect.DeepEqual(games[0], games[1]) || layouts[0] != layouts[1] {
			t.Errorf("%s is %+v, %s is %+v", spelled, games[0], apart, games[1])
		}
		if strings.Contains(written[0], "\ntimes:") ||
			strings.Contains(written[1], "\ntimes:") != strings.Contains(apart, "times") {
			t.Errorf("%s is written\n%s\nand %s\n%s", spelled, written[0], apart, written[1])
		}
	}
}
