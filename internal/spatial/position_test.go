package spatial

import (
	"testing"

	"github.com/voxsaw/voxsaw/internal/classify/classifytest"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/volume"
)

func tinyPosition(t testing.TB) *Position {
	t.Helper()
	c := newPosition()
	c.Network = classifytest.Tiny()
	c.Crop, c.Patch = [3]int{24, 21, 18}, [3]int{6, 6, 4}
	c.Features, c.Hidden, c.Batch = 16, 32, 4
	if err := c.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPositionIsLearnt(t *testing.T) {
	c := tinyPosition(t)
	c.Batch, c.Features, c.Hidden, c.Train.Steps, c.Train.LR = 16, 32, 64, 100, 0.03
	classifytest.Learns(t, c, traintest.Phantoms(t, 14, [3]int{26, 22, 20}), 4)
}

func TestPositionGradients(t *testing.T) {
	classifytest.Gradients(t, tinyPosition(t), traintest.Phantoms(t, 2, [3]int{26, 22, 20}))
}

func TestPositionRunsAreRepeatable(t *testing.T) {
	c, store := tinyPosition(t), traintest.Phantoms(t, 4, [3]int{26, 22, 20})
	c.Train.Steps, c.Intensity = 4, 0.2
	classifytest.TwoRanks(t, c, store)
	classifytest.Resumes(t, c, store)
}

// The class says where the second patch comes from, told here from the numbers of its voxels: the
// cells of both, and from these the step between them. Patches lie wholly in their cells, anywhere
// in training, in the middle afterwards; so the gap between them cannot be relied on.
func TestPatchesLieAsTheClassSays(t *testing.T) {
	of, where := classifytest.Numbered(t, [3]int{27, 24, 20})
	c := tinyPosition(t)
	task, err := c.Task(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	origin, cell, voxels := [3]int{3, 1, 2}, [3]int{8, 7, 6}, 6*6*4
	steps, gaps := map[[3]int]bool{}, map[int]bool{}
	for class := range 26 {
		for draw := range 20 {
			r := seed.Rand(1, "test", uint64(class), uint64(draw))
			if draw == 0 {
				r = nil
			}
			patches := make([]float32, 2*voxels)
			if err := task.Cut(patches, of, origin, []int{class}, r); err != nil {
				t.Fatal(err)
			}
			var first, last [2][3]int
			for p := range 2 {
				first[p], last[p] = where(patches[p*voxels]), where(patches[(p+1)*voxels-1])
			}
			var step [3]int
			for axis := range 3 {
				var at [2]int
				for p := range 2 {
					at[p] = (first[p][axis] - origin[axis]) / cell[axis]
					if last[p][axis]-first[p][axis] != c.Patch[axis]-1 ||
						(last[p][axis]-origin[axis])/cell[axis] != at[p] {
						t.Fatalf("class %d: patch %d goes from %v to %v", class, p, first[p], last[p])
					}
					if within := first[p][axis] - origin[axis] - at[p]*cell[axis]; r == nil &&
						within != (cell[axis]-c.Patch[axis])/2 {
						t.Fatalf("class %d: without jitter, patch %d begins %d voxels into its cell", class, p, within)
					}
				}
				if at[0] != 1 {
					t.Fatalf("class %d: the first patch lies in cell %d along axis %d", class, at[0], axis)
				}
				step[axis] = at[1] - at[0]
			}
			// classes go through the 26 steps with the last axis fastest
			want := (step[0]+1)*9 + (step[1]+1)*3 + step[2] + 1
			if want > 13 {
				want--
			}
			if want != class {
				t.Fatalf("class %d has the step %v", class, step)
			}
			steps[step] = true
			if step == [3]int{1, 0, 0} {
				gaps[first[1][0]-last[0][0]-1] = true
			}
		}
	}
	if len(steps) != 26 || len(gaps) < 3 {
		t.Errorf("%d steps, %d gaps between neighbours", len(steps), len(gaps))
	}
}

func TestPositionMistakesAreNamed(t *testing.T) {
	classifytest.Mistakes(t, func() *Position { return tinyPosition(t) }, map[string]func(*Position){
		"larger than a cell":      func(c *Position) { c.Patch = [3]int{10, 6, 4} },
		"multiples of 2":          func(c *Position) { c.Patch = [3]int{5, 6, 4} },
		"crop larger":             func(c *Position) { c.Crop, c.Patch = [3]int{4, 24, 24}, [3]int{} },
		"hidden is 0":             func(c *Position) { c.Hidden = 0 },
		"intensity is 1":          func(c *Position) { c.Intensity = 1 },
		"batch is 0":              func(c *Position) { c.Batch = 0 },
		"validate_cases is -1":    func(c *Position) { c.ValidateCases = -1 },
		"max_air is -1":           func(c *Position) { c.MaxAir = -1 },
		"there is no schedule \"": func(c *Position) { c.Train.Schedule = "x" },
	})
}
