package puzzle2d

import (
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/sample"
)

// A cutter cuts puzzles out of photographs.
type cutter struct{ config Config }

// size is the number of values of a patch.
func (c cutter) size() int { return 3 * c.config.Patch * c.config.Patch }

// cut writes the patches of a photograph, cut by a grid, in their natural order, (cells, 3, Patch,
// Patch): anywhere in their cells, mirrored by chance, from a crop that lies anywhere on the
// photograph; without a generator in the middle, and as they are. It returns the photograph's name.
func (c cutter) cut(dst []float32, photo sample.Sample, grid puzzle.Grid, r *rand.Rand) (string, error) {
	name := photo.Name()
	pixels, err := sample.Load(photo)
	if err != nil {
		return name, fmt.Errorf("cutting a puzzle: %w", err)
	}
	layout := c.config.layout()
	layout.Grid = grid
	v := view{of: pixels, height: c.config.Patch, width: c.config.Patch}
	v.top, v.left = corner(photo, layout.Crop[0], layout.Crop[1], r)
	v.gray = c.config.Input.grayed(r)
	for p := range grid.Cells() {
		if err := c.config.Input.patch(dst[p*c.size():(p+1)*c.size()], v, layout, p, c.config.Mirror, r); err != nil {
			return name, fmt.Errorf("cutting a puzzle: %w", err)
		}
	}
	return name, nil
}

// patch writes the patch of a cell of the crop that a view begins with: anywhere in the cell,
// mirrored by chance if that is asked for; without a generator from the middle, and as it is.
func (in Input) patch(dst []float32, v view, layout puzzle.Layout, cell int, mirror bool, r *rand.Rand) error {
	var at [2]int
	layout.Corner(at[:], cell, r)
	v.top, v.left = v.top+at[0], v.left+at[1]
	v.mirrored = r != nil && mirror && r.IntN(2) == 1
	return in.write(dst, v)
}

// corner draws where a crop lies on a photograph; without a generator it is the middle.
func corner(photo sample.Sample, height, width int, r *rand.Rand) (top, left int) {
	size := photo.Size()
	down, right := size[1]-height, size[0]-width
	if r == nil {
		return down / 2, right / 2
	}
	top = r.IntN(down + 1)
	return top, r.IntN(right + 1)
}

// sampler makes batches of puzzles of photographs, so many of them from the first on.
func (c cutter) sampler(game jigsaw.Config, train []sample.Sample, first, n int) jigsaw.Sampler {
	return jigsaw.Sampler{
		Config: game, Share: c.config.Share, Elements: c.size(), First: first, N: n,
		Cut: func(dst []float32, grid puzzle.Grid, r *rand.Rand) (string, error) {
			return c.cut(dst, train[r.IntN(len(train))], grid, r)
		},
	}
}

// held is the held-out photographs. Each puzzle is cut from the centre. It implements
// [jigsaw.Held].
type held struct {
	cutter
	photos []sample.Sample
}

func (h held) Len() int { return len(h.photos) }

func (h held) Cut(i int, grid puzzle.Grid, patches []float32) (name string, err error) {
	return h.cut(patches, h.photos[i], grid, nil)
}
