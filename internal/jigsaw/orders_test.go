package jigsaw

import (
	"context"
	"math"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
)

// kway is a game of K-way puzzles.
func kway(t *testing.T, k int) Config {
	t.Helper()
	c := tiny()
	c.Head = KWay
	var err error
	c.Orders, err = puzzle.Select(t.Context(), seed.Rand(5, "orders"), c.cells(), k, puzzle.MinDistance)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A step of K-way puzzles is that of a classifier that sees the patches themselves in order: loss,
// gradients and answers.
func TestKWayIsAClassifier(t *testing.T) {
	dev, e, c := testDevice(t), encoder(t), kway(t, 7)
	b := noise(c, e)
	r := seed.Rand(9, "test")
	for p := range b.Shuffles {
		b.Shuffles[p] = c.Draw(r, 1)
	}
	params := nn.NewParams(dev, 1)
	if err := c.Declare(e, params); err != nil {
		t.Fatal(err)
	}
	tr, err := NewTrainer(dev, c, e, params, nil, train.Group{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	result, got := gradients(t, tr, params, b)

	// The classifier, from its definition.
	n, size := c.cells(), elements(e)
	g := nn.NewGraph(nn.Train, device.Float32)
	f := g.ReLU(g.Linear("puzzle.feature", e.Encode(g, g.Input("patches", patches(e, c.Batch*n)...)), c.Features, true))
	h := c.head(g, f, c.Batch)
	whole, err := nn.Compile(dev, g, params, nn.Options{Outputs: map[string]*nn.Node{"orders": h.orders}, Loss: h.loss})
	if err != nil {
		t.Fatal(err)
	}
	var images, truth []float32
	for p, shuffle := range b.Shuffles {
		for _, patch := range shuffle {
			images = append(images, b.Patches[(p*n+patch)*size:][:size]...)
		}
		for k, order := range c.Orders {
			if order.Distance(shuffle) == 0 {
				truth = append(truth, float32(k))
			}
		}
	}
	for name, values := range map[string][]float32{"patches": images, "truth": truth} {
		if err := whole.Set(name, values); err != nil {
			t.Fatal(err)
		}
	}
	if err := whole.Forward(); err != nil {
		t.Fatal(err)
	}
	if err := whole.Backward(); err != nil {
		t.Fatal(err)
	}
	scores := make([]float32, c.Batch*len(c.Orders))
	if err := whole.Read("orders", scores); err != nil {
		t.Fatal(err)
	}
	loss, placed := 0.0, puzzle.Score{}
	for p, shuffle := range b.Shuffles {
		row := scores[p*len(c.Orders):][:len(c.Orders)]
		sum, best := 0.0, 0
		for k, x := range row {
			sum += math.Exp(float64(x))
			if x > row[best] {
				best = k
			}
		}
		loss += (math.Log(sum) - float64(row[int(truth[p])])) / float64(c.Batch)
		placed.Add(c.Orders[best], shuffle)
	}
	if math.Abs(result.Loss-loss) > 1e-5*loss {
		t.Errorf("loss %v, of the classifier %v", result.Loss, loss)
	}
	if _, _, want := placed.Shares(); result.Metrics[0].Value != want {
		t.Errorf("patches in place %v, by the highest scores %v", result.Metrics[0].Value, want)
	}
	for name, g := range got {
		want, err := params.Grad(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if math.Abs(float64(g[i]-want[i])) > 1e-4*math.Abs(float64(want[i]))+1e-6 {
				t.Errorf("gradient of %s[%d]: %v, of the classifier %v", name, i, g[i], want[i])
				break
			}
		}
	}
	differences(t, tr, params, b, got)
}

// heldNoise is items of noise.
type heldNoise struct {
	c Config
	e Backbone
	n int
}

func (h heldNoise) Len() int { return h.n }

func (h heldNoise) Cut(i int, _ puzzle.Grid, patches []float32) (string, error) {
	r := seed.Rand(uint64(i), "item")
	for k := range patches {
		patches[k] = float32(r.NormFloat64())
	}
	return "noise", nil
}

// Whatever the head, a game with orders plays and answers among these alone, and its chance is
// theirs.
func TestOnlyOrders(t *testing.T) {
	dev, e := testDevice(t), encoder(t)
	for _, head := range []string{KWay, Paper, Symmetric, Both} {
		c := kway(t, 7)
		c.Head, c.Binary, c.Shuffles = head, head == Both, 3
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		params := nn.NewParams(dev, 1)
		if err := c.Declare(e, params); err != nil {
			t.Fatal(err)
		}
		p, err := NewPlayer(dev, c, e, params, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		find := c.Orders.Finder()
		for i := range 4 {
			if _, _, err := p.play(heldNoise{c, e, 4}, i, c.rounds(), func(_ int, g *game) {
				for q, shuffle := range g.shuffles {
					if find(shuffle) < 0 || find(g.puzzles[q].Answer()) < 0 {
						t.Errorf("%s: puzzle %v, answer %v: not among the orders", head, shuffle, g.puzzles[q].Answer())
					}
				}
			}, new(int)); err != nil {
				t.Fatal(err)
			}
		}
		ev, err := p.Evaluate(context.Background(), heldNoise{c, e, 4})
		if err != nil {
			t.Fatal(err)
		}
		if len(ev.Rounds) != 1 || math.Abs(ev.Chance.Correct-1.0/7) > 1e-12 || ev.Ceiling.Correct != 1 {
			t.Errorf("%s: %+v", head, ev)
		}
		p.Close()
		params.Close()
	}
}

func TestCheckOfOrders(t *testing.T) {
	good := kway(t, 7)
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"no orders":         func(c *Config) { c.Orders = nil },
		"binary terms":      func(c *Config) { c.Binary = true },
		"column sum":        func(c *Config) { c.ColSum = 1 },
		"orders of another": func(c *Config) { c.Grid = puzzle.Grid{2, 2} },
	} {
		c := good
		if change(&c); c.Check() == nil {
			t.Errorf("%s is let pass", name)
		}
	}
}
