package jigsaw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/solver"
	"github.com/voxsaw/voxsaw/internal/train"
)

// A Player solves puzzles with trained weights: no variation, no gradients, and no look at the
// truth. Its methods are called from one goroutine at a time.
type Player struct {
	config  Config
	links   links
	encoder *nn.Program
	head    *head
	referee *referee
	patches []float32  // (cells, Backbone.Patch) of the item that is played
	name    string     // of that item
	params  *nn.Params // that Open has loaded; nil where they are the caller's
}

// Players are a player for each grid of a game.
type Players []*Player

// Trained is the settings of the game that a checkpoint was trained on.
type Trained struct {
	Puzzle   *voxsaw.Puzzle
	Shuffles *int     // puzzles that are made of an item
	Orders   []string // that are listed, of the K-way head
	// Game is the game and the network of the settings, which it checks.
	Game func(context.Context) (Config, Backbone, error)
}

// OpenTrained prepares players with the weights of a checkpoint, for a game that is played as the
// options say. It changes the settings so, too.
func OpenTrained(ctx context.Context, dev voxsaw.Device, path string, t Trained, o voxsaw.PlayOptions) (Players,
	error) {
	if err := with(t.Puzzle, t.Shuffles, path, o); err != nil {
		return nil, err
	}
	game, b, err := t.Game(ctx)
	if err == nil {
		err = game.among(ctx, o.Only, path, t.Orders)
	}
	if err != nil {
		return nil, err
	}
	return Open(dev, path, game, b, o.Memory)
}

// with changes the settings of a trained game as the options say; path is the checkpoint's.
func with(c *voxsaw.Puzzle, shuffles *int, path string, o voxsaw.PlayOptions) error {
	if o.Unary && !c.Binary {
		return fmt.Errorf("%s: the network was trained without binary terms: leave --unary out", path)
	}
	c.Rounds, *shuffles = cmp.Or(max(o.Rounds, 0), c.Rounds), cmp.Or(max(o.Shuffles, 0), *shuffles)
	c.Binary = c.Binary && !o.Unary
	return nil
}

// among makes a game one among k orders, chosen as [ChooseOrders] does; path is the checkpoint's.
func (c *Config) among(ctx context.Context, k int, path string, listed []string) (err error) {
	if k <= 0 {
		return nil
	}
	if c.Head == KWay {
		return fmt.Errorf("%s: the network chooses among its %d orders already: --only-classes is for the other heads",
			path, c.Classes)
	}
	if c.Orders, err = ChooseOrders(ctx, c.Seed, c.Grid.Cells(), k, c.Criterion, listed); err == nil {
		err = c.Check()
	}
	if err != nil {
		return fmt.Errorf("--only-classes %d: %w", k, err)
	}
	return nil
}

// Open prepares players with the weights of a checkpoint of a game of these settings.
func Open(dev voxsaw.Device, path string, c Config, b Backbone, memory int64) (Players, error) {
	d, err := device.From(dev)
	if err != nil {
		return nil, err
	}
	params := nn.NewParams(d, c.Seed)
	var list Players
	if err = c.Declare(b, params); err == nil {
		_, err = checkpoint.LoadAll(path, params, explainMissing)
	}
	if err == nil {
		list, err = newPlayers(d, c, b, params, nil, memory)
	}
	if err != nil {
		params.Close()
		return nil, err
	}
	list[len(list)-1].params = params // it is closed last
	return list, nil
}

