// Package puzzle3d pretrains a network's encoder on unlabelled scans: it cuts a crop into a grid of
// patches, shuffles them, and teaches the network to put them back (Wei et al., Iterative
// Reorganization with Weak Spatial Constraints, CVPR 2019).
//
// Start at [DefaultConfig] and [Pretrain]. [Open] brings a checkpoint back to solve puzzles with:
// [Player.Evaluate] measures on held-out cases, [Player.Play] keeps what happened to one puzzle
// round by round, and [Play.Picture] draws it. Cases come from a store of prepared ones
// ([prepared.Open]).
//
// Here is what is three-dimensional about it: patches are cut out of cases in sample.go, pictures
// are drawn in picture.go. The game itself is package jigsaw's.
package puzzle3d

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	_ "github.com/voxsaw/voxsaw/internal/backbone/all" // the networks to choose from
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/patches"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
)

// The heads: how the features of the patches become costs of positions.
//
//   - paper: the features of all patches, in their current order, through one linear map to the n x
//     n matrix. Each slot learns a classifier of its own, so it takes very many puzzles.
//   - symmetric: each patch's feature beside the mean of the others', through one small network
//     that all patches share. The order does not matter to it, so one round is all it can use.
//   - both: the sum of the two.
//   - kway: the features of all patches, through one hidden layer, to a choice among K orders
//     (Noroozi and Favaro, ECCV 2016): what others call a 3D jigsaw (Taleb et al., NeurIPS 2020).
//   - attention: the patches are tokens without positions, which attend to one another in some
//     layers of a transformer; where each lies at present is added to it, so that rounds are of
//     use.
const (
	Paper     = jigsaw.Paper
	Symmetric = jigsaw.Symmetric
	Both      = jigsaw.Both
	KWay      = jigsaw.KWay
	Attention = jigsaw.Attention
)

// Config is all there is to say about a pretraining run but its data. Sizes are along the axes (i,
// j, k) of the prepared cases.
type Config struct {
	Network voxsaw.Network  `yaml:"network"`
	Train   voxsaw.Training `yaml:"train"`

	// cells along each axis; the paper has 3x3x3 and 2x2x2; where there are grids, the finest of
	// them
	//
	// The fourth number is the cells along time; 0: patches have all channels. A sample's channels
	// are divided among these cells, and a patch shows one that is drawn from its cell's. The
	// network then has one input channel.
	Grid [4]int `yaml:"grid,flow" range:"[1,)" last:"of 4D scans jigsaw takes a fourth number, cells along time: the channels are the times, in order, and each patch shows one"`
	// several grids, such as 2x2x2,3x3x3,4x4x4: each step draws one of them; empty: grid alone
	//
	// Grids are several, written as 2x2x2 or, with time, 2x2x2x2. Resolve makes Grid the finest of
	// them.
	Grids []string `yaml:"grids,flow,omitempty"`
	// Times is the fourth number of Grid and Grids as earlier runs wrote it, which have three.
	Times int `yaml:"times,omitempty" flag:"-" help:"-" range:"[0,)"`
	// size of the crop that a puzzle is made of, in voxels
	Crop [3]int `yaml:"crop,flow" range:"[1,)"`
	// size of a patch; 0: the largest that the network takes within 80 % of a cell, as in the paper
	Patch         [3]int `yaml:"patch,flow"`
	voxsaw.Puzzle `yaml:",inline"`

	// patches that show nothing but air do not count in the loss: nobody could tell where they
	// belong
	SkipAir bool `yaml:"skip_air"`
	// crops with at most this share of air are preferred; 1: any crop
	MaxAir float64 `yaml:"max_air" range:"[0,1]"`
	// augmentation: each patch's contrast and brightness vary by up to this share; 0: none
	Intensity float64 `yaml:"intensity" range:"[0,1]"`

	// weight of the loss of restoring masked crops in the same steps, which trains the decoder, too
	// (see task mae); 0: puzzles alone
	//
	// Restore and what follows say what is learnt beside the puzzle: see restore.go.
	Restore float64 `yaml:"restore,omitempty" range:"[0,)"`
	// restore: size of these crops, of which a step has as many as puzzles; 0: 64 along each axis
	RestoreCrop [3]int `yaml:"restore_crop,flow,omitempty"`
	// share of the blocks that are masked; 0 with restore: 0.75
	MaskShare float64 `yaml:"mask_share,omitempty" range:"[0,1)"`
	// side of a block, in voxels; 0 with restore: 16
	MaskBlock int `yaml:"mask_block,omitempty" range:"[0,)"`

	// held-out cases to validate on during training; 0: all
	ValidateCases int `yaml:"validate_cases"`
	// puzzles made of each held-out case
	ValidateShuffles int `yaml:"validate_shuffles" range:"[1,)"`

	// how the cases were prepared, from the data
	Preparation volume.Preparation `yaml:"preparation" flag:"-"`
}

