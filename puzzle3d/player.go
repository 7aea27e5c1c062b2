package puzzle3d

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/solver"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A Player solves puzzles of whole cases with trained weights: centre crops, patches in the middle
// of their cells, no gradients, and no look at the truth. Its methods are called from one goroutine
// at a time.
type Player struct {
	config   Config
	params   *nn.Params
	encoder  *nn.Program
	head     *head
	referee  *referee
	patches  []float32 // (cells, D, H, W)
	features []float32 // (cells, Features)
}

// Open prepares a player with the weights of a pretraining checkpoint. The configuration is the one
// that the checkpoint was trained with (it is in the checkpoint's metadata); rounds and shuffles
// may be changed. The report says which weights were loaded; one that is missing is an error.
func Open(dev device.Device, config Config, checkpoint string, memory int64) (*Player, train.Report, error) {
	config, err := config.Resolve(config.Preparation)
	if err != nil {
		return nil, train.Report{}, err
	}
	params := nn.NewParams(dev, config.Train.Seed)
	if err := config.declare(params); err != nil {
		return nil, train.Report{}, err
	}
	report, err := train.LoadWeights(checkpoint, params, nil)
	if err != nil {
		return nil, report, err
	}
	for _, s := range report.Skipped {
		if params.Shape(s.Name) != nil {
			return nil, report, fmt.Errorf("%s does not fit the configuration: %s: %s", checkpoint, s.Name, s.Reason)
		}
	}
	if len(report.Missing) > 0 {
		name, what := report.Missing[0], "it is not a checkpoint of this network"
		if strings.HasPrefix(name, "puzzle.") {
			what = "it is not a pretraining checkpoint with this head; puzzles can only be solved with one"
		}
		return nil, report, fmt.Errorf("%s has no %s: %s", checkpoint, name, what)
	}
	p, err := newPlayer(dev, config, params, nil, memory)
	return p, report, err
}

// newPlayer compiles the programs that play. They lie in the memory of those of a trainer, if there
// is one: then it is not to play in the middle of a step.
func newPlayer(dev device.Device, config Config, params *nn.Params, within *trainer, memory int64) (*Player, error) {
	p := &Player{
		config: config, params: params, referee: newReferee(config),
		patches: make([]float32, config.cells()*config.voxels()), features: make([]float32, config.cells()*config.Features),
	}
	encoder, head := nn.Options{MemoryLimit: memory}, nn.Options{MemoryLimit: memory}
	if within != nil {
		encoder.Share, head.Share = within.encoder, within.heads[len(within.heads)-1].program
	}
	var err error
	if p.encoder, err = config.newEncoder(dev, params, nn.Eval, config.cells(), encoder); err != nil {
		return nil, err
	}
	p.head, err = config.newHead(dev, params, nn.Eval, 1, config.ValidateShuffles, head)
	return p, err
}

// Config is the resolved configuration.
func (p *Player) Config() Config { return p.config }

// Metrics are shares of puzzles, and of patches.
type Metrics struct {
	Correct float64 `json:"correct"` // puzzles wholly solved
	// puzzles within Hamming distance 2 of the truth: at most two patches misplaced
	Near    float64 `json:"near"`
	Patches float64 `json:"patches"` // patches in their place
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
	// what a solver scores, on average, that fails at nothing but patches that are the same voxel
	// for voxel, such as air
	Ceiling Metrics `json:"ceiling"`
}

// Final are the metrics after the last round.
func (e Evaluation) Final() Metrics { return e.Rounds[len(e.Rounds)-1] }

func (e Evaluation) validation() train.Validation {
	final := e.Final()
	v := train.Validation{Score: final.Patches, Metrics: []train.Metric{
		{Name: "loss", Value: e.Loss}, {Name: "correct", Value: final.Correct}, {Name: "D<=2", Value: final.Near}, {Name: "patches", Value: final.Patches},
		{Name: "ceiling", Value: e.Ceiling.Patches},
	}}
	if len(e.Rounds) > 1 {
		for i, m := range e.Rounds {
			for _, x := range []train.Metric{{Name: "correct", Value: m.Correct}, {Name: "D<=2", Value: m.Near}, {Name: "patches", Value: m.Patches}} {
				v.Metrics = append(v.Metrics, train.Metric{Name: fmt.Sprintf("%s@%d", x.Name, i+1), Value: x.Value})
			}
		}
	}
	return v
}

