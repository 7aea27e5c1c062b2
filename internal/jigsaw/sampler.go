package jigsaw

import (
	"context"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
)

// A Sampler makes batches of puzzles. Every puzzle is a function of the seed, the step and its
// number in the batch.
type Sampler struct {
	Config   Config
	Share    float64 // of all configurations
	Elements int     // values of a patch
	First, N int     // the puzzles of a batch that are made here: this rank's
	// Cut draws what a puzzle is made of, writes its patches, cut by a grid, in their natural
	// order, and gives its name.
	Cut func(patches []float32, grid puzzle.Grid, r *rand.Rand) (name string, err error)
	// Vary varies a patch; nil: they stay as they are.
	Vary func(patch []float32, r *rand.Rand)
}

// Batch draws the puzzles of a step, all on one grid.
func (s Sampler) Batch(ctx context.Context, step int) (*Batch, error) {
	b := &Batch{}
	if n := len(s.Config.Grids); n > 0 {
		b.Grid = seed.Rand(s.Config.Seed, "grid", uint64(step)).IntN(n)
		s.Config = s.Config.On(b.Grid)
	}
	patches := make([]float32, s.Config.cells()*s.Elements)
	b.Patches = make([]float32, 0, s.N*s.Config.present()*s.Elements)
	for item := range s.N {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := s.puzzle(b, patches, seed.Rand(s.Config.Seed, "puzzle", uint64(step),
			uint64(s.First+item))); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// puzzle draws one and adds it to the batch. patches is memory for all of its patches.
func (s Sampler) puzzle(b *Batch, patches []float32, r *rand.Rand) error {
	name, err := s.Cut(patches, s.Config.Grid, r)
	if err != nil {
		return err
	}
	n := s.Config.cells()
	patch := func(p int) []float32 { return patches[p*s.Elements:][:s.Elements] }
	if s.Config.Identical { // as they were cut: the variation makes air and air differ
		b.Alike = append(b.Alike, Alike(patches, n))
	}
	if s.Vary != nil {
		for p := range n {
			s.Vary(patch(p), r)
		}
	}
	b.Shuffles = append(b.Shuffles, s.Config.Draw(r, s.Share))
	b.Cases = append(b.Cases, name)
	missing := s.Config.DrawMissing(r)
	if missing != nil {
		b.Missing = append(b.Missing, missing)
	}
	for p := range n {
		if missing == nil || !missing[p] {
			b.Patches = append(b.Patches, patch(p)...)
		}
	}
	return nil
}
