package puzzle2d

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/voc"
	"github.com/voxsaw/voxsaw/sample"
)

// A detector finds objects with trained weights, photograph by photograph: one program makes the
// maps, another looks at some regions at a time.
type detector struct {
	config     *Detection
	data       marked
	maps, rest *nn.Program

	photograph []float32 // (1, 3, height, width)
	values     []float32 // of the maps
	regions    []float32 // (rows, 5)
	scores     []float32 // (rows, classes + 1)
	moves      []float32 // (rows, 4 (classes + 1))
}

// newDetector compiles both. They lie in the memory of a training step, if there is one: then the
// detector is not to be used in the middle of a step.
func newDetector(dev device.Device, c *Detection, data marked, params *nn.Params, share *nn.Program,
	memory int64) (*detector, error) {
	net, err := c.net()
	if err != nil {
		return nil, err
	}
	width, height := data.Size()
	rows := c.Images * c.Regions
	t := &detector{config: c, data: data, photograph: make([]float32, 3*height*width), regions: make([]float32, 5*rows)}
	g := nn.NewGraph(nn.Eval, dev.Activations())
	maps, scale := net.Maps(g, g.Input("photographs", 1, 3, 1, height, width))
	if g.Err() != nil {
		return nil, g.Err()
	}
	shape := maps.Shape()
	t.values = make([]float32, shape.Elements())
	o := nn.Options{MemoryLimit: memory, Share: share, Outputs: map[string]*nn.Node{"maps": maps}}
	if t.maps, err = nn.Compile(dev, g, params, o); err != nil {
		return nil, fmt.Errorf("preparing to look at photographs of %dx%d: %w", width, height, err)
	}
	g = nn.NewGraph(nn.Eval, dev.Activations())
	scores, moves := net.Detect(g, net.Regions(g, g.Input("maps", shape...), g.Input("regions", rows, 5), scale),
		len(c.Classes))
	o.Outputs = map[string]*nn.Node{"scores": scores, "moves": moves}
	if t.rest, err = nn.Compile(dev, g, params, o); err != nil {
		t.close()
		return nil, fmt.Errorf("preparing to look at %d regions: %w", rows, err)
	}
	t.scores, t.moves = make([]float32, scores.Shape().Elements()), make([]float32, moves.Shape().Elements())
	return t, nil
}

func (t *detector) close() {
	if t.rest != nil {
		t.rest.Close()
	}
	t.maps.Close()
}

// found is a box of a class on a photograph.
type found struct {
	class int
	voc.Detection
}

// find finds objects on a photograph, the most confident first.
func (t *detector) find(photo int) ([]found, error) {
	if err := t.data.show(t.photograph, 0, photo, t.config.Input, false, false); err != nil {
		return nil, err
	}
	err := t.maps.Set("photographs", t.photograph)
	if err == nil {
		err = t.maps.Forward()
	}
	if err == nil {
		err = t.maps.Read("maps", t.values)
	}
	if err != nil {
		return nil, err
	}
	boxes := t.config.proposals.of(photo)
	candidates := make([][]found, len(t.config.Classes))
	for part := range slices.Chunk(boxes, t.config.Images*t.config.Regions) {
		if err := t.look(photo, part, candidates); err != nil {
			return nil, err
		}
	}
	return t.config.keep(candidates)
}

// look looks at some regions of the photograph whose maps were made, and adds what may be there to
// the candidates of each class.
func (t *detector) look(photo int, boxes []voc.Box, candidates [][]found) error {
	clear(t.regions)
	for row, box := range boxes {
		t.data.region(t.regions[5*row:5*row+5], 0, photo, box)
	}
	err := t.rest.Set("maps", t.values)
	if err == nil {
		err = t.rest.Set("regions", t.regions)
	}
	if err == nil {
		err = t.rest.Forward()
	}
	if err == nil {
		err = t.rest.Read("scores", t.scores)
	}
	if err == nil {
		err = t.rest.Read("moves", t.moves)
	}
	if err != nil {
		return err
	}
	c, n := t.config, len(t.config.Classes)+1
	width, height := t.data.Original(photo)
	for row, box := range boxes {
		shares := softmax(t.scores[row*n : (row+1)*n])
		for class := range c.Classes {
			confidence := shares[class+1]
			if !(confidence >= c.MinConfidence) {
				continue
			}
			var move [4]float64
			for i := range move {
				v := float64(t.moves[4*(row*n+class+1)+i])
				move[i] = v*c.BoxDeviation[4*class+i] + c.BoxMean[4*class+i]
			}
			candidates[class] = append(candidates[class],
				found{class, voc.Detection{Photo: photo, Box: moved(box, move, width, height), Confidence: confidence}})
		}
	}
	return nil
}

// softmax is that of a row.
func softmax(row []float32) []float64 {
	largest, sum := slices.Max(row), 0.0
	shares := make([]float64, len(row))
	for i, v := range row {
		shares[i] = math.Exp(float64(v - largest))
		sum += shares[i]
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares
}

// keep drops boxes that overlap with more confident ones of their class, and all but the most
// confident of a photograph.
func (c *Detection) keep(candidates [][]found) (kept []found, err error) {
	for _, of := range candidates {
		boxes, confidences := make([]voc.Box, len(of)), make([]float64, len(of))
		for i, f := range of {
			boxes[i], confidences[i] = f.Box, f.Confidence
		}
		stay, err := voc.Suppress(boxes, confidences, c.Suppress)
		if err != nil {
			return nil, err
		}
		for _, i := range stay {
			kept = append(kept, of[i])
		}
	}
	slices.SortStableFunc(kept, func(a, b found) int { return cmp.Compare(b.Confidence, a.Confidence) })
	return kept[:min(len(kept), c.MostDetections)], nil
}

// precision scores the detector on photographs.
func (t *detector) precision(ctx context.Context, photos []int, progress func(done, total int)) (Precision, error) {
	all := make([]voc.Detections, len(t.config.Classes))
	for k, photo := range photos {
		if err := ctx.Err(); err != nil {
			return Precision{}, err
		}
		list, err := t.find(photo)
		if err != nil {
			return Precision{}, fmt.Errorf("%s: %w", t.data.Name(photo), err)
		}
		for _, f := range list {
			all[f.class].Found = append(all[f.class].Found, f.Detection)
		}
		for _, o := range t.data.Record(photo).Objects {
			all[o.Class].Truth = append(all[o.Class].Truth, voc.Object{Photo: photo, Box: voc.Box(o.Box),
				Difficult: o.Difficult})
		}
		if progress != nil {
			progress(k+1, len(photos))
		}
	}
	return t.data.precision(Detect, photos, t.data.positives(photos), func(class int, rule voc.Rule) (float64, error) {
		return all[class].AveragePrecision(rule)
	})
}

// Score implements [Finetuning]. The settings are resolved ones.
func (c *Detection) Score(ctx context.Context, dev voxsaw.Device, path string, data sample.Data, memory int64,
	progress func(done, total int)) (Precision, error) {
	m, err := markedOf(data)
	if err != nil {
		return Precision{}, err
	}
	d, err := device.From(dev)
	if err != nil {
		return Precision{}, err
	}
	width, height := m.Size()
	g := nn.NewGraph(nn.Eval, d.Activations())
	if _, err := c.network(g, height, width); err != nil {
		return Precision{}, err
	}
	params, err := restore(d, g, path)
	if err != nil {
		return Precision{}, err
	}
	defer params.Close()
	t, err := newDetector(d, c, m, params, nil, memory)
	if err != nil {
		return Precision{}, err
	}
	defer t.close()
	return t.precision(ctx, m.test, progress)
}
