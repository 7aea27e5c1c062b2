package puzzle3d

import (
	"math"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
)

// A step's arithmetic, of encoder and head, is what PyTorch counts, and is recorded.
func TestFLOPs(t *testing.T) {
	store, dev := traintest.Phantoms(t, 2, [3]int{72, 36, 36}), traintest.CPU(t)
	c := tiny()
	c.Network.Levels, c.Crop, c.Patch, c.Features, c.Hidden, c.Train.Steps = 4, [3]int{72, 36, 36}, [3]int{32, 16, 16},
		24, 12, 2
	c = resolved(t, c)
	_, step := traintest.FLOPs(t, "..", "jigsaw")
	traintest.Counts(t, step, func(o voxsaw.RunOptions) (voxsaw.Summary, error) {
		return Pretrain(t.Context(), dev, c, data(store, 0), o)
	})
}

// With several rounds the head looks once a round, and once at all rounds together; of several
// grids the arithmetic is the mean.
func TestFLOPsOfRoundsAndGrids(t *testing.T) {
	store, dev := traintest.Phantoms(t, 2, [3]int{20, 20, 20}), traintest.CPU(t)
	count := func(change func(*Config)) float64 {
		c := tiny()
		c.Crop, c.Patch, c.Train.Steps, c.SkipAir = [3]int{18, 18, 18}, [3]int{4, 4, 4}, 1, false
		change(&c)
		s, err := Pretrain(t.Context(), dev, resolved(t, c), data(store, 0), voxsaw.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s.FLOPs
	}
	paper := func(rounds int) float64 {
		return count(func(c *Config) { c.Head, c.Rounds = Paper, rounds })
	}
	// of one look: 2 puzzles, 8 features of 12 numbers each to 8 x 8 scores
	const look = 2 * 2 * 8 * 12 * 64
	if one, three := paper(1), paper(3); three-one != 3*look+2*3*look {
		t.Errorf("%v FLOP with one round, %v with three: want %d more", one, three, 9*look)
	}
	of := func(grids ...string) float64 {
		return count(func(c *Config) { c.Grid, c.Grids = DefaultConfig().Grid, grids })
	}
	a, b, c := of("2x2x2", "2x2x3"), of("2x2x3", "2x3x3"), of("2x3x3", "2x2x2")
	if mean := of("2x2x2", "2x2x3", "2x3x3"); a <= 0 || math.Abs(3*mean/(a+b+c)-1) > 1e-12 {
		t.Errorf("grids by pairs take %v, %v and %v FLOP, all three %v", a, b, c, mean)
	}
}
