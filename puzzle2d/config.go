// Package puzzle2d pretrains a network on photographs without labels: it cuts a photograph into a
// grid of cells, takes a patch from each, shuffles them, and teaches the network to put them back
// (Wei et al., Iterative Reorganization with Weak Spatial Constraints, CVPR 2019, sections 4.1 to
// 4.3).
//
// Start at [DefaultConfig] and [Pretrain]; [Paper] has the settings of the paper's table. [Open]
// brings a checkpoint back to solve puzzles with, [OpenFeatures] to see what the network has learnt
// that other tasks can use, and a [Finetuning] trains it for such a task. Other things to learn
// from photographs, to compare with, are a [Classification]. Photographs come from a prepared
// folder ([github.com/voxsaw/voxsaw/puzzle2d/photos]).
//
// Here is what is two-dimensional about it: patches are cut out of photographs in sample.go,
// pictures are drawn in picture.go, networks are named in network.go, their first weights read in
// weights.go. The game itself is package jigsaw's, as that of package puzzle3d is.
package puzzle2d

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/sample"
)

// The heads: how the features of the patches become costs of positions. Paper, Symmetric,
// Both and Attention are those of package puzzle3d.
//
//   - kway: the features of all patches, through one hidden layer, to a choice among K orders
//     (Noroozi and Favaro, ECCV 2016): the puzzle that the paper compares itself with.
const (
	HeadPaper     = jigsaw.Paper
	HeadSymmetric = jigsaw.Symmetric
	HeadBoth      = jigsaw.Both
	HeadAttention = jigsaw.Attention
	HeadKWay      = jigsaw.KWay
)

// Common is what all pretraining on photographs has.
type Common struct {
	Network Network         `yaml:"network"`
	Train   voxsaw.Training `yaml:"train"`
	Input   Input           `yaml:",inline"`

	// weights to start from: a checkpoint of 2d pretrain or PyTorch's safetensors of this backbone;
	// empty: random ones
	Checkpoint string `yaml:"checkpoint,omitempty"`
	// start from weights that fit less than nine tenths of the backbone's tensors, too; the rest
	// begins with random values
	//
	// InitPartial is that of segment.Config.
	InitPartial bool `yaml:"init_partial,omitempty"`
}

// Config is all there is to say about a pretraining run with puzzles but its data. Sizes are in
// pixels, (rows, columns).
type Config struct {
	Common `yaml:",inline"`

	// cells: rows x columns; the paper has 3x3 and 2x2; where there are grids, the finest of them
	Grid [2]int `yaml:"grid,flow" range:"[1,)"`
	// several grids, such as 2x2,3x3: each step draws one of them, of crops of the finest; empty:
	// grid alone
	//
	// Grids are several, written as 2x2. Resolve makes Grid the finest of them.
	Grids []string `yaml:"grids,flow,omitempty"`
	// width and height of a cell
	Cell int `yaml:"cell" range:"[1,)" most:"4096"`
	// width and height of a patch, which lies anywhere in its cell
	Patch int `yaml:"patch" range:"[1,)" most:"4096"`
	// each patch is mirrored with probability one half
	Mirror        bool `yaml:"mirror"`
	voxsaw.Puzzle `yaml:",inline"`

	// head kway: the orders, if they come from a file
	//
	// Orders are the K orders, where others than [Config.Resolve] chose are wanted: each a text
	// such as "0 2 1 3", the patch that lies in each slot.
	Orders []string `yaml:"orders" flag:"-"`

	// held-out photographs to validate on during training; 0: all
	ValidatePhotos int `yaml:"validate_photos"`
	// puzzles made of each held-out photograph
	ValidateShuffles int `yaml:"validate_shuffles" range:"[1,)"`
}

// DefaultConfig is the paper's 3x3 puzzle of a ResNet-18, with unary and binary terms and mirrored
// patches, in a batch that a small machine can hold.
func DefaultConfig() Config {
	t := voxsaw.DefaultTraining()
	t.LR, t.WeightDecay, t.Steps = 1e-2, 5e-4, 10000
	t.ValidateEvery, t.CheckpointEvery = 1000, 500
	return Config{
		Common: Common{Network: Network{Backbone: "resnet18", Width: 1}, Train: t, Input: Input{Mean: MeanDataset}},
		Grid:   [2]int{3, 3}, Cell: 85, Patch: 64, Mirror: true,
		Puzzle: voxsaw.Puzzle{Batch: 8, Head: HeadPaper, Features: 1024, Hidden: 1024, Rounds: 20, Binary: true,
			Distance: 3, Share: 1, Classes: 1000, Criterion: puzzle.MinDistance},
		ValidatePhotos: 500, ValidateShuffles: 1,
	}
}

// Resolve completes the configuration with what follows from the photographs, and says what is
// wrong with it.
func (c Config) Resolve(of sample.Store) (Config, error) {
	store, err := folder(of)
	if err != nil {
		return c, err
	}
	if c.Input, err = c.Input.Of(store); err != nil {
		return c, err
	}
	byDefault := DefaultConfig().Grid
	grid, err := jigsaw.Resolve(&c.Puzzle, c.Grid[:], byDefault[:], c.Grids, len(c.Grid))
	if err != nil {
		return c, err
	}
	c.Grid = [2]int(grid)
	if err := c.fits(store.Size()); err != nil {
		return c, err
	}
	return c, c.Check()
}

