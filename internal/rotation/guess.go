package rotation

import (
	"context"
	"errors"
	"fmt"
	"image"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/tiles"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A guesser says which rotation it was, with trained weights. Of each case it is shown the crop in
// the middle, turned in every way.
type guesser struct {
	config  *Config
	turns   []turn
	program *nn.Program
	crop    []float32
	turned  []float32
	logits  []float32
}

// newGuesser compiles the program. It lies in the memory of another, if there is one.
func newGuesser(dev device.Device, c *Config, params *nn.Params, share *nn.Program, memory int64) (*guesser, error) {
	voxels := c.Crop[0] * c.Crop[1] * c.Crop[2]
	g := &guesser{config: c, turns: turns(c.Rotations), crop: make([]float32, voxels), turned: make([]float32, voxels), logits: make([]float32, c.Rotations)}
	graph := nn.NewGraph(nn.Eval, dev.Activations())
	var err error
	g.program, err = nn.Compile(dev, graph, params, nn.Options{
		Outputs: map[string]*nn.Node{"logits": c.logits(graph, 1)}, Share: share, MemoryLimit: memory,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the network for crops of %v: %w", c.Crop, err)
	}
	return g, nil
}

// guess calls f for every rotation of a case, with what the network takes it for.
func (g *guesser) guess(of *prepared.Case, f func(truth, answer int)) error {
	err := g.config.centre(g.crop, of)
	for class, t := range g.turns {
		if err == nil {
			t.apply(g.turned, g.crop, g.config.Crop[0])
			err = g.program.Set("image", g.turned)
		}
		if err == nil {
			err = g.program.Forward()
		}
		if err == nil {
			err = g.program.Read("logits", g.logits)
		}
		if err != nil {
			return fmt.Errorf("case %s: %w", of.ID, err)
		}
		f(class, best(g.logits))
	}
	return nil
}

// evaluate counts how many of n rotations are told right.
func (g *guesser) evaluate(ctx context.Context, cases []*prepared.Case) (right, n int, err error) {
	if len(cases) == 0 {
		return 0, 0, errors.New("there are no cases to turn")
	}
	for _, c := range cases {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		if err := g.guess(c, func(truth, answer int) {
			if n++; truth == answer {
				right++
			}
		}); err != nil {
			return 0, 0, err
		}
	}
	return right, n, nil
}

// evaluator is a guesser on the list of pretext tasks.
type evaluator struct {
	*guesser
	params *nn.Params
	notes  []string
}

// open brings a checkpoint back.
func open(dev voxsaw.Device, path string, o pretext.OpenOptions) (*evaluator, error) {
	c := defaults()
	d, params, err := pretext.Restore(dev, path, name, c)
	if err != nil {
		return nil, err
	}
	e := &evaluator{params: params}
	if o.Rounds > 1 || o.Items > 0 {
		e.notes = append(e.notes, fmt.Sprintf("a crop of each case is turned in all %d ways, and looked at once", c.Rotations))
	}
	if e.guesser, err = newGuesser(d, c, params, nil, o.Memory); err != nil {
		params.Close()
		return nil, err
	}
	return e, nil
}

// Close implements [pretext.Evaluator].
func (e *evaluator) Close() {
	e.program.Close()
	e.params.Close()
}

// Notes implements [pretext.Evaluator].
func (e *evaluator) Notes() []string { return e.notes }

// Evaluate implements [pretext.Evaluator].
func (e *evaluator) Evaluate(ctx context.Context, cases []*prepared.Case) (pretext.Evaluation, error) {
	right, n, err := e.evaluate(ctx, cases)
	if err != nil {
		return pretext.Evaluation{}, err
	}
	share, chance := float64(right)/float64(n), 1/float64(e.config.Rotations)
	return pretext.Evaluation{
		Cases: len(cases), Items: n, Measures: []pretext.Measure{{Key: "correct", Title: "correct"}},
		Rounds: [][]float64{{share}}, Chance: []float64{chance},
		Record: struct {
			Cases   int     `json:"cases"`
			Crops   int     `json:"crops"`
			Correct float64 `json:"correct"`
			Chance  float64 `json:"chance"`
		}{len(cases), n, share, chance},
	}, nil
}

// Sizes of the picture, in pixels.
const (
	tileSize = 96
	tileGap  = 6
	margin   = 24
	columns  = 8 // tiles in a row
)

// Picture implements [pretext.Evaluator]: the middle slice of the crop, turned in every way. What
// the network takes for another rotation has a red frame.
func (e *evaluator) Picture(of *prepared.Case) (pretext.Picture, error) {
	rows := (len(e.turns) + columns - 1) / columns
	page := tiles.NewPage(2*margin+min(columns, len(e.turns))*(tileSize+tileGap)-tileGap, 2*margin+rows*(tileSize+tileGap)-tileGap)
	right := 0
	err := e.guess(of, func(truth, answer int) {
		corner := image.Pt(margin+truth%columns*(tileSize+tileGap), margin+truth/columns*(tileSize+tileGap))
		place := image.Rectangle{Max: image.Pt(tileSize, tileSize)}.Add(corner)
		page.Tile(place, tiles.Slice(e.turned, e.config.Crop))
		if truth == answer {
			right++
		} else {
			page.Frame(place, 3, tiles.Wrong)
		}
	})
	return pretext.Picture{
		Image:   page.RGBA,
		Caption: fmt.Sprintf("The crop in the middle of case %s, turned in all %d ways, the first not at all: %d are told right. A red frame marks the others.", of.ID, len(e.turns), right),
	}, err
}
