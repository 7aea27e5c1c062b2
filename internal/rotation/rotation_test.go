package rotation

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Quarter turns are numpy's: with a = arange(27).reshape(3, 3, 3), whose axes are (k, j, i),
// numpy.rot90(a, axes=(2-b, 2-c)).ravel() for the axes b and c after each axis.
func TestQuartersAreNumpys(t *testing.T) {
	cube := make([]float32, 27)
	for i := range cube {
		cube[i] = float32(i)
	}
	for axis, want := range [][]float32{
		{18, 19, 20, 9, 10, 11, 0, 1, 2, 21, 22, 23, 12, 13, 14, 3, 4, 5, 24, 25, 26, 15, 16, 17, 6, 7, 8},
		{2, 11, 20, 5, 14, 23, 8, 17, 26, 1, 10, 19, 4, 13, 22, 7, 16, 25, 0, 9, 18, 3, 12, 21, 6, 15, 24},
		{6, 3, 0, 7, 4, 1, 8, 5, 2, 15, 12, 9, 16, 13, 10, 17, 14, 11, 24, 21, 18, 25, 22, 19, 26, 23, 20},
	} {
		got := make([]float32, 27)
		quarter(axis).apply(got, cube, 3)
		if !slices.Equal(got, want) {
			t.Errorf("axis %d: %v, want %v", axis, got, want)
		}
	}
}

// All turns are different, one after another is what `then` says, and none is a mirror image.
func TestTurnsAreRotations(t *testing.T) {
	cube := make([]float32, 27)
	for i := range cube {
		cube[i] = float32(i)
	}
	for _, n := range []int{10, 24} {
		list := turns(n)
		if len(list) != n || list[0] != identity {
			t.Fatalf("%d turns, the first %+v", len(list), list[0])
		}
		seen := map[string]bool{}
		for _, a := range list {
			turned := make([]float32, 27)
			a.apply(turned, cube, 3)
			seen[fmt.Sprint(turned)] = true
			if a.determinant() != 1 {
				t.Errorf("%+v is a mirror image", a)
			}
			for _, b := range list {
				twice, once := make([]float32, 27), make([]float32, 27)
				b.apply(twice, turned, 3)
				a.then(b).apply(once, cube, 3)
				if !slices.Equal(twice, once) {
					t.Fatalf("%+v then %+v: %v, want %v", a, b, once, twice)
				}
			}
		}
		if len(seen) != n {
			t.Errorf("%d of %d turns are different", len(seen), n)
		}
	}
}

// determinant of the matrix of a turn.
func (t turn) determinant() int {
	sign := 1
	for a := range 3 {
		if t.flip[a] {
			sign = -sign
		}
		for b := range a {
			if t.from[b] > t.from[a] {
				sign = -sign
			}
		}
	}
	return sign
}

var testDevice, phantoms = traintest.CPU, traintest.Phantoms

func data(store *prepared.Store, held int) pretext.Data {
	d := pretext.Data{Store: store}
	for record := range store.Records() {
		if len(d.Validate) < held {
			d.Validate = append(d.Validate, record.ID)
		} else {
			d.Train = append(d.Train, record.ID)
		}
	}
	return d
}

func tiny(t *testing.T) *Config {
	t.Helper()
	c := defaults()
	c.Network = voxsaw.Network{Preset: "paper", Channels: 4, Levels: 1, Norm: "instance"}
	c.Crop, c.Features, c.Batch = [3]int{16, 16, 16}, 32, 4
	if err := c.Resolve(volume.DefaultPreparation()); err != nil {
		t.Fatal(err)
	}
	return c
}

// Rotations of patients never seen are told far better than by guessing, which tells one in ten;
// the checkpoint opens, scores the same and is drawn.
func TestPretrainingLearns(t *testing.T) {
	store, dev, c := phantoms(t, 14, [3]int{24, 20, 20}), testDevice(t), tiny(t)
	c.Train.Steps, c.Train.LR = 120, 0.03
	run := filepath.Join(t.TempDir(), "run")
	summary, err := c.Pretrain(t.Context(), dev, data(store, 4), voxsaw.RunOptions{Folder: run, Loaders: 1})
	if err != nil {
		t.Fatal(err)
	}
	if summary.Validation.Score < 0.5 {
		t.Errorf("%.2f of the rotations are told; chance is 0.1", summary.Validation.Score)
	}
	task, description, e, err := pretext.Open(dev, filepath.Join(run, "last.safetensors"), pretext.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if task.Name != "rotation" || len(description.TrainedOn) != 10 {
		t.Errorf("task %s, trained on %v", task.Name, description.TrainedOn)
	}
	var held []*prepared.Case
	for _, id := range data(store, 4).Validate {
		c, err := store.Open(id)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	got, err := e.Evaluate(t.Context(), held)
	if err != nil || got.Final()[0] != summary.Validation.Score || got.Items != 40 || got.Chance[0] != 0.1 {
		t.Errorf("%+v, %v; the last validation scored %v", got, err, summary.Validation.Score)
	}
	picture, err := e.Picture(held[0])
	if err != nil || picture.Image.Bounds().Dx() < 8*tileSize || !strings.Contains(picture.Caption, held[0].ID) {
		t.Errorf("%q, %v", picture.Caption, err)
	}
}

func TestTwoRanksEqualOne(t *testing.T) {
	store, c := phantoms(t, 4, [3]int{24, 20, 20}), tiny(t)
	c.Train.Steps = 4
	direct := func() voxsaw.Device { // fast transforms are chosen by the batch, and round
		dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{Threads: 2, Conv: "direct"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		return dev
	}
	folders := []string{filepath.Join(t.TempDir(), "0"), filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "alone")}
	if _, err := c.Pretrain(t.Context(), direct(), data(store, 1), voxsaw.RunOptions{Folder: folders[2]}); err != nil {
		t.Fatal(err)
	}
	devices, errs := []voxsaw.Device{direct(), direct()}, make([]error, 2)
	var all sync.WaitGroup
	for rank, group := range traintest.Ranks(2) {
		all.Go(func() {
			_, errs[rank] = c.pretrain(t.Context(), devices[rank], data(store, 1), voxsaw.RunOptions{Folder: folders[rank]}, group)
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	last := func(n int) string { return filepath.Join(folders[n], "last.safetensors") }
	traintest.Equal(t, last(0), last(1), 0)
	traintest.Equal(t, last(2), last(0), 2e-4)
}

func TestMistakesAreNamed(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"only a cube":        func(c *Config) { c.Crop = [3]int{16, 16, 32} },
		"multiples of 2":     func(c *Config) { c.Crop = [3]int{15, 15, 15} },
		"rotations is 4":     func(c *Config) { c.Rotations = 4 },
		"batch is 0":         func(c *Config) { c.Batch = 0 },
		"max_air is 2":       func(c *Config) { c.MaxAir = 2 },
		"no network \"u\"":   func(c *Config) { c.Network.Kind = "u" },
		"there is no schedu": func(c *Config) { c.Train.Schedule = "x" },
	} {
		c := tiny(t)
		spoil(c)
		if err := c.Resolve(volume.DefaultPreparation()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := open(testDevice(t), filepath.Join("..", "..", "testdata", "format1_pretrain.safetensors"), pretext.OpenOptions{}); err == nil || !strings.Contains(err.Error(), `kind "jigsaw"`) {
		t.Errorf("a checkpoint of puzzles: %v", err)
	}
}
