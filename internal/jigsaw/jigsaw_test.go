package jigsaw

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/solver"
	"github.com/voxsaw/voxsaw/internal/train"

	_ "github.com/voxsaw/voxsaw/vnet" // the network of the patches
)

func testDevice(t testing.TB) device.Device {
	t.Helper()
	return cputest.New(t, cpu.Options{Threads: 2})
}

// tiny is a game that a test can play.
func tiny() Config {
	return Config{
		Puzzle: voxsaw.Puzzle{Head: Symmetric, Features: 12, Hidden: 10, Rounds: 5, Distance: 3, Batch: 2},
		Grid:   puzzle.Grid{2, 2, 2}, SkipBlank: true, Shuffles: 1,
	}
}

// encoder is a small network of patches.
func encoder(t testing.TB) Backbone {
	t.Helper()
	b, err := backbone.Of(voxsaw.Network{Preset: "paper", Channels: 4, Levels: 1, Norm: "instance"})
	if err != nil {
		t.Fatal(err)
	}
	return backbone.Patches{Backbone: b, Size: [3]int{6, 4, 4}}
}

// naive is one training step as the paper describes it: in every round the patches themselves are
// put in order and go through the whole network, one puzzle at a time; then one large network sees
// every position that was played, and its loss is differentiated as a whole.
func naive(t *testing.T, dev device.Device, c Config, e Backbone, params *nn.Params, b *Batch) (loss float64,
	positions int) {
	t.Helper()
	all := map[string][]float32{}
	for p, shuffle := range b.Shuffles {
		left := shuffle.Clone() // left[s]: where the patch in slot s belongs
		seen := map[string]bool{}
		for round, solved := 0, false; round < c.Rounds && !solved &&
			(c.PaperRounds || !seen[fmt.Sprint(left)]); round++ {
			solved = true
			for s, patch := range left {
				solved = solved && (isMissing(b, p, patch) || s == patch ||
					c.Identical && b.Alike[p][s] == b.Alike[p][patch])
			}
			if c.PaperRounds && round > 0 && solved {
				break
			}
			seen[fmt.Sprint(left)] = true
			inputs := boardOf(c, e, b, p, left)
			_, unary, pairs := compileNaive(t, dev, c, e, params, 1, inputs)
			for name, values := range inputs {
				if name == "where" { // slots of all boards together
					for i := range values {
						values[i] += float32(positions * c.cells())
					}
				}
				if name != "positions" {
					values = append(all[name], values...)
				}
				all[name] = values
			}
			positions++
			answer := answerOf(t, c, b, p, left, unary, pairs)
			if answer.Solved() {
				break
			}
			left = left.Rearranged(answer)
		}
	}
	program, _, _ := compileNaive(t, dev, c, e, params, positions, all)
	if err := program.Backward(); err != nil {
		t.Fatal(err)
	}
	var l [1]float32
	if err := program.Read("loss", l[:]); err != nil {
		t.Fatal(err)
	}
	return float64(l[0]), positions
}

func isMissing(b *Batch, p, patch int) bool { return b.Missing != nil && b.Missing[p][patch] }

// answerOf is where the scores put what lies in each slot.
func answerOf(t *testing.T, c Config, b *Batch, p int, left puzzle.Configuration, unary,
	pairs []float32) puzzle.Configuration {
	t.Helper()
	n := c.cells()
	terms := solver.Terms{Unary: make([]float64, n*n)}
	solver.Costs(terms.Unary, unary, n)
	if c.Binary {
		terms.Binary, terms.Relation, terms.Classes = make([]float64, n*n*27), c.Grid.RelationTable(), 27
		solver.Costs(terms.Binary, pairs, 27)
		for i := range terms.Binary {
			terms.Binary[i] *= cmp.Or(c.BinaryWeight, 1)
		}
	}
	if b.Missing != nil {
		terms.Missing = make([]bool, n)
		for s, patch := range left {
			terms.Missing[s] = isMissing(b, p, patch)
		}
	}
	answer := make(puzzle.Configuration, n)
	if _, err := new(solver.Solver).Solve(answer, terms, c.Distance); err != nil {
		t.Fatal(err)
	}
	return answer
}

