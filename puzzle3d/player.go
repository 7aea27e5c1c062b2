package puzzle3d

import (
	"context"
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
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

// PlayOptions say how puzzles are solved. Zeros stand for what the network was trained with.
type PlayOptions struct {
	Rounds   int // at most
	Shuffles int // puzzles that are made of each case
	// Only is a number of orders: puzzles are shuffled by these alone, and the cheapest of them is
	// the answer, as a K-way puzzle has it; 0: all n!. They are those of a K-way head with the same
	// seed.
	Only int
	// Unary leaves the binary terms out, of a network that was trained with them.
	Unary  bool
	Memory int64 // limit in bytes of the network; 0: none
}

// Open prepares a player with the weights of a pretraining checkpoint and the configuration that is
// in it.
func Open(dev voxsaw.Device, path string, o PlayOptions) (*Player, error) {
	c, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	if o.Rounds > 0 {
		c.Rounds = o.Rounds
	}
	if o.Shuffles > 0 {
		c.ValidateShuffles = o.Shuffles
	}
	if o.Unary && !c.Binary {
		return nil, fmt.Errorf("%s: the network was trained without binary terms: leave --unary out", path)
	}
	c.Binary = c.Binary && !o.Unary
	if err := c.Check(); err != nil {
		return nil, err
	}
	game, err := c.game()
	if err != nil {
		return nil, err
	}
	if o.Only > 0 {
		if c.Head == KWay {
			return nil,
				fmt.Errorf("%s: the network chooses among its %d orders already: --only-classes is for the other heads",
					path, c.Classes)
		}
		if game.Orders, err = jigsaw.ChooseOrders(c.Train.Seed, c.grid().Cells(), o.Only, c.Criterion,
			nil); err == nil {
			err = game.Check()
		}
		if err != nil {
			return nil, fmt.Errorf("--only-classes %d: %w", o.Only, err)
		}
	}
	encoder, err := c.encoder()
	if err != nil {
		return nil, err
	}
	player, err := jigsaw.Open(dev, path, game, encoder, o.Memory)
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

// Metrics are shares of puzzles, and of patches.
type Metrics struct {
	Correct float64 `json:"correct"` // puzzles wholly solved
	// puzzles within Hamming distance 2 of the truth: at most two patches misplaced
	Near    float64 `json:"near"`
	Patches float64 `json:"patches"` // patches in their place, of those that are there
}

// An Evaluation is how well the puzzles of some cases were solved.
type Evaluation struct {
	Cases   int     `json:"cases"`
	Puzzles int     `json:"puzzles"`
	Loss    float64 `json:"loss"` // mean over cases of the loss in the first round
	// after each round; a puzzle that has come to rest keeps its answer
	Rounds []Metrics `json:"rounds"`
	Mean   float64   `json:"mean_rounds"`
	Chance Metrics   `json:"chance"` // what blind guessing scores
	// Ceiling is what a solver scores, on average, that fails at nothing but patches that are the
	// same voxel for voxel, such as air.
	Ceiling Metrics `json:"ceiling"`
	// Grids is each of several grids; the metrics above are the means over them then.
	Grids []GridEvaluation `json:"grids,omitempty"`
}

// A GridEvaluation is how well the puzzles of one grid of several were solved: see [Evaluation].
type GridEvaluation struct {
	Grid    string    `json:"grid"` // such as 3x3x3
	Puzzles int       `json:"puzzles"`
	Loss    float64   `json:"loss"`
	Rounds  []Metrics `json:"rounds"`
	Mean    float64   `json:"mean_rounds"`
	Chance  Metrics   `json:"chance"`
	Ceiling Metrics   `json:"ceiling"`
}

// Final are the metrics after the last round.
func (e Evaluation) Final() Metrics { return e.Rounds[len(e.Rounds)-1] }

// Evaluate plays Config.ValidateShuffles puzzles of each case, always the same ones for the same
// seed, number of cases and order of cases.
func (p *Player) Evaluate(ctx context.Context, cases []sample.Sample) (Evaluation, error) {
	return p.evaluateAmong(ctx, train.Group{}, cases)
}

// evaluateAmong is Evaluate by ranks that share out the cases.
func (p *Player) evaluateAmong(ctx context.Context, g train.Group, cases []sample.Sample) (Evaluation, error) {
	e, err := p.player.EvaluateAmong(ctx, g, held{p.config, cases})
	if err != nil {
		return Evaluation{}, err
	}
	out := Evaluation{Cases: e.Items, Puzzles: e.Puzzles, Loss: e.Loss, Mean: e.Mean, Chance: Metrics(e.Chance),
		Ceiling: Metrics(e.Ceiling)}
	out.Rounds = metricsOf(e.Rounds)
	for _, g := range e.Grids {
		out.Grids = append(out.Grids, GridEvaluation{g.Grid.String(), g.Puzzles, g.Loss, metricsOf(g.Rounds), g.Mean,
			Metrics(g.Chance), Metrics(g.Ceiling)})
	}
	return out, nil
}

// ofGrid is what package jigsaw knows of an evaluation: of several grids, on this one.
func (e *Evaluation) ofGrid(grid puzzle.Grid) *jigsaw.Evaluation {
	if e == nil {
		return nil
	}
	puzzles, rounds := e.Puzzles, e.Rounds
	for _, g := range e.Grids {
		if g.Grid == grid.String() {
			puzzles, rounds = g.Puzzles, g.Rounds
		}
	}
	of := &jigsaw.Evaluation{Puzzles: puzzles}
	for _, m := range rounds {
		of.Rounds = append(of.Rounds, jigsaw.Metrics(m))
	}
	return of
}

func metricsOf(rounds []jigsaw.Metrics) []Metrics {
	list := make([]Metrics, len(rounds))
	for i, m := range rounds {
		list[i] = Metrics(m)
	}
	return list
}

// A Play is what happened to one puzzle.
type Play struct {
	Case        string
	Grid, Patch [3]int
	Patches     []float32  // (cells, D, H, W), in their natural order, as the network saw them
	Shown       [2]float32 // the range of their intensities, for pictures
	Missing     []bool     // the patches that were left out; nil: none
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
		Case: play.Name, Grid: p.config.Grid, Patch: p.config.Patch, Patches: play.Patches, Shown: c.Range(0),
		Missing: play.Missing, Arrangements: play.Arrangements, End: play.End,
	}, nil
}
