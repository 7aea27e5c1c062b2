package puzzle3d

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A Batch is the puzzles of one step.
type Batch struct {
	// Patches are those of all puzzles in their natural order, (puzzles x cells, 1, D, H, W). They
	// are never shuffled themselves: the encoder looks at each patch alone, so it is their features
	// that change places.
	Patches []float32
	// Shuffles are the truth, one configuration a puzzle: Shuffles[p][s] is the patch that lies in
	// slot s, and so the position where it belongs.
	Shuffles []puzzle.Configuration
	Cases    []string // one a puzzle
	// Blank marks the patches that do not count in the loss, (puzzles x cells): see
	// [Config].SkipAir.
	Blank []bool
}

// A sampler makes batches of the cases of a data set. Every batch is a function of the seed and the
// step.
type sampler struct {
	config Config
	cases  []*prepared.Case
}

// openCases opens cases of a cache by ID.
func openCases(cache *prepared.Store, ids []string) ([]*prepared.Case, error) {
	cases := make([]*prepared.Case, len(ids))
	for i, id := range ids {
		var err error
		if cases[i], err = cache.Open(id); err != nil {
			return nil, err
		}
	}
	return cases, nil
}

// batch draws the puzzles of a step.
func (s sampler) batch(ctx context.Context, step int) (*Batch, error) {
	n, voxels := s.config.cells(), s.config.voxels()
	b := &Batch{Patches: make([]float32, s.config.Batch*n*voxels)}
	for item := range s.config.Batch {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := seed.Rand(s.config.Train.Seed, "puzzle", uint64(step), uint64(item))
		c := s.cases[r.IntN(len(s.cases))]
		patches := b.Patches[item*n*voxels : (item+1)*n*voxels]
		origin, err := c.RandomOrigin(r, s.config.Crop, s.config.MaxAir)
		if err != nil {
			return nil, err
		}
		if err := cut(patches, s.config, c, origin, r); err != nil {
			return nil, err
		}
		if s.config.Intensity > 0 {
			for p := range n {
				vary(patches[p*voxels:(p+1)*voxels], s.config.Intensity, r)
			}
		}
		b.Blank = append(b.Blank, s.config.blank(patches)...)
		b.Shuffles = append(b.Shuffles, puzzle.RandomWithin(r, n, s.config.Share))
		b.Cases = append(b.Cases, c.ID)
	}
	return b, nil
}

// blank marks the patches of a puzzle that are the same everywhere: air. Nobody could tell where
// they belong. If less than two others are left, all count.
func (c Config) blank(patches []float32) []bool {
	n, voxels := c.cells(), c.voxels()
	marks, left := make([]bool, n), n
	if !c.SkipAir {
		return marks
	}
	for p := range n {
		if marks[p] = uniform(patches[p*voxels : (p+1)*voxels]); marks[p] {
			left--
		}
	}
	if left < 2 {
		clear(marks)
	}
	return marks
}

func uniform(patch []float32) bool {
	for _, v := range patch {
		if v != patch[0] {
			return false
		}
	}
	return true
}

// cut reads the patches of the crop at origin, in their natural order: anywhere in their cells, or
// in the middle if r is nil.
func cut(dst []float32, config Config, c *prepared.Case, origin [3]int, r *rand.Rand) error {
	layout, voxels := config.layout(), config.voxels()
	var at [3]int
	for p := range config.cells() {
		layout.Corner(at[:], p, r)
		for axis := range at {
			at[axis] += origin[axis]
		}
		if err := c.Image(dst[p*voxels:(p+1)*voxels], at, config.Patch); err != nil {
			return fmt.Errorf("cutting a puzzle: %w", err)
		}
	}
	return nil
}

// cutCentre reads the puzzle in the middle of a case, without jitter: what validation and solving
// look at.
func cutCentre(dst []float32, config Config, c *prepared.Case) error {
	middle := [3]int{c.Shape[0] / 2, c.Shape[1] / 2, c.Shape[2] / 2}
	return cut(dst, config, c, c.OriginAround(middle, config.Crop), nil)
}

// vary changes contrast and brightness of a patch, whose values go from -1 to 1, so that a network
// cannot rely on absolute intensities.
func vary(patch []float32, amount float64, r *rand.Rand) {
	contrast := float32(1 + amount*(2*r.Float64()-1))
	brightness := float32(amount * (2*r.Float64() - 1))
	for i, v := range patch {
		patch[i] = contrast*v + brightness
	}
}