// boardOf is the inputs of a network that sees one puzzle as it lies: left[s] in slot s.
func boardOf(c Config, e Backbone, b *Batch, p int, left puzzle.Configuration) map[string][]float32 {
	n, size, in := c.cells(), elements(e), map[string][]float32{}
	there := func(patch int) bool { return !isMissing(b, p, patch) }
	number := func(patch int) int { // of its voxels among those of the batch
		number := p * c.present()
		for other := range patch {
			if there(other) {
				number++
			}
		}
		return number
	}
	all, first := c.positions()
	for s, patch := range left {
		truth := float32(patch)
		if !there(patch) || c.SkipBlank && p == 0 && (patch == 1 || patch == 2) { // air
			truth = -1
		}
		in["truth"] = append(in["truth"], truth)
		in["positions"] = append(in["positions"], float32(first+s))
		for position := range n {
			right := truth >= 0 && (position == patch || c.Identical && b.Alike[p][position] == b.Alike[p][patch])
			in["right"] = append(in["right"], map[bool]float32{true: 1}[right])
		}
		if there(patch) {
			in["patches"] = append(in["patches"], b.Patches[number(patch)*size:][:size]...)
			in["where"] = append(in["where"], float32(s))
			slot := make([]float32, all)
			slot[first+s] = 1
			in["slots"] = append(in["slots"], slot...)
		}
	}
	alone := func(patch int) bool {
		for other := range n {
			if c.Identical && other != patch && b.Alike[p][other] == b.Alike[p][patch] {
				return false
			}
		}
		return true
	}
	for i, one := range left {
		for j, other := range left {
			relation := float32(c.Grid.Relation(one, other))
			if i == j || in["truth"][i] < 0 || in["truth"][j] < 0 || !alone(one) || !alone(other) {
				relation = -1
			}
			in["relations"] = append(in["relations"], relation)
		}
	}
	in["counts"] = []float32{1}
	return in
}