// newPlayers compiles the programs of a player for each grid, in the memory of a trainer's.
func newPlayers(dev device.Device, c Config, b Backbone, params *nn.Params, share []*Trainer, memory int64) (Players,
	error) {
	var list Players
	for k, game := range c.games() {
		var trainer *Trainer
		if share != nil {
			trainer = share[k]
		}
		p, err := NewPlayer(dev, game, b, params, trainer, memory)
		if err != nil {
			list.Close()
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// Close gives the memory back.
func (list Players) Close() {
	for _, p := range list {
		p.Close()
	}
}

// Finest is the player on the grid of most cells.
func (list Players) Finest() *Player { return list[list[0].config.finestFirst()[0]] }

// Evaluate is [Player.Evaluate] on each grid. Of several grids the metrics are the means over them.
func (list Players) Evaluate(ctx context.Context, held Held) (Evaluation, error) {
	return list.EvaluateAmong(ctx, train.Group{}, held)
}

// EvaluateAmong is Evaluate by ranks that share out the items.
func (list Players) EvaluateAmong(ctx context.Context, g train.Group, held Held) (Evaluation, error) {
	var of []Evaluation
	for _, p := range list {
		e, err := p.EvaluateAmong(ctx, g, held)
		if err != nil || len(list) == 1 {
			e.Grid = ""
			return e, err
		}
		of = append(of, e)
	}
	return meanOf(of), nil
}

// meanOf is the evaluation of several grids together.
func meanOf(of []Evaluation) Evaluation {
	mean := Evaluation{Items: of[0].Items, Grids: of, Rounds: make([]Metrics, len(of[0].Rounds))}
	share := 1 / float64(len(of))
	for _, e := range of {
		mean.Puzzles += e.Puzzles
		mean.Loss += share * e.Loss
		mean.Mean += share * e.Mean
		add(&mean.Chance, e.Chance, share)
		add(&mean.Ceiling, e.Ceiling, share)
		for round, m := range e.Rounds {
			add(&mean.Rounds[round], m, share)
		}
	}
	return mean
}

// explainMissing says what it means that a checkpoint lacks a tensor.
func explainMissing(tensor string) string {
	if strings.HasPrefix(tensor, "puzzle.") {
		return "it is not a pretraining checkpoint with this head; puzzles can only be solved with one"
	}
	return "it is not a checkpoint of this network"
}

// NewPlayer compiles the programs that play. They lie in the memory of those of a trainer, if there
// is one: then it is not to play in the middle of a step.
func NewPlayer(dev device.Device, c Config, b Backbone, params *nn.Params, share *Trainer, memory int64) (*Player,
	error) {
	p := &Player{config: c, referee: newReferee(c), patches: make([]float32, c.cells()*elements(b))}
	encoder, head := nn.Options{MemoryLimit: memory}, nn.Options{MemoryLimit: memory}
	if share != nil {
		encoder.Share, head.Share = share.encoder, share.largestHead()
	}
	var err error
	if p.links, err = c.newLinks(params, nn.Eval, c.cells()); err != nil {
		return nil, err
	}
	if p.encoder, err = c.newEncoder(b, dev, params, nn.Eval, c.cells(), p.links, encoder); err == nil {
		p.head, err = c.newHead(dev, params, nn.Eval, c.cells(), c.Shuffles, p.links, head)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close gives the memory back.
func (p *Player) Close() {
	if p.encoder != nil {
		p.encoder.Close()
	}
	if p.head != nil {
		p.head.program.Close()
	}
	p.links.close()
	if p.params != nil {
		p.params.Close()
	}
	p.encoder, p.head, p.params = nil, nil, nil
}

type (
	// Metrics are shares of puzzles, and of patches.
	Metrics = voxsaw.PuzzleMetrics
	// An Evaluation is how well the puzzles of some items were solved.
	Evaluation = voxsaw.PuzzleEvaluation
)

func add(m *Metrics, other Metrics, weight float64) {
	m.Correct += weight * other.Correct
	m.Near += weight * other.Near
	m.Patches += weight * other.Patches
}

// OnGrid is an evaluation of several grids on this one; nil of nil.
func OnGrid(e *Evaluation, grid puzzle.Grid) *Evaluation {
	if e != nil {
		for _, of := range e.Grids {
			if of.Grid == grid.String() {
				return &of
			}
		}
	}
	return e
}

// validation is an evaluation as the loop logs it. The score is the share of patches in their place
// after the last round.
func validation(e Evaluation) voxsaw.Validation {
	final := e.Final()
	v := voxsaw.Validation{Score: final.Patches, Metrics: []voxsaw.Metric{
		{Name: "loss", Value: e.Loss}, {Name: "correct", Value: final.Correct}, {Name: "D<=2", Value: final.Near},
		{Name: "patches", Value: final.Patches},
		{Name: "ceiling", Value: e.Ceiling.Patches},
	}}
	if len(e.Rounds) > 1 {
		for i, m := range e.Rounds {
			for _, x := range []voxsaw.Metric{{Name: "correct", Value: m.Correct}, {Name: "D<=2", Value: m.Near},
				{Name: "patches", Value: m.Patches}} {
				v.Metrics = append(v.Metrics, voxsaw.Metric{Name: fmt.Sprintf("%s@%d", x.Name, i+1), Value: x.Value})
			}
		}
	}
	for _, of := range e.Grids {
		v.Metrics = append(v.Metrics, voxsaw.Metric{Name: "patches " + of.Grid, Value: of.Final().Patches})
	}
	return v
}

// Evaluate plays Config.Shuffles puzzles of each item, always the same ones for the same seed,
// number and order of items.
func (p *Player) Evaluate(ctx context.Context, held Held) (Evaluation, error) {
	return p.EvaluateAmong(ctx, train.Group{}, held)
}

// solved is how well the puzzles of one item were solved.
type solved struct {
	Scores          []puzzle.Score // after each round
	Puzzles, Played int            // puzzles, and rounds of all of them
	Ceiling         Metrics
	Loss            float64 // of the first round
}

// evaluate plays the puzzles of one item.
func (p *Player) evaluate(ctx context.Context, held Held, item int) (s solved, err error) {
	if err := ctx.Err(); err != nil {
		return s, err
	}
	s.Scores = make([]puzzle.Score, p.config.rounds())
	g, loss, err := p.play(held, item, len(s.Scores), func(round int, g *game) {
		for q, shuffle := range g.shuffles {
			s.Scores[round].AddPresent(g.puzzles[q].Answer(), shuffle, g.pieces[q].missing)
		}
	}, &s.Played)
	if err != nil {
		return s, err
	}
	s.Puzzles, s.Ceiling, s.Loss = len(g.shuffles), p.ceiling(g), loss
	return s, nil
}

// EvaluateAmong is Evaluate by ranks that share out the items. All have the whole result, which is
// that of one rank to the bit.
func (p *Player) EvaluateAmong(ctx context.Context, g train.Group, held Held) (Evaluation, error) {
	if held.Len() == 0 {
		return Evaluation{}, errors.New("there is nothing to solve puzzles of")
	}
	scores := make([]puzzle.Score, p.config.rounds())
	e := Evaluation{Items: held.Len(), Grid: p.config.Grid.String()}
	played := 0
	items, err := train.Divide(ctx, g, held.Len(),
		func(ctx context.Context, i int) (solved, error) { return p.evaluate(ctx, held, i) })
	if err != nil {
		return e, err
	}
	for _, s := range items {
		for round := range scores {
			scores[round].Join(s.Scores[round])
		}
		e.Puzzles += s.Puzzles
		add(&e.Ceiling, s.Ceiling, 1)
		e.Loss += s.Loss
		played += s.Played
	}
	// Divided once: seven times 1/7 is less than 1.
	for _, sum := range []*float64{&e.Ceiling.Correct, &e.Ceiling.Near, &e.Ceiling.Patches, &e.Loss} {
		*sum /= float64(held.Len())
	}
	for _, s := range scores {
		var m Metrics
		m.Correct, m.Near, m.Patches = s.Shares()
		e.Rounds = append(e.Rounds, m)
	}
	e.Mean = float64(played) / float64(e.Puzzles)
	e.Chance = p.config.chance()
	return e, nil
}

// chance is what blind guessing scores.
func (c Config) chance() (m Metrics) {
	if c.Orders != nil {
		m.Correct, m.Near, m.Patches = c.Orders.Chance()
		return m
	}
	m.Correct, m.Near, m.Patches = puzzle.Expected(c.present(),
		puzzle.Group{Positions: c.cells(), Present: c.present()})
	return m
}

// ceiling is the most that can be expected of the puzzles of the item that is played. With a
// limited set of orders the ceiling is 1: the other patches tell identical ones apart.
func (p *Player) ceiling(g *game) (mean Metrics) {
	if p.config.Orders != nil {
		return Metrics{Correct: 1, Near: 1, Patches: 1}
	}
	alike := Alike(p.patches, p.config.cells())
	puzzles := g.pieces
	if p.config.missing() == 0 {
		puzzles = puzzles[:1] // the same for all puzzles of the item
	}
	for _, of := range puzzles {
		var m Metrics
		m.Correct, m.Near, m.Patches = puzzle.Expected(p.config.present(), of.groups(alike)...)
		add(&mean, m, 1/float64(len(puzzles)))
	}
	return mean
}

// pieces are the patches of the item in one of its puzzles. Which are missing is a function of the
// seed, too.
func (p *Player) pieces(r *rand.Rand) pieces {
	of := p.config.newPieces(0, p.config.DrawMissing(r), true)
	of.blank = p.config.blank(p.patches, p.config.cells())
	if p.config.Identical {
		of.alike = Alike(p.patches, p.config.cells())
	}
	return of
}

// shuffles are the puzzles of an item, whose patches have been cut: a function of the seed and of
// the item's place in the list.
func (p *Player) shuffles(item int) (list []puzzle.Configuration, of []pieces) {
	for k := range p.config.Shuffles {
		r := seed.Rand(p.config.Seed, "validation", uint64(item), uint64(k))
		list = append(list, p.config.Draw(r, 1))
		of = append(of, p.pieces(r))
	}
	return list, of
}

// play plays the puzzles of an item for the given number of rounds, telling after each how they
// stand, and returns the loss of the first.
func (p *Player) play(held Held, item, rounds int, after func(round int, g *game), played *int) (*game, float64,
	error) {
	var err error
	p.name, err = held.Cut(item, p.config.Grid, p.patches)
	if err == nil {
		err = p.encoder.Set("patches", p.patches)
	}
	if err == nil {
		err = p.encoder.Forward()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("case %s: %w", p.name, err)
	}
	shuffles, of := p.shuffles(item)
	g := p.referee.newGame(shuffles, of, rounds)
	first := 0.0
	for round := range rounds {
		going := 0
		for q := range g.puzzles {
			p.head.place(q, g.pieces[q], g.arranged(q), true, p.referee.table)
			if g.puzzles[q].End() == solver.Going {
				going++
			}
		}
		if going > 0 {
			loss, err := p.look(g)
			if err != nil {
				return nil, 0, fmt.Errorf("case %s: %w", p.name, err)
			}
			if round == 0 {
				first = loss
			}
		}
		*played += going
		after(round, g)
	}
	return g, first, nil
}

// look plays one round of the puzzles that have not ended.
func (p *Player) look(g *game) (loss float64, err error) {
	if loss, err = p.head.look(); err == nil {
		err = p.head.scores()
	}
	for q := range g.puzzles {
		if err == nil && g.puzzles[q].End() == solver.Going {
			err = g.move(q, p.head, q)
		}
	}
	return loss, err
}

// A Play is what happened to one puzzle.
type Play struct {
	Name string // of the item
	// (cells, Backbone.Patch), in their natural order, as the network saw them
	Patches []float32
	Missing []bool // the patches that are left out; nil: none
	// [0][s] is the patch that lay in slot s at first, [r][s] the one after round r
	Arrangements [][]int
	End          string // why it ended: resting, cycling, stopped
}

// Play plays one puzzle of an item, and keeps every arrangement until the iteration ends.
func (p *Player) Play(held Held, item int) (Play, error) {
	var play Play
	ended := false
	g, _, err := p.play(held, item, p.config.rounds(), func(_ int, g *game) {
		if play.Arrangements == nil {
			play.Arrangements = [][]int{g.shuffles[0]}
		}
		if ended {
			return
		}
		ended = g.puzzles[0].End() != solver.Going
		if g.puzzles[0].End() != solver.Resting {
			play.Arrangements = append(play.Arrangements, g.arranged(0))
		}
	}, new(int))
	if err != nil {
		return play, err
	}
	play.Name, play.Patches, play.Missing = p.name, slices.Clone(p.patches), g.pieces[0].missing
	play.End = g.puzzles[0].End().String()
	return play, nil
}
