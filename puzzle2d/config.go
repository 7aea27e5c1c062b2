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
	"cmp"
	"fmt"
	"math"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/smallfile"
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

// Config is all there is to say about a pretraining run with puzzles but its data. Sizes are in
// pixels, (rows, columns).
type Config struct {
	Network Network         `yaml:"network"`
	Train   voxsaw.Training `yaml:"train"`
	Input   Input           `yaml:",inline"`

	Checkpoint string `yaml:"checkpoint,omitempty" help:"weights to start from: a checkpoint of 2d pretrain or PyTorch's safetensors of this backbone; empty: random ones"`
	// InitPartial is that of segment.Config.
	InitPartial bool `yaml:"init_partial,omitempty" help:"start from weights that fit less than nine tenths of the backbone's tensors, too; the rest begins with random values"`

	Grid [2]int `yaml:"grid,flow" help:"cells: rows x columns; the paper has 3x3 and 2x2; where there are grids, the finest of them" range:"[1,)"`
	// Grids are several, written as 2x2. Resolve makes Grid the finest of them.
	Grids  []string `yaml:"grids,flow,omitempty" help:"several grids, such as 2x2,3x3: each step draws one of them, of crops of the finest; empty: grid alone"`
	Cell   int      `yaml:"cell" help:"width and height of a cell" range:"[1,)"`
	Patch  int      `yaml:"patch" help:"width and height of a patch, which lies anywhere in its cell" range:"[1,)"`
	Mirror bool     `yaml:"mirror" help:"each patch is mirrored with probability one half"`
	Batch  int      `yaml:"batch" help:"puzzles in a step; auto: as many as fit into memory" words:"auto=0"`

	Head     string  `yaml:"head" help:"paper, symmetric, both, attention (over the patches as tokens), or kway (one choice among --classes orders)" oneof:"paper symmetric both attention kway"`
	Features int     `yaml:"features" help:"width of a patch's feature" range:"[1,)"`
	Hidden   int     `yaml:"hidden" help:"hidden width of the symmetric and of the K-way head, width of a token of the attention head" range:"[1,)"`
	Rounds   int     `yaml:"rounds" help:"times that a puzzle is solved, re-arranged and looked at again; the symmetric and the K-way head have one" range:"[1,)"`
	Binary   bool    `yaml:"binary" help:"binary terms: the relation between each two patches is learnt too"`
	Distance int     `yaml:"distance" help:"hamming distance of the search with binary terms, 2 or 3" range:"[2,3]"`
	ColSum   float64 `yaml:"column_sum" help:"weight of the column-sum loss; 0: none"`
	Share    float64 `yaml:"share" help:"share of all configurations that training uses, up to 1" range:"(0,1]"`

	// BinaryWeight and the three below are the paper's own ways where ours differ; zero is ours.
	BinaryWeight   float64 `yaml:"binary_weight,omitempty" help:"weight of a binary term beside a unary one, in the loss and in solving; 1: equation 1 of the paper; 0: the loss adds the mean over pairs to the mean over patches, and solving weighs both alike" range:"[0,1000000]"`
	LinearFeatures bool    `yaml:"linear_features,omitempty" help:"no ReLU after the linear layer that makes a patch's feature, as the paper has it"`
	SearchOnce     bool    `yaml:"search_once,omitempty" help:"the search with binary terms takes the best within the distance of the assignment, as the paper has it, and does not go on from there"`
	PaperRounds    bool    `yaml:"paper_rounds,omitempty" help:"rounds end as the paper has it: a puzzle that is solved is not shown again in its right order, and one that goes in circles is played on"`

	// Layers and AttentionHeads are zero where the head is another.
	Layers         int `yaml:"layers,omitempty" help:"head attention: layers of the transformer; 0: 2" range:"[0,)"`
	AttentionHeads int `yaml:"attention_heads,omitempty" help:"head attention: attention heads of each layer, which divide hidden; 0: 4" range:"[0,)"`

	Missing   float64 `yaml:"missing,omitempty" help:"share of the patches of a puzzle that are left out; what is left may go to any place" range:"[0,1)"`
	Identical bool    `yaml:"identical,omitempty" help:"patches that are the same pixel for pixel are one class in the loss: any of their places is right"`

	Classes   int    `yaml:"classes" help:"head kway: orders to choose among" range:"[2,)"`
	Criterion string `yaml:"criterion" help:"head kway: orders are far from each other by their smallest (min) or mean distance" oneof:"min mean"`
	// Orders are the K orders, where others than [Config.Resolve] chose are wanted: each a text
	// such as "0 2 1 3", the patch that lies in each slot.
	Orders []string `yaml:"orders" flag:"-" help:"head kway: the orders, if they come from a file"`

	ValidatePhotos   int `yaml:"validate_photos" help:"held-out photographs to validate on during training; 0: all"`
	ValidateShuffles int `yaml:"validate_shuffles" help:"puzzles made of each held-out photograph" range:"[1,)"`
}

