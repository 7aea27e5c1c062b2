package puzzle2d

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

// A cutter cuts puzzles out of photographs.
type cutter struct {
	config Config
	photos *photos.Store
}

// size is the number of values of a patch.
func (c cutter) size() int { return 3 * c.config.Patch * c.config.Patch }

// cut writes the patches of a photograph in their natural order, (cells, 3, Patch, Patch): anywhere
// in their cells, mirrored by chance, from a grid that lies anywhere on the photograph; without a
// generator in the middle, and as they are. It returns the photograph's name.
func (c cutter) cut(dst []float32, photo int, r *rand.Rand) (string, error) {
	name := c.photos.Name(photo)
	pixels, err := c.photos.At(photo)
	if err != nil {
		return name, fmt.Errorf("cutting a puzzle: %w", err)
	}
	width, height := c.photos.Size()
	layout := c.config.layout()
	origin := [2]int{(height - layout.Crop[0]) / 2, (width - layout.Crop[1]) / 2}
	if r != nil {
		origin = [2]int{r.IntN(height - layout.Crop[0] + 1), r.IntN(width - layout.Crop[1] + 1)}
	}
	v := view{photo: pixels, stride: 3 * width, height: c.config.Patch, width: c.config.Patch, gray: c.config.Input.grayed(r)}
	var at [2]int
	for p := range layout.Grid.Cells() {
		layout.Corner(at[:], p, r)
		v.top, v.left = origin[0]+at[0], origin[1]+at[1]
		v.mirrored = r != nil && c.config.Mirror && r.IntN(2) == 1
		c.config.Input.write(dst[p*c.size():(p+1)*c.size()], v)
	}
	return name, nil
}

// A sampler makes batches of puzzles. Every puzzle is a function of the seed, the step and its
// number in the batch.
type sampler struct {
	cutter
	game     jigsaw.Config
	train    []int
	first, n int // the puzzles of a batch that are made here: this rank's
}

// batch draws the puzzles of a step.
func (s sampler) batch(ctx context.Context, step int) (*jigsaw.Batch, error) {
	size := s.config.grid().Cells() * s.size()
	b := &jigsaw.Batch{Patches: make([]float32, s.n*size)}
	for item := range s.n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := seed.Rand(s.config.Train.Seed, "puzzle", uint64(step), uint64(s.first+item))
		name, err := s.cut(b.Patches[item*size:(item+1)*size], s.train[r.IntN(len(s.train))], r)
		if err != nil {
			return nil, err
		}
		b.Shuffles = append(b.Shuffles, s.game.Draw(r, s.config.Share))
		b.Cases = append(b.Cases, name)
	}
	return b, nil
}

// held is photographs to solve puzzles of, of each the middle. It implements [jigsaw.Held].
type held struct {
	cutter
	photos []int
}

func (h held) Len() int { return len(h.photos) }

func (h held) Cut(i int, _ puzzle.Grid, patches []float32) (name string, err error) {
	return h.cut(patches, h.photos[i], nil)
}