// Evaluate plays ValidateShuffles puzzles of each case, always the same ones for the same seed,
// number of cases and order of cases.
func (p *Player) Evaluate(ctx context.Context, cases []*prepared.Case) (Evaluation, error) {
	if len(cases) == 0 {
		return Evaluation{}, fmt.Errorf("no cases to solve puzzles of")
	}
	rounds := p.config.rounds()
	scores := make([]puzzle.Score, rounds)
	e := Evaluation{Cases: len(cases)}
	played := 0
	for i, c := range cases {
		if err := ctx.Err(); err != nil {
			return e, err
		}
		g, loss, err := p.play(c, i, rounds, func(round int, g *game) {
			for q, shuffle := range g.shuffles {
				scores[round].Add(g.puzzles[q].Answer(), shuffle)
			}
		}, &played)
		if err != nil {
			return e, fmt.Errorf("case %s: %w", c.ID, err)
		}
		e.Puzzles += len(g.shuffles)
		correct, near, patches := p.config.grid().Ceiling(p.identical()...)
		e.Ceiling.Correct += correct
		e.Ceiling.Near += near
		e.Ceiling.Patches += patches
		e.Loss += loss
	}
	// Divided once: seven times 1/7 is less than 1.
	for _, sum := range []*float64{&e.Ceiling.Correct, &e.Ceiling.Near, &e.Ceiling.Patches, &e.Loss} {
		*sum /= float64(len(cases))
	}
	for _, s := range scores {
		var m Metrics
		m.Correct, m.Near, m.Patches = s.Shares()
		e.Rounds = append(e.Rounds, m)
	}
	e.Mean = float64(played) / float64(e.Puzzles)
	e.Chance.Correct, e.Chance.Near, e.Chance.Patches = p.config.grid().Chance()
	return e, nil
}

// identical counts the patches that are uniform, by their value. Others are never the same.
func (p *Player) identical() []int {
	counts := map[float32]int{}
	for n := 0; n < len(p.patches); n += p.config.voxels() {
		if patch := p.patches[n : n+p.config.voxels()]; uniform(patch) {
			counts[patch[0]]++
		}
	}
	return slices.Collect(maps.Values(counts))
}

// shuffles are the puzzles of a case: a function of the seed and of the case's place in the list.
func (p *Player) shuffles(number int) []puzzle.Configuration {
	var list []puzzle.Configuration
	for k := range p.config.ValidateShuffles {
		list = append(list, puzzle.Random(seed.Rand(p.config.Train.Seed, "validation", uint64(number), uint64(k)), p.config.cells()))
	}
	return list
}

// play plays the puzzles of a case for the given number of rounds, telling after each how they
// stand, and returns the loss of the first.
func (p *Player) play(c *prepared.Case, number, rounds int, after func(round int, g *game), played *int) (*game, float64, error) {
	if err := cutCentre(p.patches, p.config, c); err != nil {
		return nil, 0, err
	}
	err := p.encoder.Set("patches", p.patches)
	if err == nil {
		err = p.encoder.Forward()
	}
	if err == nil {
		err = p.encoder.Read("features", p.features)
	}
	if err == nil {
		err = p.head.program.Set("features", p.features)
	}
	if err != nil {
		return nil, 0, err
	}
	blank := p.config.blank(p.patches)
	g := p.referee.newGame(p.shuffles(number), rounds)
	first := 0.0
	for round := range rounds {
		going := 0
		for q := range g.puzzles {
			p.head.place(q, 0, g.arranged(q), true, blank, p.referee.table)
			if g.puzzles[q].End() == solver.Going {
				going++
			}
		}
		if going > 0 {
			loss, err := p.head.look()
			if err == nil {
				err = p.head.scores()
			}
			if err != nil {
				return nil, 0, err
			}
			if round == 0 {
				first = loss
			}
			for q := range g.puzzles {
				if g.puzzles[q].End() == solver.Going {
					if err := g.move(q, p.head, q); err != nil {
						return nil, 0, err
					}
				}
			}
		}
		*played += going
		after(round, g)
	}
	return g, first, nil
}

// A Play is what happened to one puzzle.
type Play struct {
	Case        string
	Grid, Patch [3]int
	Patches     []float32 // (cells, D, H, W), in their natural order, as the network saw them
	// [0][s] is the patch that lay in slot s at first, [r][s] the one after round r
	Arrangements [][]int
	End          string // why it ended: resting, cycling, stopped
}

// Misplaced is how many patches lie wrong after a round.
func (p Play) Misplaced(round int) int {
	c := puzzle.Configuration(p.Arrangements[round])
	return c.Distance(puzzle.Identity(len(c)))
}

// Play plays one puzzle of a case, which is number `number` of those that the seed makes, and keeps
// every arrangement until the iteration ends.
func (p *Player) Play(c *prepared.Case, number int) (Play, error) {
	shuffle := p.shuffles(number)[0]
	play := Play{Case: c.ID, Grid: p.config.Grid, Patch: p.config.Patch, Arrangements: [][]int{shuffle}}
	ended := false
	g, _, err := p.play(c, number, p.config.rounds(), func(_ int, g *game) {
		if ended {
			return
		}
		ended = g.puzzles[0].End() != solver.Going
		if g.puzzles[0].End() != solver.Resting {
			play.Arrangements = append(play.Arrangements, g.arranged(0))
		}
	}, new(int))
	if err != nil {
		return play, fmt.Errorf("case %s: %w", c.ID, err)
	}
	play.Patches = append(play.Patches, p.patches...)
	play.End = g.puzzles[0].End().String()
	return play, nil
}
