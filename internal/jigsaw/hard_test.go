package jigsaw

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
)

// hard is a game with missing patches, classes of identical ones and a head of attention.
func hard() Config {
	c := tiny()
	c.Head, c.Hidden, c.Layers, c.AttentionHeads = Attention, 8, 2, 2
	c.SkipBlank, c.Identical, c.Missing = false, true, 0.25
	return c
}

// hardNoise is a batch of a game on one of its grids: noise, of which three patches of the first
// puzzle are the same air, some of them missing.
func hardNoise(c Config, e Backbone, grid int) *Batch {
	r, size := seed.Rand(3, "test"), elements(e)
	b, of := &Batch{Grid: grid}, c.On(grid)
	n := of.cells()
	for p := range c.Batch {
		patches := make([]float32, n*size)
		for i := range patches {
			patches[i] = float32(r.NormFloat64())
		}
		for _, air := range []int{1, 2, 5} {
			for i := range size {
				if p == 0 {
					patches[air*size+i] = -1
				}
			}
		}
		b.Alike = append(b.Alike, Alike(patches, n))
		b.Shuffles = append(b.Shuffles, puzzle.Random(r, n))
		missing := of.DrawMissing(r)
		if missing == nil {
			b.Patches = append(b.Patches, patches...)
			continue
		}
		if p == 0 { // one of the air is missing, two are there
			missing = make([]bool, n)
			for k := range of.missing() {
				missing[[]int{1, 3, 4, 6, 7, 0}[k]] = true
			}
		}
		b.Missing = append(b.Missing, missing)
		for patch, left := range missing {
			if !left {
				b.Patches = append(b.Patches, patches[patch*size:][:size]...)
			}
		}
	}
	return b
}

// Steps with missing patches, identical ones, several grids and attention are those of a network
// that sees the patches themselves, and their gradients are difference quotients.
func TestHardStepEqualsTheNaiveOne(t *testing.T) {
	dev, e := testDevice(t), encoder(t)
	played := 0
	for _, v := range []struct {
		head             string
		missing          float64
		identical, mixed bool
		binary           bool
		rounds           int
	}{
		{Attention, 0, false, false, false, 4},
		{Attention, 0.25, true, true, false, 4},
		{Attention, 0.25, true, true, false, 1},
		{Attention, 0.25, true, false, true, 4},
		{Attention, 0, false, false, true, 1},
		{Symmetric, 0.4, false, true, true, 1},
		{Both, 0.25, true, false, true, 4},
		{Paper, 0.4, false, false, false, 4},
		{Both, 0.4, true, false, true, 1},
		{Symmetric, 0, true, true, false, 1},
	} {
		c := hard()
		c.Head, c.Missing, c.Identical, c.Binary, c.Rounds = v.head, v.missing, v.identical, v.binary, v.rounds
		if v.mixed {
			c.Grids = []puzzle.Grid{{2, 2, 2}, {3, 2, 1}}
		}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		for grid := range c.games() {
			played += equalsNaive(t, dev, c, e, hardNoise(c, e, grid))
		}
	}
	if played < 30 {
		t.Errorf("only %d positions were played: the rounds were not tested", played)
	}
}

