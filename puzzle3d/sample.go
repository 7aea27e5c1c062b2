package puzzle3d

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/patches"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/sample"
)

// A sampler makes batches of puzzles of prepared cases. Every puzzle is a function of the seed, the
// step and its number in the batch.
type sampler struct {
	config   Config
	game     jigsaw.Config
	cases    []sample.Sample
	first, n int // the puzzles of a batch that are made here: this rank's
}

// batch draws the puzzles of a step, all on one grid.
func (s sampler) batch(ctx context.Context, step int) (*jigsaw.Batch, error) {
	b := &jigsaw.Batch{}
	if grids := s.game.Grids; len(grids) > 0 {
		b.Grid = seed.Rand(s.config.Train.Seed, "grid", uint64(step)).IntN(len(grids))
		s.config, s.game = s.config.on(grids[b.Grid]), s.game.On(b.Grid)
	}
	layout := s.config.layout()
	voxels := make([]float32, layout.Cells()*layout.Voxels())
	b.Patches = make([]float32, 0, s.n*len(voxels))
	for item := range s.n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := seed.Rand(s.config.Train.Seed, "puzzle", uint64(step), uint64(s.first+item))
		if err := s.puzzle(b, voxels, r); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// puzzle draws one and adds it to the batch. voxels is memory for all of its patches.
func (s sampler) puzzle(b *jigsaw.Batch, voxels []float32, r *rand.Rand) error {
	layout := s.config.layout()
	c := s.cases[r.IntN(len(s.cases))]
	origin, err := sample.RandomOrigin(c, r, s.config.Crop, s.config.MaxAir)
	if err != nil {
		return err
	}
	if err := layout.Cut(voxels, c, origin, r); err != nil {
		return err
	}
	if s.config.Identical { // as they are in the scan: the variation makes air and air differ
		b.Alike = append(b.Alike, jigsaw.Alike(voxels, layout.Cells()))
	}
	if s.config.Intensity > 0 {
		for patch := range slices.Chunk(voxels, layout.Voxels()) {
			patches.Vary(patch, s.config.Intensity, r)
		}
	}
	b.Shuffles = append(b.Shuffles, s.game.Draw(r, s.config.Share))
	b.Cases = append(b.Cases, c.Name())
	missing := s.game.DrawMissing(r)
	if missing != nil {
		b.Missing = append(b.Missing, missing)
	}
	for p := range layout.Cells() {
		if missing == nil || !missing[p] {
			b.Patches = append(b.Patches, voxels[p*layout.Voxels():(p+1)*layout.Voxels()]...)
		}
	}
	return nil
}

// held is cases to solve puzzles of: of each the crop in the middle, with patches in the middle of
// their cells. It implements [jigsaw.Held].
type held struct {
	config Config
	cases  []sample.Sample
}

func (h held) Len() int { return len(h.cases) }

func (h held) Cut(i int, grid puzzle.Grid, dst []float32) (name string, err error) {
	c := h.cases[i]
	return c.Name(), h.config.on(grid).layout().Cut(dst, c, sample.Middle(c, h.config.Crop), nil)
}