// ReadOrders sets the orders of the K-way head from a file, and their number: of the Context Free
// Network (permutations_*.bin), or NumPy's (.npy) as VISSL has them.
func (c *Config) ReadOrders(path string) error {
	data, err := smallfile.ReadGiven(path, smallfile.List)
	if err != nil {
		return err
	}
	orders, err := puzzle.ReadSelection(bytes.NewReader(data))
	if err == nil {
		err = orders.Check(c.grid().Cells())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c.Orders = nil
	for _, o := range orders {
		c.Orders = append(c.Orders, jigsaw.FormatOrder(o))
	}
	c.Classes = len(orders)
	return nil
}

// Check says what is wrong with the configuration, nil if nothing is.
func (c Config) Check() error {
	if err := c.Train.Check(); err != nil {
		return err
	}
	if err := c.Input.check(); err != nil {
		return err
	}
	if err := c.grid().Check(); err != nil {
		return err
	}
	if c.Cell < 1 || c.Cell > 1<<12 || c.Grid[0] > 64 || c.Grid[1] > 64 {
		return fmt.Errorf("a grid of %v cells of %d pixels: must be at most 64x64 cells of at most 4096", c.grid(),
			c.Cell)
	}
	grids, err := jigsaw.ReadGrids(c.Grids, len(c.Grid))
	if err != nil {
		return err
	}
	for _, grid := range append(grids, c.grid()) {
		layout := c.layout()
		layout.Grid = grid
		if err := layout.Check(); err != nil {
			return err
		}
		if err := puzzle.CheckShare(grid.Cells(), c.Share); err != nil {
			return err
		}
	}
	if _, err := c.Network.net(c.Patch, c.Patch); err != nil {
		return err
	}
	if err := jigsaw.CheckLayers(c.Puzzle); err != nil {
		return err
	}
	if c.ValidatePhotos < 0 || c.ValidatePhotos > math.MaxInt32 {
		return fmt.Errorf("validate_photos is %d, must be 0 or more", c.ValidatePhotos)
	}
	game, err := c.rules()
	if err == nil && c.Head == HeadKWay {
		err = jigsaw.CheckOrders(c.grid().Cells(), c.Classes, c.Criterion, c.Orders)
	}
	if err != nil {
		return err
	}
	return game.CheckSettings()
}

// Idle says which settings do nothing beside the others, so that a new run is refused with them;
// nil: none. They are no matter of Check: a run that has begun may go on with them.
func (c Config) Idle() error { return errors.Join(c.Common.Idle(), jigsaw.Idle(c.Puzzle)) }

// notes are what a person should know of the settings.
func (c Config) notes() []string {
	return append(c.layout().Notes(), jigsaw.Unused(c.Puzzle, DefaultConfig().Puzzle)...)
}

// Idle says which of these settings do nothing beside the others.
func (c Common) Idle() error { return idlePartial(c.InitPartial, c.Checkpoint) }

// idlePartial says whether weights that fit in part are asked for, and none are read.
func idlePartial(partial bool, checkpoint string) error {
	if !partial || checkpoint != "" && checkpoint != Random {
		return nil
	}
	return &config.IdleError{Keys: []string{"init_partial"}, Advice: "init_partial is of weights to start from, and " +
		"there are none: name them as checkpoint, or set init_partial to false"}
}

// Extent is what is cut out of a photograph, in pixels, (rows, columns), before the configuration
// is resolved, too.
func (c Config) Extent() ([2]int, error) {
	byDefault := DefaultConfig().Grid
	grid, err := jigsaw.Resolve(&c.Puzzle, c.Grid[:], byDefault[:], c.Grids, len(c.Grid))
	return [2]int{grid[0] * c.Cell, grid[1] * c.Cell}, err
}

func (c Config) grid() puzzle.Grid { return puzzle.Grid(c.Grid[:]) }

func (c Config) layout() puzzle.Layout {
	return puzzle.Layout{Grid: c.grid(), Crop: []int{c.Grid[0] * c.Cell, c.Grid[1] * c.Cell},
		Patch: []int{c.Patch, c.Patch}}
}

// game is what package jigsaw wants to know. A context that ends stops the choice of orders.
func (c Config) game(ctx context.Context) (jigsaw.Config, error) {
	game, err := c.rules()
	if err == nil && c.Head == HeadKWay {
		game.Orders, err = c.orders(ctx, c.Classes)
	}
	return game, err
}

// rules are the game without the orders of a K-way head.
func (c Config) rules() (game jigsaw.Config, err error) {
	game = jigsaw.Config{Puzzle: c.Puzzle, Grid: c.grid(), Shuffles: c.ValidateShuffles, Seed: c.Train.Seed}
	if c.Head == HeadKWay {
		game.Binary, game.ColSum = false, 0 // there is nothing for them to be terms of
	}
	game.Grids, err = jigsaw.ReadGrids(c.Grids, len(c.Grid))
	return game, err
}

// orders are those that the configuration lists, or k that the seed chooses.
func (c Config) orders(ctx context.Context, k int) (puzzle.Selection, error) {
	return jigsaw.ChooseOrders(ctx, c.Train.Seed, c.grid().Cells(), k, c.Criterion, c.Orders)
}
