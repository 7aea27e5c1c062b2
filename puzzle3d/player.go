package puzzle3d

import (
	"context"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
)

// A Player solves puzzles of whole cases with trained weights: centre crops, patches in the middle
// of their cells, no gradients, and no look at the truth. Its methods are called from one goroutine
// at a time.
type Player struct {
	config Config
	player jigsaw.Players // one for each grid
}

// Open prepares a player with the weights of a pretraining checkpoint and the configuration that is
// in it.
func Open(ctx context.Context, dev voxsaw.Device, path string, o PlayOptions) (*Player, error) {
	c, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	player, err := jigsaw.OpenTrained(ctx, dev, path, jigsaw.Trained{Puzzle: &c.Puzzle, Shuffles: &c.ValidateShuffles,
		Game: func(ctx context.Context) (game jigsaw.Config, b jigsaw.Backbone, err error) {
			if err = c.Check(); err == nil {
				game, err = c.game(ctx)
			}
			if err == nil {
				b, err = c.encoder()
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
	d, err := checkpoint.ReadKind(path, "puzzles are solved with one of kind "+name+", as voxsaw pretrain makes it",
		name)
	if err == nil {
		err = d.Parse(&c)
	}
	return c, err
}

// Config is the configuration that the network was trained with, but for what [PlayOptions] say.
func (p *Player) Config() Config { return p.config }

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

// An Evaluation is how well the puzzles of some cases were solved.
type Evaluation struct {
	Cases int `json:"cases"`
	voxsaw.PuzzleEvaluation
}

// Evaluate plays Config.ValidateShuffles puzzles of each case, always the same ones for the same
// seed, number of cases and order of cases.
func (p *Player) Evaluate(ctx context.Context, cases []sample.Sample) (Evaluation, error) {
	return p.evaluateAmong(ctx, train.Group{}, cases)
}

// evaluateAmong is Evaluate by ranks that share out the cases.
func (p *Player) evaluateAmong(ctx context.Context, g train.Group, cases []sample.Sample) (Evaluation, error) {
	e, err := p.player.EvaluateAmong(ctx, g, held{p.config, cases})
	return Evaluation{e.Items, e}, err
}

// A Play is what happened to one puzzle.
type Play struct {
	Case    string
	Grid    [4]int // along (i, j, k) and time, as that of the Config
	Patch   [3]int
	Patches []float32  // (cells, channels, D, H, W), in natural order, as the network saw them
	Shown   [2]float32 // the range of their intensities, for pictures
	Missing []bool     // the patches that were left out; nil: none
	// [0][s] is the patch that lay in slot s at first, [r][s] the one after round r
	Arrangements [][]int
	End          string // why it ended: resting, cycling, stopped
	// All is what became of all puzzles, which the picture has under the rounds; nil: it has not.
	All *Evaluation
}

// Misplaced is how many patches lie wrong after a round, of those that are there.
func (p Play) Misplaced(round int) int { return p.play().Misplaced(round) }

// Play plays the first puzzle that the seed makes of a case, of several grids on the finest, and
// keeps every arrangement until the iteration ends.
func (p *Player) Play(c sample.Sample) (Play, error) {
	play, err := p.player.Finest().Play(held{p.config, []sample.Sample{c}}, 0)
	if err != nil {
		return Play{}, err
	}
	return Play{
		Case: play.Name, Grid: numbersOf(p.config.grid()), Patch: p.config.Patch, Patches: play.Patches,
		Shown:   c.Range(0),
		Missing: play.Missing, Arrangements: play.Arrangements, End: play.End,
	}, nil
}
