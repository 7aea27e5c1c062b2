// Package puzzle3d pretrains VNet's encoder on unlabelled scans: it cuts a crop into a grid of
// patches, shuffles them, and teaches the network to put them back (Wei et al., Iterative
// Reorganization with Weak Spatial Constraints, CVPR 2019).
//
// Start at [Pretrain]; one step is in [Task.Step]. [Open] brings a checkpoint back to solve puzzles
// with, [Player.Evaluate] measures on held-out cases, [Player.Play] keeps what happened to one
// puzzle round by round, and [Play.Picture] draws it.
//
// Where things are: patches are cut in sample.go, the network is in network.go, the rounds of
// solving in game.go. The combinatorics are package puzzle's, the minimisation is package solver's,
// the loop and the checkpoints are package train's.
//
// The package chooses no device and reads no scans from files: cases come from a [prepared.Store].
package puzzle3d

import (
	"fmt"
	"math"

	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/vnet"
	"github.com/voxsaw/voxsaw/volume"
)

// The heads: how the features of the patches become costs of positions.
//
//   - paper: the features of all patches, in their current order, through one linear map to the n x
//     n matrix. Each slot learns a classifier of its own, so it takes very many puzzles.
//   - symmetric: each patch's feature beside the mean of the others', through one small network
//     that all patches share. The order does not matter to it, so one round is all it can use.
//   - both: the sum of the two.
const (
	Paper     = "paper"
	Symmetric = "symmetric"
	Both      = "both"
)

// Config is all there is to say about a pretraining run but its data. Sizes are along the axes (i,
// j, k) of the prepared cases.
type Config struct {
	Network vnet.Config   `yaml:"network"`
	Train   train.Options `yaml:"train"`

	Grid  [3]int `yaml:"grid,flow" help:"cells along each axis; the paper has 3x3x3 and 2x2x2"`
	Crop  [3]int `yaml:"crop,flow" help:"size of the crop that a puzzle is made of, in voxels"`
	Patch [3]int `yaml:"patch,flow" help:"size of a patch; 0: the largest that the network takes within 80 % of a cell, as in the paper"`
	Batch int    `yaml:"batch" help:"puzzles in a step"`

	Head     string  `yaml:"head" help:"paper, symmetric (learns fastest) or both" oneof:"paper symmetric both"`
	Features int     `yaml:"features" help:"width of a patch's feature"`
	Hidden   int     `yaml:"hidden" help:"hidden width of the symmetric head"`
	Rounds   int     `yaml:"rounds" help:"times that a puzzle is solved, re-arranged and looked at again; the symmetric head trains on one"`
	Binary   bool    `yaml:"binary" help:"binary terms: the relation between each two patches is learnt too"`
	Distance int     `yaml:"distance" help:"hamming distance of the search with binary terms, 2 or 3"`
	ColSum   float64 `yaml:"column_sum" help:"weight of the column-sum loss; 0: none"`
	Share    float64 `yaml:"share" help:"share of all configurations that training uses, up to 1"`

	SkipAir   bool    `yaml:"skip_air" help:"patches that show nothing but air do not count in the loss: nobody could tell where they belong"`
	MaxAir    float64 `yaml:"max_air" help:"crops with at most this share of air are preferred; 1: any crop"`
	Intensity float64 `yaml:"intensity" help:"augmentation: each patch's contrast and brightness vary by up to this share; 0: none"`

	ValidateCases    int `yaml:"validate_cases" help:"held-out cases to validate on during training; 0: all"`
	ValidateShuffles int `yaml:"validate_shuffles" help:"puzzles made of each held-out case"`

	Preparation volume.Preparation `yaml:"preparation" flag:"-" help:"how the cases were prepared, from the data"`
}

// DefaultConfig is the paper's 3x3x3 puzzle with the head that learns in a small run, and instance
// normalisation, without which training starts slowly.
func DefaultConfig() Config {
	network := vnet.Default()
	network.Norm = "instance"
	return Config{
		Network: network, Train: train.DefaultOptions(), Grid: [3]int{3, 3, 3}, Crop: [3]int{120, 120, 120}, Batch: 2,
		Head: Symmetric, Features: 1024, Hidden: 256, Rounds: 5, Distance: 2, Share: 1, MaxAir: 0.3, ValidateShuffles: 1,
	}
}

