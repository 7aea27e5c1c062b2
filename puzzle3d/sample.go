package puzzle3d

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A sampler makes batches of puzzles of prepared cases. Every puzzle is a function of the seed, the
// step and its number in the batch.
type sampler struct {
	config   Config
	game     jigsaw.Config
	cases    []*prepared.Case
	first, n int // the puzzles of a batch that are made here: this rank's
}

// batch draws the puzzles of a step.
func (s sampler) batch(ctx context.Context, step int) (*jigsaw.Batch, error) {
	cells, voxels := s.config.grid().Cells(), s.config.voxels()
	b := &jigsaw.Batch{Patches: make([]float32, s.n*cells*voxels)}
	for item := range s.n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := seed.Rand(s.config.Train.Seed, "puzzle", uint64(step), uint64(s.first+item))
		c := s.cases[r.IntN(len(s.cases))]
		patches := b.Patches[item*cells*voxels : (item+1)*cells*voxels]
		origin, err := c.RandomOrigin(r, s.config.Crop, s.config.MaxAir)
		if err != nil {
			return nil, err
		}
		if err := cut(patches, s.config, c, origin, r); err != nil {
			return nil, err
		}
		if s.config.Intensity > 0 {
			for p := range cells {
				vary(patches[p*voxels:(p+1)*voxels], s.config.Intensity, r)
			}
		}
		b.Shuffles = append(b.Shuffles, s.game.Draw(r, s.config.Share))
		b.Cases = append(b.Cases, c.ID)
	}
	return b, nil
}

// cut reads the patches of the crop at origin, in their natural order: anywhere in their cells, or
// in the middle if r is nil.
func cut(dst []float32, config Config, c *prepared.Case, origin [3]int, r *rand.Rand) error {
	layout, voxels := config.layout(), config.voxels()
	var at [3]int
	for p := range config.grid().Cells() {
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

// vary changes contrast and brightness of a patch, whose values go from -1 to 1, so that a network
// cannot rely on absolute intensities.
func vary(patch []float32, amount float64, r *rand.Rand) {
	contrast := float32(1 + amount*(2*r.Float64()-1))
	brightness := float32(amount * (2*r.Float64() - 1))
	for i, v := range patch {
		patch[i] = contrast*v + brightness
	}
}

// held is cases to solve puzzles of: of each the crop in the middle, with patches in the middle of
// their cells. It implements [jigsaw.Held].
type held struct {
	config Config
	cases  []*prepared.Case
}

func (h held) Len() int { return len(h.cases) }

func (h held) Cut(i int, patches []float32) (name string, err error) {
	c := h.cases[i]
	middle := [3]int{c.Shape[0] / 2, c.Shape[1] / 2, c.Shape[2] / 2}
	return c.ID, cut(patches, h.config, c, c.OriginAround(middle, h.config.Crop), nil)
}
