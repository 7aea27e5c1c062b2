// Package patches cuts patches out of the cells of a crop of a sample: what pretext tasks
// with several patches look at.
//
// Start at [Layout]. The gap between patches, and their random place in their cells, are what
// keeps a network from solving such tasks by continuing edges. What the patches are for, the
// package does not know.
package patches

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/sample"
)

// A Layout says where patches are cut out of a crop. Sizes are in voxels along (i, j, k).
type Layout struct {
	Grid        [3]int // cells along each axis
	Crop, Patch [3]int
	Channels    int // of a sample; 0: 1
}

// Cells is the number of cells, and so of patches.
func (l Layout) Cells() int { return l.grid().Cells() }

// Values is the number of values of a patch: of all its voxels in all channels.
func (l Layout) Values() int { return max(l.Channels, 1) * l.Patch[0] * l.Patch[1] * l.Patch[2] }

func (l Layout) grid() puzzle.Grid { return puzzle.Grid(l.Grid[:]) }

func (l Layout) puzzle() puzzle.Layout {
	return puzzle.Layout{Grid: l.grid(), Crop: l.Crop[:], Patch: l.Patch[:]}
}

// Check says what is wrong with the layout for a network of patches, nil if nothing is.
func (l Layout) Check(b backbone.Backbone) error {
	if err := l.puzzle().Check(); err != nil {
		return err
	}
	if err := backbone.Fits(b, l.Patch); err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	for _, extent := range l.Crop {
		if extent > 1<<12 {
			return fmt.Errorf("crop %s is too large", numbers.Extents(l.Crop[:]))
		}
	}
	return nil
}

// Resolve gives the size of a patch, of which zeros follow from the crop: the largest that the
// network takes within 80 % of a cell, as in Wei et al. (CVPR 2019).
func (l Layout) Resolve(b backbone.Backbone) (patch [3]int, err error) {
	grid := l.grid()
	if err := grid.Check(); err != nil {
		return l.Patch, err
	}
	chosen := l.Patch // by the user
	for axis, multiple := range b.Multiple() {
		if l.Patch[axis] != 0 {
			continue
		}
		cell := l.Crop[axis] / l.Grid[axis]
		if l.Patch[axis] = cell * 4 / 5 / multiple * multiple; l.Patch[axis] < 1 {
			return l.Patch,
				fmt.Errorf("a crop of %s divided by a grid of %v leaves cells of %d along axis %d, whose patches, four fifths of a cell, are smaller than the %d that the network (%s) needs: make the crop larger (%d along that axis), the grid coarser, take fewer levels, or set the patch",
					numbers.Extents(l.Crop[:]), grid, cell, axis, multiple, b.Describe(), l.Least(b)[axis])
		}
	}
	if err := backbone.Fits(b, l.Patch); err != nil && chosen == [3]int{} {
		crop := l.Least(b)
		least := max(crop[0], crop[1], crop[2])
		return l.Patch,
			fmt.Errorf("a crop of %s divided by a grid of %v makes patches of %s, too small for the network: %w: make the crop larger (%d along every axis), the grid coarser, or take fewer levels",
				numbers.Extents(l.Crop[:]), grid, numbers.Extents(l.Patch[:]), err, least)
	}
	return l.Patch, nil
}

// Least is the smallest crop of whose cells the network takes patches, where nobody chooses their
// size.
func (l Layout) Least(b backbone.Backbone) (crop [3]int) {
	const most = 16 // multiples that are tried
	for n := range most {
		var patch [3]int
		for axis, multiple := range b.Multiple() {
			patch[axis] = (n + 1) * multiple
			crop[axis] = l.cropFor(axis, patch[axis])
		}
		if backbone.Fits(b, patch) == nil {
			break
		}
	}
	return crop
}

// cropFor is the smallest crop along an axis of whose cells patches of a size are made.
func (l Layout) cropFor(axis, patch int) int { return (patch*5 + 3) / 4 * l.Grid[axis] }

// Cut reads the patches (Cells, Channels, D, H, W) of the crop at an origin of a case, cell after
// cell in row-major order: anywhere in their cells, or in the middle if r is nil.
func (l Layout) Cut(dst []float32, c sample.Sample, origin [3]int, r *rand.Rand) error {
	n := l.Values()
	for cell := range l.Cells() {
		if err := l.CutOne(dst[cell*n:(cell+1)*n], c, origin, cell, r); err != nil {
			return err
		}
	}
	return nil
}

// CutOne reads the patch (Channels, D, H, W) of one cell.
func (l Layout) CutOne(dst []float32, c sample.Sample, origin [3]int, cell int, r *rand.Rand) error {
	var at [3]int
	l.puzzle().Corner(at[:], cell, r)
	for axis := range at {
		at[axis] += origin[axis]
	}
	if err := c.Crop(dst, at, l.Patch); err != nil {
		return fmt.Errorf("cutting a patch: %w", err)
	}
	return nil
}

// Vary changes contrast and brightness of each channel of a patch, whose values go from -1 to 1, by
// up to a share, so that a network cannot rely on absolute intensities.
func (l Layout) Vary(patch []float32, amount float64, r *rand.Rand) {
	for channel := range slices.Chunk(patch, len(patch)/max(l.Channels, 1)) {
		contrast := float32(1 + amount*(2*r.Float64()-1))
		brightness := float32(amount * (2*r.Float64() - 1))
		for i, v := range channel {
			channel[i] = contrast*v + brightness
		}
	}
}

// Uniform gives the value of each channel of a patch that has one value everywhere in it; nil where
// a channel has several.
func Uniform(patch []float32, channels int) (values []float32) {
	for channel := range slices.Chunk(patch, len(patch)/max(channels, 1)) {
		if slices.ContainsFunc(channel, func(x float32) bool { return x != channel[0] }) {
			return nil
		}
		values = append(values, channel[0])
	}
	return values
}

// CheckVary says what is wrong with an amount for [Layout.Vary].
func CheckVary(amount float64) error {
	if !(amount >= 0 && amount < 1) {
		return fmt.Errorf("intensity is %v, must be from 0 to less than 1", amount)
	}
	return nil
}
