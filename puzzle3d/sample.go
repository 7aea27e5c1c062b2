package puzzle3d

import (
	"context"
	"slices"

	"github.com/voxsaw/voxsaw/internal/cells"
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
	layout := s.config.layout()
	size, voxels := layout.Cells()*layout.Voxels(), layout.Voxels()
	b := &jigsaw.Batch{Patches: make([]float32, s.n*size)}
	for item := range s.n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := seed.Rand(s.config.Train.Seed, "puzzle", uint64(step), uint64(s.first+item))
		c := s.cases[r.IntN(len(s.cases))]
		patches := b.Patches[item*size : (item+1)*size]
		origin, err := c.RandomOrigin(r, s.config.Crop, s.config.MaxAir)
		if err != nil {
			return nil, err
		}
		if err := layout.Cut(patches, c, origin, r); err != nil {
			return nil, err
		}
		if s.config.Intensity > 0 {
			for patch := range slices.Chunk(patches, voxels) {
				cells.Vary(patch, s.config.Intensity, r)
			}
		}
		b.Shuffles = append(b.Shuffles, s.game.Draw(r, s.config.Share))
		b.Cases = append(b.Cases, c.ID)
	}
	return b, nil
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
	return c.ID, h.config.layout().Cut(patches, c, cells.Middle(c, h.config.Crop), nil)
}
