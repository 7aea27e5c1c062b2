package jigsaw

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone/backbonetest"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/solver"
	"github.com/voxsaw/voxsaw/internal/train"
)

// With a weight the loss is equation 1's sum, divided by boards and, but for sum_loss, by patches,
// and puzzles are solved by the same sum; without one the loss is the two means, as it was before
// there was a weight. PyTorch has the losses and every gradient, numpy and scipy list every
// answer within the distance.
func TestBinaryWeightIsEquationOnes(t *testing.T) {
	data, err := os.ReadFile("../../testdata/equation1.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Truth []puzzle.Configuration
		Cases []struct {
			Weight, Loss float64
			Features     []float64
			Gradients    map[string][]float64
			Answers      map[string][]puzzle.Configuration
		}
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	boards := len(want.Truth)
	dev, answers := testDevice(t), map[string]bool{}
	for k := range 2 * len(want.Cases) {
		golden, times := want.Cases[k/2], 1.0
		sum := k%2 == 1
		if sum && golden.Weight == 0 { // there is no sum of two means
			continue
		}
		c := Config{Grid: puzzle.Grid{3, 3}, Shuffles: 1, Puzzle: voxsaw.Puzzle{Head: Paper, Features: 4, Hidden: 1,
			Rounds: 1, Binary: true, Distance: 3, Batch: boards, SearchOnce: true, BinaryWeight: golden.Weight,
			SumLoss: sum}}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		n := c.cells()
		if sum {
			times = float64(n)
		}
		all := func(values []float64) []float64 {
			values = slices.Clone(values)
			for i := range values {
				values[i] *= times
			}
			return values
		}
		params := nn.NewParams(dev, 1)
		g, nodes := c.headGraph(nn.Train, boards*n, boards)
		program, err := nn.Compile(dev, g, params, nn.Options{Loss: nodes.loss,
			Outputs: map[string]*nn.Node{"unary": nodes.unary, "pairs": nodes.pairs, "total": nodes.loss}})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range params.Names() {
			if err := params.Write(name, backbonetest.Noise(name, params.Shape(name).Elements())); err != nil {
				t.Fatal(err)
			}
		}
		h := c.newBoards(boards)
		h.program = program
		for b, truth := range want.Truth {
			h.place(b, c.newPieces(b*n, nil, true), truth, true, c.Grid.RelationTable())
			for s := range n { // the features come as they lie on the board
				h.index[b*n+s] = float32(b*n + s)
			}
		}
		features := make([]float32, boards*n*c.Features)
		if err := program.Set("features", backbonetest.Noise("features", len(features))); err != nil {
			t.Fatal(err)
		}
		loss, err := h.look()
		if err == nil {
			err = program.Backward()
		}
		if err == nil {
			err = program.Read("grad:features", features)
		}
		if err == nil {
			err = h.scores()
		}
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("weight %v, sum %v: ", golden.Weight, sum)
		near(t, what+"loss", []float32{float32(loss)}, all([]float64{golden.Loss}))
		near(t, what+"gradient of the features", features, all(golden.Features))
		if len(golden.Gradients) != len(params.Names()) {
			t.Errorf("%d parameters, PyTorch has %d", len(params.Names()), len(golden.Gradients))
		}
		for name, gradient := range golden.Gradients {
			got, err := params.Grad(name)
			if err != nil {
				t.Fatal(err)
			}
			near(t, what+name, got, all(gradient))
		}
		for distance, list := range golden.Answers {
			if c.Distance, err = strconv.Atoi(distance); err != nil {
				t.Fatal(err)
			}
			for b, answer := range list {
				r := newReferee(c)
				if err := r.answerTo(h, b); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(r.answer, answer) {
					t.Errorf(
						"weight %v, distance %s: board %d is solved by %v, numpy's is %v",
						golden.Weight,
						distance,
						b,
						r.answer,
						answer,
					)
				}
				answers[fmt.Sprint(b, answer)] = true
			}
		}
		program.Close()
		params.Close()
	}
	if len(answers) <= 2*boards {
		t.Errorf("only %d answers: weight and distance hardly mattered", len(answers))
	}
}

// A sum wants terms to add up, and a weight of those of pairs.
func TestSumWantsTerms(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"":              func(*Config) {},
		"binary_weight": func(c *Config) { c.Binary, c.BinaryWeight = true, 0 },
		"head kway": func(c *Config) {
			c.Head, c.Orders = KWay, puzzle.Selection{puzzle.Identity(c.cells()), puzzle.Identity(c.cells())}
			slices.Reverse(c.Orders[1])
		},
	} {
		c := tiny()
		c.SumLoss = true
		change(&c)
		if err := c.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// The search that looks once stops where the other goes on, and is never cheaper.
func TestSearchOnce(t *testing.T) {
	grid, stopped := puzzle.Grid{3, 3}, 0
	n, classes := grid.Cells(), grid.Relations()
	for k := range 20 {
		terms := solver.Terms{Unary: make([]float64, n*n), Binary: make([]float64, n*n*classes),
			Relation: grid.RelationTable(), Classes: classes}
		for i, x := range backbonetest.Noise(fmt.Sprint("unary", k), n*n) {
			terms.Unary[i] = float64(x)
		}
		for i, x := range backbonetest.Noise(fmt.Sprint("binary", k), n*n*classes) {
			terms.Binary[i] = float64(x)
		}
		once, all := make([]int, n), make([]int, n)
		short, err := (&solver.Solver{Once: true}).Solve(once, terms, 2)
		if err != nil {
			t.Fatal(err)
		}
		long, err := new(solver.Solver).Solve(all, terms, 2)
		if err != nil {
			t.Fatal(err)
		}
		if long > short {
			t.Errorf("problem %d: %v after one look, %v after all", k, short, long)
		}
		if long < short {
			stopped++
		}
	}
	if stopped < 10 {
		t.Errorf("of 20 searches %d went on after one look", stopped)
	}
}

// The paper's own ways are those of a network that sees the patches themselves, too, in other
// rounds than ours.
func TestThePapersRounds(t *testing.T) {
	dev, e := testDevice(t), encoder(t)
	for _, paper := range []bool{false, true} {
		for _, batch := range []int{2, 6} {
			c := tiny()
			c.Head, c.Rounds, c.Batch = Both, 12, batch
			c.Binary, c.BinaryWeight, c.LinearFeatures, c.PaperRounds = true, 1, paper, paper
			equalsNaive(t, dev, c, e, noise(c, e))
		}
	}
	// A puzzle that is given in its right order is shown; one that has come into it is not.
	c := tiny()
	c.Head, c.Rounds, c.Batch, c.PaperRounds = Both, 12, 2, true
	b := noise(c, e)
	for p := range b.Shuffles {
		b.Shuffles[p] = puzzle.Identity(c.cells())
	}
	params := nn.NewParams(dev, 1)
	if err := c.Declare(e, params); err != nil {
		t.Fatal(err)
	}
	trainer, err := NewTrainer(dev, c, e, params, nil, train.Group{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close()
	result, err := trainer.Step(0, b)
	if err != nil || !(result.Loss > 0) {
		t.Errorf("puzzles given in order: loss %v, %v", result.Loss, err)
	}
}
