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
	// Times are cells along a fourth axis, the last one: the channels of a sample, of which a patch
	// has one. 0: there is none, and patches have all channels.
	Times int
}

// Cells is the number of cells, and so of patches.
func (l Layout) Cells() int { return l.grid().Cells() }

// Values is the number of values of a patch: of all its voxels in all its channels.
func (l Layout) Values() int { return l.Shown() * l.voxels() }

// Shown is the number of channels of a patch.
func (l Layout) Shown() int {
	if l.Times > 0 {
		return 1
	}
	return max(l.Channels, 1)
}

func (l Layout) voxels() int { return l.Patch[0] * l.Patch[1] * l.Patch[2] }

func (l Layout) grid() puzzle.Grid {
	if l.Times > 0 {
		return append(puzzle.Grid(l.Grid[:]), l.Times)
	}
	return puzzle.Grid(l.Grid[:])
}

func (l Layout) puzzle() puzzle.Layout {
	p := puzzle.Layout{Grid: l.grid(), Crop: l.Crop[:], Patch: l.Patch[:]}
	if l.Times > 0 {
		p.Crop, p.Patch = append(p.Crop, max(l.Channels, 1)), append(p.Patch, 1)
	}
	return p
}

// Check says what is wrong with the layout for a network of patches, nil if nothing is.
func (l Layout) Check(b backbone.Backbone) error {
	if l.Times > max(l.Channels, 1) {
		return fmt.Errorf("the grid has %d cells along time, and the samples have %s: of a 4D scan, each volume is "+
			"one (voxsaw prepare --channels)", l.Times, numbers.Count(max(l.Channels, 1), "channel"))
	}
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

// Notes warn of patches that touch their neighbours in space.
func (l Layout) Notes() []string {
	return puzzle.Layout{Grid: l.Grid[:], Crop: l.Crop[:], Patch: l.Patch[:]}.Notes()
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
				fmt.Errorf("a crop of %s divided by a grid of %v leaves cells of %d along axis %d, whose patches, "+
					"four fifths of a cell, are smaller than the %d that the network (%s) needs: make the crop "+
					"larger (%d along that axis), the grid coarser, take fewer levels, or set the patch",
					numbers.Extents(l.Crop[:]), grid, cell, axis, multiple, b.Describe(), l.Least(b)[axis])
		}
	}
	if err := backbone.Fits(b, l.Patch); err != nil && chosen == [3]int{} {
		crop := l.Least(b)
		least := max(crop[0], crop[1], crop[2])
		return l.Patch,
			fmt.Errorf("a crop of %s divided by a grid of %v makes patches of %s, too small for the network: %w: "+
				"make the crop larger (%d along every axis), the grid coarser, or take fewer levels",
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

// Cut reads the patches (Cells, Shown, D, H, W) of the crop at an origin of a case, cell after
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

// CutOne reads the patch (Shown, D, H, W) of one cell.
func (l Layout) CutOne(dst []float32, c sample.Sample, origin [3]int, cell int, r *rand.Rand) error {
	at := make([]int, len(l.grid()))
	l.puzzle().Corner(at, cell, r)
	for axis := range origin {
		at[axis] += origin[axis]
	}
	var err error
	if l.Times > 0 {
		err = sample.CropChannel(dst, c, at[3], max(l.Channels, 1), [3]int(at), l.Patch)
	} else {
		err = c.Crop(dst, [3]int(at), l.Patch)
	}
	if err != nil {
		return fmt.Errorf("cutting a patch: %w", err)
	}
	return nil
}

// Vary changes contrast and brightness of each channel of a patch, whose values go from -1 to 1, by
// up to a share, so that a network cannot rely on absolute intensities.
func (l Layout) Vary(patch []float32, amount float64, r *rand.Rand) {
	for channel := range slices.Chunk(patch, len(patch)/l.Shown()) {
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