// Resolve completes the configuration: the size of a patch, the network's preset, how the cases
// were prepared.
func (c Config) Resolve(p volume.Preparation) (Config, error) {
	var err error
	c.Preparation = p
	if c.Network, err = c.Network.Resolve(); err != nil {
		return c, err
	}
	grid := c.grid()
	if err := grid.Check(); err != nil {
		return c, err
	}
	multiple := 1 << c.Network.Levels
	for axis, extent := range c.Patch {
		if extent != 0 {
			continue
		}
		cell := c.Crop[axis] / c.Grid[axis]
		if c.Patch[axis] = cell * 4 / 5 / multiple * multiple; c.Patch[axis] < 1 {
			return c, fmt.Errorf("crop %s divided by grid %v leaves cells of %d along axis %d, too small for a patch of %d, which a network of %d levels needs: make the crop larger, the grid coarser, or set the patch",
				extents(c.Crop), grid, cell, axis, multiple, c.Network.Levels)
		}
	}
	return c, c.Check()
}

// Check says what is wrong with the configuration, nil if nothing is.
func (c Config) Check() error {
	if err := c.Train.Check(); err != nil {
		return err
	}
	if err := c.layout().Check(); err != nil {
		return err
	}
	if err := c.Network.Check(c.Patch); err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	if err := puzzle.CheckShare(c.cells(), c.Share); err != nil {
		return err
	}
	for _, extent := range c.Crop {
		if extent > 1<<12 {
			return fmt.Errorf("crop %s is too large", extents(c.Crop))
		}
	}
	if c.Head != Paper && c.Head != Symmetric && c.Head != Both {
		return fmt.Errorf("head %q: want %s, %s or %s", c.Head, Paper, Symmetric, Both)
	}
	if c.Distance != 2 && c.Distance != 3 {
		return fmt.Errorf("distance is %d, must be 2 or 3", c.Distance)
	}
	for _, v := range []struct {
		name      string
		value     int
		low, high int
	}{
		{"batch", c.Batch, 1, 1 << 12}, {"features", c.Features, 1, 1 << 16}, {"hidden", c.Hidden, 1, 1 << 16}, {"rounds", c.Rounds, 1, 1000},
		{"validate_cases", c.ValidateCases, 0, math.MaxInt32}, {"validate_shuffles", c.ValidateShuffles, 1, 1 << 12},
	} {
		if v.value < v.low || v.value > v.high {
			return fmt.Errorf("%s is %d, must be from %d to %d", v.name, v.value, v.low, v.high)
		}
	}
	if !(c.ColSum >= 0) || math.IsInf(c.ColSum, 1) {
		return fmt.Errorf("column_sum is %v, must be a number from 0 up", c.ColSum)
	}
	if !(c.MaxAir >= 0 && c.MaxAir <= 1) {
		return fmt.Errorf("max_air is %v, must be a share from 0 to 1", c.MaxAir)
	}
	if !(c.Intensity >= 0 && c.Intensity < 1) {
		return fmt.Errorf("intensity is %v, must be from 0 to less than 1", c.Intensity)
	}
	return nil
}

func (c Config) grid() puzzle.Grid { return puzzle.Grid(c.Grid[:]) }

// cells is the number of patches of a puzzle.
func (c Config) cells() int { return c.grid().Cells() }

func (c Config) layout() puzzle.Layout {
	return puzzle.Layout{Grid: c.grid(), Crop: c.Crop[:], Patch: c.Patch[:]}
}

// voxels is the number of voxels of a patch.
func (c Config) voxels() int { return c.Patch[0] * c.Patch[1] * c.Patch[2] }

// rounds is how often training looks at a puzzle. The symmetric head says the same about a patch
// wherever it lies: a second look would repeat the first.
func (c Config) rounds() int {
	if c.Head == Symmetric {
		return 1
	}
	return c.Rounds
}

func extents(size [3]int) string { return fmt.Sprintf("%dx%dx%d", size[0], size[1], size[2]) }
