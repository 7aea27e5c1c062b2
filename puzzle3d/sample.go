package puzzle3d

import (
	"context"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/sample"
)

// A sampler makes batches of puzzles of prepared cases.
type sampler struct {
	config   Config
	game     jigsaw.Config
	cases    []sample.Sample
	first, n int // the puzzles of a batch that are made here: this rank's
}

// batch draws the puzzles of a step.
func (s sampler) batch(ctx context.Context, step int) (*jigsaw.Batch, error) {
	puzzles := jigsaw.Sampler{Config: s.game, Share: s.config.Share, Elements: s.config.layout().Values(),
		First: s.first, N: s.n, Cut: s.cut}
	if s.config.Intensity > 0 {
		puzzles.Vary = func(patch []float32, r *rand.Rand) { s.config.layout().Vary(patch, s.config.Intensity, r) }
	}
	return puzzles.Batch(ctx, step)
}

// cut draws a case and the origin of a crop, and cuts that.
func (s sampler) cut(dst []float32, grid puzzle.Grid, r *rand.Rand) (name string, err error) {
	c := s.cases[r.IntN(len(s.cases))]
	origin, err := sample.RandomOrigin(c, r, s.config.Crop, s.config.MaxAir)
	if err == nil {
		err = s.config.on(grid).layout().Cut(dst, c, origin, r)
	}
	return c.Name(), err
}

// held is the held-out cases. Each puzzle is cut from the centre of its case, each patch from the
// centre of its cell. It implements [jigsaw.Held].
type held struct {
	config Config
	cases  []sample.Sample
}

func (h held) Len() int { return len(h.cases) }

func (h held) Cut(i int, grid puzzle.Grid, dst []float32) (name string, err error) {
	c := h.cases[i]
	return c.Name(), h.config.on(grid).layout().Cut(dst, c, sample.Middle(c, h.config.Crop), nil)
}