// compileNaive runs one network from voxels to the loss.
func compileNaive(t *testing.T, dev device.Device, c Config, e Backbone, params *nn.Params, boards int,
	inputs map[string][]float32) (*nn.Program, []float32, []float32) {
	t.Helper()
	n := c.cells()
	g := nn.NewGraph(nn.Train, device.Float32)
	f := g.Linear("puzzle.feature", e.Encode(g, g.Input("patches", patches(e, boards*c.present())...)), c.Features,
		true)
	if !c.LinearFeatures {
		f = g.ReLU(f)
	}
	h := c.head(g, f, boards)
	o := nn.Options{Outputs: map[string]*nn.Node{"unary": h.unary}, Loss: h.loss}
	if c.Binary {
		o.Outputs["pairs"] = h.pairs
	}
	p, err := nn.Compile(dev, g, params, o)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range inputs {
		if p.Shape(name) == nil { // the head has no such input
			continue
		}
		if err := p.Set(name, values); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Forward(); err != nil {
		t.Fatal(err)
	}
	unary, pairs := make([]float32, boards*n*n), make([]float32, boards*n*n*27)
	if err := p.Read("unary", unary); err != nil {
		t.Fatal(err)
	}
	if c.Binary {
		if err := p.Read("pairs", pairs); err != nil {
			t.Fatal(err)
		}
	}
	return p, unary, pairs
}

// noise is a batch of puzzles of noise, with two patches of air.
func noise(c Config, e Backbone) *Batch {
	r, size := seed.Rand(3, "test"), elements(e)
	b := &Batch{Patches: make([]float32, c.Batch*c.cells()*size)}
	for i := range b.Patches {
		b.Patches[i] = float32(r.NormFloat64())
	}
	for i := range 2 * size {
		b.Patches[size+i] = -1
	}
	for range c.Batch {
		b.Shuffles = append(b.Shuffles, puzzle.Random(r, c.cells()))
	}
	return b
}

// gradients takes a step and gives what it says and the gradient of each parameter.
func gradients(t *testing.T, tr *Trainer, params *nn.Params, b *Batch) (train.Result, map[string][]float32) {
	t.Helper()
	result, err := tr.Step(0, b)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]float32{}
	for _, name := range params.Names() {
		if params.Trained(name) {
			if got[name], err = params.Grad(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	return result, got
}

func TestStepEqualsTheNaiveOne(t *testing.T) {
	dev, e := testDevice(t), encoder(t)
	played := 0
	for _, variant := range []struct {
		head   string
		rounds int
		binary bool
		column float64
	}{{Paper, 4, false, 0}, {Both, 5, true, 0}, {Symmetric, 1, true, 0.3}, {Both, 1, false, 0.5}, {Paper, 3, true, 0},
		{Both, 5, true, 0.5}} {
		c := tiny()
		c.Head, c.Rounds, c.Binary, c.ColSum, c.Distance = variant.head, variant.rounds, variant.binary,
			variant.column, 3
		played += equalsNaive(t, dev, c, e, noise(c, e))
	}
	if played < 16 {
		t.Errorf("only %d positions were played: the rounds were not tested", played)
	}
}

// equalsNaive holds a step against the naive one and against difference quotients. It returns how
// many positions were played.
func equalsNaive(t *testing.T, dev device.Device, c Config, e Backbone, b *Batch) (positions int) {
	t.Helper()
	params := nn.NewParams(dev, 1)
	if err := c.Declare(e, params); err != nil {
		t.Fatal(err)
	}
	trainers, err := newTrainers(dev, c, e, params, nil, train.Group{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	tr := trainers[b.Grid]
	what := fmt.Sprintf("%s, grid %v, missing %v, identical %v, %d rounds, binary %v", c.Head, tr.config.Grid,
		c.Missing, c.Identical, c.Rounds, c.Binary)
	result, got := gradients(t, tr, params, b)
	loss, positions := naive(t, dev, tr.config, e, params, b)
	// Both sum the same float32 products in different orders.
	if math.Abs(result.Loss-loss) > 1e-5*loss {
		t.Errorf("%s: loss %v, naive %v", what, result.Loss, loss)
	}
	if c.Rounds > 1 && math.Abs(result.Metrics[1].Value-float64(positions)/float64(c.Batch)) > 1e-9 {
		t.Errorf("%s: %v rounds a puzzle, naive plays %d positions", what, result.Metrics[1].Value, positions)
	}
	for name, g := range got {
		want, err := params.Grad(name)
		if err != nil {
			t.Fatal(err)
		}
		var difference, size float64
		for i := range want {
			difference = max(difference, math.Abs(float64(g[i]-want[i])))
			size = max(size, math.Abs(float64(want[i])))
		}
		if difference > 2e-4*size+5e-7 { // biases before a norm have no gradient but rounding
			t.Errorf("%s: gradient of %s differs by %v of %v", what, name, difference, size)
		}
	}
	// What an untrained head of attention says of patches is much the same, and of identical ones
	// the same: the least change decides the next round otherwise.
	if c.Rounds == 1 || c.Head != Attention && !c.Identical && c.Missing == 0 {
		differences(t, tr, params, b, got)
	}
	return positions
}

// differences holds some gradients against difference quotients of the whole step's loss. Where a
// small change of a parameter changes what is played, the loss jumps and there is nothing to
// compare.
func differences(t *testing.T, tr *Trainer, params *nn.Params, b *Batch, gradients map[string][]float32) {
	t.Helper()
	compared := 0
	for name, g := range gradients {
		at := 0
		for i := range g {
			if math.Abs(float64(g[i])) > math.Abs(float64(g[at])) {
				at = i
			}
		}
		// With h = 1e-3 and losses near 2, rounding of float32 is about 2e-7 / 1e-3 = 2e-4 of the
		// quotient, curvature and PReLU's kinks less than 5 %.
		const h = 1e-3
		values, err := params.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		var boards []float32
		jumped := false
		loss := func(d float32) float64 {
			moved := slices.Clone(values)
			moved[at] += d
			if err := params.Write(name, moved); err != nil {
				t.Fatal(err)
			}
			r, err := tr.Step(0, b)
			if err != nil {
				t.Fatal(err)
			}
			var now []float32
			for _, h := range tr.heads {
				now = slices.Concat(now, h.index, h.where, h.truth)
			}
			jumped = jumped || tr.config.rounds() > 1 && boards != nil && !slices.Equal(boards, now)
			boards = now
			return r.Loss
		}
		quotient := (loss(h) - loss(-h)) / (2 * h)
		if err := params.Write(name, values); err != nil {
			t.Fatal(err)
		}
		if jumped {
			continue
		}
		compared++
		if want := float64(g[at]); math.Abs(quotient-want) > 0.05*math.Abs(want)+2e-3 {
			t.Errorf("%s[%d]: gradient %v, difference quotient %v", name, at, want, quotient)
		}
	}
	if compared < len(gradients)/2 {
		t.Errorf("only %d of %d gradients could be compared", compared, len(gradients))
	}
}

// Little memory, and rounds that need larger heads than the first: the encoder leaves room for the
// largest, so that a run that starts does not end where a puzzle takes more rounds.
func TestALimitOfMemoryHoldsForAllRounds(t *testing.T) {
	dev, e, c := testDevice(t), encoder(t), tiny()
	c.Head = Paper
	compile := func(memory int64) (*Trainer, *nn.Params, error) {
		params := nn.NewParams(dev, 1)
		if err := c.Declare(e, params); err != nil {
			t.Fatal(err)
		}
		tr, err := NewTrainer(dev, c, e, params, nil, train.Group{}, memory)
		return tr, params, err
	}
	free, params, err := compile(0)
	if err != nil {
		t.Fatal(err)
	}
	// The least that will do, by steps of a part in a thousand.
	most := params.Total()
	limit, tr := most, free
	for next := most; err == nil; next -= most / 1000 {
		var smaller *Trainer
		if smaller, _, err = compile(next); err == nil {
			limit, tr = next, smaller
		}
	}
	if limit == most || tr.encoder.Bytes() >= free.encoder.Bytes() {
		t.Fatalf("a limit saves nothing: %d of %d bytes", limit, most)
	}
	if !errors.As(err, new(*nn.MemoryError)) {
		t.Errorf("a smaller limit: %v", err)
	}
	want, err := free.Step(0, noise(c, e))
	if err != nil {
		t.Fatal(err)
	}
	got, err := tr.Step(0, noise(c, e))
	if err != nil {
		t.Fatalf("in %d of %d bytes: %v", limit, most, err)
	}
	if got.Loss != want.Loss || got.Metrics[1].Value <= 1 {
		t.Errorf("loss %v and %v rounds in little memory, %v and %v otherwise", got.Loss, got.Metrics[1].Value,
			want.Loss, want.Metrics[1].Value)
	}
}
