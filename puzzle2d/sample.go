package puzzle2d

import (
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

// A cutter cuts puzzles out of photographs.
type cutter struct {
	config Config
	photos *photos.Store
}

// size is the number of values of a patch.
func (c cutter) size() int { return 3 * c.config.Patch * c.config.Patch }

// cut writes the patches of a photograph, cut by a grid, in their natural order, (cells, 3, Patch,
// Patch): anywhere in their cells, mirrored by chance, from a crop that lies anywhere on the
// photograph; without a generator in the middle, and as they are. It returns the photograph's name.
func (c cutter) cut(dst []float32, photo int, grid puzzle.Grid, r *rand.Rand) (string, error) {
	name := c.photos.Name(photo)
	pixels, err := c.photos.At(photo)
	if err != nil {
		return name, fmt.Errorf("cutting a puzzle: %w", err)
	}
	width, height := c.photos.Size()
	layout := c.config.layout()
	layout.Grid = grid
	origin := [2]int{(height - layout.Crop[0]) / 2, (width - layout.Crop[1]) / 2}
	if r != nil {
		origin = [2]int{r.IntN(height - layout.Crop[0] + 1), r.IntN(width - layout.Crop[1] + 1)}
	}
	v := view{photo: pixels, stride: 3 * width, height: c.config.Patch, width: c.config.Patch,
		gray: c.config.Input.grayed(r)}
	var at [2]int
	for p := range grid.Cells() {
		layout.Corner(at[:], p, r)
		v.top, v.left = origin[0]+at[0], origin[1]+at[1]
		v.mirrored = r != nil && c.config.Mirror && r.IntN(2) == 1
		c.config.Input.write(dst[p*c.size():(p+1)*c.size()], v)
	}
	return name, nil
}

// sampler makes batches of puzzles of photographs, so many of them from the first on.
func (c cutter) sampler(game jigsaw.Config, train []int, first, n int) jigsaw.Sampler {
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
	photos []int
}

func (h held) Len() int { return len(h.photos) }

func (h held) Cut(i int, grid puzzle.Grid, patches []float32) (name string, err error) {
	return h.cut(patches, h.photos[i], grid, nil)
}