// DefaultConfig is the paper's 3x3x3 puzzle with the head that learns in a small run, and instance
// normalisation, without which training starts slowly.
func DefaultConfig() Config {
	return Config{
		Network: voxsaw.DefaultNetwork(), Train: voxsaw.DefaultTraining(), Grid: [4]int{3, 3, 3},
		Crop: [3]int{120, 120, 120}, MaxAir: 0.3, ValidateShuffles: 1,
		Puzzle: voxsaw.Puzzle{Batch: 2, Head: Symmetric, Features: 1024, Hidden: 256, Rounds: 5, Distance: 2, Share: 1,
			Classes: 100, Criterion: puzzle.MinDistance},
	}
}

// Resolve is what [Pretrain] does first, for who wants to see it: it completes the configuration by
// the size of a patch, the network's own values, and how the cases were prepared.
func (c Config) Resolve(of sample.Store) (Config, error) {
	grid, err := jigsaw.Resolve(&c.Puzzle, axesOf(c.Grid), axesOf(DefaultConfig().Grid), c.Grids, 3, 4)
	if err != nil {
		return c, err
	}
	c.Grid = numbersOf(grid)
	c.Preparation = pretext.PreparationOf(of, c.Preparation)
	c.Network.Inputs = c.Preparation.Inputs()
	if c.times() > 0 {
		c.Network.Inputs = 1
	}
	b, err := backbone.Of(c.Network)
	if err != nil {
		return c, err
	}
	c.Network = b.Settings()
	if c.Patch, err = c.smallestCells().Resolve(b); err != nil {
		return c, err
	}
	c.resolveRestore()
	return c, c.Check()
}

// Check says what is wrong with the configuration, nil if nothing is.
func (c Config) Check() error {
	if err := c.Train.Check(); err != nil {
		return err
	}
	b, err := backbone.Of(c.Network)
	if err != nil {
		return err
	}
	grids, err := c.grids()
	if err != nil {
		return err
	}
	for _, grid := range grids {
		if err := grid.Check(); err != nil {
			return err
		}
		if err := c.on(grid).layout().Check(b); err != nil {
			return err
		}
		if err := puzzle.CheckShare(grid.Cells(), c.Share); err != nil {
			return err
		}
	}
	if c.ValidateCases < 0 || c.ValidateCases > math.MaxInt32 {
		return fmt.Errorf("validate_cases is %d, must be 0 or more", c.ValidateCases)
	}
	if !(c.MaxAir >= 0 && c.MaxAir <= 1) {
		return fmt.Errorf("max_air is %v, must be a share from 0 to 1", c.MaxAir)
	}
	if err := patches.CheckVary(c.Intensity); err != nil {
		return err
	}
	if err := c.checkTimes(); err != nil {
		return err
	}
	if c.times() > 0 && c.Restore > 0 {
		return fmt.Errorf("restore is %v and the grid %v: crops of several times cannot be restored by a network that "+
			"looks at one", c.Restore, c.grid())
	}
	if _, err := c.restoring(); err != nil {
		return err
	}
	if err := jigsaw.CheckLayers(c.Puzzle); err != nil {
		return err
	}
	if c.Head == KWay && c.Share < 1 {
		return fmt.Errorf("share is %v: head %s trains on its %d orders alone; set share to 1, or choose fewer classes",
			c.Share, KWay, c.Classes)
	}
	game, err := c.rules()
	if err != nil {
		return err
	}
	if c.Head == KWay {
		if err := jigsaw.CheckOrders(c.grid().Cells(), c.Classes, c.Criterion, nil); err != nil {
			return fmt.Errorf("classes: %w", err)
		}
	}
	return game.CheckSettings()
}

