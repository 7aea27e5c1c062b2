package rubik

import (
	"testing"

	"github.com/voxsaw/voxsaw/internal/classify/classifytest"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/volume"
)

func tiny(t testing.TB) *Config {
	t.Helper()
	c := defaults()
	c.Network = classifytest.Tiny()
	c.Crop, c.Patch = [3]int{22, 18, 18}, [3]int{8, 6, 6}
	c.Features, c.Hidden, c.Classes, c.Batch = 16, 32, 12, 4
	if err := c.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err != nil {
		t.Fatal(err)
	}
	return c
}

// Four patches, because the rotations of eight smaller ones take too many steps for a test.
func TestPretrainingLearns(t *testing.T) {
	c := tiny(t)
	c.Grid, c.Crop, c.Patch = [3]int{2, 2, 1}, [3]int{24, 20, 18}, [3]int{10, 8, 14}
	c.Batch, c.Features, c.Hidden, c.Train.Steps, c.Train.LR = 8, 32, 64, 150, 0.03
	classifytest.Learns(t, c, traintest.Phantoms(t, 18, [3]int{24, 20, 20}), 6)
}

func TestGradients(t *testing.T) {
	classifytest.Gradients(t, tiny(t), traintest.Phantoms(t, 2, [3]int{24, 20, 20}))
}

func TestRunsAreRepeatable(t *testing.T) {
	c, store := tiny(t), traintest.Phantoms(t, 4, [3]int{24, 20, 20})
	c.Train.Steps, c.Intensity, c.Axes = 4, 0.2, 3
	classifytest.TwoRanks(t, c, store)
	classifytest.Resumes(t, c, store)
}

// A cube is what the truth about it says, told here from the numbers of its voxels: which cell lies
// in each slot, and along which axes the numbers run backwards. Patches lie wholly in their cells.
func TestCubesAreAsTheTruthSays(t *testing.T) {
	of, where := classifytest.Numbered(t, [3]int{25, 21, 20})
	c := tiny(t)
	c.Axes = 3
	task, err := c.Task(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const voxels = 8 * 6 * 6
	origin, cell, patches := [3]int{2, 1, 1}, [3]int{11, 9, 9}, make([]float32, 8*voxels)
	backwards := [][3]bool{{}, {false, true, true}, {true, true, false}, {true, false, true}}
	orders, starts := map[int][8]int{}, map[int]bool{}
	for draw := range 200 {
		r := seed.Rand(1, "test", uint64(draw))
		truth := []int{draw % 12}
		for range 8 {
			truth = append(truth, r.IntN(4))
		}
		if err := task.Cut(patches, of, origin, truth, r); err != nil {
			t.Fatal(err)
		}
		var order [8]int
		for slot := range 8 {
			first, last := where(patches[slot*voxels]), where(patches[(slot+1)*voxels-1])
			for axis := range 3 {
				low, high := first[axis], last[axis]
				if backwards[truth[1+slot]][axis] {
					low, high = high, low
				}
				at := (low - origin[axis]) / cell[axis]
				if high-low != c.Patch[axis]-1 || (high-origin[axis])/cell[axis] != at {
					t.Fatalf("rotation %d: a patch goes from %v to %v", truth[1+slot], first, last)
				}
				order[slot] = 2*order[slot] + at
				starts[low-origin[axis]-at*cell[axis]] = true
			}
		}
		if before, again := orders[truth[0]]; again && before != order {
			t.Fatalf("class %d is both %v and %v", truth[0], before, order)
		}
		orders[truth[0]] = order
	}
	if len(starts) < 3 {
		t.Errorf("patches begin at %d places of their cells", len(starts))
	}
	for a, x := range orders {
		seen, nearest := map[int]bool{}, 8
		for b, y := range orders {
			distance := 0
			for slot := range x {
				if x[slot] != y[slot] {
					distance++
				}
			}
			if a != b {
				nearest = min(nearest, distance)
			}
		}
		for _, cell := range x {
			seen[cell] = true
		}
		if len(seen) != 8 || nearest < 6 {
			t.Errorf("order %v: %d different cells, %d from the nearest other order", x, len(seen), nearest)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	classifytest.Mistakes(t, func() *Config { return tiny(t) }, map[string]func(*Config){
		"larger than a cell":     func(c *Config) { c.Patch = [3]int{12, 6, 6} },
		"at least one cell":      func(c *Config) { c.Grid[1] = 0 },
		"hidden is 0":            func(c *Config) { c.Hidden = 0 },
		"axes is 1":              func(c *Config) { c.Axes = 1 },
		"classes: 1 of the 8!":   func(c *Config) { c.Classes = 1 },
		"criterion \"far\"":      func(c *Config) { c.Criterion = "far" },
		"intensity is -1":        func(c *Config) { c.Intensity = -1 },
		"validate_shuffles is 0": func(c *Config) { c.ValidateShuffles = 0 },
		"batch is 0":             func(c *Config) { c.Batch = 0 },
	})
}
