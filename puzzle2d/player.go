package puzzle2d

import (
	"context"
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/sample"
)

// A Player solves puzzles of photographs with trained weights: the middle of each, patches in the
// middle of their cells and not mirrored, and no look at the truth. Its methods are called from one
// goroutine at a time.
type Player struct {
	config Config
	player jigsaw.Players
}

// Open prepares a player with the weights of a checkpoint of puzzles and the configuration that is
// in it.
func Open(ctx context.Context, dev voxsaw.Device, path string, o PlayOptions) (*Player, error) {
	c, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	player, err := jigsaw.OpenTrained(ctx, dev, path, jigsaw.Trained{Puzzle: &c.Puzzle, Shuffles: &c.ValidateShuffles,
		Orders: c.Orders, Game: func(ctx context.Context) (game jigsaw.Config, b jigsaw.Backbone, err error) {
			if err = c.Check(); err == nil {
				game, err = c.game(ctx)
			}
			if err == nil {
				b, err = c.Network.net(c.Patch, c.Patch)
			}
			return game, b, err
		}}, o)
	if err != nil {
		return nil, err
	}
	return &Player{c, player}, nil
}

// readConfig reads the configuration that a checkpoint of puzzles was made with.
func readConfig(path string) (Config, error) {
	c := DefaultConfig()
	d, err := checkpoint.ReadKind(path, "puzzles of photographs are solved with one of kind "+kind+
		", as voxsaw 2d pretrain makes it", kind)
	if err == nil {
		err = d.Parse(&c)
	}
	return c, err
}

// Close gives the memory back.
func (p *Player) Close() { p.player.Close() }

type (
	// PlayOptions say how puzzles are solved.
	PlayOptions = voxsaw.PlayOptions
	// Metrics are shares of puzzles, and of patches.
	Metrics = voxsaw.PuzzleMetrics
	// A GridEvaluation is how well the puzzles of one grid of several were solved.
	GridEvaluation = voxsaw.PuzzleEvaluation
)

// An Evaluation is how well the puzzles of some photographs were solved.
type Evaluation struct {
	Photos int `json:"photos"`
	voxsaw.PuzzleEvaluation
}

// Evaluate plays Config.ValidateShuffles puzzles of each photograph, always the same ones for the
// same seed, number of photographs and order of them.
func (p *Player) Evaluate(ctx context.Context, photographs []sample.Sample) (Evaluation, error) {
	h, err := p.held(photographs)
	if err != nil {
		return Evaluation{}, err
	}
	e, err := p.player.Evaluate(ctx, h)
	if err != nil {
		return Evaluation{}, err
	}
	e.Ceiling = Metrics{}
	for k := range e.Grids {
		e.Grids[k].Ceiling = Metrics{}
	}
	return Evaluation{e.Items, e}, nil
}

// fits says whether a grid fits into the photographs.
func (c Config) fits(width, height int) error {
	if width < c.Grid[1]*c.Cell || height < c.Grid[0]*c.Cell {
		return fmt.Errorf("a grid of %v cells of %d takes %dx%d pixels, the photographs have %dx%d (width x height): "+
			"prepare them larger, or make the cells smaller",
			c.grid(), c.Cell, c.Grid[1]*c.Cell, c.Grid[0]*c.Cell, width, height)
	}
	return nil
}

// held are photographs that the network can play on.
func (p *Player) held(photographs []sample.Sample) (held, error) {
	for _, photo := range photographs {
		if err := p.config.fits(photo.Size()[0], photo.Size()[1]); err != nil {
			return held{}, err
		}
	}
	return held{cutter{p.config}, photographs}, nil
}

// A Play is what happened to one puzzle.
type Play struct {
	Photo string
	Grid  [2]int
	Patch int
	// Patches are the pixels, RGB, (cells, Patch, Patch, 3), in their natural order
	Patches []byte
	Missing []bool // the patches that were left out; nil: none
	// [0][s] is the patch that lay in slot s at first, [r][s] the one after round r
	Arrangements [][]int
	End          string // why it ended: resting, cycling, stopped
	// All is what became of all puzzles, which the picture has under the rounds; nil: it has not.
	All *Evaluation
}

// Misplaced is how many patches lie wrong after a round, of those that are there.
func (p Play) Misplaced(round int) int { return p.play().Misplaced(round) }

// Play plays the first puzzle that the seed makes of a photograph, of several grids on the finest,
// and keeps every arrangement until the iteration ends.
func (p *Player) Play(photo sample.Sample) (Play, error) {
	h, err := p.held([]sample.Sample{photo})
	if err != nil {
		return Play{}, err
	}
	play, err := p.player.Finest().Play(h, 0)
	if err != nil {
		return Play{}, err
	}
	pixels, err := h.pixels(photo)
	return Play{Photo: play.Name, Grid: p.config.Grid, Patch: p.config.Patch, Patches: pixels, Missing: play.Missing,
		Arrangements: play.Arrangements, End: play.End}, err
}

// pixels are those of the patches of a photograph, from the middle of their cells.
func (c cutter) pixels(photo sample.Sample) ([]byte, error) {
	grid, side := c.config.grid(), c.config.Patch
	n := side * side
	c.config.Input = plain
	values := make([]float32, grid.Cells()*3*n)
	_, err := c.cut(values, photo, grid, nil)
	pixels := make([]byte, 0, len(values))
	for patch := range slices.Chunk(values, 3*n) {
		for i := range n {
			pixels = append(pixels, uint8(patch[i]), uint8(patch[n+i]), uint8(patch[2*n+i]))
		}
	}
	return pixels, err
}