// Idle says which settings do nothing beside the others, so that a new run is refused with them;
// nil: none. They are no matter of Check: a run that has begun may go on with them.
func (c Config) Idle() error {
	idle := []error{backbone.Idle(c.Network), jigsaw.Idle(c.Puzzle)}
	if c.Restore == 0 { // else the decoder is trained, too
		idle[0] = pretext.IdleInEncoder(c.Network)
	}
	if c.SkipAir && c.Head == KWay {
		idle = append(idle, &config.IdleError{Keys: []string{"skip_air"}, Advice: fmt.Sprintf("skip_air is of heads "+
			"that tell the place of each patch, and %s is a choice among orders: set skip_air to false", KWay)})
	}
	return errors.Join(idle...)
}

// notes are what a person should know of the settings: of those that have a value by default, where
// another one does nothing; and of patches that touch.
func (c Config) notes() []string {
	return append(c.smallestCells().Notes(), jigsaw.Unused(c.Puzzle, DefaultConfig().Puzzle)...)
}

// checkTimes refuses channels that are something else than times of one scan.
func (c Config) checkTimes() error {
	if c.Times > 0 && c.Grid[3] > 0 {
		return fmt.Errorf("times is %d, and the grid %v has a fourth number, which says the same: leave times out "+
			"of the file", c.Times, axesOf(c.Grid))
	}
	names := c.Preparation.ChannelNames()
	if c.times() == 0 || len(names) < 2 {
		return nil
	}
	first := c.Preparation.Channel(0)
	for n, name := range names {
		one := c.Preparation.Channel(n)
		if one.ModalityName() != first.ModalityName() || one.Scheme() != first.Scheme() || one.Window != first.Window {
			return fmt.Errorf("the grid is %v, and the channels %s and %s are prepared as different things: "+
				"times of one scan have one modality and one scheme of intensities", c.grid(), names[0], name)
		}
	}
	return nil
}

// grid is that of the puzzles, whose last axis is time where there is one.
func (c Config) grid() puzzle.Grid { return c.inTime(axesOf(c.Grid)) }

// times is the cells along time; 0: there is no such axis.
func (c Config) times() int { return max(c.Grid[3], c.Times) }

func (c Config) layout() patches.Layout {
	return patches.Layout{Grid: [3]int(c.Grid[:3]), Crop: c.Crop, Patch: c.Patch, Channels: c.Preparation.Inputs(),
		Times: c.times()}
}

// game is what package jigsaw wants to know. A context that ends stops the choice of orders.
func (c Config) game(ctx context.Context) (jigsaw.Config, error) {
	game, err := c.rules()
	if err != nil || c.Head != KWay {
		return game, err
	}
	game.Orders, err = jigsaw.ChooseOrders(ctx, c.Train.Seed, c.grid().Cells(), c.Classes, c.Criterion, nil)
	return game, err
}

// rules are the game without the orders of a K-way head.
func (c Config) rules() (game jigsaw.Config, err error) {
	game = jigsaw.Config{Puzzle: c.Puzzle, Grid: c.grid(), Shuffles: c.ValidateShuffles, Seed: c.Train.Seed,
		SkipBlank: c.SkipAir, Channels: c.Network.InputChannels()}
	if len(c.Grids) > 0 {
		game.Grids, err = c.grids()
	}
	return game, err
}

// encoder is the network of the patches.
func (c Config) encoder() (backbone.Patches, error) {
	b, err := backbone.Of(c.Network)
	return backbone.Patches{Backbone: b, Size: c.Patch}, err
}
