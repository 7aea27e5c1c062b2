package spatial

import (
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/classify"
	"github.com/voxsaw/voxsaw/internal/classify/classifytest"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
)

func tinyRotation(t testing.TB) *Rotation {
	t.Helper()
	c := newRotation()
	c.Network = classifytest.Tiny()
	c.Crop, c.Features, c.Batch = [3]int{16, 16, 16}, 32, 4
	if err := c.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRotationIsLearnt(t *testing.T) {
	c := tinyRotation(t)
	c.Train.Steps, c.Train.LR = 120, 0.03
	classifytest.Learns(t, c, traintest.Phantoms(t, 14, [3]int{24, 20, 20}), 4)
}

func TestRotationGradients(t *testing.T) {
	classifytest.Gradients(t, tinyRotation(t), traintest.Phantoms(t, 2, [3]int{24, 20, 20}))
}

func TestRotationRunsAreRepeatable(t *testing.T) {
	c, store := tinyRotation(t), traintest.Phantoms(t, 4, [3]int{24, 20, 20})
	c.Train.Steps = 4
	classifytest.TwoRanks(t, c, store)
	classifytest.Resumes(t, c, store)
}

// The class says how the crop was turned, told here from where its voxels come from: the centre
// stays, 10 classes keep an axis, and class 3a+1 turns a quarter about axis a.
func TestCropsAreTurnedAsTheClassSays(t *testing.T) {
	of, where := classifytest.Numbered(t, [3]int{20, 18, 17})
	c := tinyRotation(t)
	task, err := c.Task(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	origin, patch := [3]int{2, 1, 0}, make([]float32, 16*16*16)
	for class := range 10 {
		if err := task.Cut(patch, of, origin, []int{class}, nil); err != nil {
			t.Fatal(err)
		}
		for at, x := range patch {
			to := [3]float64{float64(at%16) - 7.5, float64(at/16%16) - 7.5, float64(at/256) - 7.5}
			if class > 0 {
				axis := (class - 1) / 3
				b, d := (axis+1)%3, (axis+2)%3
				// numpy's rot90 from axis b to d: (p, q) of the result comes from (q, -p)
				for range (class-1)%3 + 1 {
					to[b], to[d] = to[d], -to[b]
				}
			}
			for axis, from := range where(x) {
				if want := to[axis] + 7.5 + float64(origin[axis]); float64(from) != want {
					t.Fatalf("class %d: voxel %d comes from %v, want %v along axis %d", class, at, where(x), want, axis)
				}
			}
		}
	}
}

func TestRotationMistakesAreNamed(t *testing.T) {
	classifytest.Mistakes(t, func() *Rotation { return tinyRotation(t) }, map[string]func(*Rotation){
		"only a cube":        func(c *Rotation) { c.Crop = [3]int{16, 16, 32} },
		"multiples of 2":     func(c *Rotation) { c.Crop = [3]int{15, 15, 15} },
		"rotations is 4":     func(c *Rotation) { c.Rotations = 4 },
		"batch is 0":         func(c *Rotation) { c.Batch = 0 },
		"features is 0":      func(c *Rotation) { c.Features = 0 },
		"max_air is 2":       func(c *Rotation) { c.MaxAir = 2 },
		"no network \"u\"":   func(c *Rotation) { c.Network.Kind = "u" },
		"there is no schedu": func(c *Rotation) { c.Train.Schedule = "x" },
	})
	puzzles := traintest.Checkpoint(t, "jigsaw")
	if _, err := classify.Open(t.Context(), traintest.Direct(t), puzzles, "rotation", newRotation(), nil,
		pretext.OpenOptions{}); err == nil || !strings.Contains(err.Error(), `kind "jigsaw"`) {
		t.Errorf("a checkpoint of puzzles: %v", err)
	}
}

// A step's arithmetic, of encoder and head, is what PyTorch counts, and is recorded.
func TestRotationFLOPs(t *testing.T) {
	c := tinyRotation(t)
	c.Network.Levels, c.Crop, c.Features, c.Batch, c.Train.Steps = 4, [3]int{32, 32, 32}, 24, 3, 2
	if err := c.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err != nil {
		t.Fatal(err)
	}
	_, step := traintest.FLOPs(t, "../..", "rotation")
	data := sample.Data{Store: traintest.Phantoms(t, 1, [3]int{32, 32, 32}), Train: []string{"case00"}}
	traintest.Counts(t, step, func(o voxsaw.RunOptions) (voxsaw.Summary, error) {
		return c.Pretrain(t.Context(), traintest.Direct(t), data, o)
	})
}