// The gradient of the rows of another grid's positions is zero, and there is one.
func TestAStepHasEveryGradient(t *testing.T) {
	dev, e, c := testDevice(t), encoder(t), hard()
	c.Grids = []puzzle.Grid{{2, 2, 2}, {3, 2, 1}}
	params := nn.NewParams(dev, 1)
	if err := c.Declare(e, params); err != nil {
		t.Fatal(err)
	}
	trainers, err := newTrainers(dev, c, e, params, nil, train.Group{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTrainers(trainers)
	for grid, rows := range [][2]int{{0, 8}, {8, 14}} {
		if _, err := trainers[grid].Step(0, hardNoise(c, e, grid)); err != nil {
			t.Fatal(err)
		}
		g, err := params.Grad("puzzle.position.weight")
		if err != nil {
			t.Fatal(err)
		}
		if len(g) != 14*c.Hidden {
			t.Fatalf("%d weights for 8 and 6 positions of %d", len(g), c.Hidden)
		}
		for i, x := range g {
			row := i / c.Hidden
			if own := row >= rows[0] && row < rows[1]; !own && x != 0 {
				t.Errorf("grid %d: the gradient of position %d is %v", grid, row, x)
			}
		}
		if slices.Max(g[rows[0]*c.Hidden:rows[1]*c.Hidden]) == 0 {
			t.Errorf("grid %d: its own positions have no gradient", grid)
		}
	}
}

// attentionScores runs the attention head on features of one board that lie in some slots.
func attentionScores(t *testing.T, dev device.Device, c Config, params *nn.Params, features []float32,
	slots []int) []float32 {
	t.Helper()
	g := nn.NewGraph(nn.Eval, device.Float32)
	u := c.attention(g, g.Input("features", c.present(), c.Features), 1)
	p, err := nn.Compile(dev, g, params, nn.Options{Outputs: map[string]*nn.Node{"u": u}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	n := c.cells()
	hot := make([]float32, len(slots)*n)
	for k, s := range slots {
		hot[k*n+s] = 1
	}
	out := make([]float32, c.present()*n)
	for _, err := range []error{p.Set("features", features), p.Set("slots", hot), p.Forward(), p.Read("u", out)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// Tokens have no order: permuting them, each with its slot, permutes the scores. Where they lie
// does not matter at first, and does once the vectors of the slots have been learnt.
func TestAttentionIsEquivariant(t *testing.T) {
	dev, e, c := testDevice(t), encoder(t), hard()
	params := nn.NewParams(dev, 5)
	if err := c.Declare(e, params); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	features := make([]float32, c.present()*c.Features)
	for i := range features {
		features[i] = r.Float32()
	}
	slots, others := r.Perm(c.cells())[:c.present()], r.Perm(c.cells())[:c.present()]
	if !slices.Equal(attentionScores(t, dev, c, params, features, slots), attentionScores(t, dev, c, params, features,
		others)) {
		t.Error("before training the scores depend on where patches lie")
	}
	values, err := params.Read("puzzle.slot.weight")
	if err != nil {
		t.Fatal(err)
	}
	for i := range values {
		values[i] = float32(r.NormFloat64())
	}
	if err := params.Write("puzzle.slot.weight", values); err != nil {
		t.Fatal(err)
	}
	scores := attentionScores(t, dev, c, params, features, slots)
	if slices.Equal(scores, attentionScores(t, dev, c, params, features, others)) {
		t.Error("the scores do not depend on where patches lie")
	}
	order := r.Perm(c.present())
	var permuted []float32
	var permutedSlots []int
	for _, k := range order {
		permuted, permutedSlots = append(permuted, features[k*c.Features:][:c.Features]...),
			append(permutedSlots, slots[k])
	}
	got := attentionScores(t, dev, c, params, permuted, permutedSlots)
	for i, k := range order {
		for p := range c.cells() {
			if a, b := got[i*c.cells()+p], scores[k*c.cells()+p]; math.Abs(float64(a-b)) > 1e-5 {
				t.Fatalf("token %d has score %v at position %d, before it was permuted %v", k, a, p, b)
			}
		}
	}
}

// What a player says of puzzles with missing patches is counted again from its answers.
func TestEvaluationWithMissingPatches(t *testing.T) {
	dev, e, c := testDevice(t), encoder(t), hard()
	c.Grids, c.Shuffles, c.Missing = []puzzle.Grid{{3, 2, 1}, {2, 2, 2}}, 3, 0.4
	params := nn.NewParams(dev, 1)
	if err := c.Declare(e, params); err != nil {
		t.Fatal(err)
	}
	players, err := newPlayers(dev, c, e, params, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer players.Close()
	items := heldNoise{c, e, 4}
	ev, err := players.Evaluate(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	mean := 0.0
	for k, p := range players {
		placed, there := 0, 0
		n, present := p.config.cells(), p.config.present()
		for i := range items.n {
			if _, _, err := p.play(items, i, c.Rounds, func(round int, g *game) {
				if round < c.Rounds-1 {
					return
				}
				for q, shuffle := range g.shuffles {
					for s, patch := range shuffle {
						if !g.pieces[q].missing[patch] {
							there++
							if g.puzzles[q].Answer()[s] == patch {
								placed++
							}
						}
					}
				}
			}, new(int)); err != nil {
				t.Fatal(err)
			}
		}
		if there != items.n*c.Shuffles*present {
			t.Errorf("grid %v: %d patches are there, want %d of %d in each puzzle", p.config.Grid, there, present, n)
		}
		share := float64(placed) / float64(there)
		mean += share / 2
		of := ev.Grids[k]
		if math.Abs(of.Final().Patches-share) > 1e-12 || math.Abs(of.Chance.Patches-1/float64(n)) > 1e-12 ||
			of.Ceiling.Patches != 1 {
			t.Errorf("grid %v: %+v, counted %v", p.config.Grid, of, share)
		}
	}
	if math.Abs(ev.Final().Patches-mean) > 1e-12 || ev.Puzzles != 2*items.n*c.Shuffles ||
		players.Finest() != players[1] {
		t.Errorf("%+v; the mean over grids is %v", ev, mean)
	}
	v := validation(ev)
	if last := v.Metrics[len(v.Metrics)-1]; last.Name != "patches 2x2x2" || last.Value != ev.Grids[1].Final().Patches ||
		v.Score != ev.Final().Patches {
		t.Errorf("validation %+v", v)
	}
}

func TestHardGamesThatCannotBe(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"missing is 1":                func(c *Config) { c.Missing = 1 },
		"missing is NaN":              func(c *Config) { c.Missing = math.NaN() },
		"less than two are left":      func(c *Config) { c.Missing = 0.9 },
		"less than half a patch":      func(c *Config) { c.Missing = 0.05 },
		"column_sum wants every":      func(c *Config) { c.ColSum = 1 },
		"attention_heads is 3":        func(c *Config) { c.AttentionHeads = 3 },
		"layers is 0":                 func(c *Config) { c.Layers = 0 },
		"head paper is for one grid":  func(c *Config) { c.Head, c.Grids = Paper, []puzzle.Grid{{2, 2, 2}, {3, 2, 1}} },
		"2x2x2 is listed twice":       func(c *Config) { c.Grids = []puzzle.Grid{{2, 2, 2}, {2, 2, 2}} },
		"orders needs every patch":    func(c *Config) { *c = kway(t, 7); c.Missing = 0.25 },
		"choice among orders has one": func(c *Config) { *c = kway(t, 7); c.Identical = true },
	} {
		c := hard()
		spoil(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestAlike(t *testing.T) {
	patches := []float32{1, 2, 3, 3, 1, 2, 0, 3, 3, 3}
	if got := fmt.Sprint(Alike(patches, 5)); got != "[0 1 0 3 1]" {
		t.Errorf("alike %v", got)
	}
}
