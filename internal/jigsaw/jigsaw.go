// Package jigsaw is the game of puzzles, whatever the number of dimensions and the network (Wei et
// al., Iterative Reorganization with Weak Spatial Constraints, CVPR 2019).
//
// Start at [Trainer], whose Step plays the puzzles of a batch and leaves the gradients, and at
// [Player], which solves puzzles with trained weights. A network comes in as a [Backbone], puzzles
// come in as a [Batch] or as [Held] ones. How heads look is told in network.go, how a puzzle is
// solved round by round in game.go, what makes puzzles hard in missing.go, grids.go and
// attention.go, and what is learnt beside them in companion.go.
//
// The combinatorics are package puzzle's, the minimisation is package solver's, the loop and the
// checkpoints are package train's. The package knows neither volumes nor photographs.
package jigsaw

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
)

// The heads: how the features of the patches become costs of positions.
//
//   - paper: the features of all patches, in their current order, through one linear map to the n x
//     n matrix. Each slot learns a classifier of its own, so it takes very many puzzles.
//   - symmetric: each patch's feature beside the mean of the others', through one small network
//     that all patches share. The order does not matter to it, so one round is all it can use.
//   - both: the sum of the two.
//   - attention: the patches are tokens without positions, which attend to one another in some
//     layers of a transformer (attention.go). Where each lies at present is added to it, so that
//     further rounds see what the last one has made.
//   - kway: no matrix; the features of all patches, through one hidden layer, to a choice among K
//     orders (Noroozi and Favaro, ECCV 2016). There is one answer, and no second look.
const (
	Paper     = "paper"
	Symmetric = "symmetric"
	Both      = "both"
	KWay      = "kway"
	Attention = "attention"
)

// Config is what there is to say about a game but its data and its network.
type Config struct {
	voxsaw.Puzzle
	Grid      puzzle.Grid // cells along each axis
	SkipBlank bool        // patches that are the same everywhere do not count in the loss
	Channels  int         // of a patch; 0: 1
	Shuffles  int         // puzzles that are made of each held-out item
	Seed      uint64

	// Grids are those that a step draws one of, all its puzzles the same; Grid is that of the step.
	// The head has a class for each position of each grid, and chooses among those of the step's
	// grid. nil: Grid alone
	Grids []puzzle.Grid

	// Orders are the only configurations that puzzles are made with and that are looked for: the
	// classes of the K-way head. With another head the cheapest of them is the answer, so that the
	// two can be compared, and there is one round. nil: all n! of them.
	Orders puzzle.Selection
}

// Check says what is wrong with the configuration, nil if nothing is. Errors name settings as users
// write them.
func (c Config) Check() error {
	if c.Head == KWay && c.Orders == nil {
		return fmt.Errorf("head %s needs the orders to choose among", KWay)
	}
	return c.CheckSettings()
}

// CheckSettings is [Config.Check] of a game whose orders may not have been chosen yet.
func (c Config) CheckSettings() error {
	if err := c.Grid.Check(); err != nil {
		return err
	}
	if err := c.checkHead(); err != nil {
		return err
	}
	if err := c.checkGrids(); err != nil {
		return err
	}
	if err := c.checkMissing(); err != nil {
		return err
	}
	if c.Distance != 2 && c.Distance != 3 {
		return fmt.Errorf("distance is %d, must be 2 or 3", c.Distance)
	}
	for _, v := range []struct {
		name        string
		value, high int
	}{{"batch", c.Batch, 1 << 12}, {"features", c.Features, 1 << 16}, {"hidden", c.Hidden, 1 << 16},
		{"rounds", c.Rounds, 1000}, {"validate_shuffles", c.Shuffles, 1 << 12}} {
		if v.value < 1 || v.value > v.high {
			return fmt.Errorf("%s is %d, must be from 1 to %d", v.name, v.value, v.high)
		}
	}
	if !(c.ColSum >= 0) || math.IsInf(c.ColSum, 1) {
		return fmt.Errorf("column_sum is %v, must be a number from 0 up", c.ColSum)
	}
	if !(c.BinaryWeight >= 0 && c.BinaryWeight <= 1e6) {
		return fmt.Errorf("binary_weight is %v, must be from 0 to 1000000", c.BinaryWeight)
	}
	if c.SumLoss && c.Head == KWay {
		return fmt.Errorf("head %s has one term and no sum: set sum_loss to false", KWay)
	}
	if c.SumLoss && c.Binary && c.BinaryWeight == 0 {
		return errors.New("sum_loss adds up patches and pairs, and binary_weight is 0: set what a pair weighs, " +
			"such as 1 of equation 1")
	}
	return nil
}

// CheckLayers says of settings whether they have layers of a head that is another.
func CheckLayers(c voxsaw.Puzzle) error {
	if c.Head != Attention && (c.Layers != 0 || c.AttentionHeads != 0) {
		return fmt.Errorf("layers and attention_heads are for head %s, not %s: leave them 0", Attention, c.Head)
	}
	return nil
}

