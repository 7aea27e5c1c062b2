package puzzle2d

import (
	"context"
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

// A Player solves puzzles of photographs with trained weights: the middle of each, patches in the
// middle of their cells and not mirrored, and no look at the truth. Its methods are called from one
// goroutine at a time.
type Player struct {
	config Config
	player jigsaw.Players
}

// PlayOptions say how puzzles are solved. Zeros stand for what the network was trained with.
type PlayOptions struct {
	Rounds   int // at most
	Shuffles int // puzzles that are made of each photograph
	// Only is a number of orders: puzzles are shuffled by these alone, and the cheapest of them is
	// the answer, as a K-way puzzle has it; 0: all n!. They are those of a K-way head with the same
	// seed.
	Only int
	// Unary leaves the binary terms out, of a network that was trained with them.
	Unary  bool
	Memory int64 // limit in bytes of the network; 0: none
}

// Open prepares a player with the weights of a checkpoint of puzzles and the configuration that is
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
	c.Binary = c.Binary && !o.Unary
	if err := c.Check(); err != nil {
		return nil, err
	}
	game, err := c.game()
	if err != nil {
		return nil, err
	}
	if o.Only > 0 {
		if c.Head == HeadKWay {
			return nil,
				fmt.Errorf("%s: the network chooses among its %d orders already: --only-classes is for the other heads",
					path, c.Classes)
		}
		if game.Orders, err = c.orders(o.Only); err == nil {
			err = game.Check()
		}
		if err != nil {
			return nil, fmt.Errorf("--only-classes %d: %w", o.Only, err)
		}
	}
	network, err := c.Network.net(c.Patch, c.Patch)
	if err != nil {
		return nil, err
	}
	player, err := jigsaw.Open(dev, path, game, network, o.Memory)
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

// Config is the configuration that the network was trained with, but for what [PlayOptions] say.
func (p *Player) Config() Config { return p.config }

// Close gives the memory back.
func (p *Player) Close() { p.player.Close() }

// Metrics are shares of puzzles, and of patches.
type Metrics struct {
	Correct float64 `json:"correct"` // puzzles wholly solved
	Near    float64 `json:"near"`    // puzzles within Hamming distance 2 of the truth
	Patches float64 `json:"patches"` // patches in their place, of those that are there
}

// An Evaluation is how well the puzzles of some photographs were solved.
type Evaluation struct {
	Photos  int     `json:"photos"`
	Puzzles int     `json:"puzzles"`
	Loss    float64 `json:"loss"` // mean over photographs of the loss in the first round
	// after each; a puzzle that has come to rest keeps its answer
	Rounds []Metrics `json:"rounds"`
	Mean   float64   `json:"mean_rounds"` // rounds played, on average
	Chance Metrics   `json:"chance"`      // what blind guessing scores
	// Grids is each of several grids; the metrics above are the means over them then.
	Grids []GridEvaluation `json:"grids,omitempty"`
}

// A GridEvaluation is how well the puzzles of one grid of several were solved: see [Evaluation].
type GridEvaluation struct {
	Grid    string    `json:"grid"` // such as 3x3
	Puzzles int       `json:"puzzles"`
	Loss    float64   `json:"loss"`
	Rounds  []Metrics `json:"rounds"`
	Mean    float64   `json:"mean_rounds"`
	Chance  Metrics   `json:"chance"`
}

// Final are the metrics after the last round.
func (e Evaluation) Final() Metrics { return e.Rounds[len(e.Rounds)-1] }

// Evaluate plays Config.ValidateShuffles puzzles of each photograph, always the same ones for the
// same seed, number of photographs and order of them.
func (p *Player) Evaluate(ctx context.Context, store *photos.Store, numbers []int) (Evaluation, error) {
	h, err := p.held(store, numbers)
	if err != nil {
		return Evaluation{}, err
	}
	e, err := p.player.Evaluate(ctx, h)
	if err != nil {
		return Evaluation{}, err
	}
	out := Evaluation{Photos: e.Items, Puzzles: e.Puzzles, Loss: e.Loss, Rounds: metricsOf(e.Rounds), Mean: e.Mean,
		Chance: Metrics(e.Chance)}
	for _, g := range e.Grids {
		out.Grids = append(out.Grids, GridEvaluation{g.Grid.String(), g.Puzzles, g.Loss, metricsOf(g.Rounds), g.Mean,
			Metrics(g.Chance)})
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

// fits says whether a grid fits into the photographs.
func (c Config) fits(store *photos.Store) error {
	if width, height := store.Size(); width < c.Grid[1]*c.Cell || height < c.Grid[0]*c.Cell {
		return fmt.Errorf("a grid of %v cells of %d takes %dx%d pixels, the photographs have %dx%d (width x height): prepare them larger, or make the cells smaller",
			c.grid(), c.Cell, c.Grid[1]*c.Cell, c.Grid[0]*c.Cell, width, height)
	}
	return nil
}

// held are photographs that the network can play on.
func (p *Player) held(store *photos.Store, numbers []int) (held, error) {
	if err := p.config.fits(store); err != nil {
		return held{}, err
	}
	return held{cutter{p.config, store}, numbers}, nil
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
func (p *Player) Play(store *photos.Store, photo int) (Play, error) {
	h, err := p.held(store, []int{photo})
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
func (c cutter) pixels(photo int) ([]byte, error) {
	from, err := c.photos.At(photo)
	if err != nil {
		return nil, err
	}
	width, height := c.photos.Size()
	layout, row := c.config.layout(), 3*c.config.Patch
	var pixels []byte
	var at [2]int
	for p := range layout.Grid.Cells() {
		layout.Corner(at[:], p, nil)
		top, left := (height-layout.Crop[0])/2+at[0], (width-layout.Crop[1])/2+at[1]
		for y := range c.config.Patch {
			pixels = append(pixels, from[((top+y)*width+left)*3:][:row]...)
		}
	}
	return pixels, nil
}