// DefaultConfig is the paper's 3x3 puzzle of a ResNet-18, with unary and binary terms and mirrored
// patches, in a batch that a small machine can hold.
func DefaultConfig() Config {
	t := voxsaw.DefaultTraining()
	t.LR, t.WeightDecay, t.Steps = 1e-2, 5e-4, 10000
	t.ValidateEvery, t.CheckpointEvery = 1000, 500
	return Config{
		Network: Network{Backbone: "resnet18", Width: 1}, Train: t, Input: Input{Mean: MeanDataset}, Grid: [2]int{3, 3},
		Cell: 85, Patch: 64, Mirror: true, Batch: 8,
		Head: HeadPaper, Features: 1024, Hidden: 1024, Rounds: 20, Binary: true, Distance: 3, Share: 1, Classes: 1000,
		Criterion:      puzzle.MinDistance,
		ValidatePhotos: 500, ValidateShuffles: 1,
	}
}

// Resolve completes the configuration with what follows from the photographs, and says what is
// wrong with it.
func (c Config) Resolve(data Data) (Config, error) {
	var err error
	if c.Input, err = c.Input.Of(data); err != nil {
		return c, err
	}
	byDefault := DefaultConfig().Grid
	if err := jigsaw.ResolveGrid(c.Grid[:], byDefault[:], c.Grids); err != nil {
		return c, err
	}
	if c.Head == HeadAttention {
		c.Layers, c.AttentionHeads = cmp.Or(c.Layers, 2), cmp.Or(c.AttentionHeads, 4)
	}
	if err := c.fits(data.Photos); err != nil {
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
	if c.Head != HeadAttention && (c.Layers != 0 || c.AttentionHeads != 0) {
		return fmt.Errorf("layers and attention_heads are for head %s, not %s: leave them 0", HeadAttention, c.Head)
	}
	if c.ValidatePhotos < 0 || c.ValidatePhotos > math.MaxInt32 {
		return fmt.Errorf("validate_photos is %d, must be 0 or more", c.ValidatePhotos)
	}
	game, err := c.game()
	if err != nil {
		return err
	}
	return game.Check()
}

func (c Config) grid() puzzle.Grid { return puzzle.Grid(c.Grid[:]) }

func (c Config) layout() puzzle.Layout {
	return puzzle.Layout{Grid: c.grid(), Crop: []int{c.Grid[0] * c.Cell, c.Grid[1] * c.Cell},
		Patch: []int{c.Patch, c.Patch}}
}

// game is what package jigsaw wants to know.
func (c Config) game() (jigsaw.Config, error) {
	game := jigsaw.Config{
		Grid: c.grid(), Head: c.Head, Features: c.Features, Hidden: c.Hidden, Rounds: c.Rounds, Binary: c.Binary,
		Distance:  c.Distance,
		ColumnSum: c.ColSum, Batch: c.Batch, Shuffles: c.ValidateShuffles, Seed: c.Train.Seed,
		Layers: c.Layers, AttentionHeads: c.AttentionHeads, Missing: c.Missing, Identical: c.Identical,
		BinaryWeight: c.BinaryWeight, LinearFeatures: c.LinearFeatures, SearchOnce: c.SearchOnce,
		PaperRounds: c.PaperRounds,
	}
	var err error
	if game.Grids, err = jigsaw.ReadGrids(c.Grids, len(c.Grid)); err != nil || c.Head != HeadKWay {
		return game, err
	}
	game.Binary, game.ColumnSum = false, 0 // there is nothing for them to be terms of
	game.Orders, err = c.orders(c.Classes)
	return game, err
}

// orders are those that the configuration lists, or k that the seed chooses.
func (c Config) orders(k int) (puzzle.Selection, error) {
	return jigsaw.ChooseOrders(c.Train.Seed, c.grid().Cells(), k, c.Criterion, c.Orders)
}