func (c Config) checkHead() error {
	switch c.Head {
	case Paper, Symmetric, Both:
	case Attention:
		if c.Layers < 1 || c.Layers > 64 {
			return fmt.Errorf("layers is %d, must be from 1 to 64", c.Layers)
		}
		if c.AttentionHeads < 1 || c.Hidden%c.AttentionHeads != 0 {
			return fmt.Errorf("attention_heads is %d, must be at least 1 and divide hidden, which is %d",
				c.AttentionHeads, c.Hidden)
		}
	case KWay:
		if c.Identical {
			return fmt.Errorf("a choice among orders has one right answer: set identical to false")
		}
		if c.Binary || c.ColSum > 0 {
			return fmt.Errorf("head %s has neither binary terms nor a column-sum "+
				"loss: set binary to false and column_sum to 0", KWay)
		}
	default:
		return fmt.Errorf("head %q: want %s, %s, %s, %s or %s", c.Head, Paper, Symmetric, Both, Attention, KWay)
	}
	if c.Orders != nil {
		return c.Orders.Check(c.cells())
	}
	return nil
}

// cells is the number of patches of a puzzle.
func (c Config) cells() int { return c.Grid.Cells() }

// rounds is how often a puzzle is looked at. The symmetric head says the same about a patch
// wherever it lies, so a second look would repeat the first. With a limited set of orders, the
// puzzle after a wrong answer may not be in the set.
func (c Config) rounds() int {
	if c.Head == Symmetric || c.Orders != nil {
		return 1
	}
	return c.Rounds
}

// A Backbone turns patches into numbers.
type Backbone interface {
	// Patch is the shape of one patch: (channels, depth, height, width).
	Patch() [4]int
	// Encode adds the network to a graph: patches (N, Patch) to a row of numbers each, (N, K).
	// Mistakes are kept by the graph.
	Encode(g *nn.Graph, patches *nn.Node) *nn.Node
}

// elements is the number of values of a patch.
func elements(b Backbone) int {
	p := b.Patch()
	return p[0] * p[1] * p[2] * p[3]
}

// patches is the shape of n patches.
func patches(b Backbone, n int) device.Shape {
	p := b.Patch()
	return device.Shape{n, p[0], p[1], p[2], p[3]}
}

// A Batch is the puzzles of one step.
type Batch struct {
	// Grid is the number of the puzzles' grid among Config.Grids; 0 where there are none.
	Grid int
	// Patches are those of all puzzles in their natural order, without missing ones: (puzzles x
	// patches, Backbone.Patch). They are never shuffled themselves: the encoder looks at each patch
	// alone, so it is their features that change places.
	Patches []float32
	// Missing marks the patches of each puzzle that are left out, in their natural order, as
	// [Config.DrawMissing] draws them; nil where none is.
	Missing [][]bool
	// Alike are the patches of each puzzle, missing ones too, that have the same voxels: see
	// [Alike]. With Config.Identical alone.
	Alike [][]int
	// Shuffles are the truth, one configuration a puzzle: Shuffles[p][s] is the patch that lies in
	// slot s, and so the position where it belongs. They are of Config.Orders, if there are any.
	Shuffles []puzzle.Configuration
	// Cases names what each puzzle was made of.
	Cases []string
	// Beside is what a [Companion] learns from in the step; nil where there is none.
	Beside Addition
}

// Held are items to solve puzzles of, without variation: held-out cases, photographs.
type Held interface {
	Len() int
	// Cut writes the patches of item i, cut by a grid, in their natural order, and gives its name.
	Cut(i int, grid puzzle.Grid, patches []float32) (name string, err error)
}

// blank marks the n patches of a puzzle that are the same everywhere, such as air. Nobody could
// tell where they belong. If less than two others are left, all count.
func (c Config) blank(patches []float32, n int) []bool {
	size := len(patches) / n
	marks, left := make([]bool, n), n
	if !c.SkipBlank {
		return marks
	}
	for p := range n {
		if marks[p] = uniform(patches[p*size:(p+1)*size], c.Channels); marks[p] {
			left--
		}
	}
	if left < 2 {
		clear(marks)
	}
	return marks
}

// uniform reports whether each channel of a patch has one value everywhere.
func uniform(patch []float32, channels int) bool {
	n := len(patch) / max(channels, 1)
	for i, v := range patch {
		if v != patch[i/n*n] {
			return false
		}
	}
	return true
}

// Draw draws a configuration to shuffle a puzzle by: one of Orders, or of a share of all.
func (c Config) Draw(r *rand.Rand, share float64) puzzle.Configuration {
	if c.Orders != nil {
		return c.Orders[r.IntN(len(c.Orders))].Clone()
	}
	return puzzle.RandomInShare(r, c.cells(), share)
}
